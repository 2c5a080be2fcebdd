"""Scales among episodes: what some give in another unit than most, or have from another source, in that of most."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from embedders.canonical_json import check_count, check_text
from embedders.numeric import check_number
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Self

    from numpy.typing import NDArray

    Rows = NDArray[np.float64]


RATIOS: Final = {1000.0: "m and mm", 100.0: "m and cm", 180 / math.pi: "degrees and rad"}
"""Ratios of units that are looked for, and what they may be of."""

NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})

_NEAR: Final = 0.1
_NEAR_LABELLED: Final = 0.25
"""Natural logarithms by which the ratios of one source may differ, as it is found anew."""
_LEAST: Final = 1e-3  # of a spread, relative to the usual one: less is rest


class OtherScale(ABC):
    """Channels of a Space that some episodes give in another scale than most, and their values in that of most."""

    channels: tuple[int, ...]
    field: str = ""
    labels: tuple[str, ...] = ()
    usual_labels: tuple[str, ...] = ()

    @abstractmethod
    def is_other(self, means: Rows, stds: Rows) -> NDArray[np.bool_]:
        """Return which episodes, or parts of one, have the other scale, by mean and spread [N, D] of all channels."""

    @abstractmethod
    def is_like(self, other: OtherScale) -> bool:
        """Return whether both tell the same episodes apart, whichever of the two scales most have."""

    @property
    @abstractmethod
    def conversion(self) -> tuple[Rows, Rows]:
        """What is subtracted from values of the other scale, and by what they are then divided: [channels] each."""

    def is_labelled(self, labels: Mapping[str, str]) -> bool | None:
        """Return whether an episode with these labels has the other scale; None where its values must tell."""
        label = labels.get(self.field)
        return label in self.labels if label in self.labels + self.usual_labels else None

    def definition(self) -> dict[str, Any]:
        """Return its values in JSON, without labels where it has none."""
        return {name: value for name, value in asdict(self).items() if value not in ("", ())}  # type: ignore[call-overload]

    def at(self, first: int) -> Self:
        """Return the same for a lane whose first channel is that of a Space."""
        moved = tuple(channel + first for channel in self.channels)
        return replace(self, channels=moved)  # type: ignore[type-var]  # subclasses are dataclasses

    def to_shared(self, rows: NDArray[Any], labels: Mapping[str, str] = NO_LABELS) -> NDArray[Any]:
        """Return rows [T, D] in the scale that most episodes have; the rows themselves if they have it."""
        is_other = self.is_labelled(labels)
        if is_other is None:
            with np.errstate(over="ignore", invalid="ignore"):
                means, stds = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
            is_other = bool(self.is_other(means[None], stds[None])[0])
        if not is_other:
            return rows
        changed, (offset, ratio) = rows.astype(np.float64), self.conversion
        changed[:, [*self.channels]] = (changed[:, [*self.channels]] - offset) / ratio
        return changed

    def to_shared_spread(self, spread: Rows, labels: Mapping[str, str] = NO_LABELS) -> Rows:
        """Return the spread [D, 4] of an episode, see embedders.statistics.merge_spreads, as to_shared does rows."""
        is_other = self.is_labelled(labels)
        if is_other is None:
            is_other = bool(self.is_other(spread[None, :, 2], spread[None, :, 3])[0])
        if not is_other:
            return spread
        changed, (offset, ratio) = spread.copy(), (values[:, None] for values in self.conversion)
        changed[[*self.channels]] = (changed[[*self.channels]] - offset * [1, 1, 1, 0]) / ratio
        return changed


@dataclass(frozen=True)
class Unit(OtherScale):
    """Channels of a Space that some episodes give in another unit: their rows are divided by `ratio`.

    A ratio above 1 is for episodes whose root mean squares are above `limits`, one for each channel, in most channels;
    a ratio below 1 is for those below.
    """

    channels: tuple[int, ...]
    limits: tuple[float, ...]
    ratio: float

    def __post_init__(self) -> None:
        channels, limits = _channels(self.channels), _numbers(self.limits)
        ratio = check_number(self.ratio, "ratio of a unit")
        if not limits or len(limits) != len(channels) or min(*limits, ratio) <= 0 or ratio == 1:
            found = f"{len(channels)} channels, limits {limits} and ratio {ratio}"
            raise EmbedderError(f"unit: expected a limit > 0 for each channel, and a ratio > 0 but 1, found {found}")
        for name, value in (("channels", channels), ("limits", limits), ("ratio", ratio)):
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        nearest = min(RATIOS, key=lambda one: abs(one - max(self.ratio, 1 / self.ratio)))
        return f"{len(self.channels)} of them in two units: x {nearest:.4g}, {RATIOS[nearest]}?"

    def is_other(self, means: Rows, stds: Rows) -> NDArray[np.bool_]:
        """Return which are in the other unit; channels that are 0 throughout show nothing."""
        with np.errstate(divide="ignore"):
            distances = np.log(np.hypot(means, stds)[:, [*self.channels]] / np.array(self.limits))
        if self.ratio < 1:
            distances = -distances
        finite = (row[np.isfinite(row)] for row in distances)
        return np.array([bool(known.size) and np.median(known) > 0 for known in finite], np.bool_)

    def is_like(self, other: OtherScale) -> bool:
        """Return whether the ratio is the same, or its inverse."""
        return isinstance(other, Unit) and math.isclose(abs(math.log(self.ratio)), abs(math.log(other.ratio)))

    @property
    def conversion(self) -> tuple[Rows, Rows]:
        """Nothing is subtracted."""
        return np.zeros(len(self.channels)), np.full(len(self.channels), self.ratio)


@dataclass(frozen=True)
class SourceScale(OtherScale):
    """Channels that some episodes have from another source, such as a second robot: ratio * x + offset for x of most.

    These episodes have one of `labels` in `field`, such as the name of a robot, and others one of `usual_labels`. Those
    without a known label have a positive score: the sum of `bias` and the `weights` of the mean of each channel and of
    the logarithm of its spread, both relative to `centers` and `spreads`.
    """

    channels: tuple[int, ...]
    centers: tuple[float, ...]
    spreads: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float
    offsets: tuple[float, ...]
    ratios: tuple[float, ...]
    field: str = ""
    labels: tuple[str, ...] = ()
    usual_labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "channels", _channels(self.channels))
        for name in ("labels", "usual_labels"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for text in (*self.labels, *self.usual_labels):
            check_text(text, "label of a source")
        for name in ("centers", "spreads", "weights", "offsets", "ratios"):
            object.__setattr__(self, name, _numbers(getattr(self, name)))
        object.__setattr__(self, "bias", check_number(self.bias, "bias of a source"))
        count = len(self.channels)
        sizes = [len(values) for values in (self.centers, self.spreads, self.offsets, self.ratios)]
        if not count or {*sizes} != {count} or len(self.weights) != 2 * count or min(self.spreads + self.ratios) <= 0:
            found = f"{sizes} and {len(self.weights)} weights"
            raise EmbedderError(f"source: expected numbers of {count} channels, spreads and ratios > 0, found {found}")

    def __str__(self) -> str:
        ratio = float(np.median(self.ratios))
        named = f" ({self.field} {', '.join(self.labels)})" if self.field else ""
        return f"{len(self.channels)} of them from two sources: x {max(ratio, 1 / ratio):.3g}{named}"

    def is_other(self, means: Rows, stds: Rows) -> NDArray[np.bool_]:
        """Return which have a positive score."""
        own = [*self.channels]
        marks = relate_spreads(means[:, own], stds[:, own], np.array(self.centers), np.array(self.spreads))
        return np.asarray(marks @ np.array(self.weights) + self.bias > 0)

    def is_like(self, other: OtherScale) -> bool:
        """Return whether labels and ratios are the same, or both the other way round; ratios within 10 %.

        Those of labels within 25 %; further usual labels change nothing.
        """
        if not isinstance(other, SourceScale) or (other.channels, other.field) != (self.channels, self.field):
            return False
        if self.field and {*self.labels} not in ({*other.labels}, {*other.usual_labels}):
            return False
        ratios, others = np.log(self.ratios), np.log(other.ratios)
        distance = min(np.median(np.abs(ratios - others)), np.median(np.abs(ratios + others)))
        return bool(distance < (_NEAR_LABELLED if self.field else _NEAR))

    @property
    def conversion(self) -> tuple[Rows, Rows]:
        """The offsets and the ratios."""
        return np.array(self.offsets), np.array(self.ratios)


def relate_spreads(means: Rows, stds: Rows, centers: Rows, spreads: Rows) -> Rows:
    """Return what tells sources apart [N, 2 * C]: means and logarithms of spreads [N, C], by usual ones [C]."""
    return np.concatenate([(means - centers) / spreads, np.log(stds / spreads + _LEAST)], axis=1)


def share_rows(units: Sequence[OtherScale], rows: NDArray[Any], labels: Mapping[str, str]) -> NDArray[Any]:
    """Return rows [T, D] in the scale that most episodes have."""
    return _convert(units, rows, lambda unit, rows: unit.to_shared(rows, labels))


def share_spread(units: Sequence[OtherScale], spread: Sequence[float], labels: Mapping[str, str]) -> Sequence[float]:
    """Return the flat spread of an episode in the scale that most have."""
    given = np.array(spread, np.float64).reshape(-1, 4)
    shared = _convert(units, given, lambda unit, spread: unit.to_shared_spread(spread, labels))
    return spread if shared is given else shared.ravel().tolist()


def _convert(
    units: Sequence[OtherScale], values: NDArray[Any], convert: Callable[[OtherScale, NDArray[Any]], NDArray[Any]]
) -> NDArray[Any]:
    """Return the values converted by each unit that applies, channels once."""
    converted = set[tuple[int, ...]]()
    for unit in units:
        before = values
        if unit.channels not in converted and (values := convert(unit, before)) is not before:
            converted.add(unit.channels)
    return values


def scale_from(definition: Mapping[str, Any]) -> OtherScale:
    """Return the unit or source with this definition in JSON."""
    return Unit(**definition) if "ratio" in definition else SourceScale(**definition)


def check_units(units: Sequence[OtherScale] | None, channels: int) -> tuple[OtherScale, ...] | None:
    """Return the units, None if there are none; raises EmbedderError unless each has channels or labels of its own.

    channels: their number in all.
    """
    used = [channel for own in {unit.channels for unit in units or ()} for channel in own]
    sources = [(unit.channels, label) for unit in units or () for label in unit.labels or ("",)]
    if len({*used}) != len(used) or len({*sources}) != len(sources) or max(used, default=0) >= channels:
        raise EmbedderError(f"units: expected each in other channels of the {channels}, found {used}")
    return tuple(units or ()) or None


def _channels(channels: Iterable[int]) -> tuple[int, ...]:
    return tuple(check_count(channel + 1, "channels of another scale, plus 1") - 1 for channel in channels)


def _numbers(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(check_number(value, "numbers of another scale") for value in values)
