"""The order of clips: a function of seed, epoch and rank, with a state to resume from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self
from zlib import crc32

import numpy as np

from wshard.core.arguments import integer, whole_number
from wshard.core.messages import plural, shown
from wshard.errors import DatasetError
from wshard.training.data.clips import positive

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from wshard.training.data.dataset import Dataset


class EpochIndex(int):
    """The number of a clip, and the epoch in which it is drawn; `sampler` is notified if it goes to another process."""

    epoch: int
    sampler: ClipSampler | None

    @classmethod
    def of(cls, number: int, epoch: int, sampler: ClipSampler | None = None) -> Self:
        """Return the number of a clip with its epoch."""
        index = cls(number)
        index.epoch, index.sampler = epoch, sampler
        return index

    def __reduce__(self) -> tuple[Any, ...]:
        if self.sampler is not None:
            self.sampler.is_ahead = True
        return EpochIndex.of, (int(self), self.epoch)


def clips_of(epoch: int, numbers: NDArray[np.int64]) -> list[EpochIndex]:
    """Return the numbers of clips with their epoch."""
    return [EpochIndex.of(number, epoch) for number in numbers.tolist()]


class ClipSampler:
    """Yields the numbers of an epoch's clips, one epoch per iteration.

    weights: one per clip; an epoch then has the same number of clips, drawn with replacement by weight. Default: those
    of the data set, if any. rank, world_size: every process draws its share; all shares have the same length, so the
    last clips may be repeated. `state_dict` after an epoch's first n numbers, passed to `load_state_dict`, makes the
    next iteration continue after them; otherwise an iteration after one that was left begins the next epoch. The
    episodes of a ReplayBuffer are those that it has when an iteration begins. Raises DatasetError.
    """

    def __init__(
        self,
        dataset: Dataset | int,
        *,
        shuffle: bool = True,
        seed: int = 0,
        weights: Sequence[float] | NDArray[Any] | None = None,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self._dataset, self._weights = dataset, weights
        self.seed, self.shuffle = whole_number(seed, "seed", DatasetError, least=0), bool(shuffle)
        self._read_clips()
        self.world_size = positive(world_size, "world_size")
        self.rank = whole_number(rank, "rank", DatasetError)
        if not 0 <= self.rank < self.world_size:
            raise DatasetError(f"rank: expected 0 to {self.world_size - 1}, found {rank}")
        self.epoch = self.position = 0
        self.is_ahead = False
        """Whether numbers were sent to workers, which read more of them than a training loop has got."""
        self._iteration = (0, 0)  # epoch and first position of the last one
        self._is_resumed = False

    def _read_clips(self) -> None:
        dataset = self._dataset
        length = dataset if isinstance(dataset, int) else len(dataset)
        self.length = whole_number(length, "clips", DatasetError, least=0)
        weights = getattr(dataset, "clip_weights", None) if self._weights is None else self._weights
        self.weights = None if weights is None else check_weights(weights, self.length)
        checksum = 0 if isinstance(dataset, int) or not hasattr(dataset, "checksum_clips") else dataset.checksum_clips()
        self.clips = checksum if self.weights is None else crc32(self.weights.tobytes(), checksum)
        self._revision = getattr(dataset, "revision", 0)

    def refresh(self) -> bool:
        """Count the clips anew if episodes were added or removed; returns whether there were such."""
        has_changed = getattr(self._dataset, "revision", 0) != self._revision
        if has_changed:
            self._read_clips()
        return has_changed

    def begin(self) -> tuple[int, int]:
        """Begin an iteration; returns its epoch, and its first position: 0 unless a state was loaded."""
        self.refresh()
        if self.position and not self._is_resumed:
            self.epoch, self.position = self.epoch + 1, 0
        self._is_resumed = self.is_ahead = False
        self._iteration = (self.epoch, self.position)
        return self._iteration

    def advance(self, epoch: int, position: int | None) -> None:
        """Record how far the iteration of an epoch is, None: at its end; that of a later epoch prevails."""
        if epoch >= self.epoch:
            self.epoch, self.position = (epoch + 1, 0) if position is None else (epoch, position)

    def __len__(self) -> int:
        return (self.length + self.world_size - 1) // self.world_size

    def order(self, epoch: int) -> NDArray[np.int64]:
        """Return the numbers of an epoch's clips for this rank."""
        rng = np.random.default_rng((self.seed, epoch))
        if self.weights is not None:
            ends = np.cumsum(self.weights)
            numbers = np.searchsorted(ends, rng.random(self.length) * ends[-1], side="right")
            numbers = np.minimum(numbers, self.length - 1)
        else:
            numbers = rng.permutation(self.length) if self.shuffle else np.arange(self.length)
        total = len(self) * self.world_size
        return np.resize(numbers, total)[self.rank :: self.world_size] if self.length else numbers

    def __iter__(self) -> Iterator[int]:
        epoch, start = self.begin()
        for position, number in enumerate(self.order(epoch)[start:].tolist(), start + 1):
            self.advance(epoch, position)
            yield EpochIndex.of(number, epoch, self)
        self.advance(epoch, None)

    def state_dict(self, clips: int | None = None) -> dict[str, Any]:
        """Return the state to resume an equal sampler from here.

        clips: how many of the last iteration the training loop has got, for loaders with workers, which read ahead of
        it. Raises DatasetError where it is missing.
        """
        if clips is not None:
            epoch, start = self._iteration
            position = start + whole_number(clips, "clips", DatasetError, least=0)
            return self._identity() | {"epoch": epoch, "position": min(position, len(self))}
        if self.is_ahead:
            raise DatasetError(
                "state: expected clips that are read in this process; worker processes are ahead of the training loop: "
                "use ClipLoader, or say how many clips of this epoch it has got: state_dict(clips=...)"
            )
        return self._identity() | {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a state; raises DatasetError for the state of another order."""
        for name, value in self._identity().items():
            if check_state(state).get(name) != value:
                given = shown(state.get(name))
                raise DatasetError(f"state: {name}: expected {value!r} to match this sampler, found {given}")
        epoch, position = integer(state.get("epoch")), integer(state.get("position"))
        if epoch is None or position is None or epoch < 0 or not 0 <= position <= len(self):
            given = f"{shown(state.get('epoch'))} and {shown(state.get('position'))}"
            raise DatasetError(f"state: expected epoch and position >= 0, at most {len(self)} clips, found {given}")
        self.epoch, self.position, self._is_resumed = epoch, position, True

    def _identity(self) -> dict[str, Any]:
        self.refresh()
        names = ("length", "clips", "seed", "shuffle", "rank", "world_size")
        return {name: getattr(self, name) for name in names}


def check_state(state: Any) -> Mapping[str, Any]:
    """Return a state unchanged; raises DatasetError if it is not a mapping."""
    if not isinstance(state, Mapping):
        raise DatasetError(f"state: expected that of state_dict, found {shown(state)}")
    return state


def check_weights(values: Any, length: int) -> NDArray[np.float64]:
    """Return weights [length] as float64; raises DatasetError unless they are finite, none below 0 and one above."""
    try:
        weights = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise DatasetError(f"weights: expected {plural(length, 'number')} >= 0, found {shown(values)}") from None
    if weights.shape != (length,):
        raise DatasetError(f"weights: expected {plural(length, 'number')} >= 0, found {list(weights.shape)}")
    invalid = weights[~((weights >= 0) & (weights < np.inf))]
    if len(invalid) or (length and not 0 < weights.sum() < np.inf):
        raise DatasetError(
            f"weights: expected finite numbers >= 0, one of them above 0, found {[*invalid[:1], 0.0][0]}"
        )
    return weights
