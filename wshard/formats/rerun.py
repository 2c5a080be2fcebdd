"""Rerun recordings: one .rrd file per episode, for its viewer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from wshard.core.container.draft import Draft
from wshard.core.episode.lanes import REWARD
from wshard.core.plugins import import_library
from wshard.formats.file_per_episode import FilesSink

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wshard.core.types import Array, Episode

_MAX_CHANNELS: Final = 512
_MAGIC: Final = b"RRF"


class RerunSink(FilesSink):
    """Writes lanes of numbers as series, cameras as images, metadata as a document; timelines are step and time."""

    suffix: ClassVar[str] = ".rrd"
    cannot_hold: ClassVar[tuple[str, ...]] = (
        "lanes of other shapes than numbers per channel and images",
        "residuals and blocks of other programs",
    )

    content = "Rerun recording"
    takes_file_objects = False

    def _has_episodes(self) -> bool:
        import_library("rerun", "rerun")
        return super()._has_episodes()

    @classmethod
    def _is_own(cls, path: Path) -> bool:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC

    def _save_new(self, ep: Episode, path: Path) -> None:
        self._save(ep, path)

    def _save(self, ep: Episode, location: Any) -> None:
        rr = import_library("rerun", "rerun")
        draft = Draft(location, "overwrite" if self._folder is None else "error", folder=False, owned=[""])
        try:
            _write_recording(rr, ep, draft.path)
            draft.publish()
        except BaseException:
            draft.discard()
            raise


def _write_recording(rr: Any, ep: Episode, path: Path) -> None:
    steps = np.arange(ep.length)
    with rr.RecordingStream("wshard", recording_id=ep.id) as recording:
        recording.save(path)
        properties = {"id": ep.id, "env": ep.env_id, **ep.metadata}
        recording.log("metadata", rr.TextDocument(json.dumps(properties, indent=1, default=str)), static=True)
        timelines = [rr.TimeColumn("step", sequence=steps)]
        if rate := ep.timebase.tick_hz:
            timelines.append(rr.TimeColumn("time", duration=steps / rate))
        for name, data in _lanes(ep):
            recording.send_columns(name, timelines, _columns(rr, data))
        recording.flush()


def _columns(rr: Any, data: Array) -> Any:
    """Return images [T, H, W, C] or series [T, C] as columns of a recording."""
    if data.ndim != 4:
        return rr.Scalars.columns(scalars=data.reshape(len(data), -1).astype(np.float64))
    _, height, width, channels = data.shape
    color_model = rr.ColorModel.RGB if channels == 3 else rr.ColorModel.L
    image_format = rr.components.ImageFormat(width, height, color_model=color_model, channel_datatype="U8")
    pixels = np.ascontiguousarray(data).reshape(len(data), -1)
    return rr.Image.columns(buffer=pixels, format=[image_format] * len(data))


def _lanes(ep: Episode) -> Iterator[tuple[str, Array]]:
    """Yield the lanes that a viewer can show."""
    lanes = {f"signal/{name}": channel.data for name, channel in ep.observations.items()}
    lanes |= {f"action/{name}": channel.data for name, channel in ep.actions.items()}
    lanes |= {
        f"omen/{name}/{model}": channel.data for name, models in ep.omens.items() for model, channel in models.items()
    }
    lanes |= {f"uncert/{name}": channel.data for name, channel in ep.uncerts.items()}
    if ep.rewards is not None:
        lanes[REWARD] = ep.rewards
    for name, data in lanes.items():
        values = np.asarray(data)
        is_image = values.ndim == 4 and values.dtype == np.uint8 and values.shape[-1] in (1, 3)
        is_narrow = values.size <= _MAX_CHANNELS * max(1, len(values))
        is_series = values.ndim <= 2 and values.dtype.kind in "biuf" and is_narrow
        if is_image or is_series:
            yield name, values
