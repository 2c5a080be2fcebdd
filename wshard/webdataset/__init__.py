"""Windowed WebDataset shards for training, from episodes of any format: `shardify`, `ShardifyOptions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wshard.lazy import importer

if TYPE_CHECKING:
    from wshard.webdataset.export import ShardifyReport, shardify
    from wshard.webdataset.options import ShardifyOptions

__all__ = ["ShardifyOptions", "ShardifyReport", "shardify"]

__getattr__ = importer(
    "wshard.webdataset",
    {
        "ShardifyOptions": "wshard.webdataset.options",
        "ShardifyReport": "wshard.webdataset.export",
        "shardify": "wshard.webdataset.export",
    },
)


def __dir__() -> list[str]:
    """Return the names above, also those that were not used yet."""
    return sorted(__all__)
