"""Memory that worker processes share with the loop that they read for, used again when a batch is no longer needed."""

from __future__ import annotations

import mmap
import weakref
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from wshard.data.dataset import collate
from wshard.data.sampler import clips_of
from wshard.data.tensors import as_numpy, as_tensor, is_tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wshard.data.dataset import Dataset, Item

_SIZE: Final = 1 << 26  # address space: a page takes memory when it is first written
_ALIGNED: Final = 64


class SlotArray(NamedTuple):
    """Where a column is in a slot: its axes in the order of memory, and the place of each axis of the column there."""

    start: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    axes: tuple[int, ...]
    tensor: bool


class BatchSlots:
    """Slots of shared memory that forked processes inherit: new shared memory for each batch costs more than reading.

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
        """Move the arrays of a batch into a slot, as far as there is room."""
        if slot is None:
            return None, batch
        found, position, whole = dict(batch), 0, np.frombuffer(self._memory[slot], np.uint8)
        for name, column in batch.items():
            array = as_numpy(column)
            if not isinstance(array, np.ndarray) or array.dtype.hasobject or position + array.nbytes > _SIZE:
                continue
            order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
            ordered = array.transpose(order)  # images are [H, W, C] in memory: to copy them so costs a fraction
            axes = tuple(order.index(axis) for axis in range(array.ndim))
            place = SlotArray(position, ordered.shape, array.dtype, axes, is_tensor(column))
            np.copyto(_view(whole, place), array)
            found[name] = place
            position += -(-array.nbytes // _ALIGNED) * _ALIGNED
        return slot, found

    def read(self, written: tuple[int | None, Item]) -> Item:
        """Return a batch, whose arrays are views of its slot."""
        slot, batch = written
        if slot is None:
            return batch
        self._requested.discard(slot)
        whole = np.frombuffer(self._memory[slot], np.uint8)
        weakref.finalize(whole, self._free.append, slot).atexit = False
        arrays = {name: _view(whole, one) for name, one in batch.items() if isinstance(one, SlotArray)}
        return {
            name: one if name not in arrays else as_tensor(arrays[name]) if one.tensor else arrays[name]
            for name, one in batch.items()
        }


class SlotDataset:
    """A data set as workers read it: (slot, epoch, clips) give the batch of these clips, written into the slot."""

    def __init__(self, dataset: Dataset, slots: BatchSlots) -> None:
        self.dataset, self.slots = dataset, slots

    def __getitems__(self, request: tuple[int | None, int, NDArray[np.int64]]) -> tuple[int | None, Item]:
        """Read a batch."""
        slot, epoch, numbers = request
        return self.slots.write(slot, collate(self.dataset.__getitems__(clips_of(epoch, numbers))))


def _view(whole: Any, place: SlotArray) -> Any:
    size = int(np.prod(place.shape)) * place.dtype.itemsize
    return whole[place.start : place.start + size].view(place.dtype).reshape(place.shape).transpose(place.axes)
