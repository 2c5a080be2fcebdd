"""What every Source, Sink and EpisodeReader must do, as test classes: tests subclass them and fill in the fixtures."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from wshard.chunks.split import cut
from wshard.episode.protocol import EpisodeReader, Fingerprint
from wshard.errors import ClosedError, EntryNotFoundError, EpisodeError, StepError
from wshard.formats.base import Sink, Source
from wshard.testing import assert_same_episode, make_episode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wshard.types import Episode

__all__ = ["EpisodeReaderContract", "SinkContract", "SourceContract"]


def _assert_same(found: Episode, expected: Episode) -> None:
    """Compare episodes; arrays in the metadata count as lists, which is what files make of them."""
    assert_same_episode(*(replace(ep, metadata=_without_arrays(ep.metadata)) for ep in (found, expected)))


def _without_arrays(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in metadata.items()}


class SourceContract:
    """Subclass and define `make`: write `expected` episodes below tmp_path and return an open Source of them."""

    def make(self, tmp_path: Path) -> tuple[Source, Mapping[str, Episode]]:
        """Return a Source and the episodes that it must give by key, in their order."""
        raise NotImplementedError

    def test_keys_are_unique_and_in_order(self, tmp_path: Path) -> None:
        source, expected = self.make(tmp_path)
        with source:
            assert isinstance(source, Source)
            assert list(source.keys()) == list(expected)
            assert list(source.keys()) == list(source.keys())

    def test_every_episode_is_the_expected_one(self, tmp_path: Path) -> None:
        source, expected = self.make(tmp_path)
        with source:
            for key, episode in expected.items():
                found = source.load(key)
                found.validate()
                _assert_same(found, episode)

    def test_episodes_can_be_loaded_in_any_order_and_again(self, tmp_path: Path) -> None:
        source, expected = self.make(tmp_path)
        with source:
            for key in [*reversed(list(expected)), *expected]:
                _assert_same(source.load(key), expected[key])

    def test_an_unknown_key_is_refused(self, tmp_path: Path) -> None:
        source, _ = self.make(tmp_path)
        with source:
            for ask in (source.load, source.open, source.fingerprint):
                with pytest.raises(EntryNotFoundError):
                    ask("no such episode")

    def test_opened_episodes_are_the_loaded_ones_and_outlive_the_source(self, tmp_path: Path) -> None:
        source, expected = self.make(tmp_path)
        with source:
            opened = {key: source.open(key) for key in expected}
        for key, reader in opened.items():
            with reader:
                _assert_same(reader.load(), expected[key])

    def test_fingerprints_stay_as_long_as_the_data_do(self, tmp_path: Path) -> None:
        source, expected = self.make(tmp_path)
        with source:
            found = {key: source.fingerprint(key) for key in expected}
            assert all(isinstance(one, Fingerprint) and one.size > 0 for one in found.values())
            for key in expected:
                source.load(key)
            assert {key: source.fingerprint(key) for key in expected} == found

    def test_a_pickled_source_opens_the_location_again(self, tmp_path: Path) -> None:
        source, expected = self.make(tmp_path)
        with source:
            sent = pickle.dumps(source)
        with pickle.loads(sent) as again:  # noqa: S301  (our own)
            assert list(again.keys()) == list(expected)
            for key, episode in expected.items():
                _assert_same(again.load(key), episode)

    def test_loaded_arrays_outlive_the_source(self, tmp_path: Path) -> None:
        source, expected = self.make(tmp_path)
        with source:
            loaded = {key: source.load(key) for key in expected}
        source.close()
        for key, episode in loaded.items():
            _assert_same(episode, expected[key])


class EpisodeReaderContract:
    """Subclass and define `open_reader`; `expect` says what of an episode the format keeps."""

    def open_reader(self, ep: Episode, folder: Path) -> EpisodeReader:
        """Put the episode into the empty folder, and open it from there."""
        raise NotImplementedError

    def expect(self, ep: Episode) -> Episode:
        """Return the episode as it must come back."""
        return ep

    def test_it_describes_the_episode(self, tmp_path: Path) -> None:
        expected = self.expect(make_episode())
        with self.open_reader(make_episode(), tmp_path) as reader:
            assert isinstance(reader, EpisodeReader)
            found = (reader.id, reader.env_id, reader.length, reader.timebase, reader.is_chunk)
            assert found == (expected.id, expected.env_id, expected.length, expected.timebase, False)
            assert dict(reader.metadata) == _without_arrays(expected.metadata)
            assert reader.where

    def test_lanes_are_those_of_the_episode(self, tmp_path: Path) -> None:
        expected = self.expect(make_episode())
        with self.open_reader(make_episode(), tmp_path) as reader:
            lanes = reader.lanes()
            assert {*reader} == {*lanes} >= {*expected.lanes()}
            for block, channel in expected.lanes().items():
                assert (lanes[block].dtype, list(lanes[block].shape)) == (channel.dtype, channel.shape)
                assert reader.has(block)
                assert block in reader
                assert np.array_equal(reader.lane(block), channel.data)
                assert np.array_equal(reader[block][3:7], channel.data[3:7])
                assert np.array_equal(reader.lane_view(block, verify=True)[-2:], channel.data[-2:])
                assert reader.stored(block).size == channel.data.nbytes
                frames = reader.encoded(block)
                assert frames is None or np.array_equal(frames.decode(3, 7), channel.data[3:7])
            assert all(name in reader for name in expected.observations)
            assert reader.has("reward") == (expected.rewards is not None)

    def test_it_loads_whole_or_in_part(self, tmp_path: Path) -> None:
        expected = self.expect(make_episode())
        name = next(iter(expected.observations))
        with self.open_reader(make_episode(), tmp_path) as reader:
            _assert_same(reader.load(), expected)
            assert [*reader.load([name]).lanes()] == [f"signal/{name}"]
            part = replace(cut(replace(expected, residuals={}), 4, 9), timestep_range=[4, 8], blocks={})
            _assert_same(reader.slice(4, 9), part)
            assert [*reader.slice(4, 9, [name]).lanes()] == [f"signal/{name}"]

    def test_the_total_reward_is_the_sum(self, tmp_path: Path) -> None:
        rewards = self.expect(make_episode()).rewards
        total = None if rewards is None else np.asarray(rewards).sum(dtype=np.float64)
        with self.open_reader(make_episode(), tmp_path) as reader:
            assert reader.total_reward() == (None if total is None else pytest.approx(total))

    def test_equal_data_have_equal_digests_and_other_data_others(self, tmp_path: Path) -> None:
        ep = make_episode()
        name, action = next(iter(self.expect(ep).observations)), next(iter(ep.actions))
        other = replace(ep.actions[action], data=ep.actions[action].data + 1)
        changed = [ep, ep, replace(ep, actions=ep.actions | {action: other}), replace(ep, id="another")]
        digests = []
        for number, one in enumerate(changed):
            (tmp_path / str(number)).mkdir()
            with self.open_reader(one, tmp_path / str(number)) as reader:
                digests.append(reader.digest())
                reader.lane(name)
                assert reader.digest() == digests[-1]
        assert digests[0] == digests[1]
        assert len(set(digests)) == 3

    def test_parts_have_digests_and_data_their_checksums(self, tmp_path: Path) -> None:
        with self.open_reader(make_episode(), tmp_path) as reader:
            assert len(reader.parts()) == len(reader.part_digests())
            assert all(part.path.exists() for part in reader.parts())
            reader.verify()

    def test_what_is_not_there_is_refused(self, tmp_path: Path) -> None:
        with self.open_reader(make_episode(), tmp_path) as reader:
            assert "no such lane" not in reader
            assert not reader.has("no such lane")
            for ask in (reader.lane, reader.lane_view, reader.stored, lambda name: reader.load([name])):
                with pytest.raises(EntryNotFoundError):
                    ask("no such lane")
            for start, stop in ((0, reader.length + 1), (5, 5), (-1, 3)):
                with pytest.raises(StepError):
                    reader.slice(start, stop)

    def test_a_closed_reader_refuses_to_read_and_its_arrays_stay(self, tmp_path: Path) -> None:
        expected = self.expect(make_episode())
        name = next(iter(expected.observations))
        with self.open_reader(make_episode(), tmp_path) as reader:
            array, episode = reader.lane(name), reader.load()
        reader.close()
        assert np.array_equal(array, expected.observations[name].data)
        _assert_same(episode, expected)
        for ask in (reader.load, lambda: reader.lane(name), lambda: reader.slice(0, 2), lambda: reader[name][:2]):
            with pytest.raises(ClosedError):
                ask()


class SinkContract:
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
            _assert_same(replace(source.load(key), id=ep.id), self.expect(ep))

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
                _assert_same(replace(source.load(key), id=ep.id), self.expect(ep))
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
