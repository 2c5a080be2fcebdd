"""Files for tests: episodes as bytes, and the same with other blocks or other JSON in them."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

from wshard import ShardReader, ShardWriter, open_wshard, save_wshard

if TYPE_CHECKING:
    from wshard import Episode
    from wshard.core.container.codec_plan import Compression


def saved(ep: Episode, compression: Compression = "none") -> bytes:
    file = io.BytesIO()
    save_wshard(ep, file, compression)
    return file.getvalue()


def with_blocks(data: bytes, replace: dict[str, bytes | None], role: int = 5) -> bytes:
    """Return the file with other blocks, written by the container alone."""
    file = io.BytesIO()
    reader = ShardReader(data)
    with ShardWriter(file, role=role) as writer:
        for name, content in ({n: reader.read_entry(n) for n in reader.names()} | replace).items():
            if content is not None:
                writer.write_entry(name, content)
    return file.getvalue()


def with_json(data: bytes, block: str, **changes: object) -> bytes:
    with open_wshard(data) as file:
        return with_blocks(data, {block: json.dumps(json.loads(file.shard.read_entry(block)) | changes).encode()})
