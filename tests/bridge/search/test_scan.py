"""Short moments, and those at another speed: the scan against brute force, and from files to hits."""

from __future__ import annotations

import numpy as np
import pytest
from plays import stored

from bridge.search.moments import all_timesteps
from bridge.search.moments import search as moment_search
from bridge.search.moments.lane_rows import PreparedRows
from bridge.search.moments.overlap import overlap
from bridge.search.moments.scan import Timesteps, pace
from embedders.windows import SCALES, WindowPlan
from wshard import Channel, Episode, TrajectoryRetriever

EPISODES = {number: np.random.default_rng(number).normal(size=(60 + number, 5)).cumsum(axis=0) for number in range(12)}
SPAN = EPISODES[3][20:60]


def faster(rows, speed):
    places = np.linspace(0, len(rows) - 1, round(len(rows) / speed))
    return np.stack([np.interp(places, np.arange(len(rows)), column) for column in rows.T], axis=1)


def planted(number, rows, start):
    changed = EPISODES[number].copy()
    changed[start : start + len(rows)] = rows + 0.1 * np.random.default_rng(number).normal(size=rows.shape)
    return changed


MOMENTS = {5: planted(5, SPAN[:8], 31), 6: planted(6, SPAN[:8], 7), 7: planted(7, faster(SPAN, 2.5), 17)}


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    place = tmp_path_factory.mktemp("walks")
    rows = {**EPISODES, **MOMENTS}
    lanes = {number: {"state": Channel.of("state", one.astype(np.float32))} for number, one in rows.items()}
    episodes = [Episode(str(number), "walk", len(rows[number]), observations=one) for number, one in lanes.items()]
    stored(place, episodes, plan=WindowPlan(scales=SCALES))
    return place


@pytest.mark.parametrize("steps", [5, 7, 8, 20, 31])
def test_the_nearest_span_is_that_of_all_with_the_least_distance_between_blocks(steps):
    timesteps = Timesteps.of({number: PreparedRows(rows) for number, rows in EPISODES.items()})
    query = EPISODES[4][11 : 11 + steps] + np.random.default_rng(steps).normal(size=(steps, 5)) / 2
    found = timesteps.scan(pace(query)[:1], 10).same
    last = (steps - 5) // 2
    count = min(4, steps // 4, last + 1)
    all_costs = {}
    for number, rows in EPISODES.items():
        for start in range(len(rows) - steps + 1):
            places = start % 2 + 2 * np.round(np.linspace(0, last, count)).astype(int)
            pairs = [(rows[start + at : start + at + 4].mean(axis=0), query[at : at + 4].mean(axis=0)) for at in places]
            all_costs[number, start] = float(np.mean([(one - other) ** 2 for one, other in pairs]))
    assert (found.episodes[0], found.spans[0, 0]) == min(all_costs, key=all_costs.__getitem__)
    one = timesteps.scan(pace(query)[:1], 1).same  # most blocks are not compared
    assert (one.episodes[0], one.spans[0, 0]) == (found.episodes[0], found.spans[0, 0])
    costs = [all_costs[key] for key in zip(found.episodes.tolist(), found.spans[:, 0].tolist(), strict=True)]
    assert costs == sorted(costs)
    assert (found.spans[:, 1] - found.spans[:, 0] == steps).all()


@pytest.mark.parametrize("steps", [8, 11, 33, 48])
def test_a_copy_is_nearest_wherever_it_begins_and_with_an_offset(steps):
    timesteps = Timesteps.of({number: PreparedRows(rows) for number, rows in EPISODES.items()})
    for start in (0, 1, 2, 3, 7, 66 - steps):
        scanned = timesteps.scan(pace(EPISODES[6][start : start + steps])[:1], 5)
        for nearest in (scanned.same, scanned.equal):
            assert (nearest.episodes[0], nearest.spans[0].tolist()) == (6, [start, start + steps])
        if steps > 11:  # of fewer only some starts are met
            shifted = timesteps.scan(pace(EPISODES[6][start : start + steps] + 3.0)[:1], 5).shifted
            assert (shifted.episodes[0], shifted.spans[0, 0]) == (6, start)


def test_episodes_that_are_not_allowed_or_too_short_are_not_scanned():
    timesteps = Timesteps.of(
        {number: PreparedRows(rows) for number, rows in {**EPISODES, 99: SPAN[:3], 98: SPAN[:9]}.items()}
    )
    scanned = timesteps.scan(pace(SPAN[:10]), 50, allowed=np.array([2, 98, 99]))
    for nearest in (scanned.same, scanned.shifted, scanned.equal, *scanned.others):
        assert {*nearest.episodes.tolist()} <= ({2, 98} if len(nearest.query.rows) < 10 else {2})
    everything = timesteps.scan(pace(SPAN[:10]), 50).same
    assert everything.episodes[0] == 3
    assert not {98, 99} & {*everything.episodes.tolist()}


def test_moments_of_eight_timesteps_with_noise_are_found_though_windows_are_longer(archive):
    with TrajectoryRetriever(archive) as retriever:
        hits = retriever.search_moments(SPAN[:8].astype(np.float32), 3)
        only = retriever.search_moments(SPAN[:8].astype(np.float32), 1, where="episode_id:6")
    assert {(hit.episode_id, hit.span) for hit in hits} == {("3", (20, 28)), ("5", (31, 39)), ("6", (7, 15))}
    assert hits[0].episode_id == "3"
    assert [(hit.episode_id, hit.span) for hit in only] == [("6", (7, 15))]


def test_a_moment_that_is_two_and_a_half_times_as_fast_is_found_with_its_path_in_steps_of_the_query(archive):
    with TrajectoryRetriever(archive) as retriever:
        fast = next(hit for hit in retriever.search_moments(SPAN.astype(np.float32), 3) if hit.episode_id == "7")
    assert overlap(np.array([[17, 33]]), fast.span)[0] > 0.8
    path = np.array(fast.alignment)
    assert (path[0, 0], path[-1, 0]) == (0, len(SPAN) - 1)
    assert (np.diff(path, axis=0) >= 0).all()
    assert (path[0, 1], path[-1, 1]) == (fast.span[0], fast.span[1] - 1)
    np.testing.assert_allclose(np.polyfit(path[:, 1], path[:, 0], 1)[0], 2.5, atol=0.3)


def test_a_file_that_is_gone_and_is_there_again_is_left_out_and_found_again(archive):
    with TrajectoryRetriever(archive) as retriever:
        file = archive / "episodes" / "6.wshard"
        query = SPAN[:8].astype(np.float32)
        assert "6" in {hit.episode_id for hit in retriever.search_moments(query, 3)}
        away = file.rename(file.with_suffix(".away"))
        without = retriever.search_moments(query, 3)
        away.rename(file)
        assert "6" not in {hit.episode_id for hit in without}
        assert without.missing == 1
        assert "6" in {hit.episode_id for hit in retriever.search_moments(query, 3)}


def search(archive, count=4):
    with TrajectoryRetriever(archive) as retriever:
        return retriever.search_moments(SPAN[:8].astype(np.float32), count)


def test_timesteps_are_read_once_and_again_where_what_is_stored_is_damaged(tmp_path, monkeypatch):
    read, load = [], all_timesteps.LaneRows.load

    def count(self, rows, space, scaling):
        rows = [*rows]
        read.extend(int(row.episode_id) for row in rows)
        return load(self, rows, space, scaling)

    lanes = {number: {"state": Channel.of("state", one.astype(np.float32))} for number, one in EPISODES.items()}
    episodes = [Episode(str(number), "walk", len(EPISODES[number]), observations=one) for number, one in lanes.items()]
    stored(tmp_path, episodes[:-1], plan=WindowPlan(scales=SCALES))
    first = search(tmp_path)
    (path,) = tmp_path.rglob("timesteps.bin")
    monkeypatch.setattr(all_timesteps.LaneRows, "load", count)
    assert search(tmp_path) == first
    assert {*read} == {int(hit.episode_id) for hit in first}
    for content in (path.read_bytes()[:-9], b""):
        path.write_bytes(content)
        read.clear()
        assert search(tmp_path) == first
        assert {*read} == {*range(11)}
    stored(tmp_path, episodes[-1:], plan=WindowPlan(scales=SCALES))
    read.clear()
    assert search(tmp_path, 1) == first[:1]
    assert 11 in read


def test_an_ingest_of_many_episodes_stores_their_timesteps(tmp_path):
    rows = {number: np.random.default_rng(number).normal(size=(20, 5)).astype(np.float32) for number in range(40)}
    lanes = {number: {"state": Channel.of("state", one)} for number, one in rows.items()}
    episodes = [Episode(str(number), "walk", 20, observations=one) for number, one in lanes.items()]
    stored(tmp_path, episodes, plan=WindowPlan(scales=SCALES))
    (path,) = tmp_path.rglob("timesteps.bin")
    content = path.read_bytes()
    with TrajectoryRetriever(tmp_path) as retriever:
        best = retriever.search_moments(rows[7][3:15], 1)[0]
    assert (best.episode_id, best.span, best.score) == ("7", (3, 15), 1.0)
    assert path.read_bytes() == content


def test_an_archive_too_large_to_be_scanned_says_that_not_all_was_compared(archive, monkeypatch):
    assert not search(archive).answered.notes
    monkeypatch.setattr(all_timesteps, "STORED", 0)
    monkeypatch.setattr(moment_search, "_EPISODES", 5)
    hits = search(archive)
    assert hits.answered.notes == (moment_search.NOT_ALL,)
    assert not hits.exact
