"""Reading many locations at once needs few open files; episodes of an open location cost a look at their own."""

from __future__ import annotations

import resource
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from bridge_episodes import episode, save

from bridge.episodes.discover import discover
from bridge.episodes.open import open_at
from bridge.episodes.read import read_episodes
from bridge.spaces.lanes import LaneChoice
from wshard.core.episode.protocol import EpisodeAddress
from wshard.core.files.local import LocalPlace
from wshard.training.conversion.location import convert_location

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.core.files.place import FileStatus

FILES = 150


@pytest.fixture
def few_open_files() -> Iterator[None]:
    descriptors = Path("/proc/self/fd")
    if not descriptors.is_dir():
        pytest.skip("needs /proc to count open files")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(int(one.name) for one in descriptors.iterdir()) + 64, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_batch_of_many_files_opens_few_at_a_time(tmp_path: Path, few_open_files: None) -> None:
    ends = np.arange(20) == 19
    for number in range(FILES):
        numbers = np.full((20, 4), float(number))
        np.savez(tmp_path / f"{number}.npz", states=numbers, actions=numbers, rewards=numbers[:, 0], dones=ends)
    readings, failures = read_episodes(discover([tmp_path]).episodes, LaneChoice())
    assert failures == []
    assert len(readings) == FILES


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the paths of the files whose size and time are read, as they are."""
    found: list[str] = []
    read = LocalPlace.status

    def note(place: LocalPlace) -> FileStatus:
        found.append(place.uri)
        return read(place)

    monkeypatch.setattr(LocalPlace, "status", note)
    return found


def test_episodes_of_a_location_in_turn_cost_one_look_at_their_own_files(tmp_path: Path, looks: list[str]) -> None:
    count = 12
    save(tmp_path / "own", *(episode(0, number) for number in range(count)))
    assert not convert_location(tmp_path / "own", tmp_path / "set", target_format="lerobot_v21").failed
    for most in (2, 1):  # at first, opening it is another look
        for number in range(count):
            looks.clear()
            with open_at(EpisodeAddress(str(tmp_path / "set"), str(number), "lerobot")) as file:
                assert file.length == 30
            own = [Path(path).name for path in looks if "/set/data/" in path]
            assert own == [f"episode_{number:06d}.parquet"] * len(own)
            assert 1 <= len(own) <= most


def test_a_file_that_changed_is_noticed_when_its_episode_is_opened_again(tmp_path: Path) -> None:
    save(tmp_path / "own", *(episode(0, number) for number in range(3)))
    save(tmp_path / "other", *(episode(0, number + 3) for number in range(3)))
    for name in ("own", "other"):
        assert not convert_location(tmp_path / name, tmp_path / f"{name}-set", target_format="lerobot_v21").failed

    def read(name: str, number: int) -> list[float]:
        with open_at(EpisodeAddress(str(tmp_path / name), str(number), "lerobot")) as file:
            values: list[float] = file.lane("action/ctrl").ravel().tolist()
            return values

    before = [read("own-set", number) for number in range(3)]
    (changed,) = (tmp_path / "own-set").rglob("episode_000001.parquet")
    shutil.copyfile(next((tmp_path / "other-set").rglob(changed.name)), changed)
    assert read("own-set", 2) == before[2]  # of which no file changed
    assert read("own-set", 1) == read("other-set", 1) != before[1]
    assert read("own-set", 0) == before[0]
