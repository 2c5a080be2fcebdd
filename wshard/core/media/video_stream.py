"""Encode a video frame by frame without delay, and put frames that were encoded so into an MP4."""

from __future__ import annotations

import contextlib
from fractions import Fraction
from typing import IO, TYPE_CHECKING, Any, Final

from wshard.core.media.camera_encoder import CameraEncoder
from wshard.core.media.open_video import import_av, translate_errors
from wshard.core.media.video_writer import (
    AV1_OPTIONS,
    DEFAULT_OPTIONS,
    check_frame,
    pixel_format,
    rate_of,
    restrain_encoder,
    to_frame,
)
from wshard.errors import EpisodeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wshard.core.container.layout import Buffer

GROUP: Final = int(DEFAULT_OPTIONS["g"])
"""Frames from one key frame to the next; no frame refers to one outside of its group, or to a later one."""

# Neither looks ahead, so that each frame comes out before the next goes in; one thread each.
_ENCODERS: Final = {
    "h264": (
        "libx264",
        {"preset": "veryfast", "tune": "zerolatency", "bf": "0", "keyint_min": str(GROUP), "sc_threshold": "0"},
    ),
    "av1": ("libsvtav1", {**AV1_OPTIONS, "svtav1-params": "pred-struct=1:lookahead=0:lp=1"}),
}
_RATE: Final = Fraction(
    30
)  # of the encoder: at a constant rate factor it changes nothing, and write_mp4 sets the times
_DEMUXERS: Final = {"h264": "h264", "av1": "obu"}


class VideoStream(CameraEncoder):
    """An encoder of frames [H, W, C] of one shape, as "h264" or "av1"; quality: the constant rate factor.

    Raises EpisodeError for a shape that it cannot encode, MissingExtraError.
    """

    def __init__(self, codec: str, shape: Sequence[int], *, quality: int | None = None) -> None:
        av = import_av()
        self._error = av.FFmpegError
        self._shape = tuple(shape)
        self._count = 0
        library, options = _ENCODERS[codec]
        options = DEFAULT_OPTIONS | options | ({} if quality is None else {"crf": str(quality)})
        try:
            with restrain_encoder():
                self._encoder = av.CodecContext.create(library, "w")
                self._encoder.height, self._encoder.width = self._shape[:2]
                self._encoder.pix_fmt = pixel_format(self._shape)
                self._encoder.time_base, self._encoder.framerate = 1 / _RATE, _RATE
                self._encoder.thread_count, self._encoder.options = 1, options
                self._encoder.open()
        except (av.FFmpegError, ValueError) as error:
            size = "x".join(map(str, shape))
            raise EpisodeError(f"video: {library} cannot encode frames {size}: {error}") from error

    def encode(self, frame: Any) -> bytes:
        """Return a frame, encoded; frames are encoded in order. Raises EpisodeError."""
        pixels = check_frame(frame, self._shape, self._count)
        image = to_frame(pixels)
        image.pts, image.time_base = self._count, 1 / _RATE
        try:
            packets = self._encoder.encode(image)
        except self._error as error:
            raise EpisodeError(f"video: frame {self._count} cannot be encoded: {error}") from error
        if len(packets) != 1:
            raise EpisodeError(f"video: frame {self._count}: expected it encoded at once, found {len(packets)} packets")
        self._count += 1
        return bytes(packets[0])

    def close(self) -> None:
        """End the encoder, which otherwise complains."""
        with contextlib.suppress(self._error):
            self._encoder.encode(None)


def write_mp4(file: IO[bytes], pieces: Iterable[Buffer], codec: str, *, fps: float, where: str) -> int:
    """Write frames of a VideoStream as an MP4 of constant rate; returns their number.

    pieces: their bytes, one after the other. Nothing is encoded again. Raises CodecError for other bytes, OSError.
    """
    av, rate, count = import_av(), rate_of(fps), 0
    with (
        translate_errors(where),
        av.open(_Pieces(pieces), format=_DEMUXERS[codec]) as source,
        av.open(file, "w", format="mp4") as target,
    ):
        video = source.streams.video[0]
        # Opaque: the codec's parameters are copied, so that no encoder of the name of the decoder is needed.
        stream = target.add_stream_from_template(video, opaque=True)
        stream.time_base = 1 / rate
        for packet in source.demux(video):
            if packet.size:
                packet.pts = packet.dts = count
                packet.duration, packet.time_base, packet.stream = 1, 1 / rate, stream
                target.mux(packet)
                count += 1
    return count


class _Pieces:
    """Bytes that come in pieces, as a file to read once."""

    def __init__(self, pieces: Iterable[Buffer]) -> None:
        self._pieces: Iterator[Buffer] = iter(pieces)
        self._rest = memoryview(b"")

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, b"" at the end."""
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._rest = memoryview(piece)
        data, self._rest = bytes(self._rest[:size]), self._rest[size:]
        return data
