"""World-model data sets in a Lance table: one row per timestep, frames as JPEG."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.media.frames import ImageFrames
from wshard.core.plugins import import_library
from wshard.errors import FormatError
from wshard.formats.look import LocationLook, look_at
from wshard.formats.world_model.columns import ACTION, TEXT, RowSpan, StepColumn, as_lane
from wshard.formats.world_model.lance_damage import damaged_rows, guess_numbers, known_steps, read_fragments
from wshard.formats.world_model.lance_index import read_index, spans_of
from wshard.formats.world_model.lance_tables import (
    BLOCK,
    EPISODE,
    EPISODES,
    GENERATION,
    STEP,
    find_statements,
    is_table,
    side_table,
    stated_shape,
    translate_lance_errors,
    videos_of,
)
from wshard.formats.world_model.rows_source import RowsSource

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location
    from wshard.core.media.frames import EncodedFrames
    from wshard.core.types import Array

_BATCH_SIZE: Final = 64
_AHEAD: Final = 1 << 21  # bytes of a column


class LanceTable:
    """An open table."""

    def __init__(self, table: Place) -> None:
        self.data: Any = import_library("lance", "lance").dataset(table.local_path())

    def close(self) -> None:
        """Release the table."""
        del self.data


class LanceSource(RowsSource):
    """Episodes are consecutive rows of the same episode_idx, which is their key."""

    whole = True
    fork_safe = False  # the library has threads, which a fork does not copy
    _damage = ""
    _damaged: Sequence[tuple[int, int]] = ()

    @staticmethod
    def matches(location: Location | LocationLook) -> bool:
        """Say whether a path is a Lance table of steps, without videos beside it."""
        look = look_at(location)
        return is_table(look) and not videos_of(look.place).is_dir()

    @property
    def _table_place(self) -> Place:
        return self._place

    def _scan(self) -> Mapping[str, RowSpan]:
        try:
            with self._translate():
                numbers, steps = read_index(self._table())
        except FormatError as error:
            numbers, steps = self._guess_index(error)
        return spans_of(numbers, steps, self.where_of(""))

    def _guess_index(self, damage: FormatError) -> tuple[Array, Array | None]:
        """Return episode and step of each row where files of the table are damaged; raises the damage if all are."""
        with self._translate():
            found = read_fragments(self._table(), self._translate)
        if not found or all(part.numbers is None for part in found):
            raise damage
        self._damage = str(damage)
        self._damaged = damaged_rows(found)
        return guess_numbers(found), known_steps(found)

    def _find(self, key: str) -> RowSpan:
        if key not in self._episodes and self._damage:
            raise FormatError(f"{self._damage}; episode {key} may be there")
        rows = super()._find(key)
        if any(start < rows.stop and rows.start < stop for start, stop in self._damaged):
            raise FormatError(f"{self._damage}; rows of episode {key} may be there")
        return rows

    def _about(self, rows: RowSpan) -> dict[str, Any]:
        """Return what the table of episodes states about an episode, except bytes."""
        stated = self._stated.get(rows.number, {})
        return {name: value for name, value in stated.items() if isinstance(value, (str, bool, int, float, list))}

    def statements(self, key: str) -> dict[str, Any]:
        """Return what is stated once for an episode, by name."""
        return dict(self._stated.get(self._find(key).number, {}))

    @cached_property
    def _stated(self) -> dict[int, dict[str, Any]]:
        side = side_table(self._table_place, EPISODES)
        with self._translate():
            generation = (self._table().schema.metadata or {}).get(GENERATION)
            table = find_statements(side, generation) if side.is_dir() else None
            rows = [] if table is None else table.to_table().to_pylist()
            shapes = {} if table is None else {field.name: stated_shape(field) for field in table.schema}
        for row in rows:
            for name, shape in shapes.items():
                if shape:
                    row[name] = np.reshape(row[name], (-1, *shape)).tolist()
        return {row.pop(EPISODE): {name: value for name, value in row.items() if value is not None} for row in rows}

    def _files(self, ref: RowSpan) -> Sequence[Place]:
        """Return the files of the fragments with these rows: rows that are written later have other files."""
        stops, files = self._fragments
        first, last = bisect_right(stops, ref.start), bisect_left(stops, ref.stop)
        names = [name for names in files[first : last + 1] for name in names]
        return [self._table_place / f"data/{name}" for name in names] or [self._table_place]

    @cached_property
    def _fragments(self) -> tuple[list[int], list[list[str]]]:
        """The end of the rows of each fragment, and its files."""
        with self._translate():
            fragments = self._table().get_fragments()
            stops = np.cumsum([fragment.count_rows() for fragment in fragments]).tolist()
        return stops, [[file.path for file in fragment.data_files()] for fragment in fragments]

    def _columns(self, rows: RowSpan) -> Sequence[StepColumn]:
        return [self._with_shape(column, rows) for column in self._declared]

    @cached_property
    def _declared(self) -> list[StepColumn]:
        with self._translate():
            return [self._declare(field) for field in self._table().schema if field.name not in (EPISODE, STEP)]

    def _declare(self, field: Any) -> StepColumn:
        types = import_library("pyarrow", "lance").types
        kind, shape = field.type, stated_shape(field)
        block = (field.metadata or {}).get(BLOCK, b"").decode(errors="replace")
        if types.is_binary(kind) or types.is_large_binary(kind):
            return StepColumn(field.name, np.dtype(np.uint8), (), "jpeg", block)
        if types.is_string(kind) or types.is_large_string(kind):
            return StepColumn(field.name, np.dtype(object), (), TEXT)
        if types.is_fixed_size_list(kind):
            size, kind = kind.list_size, kind.value_type
            scalar = size == 1 and field.name != ACTION  # tables do not distinguish a number from a list of one
            shape = (() if scalar else (size,)) if shape is None else shape
        return StepColumn(field.name, self._numpy_dtype(kind, field), shape or (), "", block)

    def _numpy_dtype(self, kind: Any, field: Any) -> np.dtype[Any]:
        try:
            found: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        except (NotImplementedError, TypeError):
            at = f"{self.where_of('')}: column {field.name!r}"
            raise FormatError(f"{at}: {field.type} is not a column of timesteps") from None
        return found

    def _with_shape(self, column: StepColumn, rows: RowSpan) -> StepColumn:
        if column.encoding != "jpeg" or not rows.length:
            return column

        def read_shape() -> tuple[int, int, int]:
            first = self._images(column.name, rows.start, rows.start + 1)
            return ImageFrames("jpeg", first, where=self._at(rows, column)).shape

        return replace(column, shape=self._remember("shapes", f"{rows.number}/{column.name}", read_shape))

    def _at(self, rows: RowSpan, column: StepColumn) -> str:
        return f"{self.where_of(str(rows.number))}: column {column.name!r}"

    def _column_rows(self, column: str, start: int, stop: int) -> Array:
        """Return rows of a column; of those read one after the other, twice as many as before are read at once."""
        first, rows = self._cache("rows").get(column) or (0, np.empty(0))
        end = first + len(rows)
        if not first <= start <= stop <= end:
            goes_on = start == end > first and rows.dtype != object
            more = min(2 * len(rows), len(rows) * _AHEAD // max(rows.nbytes, 1)) if goes_on else 0
            try:
                first, rows = start, self._read_rows(column, start, max(stop, start + more))
            except FormatError:  # perhaps of the rows of other episodes
                first, rows = start, self._read_rows(column, start, stop)
            self._cache("rows")[column] = first, rows if rows.nbytes <= _AHEAD else rows[:0]
        found: Array = rows[start - first : stop - first].copy()
        return found

    def _read_rows(self, column: str, start: int, stop: int) -> Array:
        with self._translate():
            table = self._table().to_table(columns=[column], offset=start, limit=stop - start)
            return self._as_array(table, column)

    def _as_array(self, table: Any, column: str) -> Array:
        rows = table.column(column).combine_chunks()
        if rows.null_count:
            raise FormatError(f"{self.where_of('')}: column {column!r}: expected values, found {rows.null_count} nulls")
        if not hasattr(rows.type, "list_size"):
            return np.array(rows.to_numpy(zero_copy_only=False))
        field = self._declare(self._table().schema.field(column))
        return np.array(rows.flatten().to_numpy(zero_copy_only=False)).reshape(len(rows), *field.shape)

    def take_rows(self, block: str, keys: Sequence[str], steps: Array) -> Array:
        """Return timesteps `steps` [n, m] of a lane, a row per episode: [n, m, *shape]; each row is read once."""
        spans = [self._find(key) for key in keys]
        wanted = np.array([rows.start for rows in spans])[:, None] + steps
        rows, places = np.unique(wanted, return_inverse=True)
        column = self._column_of(spans[0], block)
        with self._translate():
            table = self._table().take(rows, columns=[column.name])
        if column.encoding == "jpeg":
            images = [image or b"" for image in table.column(column.name).to_pylist()]
            found: Array = self._image_frames(spans[0], column, images).decode()
        elif column.encoding == TEXT:
            return np.stack([self.lane(key, block)[at] for key, at in zip(keys, steps, strict=True)])
        else:
            found = as_lane(block, self._as_array(table, column.name))
        return found[places.reshape(steps.shape)]

    def _images(self, column: str, start: int, stop: int) -> list[bytes]:
        with self._translate():
            table = self._table().to_table(columns=[column], offset=start, limit=stop - start)
            return [image or b"" for image in table.column(column).to_pylist()]

    def _read(self, ref: RowSpan, info: EpisodeInfo, block: str, steps: slice) -> Array:
        if info.lanes[block].encoding != "jpeg":
            return super()._read(ref, info, block, steps)
        column, at = self._column_of(ref, block), slice(ref.start + steps.start, ref.start + steps.stop)
        frames = self._image_frames(ref, column, self._images(column.name, at.start, at.stop))
        decoded: Array = frames.decode()
        return decoded

    def _encoded(self, ref: RowSpan, info: EpisodeInfo, block: str) -> EncodedFrames:
        column = self._column_of(ref, block)
        return self._image_frames(ref, column, LanceImages(self, column.name, ref))

    def _image_frames(self, rows: RowSpan, column: StepColumn, images: Sequence[bytes]) -> ImageFrames:
        height, width, channels = column.shape
        return ImageFrames("jpeg", images, frame_shape=(height, width, channels), where=self._at(rows, column))

    def _identify(self, ref: RowSpan, info: EpisodeInfo, block: str) -> bytes:
        column = self._column_of(ref, block).name
        some = sorted({ref.start, (ref.start + ref.stop) // 2, ref.stop - 1})
        return b"".join(self._images(column, row, row + 1)[0] for row in some)

    def _table(self) -> Any:
        return self.open_once("table", lambda: LanceTable(self._table_place)).data

    def _translate(self) -> AbstractContextManager[None]:
        return translate_lance_errors(self.where_of(""))


class LanceImages(Sequence[bytes]):
    """The images of an episode, read 64 at a time."""

    def __init__(self, source: LanceSource, column: str, rows: RowSpan) -> None:
        self._source, self._column, self._rows = source, column, rows
        self._first, self._images = 0, list[bytes]()

    def __len__(self) -> int:
        return self._rows.length

    def __getitem__(self, step: Any) -> Any:
        if not 0 <= step < len(self):
            raise IndexError(step)
        if not self._first <= step < self._first + len(self._images):
            first = self._rows.start + step
            last = min(first + _BATCH_SIZE, self._rows.stop)
            self._first, self._images = step, self._source._images(self._column, first, last)  # noqa: SLF001
        return self._images[step - self._first]
