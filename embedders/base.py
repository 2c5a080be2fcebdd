"""The embedder protocol: windows [T, D] or [T, *shape] in, one unit vector per window out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from embedders.numeric import LARGEST, Rows, first_bad, is_real
from embedders.standardise import standardise
from wshard.errors import EmbedderError, WShardError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from embedders.canonical_json import JSON
    from embedders.space import Space, Statistics

Vectors: TypeAlias = NDArray[np.float32]
"""float32 [N, E], rows of length 1."""

_UNIT_TOLERANCE: Final = 1e-5  # tolerance of the squared length of a unit row
_BATCH_WINDOWS: Final = 32  # windows per batch, so that there are few calls
_BATCH_NUMBERS: Final = 1 << 16  # per batch of several windows, which fits in the CPU cache


@runtime_checkable
class Embedder(Protocol):
    """Turns windows into vectors, deterministically for given windows, parameters and statistics.

    An embedder with a true attribute `takes_frames` gets the images of one lane as stored, windows [T_i, height, width]
    or [T_i, height, width, channels], instead of concatenated lanes.
    """

    @property
    def name(self) -> str:
        """The name under which Spaces refer to it."""

    @property
    def version(self) -> int:
        """Increases whenever the same window and parameters would give another vector."""

    @property
    def uses_statistics(self) -> bool:
        """Whether `embed` needs the archive's statistics."""

    @property
    def metric(self) -> str:
        """The metric of its vectors: "cosine", "dot" (inner product) or "l2" (Euclidean distance)."""

    def parameters(self) -> Mapping[str, JSON]:
        """Return the JSON values that rebuild the embedder."""

    def dim(self, channels: int) -> int:
        """Return the size of a vector of windows with `channels` channels."""

    def embed(self, windows: Sequence[NDArray[Any]], statistics: Statistics | None) -> Vectors:
        """Return one row per window: float32 [N, dim], windows real [T_i, D] with T_i >= 1 and one D.

        Rows have unit length if the metric is the cosine. Raises EmbedderError for unsuitable windows or statistics.
        Without windows it returns [0, dim], or [0, 0] if there are no statistics to define the number of channels.
        """


class LaneEmbedder(ABC):
    """Base class of embedders of lanes that are dataclasses of their parameters; subclasses implement `describe`."""

    name: ClassVar[str]
    version: ClassVar[int] = 1
    uses_statistics: ClassVar[bool] = True
    metric: ClassVar[str] = "cosine"

    def parameters(self) -> Mapping[str, JSON]:
        """Return the constructor parameters."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]  # a subclass is a dataclass

    @abstractmethod
    def dim(self, channels: int) -> int:
        """Return the size of a vector."""

    @abstractmethod
    def describe(self, windows: list[Rows]) -> NDArray[np.float64]:
        """Return [N, dim]: the vectors of windows before scaling to unit length; z-scored if it uses statistics."""

    def embed(self, windows: Sequence[NDArray[Any]], statistics: Statistics | None) -> Vectors:
        """Return float32 [N, dim], one unit row per window [T_i, D]. Raises EmbedderError."""
        return project(self, windows, statistics, self.describe)


def takes_frames(embedder: Embedder) -> bool:
    """Return whether an embedder takes the images of one lane instead of concatenated lanes (see Embedder)."""
    return bool(getattr(embedder, "takes_frames", False))


def shares_of(embedder: Embedder, channels: int) -> NDArray[np.float64] | None:
    """Return the share of each channel in each value of a vector: [dim, channels], rows of sum 1.

    None for an embedder without a method `shares(channels)`: its values mix all channels.
    """
    shares = getattr(embedder, "shares", None)
    return None if shares is None else np.asarray(shares(channels), np.float64)


def blocks_of(embedder: Embedder, space: Space) -> tuple[int, ...]:
    """Return the sizes of the descriptors of a Space's vectors, which can be weighted separately.

    One for an embedder without a method `blocks(channels)`.
    """
    sizes = getattr(embedder, "blocks", None)
    return (space.dim,) if sizes is None else tuple(sizes(space.channels))


def block_names_of(embedder: Embedder, space: Space) -> tuple[str, ...]:
    """Return the names of these descriptors, () for an embedder without a method `block_names(channels)`."""
    names = getattr(embedder, "block_names", None)
    return () if names is None else tuple(names(space.channels))


class WindowEmbedder(Protocol):
    """What embed_by needs of an embedder."""

    @property
    def name(self) -> str:
        """As of an Embedder."""

    def embed(self, windows: Sequence[NDArray[Any]], statistics: Statistics | None) -> Vectors:
        """As of an Embedder."""


def embed_by(embedder: WindowEmbedder, space: Space, windows: Sequence[NDArray[Any]]) -> Vectors:
    """Return the vectors float32 [N, E] of a Space for N windows; the embedder may be third-party code.

    If the Space's metric is the cosine, rows are scaled to unit length. Raises EmbedderError, naming the embedder, for
    any exception that it raises and for anything but finite real numbers [N, E].
    """
    if len(windows) == 0:
        return np.empty((0, space.dim), np.float32)
    with translate_errors(embedder.name):
        vectors = embedder.embed(windows, space.scaling)
    shape = (len(windows), space.dim)
    if not isinstance(vectors, np.ndarray) or vectors.shape != shape or not is_real(vectors.dtype):
        found = f"{vectors.dtype} {vectors.shape}" if isinstance(vectors, np.ndarray) else type(vectors).__name__
        raise EmbedderError(f"embedder {embedder.name!r}: expected real numbers {shape}, found {found}")
    if bad := first_bad(vectors):
        raise EmbedderError(
            f"embedder {embedder.name!r}: expected finite numbers of at most {LARGEST:.3g}, found {vectors[bad]} at "
            f"place {bad[1]} of the vector of window {bad[0]}"
        )
    return _scale_to_unit(vectors) if space.metric == "cosine" else vectors.astype(np.float32, copy=False)


def _scale_to_unit(vectors: NDArray[Any]) -> Vectors:
    """Return the rows scaled to unit length; unit rows are not changed."""
    rows: Vectors = vectors.astype(np.float32, copy=False)
    needs_scaling = (
        np.abs(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64, casting="same_kind") - 1) > _UNIT_TOLERANCE
    )
    if needs_scaling.any():
        rows = rows.copy()
        rows[needs_scaling] = unit_rows(vectors[needs_scaling].astype(np.float64))
    return rows


def dim_of(embedder: Embedder, channels: int) -> int:
    """Return the size of the embedder's vectors; raises EmbedderError, naming the embedder, for its exceptions."""
    with translate_errors(embedder.name):
        return embedder.dim(channels)


@contextmanager
def translate_errors(name: str) -> Iterator[None]:
    """Translate all exceptions of an embedder to an EmbedderError that names it."""
    try:
        yield
    except (WShardError, MemoryError):
        raise
    except Exception as error:
        raise EmbedderError(f"embedder {name!r} raised {type(error).__name__}: {error}") from error


@dataclass(frozen=True, eq=False)
class Batch:
    """Validated windows: their rows, concatenated, float64 [R, D].

    Window i is rows[edges[i]:edges[i + 1]].
    """

    rows: Rows
    edges: tuple[int, ...]

    def windows(self, rows: Rows) -> list[Rows]:
        """Split rows that correspond to this batch's rows into its windows, without copying."""
        return [rows[start:stop] for start, stop in pairwise(self.edges)]


def validate_windows(windows: Sequence[NDArray[Any]], channels: int | None = None, *, first: int = 0) -> Batch:
    """Check one or more windows, each real [T >= 1, D >= 1], all of one D (`channels` if given), all values finite.

    Windows are numbered from `first` in messages. Raises EmbedderError with the window, and for a value with its
    timestep and channel.
    """
    for number, window in enumerate(windows, first):
        _check_shape(window, channels, f"window {number}")
        channels = window.shape[1]
    edges = tuple(accumulate((len(window) for window in windows), initial=0))
    rows = np.empty((edges[-1], windows[0].shape[1]))  # contiguous, whatever the layout of the windows
    with np.errstate(over="ignore"):  # a wider float that overflows float64 is refused below
        np.concatenate(windows, out=rows, casting="same_kind")
    if bad := first_bad(rows):
        inside = bisect_right(edges, bad[0]) - 1
        place = f"window {first + inside}, timestep {bad[0] - edges[inside]}, channel {bad[1]}"
        raise EmbedderError(f"{place}: expected a finite number of at most {LARGEST:.3g}, found {rows[bad]}")
    return Batch(rows, edges)


def unit_rows(matrix: NDArray[np.float64]) -> Vectors:
    """Return finite `matrix` [N, E] with every row scaled to unit length, as float32.

    A zero row has no direction; it becomes the last axis, which in the layouts of this package has the least energy, so
    that empty windows are similar only to one another.
    """
    peaks = np.abs(matrix).max(axis=1, keepdims=True)
    is_zero = peaks[:, 0] == 0.0
    rows: NDArray[np.float64] = matrix / np.where(
        peaks == 0.0, 1.0, peaks
    )  # before squaring, to avoid underflow and overflow
    rows[is_zero, -1] = 1.0
    rows /= np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return rows.astype(np.float32)


def project(
    embedder: Embedder,
    windows: Sequence[NDArray[Any]],
    statistics: Statistics | None,
    describe: Callable[[list[Rows]], NDArray[np.float64]],
) -> Vectors:
    """Check windows, z-score them if the embedder uses statistics, describe them as [n, E], scale the rows to length 1.

    `describe` gets a few float64 windows [T_i, D] at a time. The result of a window does not depend on its neighbours.
    """
    if embedder.uses_statistics and statistics is None:
        raise EmbedderError(f"embedder {embedder.name!r}: expected the archive's statistics, found None")
    channels = None if statistics is None else statistics.mean.size
    if len(windows) == 0:
        return np.empty((0, 0 if channels is None else embedder.dim(channels)), np.float32)
    scaling = statistics if embedder.uses_statistics else None
    parts = []
    for first, stop in _batches(windows):
        batch = validate_windows(windows[first:stop], channels, first=first)
        channels = batch.rows.shape[1]
        rows = batch.rows if scaling is None else standardise(batch.rows, scaling)
        parts.append(unit_rows(describe(batch.windows(rows))))
    return np.concatenate(parts)


def _batches(windows: Sequence[NDArray[Any]]) -> Iterator[tuple[int, int]]:
    first = size = 0
    for number, window in enumerate(windows):
        added = getattr(window, "size", 0)  # other types are refused later
        if number > first and (number - first == _BATCH_WINDOWS or size + added > _BATCH_NUMBERS):
            yield first, number
            first, size = number, 0
        size += added
    yield first, len(windows)


def _check_shape(window: NDArray[Any], channels: int | None, where: str) -> None:
    if not isinstance(window, np.ndarray) or window.ndim != 2 or 0 in window.shape or not is_real(window.dtype):
        found = f"{window.dtype} {window.shape}" if isinstance(window, np.ndarray) else type(window).__name__
        raise EmbedderError(f"{where}: expected an array of real numbers [timesteps, channels], found {found}")
    if channels is not None and window.shape[1] != channels:
        raise EmbedderError(f"{where}: expected {channels} channels, found {window.shape[1]}")
