"""A lane of a recording: its declaration, and the codec of its frames if they are encoded while recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

from wshard.core.array_fields import DType
from wshard.core.episode.camera_encoding import STORED_AS, CameraEncoding
from wshard.core.episode.frame_rows import read_encoding
from wshard.core.episode.meta_reader import Declaration
from wshard.errors import EpisodeError, FormatError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class RecordedLane(Declaration):
    """A lane of a recording; codec: that of its frames.

    Until the first timestep, frames may have the shape (), and the lane declares no encoding.
    """

    codec: CameraEncoding | None = None

    @classmethod
    def of(cls, declaration: Declaration, codec: CameraEncoding | None = None) -> Self:
        """Return a declared lane as a recorded one."""
        return cls(**{one.name: getattr(declaration, one.name) for one in fields(Declaration)}, codec=codec)

    def begin(self, shape: Sequence[int]) -> RecordedLane:
        """Return the lane with the shape of its first value; raises EpisodeError for frames that do not fit its codec.

        The shape of a lane without a codec does not change.
        """
        if self.codec is None:
            return self
        self.check_frames(self.codec, shape)
        return replace(self, shape=tuple(shape), encoding=self.codec.stored_as)

    def check_frames(self, codec: CameraEncoding, shape: Sequence[int]) -> None:
        """Raise EpisodeError unless the codec holds frames of this shape and the lane's dtype."""
        if not codec.fits(shape, self.dtype.numpy_dtype):
            raise EpisodeError(
                f"{self.block}: codec {codec.name}: expected {codec.frames}, found {self.dtype.value} {list(shape)}"
            )

    def without_codec(self) -> RecordedLane:
        """Return the lane as one of arrays: there may be no video of 0 frames."""
        return replace(self, codec=None, encoding="")

    def to_json(self) -> Any:
        """Return the lane's entry in the journal: its name, or an object if it is encoded."""
        if self.codec is None:
            return self.block
        shape = {"frame_shape": list(self.shape), "frame_dtype": self.dtype.value}
        return {"block": self.block, "codec": self.codec.name, **shape}

    @staticmethod
    def read(entry: object, declared: Mapping[str, Declaration], where: str) -> RecordedLane:
        """Return the lane of a journal's entry; raises FormatError for an entry that to_json does not give."""
        row = entry if isinstance(entry, Mapping) else {"block": entry}
        block, codec = row.get("block"), row.get("codec", "")
        if not isinstance(block, str) or block not in declared:
            raise FormatError(f"{where}: expected declared lanes, found {block!r}")
        lane = RecordedLane.of(declared[block])
        if "codec" not in row:
            return lane
        if not isinstance(codec, str) or codec not in STORED_AS:
            raise FormatError(f"{where}: {block}: codec: expected one of {', '.join(STORED_AS)}, found {codec!r}")
        stored = {**row, "encoding": STORED_AS[codec]}
        encoding, dtype, shape, _ = read_encoding(stored, block, DType.UINT8, (), f"{where}: {block}")
        return replace(lane, dtype=dtype, shape=shape, encoding=encoding, codec=CameraEncoding(codec))
