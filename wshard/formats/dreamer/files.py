"""DreamerV3 replay files: .npz archives of arrays [T, ...].

Keys without a field of an Episode become blocks "aux/npz/KEY.npy", so that all keys survive a conversion to an episode
file and back; is_first and stepid are metadata. An .npz cannot hold predictions, residuals, environment or timebase.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.array_fields import DType
from wshard.core.files.file_object import OpenFilePlace
from wshard.core.files.schemes import place_of
from wshard.core.types import Array, Channel, Episode, Format
from wshard.errors import EpisodeError, FormatError, LaneError
from wshard.formats.npz import npy_bytes, parse_npy, read_npz, write_npz

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.episode.meta_reader import Declaration
    from wshard.core.files.schemes import Location, PathOrFile

OBSERVATION_KEYS: Final = ("image", "vector", "state", "proprio", "obs")
ACTION_KEYS: Final = ("action", "act", "act_disc", "act_cont")
REWARD: Final = "reward"
IS_FIRST: Final = "is_first"
IS_LAST: Final = "is_last"
IS_TERMINAL: Final = "is_terminal"
STEPID: Final = "stepid"

_FLAGS: Final = (IS_FIRST, IS_LAST, IS_TERMINAL)
_STEP_KEYS: Final = (*OBSERVATION_KEYS, *ACTION_KEYS, REWARD, *_FLAGS)
_NO_OBSERVATIONS: Final = ("discount", "done")
_EXTRA: Final = "aux/npz/"
_EXTRA_SUFFIX: Final = ".npy"
_MIN_NAME_PARTS: Final = 4  # TIME-UUID-SUCCESSOR-LENGTH


# ---- load ----------------------------------------------------------------------------------------------------------


def load_dreamer(path_or_file: Location, uuid: str | None = None) -> Episode:
    """Load all of one .npz file as an Episode; its id is `uuid`, else the one in the file's name, else the name itself.

    An is_first inside is not looked at: `load` and `open_source` cut there.

    observations: image, vector, state, proprio, obs, and every other key [T, n, ...]; actions: action, act, act_disc,
    act_cont; rewards: reward; terminations: is_terminal, else is_last; truncations: is_last where both are there.
    Nothing is unpickled. Raises FormatError for a damaged file, LaneError where keys differ in length,
    FileNotFoundError.
    """
    place = place_of(path_or_file)
    return episode_of(read_npz(place), uuid or id_of(place), where_of(place))


def where_of(location: Location) -> str:
    """Return what messages call a location."""
    return str(place_of(location))


def id_of(location: Location) -> str:
    """Return the id of the episode of a file: the uuid in its name, else the name; "unknown" for a file object."""
    place = place_of(location)
    if isinstance(place, OpenFilePlace):
        return "unknown"
    parts = place.stem.split("-")
    return parts[1] if len(parts) >= _MIN_NAME_PARTS and parts[1] else place.stem


def episode_of(arrays: Mapping[str, Array], id_: str, where: str) -> Episode:
    """Return the Episode of the arrays of one or several replay files."""
    length = length_of(arrays, where)
    parts: dict[str, dict[str, Array]] = {"observation": {}, "action": {}, "step": {}, "extra": {}}
    for key, array in arrays.items():
        parts[_part_of(key, array, length)][key] = array
    observations, steps = parts["observation"], parts["step"]
    ordered = [*(key for key in OBSERVATION_KEYS if key in observations), *observations]
    flags = {key: steps[key].astype(np.bool_) for key in _FLAGS if key in steps}
    metadata: dict[str, Any] = {IS_FIRST: flags[IS_FIRST]} if IS_FIRST in flags else {}
    return Episode(
        id=id_,
        length=length,
        observations={key: Channel.of(key, observations[key]) for key in ordered},
        actions={key: Channel.of(key, parts["action"][key]) for key in ACTION_KEYS if key in parts["action"]},
        rewards=steps.get(REWARD),
        terminations=flags.get(IS_TERMINAL, flags.get(IS_LAST)),
        truncations=flags.get(IS_LAST) if IS_TERMINAL in flags else None,
        metadata=metadata | ({STEPID: steps[STEPID]} if STEPID in steps else {}),
        blocks={f"{_EXTRA}{key}{_EXTRA_SUFFIX}": npy_bytes(array) for key, array in parts["extra"].items()},
        source_format=Format.DREAMER_V3,
    )


def length_of(arrays: Mapping[str, Array], where: str) -> int:
    """Return T: the longest first axis of the known keys, or of all keys if none is known.

    Raises FormatError if there are no timesteps, LaneError if known keys differ in length.
    """
    lengths = {key: array.shape[0] for key, array in arrays.items() if array.ndim}
    known_lengths = {key: lengths.get(key, 0) for key in arrays if key in _STEP_KEYS}
    length = max((known_lengths or lengths).values(), default=0)
    if not length:
        raise FormatError(f"{where}: expected arrays [T, ...] of at least one timestep, found {list(arrays)[:10]}")
    for key, steps in known_lengths.items():
        if steps != length:
            raise LaneError(f"{where}: {key!r}: length mismatch: expected {length} timesteps, found {steps}")
    return length


def find_lane(block: str, lane: Declaration, length: int) -> str:
    """Return the block that an observation or action becomes when its array is read again."""
    key = block.partition("/")[2]
    part = _part_of(key, np.broadcast_to(np.zeros((), lane.dtype.numpy_dtype), (length, *lane.shape)), length)
    names = {"observation": f"signal/{key}", "action": f"action/{key}", "step": key}
    return names.get(part, f"{_EXTRA}{key}{_EXTRA_SUFFIX}")


def _part_of(key: str, array: Array, length: int) -> str:
    """Return the part of an Episode that a key becomes; "extra" if there is none."""
    if array.shape[:1] != (length,) or array.dtype.kind not in "biuf" or array.dtype.itemsize > np.float64().itemsize:
        return "extra"
    if key in ACTION_KEYS:
        return "action"
    if key in (REWARD, *_FLAGS):
        return "step" if array.ndim == 1 else "extra"
    if key == STEPID:
        return "step" if array.ndim == 2 and array.dtype == np.uint8 else "extra"
    is_observation = key in OBSERVATION_KEYS or (array.ndim > 1 and key not in _NO_OBSERVATIONS)
    return "observation" if is_observation else "extra"


# ---- save ----------------------------------------------------------------------------------------------------------


def save_dreamer(ep: Episode, path_or_file: PathOrFile, *, whole: bool = False) -> None:
    """Save observations, actions, rewards and ends of an episode as one .npz file; ".npz" is added to other names.

    whole: is_first is true at the first timestep only, so that Sources read one episode whatever it recorded. Otherwise
    timesteps after an end are first ones, too.

    is_last is true where terminated or truncated, and at the last timestep; for an episode from a replay file it is
    unchanged. Raises EpisodeError if two parts of the episode would have the same key, and for bf16.
    """
    ep.validate()
    write_npz(arrays_of(ep, whole=whole), path_or_file)


def arrays_of(ep: Episode, *, whole: bool = False) -> dict[str, Array]:
    """Return the arrays of a replay file by key."""
    arrays: dict[str, Array] = {}
    parts = [(name, _npz_array(channel)) for name, channel in (*ep.observations.items(), *ep.actions.items())]
    parts += [(REWARD, np.asarray(ep.rewards))] if ep.rewards is not None else []
    extra = {
        block.removeprefix(_EXTRA).removesuffix(_EXTRA_SUFFIX): parse_npy(data, f"block {block!r}")
        for block, data in ep.blocks.items()
        if block.startswith(_EXTRA)
    }
    ends = {key: array for key, array in _ends(ep, whole=whole).items() if key not in extra}
    for key, array in (*parts, *ends.items(), *extra.items()):
        if key in arrays:
            raise EpisodeError(
                f"episode {ep.id!r}: {key!r} would be two arrays of one name in the .npz: rename a channel first"
            )
        arrays[key] = array
    return arrays


def _npz_array(channel: Channel) -> Array:
    if channel.dtype is DType.BFLOAT16:
        raise EpisodeError(f"channel {channel.name!r}: an .npz file cannot hold bf16: convert it first")
    return channel.data


def _ends(ep: Episode, *, whole: bool) -> dict[str, Array]:
    """Return the flags of a replay file, and stepid if it was recorded."""
    end_flags = [np.asarray(flags).astype(np.bool_) for flags in (ep.terminations, ep.truncations) if flags is not None]
    last = np.logical_or.reduce([np.zeros(ep.length, np.bool_), *end_flags])
    first = read_recorded(ep, IS_FIRST, np.bool_, 1)
    ends = {} if ep.terminations is None else {IS_TERMINAL: end_flags[0]}
    stepid = read_recorded(ep, STEPID, np.uint8, 2)
    ends |= {} if stepid is None else {STEPID: stepid}
    if first is None:
        first = np.concatenate([[True], last[:-1]])
        last[-1] = True
    if whole:
        first = np.arange(ep.length) == 0
    return ends | {IS_LAST: last, IS_FIRST: first}


def read_recorded(ep: Episode | EpisodeInfo, key: str, dtype: type[np.generic], axes: int) -> Array | None:
    """Return the metadata under a key of replay files, None if there are none or of other timesteps."""
    try:
        array = np.asarray(ep.metadata.get(key, ()))
    except ValueError:  # lists of different lengths
        return None
    if array.ndim != axes or len(array) != ep.length or array.dtype.kind not in "biu":
        return None
    converted = array.astype(dtype)
    return converted if (converted == array).all() else None
