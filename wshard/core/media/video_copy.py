"""Extract a span of frames as a video: the whole file, or a copy of the packets that the span needs."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from wshard.core.media.open_video import import_av, translate_errors
from wshard.core.media.video_pool import POOL

if TYPE_CHECKING:
    from wshard.core.media.open_video import OpenVideo
    from wshard.core.media.video_frames import VideoFrames


def copy_video(frames: VideoFrames) -> tuple[bytes, int]:
    """Return an MP4 with the frames, and the number of the first one in it, in display order.

    A span of the whole file gives the bytes of the file. For any other span the packets are copied from the preceding
    key frame on; nothing is re-encoded. Raises CodecError if frames are not at their times.
    """
    with POOL.use(frames.source, frames.where) as video:
        first = frames.number_in(video)
        if not first and frames.length == len(video.times):
            return video.read_file(), 0
        with translate_errors(frames.where):
            return _copy_packets(video, first, first + frames.length)


def _copy_packets(video: OpenVideo, first: int, stop: int) -> tuple[bytes, int]:
    first_tick, last_tick = video.ticks[first], video.ticks[stop - 1]
    packets = video.packets_from(first_tick)
    key = packets[0].pts
    # Packets decoded after the key frame but displayed before it depend on frames that are not copied.
    copied = [packet for packet in packets if packet.pts is not None and packet.pts >= key]
    last_index = max(index for index, packet in enumerate(copied) if packet.pts <= last_tick)
    copied = copied[: last_index + 1]
    preceding_count = sum(packet.pts < first_tick for packet in copied)
    file = io.BytesIO()
    with import_av().open(file, "w", format="mp4") as target:
        # Opaque: the codec's parameters are copied, so that no encoder of the name of the decoder is needed.
        stream: Any = target.add_stream_from_template(video.stream, opaque=True)
        for packet in copied:
            packet.pts, packet.dts, packet.stream = packet.pts - key, packet.dts - key, stream
            target.mux(packet)
    return file.getvalue(), preceding_count
