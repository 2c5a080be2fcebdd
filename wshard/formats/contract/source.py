"""What every Source and EpisodeReader must do, as test classes."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from wshard.core.chunks.split import cut
from wshard.core.episode.lanes import STEP_TEXTS
from wshard.core.episode.protocol import EpisodeReader, Fingerprint
from wshard.core.types import Channel
from wshard.errors import ClosedError, EntryNotFoundError, StepError
from wshard.formats.lane_map import MappedSource, encode_lane_map
from wshard.formats.source_base import Source, with_base
from wshard.testing import assert_same_episode, make_episode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from wshard.core.types import Array, Episode
    from wshard.formats.source_base import SourceBase

_NEW_NAME: Final = "renamed"


def assert_same(found: Episode, expected: Episode) -> None:
    """Compare episodes; arrays in the metadata count as lists, which is what files make of them."""
    assert_same_episode(*(replace(ep, metadata=without_arrays(ep.metadata)) for ep in (found, expected)))


def without_arrays(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata with lists for arrays."""
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in metadata.items()}


class SourceContract:
    """Subclass and define `make`: write `expected` episodes below tmp_path and return an open Source of them."""

    def make(self, tmp_path: Path) -> tuple[Source, Mapping[str, Episode]]:
        """Return a Source and the episodes that it must give by key, in their order."""
        raise NotImplementedError

    def _each(self, tmp_path: Path) -> Iterator[tuple[Source, Mapping[str, Episode]]]:
        """Yield the Source and what it must give, then both with another name of a lane that all episodes have."""
        source, expected = self.make(_new_folder(tmp_path, "plain"))
        yield source, expected
        source, expected = self.make(_new_folder(tmp_path, "mapped"))
        name = next(
            name for name in next(iter(expected.values())).lanes() if all(name in ep for ep in expected.values())
        )
        mapped = MappedSource(source, encode_lane_map({name: _NEW_NAME}))
        yield mapped, {key: _rename(ep, name) for key, ep in expected.items()}

    def test_keys_are_unique_and_in_order(self, tmp_path: Path) -> None:
        for source, expected in self._each(tmp_path):
            with source:
                assert isinstance(source, Source)
                assert list(source.keys()) == list(expected)
                assert list(source.keys()) == list(source.keys())

    def test_every_episode_is_the_expected_one(self, tmp_path: Path) -> None:
        for source, expected in self._each(tmp_path):
            with source:
                for key, episode in expected.items():
                    found = source.load(key)
                    found.validate()
                    assert_same(found, episode)

    def test_episodes_can_be_loaded_in_any_order_and_again(self, tmp_path: Path) -> None:
        for source, expected in self._each(tmp_path):
            with source:
                for key in [*reversed(list(expected)), *expected]:
                    assert_same(source.load(key), expected[key])

    def test_an_unknown_key_is_refused(self, tmp_path: Path) -> None:
        for source, _ in self._each(tmp_path):
            with source:
                for ask in (source.load, source.open, source.fingerprint):
                    with pytest.raises(EntryNotFoundError):
                        ask("no such episode")

    def test_opened_episodes_are_the_loaded_ones_and_outlive_the_source(self, tmp_path: Path) -> None:
        for source, expected in self._each(tmp_path):
            with source:
                opened = {key: source.open(key) for key in expected}
            for key, reader in opened.items():
                with reader:
                    assert_same(reader.load(), expected[key])

    def test_a_span_is_the_part_of_the_episode(self, tmp_path: Path) -> None:
        for source, expected in self._each(tmp_path):
            with source:
                for key, episode in expected.items():
                    start, stop = episode.length // 3, episode.length - episode.length // 3
                    with source.open(key) as reader:
                        part = reader.slice(start, stop)
                    assert part.length == stop - start
                    for name, lane in episode.lanes().items():
                        assert np.array_equal(part.lanes()[name].data, lane.data[start:stop])
                        assert np.array_equal(source.lane(key, name, start, stop), lane.data[start:stop])

    def test_fingerprints_stay_as_long_as_the_data_do(self, tmp_path: Path) -> None:
        for source, expected in self._each(tmp_path):
            with source:
                found = {key: source.fingerprint(key) for key in expected}
                assert all(isinstance(one, Fingerprint) and one.size > 0 for one in found.values())
                for key in expected:
                    source.load(key)
                assert {key: source.fingerprint(key) for key in expected} == found

    def test_a_pickled_source_opens_the_location_again(self, tmp_path: Path) -> None:
        for source, expected in self._each(tmp_path):
            with source:
                sent = pickle.dumps(source)
            with pickle.loads(sent) as again:  # noqa: S301  (our own)
                assert list(again.keys()) == list(expected)
                for key, episode in expected.items():
                    assert_same(again.load(key), episode)

    def test_loaded_arrays_outlive_the_source(self, tmp_path: Path) -> None:
        for source, expected in self._each(tmp_path):
            with source:
                loaded = {key: source.load(key) for key in expected}
            source.close()
            for key, episode in loaded.items():
                assert_same(episode, expected[key])

    def test_a_lane_map_hides_nothing_else_that_callers_ask(self, tmp_path: Path) -> None:
        source, expected = self.make(tmp_path)
        name = next(
            name for name in next(iter(expected.values())).lanes() if all(name in ep for ep in expected.values())
        )
        new = f"{name.partition('/')[0]}/{_NEW_NAME}"
        base, mapped = with_base(source), MappedSource(source, encode_lane_map({name: _NEW_NAME}))
        with source:
            keys, steps = [*expected, *expected], np.zeros((2 * len(expected), 1), np.int64)
            for attribute in ("fork_safe", "stays_open", "texts_are_columns"):
                assert getattr(mapped, attribute) == getattr(base, attribute), attribute
            for rows, key in zip(_or_each(mapped, new, keys, steps), keys, strict=True):
                assert np.array_equal(rows, expected[key].lanes()[name].data[:1])
            for key in expected:
                assert mapped.fingerprint(key) == base.fingerprint(key)
                assert mapped.length_of(key) == base.length_of(key) == expected[key].length
                assert mapped.statements(key) == base.statements(key)
                assert mapped.missing_files(key) == base.missing_files(key) == []
                assert np.array_equal(mapped.find_missing(key, new), base.find_missing(key, name))  # type: ignore[arg-type]
            assert all(mapped.is_current(key) == base.is_current(key) == base.stays_open for key in expected)


def _new_folder(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


def _shared_lane(episodes: Mapping[str, Episode]) -> str:
    first, *others = (ep.lanes() for ep in episodes.values())
    return next(name for name in first if all(name in lanes for lanes in others))


def _rename(ep: Episode, block: str) -> Episode:
    def renamed(lanes: Mapping[str, Channel], kind: str) -> dict[str, Channel]:
        names = {name: _NEW_NAME if f"{kind}/{name}" == block else name for name in lanes}
        return {new: Channel.of(new, lanes[old]) if new != old else lanes[old] for old, new in names.items()}

    return replace(ep, observations=renamed(ep.observations, "signal"), actions=renamed(ep.actions, "action"))


def _or_each(source: SourceBase, block: str, keys: list[str], steps: Array) -> list[Array]:
    """Return rows of a lane at once, or by episode where the format has no quicker way."""
    rows = source.take_rows(block, keys, steps)
    return [source.lane(key, block, 0, 1) for key in keys] if rows is None else list(rows)


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
            assert dict(reader.metadata) == without_arrays(expected.metadata)
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
                assert reader.stored(block).bytes == channel.data.nbytes
                frames = reader.encoded(block)
                assert frames is None or np.array_equal(frames.decode(3, 7), channel.data[3:7])
            assert all(name in reader for name in expected.observations)
            assert reader.has("reward") == (expected.rewards is not None)

    def test_it_loads_whole_or_in_part(self, tmp_path: Path) -> None:
        expected = self.expect(make_episode())
        name = next(iter(expected.observations))
        with self.open_reader(make_episode(), tmp_path) as reader:
            assert_same(reader.load(), expected)
            assert [*reader.load([name]).lanes()] == [f"signal/{name}"]
            texts = {name: data[16:36] for name, data in expected.blocks.items() if name.startswith(STEP_TEXTS)}
            part = replace(cut(replace(expected, residuals={}), 4, 9), timestep_range=[4, 8], blocks=texts)
            assert_same(reader.slice(4, 9), part)
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
            assert all(part.place.exists() for part in reader.parts())
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
        assert_same(episode, expected)
        for ask in (reader.load, lambda: reader.lane(name), lambda: reader.slice(0, 2), lambda: reader[name][:2]):
            with pytest.raises(ClosedError):
                ask()
