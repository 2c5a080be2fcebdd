"""LeRobot data sets as Sinks: v3.0 and v2.1, whole or not at all."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

from wshard.core.array_fields import DType
from wshard.core.episode.lanes import DONE, EXACT_REWARD, REWARD, STEP_TEXTS, TRUNCATIONS
from wshard.core.episode.meta_writer import dump_json
from wshard.core.episode.step_texts import TASK, text_lanes
from wshard.core.files.schemes import place_of
from wshard.errors import EpisodeError, FormatError
from wshard.formats.draft_sink import DraftSink, advise_on_rate, list_shared
from wshard.formats.lerobot.dataset_info import DEFAULT_PATHS, INFO, read_json
from wshard.formats.lerobot.dataset_meta import native_id, read_dataset
from wshard.formats.lerobot.episode_rows import EpisodePlace, count_rows, make_rows, measure_features, texts_of_tasks
from wshard.formats.lerobot.features import TEXT, VIDEO
from wshard.formats.lerobot.layout_v3 import STATS_V3, LayoutV3
from wshard.formats.lerobot.layout_v21 import STATS_V2, LayoutV21
from wshard.formats.lerobot.open_parquet import import_parquet
from wshard.formats.lerobot.read_meta import EPISODES_V2, EPISODES_V3, ORIGINS, TASKS_V2, TASKS_V3
from wshard.formats.lerobot.write_columns import MAX_AXES, FeatureColumn, counter_features, make_schema, plan_columns
from wshard.formats.lerobot.write_video import describe_video, write_video

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.files.place import Place
    from wshard.core.types import Episode

_META: Final = (INFO, EPISODES_V2, TASKS_V2, TASKS_V3, STATS_V2, STATS_V3, ORIGINS)
_EPISODES: Final = f"{EPISODES_V3}/chunk-{{chunk_index:03d}}/file-{{file_index:03d}}.parquet"
_IMAGES: Final = "images/{video_key}/episode_{episode_index:06d}/frame_{frame_index:06d}.png"
_FIELD: Final = re.compile(r"\{(\w+)[^}]*\}")
_STORED_PREFIXES: Final = ("signal/", "action/")
_STEPS: Final = (REWARD, EXACT_REWARD, DONE, TRUNCATIONS)


class LeRobotSink(DraftSink):
    """Writes many episodes to a folder, numbered in the order of writing.

    All episodes have the features, dtypes, shapes and rate of the first one. Packets of an MP4 are copied if possible;
    all other frames are stored as PNG. Ids and metadata are noted in meta/wshard.jsonl, which LeRobot ignores. Written
    episodes appear together, when the Sink is closed.
    """

    cannot_hold = (
        "predictions, uncertainties, residuals and blocks of other programs",
        "times of timesteps: the rate is stored",
        "bf16, which becomes float32",
        "episodes of other features, shapes or rates than the first one has",
    )
    layout: ClassVar[type[LayoutV3 | LayoutV21]] = LayoutV3

    content = "LeRobot data set"
    codecs = "LeRobot chooses its own"

    def _has_episodes(self) -> bool:
        import_parquet()
        return (self._target / INFO).exists()

    def _begin(self, folder: Path, *, continues: bool) -> None:
        self._origins: list[bytes] = []
        self._info: dict[str, Any] = {}
        self._columns: list[FeatureColumn] = []
        self._schema: Any = None
        if continues:
            self._info = read_json(place_of(folder / INFO))
            self._ids = _read_ids(folder)
        self._layout = self.layout(folder, self._info)

    def _release(self) -> None:
        if "_layout" in vars(self):
            self._layout.abandon()

    def losses(self, info: EpisodeInfo) -> list[str]:
        """Return what the format cannot store of an episode, one text per lane."""
        losses = []
        texts = text_lanes(info)
        for block, lane in info.lanes.items():
            if block not in _STEPS and block not in texts and not block.startswith(_STORED_PREFIXES):
                losses.append(f"{block}: no feature for it")
            elif lane.dtype is DType.BFLOAT16:
                losses.append(f"{block}: bf16 becomes float32")
            elif len(lane.shape) > MAX_AXES:
                losses.append(f"{block}: {len(lane.shape)} axes, at most {MAX_AXES} are stored")
            elif lane.encoding == "mp4":
                losses += (
                    [] if self._layout.copies_spans else [f"{block}: encoded again unless it begins at a key frame"]
                )
        if info.timebase.assumed:
            losses.append(f"timebase: LeRobot needs a rate: {info.timebase.tick_hz:g} Hz")
        elif info.timebase.epoch_ns:
            losses.append("timebase: no place for the time of the first timestep")
        if not isinstance(info.metadata.get(TASK, ""), str) and f"{STEP_TEXTS}{TASK}" not in texts:
            first = "LeRobot states a task per timestep: the first"
            losses += [f"metadata {TASK!r}: {first}", f"{STEP_TEXTS}{TASK}: {first}"]
        return losses

    def shared_lanes(self, info: EpisodeInfo) -> list[str]:
        """Return the lanes that are features."""
        return list_shared(info, (REWARD, DONE, TRUNCATIONS))

    def shared_rate(self, info: EpisodeInfo) -> float | None:
        """Return the rate, which all episodes share."""
        return info.timebase.tick_hz

    def _add(self, ep: Episode, folder: Path) -> str:
        columns = self._match_features(plan_columns(ep), ep.metadata)
        rate = ep.timebase.tick_hz
        fps: float = self._info.get("fps") or (int(rate) if rate == int(rate) else float(rate))
        if abs(rate - fps) > 1e-9 * fps:
            raise EpisodeError(
                f"{self._where}: expected {fps} timesteps per second, those of the first, found {rate}; write it to "
                f"another folder{advise_on_rate(ep.timebase)}"
            )
        placement = EpisodePlace(self._layout.episodes, self._layout.frames, fps)
        origin = self._origin(ep, placement.number)
        texts, positions = texts_of_tasks(ep)
        numbers = self._layout.number_tasks(texts)
        counters = count_rows(ep, placement, numbers[positions])
        schema = self._schema or make_schema(columns)
        rows = make_rows(ep, columns, schema, counters)
        stats = measure_features(ep, columns, counters, keep_shape=self._layout.keeps_shape)
        videos = self._write_videos(ep, columns, fps)
        self._layout.add(rows, texts, stats, videos)
        if not self._columns:
            self._describe(ep, columns, fps)
        self._schema = schema
        self._origins.append(origin)
        return str(placement.number)

    def _origin(self, ep: Episode, number: int) -> bytes:
        """Return a line with data that LeRobot has no field for, empty if there are none; raises EpisodeError."""
        metadata = {name: value for name, value in ep.metadata.items() if name != "task"}
        robot = self._info.get("robot_type") if self._info else ep.env_id
        if (ep.id, ep.env_id, metadata) == (native_id(number), robot or "", {}):
            return b""
        row = {"episode_index": number, "length": ep.length, "id": ep.id, "env_id": ep.env_id, "metadata": metadata}
        return dump_json(row, "metadata") + b"\n"

    def _finish(self, folder: Path) -> None:
        path = folder / ORIGINS
        lines = b"".join([path.read_bytes() if path.exists() else b"", *self._origins])
        path.unlink(missing_ok=True)
        if lines:
            path.write_bytes(lines)
        self._info |= self._layout.finish(self._info)
        path = folder / INFO
        path.unlink(missing_ok=True)  # a hard link to the older file
        path.write_text(json.dumps(self._info, indent=4, ensure_ascii=False))

    @classmethod
    def owned(cls, location: Path) -> list[str]:
        """Return the files of a data set, by the names that versions 2 and 3 give them."""
        return _list_owned(place_of(location))

    def _match_features(self, columns: list[FeatureColumn], metadata: Mapping[str, Any]) -> list[FeatureColumn]:
        """Return the features in the order and form of the existing ones; raises EpisodeError if they differ."""
        existing = self._info.get("features") or {}
        if not existing:
            return columns
        fitted = [
            FeatureColumn(**{**vars(column), "dtype": existing.get(column.name, {}).get("dtype", column.dtype)})
            if column.is_camera
            else column
            for column in [*columns, *_constant_texts(existing, columns, metadata)]
        ]
        counters = counter_features()
        expected = {name: [row["dtype"], list(row["shape"])] for name, row in existing.items() if name not in counters}
        found = {column.name: [column.dtype, list(column.shape)] for column in fitted}
        different = sorted(name for name in {*expected, *found} if expected.get(name) != found.get(name))
        if different:
            name = different[0]
            raise EpisodeError(
                f"{self._where}: feature {name!r}: expected {expected.get(name, 'none')} as in the data set, "
                f"found {found.get(name, 'none')}"
            )
        return [column for name in expected for column in fitted if column.name == name]

    def _describe(self, ep: Episode, columns: list[FeatureColumn], fps: float) -> None:
        self._columns = columns
        features = {column.name: column.describe() for column in columns} | counter_features()
        for column in columns:
            if column.dtype == VIDEO:
                video_info = describe_video(self._layout.last_video(column.name))
                features[column.name]["info"] = {**video_info, "video.fps": fps}
        first_info = {"robot_type": ep.env_id or None, "fps": fps, "features": features}
        self._info = {**first_info, **self._info} if self._info else first_info

    def _write_videos(self, ep: Episode, columns: list[FeatureColumn], fps: float) -> dict[str, tuple[float, float]]:
        """Write the frames of video features; returns when each begins and ends in its file, in seconds."""
        spans = {}
        lanes = ep.lanes()
        try:
            for column in columns:
                if column.dtype == VIDEO:
                    path = self._layout.next_video(column.name)
                    start = write_video(lanes[column.block], path, fps, from_start=not self._layout.copies_spans)
                    spans[column.name] = start, start + ep.length / fps
        except BaseException:
            for column in columns:
                if column.dtype == VIDEO:
                    self._layout.next_video(column.name).unlink(missing_ok=True)
            raise
        return spans


def _constant_texts(
    known: Mapping[str, Any], columns: list[FeatureColumn], metadata: Mapping[str, Any]
) -> list[FeatureColumn]:
    """Return the text features with one text for the whole episode."""
    present = {column.name for column in columns}
    texts = {name: row.get("wshard", {}).get("lane", "") for name, row in known.items() if row["dtype"] == TEXT}
    missing = {name: (lane or name).removeprefix(STEP_TEXTS) for name, lane in texts.items() if name not in present}
    constant = {name: text for name, text in missing.items() if isinstance(metadata.get(text), str)}
    return [FeatureColumn(name, f"{STEP_TEXTS}{text}", TEXT, (1,)) for name, text in constant.items()]


def _read_ids(folder: Path) -> set[str]:
    """Return the ids of the episodes; raises FormatError for a damaged one, as nothing is added to such a data set."""
    dataset = read_dataset(place_of(folder))
    return {
        dataset.origin(entry.number, entry.length).get("id") or native_id(entry.number)
        for entry in dataset.episodes.values()
    }


def _list_owned(folder: Place) -> list[str]:
    """Return the names of the files of a data set below its folder, none of a folder without meta/info.json."""
    if not (folder / INFO).is_file():
        return []
    try:
        info: dict[str, Any] = read_json(folder / INFO)
    except FormatError:  # it can be replaced nevertheless
        info = {}
    features = info.get("features")
    stated = [info[name] for name in ("data_path", "video_path") if isinstance(info.get(name), str)]
    templates = {_EPISODES, _IMAGES, *DEFAULT_PATHS[2], *DEFAULT_PATHS[3], *stated}
    patterns = [_pattern(template, features if isinstance(features, dict) else ()) for template in templates]
    names = [name for name in _META if (folder / name).exists()]
    for top in ("meta", "data", "videos", "images"):
        found = (file.relative_to(folder) for file in (folder / top).walk()) if (folder / top).is_dir() else ()
        names += [name for name in found if name not in names and any(one.fullmatch(name) for one in patterns)]
    return names


def _pattern(template: str, features: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of the names that a template gives; raises no error for an odd template."""
    keys = "|".join(map(re.escape, features)) or r"[^/]+"
    parts = _FIELD.split(template)
    fields = [f"(?:{keys})" if name == "video_key" else r"\d+" for name in parts[1::2]]
    return re.compile("".join(map("".join, zip(map(re.escape, parts[::2]), [*fields, ""], strict=True))))


class LeRobotV21Sink(LeRobotSink):
    """A folder of codebase v2.1, with a Parquet file and an MP4 an episode."""

    layout = LayoutV21
