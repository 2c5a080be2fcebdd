"""The rows of a journal's flushes, lane by lane, as views of the file: long recordings have many flushes."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wshard.core.container.layout import FRAME_SIZE
from wshard.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from wshard.core.container.layout import Buffer
    from wshard.core.recording.recorded_lane import RecordedLane

_SIZES = np.dtype("<u4")


class FlushedRows:
    """What the flushes of a journal hold: rows of the lanes without a codec, then the frames of each other lane."""

    def __init__(self, data: memoryview, lanes: Sequence[RecordedLane]) -> None:
        self.data = data
        self.starts, self.steps = array("Q"), array("L")
        self._plain = [lane for lane in lanes if lane.codec is None]
        self._encoded = [FlushedFrames(self, lane, lane.codec.name) for lane in lanes if lane.codec is not None]
        self._step_size = sum(lane.step_size for lane in self._plain)

    def add(self, start: int, steps: int, size: int, where: str) -> None:
        """Add a flush of `size` bytes at `start`; raises FormatError unless it holds its timesteps exactly."""
        end, places = start + steps * self._step_size, []
        for _ in self._encoded:
            places.append(end)
            end += steps * FRAME_SIZE.size
            if end <= start + size:
                end += int(np.frombuffer(self.data[places[-1] : end], _SIZES).sum(dtype=np.uint64))
        if end != start + size:
            raise FormatError(f"{where}: expected {end - start} bytes for {steps} timesteps, found {size}")
        self.starts.append(start)
        self.steps.append(steps)
        for frames, place in zip(self._encoded, places, strict=True):
            frames.places.append(place)

    def lanes(self) -> dict[str, Sequence[Buffer]]:
        """Return the rows of each lane without a codec, flush by flush."""
        pieces: dict[str, Sequence[Buffer]] = {}
        preceding_size = 0
        for lane in self._plain:
            pieces[lane.block] = _Rows(self, preceding_size, lane.step_size)
            preceding_size += lane.step_size
        return pieces

    def frames(self) -> dict[str, FlushedFrames]:
        """Return the frames of each lane with a codec."""
        return {frames.lane.block: frames for frames in self._encoded}


class _Rows(Sequence["Buffer"]):
    """The rows of one lane; preceding_size: bytes per timestep of the lanes before it."""

    def __init__(self, flushes: FlushedRows, preceding_size: int, step_size: int) -> None:
        self._flushes = flushes
        self._preceding_size = preceding_size
        self._step_size = step_size

    def __len__(self) -> int:
        return len(self._flushes.starts)

    def __getitem__(self, number: Any) -> Any:
        """Return the lane's bytes in this flush."""
        start, steps = self._flushes.starts[number], self._flushes.steps[number]
        first = start + self._preceding_size * steps
        return self._flushes.data[first : first + self._step_size * steps]


class FlushedFrames(Sequence["Buffer"]):
    """The encoded frames of one lane; an item is those of a flush, one after the other. places: of their sizes."""

    def __init__(self, flushes: FlushedRows, lane: RecordedLane, codec: str) -> None:
        self.lane = lane
        self.codec = codec
        self.places = array("Q")
        self._flushes = flushes

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, number: Any) -> Any:
        """Return the bytes of the frames of this flush."""
        sizes = self._sizes(number)
        first = self.places[number] + sizes.nbytes
        return self._flushes.data[first : first + int(sizes.sum(dtype=np.uint64))]

    def sizes(self) -> Iterable[NDArray[np.uint32]]:
        """Yield the sizes of the frames, flush by flush."""
        return map(self._sizes, range(len(self)))

    def _sizes(self, number: int) -> NDArray[np.uint32]:
        place = self.places[number]
        return np.frombuffer(self._flushes.data[place : place + self._flushes.steps[number] * FRAME_SIZE.size], _SIZES)
