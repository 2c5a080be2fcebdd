"""The Source of all layouts: reads the lanes of an episode by slices, in place, as the layout describes them."""

from __future__ import annotations

import posixpath
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from wshard.core.channel_kinds import declared_kinds
from wshard.core.episode.lanes import DONE, REWARD, TIMESTAMPS, TRUNCATIONS
from wshard.core.episode.meta_reader import stated_clock, usable_rate
from wshard.core.episode.natural_order import sort_naturally
from wshard.core.files.file_object import OpenFilePlace
from wshard.errors import LayoutError, UnsupportedFormatError, WShardError
from wshard.formats.hdf5.lane_table import LaneTable
from wshard.formats.hdf5.source import Hdf5Source
from wshard.formats.layouts import layout as rules
from wshard.formats.layouts.cameras import (
    CameraColumn,
    ImageRows,
    add_cameras,
    fill_path,
    find_cameras,
    find_file,
    path_values,
    read_details,
    why_empty,
)
from wshard.formats.layouts.containers import open_arrays
from wshard.formats.layouts.episode_arrays import (
    EpisodeArrays,
    count_steps,
    has_steps,
)
from wshard.formats.layouts.episodes import EpisodeSlice, find_episodes
from wshard.formats.layouts.facts import EpisodeFacts
from wshard.formats.layouts.layout import ACTION, FOLDERS, SUFFIXES
from wshard.formats.layouts.named import find_layout
from wshard.formats.layouts.plan import Stated, find_stated, plan_arrays
from wshard.formats.layouts.step_values import NO_TIME, rate_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.episode.protocol import Fingerprint
    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location
    from wshard.core.types import TimebaseSpec
    from wshard.formats.hdf5.lane_table import ColumnInfo, DatasetColumn
    from wshard.formats.layouts.columns import ArrayFile, RowArray
    from wshard.formats.layouts.layout import ArrayRule
    from wshard.formats.layouts.plan import ArrayPlan

_BLOCKS: Final = {rules.REWARD: REWARD, rules.END: DONE, rules.TRUNCATED: TRUNCATIONS, rules.TIME: TIMESTAMPS}
_CLOCK_ROWS: Final = 1024  # of the times, from which the rate is taken


class LayoutSource(Hdf5Source[EpisodeSlice]):
    """The episodes of a location that a layout describes.

    reference: as in find_layout: "layout:NAME" or "layout:PATH". Keys: "" for the only episode of a file; otherwise its
    number, the value of its column, the name of its group or file.
    """

    def __init__(self, location: Location, reference: str) -> None:
        super().__init__(location)
        self._reference = reference
        self.layout = find_layout(reference)
        if self.layout.refused:
            raise UnsupportedFormatError(f"{location}: {self.layout.refused}")

    def __getstate__(self) -> dict[str, object]:
        return super().__getstate__() | {"_reference": self._reference, "layout": self.layout}

    # ---- episodes and files ------------------------------------------------------------------------------------------

    def _scan(self) -> Mapping[str, EpisodeSlice]:
        found, self._counts = find_episodes(self.layout, self._listed(), self._open)
        return found

    def fingerprint(self, key: str) -> Fingerprint:
        """Return the fingerprint of the files of the episode, as they were at the first call."""
        if self.layout.has_files:
            return super().fingerprint(key)
        cache, name = self._cache("fingerprints"), self._find(key).file.uri
        if name not in cache:
            cache[name] = super().fingerprint(key)
        found: Fingerprint = cache[name]
        return found

    def _files_at(self, key: str) -> list[Place]:
        return [*self._files(self._find(key)), *(file for file in self._other_files(key) if file.exists())]

    def missing_files(self, key: str) -> list[str]:
        """Return the paths of videos and images that belong to an episode and are missing."""
        files = self._other_files(key, all_images=True)
        return [str(file) for file in files if "*" not in file.name and not file.exists()]

    def companions(self, key: str) -> list[str]:
        """Return the paths of videos, images and JSON files; and the description, if that is a file."""
        layout, ref = self.layout, self._find(key)
        found = [] if layout.file is None else [layout.file.uri]
        found += [posixpath.normpath(posixpath.join(ref.file.parent.uri, path)) for path in layout.companions]
        if any(rule.files for rule in layout.arrays):
            places = [file.uri for file in self._other_files(key)]
            found += {f"{posixpath.dirname(place)}/*{posixpath.splitext(place)[1]}" for place in places}
        return found

    def _other_files(self, key: str, *, all_images: bool = False) -> Iterator[Place]:
        """Yield the files that belong to that of an episode, of images those of the first and the last timestep."""
        if not self.layout.has_files:
            return
        layout, ref = self.layout, self._find(key)
        values = self._values(key, ref, self._details(key, ref))
        with suppress(WShardError):  # describing the episode reports it
            if any(fill_path(path, values)[1] for path in (layout.details, *layout.cameras.values())):
                values = self._values(key, ref, self.info(key).metadata)
            if (details := find_file(ref.file, layout.details, values, self.where_of(key))) is not None:
                yield details
            for camera in find_cameras(ref.file, layout.cameras, values, self.where_of(key)):
                yield from camera.files if all_images else {*camera.files[:1], *camera.files[-1:]}
                yield from () if camera.absent is None else (camera.absent,)
            views = self._views(ref, self._open(ref.file)) if any(rule.files for rule in layout.arrays) else {}
            for _, column in views.values():
                if isinstance(column, ImageRows):
                    rows = range(column.shape[0]) if all_images else sorted({0, column.shape[0] - 1})
                    yield from map(column.place_of, rows)

    def _listed(self) -> Iterator[tuple[str, Place]]:
        """Yield (name, file) of the files of the location."""
        layout, place = self.layout, self._place
        if (layout.container in FOLDERS and not layout.files) or not place.is_dir():
            yield "", place
            return
        if layout.files:
            files = place.glob(layout.files)
        else:
            files = [file for file in place.glob("*") if file.suffix.lower() in SUFFIXES[layout.container]]
        if not files:
            expected = layout.files or " or ".join(f"*{suffix}" for suffix in SUFFIXES[layout.container])
            raise LayoutError(f"{place}: layout {layout.name!r}: expected files {expected}, found none")
        stems = Counter(file.relative_to(place).removesuffix(file.suffix) for file in files)
        names: dict[str, Place] = {}
        for file in files:
            whole = file.relative_to(place)
            stem = whole.removesuffix(file.suffix)
            names[whole if stems[stem] > 1 else stem] = file
        for name in sort_naturally(names):
            yield name, names[name]

    def _file_of(self, ref: EpisodeSlice) -> Place:
        return ref.file

    def _files(self, ref: EpisodeSlice) -> list[Place]:
        data = [ref.file]
        if self.layout.container in FOLDERS and ref.file.is_dir():
            data = sorted(file for file in ref.file.walk() if file.suffix.lower() in SUFFIXES[self.layout.container])
        return data if self.layout.file is None else [*data, self.layout.file]

    def _open(self, place: Place) -> ArrayFile:
        return self.open_once(place.uri, lambda: open_arrays(self.layout, place))

    # ---- one episode -------------------------------------------------------------------------------------------------

    def _columns(self, key: str, ref: EpisodeSlice, file: ArrayFile) -> ColumnInfo:
        where, layout = self.where_of(key), self.layout
        views = self._views(ref, file)
        length = count_steps(layout.episodes.steps, views, where)
        is_short = layout.previous or layout.episodes.final
        table = LaneTable(length - is_short, where)
        facts = EpisodeFacts(layout, table)
        times: RowArray | None = None
        for path, (rule, column) in views.items():
            if isinstance(column, str):
                table.leave_out(path, column)
            elif rule.role != rules.METADATA and (reason := why_empty(column)):
                table.leave_out(path, reason)
            elif rule.role == rules.FINAL:
                rows = np.asarray(column[()])[None] if rule.once else column
                table.add_final(rule.name or "observations", rows, rows.shape[0] - 1)
            elif not has_steps(column, table.length, rule, is_short=is_short):
                facts.add_array(path, rule, column)
            else:
                times = column if rule.role == rules.TIME else times
                self._add_lane(table, path, rule, column, find_stated(path, rule, layout, file, ref.group))
        for group in dict.fromkeys(("", layout.root, ref.group)):
            for name, value in file.attributes(group).items():
                facts.add_attribute(name, value)
        for name, value in self._details(key, ref).items():
            facts.add_attribute(name, value)
        table.metadata.update({name: value for name, value in layout.constants.items() if name != rules.ENVIRONMENT})
        table.metadata.update({ref.end: layout.episodes.horizon if ref.end == "horizon" else True} if ref.end else {})
        if layout.cameras:
            add_cameras(table, ref.file, layout.cameras, self._values(key, ref, table.metadata))
        id_ = facts.id or self._id_of(key, ref, table.metadata)
        return table.info(id_, env_id=facts.environment, timebase=self._clock(table, times, file))

    def _id_of(self, key: str, ref: EpisodeSlice, metadata: Mapping[str, Any]) -> str:
        """Return the id of an episode: as the layout says, or the name of its file or group, or its number."""
        if self.layout.id:
            return fill_path(self.layout.id, self._values(key, ref, metadata))[0]
        if isinstance(ref.file, OpenFilePlace) and not key:
            return "episode"
        by = self.layout.episodes.by
        if by == rules.FILE:
            return key or ref.file.stem
        return key if by == rules.GROUP else f"episode_{key}"

    def _add_lane(self, table: LaneTable, path: str, rule: ArrayRule, column: RowArray, stated: Stated) -> None:
        block = _BLOCKS.get(rule.role) or f"{'action' if rule.role == ACTION else 'signal'}/{rule.name or path}"
        first = rule.first + self._shift(rule)
        rows = None if rule.role == rules.OBSERVATION and not first else table.length
        if rule.role == rules.SUCCESS:
            block = "signal/success"
            table.metadata["success"] = bool(np.any(np.asarray(column[:]) != 0))
        is_lane = table.add(block, path, column, rows=rows, first=first)
        if is_lane and any(stated):
            lane = table.lanes[block] = replace(table.lanes[block], **stated._asdict())
            if rule.kinds and not declared_kinds(lane):
                raise LayoutError(f"{table.where}: {path!r}: kinds: expected one for each channel, found {rule.kinds}")

    def _shift(self, rule: ArrayRule) -> int:
        """Return how many rows after the observation of a timestep what follows it is stored."""
        if rule.role in (rules.OBSERVATION, rules.TIME, rules.TASK):
            return 0
        return int(self.layout.previous or (self.layout.episodes.final and rule.role in (rules.END, rules.TRUNCATED)))

    def _values(self, key: str, ref: EpisodeSlice, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of paths and ids by name."""
        return {**metadata, "episode": key, **path_values(ref.file)}

    def _details(self, key: str, ref: EpisodeSlice) -> dict[str, Any]:
        """Return what the JSON file of an episode states, {} without one."""
        if not self.layout.details:
            return {}
        values, where = self._values(key, ref, {}), self.where_of(key)
        place = find_file(ref.file, self.layout.details, values, where)
        return read_details(place, self.layout.details_row, values) if place is not None and place.exists() else {}

    def _clock(self, table: LaneTable, times: RowArray | None, file: ArrayFile) -> TimebaseSpec | None:
        rate = self.layout.rate
        if isinstance(rate, str):
            pattern = rate.removeprefix("1/").removeprefix("@")
            value = next((table.metadata[name] for name in table.metadata if fnmatchcase(name, pattern)), None)
            stated = usable_rate(value[0] if isinstance(value, list) and value else value)
            rate = 1 / stated if stated and rate.startswith("1/") else stated
        if rate is None and times is not None and table.length > 1:
            known = np.asarray(times[0 : min(table.length, _CLOCK_ROWS)]).astype(np.int64)
            rate = rate_of(known[known != NO_TIME])
        return None if rate is None else stated_clock(rate)

    def _encoded(self, ref: EpisodeSlice, info: EpisodeInfo, block: str) -> Any:
        if info.lanes[block].encoding == "mp4":
            return cast("Any", info).columns[block].video(info.lanes[block], info.length)
        return super()._encoded(ref, info, block)

    def _identify(self, ref: EpisodeSlice, info: EpisodeInfo, block: str) -> bytes:
        if info.lanes[block].encoding == "mp4":
            return str(self._encoded(ref, info, block).nbytes).encode()
        return super()._identify(ref, info, block)

    # ---- the rows of an episode --------------------------------------------------------------------------------------

    def _dataset(self, ref: EpisodeSlice, column: DatasetColumn) -> Any:
        if isinstance(column, CameraColumn):
            return column.rows()
        return self._views(ref, self._open(ref.file))[column.path][1]

    def _views(self, ref: EpisodeSlice, file: ArrayFile) -> dict[str, tuple[ArrayRule, Any]]:
        """Return {path: (rule, rows of the episode)} of its arrays, or in place of rows why they cannot be read."""
        cache = self._cache("views")
        last = cache.get("")
        if last is None or last[0] is not ref or last[1] is not file:
            where = self.where_of("")
            arrays = EpisodeArrays(self.layout, ref, file, self._counts.get(ref.file.uri, (0, 0)), where)
            last = cache[""] = ref, file, arrays.views(self._plan(ref, file, where))
        views: dict[str, tuple[ArrayRule, Any]] = last[2]
        return views

    def _plan(self, ref: EpisodeSlice, file: ArrayFile, where: str) -> ArrayPlan:
        """Return what the arrays of an episode are: one answer for a file with rows of all episodes."""
        if self.layout.has_groups:
            return plan_arrays(self.layout, file, ref.group, where)
        return self._remember("plans", ref.file.uri, lambda: plan_arrays(self.layout, file, ref.group, where))
