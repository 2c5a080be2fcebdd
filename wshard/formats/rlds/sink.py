"""RLDS data sets as a Sink: TFRecord shards that TFDS opens from their folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from wshard.core.episode.lanes import DONE, REWARD, TIMESTAMPS
from wshard.core.files.schemes import place_of
from wshard.errors import EpisodeError, FormatError
from wshard.formats.draft_sink import DraftSink, list_shared
from wshard.formats.hdf5.values import read_object
from wshard.formats.rlds.dataset_info import (
    INFO,
    MAX_JSON,
    TFRECORD,
    RLDSInfo,
    SplitShards,
    describe_dataset,
    name_of_folder,
    read_dataset_info,
)
from wshard.formats.rlds.example import encode_example
from wshard.formats.rlds.features import FEATURES, describe_features
from wshard.formats.rlds.source import RLDSSource
from wshard.formats.rlds.tfrecord import write_record
from wshard.formats.rlds.write_steps import find_losses, make_record, plan_episode, plan_steps

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.types import Episode

SPLIT: Final = "train"
_SHARD_SIZE: Final = 1 << 28


class RLDSSink(DraftSink):
    """Writes many episodes to a folder, numbered in split train in the order of writing.

    All episodes have the features of the first one. Float64, float16 and uint64 are tensors stored as bytes, cameras
    are images; id, environment, rate and metadata are in episode_metadata. Existing shards are never changed.
    """

    cannot_hold = (
        "predictions, uncertainties, residuals and blocks of other programs",
        "truncations: the last timestep counts as truncated unless it is terminal",
        "MP4: frames are stored as PNG",
        "episodes of other features than the first one has",
    )
    content = "RLDS data set"
    codecs = "TFRecord has none of its own"

    def _has_episodes(self) -> bool:
        return (self._target / INFO).exists()

    def _begin(self, draft: Path, *, continues: bool) -> None:
        self._written: list[list[int]] = []  # sizes of the records of each new shard
        self._tree: dict[str, Any] = {}
        self._info = RLDSInfo(*name_of_folder(self._target.resolve()), TFRECORD, ())
        if not continues:
            return
        self._info = read_dataset_info(place_of(self._where))
        if self._info.file_format != TFRECORD:
            raise FormatError(f"{self._where}: expected TFRecord files to add to, found {self._info.file_format}")
        self._tree = read_object(place_of(self._where) / FEATURES, MAX_JSON)
        with RLDSSource(self._where) as source:
            self._ids = {source.info(key).id for key in source.keys()}  # noqa: SIM118  (a Source is no mapping)

    def losses(self, info: EpisodeInfo) -> list[str]:
        """Return what the format cannot store of an episode."""
        return find_losses(info)

    def shared_lanes(self, info: EpisodeInfo) -> list[str]:
        """Return the lanes that are features of the steps."""
        return list_shared(info, (REWARD, DONE, TIMESTAMPS))

    def _add(self, ep: Episode, draft: Path) -> str:
        features = plan_steps(ep)
        tree = describe_features(features, plan_episode())
        if self._tree and tree != self._tree:
            raise EpisodeError(
                f"{self._where}: episode {ep.id!r}: expected the first one's features, found different ones"
            )
        data = encode_example(make_record(ep, features))
        self._tree = tree
        if not self._written or sum(self._written[-1]) >= _SHARD_SIZE:
            self._written.append([])
        with (draft / _draft_name(len(self._written) - 1)).open("ab") as file:
            write_record(file, data)
        self._written[-1].append(len(data))
        return f"{SPLIT}/{sum(self._existing_split.lengths) + sum(map(len, self._written)) - 1}"

    @property
    def _existing_split(self) -> SplitShards:
        """The split before this run."""
        return next((split for split in self._info.splits if split.name == SPLIT), SplitShards(SPLIT, ()))

    def _finish(self, draft: Path) -> None:
        existing, folder = self._existing_split, draft
        new = SplitShards(SPLIT, (*existing.lengths, *map(len, self._written)), existing.template)
        name = self._info.name
        for shard in range(len(existing.lengths)):
            (folder / existing.file(name, TFRECORD, shard)).rename(folder / new.file(name, TFRECORD, shard))
        for number in range(len(self._written)):
            target = new.file(name, TFRECORD, len(existing.lengths) + number)
            (folder / _draft_name(number)).rename(folder / target)
        splits = [split for split in self._info.splits if split.name != SPLIT]
        info = RLDSInfo(name, self._info.version, TFRECORD, (*splits, new))
        sizes = {split.name: self._size_of(folder, info, split) for split in info.splits}
        _write_json(folder / INFO, describe_dataset(info, sizes))
        if not (folder / FEATURES).exists():
            _write_json(folder / FEATURES, self._tree)

    @classmethod
    def owned(cls, location: Path) -> list[str]:
        """Return the files of a data set that dataset_info.json lists; raises FormatError if it is damaged."""
        if not (location / INFO).exists():
            return []
        info = read_dataset_info(place_of(location))
        shards = [(split, number) for split in info.splits for number in range(len(split.lengths))]
        return [INFO, FEATURES, *(split.file(info.name, info.file_format, number) for split, number in shards)]

    def _size_of(self, folder: Path, info: RLDSInfo, split: SplitShards) -> int:
        files = [split.file(info.name, TFRECORD, shard) for shard in range(len(split.lengths))]
        return sum((folder / file).stat().st_size for file in files)


def _draft_name(number: int) -> str:
    return f".new-{number:05d}"


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.unlink(missing_ok=True)  # a hard link to the older file
    path.write_text(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False))
