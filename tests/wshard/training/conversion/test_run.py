"""One episode that cannot be read or written is a failure of that episode: the others are converted."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from sink_places import COLLECTIONS

from wshard import Channel, Episode, EpisodeAddress, MemoryReader, WShardError
from wshard.core.episode.info import EpisodeInfo
from wshard.core.episode.protocol import Fingerprint
from wshard.formats.open import open_location
from wshard.media import ImageFrames
from wshard.training.conversion.jobs import list_jobs
from wshard.training.conversion.run import Conversion
from wshard.training.conversion.target import ConversionTarget


class FaultySource:
    """Three episodes; a library meets data of the second that it did not expect."""

    def __init__(self, location: str) -> None:
        self._location = Path(location)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def close(self) -> None:
        pass

    def keys(self) -> list[str]:
        return ["0", "1", "2"]

    def fingerprint(self, key: str) -> Fingerprint:
        return Fingerprint.of(self._location)

    def info(self, key: str) -> EpisodeInfo:
        with self.open(key) as reader:
            return EpisodeInfo.of(reader)

    def load(self, key: str) -> Episode:
        if key == "1":
            raise KeyError("codec_of_nobody")
        state = Channel.of("state", np.full((3, 2), int(key), np.float32))
        actions: Any = {"action": np.ones((3, 1), np.float32)}
        return Episode(key, "", 3, observations={"state": state}, actions=actions, metadata={"task": "push"})

    def open(self, key: str) -> MemoryReader:
        return MemoryReader(self.load(key), EpisodeAddress(str(self._location), key))


@pytest.mark.parametrize("readers", [1, 3])
@pytest.mark.parametrize("name", ["wshard", "robomimic", "folder"])
def test_an_unexpected_error_of_a_library_is_one_failure(tmp_path, name, readers):
    (tmp_path / "in").touch()
    target = ConversionTarget(str(tmp_path / COLLECTIONS.get(name, "out")), name)
    jobs = list_jobs([str(tmp_path / "in")], f"{__name__}:FaultySource")
    target.prepare(len(jobs))
    with Conversion(target, jobs, readers=readers) as conversion:
        assert conversion.survey().count == 2
        outcomes = [outcome for _, outcome in conversion.run()]
    assert [outcomes[0], outcomes[2]] == [3, 3]
    assert isinstance(outcomes[1], WShardError)
    assert "in#1" in str(outcomes[1])
    assert "KeyError: 'codec_of_nobody'" in str(outcomes[1])
    with open_location(target.location, name) as source:
        found = [source.load(key).observations["state"].data[0, 0] for key in source.keys()]  # noqa: SIM118
    assert found == [0, 2]


class NoDecoder(list[bytes]):
    """Frames that a library of nobody decodes."""

    def __getitem__(self, number: Any) -> Any:
        raise RuntimeError("no such decoder")


def test_an_unexpected_error_while_writing_is_one_failure(tmp_path, monkeypatch):
    def load(_: FaultySource, key: str) -> Episode:
        pixels: Any = np.zeros((3, 4, 4, 3), np.uint8)
        odd = ImageFrames("png", NoDecoder([b""] * 3), frame_shape=(4, 4, 3), frame_dtype=np.dtype(np.uint8))
        return Episode(key, "", 3, observations={"rgb": Channel.of("rgb", odd if key == "1" else pixels)})

    (tmp_path / "in").touch()
    monkeypatch.setattr(FaultySource, "load", load)
    target = ConversionTarget(str(tmp_path / "a.zarr"), "zarr")
    with Conversion(target, list_jobs([str(tmp_path / "in")], f"{__name__}:FaultySource")) as conversion:
        outcomes = [outcome for _, outcome in conversion.run()]
    assert [outcomes[0], outcomes[2]] == [3, 3]
    assert isinstance(outcomes[1], WShardError)
    assert "RuntimeError: no such decoder" in str(outcomes[1])
