"""One episode as rows of a data file, with the statistics of its features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wshard.core.episode.lanes import STEP_TEXTS
from wshard.core.episode.step_texts import TASK, find_positions, task_texts, texts_of
from wshard.core.media.frames import ImageFrames
from wshard.core.media.images import encode_image
from wshard.formats.lerobot.features import IMAGE, TEXT, VIDEO
from wshard.formats.lerobot.stats import SAMPLED_FRAMES, Stats, measure_frames, measure_numbers
from wshard.formats.lerobot.write_columns import make_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wshard.core.types import Array, Channel, Episode
    from wshard.formats.lerobot.write_columns import FeatureColumn


class EpisodePlace(NamedTuple):
    """The placement of a new episode: its number, the global number of its first row, and timesteps per second."""

    number: int
    start: int
    fps: float


def texts_of_tasks(ep: Episode) -> tuple[list[str], Array]:
    """Return the tasks of an episode, "" for none, and the position of each timestep's task in this list, [T]."""
    texts = task_texts(ep)
    task = ep.metadata.get(TASK)
    listed = list(map(str, task)) if isinstance(task, list) and task else texts[:1]
    return listed, find_positions(texts, listed, TASK)


def count_rows(ep: Episode, place: EpisodePlace, tasks: Array) -> dict[str, Array]:
    """Return the columns that count rows; tasks: the task_index of each timestep."""
    frames = np.arange(ep.length)
    return {
        "timestamp": (frames / place.fps).astype(np.float32),
        "frame_index": frames,
        "episode_index": np.full(ep.length, place.number),
        "index": frames + place.start,
        "task_index": tasks,
    }


def make_rows(ep: Episode, columns: Sequence[FeatureColumn], schema: Any, counters: dict[str, Array]) -> Any:
    """Return the rows of an episode as an Arrow table; it has no columns for videos."""
    import pyarrow as pa  # noqa: PLC0415  (an optional dependency)

    arrays = []
    for column in columns:
        if column.dtype == VIDEO:
            continue
        type_ = schema.field(column.name).type
        if column.dtype == IMAGE:
            rows = [{"bytes": image, "path": f"frame_{step:06d}.png"} for step, image in enumerate(_images(ep, column))]
            arrays.append(pa.array(rows, type_))
        elif column.dtype == TEXT:
            arrays.append(pa.array(_texts(ep, column), type_))
        else:
            arrays.append(make_array(type_, values_of(ep, column)))
    arrays += [pa.array(values, schema.field(name).type) for name, values in counters.items()]
    return pa.table(arrays, schema=schema)


def values_of(ep: Episode, column: FeatureColumn) -> Array:
    """Return the numbers of a feature, [T, *shape], [T] of one number per timestep."""
    steps = {"reward": ep.rewards, "done": ep.terminations, "aux/truncations": ep.truncations}
    lane_values = steps[column.block] if column.block in steps else ep.lanes()[column.block].data
    values = np.asarray(lane_values).astype(column.dtype, copy=False)
    return values.reshape(ep.length, *(() if column.shape == (1,) else column.shape))


def measure_features(
    ep: Episode, columns: Sequence[FeatureColumn], counters: dict[str, Array], *, keep_shape: bool
) -> dict[str, Stats]:
    """Return the statistics of each feature except texts; those of cameras are of a sample of their frames."""
    stats = {}
    for column in columns:
        if column.is_camera:
            frames = sample_frames(ep.lanes()[column.block])
            if frames.dtype == np.uint8:
                stats[column.name] = measure_frames(frames)
        elif column.dtype != TEXT:
            stats[column.name] = measure_numbers(values_of(ep, column), keep_shape=keep_shape)
    return stats | {name: measure_numbers(values) for name, values in counters.items()}


def sample_frames(channel: Channel) -> Array:
    """Return some frames of a lane, evenly spread."""
    steps = np.unique(np.linspace(0, channel.length - 1, min(channel.length, SAMPLED_FRAMES)).round().astype(int))
    if channel.encoded is None:
        sampled: Array = channel.data[steps]
        return sampled
    return np.concatenate([channel.encoded.decode(step, step + 1) for step in steps.tolist()])


def _images(ep: Episode, column: FeatureColumn) -> list[bytes]:
    """Return the frames as PNG, those that are PNG byte for byte."""
    channel = ep.lanes()[column.block]
    if isinstance(channel.encoded, ImageFrames) and channel.encoded.encoding == "png":
        return [bytes(channel.encoded.image(step)) for step in range(ep.length)]
    if channel.encoded is None:
        return [encode_image(frame, "png") for frame in channel.data]
    return [encode_image(channel.encoded.decode(step, step + 1)[0], "png") for step in range(ep.length)]


def _texts(ep: Episode, column: FeatureColumn) -> list[str]:
    name = column.block.removeprefix(STEP_TEXTS)
    return texts_of(ep).get(name) or [str(ep.metadata[name])] * ep.length
