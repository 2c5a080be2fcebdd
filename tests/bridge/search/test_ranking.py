"""What ranking is made of, each against a slow literal reading: examples, expansion, scales, diversity, lanes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import Answer, Match, Request
from bridge.graph.block_weights import BlockWeights
from bridge.index.stored_rows import StoredRows
from bridge.search.query.options import SearchOptions
from bridge.search.ranking.episodes import split_by_lane
from bridge.search.ranking.fusion import Fusion, ViewFusion
from bridge.search.ranking.query_vector import QueryVector
from bridge.search.ranking.rankers import diversify, fuse_by_rank, select_diverse
from bridge.search.ranking.scores import (
    calibrate,
    combine_examples,
    combine_nearness,
    expand_query,
    fuse_scores,
    reciprocal_ranks,
)
from bridge.testing.brute_force import make_space
from catalog import EVERYTHING
from embedders import ArcDct, Blocks, Dct, LaneSpec, Mean, PooledCallable, Space, Statistics, Stats, WindowPlan
from embedders.base import shares_of
from wshard.errors import EmbedderError, QueryError

COSINES = st.floats(-1, 1)
EMBEDDERS = [
    Blocks(),
    ArcDct(),
    ArcDct(damping=0.0, level=0.6),
    Dct(),
    Stats(),
    Mean(),
]


def units(count: int, dim: int = 5, seed: int = 0):
    rows = np.random.default_rng(seed).normal(size=(count, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_examples_are_averaged_and_counter_examples_taken_away():
    like, unlike = units(3), units(2, seed=1)
    wanted = [sum(v[n] for v in like) / 3 - 0.5 * sum(v[n] for v in unlike) / 2 for n in range(5)]
    np.testing.assert_allclose(combine_examples(like, unlike), np.array(wanted) / math.hypot(*wanted), atol=1e-6)
    assert np.array_equal(combine_examples(like[:1], unlike[:0]), like[0])
    with pytest.raises(QueryError, match="the examples cancel out"):
        combine_examples(np.stack([like[0], -like[0]]), unlike[:0])


def test_a_query_grows_by_its_hits_times_a_power_of_their_similarity():
    query, hits = units(1)[0], units(3, seed=2)
    similarities = np.array([0.9, 0.5, -0.2])
    wanted = [0.25 * query[n] + 0.9**3 * hits[0][n] + 0.5**3 * hits[1][n] for n in range(5)]
    found = expand_query(query, hits, similarities, own=0.25, power=3)
    np.testing.assert_allclose(found, np.array(wanted) / math.hypot(*wanted), atol=1e-6)
    np.testing.assert_allclose(expand_query(query, hits[:0], similarities[:0], own=0.25, power=3), query, atol=1e-6)
    assert np.array_equal(expand_query(query, -query[None], np.array([1.0]), own=1.0, power=3), query)


@given(st.lists(COSINES, min_size=1, max_size=8), st.floats(-1, 0.99))
def test_the_calibrated_scale_keeps_the_order_and_has_1_and_0_where_it_says(cosines, background):
    found = calibrate(np.array([*cosines, 1.0, background]), background)
    assert found[-2] == 1.0
    assert found[-1] == pytest.approx(0.0, abs=1e-9)
    ordered = found[np.argsort([*cosines, 1.0, background], kind="stable")]
    assert (np.diff(ordered) >= 0).all()


def test_an_archive_of_copies_still_has_scores():
    assert calibrate(np.array([1.0, 0.5]), 1.0).tolist() == [1.0, -499.0]


@given(COSINES, COSINES, COSINES)
def test_a_score_is_1_for_what_is_near_1_and_else_below(near, grown, part):
    values = (np.array([value]) for value in (near, grown, part))
    score = fuse_scores(*values)[0]
    assert score <= 1
    assert fuse_scores(np.array([1.0]), np.array([grown]), np.array([part]))[0] == 1.0
    assert (score == 1.0) == (near == 1.0 or (grown + 0.5 * part) / 1.5 == 1.0)
    assert combine_nearness(np.array([near]), np.array([part]), np.ones(1))[0] == max(near, part)


def test_reciprocal_ranks_reward_what_several_lists_agree_on():
    found = reciprocal_ranks([[3, 1, 2], [1, 4]])
    assert found == pytest.approx({3: 0.5, 1: 0.5 * 61 / 62 + 0.5, 2: 0.5 * 61 / 63, 4: 0.5 * 61 / 62})
    assert reciprocal_ranks([[7, 8], [7, 9]])[7] == 1.0


@given(st.integers(0, 9), st.integers(1, 8), st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]), st.integers(0, 50))
def test_diverse_hits_are_those_of_a_slow_greedy_choice(count, among, diversity, seed):
    vectors, scores = units(among, seed=seed), np.random.default_rng(seed).uniform(size=among)
    left, chosen = list(range(among)), []
    while left and len(chosen) < count:

        def value(n):
            alike = max(float(vectors[n].astype(float) @ vectors[m].astype(float)) for m in chosen)
            return (1 - diversity) * scores[n] - diversity * alike

        best = max(left, key=value) if chosen else max(left, key=lambda n: scores[n])
        chosen.append(best)
        left.remove(best)
    assert select_diverse(scores, vectors, count, diversity=diversity)[0] == chosen
    if diversity == 0:
        assert chosen == sorted(range(among), key=lambda n: -scores[n])[:count]


@pytest.mark.parametrize("proven", [(True, True), (True, False), (False, False)])
def test_fused_lists_are_exact_if_each_list_is(proven):
    orders = [[int(id_) for id_ in np.random.default_rng(seed).permutation(40)] for seed in range(2)]

    def ranker(order, exact):
        return lambda request: Answer(
            tuple(Match(id_, 0, 1.0 - place / 40) for place, id_ in enumerate(order[: request.top_k])), exact, 40
        )

    rank = fuse_by_rank([ranker(*pair) for pair in zip(orders, proven, strict=True)], reach=lambda _: 12)
    answer, scores = rank(Request(3, EVERYTHING)), reciprocal_ranks([order[:12] for order in orders])
    assert [match.episode for match in answer.matches] == sorted(scores, key=lambda n: (-scores[n], n))[:3]
    assert answer.exact == all(proven)


def test_of_hits_that_are_equally_diverse_the_better_one_comes_first():
    vectors = units(30, seed=4)  # the first is the query: what the others score is how much they are like it
    scores = (vectors.astype(np.float64) @ vectors[0]).round(12)
    best = int(np.argsort(scores)[-2])
    assert select_diverse(scores, vectors, 2, diversity=0.5)[0] == [0, best]


def test_equal_hits_are_put_back():
    vectors = units(2)[[0, 0, 0, 1]]
    assert select_diverse(np.array([0.9, 0.89, 0.88, 0.3]), vectors, 4, diversity=0.6)[0] == [0, 3, 1, 2]


class Rows:
    """Stored vectors of episodes of one vector each."""

    def __init__(self, vectors) -> None:
        self.rows = vectors

    def load(self, space, episodes):
        return StoredRows.of({id_: self.rows[id_][None] for id_ in episodes}, space.dim)


class Vectors:
    """An index and stored vectors of one vector per episode in several Spaces: {space: {episode: vector}}."""

    def __init__(self, stored) -> None:
        self.stored = {space.fingerprint: vectors for space, vectors in stored.items()}

    def search(self, space, vector, request):
        cosines = {id_: float(row.astype(float) @ vector) for id_, row in self.stored[space.fingerprint].items()}
        order = sorted(cosines, key=lambda id_: (-cosines[id_], id_))[: request.top_k]
        return Answer(tuple(Match(id_, 0, cosines[id_]) for id_ in order), True, len(cosines))

    def load(self, space, episodes):
        stored = self.stored[space.fingerprint]
        return StoredRows.of({id_: stored[id_][None] for id_ in episodes if id_ in stored}, space.dim)

    def background(self, query):
        return float(np.mean([row @ query.vector for row in self.stored[query.space.fingerprint].values()]))


@pytest.mark.parametrize("expand", [0, 4])
def test_the_score_of_views_together_is_their_mean(expand, monkeypatch):
    monkeypatch.setattr("bridge.search.ranking.fusion.depth", lambda top_k: max(12, top_k + 1))
    left, right = make_space("left", 5), make_space("right", 5)
    for seed in range(12):
        rows, others = units(500, seed=seed), units(500, seed=1000 + seed)
        near = rows + (0.02, 0.5, 5.0)[seed % 3] * others  # views that agree, and views that do not
        near = (near / np.linalg.norm(near, axis=1, keepdims=True)).astype(np.float32)
        seen = {id_: near[id_] for id_ in range(500) if seed % 2 or id_ % 3}  # not of all episodes
        there = Vectors({left: dict(enumerate(rows)), right: seen})
        queries = zip((left, right), (rows[1], near[1]), strict=True)
        aims = [QueryVector(space, query, np.zeros((0, 5), np.float32), BlockWeights()) for space, query in queries]
        rank = ViewFusion([Fusion(there, there, aim, None, expand) for aim in aims])
        few, everything = rank(Request(3, EVERYTHING)), rank(Request(500, EVERYTHING))
        assert (everything.exact, len(everything.matches), few.exact, len(few.matches)) == (True, 500, True, 3)
        if expand == 0:
            views = [(there.stored[aim.space.fingerprint], aim, there.background(aim)) for aim in aims]
            for match in (*few.matches, *everything.matches):
                scores = [
                    1 - (1 - stored[match.episode].astype(float) @ aim.vector) / (1 - background)
                    for stored, aim, background in views
                    if match.episode in stored
                ]
                assert match.score == pytest.approx(np.mean(scores), abs=1e-6)


@pytest.mark.parametrize("count", [90, 300])
def test_diverse_hits_are_called_exact_only_where_no_other_could_have_been_chosen(count):
    space, proven = make_space(), 0
    for seed, diversity in enumerate([0.0, 0.02, 0.1, 0.3, 0.7, 1.0] * 3):
        vectors, query = units(count, seed=seed, dim=space.dim), units(1, seed=99, dim=space.dim)[0]
        scores = vectors.astype(float) @ query
        order = np.argsort(-scores)
        all_of_them = [Match(int(id_), 0, float(scores[id_])) for id_ in order]
        rank = diversify(
            lambda request, found=all_of_them: Answer(tuple(found[: request.top_k]), True, len(found)),
            Rows(vectors),
            [space],
            diversity,
        )
        answer = rank(Request(4, EVERYTHING))
        if answer.exact:
            proven += 1
            slow, _ = select_diverse(scores[order], vectors[order], 4, diversity=diversity)
            assert [match.episode for match in answer.matches] == order[slow].tolist()
    assert proven == 18 if count <= 100 else 3 <= proven < 15


@pytest.mark.parametrize("embedder", EMBEDDERS, ids=str)
def test_what_lanes_add_is_the_cosine(embedder):
    lanes = (LaneSpec("signal/pose", (3,)), LaneSpec("signal/grip", ()), LaneSpec("reward", ()))
    rng = np.random.default_rng(1)
    statistics = Statistics(100, np.zeros(5), np.ones(5)) if embedder.uses_statistics else None
    space = Space(
        embedder.name,
        embedder.version,
        embedder.parameters(),
        lanes,
        WindowPlan(),
        embedder.dim(5),
        "cosine",
        statistics,
    )
    one, two = embedder.embed([rng.normal(size=(20, 5)).cumsum(axis=0) for _ in range(2)], statistics)
    parts = split_by_lane(embedder, space, one, two)
    assert [*parts] == ["signal/pose", "signal/grip", "reward"]
    assert sum(parts.values()) == pytest.approx(float(one @ two), abs=1e-6)
    own = split_by_lane(embedder, space, one, one)
    assert all(part >= 0 for part in own.values())


@pytest.mark.parametrize("embedder", EMBEDDERS, ids=str)
def test_shares_say_which_values_a_channel_can_change(embedder):
    shares = shares_of(embedder, 5)
    assert shares.shape == (embedder.dim(5), 5)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    if embedder.name == "blocks":
        return  # every channel spans the path
    rows = np.random.default_rng(2).normal(size=(20, 5)).cumsum(axis=0)
    changed = rows.copy()
    changed[:, 4] += np.linspace(1, 2, 20) ** 2  # not one of the three that span the path
    if embedder.name == "mean":
        one, two = rows.mean(axis=0), changed.mean(axis=0)
    else:
        one, two = embedder.describe([rows, changed])
    assert np.array_equal(~np.isclose(one, two), shares[:, 4] > 0)


def test_an_embedder_that_mixes_channels_has_no_contributions():
    def swap(mean):
        return mean[::-1]

    embedder = PooledCallable(swap)
    space = Space("swap", 1, {}, (LaneSpec("reward", ()),), WindowPlan(), 1, "cosine", None)
    assert split_by_lane(embedder, space, np.ones(1, np.float32), np.ones(1, np.float32)) == {}


def test_the_level_scales_the_mean_along_the_path_and_older_spaces_keep_their_names():
    rows = np.random.default_rng(3).normal(size=(40, 3)).cumsum(axis=0)
    plain, low = ArcDct().describe([rows])[0], ArcDct(level=0.6).describe([rows])[0]
    np.testing.assert_allclose(low[:3], 0.6 * plain[:3])
    assert np.array_equal(low[3:], plain[3:])
    assert "level" not in ArcDct().parameters()
    assert ArcDct(level=0.6).parameters()["level"] == 0.6
    with pytest.raises(EmbedderError, match=r"expected damping >= 0, epsilon > 0, level >= 0, found .* and -1.0"):
        ArcDct(level=-1)


def test_options_that_cannot_be_are_refused():
    for wrong, message in (
        ({"expand": -1}, "expand: expected at least 0, found -1"),
        ({"diversity": 1.1}, "diversity: expected a number from 0 to 1"),
        ({"min_score": math.nan}, "min_score: expected a finite number"),
        ({"least": True, "text": "door", "expand": 3}, "least: .* together with text and expand"),
    ):
        with pytest.raises(QueryError, match=message):
            SearchOptions(**wrong)
