"""The bytes of a video that hold a span of frames: the whole file, or a copy of the packets that the span needs."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from wshard.media.open_video import import_av, translate_errors
from wshard.media.video_pool import POOL

if TYPE_CHECKING:
    from wshard.media.open_video import OpenVideo
    from wshard.media.video_frames import VideoFrames


def copy_video(frames: VideoFrames) -> tuple[bytes, int]:
    """Return an MP4 with the frames, and the number of the first of them in it, in display order.

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
    begin, end = video.ticks[first], video.ticks[stop - 1]
    packets = video.packets_from(begin)
    key = packets[0].pts
    # What is decoded behind the key frame but shown before it needs frames that are left out.
    chosen = [packet for packet in packets if packet.pts is not None and packet.pts >= key]
    last = max(place for place, packet in enumerate(chosen) if packet.pts <= end)
    chosen = chosen[: last + 1]
    before = sum(packet.pts < begin for packet in chosen)
    file = io.BytesIO()
    with import_av().open(file, "w", format="mp4") as target:
        stream: Any = target.add_stream_from_template(video.stream)
        for packet in chosen:
            packet.pts, packet.dts, packet.stream = packet.pts - key, packet.dts - key, stream
            target.mux(packet)
    return file.getvalue(), before
