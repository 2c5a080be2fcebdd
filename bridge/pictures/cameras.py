"""The cameras of an archive's episodes: lanes of images of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridge.episodes.pictures import is_camera
from bridge.spaces.lanes import block_name
from wshard.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog.catalog import Catalog
    from catalog.filters.where import Where


def find_cameras(catalog: Catalog, where: Where | str, lanes: Sequence[str] | None = None) -> dict[int, list[str]]:
    """Return the cameras of each layout of the matching episodes: those named, by default all.

    Raises QueryError if no episode has one.
    """
    layouts = catalog.query.layouts(where)
    found = {one.id: [lane.name for lane in one.lanes if is_camera(lane)] for one in layouts}
    if lanes is not None:
        found = {id_: [one for one in named if one in {block_name(lane, named) for lane in lanes}]
                 for id_, named in found.items()}  # fmt: skip
    if layouts and not any(found.values()):
        wanted = "a camera" if lanes is None else f"a camera of {', '.join(lanes)}"
        raise QueryError(f"pictures: expected episodes with {wanted} (a lane of images of bytes), found none")
    return {id_: named for id_, named in found.items() if named}
