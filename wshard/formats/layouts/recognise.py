"""Recognise the layout of a location by the names of its arrays."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from wshard.errors import WShardError
from wshard.formats.base import FormatMatcher
from wshard.formats.hdf5.kinds import SIGNATURE
from wshard.formats.hdf5.nodes import open_hdf5, translate_errors
from wshard.formats.layouts.layout import SUFFIXES
from wshard.formats.layouts.named import find_layout, shipped_layouts
from wshard.formats.look import look_at
from wshard.formats.table import LAYOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.core.files.schemes import Location
    from wshard.formats.layouts.layout import EpisodeLayout
    from wshard.formats.look import LocationLook

_MAX_NAMES: Final = 512  # of one group
_MAX_DEPTH: Final = 4
_MAX_PATHS: Final = 4096  # of a file
_MAX_SIZE: Final = 1 << 26  # bytes of a text that is read to recognise it


def layout_matchers() -> tuple[FormatMatcher, ...]:
    """Return a matcher for each layout of this package that can be recognised."""
    return tuple(
        FormatMatcher(f"{LAYOUT}{name}", partial(_matches, layout), own=True, whole=False)
        for name, layout in shipped_layouts().items()
        if layout.match.arrays
    )


def matcher_of(reference: str) -> FormatMatcher:
    """Return the matcher of a layout that is named: without arrays to look for, every file of its kind counts."""
    layout = find_layout(reference)
    matches = _matches if layout.match.arrays else _is_of_kind
    return FormatMatcher(reference, partial(matches, layout), own=True, whole=False)


def _is_of_kind(layout: EpisodeLayout, location: Location | LocationLook) -> bool:
    look = look_at(location)
    if layout.container == "npy":
        return look.is_folder and any(name.endswith(".npy") for name in look.names)
    return not look.is_folder and look.suffix in (layout.match.suffixes or SUFFIXES[layout.container])


def _matches(layout: EpisodeLayout, location: Location | LocationLook) -> bool:
    look = look_at(location)
    suffixes = layout.match.suffixes
    return (not suffixes or look.suffix in suffixes) and layout.match.fits(array_paths(look, layout.container))


def array_paths(look: LocationLook, container: str) -> frozenset[str]:
    """Return the paths of the arrays in a container of this kind; none for another or a damaged one."""
    cache = look.found.setdefault("array paths", {})
    if container not in cache:
        cache[container] = _list_paths(look, container)
    found: frozenset[str] = cache[container]
    return found


def _list_paths(look: LocationLook, container: str) -> frozenset[str]:
    if container == "npz":
        return look.array_names
    if container == "hdf5":
        return _in_hdf5(look)
    if container in ("table", "json"):
        return _in_table(look, container)
    if container == "npy" and look.is_folder:
        return frozenset(name.removesuffix(".npy") for name in look.names if name.endswith(".npy"))
    return frozenset()


def _in_hdf5(look: LocationLook) -> frozenset[str]:
    if not look.head.startswith(SIGNATURE):
        return frozenset()
    try:
        with translate_errors(str(look.place)), open_hdf5(look.place) as file:
            return frozenset(islice(_below(file, "", 0), _MAX_PATHS))
    except (WShardError, OSError):
        return frozenset()


def _in_table(look: LocationLook, kind: str) -> frozenset[str]:
    from wshard.formats.layouts.tables import open_table  # noqa: PLC0415  (pyarrow)

    if look.suffix not in SUFFIXES[kind] or look.is_folder:
        return frozenset()
    try:
        if look.suffix not in (".parquet", ".feather", ".arrow") and look.place.status().size > _MAX_SIZE:
            return frozenset()
        table = open_table(kind, look.place)
        try:
            return frozenset(table.paths())
        finally:
            table.close()
    except (WShardError, OSError):
        return frozenset()


def _below(group: Any, prefix: str, depth: int) -> Iterator[str]:
    """Yield the paths of the arrays of the first members of groups, and the names of attributes after "@"."""
    yield from (f"{prefix}@{name}" for name in group.attrs)
    for name in islice(group, _MAX_NAMES):
        node = group.get(name) if group.get(name, getlink=True).__class__.__name__ == "HardLink" else None
        if hasattr(node, "keys") and depth < _MAX_DEPTH:
            yield from _below(node, f"{prefix}{name}/", depth + 1)
        elif hasattr(node, "shape"):
            yield f"{prefix}{name}"
