"""Batches of clips in a reproducible order, optionally read by worker processes, with a state to resume from."""

from __future__ import annotations

import warnings
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from wshard.core.arguments import integer, whole_number
from wshard.core.keywords import check_options
from wshard.core.messages import plural, shown
from wshard.errors import DatasetError, NoClipsError, SkippedEpisodeWarning
from wshard.training.data.batch_slots import BatchSlots, SlotDataset, read_batch
from wshard.training.data.clips import positive
from wshard.training.data.dataset import Dataset, explain_no_clips
from wshard.training.data.sampler import ClipSampler, check_state
from wshard.training.data.tensors import forks_workers, worker_loader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from wshard.training.data.batch import Item

_PREFETCHED: Final = 2  # batches for each worker, as torch does it
_IN_USE: Final = 3  # batches that a training loop may keep


class ClipLoader:
    """Yields the batches of an epoch, one epoch per iteration: stacked columns [batch_size, ...].

    The order is that of ClipSampler, which gets `options` (shuffle, seed, weights, rank, world_size); workers do not
    affect it. `state_dict` counts the batches yielded, not those that workers have prefetched. An iteration after one
    that was left begins the next epoch, unless a state was loaded. num_workers: torch worker processes, which persist
    between epochs and read for one iteration at a time. Of a ReplayBuffer, every batch is drawn from the clips that it
    has then; workers have those of the beginning of the epoch. on_error "skip": clips of episodes that are damaged,
    missing or changed are left out of their batches; `skipped` counts them by reason, and a SkippedEpisodeWarning says
    each reason once. Raises DatasetError, NoClipsError for a data set without
    clips, and for fewer than a batch with drop_last.
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int = 1,
        *,
        num_workers: int = 0,
        drop_last: bool = False,
        on_error: Literal["raise", "skip"] = "raise",
        **options: Any,
    ) -> None:
        if not isinstance(dataset, Dataset):
            raise DatasetError(f"dataset: expected a Dataset (see load_dataset), found {shown(dataset)}")
        if on_error not in ("raise", "skip"):
            raise DatasetError(f"on_error: expected 'raise' or 'skip', found {shown(on_error)}")
        check_options(type(self), options, ClipSampler)
        self.dataset, self.on_error = dataset, on_error
        self.skipped: dict[str, int] = {}
        self.sampler = ClipSampler(dataset, **options)
        self.batch_size = positive(batch_size, "batch_size")
        self.num_workers = num_workers = whole_number(num_workers, "num_workers", DatasetError, least=0)
        inherited = num_workers and dataset.fork_safe and forks_workers()
        self._slots = BatchSlots(_PREFETCHED * num_workers + _IN_USE if inherited else 0)
        self._requests = _Requests(self.sampler, self.batch_size, drop_last, self._slots)
        self._check_clips()
        self._workers: Any = None
        self._finalizer: Any = None
        self._revision = -1
        self._iteration = 0

    def _check_clips(self) -> None:
        if reason := explain_no_clips(self.dataset):
            raise NoClipsError(reason)
        if not len(self._requests):
            count = f"found {plural(len(self.sampler), 'clip')}"
            raise NoClipsError(f"expected a whole batch of {self.batch_size}, as drop_last omits smaller ones, {count}")

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Item]:
        epoch, start = self.sampler.begin()
        self._check_clips()
        read = self._read_by_workers() if self.num_workers else self._read(epoch, start)
        total = len(self.sampler)
        is_empty = True
        for batch, problems in read:
            start = min(start + self.batch_size, total)
            self.sampler.advance(epoch, start)
            self._count_skipped(problems)
            if batch:
                is_empty = False
                yield batch
        if is_empty and self.skipped and start:
            raise DatasetError(f"expected clips that can be read, found none in epoch {epoch}: {[*self.skipped][-1]}")
        self.sampler.advance(epoch, None)

    def _count_skipped(self, problems: Sequence[str]) -> None:
        for problem in problems:
            if problem not in self.skipped:
                warnings.warn(f"left out of training: {problem}", SkippedEpisodeWarning, 3)
            self.skipped[problem] = self.skipped.get(problem, 0) + 1

    def _read(self, epoch: int, start: int) -> Iterator[tuple[Item, list[str]]]:
        for numbers in self._requests.of(epoch, start, follow=True):
            yield read_batch(self.dataset, epoch, numbers, skip=self.on_error == "skip")

    def _read_by_workers(self) -> Iterator[tuple[Item, list[str]]]:
        self._iteration += 1
        iteration = self._iteration
        for written, problems in self._start_workers():
            yield self._slots.read(written), problems
            if iteration != self._iteration:
                raise DatasetError("loader: expected one iteration at a time with workers, found another one")

    def _start_workers(self) -> Any:
        """Return torch's loader; its workers are started anew for a data set that has changed."""
        if self._workers is None or self._revision != self.dataset.revision:
            if self._finalizer is not None:
                self._finalizer()
            slot_dataset = SlotDataset(self.dataset, self._slots, skip=self.on_error == "skip")
            self._workers = worker_loader(
                slot_dataset, self._requests, self.num_workers, fork_safe=self.dataset.fork_safe
            )
            self._revision = self.dataset.revision
            # If the garbage collector finds torch's loader, it waits 5 seconds for each worker, as its queues may be
            # closed already. The finalizer keeps a reference to it, so that it ends with this loader instead.
            self._finalizer = weakref.finalize(self, _release, self._workers)
            self._finalizer.atexit = False
        return self._workers

    def state_dict(self) -> dict[str, Any]:
        """Return the state to resume an equal loader after the last batch."""
        return self.sampler.state_dict() | {"batch_size": self.batch_size}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a state; raises DatasetError for the state of another order."""
        batch_size = check_state(state).get("batch_size")
        if integer(batch_size) != self.batch_size:
            raise DatasetError(f"state: batch_size: expected {self.batch_size}, found {shown(batch_size)}")
        self.sampler.load_state_dict(state)


def _release(_workers: Any) -> None:
    pass


@dataclass(frozen=True)
class _Requests:
    """The request for each remaining batch of the epoch: a free slot or None, the epoch and clip numbers.

    It has no reference to the loader, so that deleting the loader ends its workers at once, rather than at a garbage
    collection, which might run in the workers of another loader that have inherited it.
    """

    sampler: ClipSampler
    batch_size: int
    drop_last: bool
    slots: BatchSlots

    def __len__(self) -> int:
        count, remainder = divmod(len(self.sampler), self.batch_size)
        return count + (remainder > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[tuple[int | None, int, NDArray[np.int64]]]:
        self.slots.reclaim()
        epoch = self.sampler.epoch
        for numbers in self.of(epoch, self.sampler.position, follow=False):
            yield self.slots.take(), epoch, numbers

    def of(self, epoch: int, first: int, *, follow: bool) -> Iterator[NDArray[np.int64]]:
        """Yield the clip numbers of each batch from a position on; follow: those that there are at that time.

        There are as many as when the epoch began. Raises NoClipsError if there are none any more.
        """
        order = self.sampler.order(epoch)
        total = min(len(self) * self.batch_size, len(order))
        for start in range(first, total, self.batch_size):
            if follow and self.sampler.refresh():
                order = np.resize(self.sampler.order(epoch), total)
                if not len(self.sampler):
                    raise NoClipsError("expected clips to draw until the end of the epoch, found that all were removed")
            yield order[start : min(start + self.batch_size, total)]
