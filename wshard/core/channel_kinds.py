"""What lanes and their channels are: a modality; numbers, angles, quaternions and so on, such as "4:quaternion"."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from wshard.core.channel_names import checked_names, stated_names
from wshard.errors import EpisodeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MAX_CHANNELS: Final = 1 << 40
QUATERNION_SIZE: Final = 4


class Modality(StrEnum):
    """Kind of data in a multi-modal observation lane."""

    RGB = "rgb"
    DEPTH = "depth"
    LANGUAGE = "language"
    PROPRIOCEPTION = "proprioception"
    AUDIO = "audio"
    VIDEO = "video"
    POINTCLOUD = "pointcloud"

    @staticmethod
    def parse(value: object) -> Modality:
        """Read a name such as "rgb"; raises EpisodeError, which lists the known ones."""
        try:
            return Modality(str(value))
        except ValueError:
            known = ", ".join(kind.value for kind in Modality)
            raise EpisodeError(f"modality: expected one of {known}, found {value!r}") from None

    @property
    def content_type(self) -> int:
        """The content type code of the container format."""
        return {"rgb": 6, "depth": 1, "language": 5, "proprioception": 1, "audio": 7, "video": 8, "pointcloud": 1}[self]


class ChannelKind(StrEnum):
    """What a channel is, or some adjacent channels are together.

    A quaternion without a suffix has its scalar first or last: nothing says which.
    """

    NUMBER = "number"
    QUATERNION = "quaternion"
    QUATERNION_WXYZ = "quaternion-wxyz"
    QUATERNION_XYZW = "quaternion-xyzw"
    ANGLE = "angle"
    ONE_HOT = "one-hot"
    DISCRETE = "discrete"
    BINARY = "binary"
    COUNTER = "counter"
    CONSTANT = "constant"
    PADDING = "padding"
    MISSING = "missing"

    @property
    def is_group(self) -> bool:
        """Whether the channels of a run belong together, so that two runs side by side are not one."""
        return self is ChannelKind.ONE_HOT or self.is_quaternion

    @property
    def is_quaternion(self) -> bool:
        """Whether it is a quaternion, whatever the order of its components."""
        return self.startswith(ChannelKind.QUATERNION)


class KindRun(NamedTuple):
    """Adjacent channels of one kind."""

    channels: int
    kind: ChannelKind

    def __str__(self) -> str:
        return f"{self.channels}:{self.kind}"


class KindLane(Protocol):
    """What a Channel and a Declaration state of the kinds of their channels."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The stated kinds."""

    @property
    def shape(self) -> Sequence[int]:
        """The shape of a timestep."""


def parse_kind(text: str, where: str = "channel") -> KindRun:
    """Return the run of a text such as "3:number"; raises EpisodeError."""
    count, _, name = text.partition(":")
    kind = next((kind for kind in ChannelKind if kind == name), None)
    channels = int(count) if count.isascii() and count.isdigit() and len(count) < len(str(_MAX_CHANNELS)) else 0
    if kind is None or not channels:
        raise EpisodeError(f"{where}: kinds: expected COUNT:KIND with one of {', '.join(ChannelKind)}, found {text!r}")
    if kind.is_quaternion and channels != QUATERNION_SIZE:
        raise EpisodeError(f"{where}: kinds: expected {QUATERNION_SIZE} channels of a quaternion, found {text!r}")
    return KindRun(channels, kind)


def stated_kinds(value: Any) -> tuple[str, ...]:
    """Return kinds as a file of any writer states them; none for anything but a list of known ones."""
    try:
        return checked_kinds(stated_names(value), "")
    except EpisodeError:
        return ()


def checked_kinds(kinds: Iterable[str], where: str) -> tuple[str, ...]:
    """Return the kinds that a program gives; raises EpisodeError for anything but several known ones."""
    return tuple(str(parse_kind(kind, where)) for kind in checked_names(kinds, where, "kinds"))


def declared_kinds(lane: KindLane) -> tuple[KindRun, ...]:
    """Return the kinds of all channels, counted flat; () where the lane states none, or those of another number.

    Those of as many channels as the last axis has are stated for each of its rows.
    """
    runs = tuple(map(parse_kind, lane.kinds))
    stated, channels = sum(run.channels for run in runs), math.prod(lane.shape)
    if not stated or stated not in (channels, *lane.shape[-1:]):
        return ()
    return runs * (channels // stated)


def join_runs(runs: Iterable[KindRun]) -> tuple[KindRun, ...]:
    """Return runs in which those of one kind side by side are one, unless each is a group."""
    joined: list[KindRun] = []
    for run in runs:
        if joined and joined[-1].kind is run.kind and not run.kind.is_group:
            run = KindRun(joined.pop().channels + run.channels, run.kind)  # noqa: PLW2901  (the run that grows)
        joined.append(run)
    return tuple(joined)
