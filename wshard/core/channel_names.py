"""What the channels of a lane are called: the components of a timestep along its last axis, such as joints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Protocol

from wshard.errors import EpisodeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LISTED: Final = ", "  # between the names in the semantics of lanes, where older versions wrote them
_GAP: Final = "..."
_WIDTH: Final = 72
_ENDS: Final = 2  # the first name and the last


class NamedLane(Protocol):
    """What a Channel and a Declaration state of their components."""

    @property
    def names(self) -> tuple[str, ...]:
        """The stated names."""

    @property
    def semantics(self) -> str:
        """What the values mean."""

    @property
    def shape(self) -> Sequence[int]:
        """The shape of a timestep."""


def stated_names(value: Any) -> tuple[str, ...]:
    """Return names as a file of any writer states them; none for anything but a list of texts."""
    is_list = isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
    return tuple(value) if is_list else ()


def checked_names(names: Iterable[str], where: str, key: str = "names") -> tuple[str, ...]:
    """Return the texts that a program gives as `key`; raises EpisodeError for anything but several texts."""
    listed = () if isinstance(names, str) else tuple(names)
    if isinstance(names, str) or not all(isinstance(name, str) for name in listed):
        raise EpisodeError(f"{where}: {key}: expected several texts, found {names!r}")
    return listed


def component_names(lane: NamedLane) -> tuple[str, ...]:
    """Return a name for each component along the last axis; () where the lane states none or another number."""
    if not lane.shape:
        return ()
    names = lane.names or (tuple(lane.semantics.split(_LISTED)) if len(lane.shape) == 1 else ())
    return names if len(names) == lane.shape[-1] and all(names) else ()


def channel_label(lane: NamedLane | None, channel: int) -> str:
    """Return what a channel is called: "elbow", "2.x" on several axes, or its number; channels are counted flat."""
    names = component_names(lane) if lane is not None else ()
    row, column = divmod(channel, len(names) or 1)
    if lane is None or not names or names.count(names[column]) > 1:
        return str(channel)
    return names[column] if math.prod(lane.shape) == len(names) else f"{row}.{names[column]}"


def channel_labels(lane: NamedLane) -> tuple[str, ...]:
    """Return what each channel is called; () where the lane names none of them."""
    count = math.prod(lane.shape) if component_names(lane) else 0
    return tuple(channel_label(lane, channel) for channel in range(count))


def describe_names(names: Sequence[str], unit: str) -> str:
    """Return names and unit in a line as lists show them: "shoulder, ..., wrist [rad]"."""
    return " ".join([shorten_names(names, _WIDTH), *([f"[{unit}]"] if unit else [])]).strip()


def shorten_names(names: Sequence[str], width: int) -> str:
    """Return names in one line of `width` characters, those in the middle left out, though not the ends."""
    whole = _LISTED.join(names)
    if len(names) <= _ENDS or len(whole) <= width:
        return whole
    for count in range(min(len(names) - 1, width), _ENDS, -1):
        if len(line := _elide(names, count)) <= width:
            return line
    return min(whole, _elide(names, _ENDS), key=len)


def _elide(names: Sequence[str], count: int) -> str:
    first, last = (count + 1) // 2, count // 2
    return _LISTED.join([*names[:first], _GAP, *names[-last:]])
