"""The rows of pairs: the same however many are read together, each episode and location once while memory has room."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from bridge_episodes import episode, ingest, opened_archive, save

from bridge.curation import pair_rows
from bridge.curation.archive_vectors import find_whole_spaces
from bridge.episodes import open as opening
from wshard.formats.base import open_sink

EPISODES = 12


@pytest.fixture(scope="module", params=["wshard", "lerobot"])
def home(request, tmp_path_factory):
    """Make an archive of files, or of a location of several episodes."""
    folder = tmp_path_factory.mktemp("pairs")
    episodes = [episode(0, number, T=40 + number) for number in range(EPISODES)]
    if request.param == "wshard":
        save(folder / "data", *episodes)
    else:
        with open_sink(folder / "data", request.param) as sink:
            for one in episodes:
                sink.write(one)
    ingest(folder / "archive", folder / "data")
    return folder / "archive"


def read_all(home):
    """Return all pairs of episodes, and the rows of each."""
    with opened_archive(home) as archive:
        (space,), rows = find_whole_spaces(archive), archive.catalog.query.select(limit=EPISODES).rows
        pairs = [*combinations(rows, 2)]
        return pairs, [*pair_rows.read_pairs(archive, space, pairs)]


@pytest.mark.parametrize(("most", "together", "readings"), [(1 << 25, 1, 1), (600, 2048, 11), (1, 1, 11)])
def test_rows_are_the_same_however_many_are_read_together(home, monkeypatch, most, together, readings):
    pairs, expected = read_all(home)
    assert [len(rows) for both in expected for rows in both] == [row.length for pair in pairs for row in pair]
    read, episodes, locations = pair_rows._read, [], []
    monkeypatch.setattr(pair_rows, "_MOST", most)
    monkeypatch.setattr(pair_rows, "_TOGETHER", together)
    monkeypatch.setattr(pair_rows, "_read", lambda row, *rest: (episodes.append(row.id), read(row, *rest))[1])
    open_location = opening.open_location
    monkeypatch.setattr(opening, "open_location", lambda *place: (locations.append(place), open_location(*place))[1])
    _, found = read_all(home)
    for both, others in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.concatenate(both), np.concatenate(others))
    assert max(map(episodes.count, episodes)) <= readings
    assert len(locations) <= 1
