"""Write description and lanes as one episode file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from wshard.core.container.codec import Codec
from wshard.core.container.layout import CONTENT_JSON, DEFAULT_ALIGNMENT, ROLE_WSHARD
from wshard.core.container.writer import ShardWriter
from wshard.core.episode.meta_writer import write_description

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wshard.core.container.codec_plan import CodecPlan
    from wshard.core.container.layout import Buffer
    from wshard.core.episode.meta_reader import Description
    from wshard.core.files.schemes import PathOrFile


def store(
    target: PathOrFile, description: Description, payloads: Mapping[str, Sequence[Buffer]], plan: CodecPlan
) -> int:
    """Write description and lanes as one episode file; the only place that does. Returns the size in bytes."""
    declared = {
        name: replace(lane, frame_steps=0 if lane.encoding else plan.frame_steps(name))
        for name, lane in description.declared.items()
    }
    description = replace(description, declared=declared)
    writer = ShardWriter(target, role=ROLE_WSHARD, alignment=DEFAULT_ALIGNMENT, compression=plan.default)
    with writer:
        meta = write_description(description)
        for name in sorted({**meta, **payloads}):
            if name in meta:  # these stay uncompressed: catalog scans read them from every file
                writer.write_entry(name, meta[name], compression=Codec(), content_type=CONTENT_JSON)
                continue
            lane = declared.get(name)
            frame_size = lane.frame_steps * lane.step_size if lane else 0
            codec = Codec() if lane and lane.encoding else plan.codec(name)  # encoded frames are compressed already
            writer.write_entry(name, payloads[name], compression=codec, frame_size=frame_size)
        return writer.close()
