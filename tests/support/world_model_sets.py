"""World-model data sets written as the original program writes them: by h5py, numpy, Pillow, PyAV and pylance alone."""

from __future__ import annotations

import hashlib
import io
import json
from functools import cache
from typing import TYPE_CHECKING, Any

import av
import h5py
import lance
import numpy as np
import pyarrow as pa
from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SETS = {"hdf5": "main.h5", "lance": "main.lance", "folder": "main_folder", "video": "main_video"}
COLUMNS = {"pixels": "signal/pixels", "action": "action/action", "proprio": "signal/proprio", "reward": "reward"}
LENGTHS = (3, 5, 4)


def expected_values(fixtures: Path) -> Any:
    """Return what the original program read from the fixtures."""
    return json.loads((fixtures / "world_model" / "expected.json").read_text())


def sha256(array: Any) -> str:
    """Return the hash of an array's bytes in C order."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def make_columns(lengths: Sequence[int] = LENGTHS, *, pixels: int = 16) -> dict[str, Any]:
    """Return columns of all rows, and the lengths of the episodes as `ep_len`."""
    rows, rng = sum(lengths), np.random.default_rng(0)
    columns = {
        "action": rng.normal(size=(rows, 2)).astype(np.float32),
        "proprio": rng.normal(size=(rows, 4)),
        "reward": rng.normal(size=rows).astype(np.float32),
        "count": np.arange(rows) + 2**40,
        "terminated": np.arange(rows) % 4 == 3,
        "keypoints": rng.normal(size=(rows, 5, 3)).astype(np.float32),
        "ep_len": np.array(lengths, np.int32),
    }
    if pixels:
        columns["pixels"] = rng.integers(0, 256, (rows, pixels, pixels, 3), np.uint8)
    return columns


def _split(columns: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    lengths = np.asarray(columns["ep_len"], np.int32)
    offsets = (np.cumsum(lengths) - lengths).astype(np.int64)
    return lengths, offsets, {name: array for name, array in columns.items() if name != "ep_len"}


def write_hdf5(path: Path, columns: Mapping[str, Any]) -> None:
    """Write a file of columns with chunks of one row."""
    lengths, offsets, rows = _split(columns)
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("ep_len", data=lengths, maxshape=(None,), chunks=(1024,))
        file.create_dataset("ep_offset", data=offsets, maxshape=(None,), chunks=(1024,))
        for name, array in rows.items():
            is_text = isinstance(array, list)
            kind = {"dtype": h5py.string_dtype()} if is_text else {}
            shape = () if is_text else array.shape[1:]
            file.create_dataset(name, data=array, maxshape=(None, *shape), chunks=(1, *shape), **kind)


def write_folder(path: Path, columns: Mapping[str, Any], *, video: bool = False) -> None:
    """Write a folder of .npz columns, with JPEG frames or videos."""
    lengths, offsets, rows = _split(columns)
    path.mkdir()
    np.savez(path / "ep_len.npz", lengths)
    np.savez(path / "ep_offset.npz", offsets)
    for name, array in rows.items():
        if np.ndim(array) != 4:
            np.savez(path / f"{name}.npz", array)
            continue
        (path / name).mkdir()
        for episode, (start, length) in enumerate(zip(offsets, lengths, strict=True)):
            frames = array[start : start + length]
            if video:
                (path / name / f"ep_{episode}.mp4").write_bytes(_encode_video(frames.tobytes(), frames.shape))
            for step, frame in enumerate([] if video else frames):
                Image.fromarray(frame).save(path / name / f"ep_{episode}_step_{step}.jpeg")


@cache
def _encode_video(pixels: bytes, shape: tuple[int, ...]) -> bytes:
    """Return frames [n, H, W, 3] as an MP4: the same frames as the same bytes, whatever the encoder's threads do."""
    target = io.BytesIO()
    with av.open(target, "w", format="mp4") as file:
        stream = file.add_stream("libx264", rate=25)
        stream.height, stream.width, stream.pix_fmt = *shape[1:3], "yuv420p"
        for frame in np.frombuffer(pixels, np.uint8).reshape(shape):
            file.mux(stream.encode(av.VideoFrame.from_ndarray(frame, "rgb24")))
        file.mux(stream.encode(None))
    return target.getvalue()


def write_lance(path: Path, columns: Mapping[str, Any], **arguments: Any) -> None:
    """Write a table: float32 lists, JPEG of quality 95, texts as they are."""
    lengths, _, rows = _split(columns)
    table = {
        "episode_idx": pa.array(np.repeat(np.arange(len(lengths)), lengths).astype(np.int32)),
        "step_idx": pa.array(np.concatenate([np.arange(length) for length in lengths]).astype(np.int32)),
    }
    for name, array in rows.items():
        if isinstance(array, list):
            table[name] = pa.array(array)
        elif array.ndim == 4:
            table[name] = pa.array([_jpeg(frame) for frame in array], pa.binary())
        else:
            flat = array.reshape(len(array), -1).astype(np.float32)
            table[name] = pa.FixedSizeListArray.from_arrays(pa.array(flat.ravel()), flat.shape[1])
    lance.write_dataset(pa.table(table), path, **arguments)


def _jpeg(frame: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(frame).save(file, "JPEG", quality=95)
    return file.getvalue()


def write_lance_video(folder: Path, columns: Mapping[str, Any]) -> None:
    """Write a folder `D` with the tables D.lance of numbers and D_videos.lance of an MP4 for each episode."""
    lengths, offsets, rows = _split(columns)
    numbers = {name: array for name, array in rows.items() if np.ndim(array) != 4}
    folder.mkdir()
    write_lance(folder / f"{folder.name}.lance", numbers | {"ep_len": lengths})
    videos = []
    for name in rows.keys() - numbers.keys():
        for episode, (start, length) in enumerate(zip(offsets, lengths, strict=True)):
            frames = rows[name][start : start + length]
            videos.append((episode, name, _encode_video(frames.tobytes(), frames.shape)))
    blob = {"lance-encoding:blob": "true"}
    schema = pa.schema(
        [
            pa.field("episode_idx", pa.int32()),
            pa.field("video_key", pa.string()),
            pa.field("video_bytes", pa.large_binary(), metadata=blob),
        ]
    )
    arrays = [pa.array(values, field.type) for values, field in zip(zip(*videos, strict=True), schema, strict=True)]
    lance.write_dataset(pa.table(arrays, schema=schema), folder / f"{folder.name}_videos.lance")
