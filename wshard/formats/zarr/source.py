"""Replay buffers in zarr as a Source: the rows of all episodes in data/, their ends in meta/episode_ends."""

from __future__ import annotations

import contextlib
import math
import re
import zipfile
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np
import xxhash

from wshard.core.array_fields import DType
from wshard.core.episode.info import EpisodeInfo
from wshard.core.episode.lanes import DONE, REWARD, TIMESTAMPS, TRUNCATIONS
from wshard.core.episode.meta_reader import Declaration, stated_clock
from wshard.core.episode.protocol import Fingerprint
from wshard.errors import EpisodeError, FormatError, MissingExtraError
from wshard.formats.hdf5.values import MAX_NUMBERS, NOT_JSON, json_value, unit_of
from wshard.formats.lazy_source import LazySource
from wshard.formats.look import look_at
from wshard.formats.zarr.open_store import OWN_ATTRIBUTE, OpenStore, as_object
from wshard.formats.zarr.store_files import ENDS, METADATA_NAMES, ZarrZip

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location
    from wshard.core.types import Array
    from wshard.formats.look import LocationLook
    from wshard.formats.zarr.array_layout import ArrayLayout

STEP_BLOCKS: Final = {
    "reward": REWARD,
    "rewards": REWARD,
    "done": DONE,
    "terminated": DONE,
    "truncated": TRUNCATIONS,
    "timestamps_ns": TIMESTAMPS,
}
_FLAGS: Final = (DONE, TRUNCATIONS)
_MAX_EPISODES: Final = 1 << 26
_MAX_CHUNKS_HASHED: Final = 8  # chunks per array that the fingerprint of an episode covers
_MAX_CHUNKS_COMPARED: Final = 64
_ACTION: Final = re.compile(r"actions?($|[/_.])")
_LANE_PREFIXES: Final = ("signal/", "action/")
_ZIP: Final = b"PK\x03\x04"
_HASHED_BITS: Final = 20


class RowSpans(NamedTuple):
    """The rows [start, stop) of an episode; damage: the reason why they cannot be read."""

    number: int
    start: int
    stop: int
    damage: str = ""


class ReplayBufferSource(LazySource[RowSpans]):
    """A folder or .zip with the groups data and meta, of zarr version 2 or 3. The key of an episode is its number."""

    whole = True
    meaning: ClassVar = (
        ("data/action, data/action_NAME", "action/action, action/action_NAME"),
        ("data/reward, data/done, data/terminated, data/truncated", "reward, done, done, aux/truncations"),
        ("data/timestamps_ns", "time/timestamps_ns"),
        ("every other array in data", "signal/NAME, in its dtype and shape; nested names joined by /"),
        ("meta/episode_ends", "where the rows of an episode end"),
        ("other arrays in meta with a row an episode", "metadata NAME, up to 256 numbers"),
        ("alignment", "action t answers observation t"),
        ("clock", "not stated; in the attribute wshard of the root where wshard wrote the buffer"),
        ("images", "arrays like others"),
        ("arrays whose codec is not installed, and others that fit no lane", "left out; metadata left_out says why"),
    )

    @staticmethod
    def matches(location: Location | LocationLook) -> bool:
        """Return True for a folder or .zip with meta/episode_ends, a zarr array."""
        look = look_at(location)
        if look.is_folder:
            return {"data", "meta"} <= look.names and any(look.exists(f"{ENDS}/{name}") for name in METADATA_NAMES)
        if look.suffix != ".zip" or not look.head.startswith(_ZIP):
            return False
        try:
            with look.place.open() as file, zipfile.ZipFile(file) as archive:
                return any(f"{ENDS}/{name}" in archive.NameToInfo for name in METADATA_NAMES)
        except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError):
            return False

    def _open(self) -> OpenStore:
        return self.open_once("store", lambda: OpenStore(self._place))

    # ---- episodes ----------------------------------------------------------------------------------------------------

    def _scan(self) -> Mapping[str, RowSpans]:
        layout = self._open().layout(ENDS)
        if len(layout.shape) != 1 or layout.dtype.kind not in "iu" or layout.shape[0] > _MAX_EPISODES:
            raise FormatError(
                f"{self._place}: {ENDS}: expected up to {_MAX_EPISODES} whole numbers, found other values"
            )
        ends = self._open().rows(ENDS, 0, layout.shape[0]).astype(np.int64)
        starts = np.concatenate((np.zeros(1, np.int64), ends))[:-1]
        damage = self._find_damage(starts, ends)
        bounds = enumerate(zip(starts.tolist(), ends.tolist(), strict=True))
        return {str(n): RowSpans(n, 0, 0, damage[n]) if n in damage else RowSpans(n, *rows) for n, rows in bounds}

    def _find_damage(self, starts: Array, ends: Array) -> dict[int, str]:
        """Return the damage of episodes by number; if ends descend, either neighbour may be wrong, so both count."""
        max_rows = self._row_count
        damage = {
            n: f"expected ends up to {max_rows} rows, found {ends[n]}" for n in np.flatnonzero(ends > max_rows).tolist()
        }
        for n in np.flatnonzero(ends < starts).tolist():
            text = f"expected ascending ends, found {starts[n]}, {ends[n]}"
            damage |= dict.fromkeys((n - 1, n, n + 1), text)
        return damage

    @cached_property
    def _row_count(self) -> int:
        """The rows of the longest array in data."""
        counts = [0]
        for path in self._open().walk("data"):
            with contextlib.suppress(FormatError):  # an array that is not a lane
                counts.append(self._open().layout(path).shape[0])
        return max(counts)

    def _files(self, ref: RowSpans) -> list[Place]:
        return [self._place]

    def fingerprint(self, key: str) -> Fingerprint:
        """Return size and newest time of the chunks of an episode; some bits depend on its description.

        Covers about 8 chunks per array. In a .zip, checksums replace times.
        """
        ref, fingerprints, files = self._find(key), self._cache("chunks"), self._open().files
        state = xxhash.xxh3_64(repr((ref, self._note_of(ref.number), self._arrays_by_lane[1])).encode())
        self._note_metadata()
        size, newest = 0, 0
        for block, name in self._columns.items():
            layout = self._open().layout(name)
            state.update(repr((block, name, layout.dtype, layout.shape[1:], layout.chunks)).encode())
            chunks = layout.chunk_names(ref.start, ref.stop)
            for chunk in chunks[:: max(len(chunks) // _MAX_CHUNKS_HASHED, 1)]:
                path = f"{name}/{chunk}"
                if path not in fingerprints:
                    fingerprints[path] = files.state(path) or (0, 0)
                size += fingerprints[path][0]
                newest = max(newest, fingerprints[path][1])
                if isinstance(files, ZarrZip):
                    state.update(repr(fingerprints[path]).encode())
        if isinstance(files, ZarrZip):
            return Fingerprint(size, state.intdigest() >> 2)
        hash_bits = state.intdigest() & ((1 << _HASHED_BITS) - 1)
        return Fingerprint(size, newest >> _HASHED_BITS << _HASHED_BITS | hash_bits)

    def _note_metadata(self) -> None:
        """Note the files of which a change means another buffer: the .zip, or the metadata of each array."""
        states = self._cache("states")
        if states:
            return
        is_zip = isinstance(self._open().files, ZarrZip)
        names = [self._place / name / file for name in (ENDS, *self._columns.values()) for file in METADATA_NAMES]
        for place in [self._place] if is_zip else [name for name in names if name.exists()]:
            states[place] = Fingerprint.of(place)

    def is_current(self, _key: str) -> bool:
        """Return True if the metadata of arrays and the chunks of the latest fingerprints are unchanged."""
        try:
            if any(Fingerprint.of(file) != state for file, state in self._cache("states").items()):
                return False
        except OSError:
            return False
        files, chunks = self._open().files, list(self._cache("chunks").items())[-_MAX_CHUNKS_COMPARED:]
        return all((files.state(path) or (0, 0)) == state for path, state in chunks)

    # ---- lanes -------------------------------------------------------------------------------------------------------

    @cached_property
    def _arrays_by_lane(self) -> tuple[dict[str, str], dict[str, str]]:
        """The arrays in data by their lanes, and the reason for each array that is not a lane."""
        arrays: dict[str, str] = {}
        left_out: dict[str, str] = {}
        names, min_rows = (
            as_object(self._own_attribute.get("lanes")),
            max((span.stop for span in self._episodes.values()), default=0),
        )
        for path in self._open().walk("data"):
            name = path.removeprefix("data/")
            problem = self._why_not_a_lane(path, min_rows)
            if problem:
                left_out[name] = problem
                continue
            block = _block_of(name, self._open().layout(path), names.get(name))
            arrays.setdefault(block if block not in arrays else f"signal/{name}", path)
        return arrays, left_out

    def _why_not_a_lane(self, path: str, min_rows: int) -> str:
        """Return why an array cannot be a lane, "" for a lane."""
        try:
            layout = self._open().layout(path)
            DType.from_numpy(layout.dtype)
            self._open().array(path)
        except (FormatError, EpisodeError, MissingExtraError) as error:
            return str(error).rpartition(f"{path}: ")[2]
        return f"expected {min_rows} rows, found {layout.shape[0]}" if layout.shape[0] < min_rows else ""

    @cached_property
    def _units(self) -> dict[str, str]:
        """The units in the attributes of the arrays, by their lanes."""
        return {block: unit_of(self._open().array(name).attrs.get) for block, name in self._columns.items()}

    @property
    def _columns(self) -> dict[str, str]:
        return self._arrays_by_lane[0]

    def lane(self, key: str, name: str, start: int = 0, stop: int | None = None) -> Array:
        """Return timesteps of a lane; raises MissingExtraError for an array whose codec is not installed, too."""
        path = f"data/{name.removeprefix('signal/')}"
        if path.removeprefix("data/") in self._arrays_by_lane[1]:
            self._open().array(path)
        rows: Array = super().lane(key, name, start, stop)
        return rows

    def names(self) -> dict[str, str]:
        """Return the name in data of each lane."""
        return {block: path.removeprefix("data/") for block, path in self._columns.items()}

    @cached_property
    def _own_attribute(self) -> dict[str, Any]:
        """The attribute of the root that a Sink of this package wrote."""
        return as_object(self._open().attributes.get(OWN_ATTRIBUTE))

    def _note_of(self, number: int) -> dict[str, Any]:
        rows = self._own_attribute.get("episodes")
        return as_object(rows[number]) if isinstance(rows, list) and number < len(rows) else {}

    @cached_property
    def _meta_arrays(self) -> dict[str, Array]:
        """The arrays of numbers in meta with one row per episode."""
        arrays: dict[str, Array] = {}
        for path in self._open().walk("meta", depth=0):
            with contextlib.suppress(FormatError, MissingExtraError):
                shape = self._open().layout(path).shape
                if path != ENDS and shape[0] == len(self._episodes) and math.prod(shape[1:]) <= MAX_NUMBERS:
                    arrays[path.removeprefix("meta/")] = self._open().rows(path, 0, shape[0])
        return arrays

    def _describe(self, key: str, ref: RowSpans) -> EpisodeInfo:
        if ref.damage:
            raise FormatError(f"{self._place}: {ENDS}: episode {ref.number}: {ref.damage}")
        if ref.stop <= ref.start:
            raise FormatError(f"{self.where_of(key)}: expected at least one row, found none")
        lanes = {}
        for block, name in self._columns.items():
            layout = self._open().layout(name)
            dtype = DType.BOOL if block in _FLAGS else DType.from_numpy(layout.dtype)
            shape = () if block in STEP_BLOCKS.values() else layout.shape[1:]
            lanes[block] = Declaration(block, dtype, shape, unit=self._units[block])
        note = self._note_of(ref.number)
        metadata = {
            name: value
            for name, rows in self._meta_arrays.items()
            if (value := json_value(rows[ref.number])) is not NOT_JSON
        }
        metadata |= {"left_out": self._arrays_by_lane[1]} if self._arrays_by_lane[1] else {}
        metadata |= as_object(note.get("metadata"))
        return EpisodeInfo(
            id=str(note.get("id") or f"episode_{ref.number}"),
            length=ref.stop - ref.start,
            lanes=lanes,
            env_id=str(note.get("env_id") or ""),
            timebase=stated_clock(note.get("tick_hz"), note.get("epoch_ns")),
            metadata=metadata,
        )

    def _read(self, ref: RowSpans, info: EpisodeInfo, block: str, steps: slice) -> Array:
        lane = info.lanes[block]
        rows = self._open().rows(self._columns[block], ref.start + steps.start, ref.start + steps.stop)
        rows = rows.reshape(-1, *lane.shape)
        return rows != 0 if lane.dtype is DType.BOOL and rows.dtype != np.bool_ else rows


def _block_of(name: str, layout: ArrayLayout, stated: Any) -> str:
    """Return the lane of an array; stated: its lane in the note of wshard."""
    is_scalar = math.prod(layout.shape[1:]) == 1
    if isinstance(stated, str) and (
        stated.startswith(_LANE_PREFIXES) or (is_scalar and stated in STEP_BLOCKS.values())
    ):
        return stated
    if name in STEP_BLOCKS and is_scalar:
        return STEP_BLOCKS[name]
    return f"action/{name}" if _ACTION.match(name) else f"signal/{name}"
