"""Spaces: everything that decides whether two vectors may be compared, as plain values with fingerprints.

Knows lanes by name and shape, how an episode is cut into windows, the frozen statistics of the archive, and the one
canonical JSON text of all of it. Does not know embedders (only their name, version and parameters), data or storage.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from wshard.errors import EmbedderError, SpaceMismatchError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"


@dataclass(frozen=True)
class LaneSpec:
    """One lane of an episode: its full block name ("signal/state") and its shape per timestep (() = scalar)."""

    name: str
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_text(self.name, "lane name")
        for size in self.shape:
            _check_count(size, f"every size in the shape of lane {self.name!r}")

    @property
    def channels(self) -> int:
        """Numbers per timestep: the product of the shape, 1 for a scalar."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class WindowPlan:
    """How an episode is cut into windows of `size` timesteps, one every `stride`; both None: one window, the whole.

    `stride` may not exceed `size`, so that every timestep lies in a window. Raises EmbedderError.
    """

    size: int | None = None
    stride: int | None = None

    def __post_init__(self) -> None:
        if self.size is None and self.stride is None:
            return
        size = _check_count(self.size, "window size (given with a stride)")
        stride = _check_count(self.stride, "window stride (given with a size)")
        if stride > size:
            raise EmbedderError(f"window stride: expected at most the window size {size}, found {stride}")

    @property
    def whole(self) -> bool:
        """True when the whole episode is the one window."""
        return self.size is None

    def spans(self, length: int) -> NDArray[np.int64]:
        """Return the windows of an episode of `length` timesteps: int64 [n, 2], half-open [start, stop).

        An episode not longer than `size` is one window; a tail that the stride misses gets one last window that ends
        with the episode; an episode without timesteps has no window.
        """
        if length < 0:
            raise EmbedderError(f"length of an episode: expected 0 or more timesteps, found {length}")
        if length == 0:
            return np.empty((0, 2), np.int64)
        if self.size is None or self.stride is None or length <= self.size:
            return np.array([[0, length]], np.int64)
        starts = np.arange(0, length - self.size + 1, self.stride, dtype=np.int64)
        if starts[-1] + self.size < length:
            starts = np.append(starts, length - self.size)
        return np.stack([starts, starts + self.size], axis=1)

    def to_json(self) -> str:
        """Return the canonical JSON text of the plan."""
        return _canonical(asdict(self))

    @staticmethod
    def from_json(text: str) -> WindowPlan:
        """Return the plan that `to_json` wrote. Raises EmbedderError for any other text."""
        try:
            return WindowPlan(**_parse(text))
        except (TypeError, ValueError, RecursionError) as error:
            raise EmbedderError(f"expected the JSON of a WindowPlan, found {text[:80]!r}: {error}") from error


@dataclass(frozen=True, eq=False)
class Statistics:
    """Frozen archive statistics per channel: float64 [D] `mean` and population `std` of `count` timesteps.

    The standard deviation is stored as measured; what a constant channel is divided by is the reader's rule.
    """

    count: int
    mean: NDArray[np.float64]
    std: NDArray[np.float64]

    def __post_init__(self) -> None:
        _check_count(self.count, "timesteps behind statistics")
        for name in ("mean", "std"):
            object.__setattr__(self, name, _channel_values(getattr(self, name), name))
        if self.mean.shape != self.std.shape or (self.std < 0).any():
            found = f"{self.mean.size} means, {self.std.size} standard deviations"
            raise EmbedderError(f"statistics: expected one mean and one standard deviation >= 0 each, found {found}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Statistics) and _canonical(self.definition()) == _canonical(other.definition())

    def __hash__(self) -> int:
        return hash(_canonical(self.definition()))

    def definition(self) -> dict[str, JSON]:
        """Return the JSON value of the statistics; JSON numbers carry every float64 exactly."""
        return {"count": self.count, "mean": self.mean.tolist(), "std": self.std.tolist()}


@dataclass(frozen=True, eq=False)
class Space:
    """What one vector collection holds; two vectors may be compared only when their Spaces are equal.

    `parameters` is what rebuilds the embedder; `statistics` is None when the embedder uses none. Two Spaces are equal
    when their fingerprints are. Raises EmbedderError for values that do not fit together.
    """

    embedder: str
    version: int
    parameters: Mapping[str, JSON]
    lanes: tuple[LaneSpec, ...]
    windows: WindowPlan
    dim: int
    metric: str
    statistics: Statistics | None

    def __post_init__(self) -> None:
        _check_text(self.embedder, "name of an embedder")
        _check_count(self.version, "version of an embedder")
        _check_count(self.dim, "dim of a Space")
        _check_text(self.metric, "metric of a Space")
        if not self.lanes:
            raise EmbedderError("lanes of a Space: expected one or more, found none")
        if self.statistics is not None and self.statistics.mean.size != self.channels:
            found = self.statistics.mean.size
            raise EmbedderError(
                f"statistics of a Space: expected the {self.channels} channels of its lanes, found {found}"
            )
        object.__setattr__(self, "parameters", _json_parameters(self.parameters))

    @property
    def channels(self) -> int:
        """Numbers per timestep over all lanes."""
        return sum(lane.channels for lane in self.lanes)

    @cached_property
    def family(self) -> str:
        """sha256 hex of all but the statistics: what stays equal when an archive's statistics are taken anew."""
        return _sha256(_canonical({**self._definition(), "statistics": None}))

    @cached_property
    def fingerprint(self) -> str:
        """sha256 hex of everything, statistics to the last bit: equal exactly when vectors may be compared."""
        return _sha256(self.to_json())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def to_json(self) -> str:
        """Return the canonical JSON text: keys sorted, no spaces, ASCII only, every float exact."""
        return _canonical(self._definition())

    @staticmethod
    def from_json(text: str) -> Space:
        """Return the Space that `to_json` wrote. Raises EmbedderError for any other text."""
        try:
            return _space_from(_parse(text))
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise EmbedderError(f"expected the JSON of a Space, found {text[:80]!r}: {error!r}") from error

    def _definition(self) -> dict[str, Any]:
        return {
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "lanes": [asdict(lane) for lane in self.lanes],
            "windows": asdict(self.windows),
            "statistics": None if self.statistics is None else self.statistics.definition(),
        }


def check_same_space(expected: Space, found: Space) -> None:
    """Raise SpaceMismatchError, naming the first difference in words, unless both Spaces are equal."""
    if expected == found:
        return
    wanted, got = _facts(expected), _facts(found)
    name = next(name for name in wanted | got if wanted.get(name) != got.get(name))
    told = f"{name}: expected {wanted.get(name, 'none')}, found {got.get(name, 'none')}"
    raise SpaceMismatchError(f"vectors of two different spaces cannot be compared: {told}")


def _facts(space: Space) -> dict[str, str]:
    """Return the words for every part of a Space by name; equal words mean equal parts."""
    facts = {"embedder": space.embedder, "version": str(space.version)}
    facts |= {f"parameter {name}": _canonical(value) for name, value in space.parameters.items()}
    facts["lanes"] = ", ".join(f"{lane.name} {lane.shape}" for lane in space.lanes)
    facts["windows"] = "whole episodes" if space.windows.whole else str(space.windows)
    facts |= {"dim": str(space.dim), "metric": space.metric, "statistics": "none"}
    if space.statistics is not None:
        digest = _sha256(_canonical(space.statistics.definition()))
        facts["statistics"] = f"those of {space.statistics.count} timesteps with digest {digest}"
    return facts


def _space_from(definition: Any) -> Space:
    statistics = definition["statistics"]
    read = {
        "lanes": tuple(LaneSpec(**{**lane, "shape": tuple(lane["shape"])}) for lane in definition["lanes"]),
        "windows": WindowPlan(**definition["windows"]),
        "statistics": None if statistics is None else Statistics(**statistics),
    }
    return Space(**{**definition, **read})


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _parse(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _json_parameters(parameters: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return a private copy of what JSON keeps of the parameters, so that a stored and re-read Space is the same."""
    try:
        copied = {name: json.loads(_canonical(value)) for name, value in parameters.items() if isinstance(name, str)}
        if len(copied) == len(parameters):
            return copied
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        raise EmbedderError(
            f"parameters of an embedder: expected JSON values, found {parameters!r}: {error}"
        ) from error
    raise EmbedderError(f"parameters of an embedder: expected JSON values by name, found {parameters!r}")


def _channel_values(values: ArrayLike, what: str) -> NDArray[np.float64]:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise EmbedderError(f"{what} of statistics: expected finite numbers [D], found {array.dtype} {array.shape}")
    copied = array.astype(np.float64)
    copied.flags.writeable = False
    return copied


def _check_count(value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise EmbedderError(f"{what}: expected a whole number >= 1, found {value!r}")
    return value


def _check_text(value: Any, what: str) -> None:
    if not isinstance(value, str) or not value:
        raise EmbedderError(f"{what}: expected a text, found {value!r}")
