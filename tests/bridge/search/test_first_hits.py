"""Episodes of one channel: the first ten hits in the order of a scan that aligns them by loops."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from bridge_episodes import spaces_of

from bridge.search.ranking.first_hits import ALIGNED_SHARE, FIRST, measure_distances
from embedders.registry import default_embedder
from wshard import Channel, Episode, TrajectoryIngestor, TrajectoryRetriever, save_wshard

COUNT = 16


def curve(number):
    """Return a series of one channel [T, 1]: a bump whose place and height vary."""
    rng = np.random.default_rng(number)
    at = np.linspace(0, 1, 60 + 3 * number)
    bump = rng.uniform(0.5, 1.5) * np.exp(-(((at - rng.uniform(0.3, 0.7)) / 0.1) ** 2))
    return (bump + rng.normal(0, 0.05, len(at)))[:, None].astype(np.float32)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    place = tmp_path_factory.mktemp("series")
    for number in range(COUNT):
        lane = Channel.of("value", curve(number))
        save_wshard(
            Episode(str(number), "series", len(lane.data), observations={"value": lane}), place / f"{number}.wshard"
        )
    with TrajectoryIngestor(place / "archive") as ingestor:
        assert ingestor.ingest(place).embedded == COUNT
    return place / "archive"


def slow_distance(query, rows):
    """Return the root mean square along the path of the lowest sum of distances, each times what it advances."""
    costs = {(-1, -1): (0.0, ())}
    for i, requested in enumerate(query):
        for j, row in enumerate(rows):
            apart = math.dist(requested, row)
            before = [((i - 1, j - 1), 2), ((i - 1, j), 1), ((i, j - 1), 1)]
            sums = [(costs[one][0] + times * apart, one) for one, times in before if one in costs]
            cost, one = min(sums)
            costs[i, j] = cost, (costs[one][1], apart)
        costs.pop((-1, -1), None)
    apart, node = [], costs[len(query) - 1, len(rows) - 1][1]
    while node:
        node, one = node
        apart.append(one)
    return math.sqrt(math.fsum(one**2 for one in apart) / len(apart))


def test_distances_are_those_of_loops_and_none_where_only_the_speed_differs():
    query = curve(3)[:40].astype(float)
    others = [curve(number)[: 30 + number].astype(float) for number in range(4, 8)]
    assert measure_distances(query, others) == pytest.approx([slow_distance(query, rows) for rows in others], rel=1e-6)
    slower = np.repeat(query, 2, axis=0)
    assert measure_distances(query, [slower, np.concatenate([slower, query[:1] + 1])])[0] == 0
    assert measure_distances(query, [np.concatenate([query, query[-1:] + 1])])[0] > 0


def test_the_first_ten_are_in_the_order_of_a_scan(archive):
    whole = next(space for space in spaces_of(archive) if space.windows.whole)
    embedder, scaling = default_embedder(whole.windows), whole.scaling
    query = curve(99)[::4]
    vector = embedder.embed([query], scaling)[0]
    cosines = embedder.embed([curve(number) for number in range(COUNT)], scaling).astype(float) @ vector
    near = 1 - (1 - cosines) / (1 - cosines.mean())
    order = np.argsort(-near)
    standard = [(curve(one).astype(float) - scaling.mean) / scaling.std for one in order[:FIRST]]
    requested = (query.astype(float) - scaling.mean) / scaling.std
    apart = np.array([slow_distance(requested, rows) for rows in standard])
    key = (1 - ALIGNED_SHARE) * near[order[:FIRST]] + ALIGNED_SHARE * (1 - apart / apart.mean())
    expected = [*order[:FIRST][np.argsort(-key)], *order[FIRST:]]
    assert expected != order.tolist()
    with TrajectoryRetriever(archive) as retriever:
        hits = retriever.search_similar_episodes(query, COUNT, expand=0)
        first = retriever.search_similar_episodes(query, 1, expand=0)[0]
    assert [int(hit.episode_id) for hit in hits] == expected
    assert [hit.score for hit in hits] == pytest.approx(np.sort(near)[::-1], abs=1e-5)
    assert (first.episode_id, first.score) == (hits[0].episode_id, hits[0].score)


def test_an_episode_and_one_that_contains_the_query_come_first(archive):
    with TrajectoryRetriever(archive) as retriever:
        assert retriever.search_similar_episodes(curve(5), 3)[0].episode_id == "5"
        spans = default_windows(archive)
        hit = retriever.search_similar_episodes(curve(7)[spans], 1)[0]
    assert (hit.episode_id, hit.score) == ("7", pytest.approx(1.0))


def default_windows(archive):
    """Return the longest window of episode 7 that is not all of it."""
    plan = next(space.windows for space in spaces_of(archive) if not space.windows.whole)
    sizes = [(stop - start, start, stop) for start, stop in plan.spans(len(curve(7))).tolist()]
    _, start, stop = max(one for one in sizes if one[0] < len(curve(7)))
    return slice(start, stop)


def test_hits_whose_files_are_gone_make_room(archive):
    with TrajectoryRetriever(archive) as retriever:
        query = curve(99)[::4]
        before = retriever.search_similar_episodes(query, 5)
        path = Path(before[1].address.uri)
        away = path.rename(path.with_suffix(".away"))
        after = retriever.search_similar_episodes(query, 5)
        away.rename(path)
    assert before[1].episode_id not in {hit.episode_id for hit in after}
    assert (len(after), after.missing) == (5, 1)
