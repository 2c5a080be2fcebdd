"""Detect the format of an HDF5 file by its groups, or without the library by names in its bytes."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from wshard.errors import MissingExtraError, WShardError
from wshard.formats.hdf5.nodes import child, find, open_hdf5, translate_errors
from wshard.formats.look import look_at

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location
    from wshard.formats.look import LocationLook

SIGNATURE: Final = b"\x89HDF\r\n\x1a\n"

WORLD_MODEL: Final = "hdf5"
"""The format of columns with `ep_len` and `ep_offset`."""

_MAX_NAMES: Final = 64
_TEXT_SIZE: Final = 1 << 20
_NUMBERED: Final = {
    "maniskill": (re.compile(r"traj_\d+"), "actions"),
    "minari": (re.compile(r"episode_\d+"), "terminations"),
}
"""The names of the groups of episodes, and what each of them has."""

_OF_D3RLPY: Final = "episode_terminals"  # of its version 1: ends that no other array has
_DEMO: Final = re.compile(r"(demo|episode|traj)_?\d+")
_TEXTS: Final = {
    WORLD_MODEL: re.compile(rb"ep_offset\0"),
    "robomimic": re.compile(rb"demo_\d|env_args"),
    "maniskill": re.compile(rb"traj_\d+\0"),
    "minari": re.compile(rb"episode_\d+\0"),
    "d4rl": re.compile(rb"terminals"),
    "aloha": re.compile(rb"qpos\0"),
}


def hdf5_kind(location: Location | LocationLook) -> str:
    """Return the name of the format of an HDF5 file, "" for other formats and other files."""
    look = look_at(location)
    if "hdf5" not in look.found:
        look.found["hdf5"] = _find_kind(look.place) if look.head.startswith(SIGNATURE) else ""
    kind: str = look.found["hdf5"]
    return kind


def _find_kind(place: Place) -> str:
    try:
        with translate_errors(str(place)), open_hdf5(place) as file:
            return _kind_of(file, frozenset(islice(file, _MAX_NAMES)))
    except (WShardError, OSError) as error:
        # Without the library, or if the file is damaged or being written, opening it reports the error.
        if not isinstance(error, MissingExtraError | ValueError | BlockingIOError):
            return ""
    try:
        return _kind_by_text(place)
    except (WShardError, OSError):
        return ""


def _kind_of(file: Any, names: AbstractSet[str]) -> str:
    if "ep_len" in file and "ep_offset" in file:
        return WORLD_MODEL
    data = child(file, "data", "") if "data" in names else None
    if data is not None and hasattr(data, "keys") and ("env_args" in data.attrs or _has(data, _DEMO)):
        return "robomimic"
    for kind, (name, needed) in _NUMBERED.items():
        if any(name.fullmatch(member) and find(file, f"{member}/{needed}", "") is not None for member in names):
            return kind
    if _is_aloha(file, names):
        return "aloha"
    has_flat_rows = {"observations", "actions"} <= names and ("terminals" in names or "timeouts" in names)
    return "d4rl" if has_flat_rows and _OF_D3RLPY not in names else ""


def _is_aloha(file: Any, names: AbstractSet[str]) -> bool:
    """Return True for one episode with a group of observations and actions; those of qpos may have other names."""
    observations = child(file, "observations", "") if "observations" in names else None
    if observations is None or not hasattr(observations, "keys"):
        return False
    return "action" in names or ("actions" in names and child(observations, "qpos", "") is not None)


def _has(group: Any, name: re.Pattern[str]) -> bool:
    return any(name.fullmatch(member) for member in islice(group, _MAX_NAMES))


def _kind_by_text(place: Place) -> str:
    size = place.status().size
    text = b"".join(place.read_ranges([(0, _TEXT_SIZE), (max(size - _TEXT_SIZE, 0), size)]))
    return next((kind for kind, name in _TEXTS.items() if name.search(text)), "")
