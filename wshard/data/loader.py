"""Batches of clips in an order that is known, by worker processes if there are any, and a state to go on from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wshard.arguments import integer
from wshard.data.clips import positive
from wshard.data.dataset import collate
from wshard.data.sampler import ClipSampler, EpochIndex
from wshard.data.tensors import worker_loader
from wshard.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wshard.data.dataset import Dataset, Item


class ClipLoader:
    """Yields the batches of an epoch, one epoch per iteration: stacked columns [batch_size, ...].

    The order is that of ClipSampler, which gets `options` (shuffle, seed, weights, rank, world_size); workers do not
    affect it. `state_dict` counts the batches yielded, not those that workers have prefetched. num_workers: torch
    worker processes, which persist between epochs.
    """

    def __init__(
        self, dataset: Dataset, batch_size: int = 1, *, num_workers: int = 0, drop_last: bool = False, **options: Any
    ) -> None:
        self.dataset = dataset
        self.sampler = ClipSampler(dataset, **options)
        self.batch_size = positive(batch_size, "batch_size")
        self.drop_last = drop_last
        self._workers = None if not num_workers else worker_loader(dataset, _Batches(self), num_workers, collate)

    def __len__(self) -> int:
        count, rest = divmod(len(self.sampler), self.batch_size)
        return count + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[Item]:
        read = (collate(self.dataset.__getitems__(numbers)) for numbers in _Batches(self))
        for batch in read if self._workers is None else self._workers:
            self.sampler.position += self.batch_size
            yield batch
        self.sampler.epoch, self.sampler.position = self.sampler.epoch + 1, 0

    def state_dict(self) -> dict[str, Any]:
        """Return the state to resume an equal loader after the last batch."""
        return self.sampler.state_dict() | {"batch_size": self.batch_size}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a state; raises DatasetError for the state of another order."""
        if integer(state.get("batch_size")) != self.batch_size:
            raise DatasetError(f"state: batch_size: expected {self.batch_size}, found {state.get('batch_size')!r}")
        position = min(integer(state.get("position")) or 0, len(self.sampler))
        self.sampler.load_state_dict({**state, "position": position})


class _Batches:
    """The numbers of the clips of the batches that are left of a loader's epoch."""

    def __init__(self, loader: ClipLoader) -> None:
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[list[int]]:
        sampler, size = self._loader.sampler, self._loader.batch_size
        epoch, order = sampler.epoch, sampler.order(sampler.epoch)
        for start in range(sampler.position, min(len(self) * size, len(order)), size):
            yield [EpochIndex.of(number, epoch) for number in order[start : start + size].tolist()]
