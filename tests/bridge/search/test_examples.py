"""Moments like any of several examples and unlike others."""

from __future__ import annotations

import json

import numpy as np
import pytest
from plays import act, episode_of, labels, name_of, play, run, stored

from bridge.search.moments import nearest_example
from bridge.search.moments.overlap import overlap
from wshard import Channel, Episode, TrajectoryRetriever
from wshard.errors import QueryError


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    place = tmp_path_factory.mktemp("plays")
    stored(place, map(episode_of, range(12)))
    return place


@pytest.fixture(scope="module")
def retriever(archive):
    with TrajectoryRetriever(archive) as opened:
        yield opened


def span_of(number, name):
    """Return the timesteps [start, stop) of an act of a play."""
    return next((start, stop) for other, start, stop in play(number)[1] if other == name)


def describe(hits):
    return [(hit.episode_id, hit.span, hit.score) for hit in hits]


def test_moments_like_either_example_are_found_and_each_example_first(archive, retriever):
    files = [(name_of(archive, 0), *span_of(0, "reach")), (name_of(archive, 3), *span_of(3, "press"))]
    hits = retriever.search_moments(files[0], 12, like=[files[1]])
    assert sorted(describe(hits[:2])) == sorted([("play-0", files[0][1:], 1.0), ("play-3", files[1][1:], 1.0)])
    assert {labels(hit)[0] for hit in hits} == {"reach", "press"}
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert describe(retriever.search_moments(like=files, top_k=12)) == describe(hits)
    for hit in hits:
        others = [other.span for other in hits if other is not hit and other.uid == hit.uid]
        assert not others or overlap(np.array(others), hit.span).max() <= 0.3


def test_the_same_example_twice_is_one_example(archive, retriever):
    query = (name_of(archive, 5), *span_of(5, "lift"))
    assert describe(retriever.search_moments(query, 7, like=[query])) == describe(retriever.search_moments(query, 7))


@pytest.fixture(scope="module")
def swings(tmp_path_factory):
    """Return an archive of 8 plays that swing twice: once as the first does, once with another end."""
    place = tmp_path_factory.mktemp("swings")
    rng, episodes = np.random.default_rng(3), []
    for number in range(8):
        one, other = act("reach", 30), act("reach", 30)
        other[20:, 0] += np.linspace(0, 1.5, 10)
        rows = np.concatenate([one, act("lift", 15), other]) + 0.03 * rng.normal(size=(75, 4)) * [1, 1, 1, 0]
        pose = Channel.of("pose", rows.astype(np.float32))
        episodes.append(Episode(f"swing-{number}", "env", 75, observations={"pose": pose}))
    stored(place, episodes)
    return place


@pytest.mark.parametrize("refine", [True, False])
def test_what_is_more_like_a_counter_example_is_left_out_and_the_places_are_filled(swings, refine):
    path = swings / "episodes" / "swing-0.wshard"
    with TrajectoryRetriever(swings) as retriever:
        plain = retriever.search_moments((path, 0, 30), 12, refine=refine)
        assert sum(hit.span[0] > 30 for hit in plain) >= 3
        hits = retriever.search_moments((path, 0, 30), 8, unlike=[(path, 45, 75)], refine=refine)
        assert len(hits) == 8
        assert {hit.episode_id for hit in hits} == {f"swing-{number}" for number in range(8)}
        assert all(hit.span[0] < 15 for hit in hits)


def test_a_counter_example_removes_hits_however_many_others_are_more_like_it(tmp_path, monkeypatch):
    monkeypatch.setattr(nearest_example, "_MIN_NEGATIVE", 1)
    noise, one, other = (
        np.random.default_rng(4).normal(size=(7, 75, 4)).cumsum(axis=1),
        act("reach", 30),
        act("reach", 30),
    )
    other[10:, 0] += np.linspace(0, 3, 20)
    episodes = []
    for number, rows in enumerate(noise):
        rows[20:50] = other if number else one + 0.7 * (other - one)
        pose = Channel.of("pose", rows.astype(np.float32))
        episodes.append(Episode(f"swing-{number}", "env", 75, observations={"pose": pose}))
    stored(tmp_path, episodes)
    with TrajectoryRetriever(tmp_path) as retriever:
        assert retriever.search_moments(one, 1)[0].episode_id == "swing-0"
        hits = retriever.search_moments(one, 1, unlike=[other])
        assert not any(hit.episode_id == "swing-0" and overlap(np.array([hit.span]), (20, 50))[0] > 0.3 for hit in hits)


def test_what_is_as_like_as_unlike_is_not_a_hit(swings):
    path = swings / "episodes" / "swing-2.wshard"
    with TrajectoryRetriever(swings) as retriever:
        hits = retriever.search_moments((path, 0, 30), 5, unlike=[(path, 0, 30)])
        assert "swing-2" not in {hit.episode_id for hit in hits if overlap(np.array([[0, 30]]), hit.span)[0] > 0.3}


def test_all_there_are_come_back_where_too_few_belong_to_the_examples(swings):
    path = swings / "episodes" / "swing-0.wshard"
    with TrajectoryRetriever(swings) as retriever:
        hits = retriever.search_moments((path, 0, 30), 500, unlike=[(path, 45, 75)], where="episode_id:swing-4")
        assert hits
        assert {hit.episode_id for hit in hits} == {"swing-4"}


def test_limits_and_exclusion_hold_for_all_examples(archive, retriever):
    like = [(name_of(archive, number), *span_of(number, "turn")) for number in (1, 2)]
    unlike = [(name_of(archive, 4), *span_of(4, "lift"))]
    hits = retriever.search_moments(like=like, unlike=unlike, top_k=20, per_episode=1, exclude_self=True)
    names = [hit.episode_id for hit in hits]
    assert len(set(names)) == len(names)
    assert not {"play-1", "play-2", "play-4"} & set(names)
    assert len(names) == 9
    least = hits[3].score
    again = retriever.search_moments(
        like=like, unlike=unlike, top_k=20, per_episode=1, exclude_self=True, min_score=least
    )
    assert describe(again) == describe(hits[:4])


def test_examples_that_fit_nothing_are_refused(retriever):
    with pytest.raises(QueryError, match=r"expected a query or examples"):
        retriever.search_moments(unlike=[np.zeros((5, 4))])
    with pytest.raises(QueryError, match="fits none"):
        retriever.search_moments(np.zeros((5, 4)), unlike=[np.zeros((5, 7))])


def test_examples_on_the_command_line(archive, retriever):
    path, (start, stop), (begin, end) = name_of(archive, 6), span_of(6, "reach"), span_of(7, "press")
    reported_so = run(
        archive,
        (
            *("moments", path, "--from", start, "--to", stop, "--like", f"play-7@{begin}:{end}"),
            *("--unlike", f"{name_of(archive, 1)}@:12", "-k", 6, "--json"),
        ),
    )
    expected = retriever.search_moments(
        (path, start, stop), 6, like=[(name_of(archive, 7), begin, end)], unlike=[(name_of(archive, 1), 0, 12)]
    )
    assert [(hit["episode_id"], tuple(hit["span"])) for hit in json.loads(reported_so)["items"]] == [
        (hit.episode_id, hit.span) for hit in expected
    ]
    assert len(json.loads(run(archive, ("moments", "--like", path, "-k", 2, "--json")))["items"]) == 2
    run(archive, ("moments", "--like", "play-7@:x"), code=1)
    run(archive, ("moments",), code=2)


@pytest.mark.parametrize("options", [{"per_episode": 1}, {"max_overlap": 0.9}, {"per_episode": 2, "max_overlap": 0.0}])
def test_a_counter_example_takes_the_same_whatever_the_limits_are(swings, options):
    path = swings / "episodes" / "swing-0.wshard"
    with TrajectoryRetriever(swings) as retriever:
        hits = retriever.search_moments((path, 0, 30), 8, unlike=[(path, 45, 75)], **options)
        assert {hit.episode_id for hit in hits} == {f"swing-{number}" for number in range(8)}
        assert all(hit.span[0] < 15 for hit in hits)
        again = retriever.search_moments((path, 45, 75), 8, unlike=[(path, 0, 30)], **options)
        assert {hit.episode_id for hit in again} == {f"swing-{number}" for number in range(8)}
        assert all(hit.span[1] > 60 for hit in again)


def test_a_counter_example_that_takes_everything_ends_the_search_soon(swings, monkeypatch):
    requested = []
    path = swings / "episodes" / "swing-0.wshard"
    with TrajectoryRetriever(swings) as retriever:
        find = retriever._moments.search
        monkeypatch.setattr(retriever._moments, "search", lambda *a: (requested.append(a[1].top_k), find(*a))[1])
        retriever.search_moments((path, 0, 30), 2, unlike=[(path, 0, 30)])
        assert len(requested) <= 8
        assert max(requested) <= 4 * 64 * 2


def test_examples_are_compared_in_one_space(swings):
    with TrajectoryRetriever(swings) as retriever, pytest.raises(QueryError, match="fits none"):
        retriever.search_moments(np.zeros((20, 4)), like=[np.zeros((20, 3))])
