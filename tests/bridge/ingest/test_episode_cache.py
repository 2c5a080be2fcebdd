"""The stages of an ingest share what the first one read of new episodes."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from bridge_episodes import counts, episode, files, ingest, opened_archive, rewrite, save, spaces_of, vectors_of

from bridge.graph.neighbour_graph import LEAST_EPISODES
from bridge.ingest import ingestor
from bridge.search.moments.all_timesteps import TimestepStore
from bridge.search.moments.lane_rows import LaneRows
from bridge.support import episode_cache
from bridge.support.episode_cache import NO_CACHE, EpisodeCache
from bridge.support.progress import Silent
from wshard import Channel
from wshard.core.container.reader import ShardReader


@pytest.fixture
def folder(tmp_path):
    """Return a folder with so many episodes that searches are prepared; some have gaps, or end before they do."""
    made = [episode(number % 3, number, T=30 + number % 2) for number in range(LEAST_EPISODES)]
    for one, gap in zip(made, ((), (3, 4), (-2, -1), (0,)), strict=False):
        rows = np.array(one.observations["state"].data)
        rows[[*gap]] = np.nan
        one.observations["state"] = Channel.of("state", rows)
    save(tmp_path / "data", *made)
    return tmp_path / "data"


@pytest.fixture
def opened(monkeypatch):
    """Return how often each container was opened."""
    times, begin = Counter(), ShardReader.__init__

    def note(reader, source, *, damaged=False):
        times[str(source)] += 1
        begin(reader, source, damaged=damaged)

    monkeypatch.setattr(ShardReader, "__init__", note)
    return times


def test_a_new_episode_is_opened_once(tmp_path, folder, opened):
    report = ingest(tmp_path / "archive", folder, windows="both")
    assert counts(report, "flagged") == {"new": LEAST_EPISODES, "embedded": LEAST_EPISODES, "bridged": 2}
    assert opened == dict.fromkeys(map(str, files(folder)), 1)


def test_what_is_cached_and_what_is_read_again_have_the_same_vectors(tmp_path, folder, opened):
    ingest(tmp_path / "at once", folder, windows="both")
    ingest(tmp_path / "later", folder)
    opened.clear()
    ingest(tmp_path / "later", folder, windows="multi")
    assert opened == dict.fromkeys(map(str, files(folder)), 1)
    found, expected = vectors_of(tmp_path / "at once"), vectors_of(tmp_path / "later")
    assert found.keys() == expected.keys()
    for key, vectors in found.items():
        np.testing.assert_array_equal(vectors, expected[key])


def test_files_that_change_or_go_later_have_the_vectors_of_what_was_catalogued(tmp_path, folder):
    class Disturbed(Silent):
        def stage(self, what, total):
            if what == "embedding":
                rewrite(files(folder)[1], episode(0, 50, id="task-0-1"))

    ingest(tmp_path / "plain", folder)
    expected = vectors_of(tmp_path / "plain")
    assert ingest(tmp_path / "disturbed", folder, progress=Disturbed()).ok
    found = vectors_of(tmp_path / "disturbed")
    assert found.keys() == expected.keys()
    assert all(np.array_equal(vectors, expected[key]) for key, vectors in found.items())
    assert counts(ingest(tmp_path / "disturbed", folder), "flagged") == {
        "unchanged": LEAST_EPISODES - 1,
        "changed": 1,
        "embedded": 1,
    }


def test_another_process_has_one_of_its_own():
    there = """
import pickle, sys
first, again, none = (pickle.loads(bytes.fromhex(text)) for text in sys.argv[1:])
print(first is again, first.__dict__, none.__dict__)
"""
    sent = [pickle.dumps(one).hex() for one in (EpisodeCache(), EpisodeCache(), NO_CACHE)]
    printed = subprocess.run([sys.executable, "-c", there, *sent], check=True, capture_output=True, text=True).stdout
    assert printed == f"True {EpisodeCache().__dict__} {EpisodeCache(0).__dict__}\n"


def stored_timesteps(archive):
    """Return the bytes of each array of what is scanned for moments."""
    found = sorted((archive / "index").glob("**/timesteps-?.bin"))
    return {path.name: path.read_bytes() for path in found}


def test_timesteps_are_stored_as_they_were_embedded(tmp_path, folder, opened, monkeypatch):
    monkeypatch.setattr(episode_cache, "MOST_BYTES", 0)
    ingest(tmp_path / "once", folder, windows="both")
    assert {*opened.values()} == {3}  # read, sampled and embedded
    opened.clear()
    monkeypatch.setattr(ingestor, "ROOM", 1 << 10)
    ingest(tmp_path / "again", folder, windows="both")
    assert {*opened.values()} == {4}
    assert len(stored_timesteps(tmp_path / "once")) == 4
    assert stored_timesteps(tmp_path / "once") == stored_timesteps(tmp_path / "again")


def test_timesteps_of_an_episode_that_another_ingest_changed_are_read_anew(tmp_path, folder):
    class Disturbed(Silent):
        def stage(self, what, total):
            if what == "timesteps":
                rewrite(files(folder)[1], episode(0, 50, id="task-0-1"))
                ingest(tmp_path / "archive", files(folder)[1], windows="both")

    assert ingest(tmp_path / "archive", folder, windows="both", progress=Disturbed()).ok
    with opened_archive(tmp_path / "archive") as archive:
        rows = archive.catalog.episodes.rows(range(1, 1 + LEAST_EPISODES))
        (space,) = [space for space in spaces_of(tmp_path / "archive") if space.windows.scales]
        stored = TimestepStore(archive).load(space, space.scaling)
        read, stale = LaneRows().load(rows.values(), space, space.scaling)
        assert (len(read), stale, stored.absent) == (LEAST_EPISODES, set(), set())
        for id_, one in read.items():
            np.testing.assert_array_equal(stored.timesteps[id_].rows, one.rows)
