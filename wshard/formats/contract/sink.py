"""What every Sink must do, as test classes: of a file an episode, and of many episodes in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from wshard.core.media.frames import ImageFrames
from wshard.core.media.images import encode_image
from wshard.core.types import Channel, Episode
from wshard.errors import CodecError, EpisodeError, WShardError
from wshard.formats.base import open_sink, open_source
from wshard.formats.contract.others import OthersContract
from wshard.formats.contract.racing import RacingContract, RacingFilesContract
from wshard.formats.contract.source import assert_same
from wshard.formats.detect import detect_format
from wshard.formats.sink_base import Sink
from wshard.testing import make_episode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from wshard.core.container.draft import WriteMode
    from wshard.formats.source_base import Source


class SinkContract(RacingFilesContract):
    """Subclass and define `open_sink` and `open_source` of one location; `expect` says what the format keeps."""

    suffix = ""

    def open_sink(self, location: Path) -> Sink:
        """Return a Sink of a file with the suffix, or of an existing folder."""
        raise NotImplementedError

    def open_source(self, location: Path) -> Source:
        """Return a Source of what the Sink wrote."""
        raise NotImplementedError

    def expect(self, ep: Episode) -> Episode:
        """Return the episode as it must come back."""
        return ep

    def test_a_file_takes_one_episode(self, tmp_path: Path) -> None:
        place, ep = tmp_path / f"one{self.suffix}", make_episode()
        with self.open_sink(place) as sink:
            assert isinstance(sink, Sink)
            key = sink.write(ep)
            with pytest.raises(EpisodeError):
                sink.write(make_episode(1))
        with self.open_source(place) as source:
            assert list(source.keys()) == [key]
            assert_same(replace(source.load(key), id=ep.id), self.expect(ep))

    def test_a_folder_takes_many_episodes_of_any_id(self, tmp_path: Path) -> None:
        folder = tmp_path / "many"
        folder.mkdir()
        episodes = [replace(make_episode(seed), id=id_) for seed, id_ in enumerate(["plain", "a/b", "../up", "a_b"])]
        with self.open_sink(folder) as sink:
            keys = [sink.write(ep) for ep in episodes]
            with pytest.raises(EpisodeError):
                sink.write(episodes[0])
        with self.open_source(folder) as source:
            assert sorted(source.keys()) == sorted(keys)
            for key, ep in zip(keys, episodes, strict=True):
                assert_same(replace(source.load(key), id=ep.id), self.expect(ep))
        assert {path.parent for path in tmp_path.rglob("*") if path.is_file()} == {folder}

    def test_a_refused_episode_changes_nothing(self, tmp_path: Path) -> None:
        place = tmp_path / f"one{self.suffix}"
        with self.open_sink(place) as sink, pytest.raises(EpisodeError):
            sink.write(replace(make_episode(), length=7))
        assert not list(tmp_path.iterdir())
        with self.open_sink(place) as sink:
            sink.write(make_episode())
        before = place.read_bytes()
        with self.open_sink(place) as sink, pytest.raises(EpisodeError):
            sink.write(replace(make_episode(), length=7))
        assert [path.name for path in tmp_path.iterdir()] == [place.name]
        assert place.read_bytes() == before

    def test_equal_episodes_give_equal_bytes(self, tmp_path: Path) -> None:
        places = [tmp_path / f"{number}{self.suffix}" for number in range(2)]
        for place in places:
            with self.open_sink(place) as sink:
                sink.write(make_episode())
        assert places[0].read_bytes() == places[1].read_bytes()


class _LastUnreadable(Sequence[bytes]):
    """PNG frames of a file that is damaged behind the others."""

    def __init__(self, count: int) -> None:
        self._image, self._count = encode_image(np.zeros((16, 16, 3), np.uint8), "png"), count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: Any) -> Any:
        if number == self._count - 1:
            raise CodecError(f"frame {number} is damaged")
        return self._image


def _read_files(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


class CollectionSinkContract(OthersContract, RacingContract):
    """Subclass for a format that has many episodes in one place, which appear when the Sink is closed.

    name: of the format; place: what the file or folder is called. knows_ids: whether it stores ids; deterministic:
    whether equal episodes give equal bytes. All episodes that `make` gives fit one place.
    """

    name = ""
    place = "set"
    knows_ids = True
    deterministic = True

    def make(self, number: int) -> Episode:
        """Return an episode that the format can hold, another one for each number."""
        rng, length = np.random.default_rng(number), 4 + number
        return Episode(
            f"episode-{number}",
            "arm",
            length,
            observations={
                "state": Channel.of("state", rng.standard_normal((length, 3))),
                "more": Channel.of("more", rng.random((length, 2), np.float32)),
            },
            actions={"action": Channel.of("action", rng.standard_normal((length, 2)))},
            rewards=rng.standard_normal(length),
            terminations=np.arange(length) == length - 1,
            metadata={"task": "push"},
        )

    def break_off(self, ep: Episode) -> Episode:
        """Return an invalid episode that is made from this one."""
        return replace(ep, length=ep.length + 1)

    def _write(self, folder: Path, *numbers: int, mode: WriteMode = "append") -> list[str]:
        with open_sink(folder / self.place, self.name, mode=mode) as sink:
            return [sink.write(self.make(number)) for number in numbers]

    def _read(self, folder: Path) -> list[Episode]:
        with open_source(folder / self.place, str(detect_format(folder / self.place))) as source:
            return [source.load(key) for key in source.keys()]  # noqa: SIM118  (a Source is no mapping)

    def _assert_there(self, folder: Path, *numbers: int) -> None:
        for found, number in zip(self._read(folder), numbers, strict=True):
            expected = self.make(number)
            for name, lane in expected.observations.items():
                assert found.observations[name].dtype == lane.dtype
                assert np.array_equal(found.observations[name].data, lane.data)
            ((_, action),) = found.actions.items()
            assert np.array_equal(action.data, expected.actions["action"].data)
            assert np.array_equal(np.asarray(found.rewards), np.asarray(expected.rewards))

    def test_modes_append_replace_or_refuse(self, tmp_path: Path) -> None:
        keys = self._write(tmp_path, 0, 1)
        self._assert_there(tmp_path, 0, 1)
        with pytest.raises(FileExistsError):
            self._write(tmp_path, 2, mode="error")
        more = [*self._write(tmp_path, 2), *self._write(tmp_path, 3)]
        assert len({*keys, *more}) == 4
        self._assert_there(tmp_path, 0, 1, 2, 3)
        self._write(tmp_path, 4, mode="overwrite")
        self._assert_there(tmp_path, 4)

    def test_what_was_written_is_known_and_not_written_twice(self, tmp_path: Path) -> None:
        self._write(tmp_path, 0)
        with open_sink(tmp_path / self.place, self.name) as sink:
            assert sink.has(self.make(0).id) is self.knows_ids
            assert not sink.has("never")
            sink.write(self.make(1))
            if self.knows_ids:
                with pytest.raises(EpisodeError):
                    sink.write(self.make(1))
        self._assert_there(tmp_path, 0, 1)

    def test_nothing_is_there_before_the_end(self, tmp_path: Path) -> None:
        with open_sink(tmp_path / self.place, self.name) as sink:
            sink.write(self.make(0))
            assert not (tmp_path / self.place).exists()
        before = _read_files(tmp_path / self.place) or (tmp_path / self.place).read_bytes()
        with open_sink(tmp_path / self.place, self.name, mode="overwrite") as sink:
            sink.write(self.make(1))
            assert (_read_files(tmp_path / self.place) or (tmp_path / self.place).read_bytes()) == before

    @pytest.mark.parametrize("mode", ["append", "overwrite"])
    def test_an_error_leaves_what_was_there(self, tmp_path: Path, mode: WriteMode) -> None:
        self._write(tmp_path, 0)
        before = _read_files(tmp_path)

        def fail(sink: Sink) -> None:
            sink.write(self.make(1))
            raise ZeroDivisionError

        def refuse(sink: Sink) -> None:
            with pytest.raises(EpisodeError):
                sink.write(self.break_off(self.make(1)))

        for act, error in ((fail, ZeroDivisionError), (refuse, None)):
            self._attempt(tmp_path, mode, act, error)
            assert _read_files(tmp_path) == before

    def _attempt(
        self, folder: Path, mode: WriteMode, act: Callable[[Sink], None], error: type[BaseException] | None
    ) -> None:
        try:
            with open_sink(folder / self.place, self.name, mode=mode) as sink:
                act(sink)
        except ZeroDivisionError:
            assert error is not None

    def test_an_episode_whose_frames_cannot_be_read_is_refused_alone(self, tmp_path: Path) -> None:
        frames = Channel.of("rgb", ImageFrames("png", _LastUnreadable(4)))
        bad = replace(self.make(0), id="bad", env_id="other", observations=self.make(0).observations | {"rgb": frames})
        with open_sink(tmp_path / self.place, self.name) as sink:
            for number in (0, 1):
                with pytest.raises(WShardError):
                    sink.write(bad)
                sink.write(self.make(number))
        self._assert_there(tmp_path, 0, 1)
        assert all(found.observations.keys() == self.make(0).observations.keys() for found in self._read(tmp_path))

    def test_equal_episodes_give_equal_bytes(self, tmp_path: Path) -> None:
        found = []
        for name in "ab":
            folder = tmp_path / name / "same"
            folder.mkdir(parents=True)
            self._write(folder, 0, 1)
            found.append(_read_files(folder))
        assert {*found[0]} == {*found[1]} or not self.deterministic
        assert found[0] == found[1] or not self.deterministic
