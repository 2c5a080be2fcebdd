"""RLDS data sets as a Sink: TFRecord shards that TFDS opens from their folder, whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from wshard.container.codec import CompressionType
from wshard.container.codec_plan import CodecPlan
from wshard.errors import CodecError, EpisodeError, FormatError
from wshard.formats.draft import Draft, check_mode
from wshard.formats.rlds.dataset_info import (
    INFO,
    TFRECORD,
    RLDSInfo,
    SplitShards,
    describe_dataset,
    name_of_folder,
    read_dataset_info,
    read_object,
)
from wshard.formats.rlds.example import encode_example
from wshard.formats.rlds.features import FEATURES, describe_features
from wshard.formats.rlds.source import RLDSSource
from wshard.formats.rlds.tfrecord import write_record
from wshard.formats.rlds.write_steps import list_losses, make_record, plan_episode, plan_steps

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from wshard.container.codec_plan import Compression
    from wshard.episode.info import EpisodeInfo
    from wshard.formats.base import Location
    from wshard.formats.draft import WriteMode
    from wshard.types import Episode

SPLIT: Final = "train"
_SHARD_SIZE: Final = 1 << 28
_SHARD: Final = re.compile(r"[^/]+\.(tfrecord|array_record)-\d{5,}-of-\d{5,}")


class RLDSSink:
    """A folder that takes many episodes, which are numbered in split train in the order of writing.

    All episodes have the features of the first one. Float64, float16 and uint64 are tensors stored as bytes, cameras
    are images; id, environment, rate and metadata are in episode_metadata. Shards that are there are never changed.
    """

    def __init__(self, location: Location, *, compression: Compression = "none", mode: WriteMode = "append") -> None:
        check_mode(mode)
        if not isinstance(location, (str, os.PathLike)):
            raise FormatError("expected the path of a folder for an RLDS data set, found a file object")
        if {codec.type for _, codec in CodecPlan.of(compression).rules} - {CompressionType.NONE}:
            raise CodecError(f"compression: expected none, TFRecord has none of its own, found {compression!r}")
        there = Path(location, INFO).exists()
        if mode == "error" and there:
            raise FileExistsError(errno.EEXIST, "expected no data set there (mode 'error')", str(location))
        self._where = os.fspath(location)
        self._draft: Draft | None = Draft(location, "append" if mode == "error" else mode, folder=True)
        self._written: list[list[int]] = []  # of each new shard the sizes of its records
        self._tree: dict[str, Any] = {}
        self._ids: set[str] = set()
        try:
            folder = Path(os.path.realpath(location))
            self._info = RLDSInfo(*name_of_folder(folder), TFRECORD, ())
            if there and mode == "append":
                self._continue()
        except BaseException:
            self._draft.discard()
            raise

    def _continue(self) -> None:
        """Take up the data set that is there."""
        self._info = read_dataset_info(Path(self._where))
        if self._info.file_format != TFRECORD:
            raise FormatError(f"{self._where}: expected TFRecord files to add to, found {self._info.file_format}")
        self._tree = read_object(Path(self._where, FEATURES))
        with RLDSSource(self._where) as source:
            self._ids = {source.info(key).id for key in source.keys()}  # noqa: SIM118  (a Source is no mapping)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *exc: object) -> None:
        if kind is not None and self._draft is not None:
            self._draft.discard()
            self._draft = None
        self.close()

    def has(self, id_: str) -> bool:
        """Say whether an episode of this id is there already."""
        return id_ in self._ids

    def losses(self, info: EpisodeInfo) -> list[str]:
        """Return what of an episode the format cannot hold."""
        return list_losses(info)

    def write(self, ep: Episode) -> str:
        """Add one episode; returns its key. Raises EpisodeError for what does not fit the others, and an id twice."""
        if self._draft is None:
            raise EpisodeError(f"{self._where}: expected no more episodes: the Sink is closed")
        ep.validate()
        if ep.id in self._ids:
            raise EpisodeError(f"{self._where}: expected no episode {ep.id!r} there yet")
        features = plan_steps(ep)
        tree = describe_features(features, plan_episode())
        if self._tree and tree != self._tree:
            raise EpisodeError(f"{self._where}: episode {ep.id!r}: expected the features of the others, found others")
        data = encode_example(make_record(ep, features))
        self._tree = tree
        if not self._written or sum(self._written[-1]) >= _SHARD_SIZE:
            self._written.append([])
        with (self._draft.path / _draft_name(len(self._written) - 1)).open("ab") as file:
            write_record(file, data)
        self._written[-1].append(len(data))
        self._ids.add(ep.id)
        return f"{SPLIT}/{sum(self._old.lengths) + sum(map(len, self._written)) - 1}"

    @property
    def _old(self) -> SplitShards:
        """The split as it was before."""
        return next((split for split in self._info.splits if split.name == SPLIT), SplitShards(SPLIT, ()))

    def close(self) -> None:
        """End the writing: the data set appears, or takes the place of the old one."""
        if self._draft is None:
            return
        draft, self._draft = self._draft, None
        try:
            if self._written:
                self._finish(draft)
                draft.publish(lambda name: name in {INFO, FEATURES} or _SHARD.fullmatch(name) is not None)
            else:
                draft.discard()
        except BaseException:
            draft.discard()
            raise

    def _finish(self, draft: Draft) -> None:
        old = self._old
        new = SplitShards(SPLIT, (*old.lengths, *map(len, self._written)), old.template)
        name = self._info.name
        for shard in range(len(old.lengths)):
            (draft.path / old.file(name, TFRECORD, shard)).rename(draft.path / new.file(name, TFRECORD, shard))
        for number in range(len(self._written)):
            target = new.file(name, TFRECORD, len(old.lengths) + number)
            (draft.path / _draft_name(number)).rename(draft.path / target)
        splits = [split for split in self._info.splits if split.name != SPLIT]
        info = RLDSInfo(name, self._info.version, TFRECORD, (*splits, new))
        sizes = {split.name: self._size_of(draft, info, split) for split in info.splits}
        _write_json(draft.path / INFO, describe_dataset(info, sizes))
        if not (draft.path / FEATURES).exists():
            _write_json(draft.path / FEATURES, self._tree)

    def _size_of(self, draft: Draft, info: RLDSInfo, split: SplitShards) -> int:
        files = [split.file(info.name, TFRECORD, shard) for shard in range(len(split.lengths))]
        return sum((draft.path / file).stat().st_size for file in files)


def _draft_name(number: int) -> str:
    return f".new-{number:05d}"


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.unlink(missing_ok=True)  # a link to the file of before
    path.write_text(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False))
