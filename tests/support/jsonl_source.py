"""A format of another package, for tests: a JSON-lines file, one episode a line, announced by an entry point."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from wshard import Channel, Episode, EpisodeAddress, EpisodeReader, MemoryReader, TimebaseSpec
from wshard.core.episode.info import EpisodeInfo
from wshard.core.episode.protocol import Fingerprint
from wshard.errors import EntryNotFoundError
from wshard.testing import make_episode

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    import pytest

SUFFIX = ".jsonl"


class JsonlSource:
    """The episodes of a JSON-lines file; keys are the ids in its lines."""

    def __init__(self, location: str | os.PathLike[str]) -> None:
        self._path = Path(location)
        self._path.stat()

    @staticmethod
    def matches(location: str | os.PathLike[str]) -> bool:
        """Say whether a path is such a file."""
        return Path(location).suffix == SUFFIX

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: the file is open only while a line is read."""

    @cached_property
    def _lines(self) -> dict[str, tuple[int, int]]:
        """Where each line begins, and its size; the id is its first value."""
        found, begin = {}, 0
        with self._path.open("rb") as file:
            for line in file:
                found[line[:200].split(b'"', 4)[3].decode()] = (begin, len(line))
                begin += len(line)
        return found

    def keys(self) -> list[str]:
        """Return the ids in the order of the lines."""
        return list(self._lines)

    def _find(self, key: str) -> tuple[int, int]:
        if key not in self._lines:
            raise EntryNotFoundError(f"{self._path}: no episode {key!r}; it has {len(self._lines)}")
        return self._lines[key]

    def load(self, key: str) -> Episode:
        """Return one episode."""
        begin, size = self._find(key)
        with self._path.open("rb") as file:
            file.seek(begin)
            return episode_of(json.loads(file.read(size)))

    def open(self, key: str) -> EpisodeReader:
        """Open one episode."""
        return MemoryReader(self.load(key), str(EpisodeAddress(str(self._path), key)))

    def info(self, key: str) -> EpisodeInfo:
        """Describe one episode."""
        with self.open(key) as reader:
            return EpisodeInfo.of(reader)

    def lane(self, key: str, name: str, start: int = 0, stop: int | None = None) -> Any:
        """Return timesteps of a lane."""
        with self.open(key) as reader:
            return reader.lane(name)[start:stop]

    def fingerprint(self, key: str) -> Fingerprint:
        """Return that of the line: lines are only ever added, and what is added changes no other."""
        _, size = self._find(key)
        return replace(Fingerprint.of(self._path), size=size)


def line_of(ep: Episode) -> str:
    """Return an episode as a line: id, environment, rate, reward, and its lanes as lists."""
    lanes = {name: [channel.dtype.value, channel.data.tolist()] for name, channel in ep.lanes().items()}
    rewards = None if ep.rewards is None else np.asarray(ep.rewards).tolist()
    about = {"id": ep.id, "env": ep.env_id, "hz": float(ep.timebase.tick_hz), "about": ep.metadata}
    return json.dumps(about | {"reward": rewards, "lanes": lanes})


def episode_of(row: dict[str, Any]) -> Episode:
    """Return the episode of a line."""
    channels: dict[str, dict[str, Channel]] = {"signal": {}, "action": {}}
    for block, (dtype, values) in row["lanes"].items():
        kind, _, name = block.partition("/")
        channels[kind][name] = Channel.of(name, np.asarray(values, {"f32": "<f4", "f64": "<f8"}[dtype]))
    rewards = None if row["reward"] is None else np.asarray(row["reward"], np.float32)
    return Episode(
        id=row["id"],
        env_id=row["env"],
        length=len(next(iter(channels["signal"].values())).data),
        timebase=TimebaseSpec(tick_hz=row["hz"]),
        observations=channels["signal"],
        actions=channels["action"],
        rewards=rewards,
        metadata=row["about"],
    )


def what_a_line_holds(ep: Episode) -> Episode:
    """Return what of an episode comes back from a line."""
    return episode_of(json.loads(line_of(ep)))


def write_lines(path: Path, episodes: Iterable[Episode]) -> Path:
    """Write a file of these episodes."""
    with path.open("a") as file:
        file.writelines(f"{line_of(ep)}\n" for ep in episodes)
    return path


def some_episodes(count: int) -> Iterable[Episode]:
    """Return `count` short episodes, line-0000 and so on."""
    return (replace(make_episode(number, T=8), id=f"line-{number:04d}") for number in range(count))


def announce(folder: Path, monkeypatch: pytest.MonkeyPatch, source: str = "jsonl_source:JsonlSource") -> None:
    """Install a package in `folder`, for the time of a test, that announces the format `jsonl`."""
    info = folder / "jsonl_format-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jsonl-format\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[wshard.sources]\njsonl = {source}\n")
    monkeypatch.syspath_prepend(str(folder))
