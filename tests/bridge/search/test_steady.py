"""Moments at speeds that an alignment of whole timesteps only comes near to."""

from __future__ import annotations

import numpy as np
import pytest

from bridge.search.moments.lane_rows import PreparedRows
from bridge.search.moments.refine import Moment
from bridge.search.moments.steady import steady
from embedders.trajectory.resample import resample
from wshard import Channel, Episode, TrajectoryIngestor, TrajectoryRetriever, save_wshard

STEPS = 44
QUERY = np.sin(np.linspace(0, 9, STEPS)[:, None] * [1.0, 1.7, 2.3] + [0, 1, 2])
WEIGHTS = np.full(QUERY.shape, 1 / 3)


def at_speed(rows, speed):
    return resample(rows, np.array([[0, len(rows)]]), round(len(rows) / speed))[0]


@pytest.mark.parametrize("speed", [2.2, 1.8, 1.3, 0.6])
@pytest.mark.parametrize("moved", [(0, 0), (2, -2), (-1, 2)])
def test_an_exact_copy_at_any_speed_costs_nothing_between_its_own_bounds(speed, moved):
    copy = at_speed(QUERY, speed)
    walk = np.random.default_rng(1).normal(size=(60, 3)).cumsum(axis=0)
    rows = np.concatenate([walk[:20], copy, walk[20:]])
    path = np.array([[0, 20 + moved[0]], [STEPS - 1, 19 + len(copy) + moved[1]]])
    moment = Moment(7, int(path[0, 1]), int(path[1, 1]) + 1, 0.5, path)
    (found,) = steady(PreparedRows(QUERY), WEIGHTS, [moment], {7: PreparedRows(rows)})
    assert (found.episode, found.start, found.stop) == (7, 20, 20 + len(copy))
    assert found.cost < 1e-6
    assert found.path[[0, -1]].tolist() == [[0, 20], [STEPS - 1, 19 + len(copy)]]
    assert (np.diff(found.path, axis=0) >= [0, 1]).all()


@pytest.mark.parametrize("place", [0, 1])
def test_bounds_stay_within_the_episode(place):
    copy = at_speed(QUERY, 2.2)
    rows = copy[:-1] if place else copy[1:]
    moment = Moment(7, 0, len(rows), 0.9, np.array([[0, 0], [STEPS - 1, len(rows) - 1]]))
    (found,) = steady(PreparedRows(QUERY), WEIGHTS, [moment], {7: PreparedRows(rows)})
    assert 0 <= found.start < found.stop <= len(rows)


def test_moments_that_are_no_nearer_and_those_of_the_speed_of_the_query_stay_as_they_are():
    rows = {7: PreparedRows(np.random.default_rng(2).normal(size=(90, 3)))}
    path = np.array([[0, 10], [STEPS - 1, 30]])
    given = [Moment(7, 10, 31, 1e-3, path), Moment(7, 10, 10 + STEPS, 9.0, path), Moment(7, 0, 31, 0.0, path)]
    assert [*map(id, steady(PreparedRows(QUERY), WEIGHTS, given, rows))] == [*map(id, given)]
    assert steady(PreparedRows(QUERY), WEIGHTS, [], rows) == []


def test_one_timestep_is_at_no_speed_and_many_moments_are_compared_in_parts(monkeypatch):
    walk = np.random.default_rng(3).normal(size=(90, 3)).cumsum(axis=0)
    path = np.array([[0, 10], [STEPS - 1, 30]])
    given = [Moment(7, 5, 6, 9.0, path), *(Moment(7, place, place + 20, 9.0, path) for place in range(0, 70, 7))]
    arguments = (PreparedRows(QUERY), WEIGHTS, given, {7: PreparedRows(walk)})
    found = steady(*arguments)
    assert found[0] is given[0]
    assert all(one.cost < 9.0 for one in found[1:])
    monkeypatch.setattr("bridge.search.moments.steady._NUMBERS", 1)
    assert [(one.start, one.stop, one.cost) for one in steady(*arguments)] == [
        (one.start, one.stop, one.cost) for one in found
    ]


def test_exact_copies_at_other_speeds_are_found_with_their_bounds_and_said_to_be_equal(tmp_path):
    episodes = [np.random.default_rng(number).normal(size=(100, 3)).cumsum(axis=0) for number in range(12)]
    query = episodes[5][30:74]
    copies = {number: at_speed(query, speed) for number, speed in enumerate((1.8, 2.0, 2.2))}
    for number, copy in copies.items():
        episodes[number][40 : 40 + len(copy)] = copy
    (tmp_path / "episodes").mkdir()
    for number, rows in enumerate(episodes):
        lanes = {"state": Channel.of("state", rows.astype(np.float32))}
        save_wshard(Episode(f"e{number}", length=100, observations=lanes), tmp_path / "episodes" / f"{number}.wshard")
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        ingestor.ingest(tmp_path / "episodes")
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        hits = retriever.search_moments(query.astype(np.float32), 4)
    assert {hit.episode_id: hit.span for hit in hits} == {
        "e5": (30, 74),
        **{f"e{number}": (40, 40 + len(copy)) for number, copy in copies.items()},
    }
    assert min(hit.score for hit in hits) > 0.999
