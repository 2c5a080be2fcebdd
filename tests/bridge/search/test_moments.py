"""Moments: from files to spans with exact bounds, scores, alignments; forms of queries, filters, what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import app
from hypothesis import given
from hypothesis import strategies as st
from plays import PLAN, episode_of, labels, name_of, play, run, stored
from typer.testing import CliRunner

from bridge import without_overlaps
from bridge.alignment import align, numpy_kernel
from bridge.alignment import spans as align_spans
from bridge.search.moments import all_timesteps
from bridge.search.moments import refine as moments
from bridge.search.moments import search as moment_search
from bridge.search.moments.lane_rows import LaneRows, prepare_rows
from bridge.search.moments.narrow import narrow
from bridge.search.moments.overlap import MomentLimits, overlap, suppress
from bridge.search.moments.refine import Windows, choose, refine
from catalog.filters.parse import as_where
from catalog.query import pages, sorted_ids
from embedders import Blocks, Statistics, WindowPlan
from wshard import (
    Channel,
    Episode,
    EpisodeRef,
    TrajectoryIngestor,
    TrajectoryRetriever,
    load_wshard,
    save_wshard,
)
from wshard.errors import EntryNotFoundError, QueryError, StaleEpisodeError, StepError


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    place = tmp_path_factory.mktemp("plays")
    stored(place, map(episode_of, range(12)))
    return place


@pytest.fixture(scope="module")
def retriever(archive):
    with TrajectoryRetriever(archive) as opened:
        yield opened


# ---- what is found --------------------------------------------------------------------------------------------------


@given(number=st.integers(0, 11), start=st.integers(0, 60), length=st.integers(12, 40))
def test_any_span_finds_itself_first_with_score_1_and_its_own_bounds(archive, retriever, number, start, length):
    del archive
    rows, _ = play(number)
    stop = min(start + length, len(rows))
    hit = retriever.search_moments(rows[start:stop], 3)[0]
    assert (hit.episode_id, hit.span, hit.score) == (f"play-{number}", (start, stop), 1.0)
    assert hit.alignment == tuple((step, start + step) for step in range(stop - start))
    assert set(hit.lane_scores.values()) == {1.0}


def test_every_act_finds_its_like_in_the_other_episodes_with_their_bounds(retriever):
    right, apart = 0, []
    for name, start, stop in play(0)[1]:
        query = play(0)[0][start:stop]
        hits = retriever.search_moments(query, 10, exclude_self=False, per_episode=1)
        assert len(hits) == 10
        for hit in hits[1:]:
            found, share = labels(hit)
            right += found == name and share >= 0.5
            apart.append(1 - share)
    assert right >= 34
    assert np.median(apart) < 0.2


def test_slower_halting_and_thinned_out_performances_find_their_like(retriever):
    name, start, stop = play(3)[1][1]
    rows = play(3)[0][start:stop]
    slow = retriever.search_moments(np.repeat(rows, 3, axis=0), 1)[0]
    assert (slow.episode_id, slow.span, slow.score) == ("play-3", (start, stop), 1.0)
    halting = np.concatenate([rows[:10], np.repeat(rows[10:11], 15, axis=0), rows[10:]])
    own = next(hit for hit in retriever.search_moments(halting, 3) if hit.episode_id == "play-3")
    assert overlap(np.array([[start, stop]]), own.span)[0] > 0.9
    for query in (halting, rows[::2]):
        assert {labels(hit)[0] for hit in retriever.search_moments(query, 5)} == {name}


def errands(number):
    """Return lanes [T, 3] of errands from one random place to another by way of A or B, near each other, and spans."""
    rng = np.random.default_rng(number)
    rows, spans, here = [np.zeros((1, 3))], [], np.zeros(3)
    for target in rng.permutation([0.3, -0.3, 0.3, -0.3]).tolist():
        aim, there = np.array([target, 1.0, -1.0]), rng.uniform(-2, 2, 3)
        steps = rng.integers(10, 16, 3)
        way = [np.linspace(here, aim, steps[0]), np.repeat(aim[None], 6, axis=0), np.linspace(aim, there, steps[2])]
        start = sum(map(len, rows))
        rows, here = [*rows, np.concatenate(way) + 0.02 * rng.normal(size=(sum(map(len, way)), 3))], there
        spans.append((target, start, start + len(rows[-1])))
    return np.concatenate(rows), spans


def alike(query, others):
    """Return, of the ten best of all errands as candidates a few steps off, which lead to the same place."""
    scaling = Statistics(1, np.zeros(3), np.ones(3))
    stored = dict(zip(others, prepare_rows([rows for rows, _ in others.values()], scaling), strict=True))
    found = [(number, *span) for number, (_, spans) in others.items() for span in spans]
    windows = np.array([(max(0, start - 3), stop - 2) for _, _, start, stop in found])
    number, (target, start, stop) = query
    (requested,) = prepare_rows([errands(number)[0][start:stop]], scaling)
    episodes = np.array([episode for episode, *_ in found])
    limits = MomentLimits(10, 0.3, None)
    given = Windows(episodes, windows, np.zeros(len(episodes), np.bool_))
    hits = choose(refine(requested, given, stored, limits)[0], limits, 0)
    best = [max((overlap(np.array([span]), (one.start, one.stop))[0], aim)
                for aim, *span in others[one.episode][1]) for one in hits]  # fmt: skip
    return [share >= 0.5 and aim == target for share, aim in best]


def test_what_the_best_share_with_the_query_decides(monkeypatch):
    others = {number: errands(number) for number in range(20)}
    queries = [(number, span) for number in range(30, 36) for span in errands(number)[1]]
    weighted = np.mean([alike(query, others) for query in queries])
    monkeypatch.setattr(moments, "_step_weights", lambda query, *_: np.full(query.shape, 1.0 / 3))
    assert weighted > 0.95
    assert np.mean([alike(query, others) for query in queries]) < weighted - 0.05


def test_a_long_query_is_compared_at_fewer_steps_and_keeps_its_bounds(archive, retriever):
    del archive
    rows, _ = play(7)
    assert len(rows) > 70
    long = np.repeat(rows, 2, axis=0)
    assert len(long) > 2 * moments._STEPS
    hit = retriever.search_moments(long + 0.001, 1)[0]
    assert hit.episode_id == "play-7"
    assert overlap(np.array([[0, len(rows)]]), hit.span)[0] > 0.95


def test_exact_duplicates_score_1_each(tmp_path):
    rows, _ = play(5)
    for number in range(3):
        one = episode_of(5)
        one.id = f"copy-{number}"
        stored(tmp_path, [one])
    with TrajectoryRetriever(tmp_path) as opened:
        hits = opened.search_moments(rows[20:50], 4)
        assert [(hit.score, hit.span) for hit in hits[:3]] == [(1.0, (20, 50))] * 3
        assert hits[3].score < 0.9


@pytest.mark.parametrize("span", [(20, 25), (0, 1), (31, 70), (None, 8)])
def test_a_span_of_a_file_is_its_own_best_moment_where_windows_do_not_lead_there(archive, retriever, monkeypatch, span):
    """One window is refined, and that of a few timesteps looks like many: the archive knows where the query is from."""
    monkeypatch.setattr(moment_search, "CANDIDATES", 1)
    monkeypatch.setattr(moment_search, "WINDOWS", 1)
    for number in range(12):
        path, own = name_of(archive, number), (span[0] or 0, span[1])
        hit = retriever.search_moments((path, *span), 1)[0]
        assert (hit.file_path, hit.span, hit.score) == (str(path), own, 1.0)
        assert retriever.search_moments(hit, 1)[0].span == own
        other = retriever.search_moments((path, *span), 1, env_id=f"env-{(number + 1) % 3}")[0]
        assert other.episode_id != hit.episode_id


def test_of_equal_moments_that_of_the_query_comes_first(tmp_path):
    still = Channel.of("pose", np.concatenate([play(5)[0][:30, :3], np.ones((30, 3), np.float32)]))
    names = [f"copy-{number}" for number in range(3)]
    folder = stored(tmp_path, [Episode(name, "env", 60, observations={"pose": still}) for name in names])
    with TrajectoryRetriever(tmp_path) as opened:
        for name in names:
            for span in ((4, 24), (43, 52)):
                hits = opened.search_moments((folder / f"{name}.wshard", *span), 3, per_episode=1)
                assert (hits[0].episode_id, hits[0].span) == (name, span)
                assert {(hit.episode_id, hit.score) for hit in hits} == {(one, 1.0) for one in names}


def test_a_single_step_a_still_one_and_a_query_longer_than_every_episode(retriever):
    rows, _ = play(2)
    assert 0 < len(retriever.search_moments(rows[7], 5)) <= 5
    still = np.repeat(rows[30:31], 20, axis=0)
    assert len(retriever.search_moments(still, 5)) == 5
    long = np.repeat(rows, 3, axis=0)
    hit = retriever.search_moments(long, 1)[0]
    assert (hit.episode_id, hit.score) == ("play-2", 1.0)
    assert hit.span == (0, len(rows))


def test_a_beginning_is_found_and_a_hit_reports_what_comes_next(retriever):
    _, acts = play(4)
    stop = acts[1][2] - 6
    hit = retriever.search_moments(play(4)[0][:stop], 1)[0]
    assert hit.span == (0, stop)
    assert hit.remaining == len(play(4)[0]) - stop
    assert hit.after(10).span == (stop, stop + 10)
    assert hit.after(10_000).span == (stop, len(play(4)[0]))
    assert hit.after(10_000).remaining == 0
    assert hit.after(10).load().id == "play-4"
    whole, following = hit.load(), hit.after(10).load_span(["pose"])
    np.testing.assert_array_equal(
        following.observations["pose"].data, whole.observations["pose"].data[stop : stop + 10]
    )
    assert (following.length, list(following.observations)) == (10, ["pose"])
    with pytest.raises(StepError):
        hit.after(10_000).after(5).load_span()


def test_moments_do_not_overlap_and_per_episode_limits_them(retriever):
    rows = play(1)[0][10:40]
    hits = retriever.search_moments(rows, 40, max_overlap=0.1)
    for place, hit in enumerate(hits):
        same = [other.span for other in hits[:place] if other.uid == hit.uid]
        assert not same or overlap(np.array(same), hit.span).max() <= 0.1
    assert max(np.unique([hit.uid for hit in hits], return_counts=True)[1]) > 1
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    for limit in (1, 2):
        few = retriever.search_moments(rows, 12, per_episode=limit)
        assert len(few) == 12
        assert max(np.unique([hit.uid for hit in few], return_counts=True)[1]) <= limit
    windows = retriever.search_similar_timesteps(rows, 40)
    assert 1 < len(without_overlaps(windows)) < 40
    assert vars(without_overlaps(windows)) == vars(windows)
    assert len(without_overlaps(windows, per_episode=1)) == len({hit.uid for hit in windows})


@pytest.mark.parametrize("refine", [True, False])
def test_no_moment_is_below_the_score_requested(retriever, refine):
    rows = play(1)[0][10:40]
    every = retriever.search_moments(rows, 30, refine=refine)
    least = every[4].score
    above = retriever.search_moments(rows, 30, refine=refine, min_score=least)
    assert [(hit.uid, hit.span) for hit in above] == [(hit.uid, hit.span) for hit in every if hit.score >= least]
    assert len(above) < 30
    assert len(retriever.search_moments(rows, 30, refine=refine, min_score=1.5)) == 0


def test_without_refinement_hits_are_windows_and_cosines(retriever):
    rows = play(1)[0][12:39]
    hits = retriever.search_moments(rows, 5, refine=False, explain=True)
    assert hits[0].score == pytest.approx(retriever.search_similar_timesteps(rows, 1)[0].score)
    assert hits[0].alignment == ()
    assert hits.explained is not None
    spans = PLAN.spans(len(play(1)[0])).tolist()
    assert all(list(hit.span) in spans for hit in hits if hit.episode_id == "play-1")


# ---- filters --------------------------------------------------------------------------------------------------------


def test_a_filter_is_evaluated_once_for_the_index_and_the_spans(retriever, monkeypatch):
    evaluated, sort_ids = [], sorted_ids._sort_ids
    load_ids = pages.load_matching_ids
    monkeypatch.setattr(sorted_ids, "_sort_ids", lambda *read: evaluated.append(read[1]) or sort_ids(*read))
    monkeypatch.setattr(pages, "load_matching_ids", lambda *read: evaluated.append(read[1]) or load_ids(*read))
    for where in ("length:1..", "length:2..", "length:1.."):
        assert len(retriever.search_moments(play(7)[0][5:40], 5, where=where)) == 5
    assert evaluated == [as_where("length:1.."), as_where("length:2..")]


@pytest.mark.parametrize("refine", [True, False])
def test_filters_leave_none_few_or_all(retriever, refine):
    rows = play(0)[0][10:40]
    assert retriever.search_moments(rows, 5, "nowhere", refine=refine) == []
    one = retriever.search_moments(rows, 50, where="episode_id:play-7", refine=refine)
    assert {hit.episode_id for hit in one} == {"play-7"}
    assert 1 <= len(one) < 50
    assert len(retriever.search_moments(rows, 10, ["env-0", "env-1", "env-2"], refine=refine)) == 10
    some = retriever.search_moments(rows, 10, "env-1", refine=refine)
    assert len(some) == 10
    assert {hit.metadata["env_id"] for hit in some} == {"env-1"}


# ---- forms of queries -----------------------------------------------------------------------------------------------


def test_a_hit_a_file_and_timesteps_of_a_file_are_queries_of_every_search(archive, retriever):
    path = name_of(archive, 6)
    hit = retriever.search_moments((path, 20, 45), 1)[0]
    assert (hit.file_path, hit.span, hit.score) == (str(path), (20, 45), 1.0)
    again = retriever.search_moments(hit, 3)
    assert (again[0].uid, again[0].span) == (hit.uid, hit.span)
    assert retriever.search_moments((str(path), None, 30), 1)[0].span == (0, 30)
    whole = retriever.search_similar_timesteps(path, 1)[0]
    assert (whole.episode_id, whole.span) == ("play-6", (0, len(play(6)[0])))
    assert retriever.search_similar_timesteps(str(path), 1) == [whole]
    assert retriever.search_similar_timesteps(whole, 1) == [whole]


def test_the_episode_that_a_query_names_can_be_left_out(archive, retriever, tmp_path):
    path = name_of(archive, 6)
    hit = retriever.search_moments((path, 20, 45), 1)[0]
    for query in (hit, path, (str(path), 20, 45)):
        for search in (retriever.search_moments, retriever.search_similar_timesteps):
            hits = search(query, 5, exclude_self=True)
            assert len(hits) == 5
            assert hit.uid not in {other.uid for other in hits}
    elsewhere = tmp_path / "elsewhere.wshard"
    save_wshard(load_wshard(path), elsewhere)
    assert retriever.search_similar_timesteps(elsewhere, 1, exclude_self=True)[0].episode_id == "play-6"
    with pytest.raises(QueryError, match="exclude_self: expected queries that name an episode"):
        retriever.search_moments(play(0)[0], exclude_self=True)


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        (("play", 3, 3), {}, "holds no timestep"),
        (("play", "a", 3), {}, r"\(file, start, stop\): expected a whole number"),
        (np.zeros((5, 4)), {"top_k": 0}, "top_k"),
        (np.zeros((5, 4)), {"max_overlap": 1.0}, "max_overlap"),
        (np.zeros((5, 4)), {"per_episode": 0}, "per_episode"),
        (np.zeros((5, 4)), {"min_score": math.nan}, "min_score"),
        (np.zeros((5, 7)), {}, "fits none"),
        (
            np.zeros((5, 4)),
            {"windows": WindowPlan(5, 5)},
            r"there are no vectors for this search(?s:.*)windows of",
        ),
    ],
)
def test_what_cannot_be_searched_for_is_refused(archive, retriever, query, options, message):
    if isinstance(query, tuple):
        query = (name_of(archive, 1), *query[1:])
    with pytest.raises(QueryError, match=message):
        retriever.search_moments(query, **options)


def test_a_query_with_nan_and_a_file_that_is_not_there_are_refused(retriever, tmp_path):
    with pytest.raises(QueryError, match="finite"):
        retriever.search_moments(np.full((5, 4), np.nan))
    with pytest.raises(EntryNotFoundError, match=r"none\.wshard' is neither a file nor an episode of this archive"):
        retriever.search_moments(tmp_path / "none.wshard")


def test_a_copy_is_found_wherever_it_lies_and_if_all_of_it_is_shifted(tmp_path):
    rng = np.random.default_rng(9)
    probe, rows = rng.normal(0, 0.3, (37, 4)).cumsum(axis=0), {}
    for number in range(40):
        rows[number] = rng.normal(0, 0.3, (130, 4)).cumsum(axis=0)
        if number < 3:
            rows[number][41 + 7 * number : 78 + 7 * number] = probe + (number == 2) * rng.normal(0, 0.5, 4)
    stored(
        tmp_path,
        [
            Episode(f"walk-{n}", "walk", 130, observations={"state": Channel.of("state", one.astype(np.float32))})
            for n, one in rows.items()
        ],
    )
    with TrajectoryRetriever(tmp_path) as opened:
        hits = opened.search_moments(probe.astype(np.float32), 3)
    assert {(hit.episode_id, hit.span) for hit in hits} == {(f"walk-{n}", (41 + 7 * n, 78 + 7 * n)) for n in range(3)}
    assert [hit.score for hit in hits[:2]] == [1.0, 1.0]
    assert 0.9 < hits[2].score < 1.0


def test_a_coarse_alignment_finds_what_vectors_rank_last_and_drops_none_of_the_nearest():
    rng = np.random.default_rng(1)
    scaling = Statistics(1, np.zeros(3), np.ones(3))
    stored = dict(enumerate(prepare_rows([np.cumsum(rng.normal(size=(60, 3)), axis=0) for _ in range(30)], scaling)))
    (query,) = prepare_rows([stored[29].rows[13:43]], scaling)
    spans, free = np.tile([10, 40], (30, 1)), np.arange(30) >= 20
    chosen = narrow(query, Windows(np.arange(30), spans, free), stored, 4, sure=3)
    assert {0, 1, 2, 29} <= {*chosen.episodes.tolist()}
    assert (len(chosen.episodes), int(chosen.free.sum())) == (6, 2)


# ---- files that change, lanes in memory -----------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"where": "length:>=60"}, {"per_episode": 1}, {"exclude_self": True}])
def test_the_nearest_episodes_are_not_searched_for_where_the_best_windows_show_them(archive, monkeypatch, options):
    monkeypatch.setattr(all_timesteps, "STORED", 0)
    monkeypatch.setattr(moment_search, "_EPISODES", 5)
    monkeypatch.setattr(moment_search, "WINDOWS", 40)
    with TrajectoryRetriever(archive) as retriever:
        search = retriever._archive.index.search
        counts, found = [], []
        for exact in (True, False):  # an answer that is not proven is no reason to leave out anything
            requested = []

            def record(space, vector, request, requested=requested, exact=exact):
                requested.append(request)
                return replace(search(space, vector, request), exact=exact)

            monkeypatch.setattr(retriever._archive.index, "search", record)
            query = next(archive.rglob("*.wshard"))
            found.append(retriever.search_moments((query, 10, 40), 5, **options))
            counts.append(sum(request.distinct for request in requested))
        assert len(found[0]) == 5
        assert [*found[0]] == [*found[1]]
        assert counts[0] < counts[1]


def test_files_that_are_gone_or_changed_give_their_places_to_the_next(tmp_path):
    folder = stored(tmp_path, map(episode_of, range(5)))
    rows = play(0)[0][10:40]
    with TrajectoryRetriever(tmp_path) as opened:
        before = opened.search_moments(rows, 5)
        ref = before[0]
        (folder / "play-1.wshard").unlink()
        other = episode_of(2)
        save_wshard(other, folder / "play-3.wshard")
        after = opened.search_moments(rows, 5)
        assert after.missing == 2
        assert len(after) == 5
        assert {hit.episode_id for hit in after}.isdisjoint({"play-1", "play-3"})
        (folder / "play-4.wshard").write_bytes((folder / "play-4.wshard").read_bytes()[:100])
        assert opened.search_moments(rows, 5).missing == 3
        save_wshard(other, folder / "play-0.wshard")
        with pytest.raises(StaleEpisodeError):
            opened.search_moments(ref)


def test_lanes_in_memory_are_few_and_follow_their_files(archive):
    with TrajectoryRetriever(archive) as opened:
        (space,) = opened._queries.spaces.active()
        rows = [*opened._archive.catalog.episodes.rows(opened._archive.catalog.query.ids()).values()][:4]
        small = LaneRows(cache_bytes=1)
        first = [*small.load(rows, space, space.scaling)[0].values()]
        assert len(small._cache) == 1
        large = LaneRows()
        saved = [*large.load(rows, space, space.scaling)[0].values()]
        again = large.load(rows, space, space.scaling)[0].values()
        assert all(one is other for one, other in zip(again, saved, strict=True))
        for one, other in zip(first, saved, strict=True):
            assert np.array_equal(one.rows, other.rows)
            assert np.array_equal(one.smooth, other.smooth)
        half = saved[0].rows
        expected = [half[max(0, step - 2) : step + 3].mean(axis=0) for step in range(len(half))]
        np.testing.assert_allclose(saved[0].smooth, expected, atol=1e-12)
        assert len(prepare_rows([np.zeros((1, 4))], space.scaling)[0].smooth) == 1


# ---- kernels, embedders, overlap ------------------------------------------------------------------------------------


def test_both_kernels_give_the_same_hits(retriever, monkeypatch):
    rows = play(8)[0][5:60]
    compiled = retriever.search_moments(rows, 10)
    monkeypatch.setattr(align, "solver", lambda *_: numpy_kernel)
    numpy = retriever.search_moments(rows, 10)
    assert numpy == compiled
    assert [hit.alignment for hit in numpy] == [hit.alignment for hit in compiled]


def test_spaces_without_statistics_are_aligned_by_those_of_the_archive(tmp_path):
    stored(tmp_path, map(episode_of, range(4)), embedder="mean")
    with TrajectoryRetriever(tmp_path) as opened:
        hit = opened.search_moments(play(2)[0][17:41], 1)[0]
        assert (hit.episode_id, hit.span, hit.score) == ("play-2", (17, 41), 1.0)


def test_lanes_in_memory_follow_the_statistics_of_a_growing_archive(tmp_path):
    stored(tmp_path, map(episode_of, range(4)), embedder="mean")
    with TrajectoryRetriever(tmp_path) as opened:
        opened.search_moments(play(2)[0][17:41], 1)
        rng = np.random.default_rng(0)
        wild = [Channel.of("pose", (30 * rng.normal(size=(80, 3))).astype(np.float32)) for _ in range(6)]
        still = Channel.of("still", np.ones(80, np.float32))
        others = [
            Episode(f"wild-{n}", "env", 80, observations={"pose": pose, "still": still}) for n, pose in enumerate(wild)
        ]
        stored(tmp_path, others, embedder="mean")
        hit = opened.search_moments(play(2)[0][17:41], 1)[0]
        assert (hit.episode_id, hit.span, hit.score) == ("play-2", (17, 41), 1.0)


def test_windows_of_one_size_serve_too_and_whole_episodes_do_not(tmp_path):
    stored(tmp_path, map(episode_of, range(4)), plan=WindowPlan(24, 6))
    with TrajectoryRetriever(tmp_path) as opened:
        assert opened.search_moments(play(2)[0][17:41], 1)[0].span == (17, 41)
    other = tmp_path / "whole"
    other.mkdir()
    stored(other, [episode_of(0)], plan=WindowPlan())
    with TrajectoryRetriever(other) as opened, pytest.raises(QueryError, match="--windows both"):
        opened.search_moments(play(0)[0][:20])


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(1, 15)), max_size=20), st.floats(0, 0.9))
def test_suppression_keeps_the_best_and_only_them(found, limit):
    episodes = np.array([episode for episode, _, _ in found], np.int64)
    spans = np.array([(start, start + length) for _, start, length in found], np.int64).reshape(-1, 2)
    saved = suppress(episodes, spans, MomentLimits(len(found), limit)).tolist()
    slow: list[int] = []
    for place in range(len(found)):
        steps = set(range(*spans[place]))
        shares = [
            len(steps & set(range(*spans[other])))
            / (max(spans[place, 1], spans[other, 1]) - min(spans[place, 0], spans[other, 0]))
            for other in slow
            if episodes[other] == episodes[place]
        ]
        if all(share <= limit for share in shares):
            slow.append(place)
    assert saved == slow
    assert suppress(episodes, spans, MomentLimits(2, limit)).tolist() == slow[:2]


def test_what_comes_after_a_hit_of_unknown_length_is_nothing():
    ref = EpisodeRef("one", str(Path("one.wshard")), 1.0, span=(3, 9))
    assert ref.remaining == 0
    assert ref.after(5).span == (9, 9)


def test_hits_are_aligned_alike_from_files_and_from_what_is_stored_however_many_at_once(tmp_path, monkeypatch):
    stored(tmp_path, map(episode_of, range(8)), PLAN, Blocks())
    with TrajectoryIngestor(tmp_path, Blocks()) as ingestor:
        ingestor.ingest(tmp_path / "episodes", windows="both")
    rows, files = play(3)[0][10:50], []
    load = LaneRows.load
    monkeypatch.setattr(LaneRows, "load", lambda self, of, *rest: load(self, files.extend(of := [*of]) or of, *rest))
    found = []
    for together in (1 << 20, 1):
        monkeypatch.setattr(align_spans, "_PAIRS", together)
        with TrajectoryRetriever(tmp_path) as retriever:
            found.append(retriever.search_similar_episodes(rows, 8, alignment=True))
            assert len(files) == 8
            retriever.search_moments(rows, 1)  # loads what is stored
            files.clear()
            found.append(retriever.search_similar_episodes(rows, 8, alignment=True))
            assert not files
    assert len({hit.aligned for hit in found[0]}) > 1
    assert all(hits == found[0] for hits in found)
    name_of(tmp_path, 5).unlink()
    with TrajectoryRetriever(tmp_path) as retriever:
        retriever.search_moments(rows, 1)
        assert len(retriever.search_similar_episodes(rows, 8, alignment=True)) == 7


# ---- the command line -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wholes(tmp_path_factory):
    place = tmp_path_factory.mktemp("wholes")
    stored(place, map(episode_of, range(4)), "whole")
    with TrajectoryRetriever(place) as opened:
        yield opened


@given(number=st.integers(0, 3), start=st.integers(0, 60), length=st.integers(1, 200), slower=st.integers(1, 3))
def test_hits_of_any_search_say_which_timesteps_meet(wholes, number, start, length, slower):
    rows, _ = play(number)
    stop = min(start + length, len(rows))
    query = np.repeat(rows[start:stop], slower, axis=0)
    hits = wholes.search_similar_episodes(query, 4, alignment=True)
    for hit in hits:
        path, whole = np.array(hit.alignment), len(play(int(hit.episode_id[5:]))[0])
        assert (path[0, 0], path[-1, 0]) == (0, len(query) - 1)
        assert (np.diff(path, axis=0) >= 0).all()
        assert hit.span == (0, whole)
        assert 0 <= hit.aligned[0] < hit.aligned[1] <= whole
        assert hit.lane_scores.keys() == {"signal/pose", "signal/still"}
    own = next(hit for hit in hits if hit.episode_id == f"play-{number}")
    assert own.aligned == (start, stop)
    assert own.alignment == tuple((step, start + step // slower) for step in range(len(query)))
    assert set(own.lane_scores.values()) == {1.0}
    numpy_kernel = wholes.search_similar_episodes(query, 4)
    assert numpy_kernel == [replace(hit, alignment=(), lane_scores={}) for hit in hits]
    assert [hit.aligned for hit in numpy_kernel] == [hit.span for hit in numpy_kernel]


def test_windows_are_aligned_within_their_spans_and_long_ones_at_some_of_their_steps(retriever, monkeypatch):
    rows, _ = play(3)
    hits = retriever.search_similar_timesteps(rows[10:40], 5, alignment=True)
    assert all(hit.span[0] <= hit.aligned[0] < hit.aligned[1] <= hit.span[1] for hit in hits)
    monkeypatch.setattr(align_spans, "_STEPS", 10)
    thinned = retriever.search_similar_timesteps(rows[10:40], 1, alignment=True)[0]
    assert len(thinned.alignment) < len(hits[0].alignment) / 2
    every = 1 + max(30, hits[0].span[1] - hits[0].span[0]) // 10
    assert {step % every for step, _ in thinned.alignment} == {0}
    assert thinned.alignment[-1][0] > 29 - every


def test_hits_whose_files_have_changed_stay_without_alignment(tmp_path):
    folder = stored(tmp_path, map(episode_of, range(3)), "whole")
    with TrajectoryRetriever(tmp_path) as opened:
        changed = episode_of(8)
        changed.id = "play-1"
        save_wshard(changed, folder / "play-1.wshard")
        hits = opened.search_similar_episodes(play(0)[0], 3, alignment=True)
        assert {hit.episode_id for hit in hits if hit.alignment} == {"play-0", "play-2"}
        assert len(hits) == 3


def test_moments_on_the_command_line(archive, retriever):
    path = name_of(archive, 6)
    span = ("--from", 20, "--to", 45)
    (found,) = json.loads(run(archive, ("moments", path, *span, "--json", "-k", 1)))["items"]
    assert (found["episode_id"], found["span"], found["score"]) == ("play-6", [20, 45], 1.0)
    assert found["alignment"] == [[step, 20 + step] for step in range(25)]
    assert found["remaining"] == len(play(6)[0]) - 45
    assert set(found["lane_scores"]) == {"signal/pose", "signal/still"}
    output = run(archive, ("moments", "play-6", *span, "--exclude-self", "--per-episode", 1, "-k", 3))
    expected = retriever.search_moments((path, 20, 45), 3, exclude_self=True, per_episode=1)
    assert all(f"{hit.span[0]}:{hit.span[1]}" in output for hit in expected)
    assert "play-6" not in output
    assert "1 hit," in run(archive, ("moments", "play-6", *span, "--min-score", 1, "-k", 3))
    assert "signal/pose 1.00 signal/still 1.00" in run(archive, ("moments", "play-6", *span, "-k", 1))
    requested = map(str, ("moments", "play-6", *span, "--archive", archive, "--min-score", 1, "--top", 3))
    output = CliRunner().invoke(app, [*requested]).stderr
    assert output == "fewer than 3: other candidates were excluded by --max-overlap, --min-score\n"
    requested = ("search", "play-6@20:45", "--windows-only", "--alignment", "-k", 3)
    table = run(archive, requested)
    for hit, output in zip(
        json.loads(run(archive, (*requested, "--json")))["items"], table.splitlines()[1:], strict=False
    ):
        assert hit["lane_scores"].keys() == {"signal/pose", "signal/still"}
        assert f"{hit['alignment'][0][1]}:{hit['alignment'][-1][1] + 1}" in output
        assert f"signal/pose {hit['lane_scores']['signal/pose']:.2f}" in output
    rest = run(archive, ("search", path, "--windows-only", "--exclude-self", "-k", 1))
    assert "1 hit," in rest
    assert "play-6" not in rest
    run(archive, ("moments", path, "--from", 500), code=1)
    run(archive, ("moments", archive / "none.npy"), code=1)
