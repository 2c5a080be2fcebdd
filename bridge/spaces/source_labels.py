"""Labels of an episode that may tell its source: robots and places in its metadata, its environment, its folders."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from bridge.support.batches import batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from catalog.catalog import Catalog
    from embedders.units import OtherScale
    from wshard.core.episode.protocol import EpisodeAddress

_NAMES: Final = re.compile(
    r"(?i)(^|[._ -])(robot|embodiment|platform|hardware|location|station|site|lab|building|workcell)"
    r"([._ -]?(id|name|type|model|serial))?$"
)
_FOLDERS: Final = ("folder", "folder above", "folder above both")


def source_labels(metadata: Mapping[str, Any], env_id: str, address: EpisodeAddress | None) -> dict[str, str]:
    """Return the labels of an episode by field, those that say most first."""
    labels = {f"meta.{name}": value for name, value in _texts(metadata) if _NAMES.search(name)}
    if env_id:
        labels["env"] = env_id
    if address is not None:
        parts = PurePosixPath(address.uri.replace("\\", "/")).parts
        names = parts[::-1] if address.key else parts[-2::-1]  # a file of one episode is no source
        labels |= dict(zip(_FOLDERS, filter(None, names), strict=False))
    return labels


def _texts(metadata: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for name, value in metadata.items():
        if isinstance(value, dict):
            yield from _texts(value, f"{above}{name}.")
        elif isinstance(value, str | int) and str(value):
            yield f"{above}{name}", str(value)


def load_labels(
    catalog: Catalog, layout_ids: Sequence[int], sources: Sequence[OtherScale]
) -> dict[int, dict[str, str]]:
    """Return what tells sources in the labels of the episodes of these layouts, by id; nothing where none tells any."""
    fields = {one.field for one in sources if one.labels}
    if not fields:
        return {}
    found: dict[int, dict[str, str]] = {}
    for ids in batches(catalog.query.ids_of(layout_ids)):
        for row in catalog.episodes.rows(ids).values():
            labels = source_labels(row.metadata, row.env_id, row.address)
            found[row.id] = {field: labels[field] for field in fields if field in labels}
    return found
