"""What every Source and Sink must do, as test classes: a format's tests subclass them and fill in the fixtures.

Knows: the promises of formats/base.py. Does not know: any format. pytest collects the subclasses.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from wshard.errors import EntryNotFoundError, EpisodeError
from wshard.formats.base import Sink, Source
from wshard.testing import assert_same_episode, make_episode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wshard.types import Episode


def _assert_same(found: Episode, expected: Episode) -> None:
    """Compare episodes; arrays in the metadata count as lists, which is what files make of them."""
    assert_same_episode(*(replace(ep, metadata=_listed(ep.metadata)) for ep in (found, expected)))


def _listed(metadata: Mapping[str, Any]) -> dict[str, Any]:
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

    def test_an_unknown_key_is_told(self, tmp_path: Path) -> None:
        source, _ = self.make(tmp_path)
        with source, pytest.raises(EntryNotFoundError):
            source.load("no such episode")

    def test_loaded_arrays_outlive_the_source(self, tmp_path: Path) -> None:
        source, expected = self.make(tmp_path)
        with source:
            loaded = {key: source.load(key) for key in expected}
        source.close()
        for key, episode in loaded.items():
            _assert_same(episode, expected[key])


class SinkContract:
    """Subclass and define `open_sink` and `open_source` of one location; `held` says what of an episode is kept."""

    suffix = ""

    def open_sink(self, location: Path) -> Sink:
        """Return a Sink of a file with the suffix, or of an existing folder."""
        raise NotImplementedError

    def open_source(self, location: Path) -> Source:
        """Return a Source of what the Sink wrote."""
        raise NotImplementedError

    def held(self, ep: Episode) -> Episode:
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
            _assert_same(replace(source.load(key), id=ep.id), self.held(ep))

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
                _assert_same(replace(source.load(key), id=ep.id), self.held(ep))
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
