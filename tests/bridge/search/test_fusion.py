"""Search by several views: against a full scan in plain numpy, under filters, with examples, words and thresholds."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from bridge_episodes import episode, ingest, save, spaces_of, vectors_of

import bridge.episodes.open
import bridge.search.ranking.fusion
from bridge.search.query.fit import cut
from embedders import BOTH, DEFAULT_EMBEDDER, WindowPlan
from embedders.registry import default_embedder
from embedders.windows import SCALES
from wshard import TrajectoryIngestor, TrajectoryRetriever
from wshard.errors import EmbedderError, QueryError

EXACT = pytest.approx(1.0, abs=1e-6)
WORDS = ("open the drawer", "close the drawer", "press the red button", "fetch")


def made(task, number):
    return episode(task, number, 50 + 7 * number, metadata={"task": WORDS[task], "number": number})


ALL = [(task, number) for task in range(4) for number in range(6)]


def named(task, number):
    return f"task-{task}-{number}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("data")
    save(place, *(made(*pair) for pair in ALL))
    return place


@pytest.fixture(scope="module")
def archive(folder, tmp_path_factory):
    place = tmp_path_factory.mktemp("archive")
    with TrajectoryIngestor(place) as ingestor:
        report = ingestor.ingest(folder, windows=BOTH)
    assert (report.ok, report.embedded) == (True, 24)
    return place


@pytest.fixture
def retriever(archive):
    with TrajectoryRetriever(archive) as opened:
        yield opened


def test_the_default_requested_by_name_is_the_default(folder, archive, tmp_path):
    with TrajectoryIngestor(tmp_path, DEFAULT_EMBEDDER) as ingestor:
        assert ingestor.ingest(folder, windows=BOTH).ok
    assert {one.fingerprint for one in spaces_of(tmp_path)} == {one.fingerprint for one in spaces_of(archive)}


def state(one):
    return one.observations["state"].data


def agree(vectors, seeds):
    """Return those of the seeds that are mutual neighbours of half of those before them."""
    near = {
        seed: sorted((name for name in vectors if name != seed), key=lambda name: -vectors[name] @ vectors[seed])[:8]
        for seed in seeds
    }
    found = seeds[:1]
    for seed in seeds[1:]:
        shared = [one for one in found if one in near[seed] and seed in near[one]]
        found += [seed] * (len(shared) >= len(found) / 2)
    return found


def scan(archive, query, *, expand=None):
    """Return {episode: score} by the definition, over everything: vectors and all of the rest made anew."""
    whole, scales = (next(s for s in spaces_of(archive) if s.windows == plan) for plan in BOTH)
    rows = {named(*pair): state(made(*pair)) for pair in ALL}

    def embed(space, windows):
        return default_embedder(space.windows).embed(windows, space.scaling).astype(float)

    (q,), (p,) = embed(whole, [query]), embed(scales, [query])
    vectors = {name: embed(whole, [one])[0] for name, one in rows.items()}
    cosines = {name: float(v @ q) for name, v in vectors.items()}
    best = {
        name: max((embed(scales, [one[a:b] for a, b in BOTH[1].spans(len(one))]) @ p).tolist())
        for name, one in rows.items()
    }

    def calibrate(found):
        mean = sum(found.values()) / len(found)  # the sample is all of an archive as small as this
        return {name: 1 - (1 - cosine) / (1 - mean) for name, cosine in found.items()}

    part = calibrate(best)
    in_part = {name: b if len(rows[name]) > len(query) else 1 - 40 * (1 - b) for name, b in part.items()}
    by_whole = {name: max(a, 1 - 40 * (1 - part[name])) for name, a in calibrate(cosines).items()}
    near = {name: max(a, in_part[name]) for name, a in by_whole.items()}
    best_of_whole = max(by_whole.values())
    if max(near.values()) < best_of_whole + 0.4 * (1 - best_of_whole):
        near = by_whole
    if expand == 0:
        return near
    others = {
        name: vectors[name] for name in near if near[name] < 1 - 1e-6
    }  # those that equal the query say nothing new
    seeds = sorted(others, key=lambda name: -near[name])[: expand or 8]
    first = seeds[0]
    seeds = seeds if expand else agree(others, seeds)
    grown = 0.1 * q + sum(max(near[name], 0) ** 6 * vectors[name] for name in seeds)
    grown /= np.linalg.norm(grown)
    like = calibrate({name: float(v @ grown) for name, v in vectors.items()})
    scores = {name: max((like[name] + 0.25 * part[name]) / 1.25, 1 - 4 * (1 - near[name])) for name in near}
    return scores | {first: max(scores[name] for name in others)}


@pytest.mark.parametrize("expand", [None, 0, 3])
@pytest.mark.long
def test_hits_are_those_of_a_full_scan(archive, retriever, expand):
    for pair, query in ((pair, state(made(*pair))) for pair in ALL[::9]):
        disturbed = query[: int(0.6 * len(query))] + np.random.default_rng(pair).normal(0, 0.2, 4)
        for requested in (query, disturbed):
            wanted = scan(archive, requested, expand=expand)
            hits = retriever.search_similar_episodes(requested, 100, expand=expand)
            assert {hit.episode_id: hit.score for hit in hits} == pytest.approx(wanted, abs=1e-5)
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
            assert hits.exact


def test_every_episode_finds_itself_first_with_score_1(retriever):
    for pair in ALL[::3]:
        for options in ({}, {"expand": 3}, {"expand": 0}, {"plain": True}, {"plain": True, "expand": 4}):
            hits = retriever.search_similar_episodes(made(*pair), 3, **options)
            assert (hits[0].episode_id, hits[0].score, hits.exact) == (named(*pair), EXACT, True)
            assert hits[1].score < 1
        assert retriever.search_similar_episodes(made(*pair), 3, min_score=1)[0].episode_id == named(*pair)


def test_a_window_of_an_episode_finds_it_first_with_score_1(retriever):
    for start, stop in BOTH[1].spans(50 + 7 * 2)[::4]:
        assert retriever.search_similar_episodes(cut(made(2, 2), start, stop), 1)[0].score == EXACT


def test_a_beginning_finds_the_whole_task_although_it_does_not_look_like_it(retriever):
    found = {"plain": 0, "fused": 0}
    for task, number in ALL[::2]:
        begun = cut(made(task, number), 0, 30)
        for name in found:
            hits = retriever.search_similar_episodes(begun, 6, plain=name == "plain")
            found[name] += sum(hit.metadata["env_id"] == f"task-{task}" for hit in hits)
    assert found["fused"] >= found["plain"]
    assert found["fused"] / 72 > 0.9


def test_filters_never_cost_hits(retriever):
    for count in (1, 3, 6, 23, 24, 50):
        query = made(0, 0)
        assert len(retriever.search_similar_episodes(query, count)) == min(count, 24)
        assert len(retriever.search_similar_episodes(query, count, "task-3")) == min(count, 6)
        assert len(retriever.search_similar_episodes(query, count, where="meta.number:>3", text="fetch")) == min(
            count, 8
        )
        assert len(retriever.search_similar_episodes(query, count, "task-3", diversity=0.5)) == min(count, 6)
        assert retriever.search_similar_episodes(query, count, "nowhere") == []


def test_hits_from_short_lists_are_nearly_those_from_all_episodes(retriever, monkeypatch):
    """A fused search ranks what its lists have, so a list of five finds most of what one of all episodes finds."""
    queries = [cut(made(*pair), 0, 40) for pair in ALL[::2]]
    deep = [retriever.search_similar_episodes(query, 5, expand=3) for query in queries]
    monkeypatch.setattr(bridge.search.ranking.fusion, "depth", lambda count: count)
    shallow = [retriever.search_similar_episodes(query, 5, expand=3) for query in queries]
    names = [[{hit.episode_id for hit in hits} for hits in searched] for searched in (shallow, deep)]
    assert all(hits.exact and len(hits) == 5 for hits in (*deep, *shallow))
    assert [few[0].episode_id for few in shallow] == [all_[0].episode_id for all_ in deep]
    assert sum(len(few & more) for few, more in zip(*names, strict=True)) >= 0.8 * 5 * len(queries)


def test_episodes_without_windows_are_found_too(folder, tmp_path):
    ingest(tmp_path, folder, embedder=None)
    some = [path for path in sorted(folder.rglob("*.wshard")) if path.stem.endswith(("0", "1"))]
    ingest(tmp_path, *some, embedder=None, windows=BOTH[1])
    with TrajectoryRetriever(tmp_path) as retriever:
        for pair in ALL[::7]:
            hits = retriever.search_similar_episodes(made(*pair), 100)
            assert (len(hits), hits[0].episode_id, hits[0].score) == (24, named(*pair), EXACT)


def test_examples_and_counter_examples_move_the_query(archive, retriever):
    space = next(s for s in spaces_of(archive) if s.windows.whole)
    examples = [state(made(*pair)) for pair in ((0, 1), (1, 2), (2, 0), (2, 3))]
    embedder = default_embedder(space.windows)
    a, b, c, d = embedder.embed(examples, space.scaling).astype(float)
    wanted = (a + b) / 2 - 0.5 * (c + d) / 2
    wanted /= np.linalg.norm(wanted)
    hits = retriever.search_similar_episodes(examples[0], 100, like=examples[1:2], unlike=examples[2:], plain=True)
    for hit in hits:
        vector = embedder.embed([state(hit.load())], space.scaling)[0]
        assert hit.score == pytest.approx(float(vector @ wanted), abs=1e-5)
    alone = retriever.search_similar_episodes(None, 100, like=[examples[0]])
    assert [hit.score for hit in alone] == [hit.score for hit in retriever.search_similar_episodes(examples[0], 100)]

    def mean_score(task, like=(), unlike=()):
        found = retriever.search_similar_episodes(made(0, 0), 24, like=like, unlike=unlike)
        return np.mean([hit.score for hit in found if hit.metadata["env_id"] == f"task-{task}"])

    for task in (1, 2, 3):
        usual = mean_score(task)
        assert mean_score(task, like=[made(task, 0)]) > usual + 0.1
        assert mean_score(task, unlike=[made(task, 0), made(task, 1)]) < usual


def test_the_least_similar_come_first_where_they_are_requested(retriever):
    query = made(1, 1)
    ordered = retriever.search_similar_episodes(query, 24, plain=True)
    least = retriever.search_similar_episodes(query, 24, least=True)
    assert [hit.score for hit in least] == pytest.approx([hit.score for hit in reversed(ordered)], abs=1e-6)
    assert least[-1].episode_id == named(1, 1)
    assert len(retriever.search_similar_episodes(query, 3, "task-2", least=True)) == 3


def test_thresholds_keep_what_reaches_them(retriever):
    hits = retriever.search_similar_episodes(made(1, 1), 24)
    for score in (hits[0].score, hits[5].score, -9.0, 2.0):
        saved = retriever.search_similar_episodes(made(1, 1), 24, min_score=score)
        assert [hit.episode_id for hit in saved] == [hit.episode_id for hit in hits if hit.score >= score]


def test_diverse_hits_begin_with_the_best_and_spread_over_tasks(retriever):
    near = retriever.search_similar_episodes(made(1, 1), 4)
    far = retriever.search_similar_episodes(made(1, 1), 4, diversity=0.7)
    assert far[0].episode_id == near[0].episode_id
    assert len({hit.metadata["env_id"] for hit in far}) > len({hit.metadata["env_id"] for hit in near})


def test_hits_need_not_differ_from_episodes_whose_files_are_gone(folder, tmp_path):
    data, query = shutil.copytree(folder, tmp_path / "data"), made(1, 1)
    ingest(tmp_path / "archive", data)
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        first = retriever.search_similar_episodes(query, 6, diversity=0.5)
        for hit in first[:3]:
            Path(hit.file_path).unlink()
        found = retriever.search_similar_episodes(query, 6, diversity=0.5)
        gone = {hit.episode_id for hit in first[:3]}
        without = retriever.search_similar_episodes(
            query, 6, diversity=0.5, where=" ".join(f"-episode:{name}" for name in gone)
        )
    assert [hit.episode_id for hit in found] == [hit.episode_id for hit in without]
    assert (found.missing, without.missing) == (3, 0)


def test_lanes_say_what_they_add(folder, tmp_path):
    ingest(tmp_path, folder, lanes=["state", "action/ctrl"])
    with TrajectoryRetriever(tmp_path) as retriever:
        for hit in retriever.search_similar_episodes(made(0, 0), 24, contributions=True):
            assert [*hit.contributions] == ["signal/state", "action/ctrl"]
            assert sum(hit.contributions.values()) == pytest.approx(hit.score, abs=1e-6)
            assert sum(hit.descriptors.values()) == pytest.approx(hit.score, abs=1e-6) or not hit.descriptors
        assert retriever.search_similar_episodes(made(0, 0), 1)[0].contributions == {}


def test_words_alone_and_beside_a_query(retriever):
    drawers = {named(task, number) for task in (0, 1) for number in range(6)}
    found = retriever.search_similar_episodes(text="the drawer", top_k=100)
    assert {hit.episode_id for hit in found if hit.metadata["env_id"] in ("task-0", "task-1")} == drawers
    assert found[0].score == 1.0
    assert retriever.search_similar_episodes(text="Drawer!", top_k=2, env_id="task-1")[1].episode_id == named(1, 1)
    assert retriever.search_similar_episodes(text="nonsense") == []
    query = made(2, 0)
    by_query = [hit.episode_id for hit in retriever.search_similar_episodes(query, 100)]
    by_words = [hit.episode_id for hit in retriever.search_similar_episodes(text="open drawer", top_k=100)]
    both = retriever.search_similar_episodes(query, 24, text="open drawer")
    wanted = {
        name: sum(0.5 * 61 / (61 + ranks.index(name)) for ranks in (by_query, by_words) if name in ranks)
        for name in by_query
    }
    assert {hit.episode_id: hit.score for hit in both} == pytest.approx(wanted)
    assert both.exact
    assert both[0].metadata["task"] == "open the drawer"


def test_one_hit_per_episode_where_moments_are_searched(retriever):
    query = state(made(3, 3))[5:40]
    every = retriever.search_similar_timesteps(query, 2000)
    firsts = {}
    for hit in every:
        firsts.setdefault(hit.episode_id, hit)
    one_each = retriever.search_similar_timesteps(query, 100, distinct=True)
    assert one_each == [*firsts.values()]
    grown = retriever.search_similar_timesteps(query, 5, expand=4, distinct=True)
    assert len({hit.episode_id for hit in grown}) == 5
    own = retriever.search_similar_timesteps(state(made(3, 3))[0:30], 1, expand=4)[0]
    assert (own.episode_id, own.span, own.score) == (named(3, 3), (0, 30), EXACT)


def test_files_that_are_gone_cost_no_hits(folder, tmp_path):
    data = tmp_path / "data"
    paths = save(data, *(made(*pair) for pair in ALL))
    ingest(tmp_path / "archive", data, embedder=None, windows=BOTH)
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        for path in paths[:5]:
            path.unlink()
        assert len(retriever.search_similar_episodes(made(0, 0), 19)) == 19
        assert len(retriever.search_similar_episodes(made(0, 0), 100, text="drawer")) == 19


def test_searches_that_make_no_sense_are_refused(retriever):
    for wrong, message in (
        ({}, r"expected a query, examples \(like=\[...\]\) or words"),
        ({"text": "door", "unlike": [made(0, 0)]}, "found text only"),
        ({"text": "door", "diversity": 0.5}, "found text only"),
    ):
        with pytest.raises(QueryError, match=message):
            retriever.search_similar_episodes(**wrong)
    with pytest.raises(QueryError, match="timesteps, which have no text"):
        retriever.search_similar_timesteps(made(0, 0), text="door")
    with pytest.raises(QueryError, match="fits none"):
        retriever.search_similar_episodes(made(0, 0), like=[np.zeros((5, 9))])
    with pytest.raises(TypeError, match="nonsense"):
        retriever.search_similar_episodes(made(0, 0), nonsense=1)


# ---- several plans in one pass --------------------------------------------------------------------------------------


def test_one_pass_opens_each_file_once_and_gives_the_same_vectors(folder, tmp_path, monkeypatch):
    opened, really = [], bridge.episodes.open.open_episode

    def opening(address, *, hashed):
        opened.append(address)
        return really(address, hashed=hashed)

    monkeypatch.setattr(bridge.episodes.open, "open_episode", opening)
    plans = (*BOTH, WindowPlan(16, 8))
    ingest(tmp_path / "one", folder, embedder=None, windows=plans)
    assert len(opened) == len(ALL)  # to register; the sample of rotations and embedding have it from there
    for plan in plans:
        ingest(tmp_path / "many", folder, embedder=None, windows=plan)
    stored = [{key: value.tobytes() for key, value in vectors_of(tmp_path / name).items()} for name in ("one", "many")]
    assert stored[0] == stored[1]
    assert len(stored[0]) == 3 * len(ALL)


def test_a_pass_gives_every_space_what_it_lacks(folder, tmp_path):
    paths = sorted(folder.rglob("*.wshard"))
    ingest(tmp_path, *paths[::2], embedder=None)
    ingest(tmp_path, *paths[::3], embedder=None, windows=BOTH[1])
    report = ingest(tmp_path, folder, embedder=None, windows=BOTH)
    assert report.ok
    stored = [fingerprint for fingerprint, _ in vectors_of(tmp_path)]
    assert sorted(map(stored.count, set(stored))) == [24, 24]
    assert ingest(tmp_path, folder, embedder=None, windows=BOTH).embedded == 0
    assert {space.windows.scales for space in spaces_of(tmp_path)} == {None, SCALES}


class _Choosy:
    """An embedder of long windows only."""

    name, version, uses_statistics, metric = "choosy", 1, False, "cosine"

    def parameters(self):
        return {}

    def dim(self, channels):
        return channels

    def embed(self, windows, _statistics):
        if short := [len(window) for window in windows if len(window) < 60]:
            raise EmbedderError(f"expected 60 timesteps, found {short[0]}")
        return np.stack([window[0] / np.linalg.norm(window[0]) for window in windows]).astype(np.float32)


def test_what_fails_in_one_space_is_left_out_there_alone(folder, tmp_path):
    report = ingest(tmp_path, folder, embedder=_Choosy(), windows=[WindowPlan(), WindowPlan(70, 35)])
    whole = [number for _, number in ALL if 50 + 7 * number >= 60]
    assert {failure.error for failure in report.failed} == {
        "expected 60 timesteps, found 50",
        "expected 60 timesteps, found 57",
    }
    assert report.embedded == len(whole)


class _Distant:
    """An embedder whose vectors are compared by their distance."""

    name, version, uses_statistics, metric = "distant", 1, False, "l2"

    def parameters(self):
        return {}

    def dim(self, channels):
        return channels

    def embed(self, windows, _statistics):
        return np.stack([window[-1] for window in windows]).astype(np.float32)


def test_what_takes_vectors_for_directions_is_refused_for_other_metrics(folder, tmp_path):
    ingest(tmp_path, folder, embedder=_Distant(), windows=BOTH)
    with TrajectoryRetriever(tmp_path, _Distant()) as retriever:
        assert retriever.search_similar_episodes(made(2, 2), 1)[0].episode_id == named(2, 2)
        wished = ({"expand": 3}, {"least": True}, {"unlike": [made(0, 0)]}, {"like": [made(0, 0)]}, {"diversity": 0.5})
        for options in wished:
            with pytest.raises(QueryError, match="with metric cosine, found l2"):
                retriever.search_similar_episodes(made(2, 2), **options)
