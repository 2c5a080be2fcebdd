"""Replay buffers in zarr as a Sink: version 2, as Diffusion Policy reads them."""

from __future__ import annotations

import json
import math
import os
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from wshard.core.array_fields import DType
from wshard.core.episode.lanes import DONE, REWARD, TIMESTAMPS, TRUNCATIONS
from wshard.core.episode.meta_writer import encode_note
from wshard.core.files.listed import is_nameable
from wshard.core.files.schemes import place_of
from wshard.core.plugins import import_library
from wshard.errors import EpisodeError
from wshard.formats.draft_sink import DraftSink, list_losses, list_shared
from wshard.formats.zarr.open_store import EVERY_CHUNK, OWN_ATTRIBUTE, as_object
from wshard.formats.zarr.source import ReplayBufferSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.files.place import Place
    from wshard.core.types import Array, Channel, Episode

_METADATA_FILES: Final = (".zgroup", ".zarray", ".zattrs", ".zmetadata", "zarr.json")
_CHUNK_NAME: Final = re.compile(r"(c[./])?\d+([./]\d+)*|c")
_CHUNK_SIZE: Final = 2_000_000  # bytes, as Diffusion Policy aims at
_MAX_ROWS: Final = 1 << 16
_BATCH: Final = 64
_STEPS: Final = {REWARD: "reward", DONE: "done", TRUNCATIONS: "truncated", TIMESTAMPS: "timestamps_ns"}


class ReplayBufferSink(DraftSink):
    """Writes many episodes to a folder, numbered in the order of writing.

    All episodes have the lanes of the first one. Ids, metadata and rates are in the attribute "wshard" of the root.
    """

    cannot_hold = (
        "predictions, uncertainties, residuals and blocks of other programs",
        "encoded frames, which are stored decoded",
        "bf16, which becomes float32",
        "episodes of other lanes, dtypes or shapes than the first one has",
    )
    content = "replay buffer"
    codecs = "zarr compresses by its own"

    def _has_episodes(self) -> bool:
        self._zarr: Any = import_library("zarr", "zarr")
        return ReplayBufferSource.matches(self._where)

    def _begin(self, draft: Path, *, continues: bool) -> None:
        self._ends: list[int] = []
        self._notes: list[dict[str, Any]] = []
        self._names: dict[str, str] = {}
        self._arrays: dict[str, _GrowingArray] = {}
        self._root: Any = self._zarr.open_group(os.fspath(draft), mode="a", zarr_format=2)
        self._complete = not continues or bool(as_object(self._root.attrs.get(OWN_ATTRIBUTE)).get(EVERY_CHUNK))
        if not continues:
            return
        with ReplayBufferSource(self._where) as source:
            infos = [source.info(key) for key in source.keys()]  # noqa: SIM118  (a Source is no mapping)
            self._names = source.names()
        self._notes = [_note(info) for info in infos]
        self._ids = {info.id for info in infos}
        self._ends = np.asarray(self._root["meta/episode_ends"][:]).tolist()

    def losses(self, info: EpisodeInfo) -> list[str]:
        """Return what the format cannot store of an episode."""
        encoded = [block for block, lane in info.lanes.items() if lane.encoding]
        return list_losses(info, _STEPS, "array") + [f"{block}: frames are stored decoded" for block in encoded]

    def shared_lanes(self, info: EpisodeInfo) -> list[str]:
        """Return the lanes that are arrays."""
        return list_shared(info, _STEPS)

    def _add(self, ep: Episode, draft: Path) -> str:
        note = _note(ep)
        lanes = {lane.block: lane for lane in _lanes(ep)}
        names = self._names or _name_arrays(lanes, single_action=len(ep.actions) == 1)
        self._check(ep.id, lanes, names)
        start = self._ends[-1] if self._ends else 0
        for block, lane in lanes.items():
            self._append(names[block], lane, start, ep.length)
        self._names = names
        self._ends.append(start + ep.length)
        self._notes.append(note)
        return str(len(self._ends) - 1)

    def _check(self, id_: str, lanes: dict[str, _Lane], names: dict[str, str]) -> None:
        if names.keys() != lanes.keys():
            raise EpisodeError(f"episode {id_!r}: expected the lanes {sorted(names)}, found {sorted(lanes)}")
        for block, lane in lanes.items():
            existing = self._find_array(names[block])
            if not is_nameable(names[block]):
                what = f"array {names[block][:40]!r}..."
                raise EpisodeError(f"episode {id_!r}: {what}: expected a name that a folder can have: rename the lane")
            if 0 in lane.shape:
                raise EpisodeError(f"episode {id_!r}: {block}: expected at least one number a timestep")
            if existing is not None and (existing.dtype, existing.shape) != (lane.dtype, lane.shape):
                raise EpisodeError(
                    f"episode {id_!r}: {block}: expected {existing.dtype} {list(existing.shape)}, "
                    f"found {lane.dtype} {list(lane.shape)}"
                )

    def _find_array(self, name: str) -> _GrowingArray | None:
        """Return an existing array; None for a new one."""
        if name not in self._arrays:
            array = self._root.get(f"data/{name}")
            if array is None:
                return None
            self._arrays[name] = _GrowingArray(array)
        return self._arrays[name]

    def _append(self, name: str, lane: _Lane, start: int, length: int) -> None:
        array = self._find_array(name)
        if array is None:
            size = lane.dtype.itemsize * math.prod(lane.shape)
            rows = min(max(_CHUNK_SIZE // size, 1), _MAX_ROWS)
            options = {"dtype": lane.dtype, "compressors": "auto", "fill_value": 0}
            path, shape = f"data/{name}", (start, *lane.shape)
            new_array = self._root.create_array(path, shape=shape, chunks=(rows, *lane.shape), **options)
            array = self._arrays[name] = _GrowingArray(new_array)
        for step in range(0, length, _BATCH):
            array.put(start + step, lane.read(step, min(step + _BATCH, length)))

    @classmethod
    def owned(cls, location: Path) -> list[str]:
        """Return the files of the root, and those of the groups and arrays of data and meta."""
        if not location.is_dir() or not ReplayBufferSource.matches(location):
            return []
        return [name for name in _METADATA_FILES if (location / name).exists()] + [
            f"{top}/{name}" for top in ("data", "meta") for name in _list_node(place_of(location / top))
        ]

    def _finish(self, draft: Path) -> None:
        total, count = self._ends[-1], len(self._ends)
        for name in self._names.values():
            if (array := self._find_array(name)) is not None:
                array.end(total)
        options = {"dtype": "int64", "overwrite": True}
        ends = self._root.create_array("meta/episode_ends", shape=(count,), chunks=(count,), **options)
        ends.with_config({"write_empty_chunks": True})[:] = np.array(self._ends)
        names = {name: block for block, name in self._names.items()}
        completeness = {EVERY_CHUNK: True} if self._complete else {}
        self._root.attrs[OWN_ATTRIBUTE] = {"lanes": names, "episodes": self._notes} | completeness


class _GrowingArray:
    """An array of a buffer; rows are buffered and written in whole chunks, so that each is compressed once."""

    def __init__(self, array: Any) -> None:
        self._array = array.with_config({"write_empty_chunks": True})
        self._written: int = array.shape[0]
        self._buffered: list[Array] = []

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of its numbers."""
        dtype: np.dtype[Any] = self._array.dtype
        return dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a row."""
        shape: tuple[int, ...] = self._array.shape[1:]
        return shape

    def put(self, start: int, rows: Array) -> None:
        """Add rows at the row `start`; existing rows from there on, of an episode that was refused, are dropped."""
        self._drop(start)
        self._buffered.append(rows.copy())
        end, chunk = start + len(rows), self._array.chunks[0]
        if end // chunk > self._written // chunk:
            self._write(end - end % chunk)

    def end(self, total: int) -> None:
        """Write all rows; total: their number."""
        self._drop(total)
        self._write(total)
        self._array.resize((total, *self.shape))

    def _drop(self, start: int) -> None:
        end = self._written + sum(map(len, self._buffered))
        if start < end:
            remaining = [np.concatenate(self._buffered)[: start - self._written]] if start > self._written else []
            self._buffered, self._written = remaining, min(self._written, start)

    def _write(self, stop: int) -> None:
        if stop > self._written:
            rows = np.concatenate(self._buffered)
            self._array.resize((stop, *self.shape))
            self._array[self._written : stop] = rows[: stop - self._written]
            self._buffered, self._written = [rows[stop - self._written :]], stop


class _Lane(NamedTuple):
    """A lane as rows of an array."""

    block: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    read: Callable[[int, int], Any]


def _lanes(ep: Episode) -> Iterator[_Lane]:
    for block, channel in ep.lanes().items():
        dtype = DType.FLOAT32 if channel.dtype is DType.BFLOAT16 else channel.dtype
        yield _Lane(block, dtype.numpy_dtype, tuple(channel.shape), partial(_read_channel, channel, dtype.numpy_dtype))
    steps = {REWARD: ep.rewards, DONE: ep.terminations, TRUNCATIONS: ep.truncations, TIMESTAMPS: ep.timestamps_ns}
    for block, values in steps.items():
        if values is not None:
            array = np.asarray(values)
            yield _Lane(block, array.dtype, (), partial(_read_array, array))


def _read_channel(channel: Channel, dtype: np.dtype[Any], start: int, stop: int) -> Any:
    rows = channel.data[start:stop] if channel.encoded is None else channel.encoded.decode(start, stop)
    return rows.astype(dtype, copy=False)


def _read_array(array: Any, start: int, stop: int) -> Any:
    return array[start:stop]


def _name_arrays(lanes: Mapping[str, _Lane], *, single_action: bool) -> dict[str, str]:
    """Return an array name for each lane; a single action is "action"."""
    names: dict[str, str] = {}
    for block in lanes:
        prefix, _, name = block.partition("/")
        array_name = _STEPS.get(block) or ("action" if prefix == "action" and single_action else name)
        array_name = re.sub(r"[^\w.-]", ".", array_name).lstrip(".") or "lane"
        if prefix == "action" and not single_action and not array_name.startswith("action"):
            array_name = f"action.{array_name}"
        while array_name in names.values() or array_name == "__init__":
            array_name += "_"
        names[block] = array_name
    return names


def _note(ep: Episode | EpisodeInfo) -> dict[str, Any]:
    """Return the description of an episode in the attributes of the root."""
    return {"id": ep.id, "env_id": ep.env_id, **json.loads(encode_note(ep))}


def _list_node(folder: Place) -> Iterator[str]:
    """Yield the names of the files of a group or array below its folder; those of other folders are left out."""
    metadata = [name for name in _METADATA_FILES if (folder / name).is_file()]
    yield from metadata
    if ".zarray" in metadata or ("zarr.json" in metadata and (folder / "c").exists()):
        found = (file.relative_to(folder) for file in folder.walk())
        yield from (name for name in found if _CHUNK_NAME.fullmatch(name))
    elif metadata:
        for child in sorted(entry.name for entry in folder.entries() if entry.is_dir() and not entry.is_symlink()):
            yield from (f"{child}/{name}" for name in _list_node(folder / child))
