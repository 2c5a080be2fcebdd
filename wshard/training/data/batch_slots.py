"""Shared memory in which worker processes return batches to the training loop; reused when a batch is released."""

from __future__ import annotations

import mmap
import weakref
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from wshard.errors import WShardError
from wshard.training.data.batch import collate
from wshard.training.data.sampler import clips_of
from wshard.training.data.tensors import as_numpy, as_tensor, is_tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wshard.training.data.batch import Item
    from wshard.training.data.dataset import Dataset

_SIZE: Final = 1 << 26  # of address space; pages are only allocated when they are written
_ALIGNED: Final = 64


class SlotArray(NamedTuple):
    """A column in a slot: shape in memory order, and `axes`, the transposition that restores the column's order."""

    start: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    axes: tuple[int, ...]
    tensor: bool


class BatchSlots:
    """Slots of shared memory that forked processes inherit; allocating it anew for each batch would cost too much.

    The parent process chooses a free slot for a batch before a worker reads it. A slot is free again when no tensor or
    array of its batch is left.
    """

    def __init__(self, count: int) -> None:
        self._memory = [mmap.mmap(-1, _SIZE) for _ in range(count)]
        self._free = list(range(count))
        self._requested: set[int] = set()

    def take(self) -> int | None:
        """Return a free slot for a batch to be requested; None if there is none."""
        if not self._free:
            return None
        slot = self._free.pop()
        self._requested.add(slot)
        return slot

    def reclaim(self) -> None:
        """Free the slots of batches that were requested, but never read."""
        self._free += self._requested
        self._requested.clear()

    def write(self, slot: int | None, batch: Item) -> tuple[int | None, Item]:
        """Copy the arrays of a batch into a slot, as far as they fit; returns the batch with SlotArrays for them."""
        if slot is None:
            return None, batch
        moved, position, memory = dict(batch), 0, np.frombuffer(self._memory[slot], np.uint8)
        for name, column in batch.items():
            array = as_numpy(column)
            if not isinstance(array, np.ndarray) or array.dtype.hasobject or position + array.nbytes > _SIZE:
                continue
            order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
            ordered = array.transpose(order)  # images are [H, W, C] in memory: copying in this order is much faster
            axes = tuple(order.index(axis) for axis in range(array.ndim))
            slot_array = SlotArray(position, ordered.shape, array.dtype, axes, is_tensor(column))
            np.copyto(_view(memory, slot_array), array)
            moved[name] = slot_array
            position += -(-array.nbytes // _ALIGNED) * _ALIGNED
        return slot, moved

    def read(self, written: tuple[int | None, Item]) -> Item:
        """Return a batch, whose arrays are views of its slot."""
        slot, batch = written
        if slot is None:
            return batch
        self._requested.discard(slot)
        memory = np.frombuffer(self._memory[slot], np.uint8)
        weakref.finalize(memory, self._free.append, slot).atexit = False
        arrays = {name: _view(memory, value) for name, value in batch.items() if isinstance(value, SlotArray)}
        return {
            name: value if name not in arrays else as_tensor(arrays[name]) if value.tensor else arrays[name]
            for name, value in batch.items()
        }


class SlotDataset:
    """A data set as workers read it: a request (slot, epoch, clip numbers) gives their batch, written into the slot."""

    def __init__(self, dataset: Dataset, slots: BatchSlots, *, skip: bool = False) -> None:
        self.dataset, self.slots, self.skip = dataset, slots, skip

    def __getitems__(
        self, request: tuple[int | None, int, NDArray[np.int64]]
    ) -> tuple[tuple[int | None, Item], list[str]]:
        """Read a batch; returns it and why clips of it are left out, as read_batch."""
        slot, epoch, numbers = request
        batch, problems = read_batch(self.dataset, epoch, numbers, skip=self.skip)
        return self.slots.write(slot, batch), problems


def read_batch(dataset: Dataset, epoch: int, numbers: NDArray[np.int64], *, skip: bool) -> tuple[Item, list[str]]:
    """Return the stacked clips of these numbers; skip: without those that cannot be read, and the reason for each.

    The batch is empty if none can be read.
    """
    clips = clips_of(epoch, numbers)
    try:
        return collate(dataset.__getitems__(clips)), []
    except (WShardError, OSError):
        if not skip:
            raise
    items: list[Item] = []
    problems: list[str] = []
    for clip in clips:
        try:
            items += dataset.__getitems__([clip])
        except (WShardError, OSError) as error:
            problems.append(str(error))
    return collate(items) if items else {}, problems


def _view(memory: Any, slot_array: SlotArray) -> Any:
    size = int(np.prod(slot_array.shape)) * slot_array.dtype.itemsize
    return (
        memory[slot_array.start : slot_array.start + size]
        .view(slot_array.dtype)
        .reshape(slot_array.shape)
        .transpose(slot_array.axes)
    )
