"""Writers of the world-model formats with the names and options of the original program, based on Sinks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from wshard.core.arguments import array_of
from wshard.core.container.draft import check_mode
from wshard.core.episode.lanes import DONE, REWARD, TIMESTAMPS, TRUNCATIONS
from wshard.core.episode.step_texts import add_texts
from wshard.core.media.frames import EncodedFrames
from wshard.core.messages import shown
from wshard.core.types import Channel, Episode
from wshard.errors import EpisodeError, FormatError, RecordingStateError, UnsupportedFormatError
from wshard.formats.world_model.columns import block_of
from wshard.training.conversion.target import ConversionTarget
from wshard.training.data.tensors import as_numpy, is_tensor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wshard.core.container.codec_plan import Compression
    from wshard.core.container.draft import WriteMode
    from wshard.formats.sink_base import SinkBase

EPISODE_DATA_KEY: Final = "_episode_data"
"""Key in an episode to write; its value has the per-episode values {name: value}."""

_FIELDS: Final = {REWARD: "rewards", DONE: "terminations", TRUNCATIONS: "truncations", TIMESTAMPS: "timestamps_ns"}
_CHANNELS: Final = (1, 3, 4)


class SinkWriter:
    """Writes episodes {column: values of the timesteps} to a Sink, inside `with`.

    Values are a sequence of arrays, or one array; a column of texts may be one text. All episodes have the columns,
    dtypes and shapes of the first. The data set appears when the `with` block ends, and not if that ends by an error.
    """

    def __init__(self, target: ConversionTarget) -> None:
        self.target = target
        self._sink: SinkBase | None = None
        self._count = 0

    def __enter__(self) -> Self:
        self._sink = self.target.open().__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.__exit__(*exc)

    def write_episode(self, ep: Mapping[str, Any]) -> None:
        """Write one episode; raises EpisodeError for one that does not fit, RecordingStateError outside of `with`."""
        if self._sink is None:
            raise RecordingStateError("writer: expected to be used inside `with`")
        steps, episode_data = split_episode_data(ep)
        self._sink.write_stated(make_episode(steps, f"episode_{self._count}"), episode_data)
        self._count += 1

    def write_episodes(self, episodes: Iterable[Mapping[str, Any]]) -> None:
        """Write several episodes."""
        for ep in episodes:
            self.write_episode(ep)


class HDF5Writer(SinkWriter):
    """Writes one HDF5 file."""

    def __init__(self, path: str | os.PathLike[str], *, mode: WriteMode = "append") -> None:
        super().__init__(make_target(path, "hdf5", mode))


class FolderWriter(SinkWriter):
    """Writes a folder of .npz columns and JPEG frames."""

    def __init__(self, path: str | os.PathLike[str], *, mode: WriteMode = "append") -> None:
        super().__init__(make_target(path, "folder", mode))


class VideoWriter(SinkWriter):
    """Writes a folder of .npz columns and one MP4 per episode, with frames of their original size."""

    def __init__(
        self, path: str | os.PathLike[str], fps: float = 25, codec: str = "libx264", *, mode: WriteMode = "append"
    ) -> None:
        super().__init__(make_target(path, "video", mode, fps=fps, codec=codec))


class LanceWriter(SinkWriter):
    """Writes a Lance table: path `NAME.lance`, or a folder and table_name."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        table_name: str | None = None,
        *,
        jpeg_quality: int = 95,
        connect_kwargs: Mapping[str, Any] | None = None,
        mode: WriteMode = "append",
    ) -> None:
        refuse_option("connect_kwargs", connect_kwargs)
        super().__init__(make_target(table_path(path, table_name), "lance", mode, quality=jpeg_quality))


class LanceVideoWriter(SinkWriter):
    """Writes the folder `path` of a Lance table and a table of videos; table_name: by default that of the folder."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        table_name: str | None = None,
        *,
        fps: float = 10,
        codec: str = "libx264",
        connect_kwargs: Mapping[str, Any] | None = None,
        mode: WriteMode = "append",
    ) -> None:
        refuse_option("connect_kwargs", connect_kwargs)
        super().__init__(make_target(path, "lance_video", mode, fps=fps, codec=codec, table_name=table_name))


def refuse_option(option: str, value: object, default: object = None) -> None:
    """Raise UnsupportedFormatError for an option of the original for remote stores, or for columns of other names."""
    if value != default:
        raise UnsupportedFormatError(f"{option}: expected {default!r}, found {value!r}: nothing else is supported")


def table_path(path: str | os.PathLike[str], table_name: str | None) -> Path:
    """Return the path of a table; raises FormatError for a path that does not name one."""
    if table_name is None and not os.fspath(path).lower().endswith(".lance"):
        raise FormatError(f"{os.fspath(path)}: expected a path that ends in .lance, or table_name")
    return Path(path) if table_name is None else Path(path, f"{table_name}.lance")


def make_target(
    path: str | os.PathLike[str],
    format_name: str,
    mode: WriteMode = "append",
    *,
    compression: Compression = "none",
    **options: Any,
) -> ConversionTarget:
    """Return where to write a data set; creates the folder that it is in. Raises FormatError for a wrong mode."""
    check_mode(mode)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    return ConversionTarget(os.fspath(path), format_name, compression, mode, repeats=True, options=options)


def validate_write_mode(mode: str) -> None:
    """Raise FormatError, which is a ValueError, for an invalid write mode."""
    check_mode(mode)


def split_episode_data(ep: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Return the columns of an episode to write, `ep` itself if it has nothing else, and its per-episode values.

    The values are those of EPISODE_DATA_KEY. Raises EpisodeError.
    """
    if not isinstance(ep, Mapping):
        raise EpisodeError(f"episode: expected {{column: values of its timesteps}}, found {shown(ep)}")
    if EPISODE_DATA_KEY not in ep:
        return ep, {}
    steps = dict(ep)
    return steps, dict(steps.pop(EPISODE_DATA_KEY))


def make_episode(columns: Mapping[str, Any], name: str) -> Episode:
    """Return an Episode with these columns; raises EpisodeError for columns of different lengths."""
    for column, values in columns.items():
        if not column or not isinstance(column, str):
            raise EpisodeError(f"episode: expected a text as the name of a column, found {shown(column)}")
        if not hasattr(values, "__len__") or getattr(values, "shape", None) == ():
            raise EpisodeError(f"column {column!r}: expected a value for each timestep, found {shown(values)}")
    length = next((len(values) for values in columns.values() if not isinstance(values, str)), 0)
    episode = Episode(name, length=length)
    for column, values in columns.items():
        texts = _texts_of(values, length)
        if texts is not None:
            add_texts(episode, column, texts)
            continue
        rows, block = _rows_of(values, column), block_of(column)
        if block in _FIELDS:
            values_per_step = rows.reshape(len(rows)) if rows.shape[1:] == (1,) else rows
            setattr(episode, _FIELDS[block], values_per_step)
        else:
            lanes = episode.actions if block.startswith("action/") else episode.observations
            lanes[block.partition("/")[2]] = Channel.of(block.partition("/")[2], rows)
    return episode


def _texts_of(values: Any, length: int) -> list[str] | None:
    if isinstance(values, str):
        return [values] * length
    is_array = isinstance(values, np.ndarray) and values.dtype.kind in "UO" and values.ndim == 1
    texts = values.tolist() if is_array else values
    is_texts = isinstance(texts, (list, tuple)) and bool(texts) and all(isinstance(text, str) for text in texts)
    return list(texts) if is_texts else None


def _rows_of(values: Any, column: str) -> Any:
    if isinstance(values, EncodedFrames):
        return values
    arrays = as_numpy(values)
    row_list = arrays if isinstance(arrays, np.ndarray) else [as_numpy(value) for value in arrays]
    rows = array_of(row_list, f"column {column!r}")
    if rows.ndim == 0 or rows.dtype.hasobject:
        raise EpisodeError(f"column {column!r}: expected values of equal shapes for each timestep, found {rows.dtype}")
    may_be_channels_first = column.partition("_")[0] == "pixels" or _has_tensors(values)
    is_channels_first = (
        may_be_channels_first
        and rows.ndim == 4
        and rows.dtype == np.uint8
        and rows.shape[1] in _CHANNELS
        and rows.shape[3] not in _CHANNELS
    )
    return np.moveaxis(rows, 1, -1) if is_channels_first else rows


def _has_tensors(values: Any) -> bool:
    """Return True for tensors, or a sequence of them; their frames have channels first."""
    return is_tensor(values) or (isinstance(values, (list, tuple)) and bool(values) and is_tensor(values[0]))
