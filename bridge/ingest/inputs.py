"""What a user gives to ingest: paths with a way to read them, or tables and rollouts, which are recorded first."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from bridge.episodes.read import Failure
from catalog.database.postgresql import is_server
from wshard.core.episode.protocol import EpisodeAddress, parse_read_as, read_as
from wshard.core.messages import shown
from wshard.errors import IngestError, LayoutError
from wshard.formats.lane_map import encode_lane_map
from wshard.formats.layouts.named import layout_reference, table_reference
from wshard.formats.layouts.options import TableOptions, is_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.archive import Archive
    from bridge.episodes.discover import Place

_RECORDED = "episodes"  # the folder in that of an archive


@dataclass(frozen=True)
class IngestInputs:
    """Paths to ingest, and what of the data in memory could not be recorded."""

    paths: Sequence[Any]
    failed: Sequence[Failure] = ()


def read_inputs(
    archive: Archive,
    data: Any,
    columns: dict[str, Any],
    *,
    layout: str | os.PathLike[str] | None = None,
    into: str | os.PathLike[str] | None = None,
    lane_map: Mapping[str, str] | None = None,
) -> IngestInputs:
    """Return the paths to ingest; columns: TableOptions by name.

    Raises IngestError, LayoutError, and what `record` raises.
    """
    columns = {name: value for name, value in columns.items() if value}
    table = TableOptions(**columns | {"actions": _listed(columns.get("actions", ()))}) if columns else None
    if layout is not None and table is not None:
        raise LayoutError(f"expected a layout or columns of a table, found both: {layout} and {', '.join(columns)}")
    in_memory = is_table(data) or isinstance(data, Mapping)
    if not in_memory and isinstance(data, Iterable) and not isinstance(data, (str, bytes, os.PathLike)):
        first, data = _first_of(data)
        in_memory = isinstance(first, Mapping)
        data = data if in_memory else [*data]
    if in_memory:
        if layout is not None or lane_map:
            raise LayoutError("expected the paths of files with a layout or a lane_map, found data in memory")
        return _recorded(archive, data, table, into)
    if into is not None:
        raise IngestError("into: expected data in memory to record there, found paths, which are read in place")
    how = layout_reference(layout) if layout is not None else table_reference(table) if table else ""
    paths, renamed = listed_paths(data), encode_lane_map(lane_map or {})
    return IngestInputs([_read_as(path, how, renamed) for path in paths] if how or renamed else paths)


def listed_paths(paths: Place | Iterable[Place]) -> list[Place]:
    """Return the paths in one path or several. Raises IngestError for anything else."""
    given: Any = paths
    is_single = isinstance(given, str | bytes | os.PathLike | EpisodeAddress) or not isinstance(given, Iterable)
    listed = [given] if is_single else list(given)
    for path in listed:
        if not isinstance(path, str | os.PathLike | EpisodeAddress):
            raise IngestError(f"expected files and folders by their paths, found {shown(path)}")
    return listed


def _recorded(
    archive: Archive, data: Any, table: TableOptions | None, into: str | os.PathLike[str] | None
) -> IngestInputs:
    if into is None and is_server(str(archive.place.database)):
        raise IngestError("expected into=, a folder for the episodes: an archive on a server has none of its own")
    from wshard.training.conversion.record import record

    folder = os.fspath(archive.folder / _RECORDED if into is None else into)
    done = record(data, folder, table)
    return IngestInputs(
        [folder] if done.recorded or done.skipped else [],
        [Failure.of(error, EpisodeAddress(name)) for name, error in done.failed.items()],
    )


def _read_as(path: Any, how: str, renamed: str) -> EpisodeAddress:
    """Return an address that is read by a layout, or else as it says itself, with these names of lanes."""
    address = path if isinstance(path, EpisodeAddress) else EpisodeAddress.parse(os.fspath(path))
    stated, stated_map = parse_read_as(address.read_as)
    return replace(address, read_as=read_as(how or stated, renamed or ("" if how else stated_map)))


def _listed(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _first_of(data: Iterable[Any]) -> tuple[Any, Iterable[Any]]:
    """Return the first value of an iterable, None if it is empty, and the same values again."""
    values = iter(data)
    first = next(values, None)
    return first, chain([] if first is None else [first], values)
