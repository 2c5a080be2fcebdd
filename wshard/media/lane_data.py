"""The field of a Channel with an array, or with encoded frames that are decoded on first access."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, overload

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wshard.media.frames import EncodedFrames


class _HasFrames(Protocol):
    encoded: EncodedFrames | None


class LaneData:
    """A field `data` backed by a field `encoded`: assigning an array replaces the encoded frames."""

    @overload
    def __get__(self, lane: None, owner: type) -> NDArray[Any]: ...
    @overload
    def __get__(self, lane: _HasFrames, owner: type) -> NDArray[Any]: ...
    def __get__(self, lane: _HasFrames | None, owner: type) -> NDArray[Any]:
        if lane is None:
            raise AttributeError("data")  # so that dataclasses see a field without a default
        frames = lane.__dict__.get("encoded")
        array: NDArray[Any] = lane.__dict__["_data"] if frames is None else frames.pixels
        return array

    def __set__(self, lane: _HasFrames, values: Any) -> None:
        lane.__dict__["_data"] = values
        if lane.__dict__.get("encoded") is not None:
            lane.encoded = None
