"""Recognise the layout of a location by the names of its arrays."""

from __future__ import annotations

from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from wshard.errors import LimitError, WShardError
from wshard.formats.base import FormatMatcher
from wshard.formats.hdf5.kinds import SIGNATURE
from wshard.formats.hdf5.nodes import open_hdf5, translate_errors
from wshard.formats.layouts.containers import open_container
from wshard.formats.layouts.layout import FOLDERS, SUFFIXES
from wshard.formats.layouts.memmap import META, STORAGE, MemmapArrays
from wshard.formats.layouts.named import find_layout, shipped_layouts
from wshard.formats.look import look_at
from wshard.formats.table import LAYOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location
    from wshard.formats.layouts.columns import ArrayFile
    from wshard.formats.layouts.layout import EpisodeLayout
    from wshard.formats.look import LocationLook

_MAX_NAMES: Final = 512  # of one group
_MAX_DEPTH: Final = 4
_MAX_PATHS: Final = 4096  # of a file
_MAX_SIZE: Final = 1 << 26  # bytes of a text that is read to recognise it


def layout_matchers() -> tuple[FormatMatcher, ...]:
    """Return a matcher for each layout of this package that can be recognised."""
    return tuple(
        FormatMatcher(f"{LAYOUT}{name}", partial(_matches, layout), own=True, whole=layout.container == "memmap")
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
    if layout.container in FOLDERS:
        return look.is_folder and any(name.endswith(SUFFIXES[layout.container]) for name in look.names)
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
    if container == "memmap" and look.is_folder and {META, STORAGE} & look.names:
        return _read_paths(look, MemmapArrays)
    return frozenset()


@cache
def _exact_names() -> frozenset[str]:
    """Return the names of arrays that layouts look for, which may come after many others in a file."""
    found = (layout.match for layout in shipped_layouts().values() if layout.container == "hdf5")
    return frozenset(name for match in found for name in (*match.arrays, *match.without) if not {*"*?[@"} & {*name})


def _in_hdf5(look: LocationLook) -> frozenset[str]:
    if not look.head.startswith(SIGNATURE):
        return frozenset()
    try:
        with translate_errors(str(look.place)), open_hdf5(look.place) as file:
            return frozenset(islice(_below(file, "", 0), _MAX_PATHS)) | {
                name for name in _exact_names() if name in file
            }
    except (WShardError, OSError):
        return frozenset()


def _in_table(look: LocationLook, kind: str) -> frozenset[str]:
    def open_small(place: Place) -> ArrayFile:
        if look.suffix not in (".parquet", ".feather", ".arrow") and place.status().size > _MAX_SIZE:
            raise LimitError(f"{place}: expected at most {_MAX_SIZE} bytes to recognise, found more")
        return open_container(kind, place)

    return frozenset() if look.suffix not in SUFFIXES[kind] or look.is_folder else _read_paths(look, open_small)


def _read_paths(look: LocationLook, open_: Callable[[Place], ArrayFile]) -> frozenset[str]:
    """Return the paths of arrays and the names of attributes, none for what cannot be opened."""
    try:
        file = open_(look.place)
        try:
            return frozenset((*file.paths(), *(f"@{name}" for name in file.attributes())))
        finally:
            file.close()
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
