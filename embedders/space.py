"""Spaces: everything that determines whether two vectors may be compared, as values with fingerprints."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from embedders.canonical_json import JSON, canonical, check_count, check_text, parse, sha256
from embedders.lanes import LaneSpec, count_channels, lane_from
from embedders.numeric import check_number, fill_blank
from embedders.rotations import Rotation, canonical_rows, in_channels
from embedders.units import NO_LABELS, OtherScale, check_units, scale_from, share_rows
from embedders.windows import WindowPlan
from wshard.errors import EmbedderError, SpaceMismatchError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray


_FOUND: Final = ("rates", "rotations", "units")  # in an archive; a Space of another one may have others
TEXT: Final = LaneSpec("meta/task", ())
"""The pseudo-lane of Spaces of texts: the task in the metadata of an episode. No file has it as a lane."""


@dataclass(frozen=True, eq=False)
class Statistics:
    """Frozen archive statistics per channel: float64 [D] `mean` and population `std` of `count` timesteps.

    The standard deviation is stored as measured; the reader decides how to scale a constant channel. `factors` float64
    [D] > 0 multiply standardised channels, None for 1 (see `Space.weights`).
    """

    count: int
    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    factors: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", check_count(self.count, "timesteps behind statistics"))
        for name in ("mean", "std"):
            object.__setattr__(self, name, _channel_values(getattr(self, name), name))
        if self.mean.shape != self.std.shape or (self.std < 0).any():
            found = f"{self.mean.size} means, {self.std.size} standard deviations"
            raise EmbedderError(f"statistics: expected one mean and one standard deviation >= 0 each, found {found}")
        if self.factors is not None:
            object.__setattr__(self, "factors", _channel_values(self.factors, "factors"))
            if self.factors.shape != self.mean.shape or (self.factors <= 0).any():
                raise EmbedderError(f"factors: expected {self.mean.size} numbers > 0, found {self.factors.tolist()}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Statistics) and canonical(self.definition()) == canonical(other.definition())

    def __hash__(self) -> int:
        return hash(canonical(self.definition()))

    def definition(self) -> dict[str, JSON]:
        """Return the JSON value of the statistics; JSON numbers represent every float64 exactly."""
        factors = {} if self.factors is None else {"factors": self.factors.tolist()}
        return {"count": self.count, "mean": self.mean.tolist(), "std": self.std.tolist(), **factors}


@dataclass(frozen=True, eq=False)
class Space:
    """Definition of a vector collection; vectors may be compared only if their Spaces are equal.

    `parameters` rebuilds the embedder; `statistics` is None if the embedder uses none. `weights` has one number > 0 per
    lane: the share of the lane in the squared length of an average vector, relative to the others; None weights every
    channel equally. `rates` has the timesteps per second of each lane in the episodes that the Space was made for, None
    for a lane if they differ or are unknown. `rotations` are the quaternions and angles among the channels of all
    lanes, `units` those that some episodes give in another scale than most, None for none: `statistics` are those of
    canonical rows. Two Spaces are equal if their fingerprints are. Raises EmbedderError for inconsistent values.
    """

    embedder: str
    version: int
    parameters: Mapping[str, JSON]
    lanes: tuple[LaneSpec, ...]
    windows: WindowPlan
    dim: int
    metric: str
    statistics: Statistics | None
    weights: tuple[float, ...] | None = None
    rates: tuple[float | None, ...] | None = None
    rotations: tuple[Rotation, ...] | None = None
    units: tuple[OtherScale, ...] | None = None

    def __post_init__(self) -> None:
        check_text(self.embedder, "name of an embedder")
        object.__setattr__(self, "version", check_count(self.version, "version of an embedder"))
        object.__setattr__(self, "dim", check_count(self.dim, "dim of a Space"))
        check_text(self.metric, "metric of a Space")
        if not self.lanes:
            raise EmbedderError("lanes of a Space: expected one or more, found none")
        if self.statistics is not None and self.statistics.mean.size != self.channels:
            found = self.statistics.mean.size
            raise EmbedderError(
                f"statistics of a Space: expected the {self.channels} channels of its lanes, found {found}"
            )
        object.__setattr__(self, "parameters", _json_parameters(self.parameters))
        object.__setattr__(self, "weights", _lane_weights(self.weights, self.lanes))
        object.__setattr__(self, "rates", _lane_rates(self.rates, self.lanes))
        object.__setattr__(self, "rotations", in_channels(self.rotations, self.channels))
        object.__setattr__(self, "units", check_units(self.units, self.channels))

    @property
    def of_text(self) -> bool:
        """Whether its vectors are of texts about episodes, which cannot be compared with lanes or arrays."""
        return self.lanes == (TEXT,)

    @property
    def channels(self) -> int:
        """Numbers per timestep over all lanes."""
        return count_channels(self.lanes)

    def is_part_of(self, other: Space) -> bool:
        """Return whether the other Space compares episodes by all lanes of this one, and more of them or wider ones."""
        is_within = all(any(lane.is_within(wider) for wider in other.lanes) for lane in self.lanes)
        return is_within and {*self.lanes} != {*other.lanes}

    @property
    def window_shape(self) -> tuple[int, ...]:
        """Shape of one timestep of a window: that of the one lane if it has images, else (channels,)."""
        alone = len(self.lanes) == 1 and len(self.lanes[0].shape) > 1
        return self.lanes[0].shape if alone else (self.channels,)

    @cached_property
    def scaling(self) -> Statistics | None:
        """What the embedder is given: `statistics`, with the factors that give every lane its weight.

        A standardised channel has variance 1 in the archive, so that a lane of D channels, each times sqrt(weight / D),
        has `weight`. Weights in the ratio of the numbers of channels give factors of 1.
        """
        if self.weights is None or self.statistics is None:
            return self.statistics
        unit = self.channels / math.fsum(self.weights)
        factors = [
            math.sqrt(weight / lane.channels * unit)
            for lane, weight in zip(self.lanes, self.weights, strict=True)
            for _ in range(lane.channels)
        ]
        return replace(self.statistics, factors=np.array(factors))

    @cached_property
    def family(self) -> str:
        """sha256 hex of everything but what is found in an archive and may change: statistics, rates and the like."""
        lasting = {name: value for name, value in self._definition().items() if name not in _FOUND}
        lanes = [{"name": lane.name, "shape": lane.shape} for lane in self.lanes]
        return sha256(canonical({**lasting, "lanes": lanes, "statistics": None}))

    @cached_property
    def fingerprint(self) -> str:
        """sha256 hex of everything, statistics to the last bit: equal if and only if vectors may be compared."""
        return sha256(self.to_json())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def canonical(self, rows: NDArray[Any], labels: Mapping[str, str] = NO_LABELS) -> NDArray[Any]:
        """Return the rows of an episode, or of a part of one, as embedders and alignment compare them.

        In the scale that most episodes have, with rotations in their canonical form, and with the mean of the archive
        in channels that are NaN throughout; images as they are. labels: what is known of the source of the episode.
        """
        rows = canonical_rows(share_rows(self.units or (), rows, labels), self.rotations)
        is_image = rows.ndim > 2
        return rows if is_image else fill_blank(rows, 0.0 if self.statistics is None else self.statistics.mean)

    def to_json(self) -> str:
        """Return the canonical JSON text: keys sorted, no spaces, ASCII only, every float exact."""
        return canonical(self._definition())

    @staticmethod
    def from_json(text: str) -> Space:
        """Return the Space that `to_json` wrote. Raises EmbedderError for any other text."""
        try:
            return _space_from(parse(text))
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise EmbedderError(f"expected the JSON of a Space, found {text[:80]!r}: {error!r}") from error

    def _definition(self) -> dict[str, Any]:
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("weights", *_FOUND):
            if given[name] is None:
                del given[name]  # the text of Spaces that were stored before there were such
            elif name == "rotations":
                given[name] = [*map(asdict, given[name])]
            elif name == "units":
                given[name] = [unit.definition() for unit in given[name]]
        return {
            **given,
            "lanes": [lane.definition() for lane in self.lanes],
            "windows": self.windows.definition(),
            "statistics": None if self.statistics is None else self.statistics.definition(),
        }


def check_same_space(expected: Space, found: Space) -> None:
    """Raise SpaceMismatchError with the first difference unless both Spaces are equal."""
    if expected == found:
        return
    wanted, got = _facts(expected), _facts(found)
    name = next(name for name in wanted | got if wanted.get(name) != got.get(name))
    difference = f"{name}: expected {wanted.get(name, 'none')}, found {got.get(name, 'none')}"
    raise SpaceMismatchError(f"vectors of two different spaces cannot be compared: {difference}")


def _facts(space: Space) -> dict[str, str]:
    """Return the words for every part of a Space by name; equal words mean equal parts."""
    facts = {"embedder": space.embedder, "version": str(space.version)}
    facts |= {f"parameter {name}": canonical(value) for name, value in space.parameters.items()}
    facts["lanes"] = ", ".join(f"{lane.name} {lane.shape}" for lane in space.lanes)
    facts |= {name: str(getattr(space, name)) for name in ("weights", *_FOUND)}
    facts["windows"] = str(space.windows)
    facts |= {"dim": str(space.dim), "metric": space.metric, "statistics": "none"}
    if space.statistics is not None:
        digest = sha256(canonical(space.statistics.definition()))
        facts["statistics"] = f"those of {space.statistics.count} timesteps with digest {digest}"
    return facts


def _space_from(definition: Any) -> Space:
    statistics = definition["statistics"]
    weights, rates, rotations, units = map(definition.get, ("weights", *_FOUND))
    read: dict[str, Any] = {
        "lanes": tuple(map(lane_from, definition["lanes"])),
        "windows": WindowPlan(**definition["windows"]),
        "statistics": None if statistics is None else Statistics(**statistics),
        "weights": None if weights is None else tuple(weights),
        "rates": None if rates is None else tuple(rates),
        "rotations": None if rotations is None else tuple(Rotation(**one) for one in rotations),
        "units": None if units is None else tuple(map(scale_from, units)),
    }
    return Space(**{**definition, **read})


def _json_parameters(parameters: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return a copy of the parameters after a JSON round trip, so that a stored and re-read Space is equal."""
    try:
        copied = {name: json.loads(canonical(value)) for name, value in parameters.items() if isinstance(name, str)}
        if len(copied) == len(parameters):
            return copied
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        raise EmbedderError(
            f"parameters of an embedder: expected JSON values, found {parameters!r}: {error}"
        ) from error
    raise EmbedderError(f"parameters of an embedder: expected JSON values by name, found {parameters!r}")


def _lane_weights(weights: tuple[float, ...] | None, lanes: tuple[LaneSpec, ...]) -> tuple[float, ...] | None:
    if weights is None:
        return None
    checked = tuple(check_number(weight, "weight of a lane") for weight in weights)
    if len(checked) != len(lanes) or min(checked) <= 0:
        raise EmbedderError(f"weights of lanes: expected one number > 0 for each of {len(lanes)}, found {checked}")
    return checked


def _lane_rates(rates: tuple[float | None, ...] | None, lanes: tuple[LaneSpec, ...]) -> tuple[float | None, ...] | None:
    """Return the rates as floats, None if none is known, so that the representation is unique."""
    if rates is None:
        return None
    checked = tuple(None if rate is None else check_number(rate, "rate of a lane") for rate in rates)
    if len(checked) != len(lanes) or min((rate for rate in checked if rate is not None), default=1.0) <= 0:
        raise EmbedderError(f"rates of lanes: expected a number > 0 or None for each of {len(lanes)}, found {checked}")
    return checked if any(rate is not None for rate in checked) else None


def _channel_values(values: ArrayLike, what: str) -> NDArray[np.float64]:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise EmbedderError(f"{what} of statistics: expected finite numbers [D], found {array.dtype} {array.shape}")
    copied = array.astype(np.float64)
    copied.flags.writeable = False
    return copied
