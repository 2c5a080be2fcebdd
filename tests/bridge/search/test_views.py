"""Queries that fit several Spaces of an archive: all answer, or the newest, and the answer says which."""

from __future__ import annotations

import json
import re
from functools import partial

import numpy as np
import pytest
from bridge_episodes import command, episode, ingest, opened_archive, save, spaces_of

from bridge.evaluation import evaluate_search
from wshard import Channel, TrajectoryRetriever
from wshard.errors import EmbedderError, QueryError

EXACT = pytest.approx(1.0, abs=1e-6)
WINDOWS = ["whole", "multi:10,15,22"]


def seen(task, number, *, blind=False):
    """Return a performance that a camera has seen, if not blind: a spot that moves as the state does."""
    made = episode(task, number, 40)
    state = made.observations["state"].data
    y, x = np.mgrid[:20, :20]
    apart = (y - 10 - 5 * state[:, 0, None, None]) ** 2 + (x - 10 - 5 * state[:, 1, None, None]) ** 2
    camera = Channel.of("cam", (60 + 30 * (x % (task + 2)) + 100 * np.exp(-apart / 8)).astype(np.uint8))
    return made if blind else episode(task, number, 40, observations={**made.observations, "cam": camera})


ALL = [(task, number) for task in range(3) for number in range(4)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Provide twelve episodes with states and frames, and two without frames."""
    place = tmp_path_factory.mktemp("seen")
    save(place, *(seen(*pair) for pair in ALL), *(seen(task, 9, blind=True) for task in range(2)))
    return place


@pytest.fixture(scope="module")
def archive(folder, tmp_path_factory):
    """Provide an archive of states, into which frames were ingested later."""
    place = tmp_path_factory.mktemp("archive")
    for embedder in (None, "frames"):
        assert ingest(place, folder, embedder=embedder, windows=WINDOWS).embedded == (14 if embedder is None else 12)
    return place


@pytest.fixture
def retriever(archive):
    with TrajectoryRetriever(archive) as opened:
        yield opened


def lanes_of(spaces):
    return [[lane.name for lane in space.lanes] for space in spaces]


def embedders(spaces):
    return [space.embedder for space in spaces]


def test_an_episode_is_answered_by_all_views_of_it_together(retriever, archive):
    query, hits = seen(1, 2), retriever.search_similar_episodes(seen(1, 2), 14)
    assert (hits[0].episode_id, hits[0].score, hits.exact, len(hits)) == ("task-1-2", EXACT, True, 14)
    assert lanes_of(hits.answered.spaces) == [["signal/state"]] * 2 + [["signal/cam"]] * 2
    assert hits.answered.others == ()
    alone = []
    for lanes in ("state", "cam"):
        with TrajectoryRetriever(archive, lanes=lanes) as chosen:
            own = chosen.search_similar_episodes(query, 14)
            assert {name for one in lanes_of(own.answered.spaces) for name in one} == {f"signal/{lanes}"}
            alone.append({hit.episode_id: hit.score for hit in own})
    assert {*alone[0]} - {*alone[1]} == {"task-0-9", "task-1-9"}  # judged by what there is of them
    for hit in hits:
        scores = [view[hit.episode_id] for view in alone if hit.episode_id in view]
        assert hit.score == pytest.approx(np.mean(scores), abs=1e-9)


def test_every_option_works_with_several_views(retriever, folder):
    query, path = seen(1, 2), folder / "task-1" / "task-1-2.wshard"
    like, unlike = [seen(1, 3)], [seen(0, 0)]
    for requested in (
        {"plain": True},
        {"expand": 3},
        {"like": like, "unlike": unlike},
        {"diversity": 0.5},
        {"min_score": 0.2},
        {"env_id": "task-1"},
        {"exclude_self": True, "alignment": True},
        {"text": "door"},
    ):
        hits = retriever.search_similar_episodes(path if "exclude_self" in requested else query, 4, **requested)
        assert hits, requested
        assert {hit.metadata["env_id"] for hit in hits[:1]} == {"task-1"}
        assert all(hit.alignment for hit in hits) == ("alignment" in requested)
    least = retriever.search_similar_episodes(query, 3, least=True).answered
    assert (embedders(least.spaces), embedders(least.others)) == (["frames"], ["blocks"])
    for hit in retriever.search_similar_episodes(query, 14, plain=True, contributions=True):
        assert "signal/state" in hit.contributions or not hit.contributions
    array = query.observations["state"].data  # of one view alone
    assert lanes_of(retriever.search_similar_episodes(array, 1).answered.spaces) == [["signal/state"]] * 2
    assert len(retriever.search_similar_episodes(query, 3, like=[array])) == 3  # frames cannot take the example
    with pytest.raises(QueryError, match="fits none"):
        retriever.search_similar_episodes(query, like=[np.zeros((5, 9))])


def test_windows_are_ranked_by_all_views_with_the_same_windows(retriever):
    query = seen(2, 1)
    part = {name: channel.data[10:25] for name, channel in query.observations.items()}
    both = retriever.search_similar_timesteps(part)
    assert embedders(both.answered.spaces) == ["arcdct", "frames"]
    with pytest.raises(QueryError, match="fits none"):
        retriever.search_similar_timesteps({**part, "stat": part["state"]})  # every lane of a mapping is in some Space
    for distinct in (False, True):
        hits = retriever.search_similar_timesteps(query, 50, distinct=distinct)
        assert (hits[0].episode_id, hits[0].span, hits[0].score) == ("task-2-1", (0, 40), EXACT)
        assert len({(hit.episode_id, hit.span) for hit in hits}) == len(hits)
        assert len({hit.episode_id for hit in hits}) == 14 or not distinct
        assert embedders(hits.answered.spaces) == ["arcdct", "frames"]


@pytest.mark.parametrize("refine", [True, False])
def test_moments_are_found_in_every_view(retriever, folder, refine):
    query = (folder / "task-2" / "task-2-1.wshard", 8, 30)
    hits = retriever.search_moments(query, 8, refine=refine, per_episode=2)
    assert hits[0].episode_id == "task-2-1"
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    names = [hit.episode_id for hit in hits]
    assert max(map(names.count, names)) <= 2
    answered = embedders(hits.answered.spaces), embedders(hits.answered.others)
    assert answered == ((["arcdct", "frames"], []) if refine else (["frames"], ["arcdct"]))
    if refine:
        assert (hits[0].span, hits[0].score) == ((8, 30), 1.0)
        both = retriever.search_moments(query, 3, like=[(query[0], 0, 12)], unlike=[seen(0, 0)])
        assert {hit.span for hit in both[:2]} == {(8, 30), (0, 12)}


def test_the_newest_embedder_of_the_same_lanes_answers_and_any_can_be_chosen(folder, tmp_path):
    for embedder in ("dct", "stats", "mean"):
        ingest(tmp_path, folder, embedder=embedder, windows="whole")
    query = seen(1, 2)
    with TrajectoryRetriever(tmp_path) as retriever:
        answered = retriever.search_similar_episodes(query).answered
        assert (embedders(answered.spaces), embedders(answered.others)) == (["mean"], ["dct", "stats"])
    for embedder in ("dct", "stats", "mean"):
        with TrajectoryRetriever(tmp_path, embedder) as chosen:
            answered = chosen.search_similar_episodes(query).answered
            assert (embedders(answered.spaces), answered.others) == ([embedder], ())


def test_new_statistics_do_not_make_a_space_the_newest(folder, tmp_path):
    for embedder in ("dct", "stats"):
        ingest(tmp_path / "archive", folder, embedder=embedder, windows="whole")
    before = spaces_of(tmp_path / "archive")
    far = [episode(7, number, 40, spread=30) for number in range(10)]
    ingest(tmp_path / "archive", *save(tmp_path / "far", *far), embedder="dct", windows="whole")
    after = spaces_of(tmp_path / "archive")
    assert embedders(after) == ["stats", "dct"]  # by id
    assert after[1] not in before
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        assert embedders(retriever.search_similar_episodes(seen(1, 2)).answered.spaces) == ["stats"]


def test_embedders_that_no_one_passed_leave_the_answer_to_others(folder, tmp_path):
    def first(row):
        return row[:2]

    ingest(tmp_path / "alone", folder, embedder=first, windows="whole")
    with TrajectoryRetriever(tmp_path / "alone") as retriever, pytest.raises(EmbedderError, match="name the embedder"):
        retriever.search_similar_episodes(seen(1, 2))
    ingest(tmp_path / "both", folder, windows="whole")
    ingest(tmp_path / "both", folder, embedder=first, windows="whole")
    with TrajectoryRetriever(tmp_path / "both") as retriever:
        answered = retriever.search_similar_episodes(seen(1, 2)).answered
        assert (embedders(answered.spaces), len(answered.others)) == (["blocks"], 1)
    with TrajectoryRetriever(tmp_path / "both", first) as retriever:
        assert retriever.search_similar_episodes(seen(1, 2))[0].episode_id == "task-1-2"


def test_evaluate_scores_the_search_by_all_views(archive, folder, tmp_path):
    for embedder in (None, "frames"):
        ingest(tmp_path, folder, embedder=embedder, windows="whole")
    for place in (archive, tmp_path):
        with opened_archive(place) as opened:
            scored = evaluate_search(opened, "env")
            assert scored is not None
            assert scored.scores.precision_at_1 == 1.0


def test_the_command_line_says_which_spaces_answered(archive, folder):
    wshard = partial(command, folder=archive.parent)
    for verb in ("search", "moments"):
        requested = (verb, folder / "task-1" / "task-1-2.wshard", "--archive", archive)
        assert wshard(*requested).stderr.endswith(" in full: --explain\n")
        found = wshard(*requested, "--explain")
        assert found.exit_code == 0, found.output
        assert " over signal/state[4]" in found.stderr
        assert " over signal/cam[20, 20]" in found.stderr
        assert "fits too" not in found.stderr
        about = json.loads(wshard(*requested, "--json").stdout)
        assert {one["about"].split()[0] for one in about["spaces"]} == {"blocks", "arcdct", "frames"} - (
            {"blocks"} if verb == "moments" else set()
        )
        assert (about["others"], about["notes"]) == ([], [])
        assert "answered by" not in wshard(*requested, "--lanes", "state").stderr
    least = wshard("search", folder / "task-1" / "task-1-2.wshard", "--archive", archive, "--least")
    assert "searched frames" in least.stderr
    assert "also available (--embedder, --lanes, --windows or --env): blocks" in least.stderr


# ---- notes with the hits --------------------------------------------------------------------------------------------


def test_a_text_that_nothing_holds_is_reported(retriever, archive, folder):
    query = folder / "task-1" / "task-1-2.wshard"
    message = retriever.search_similar_episodes(query, 3, text="nothing")
    assert len(message) == 3
    _, reason = message.answered.notes
    assert reason.startswith("no episode has a task or a note; ")
    alone = retriever.search_similar_episodes(text="nothing")
    assert (alone, len(alone.answered.notes)) == ([], 2)
    wshard = partial(command, folder=archive.parent)
    assert reason in wshard("search", query, "--text", "nothing", "--archive", archive).stderr


def test_a_filter_that_excludes_all_is_reported_part_by_part(retriever, archive, folder):
    query = folder / "task-1" / "task-1-2.wshard"
    for find in (
        retriever.search_similar_episodes,
        retriever.search_similar_timesteps,
        retriever.search_moments,
    ):

        def notes(requested, find=find):
            hits = find(query, **requested)
            assert hits == []
            return hits.answered.notes

        assert notes({"env_id": "x", "min_length": 5}) == ("env:x alone matches 0 of 14 episodes",)
        assert notes({"env_id": "task-1", "where": "env:task-2"}) == (
            "none of 14 episodes meets all conditions; episodes per condition: env:task-1 5, env:task-2 4",
        )
        assert notes({"where": "not env:x"})[0].endswith("the keyword is NOT")
        assert find(query, env_id="task-1").answered.notes == ()
        (low,) = notes({"min_score": 2.0, "env_id": "task-1"})
        assert re.fullmatch(
            r"no hit has a score of 2 or more|the best moment has a score of 1\.0000, less .* of 2", low
        )
    wshard = partial(command, folder=archive.parent)
    for verb in ("search", "moments"):
        output = wshard(verb, query, "--env", "x", "--archive", archive)
        assert "env:x alone matches 0 of 14 episodes" in output.stderr


def test_a_filter_that_only_episodes_of_other_lanes_pass_is_reported(tmp_path):
    save(tmp_path / "data", *(episode(0, n, lanes=("pose", "goal")) for n in range(3)), episode(1, 0))
    ingest(tmp_path / "archive", tmp_path / "data", windows="whole")
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        message = retriever.search_similar_episodes(episode(1, 0), env_id="task-0").answered.notes
    assert message == ("3 of 4 episodes match the filter, but none could be compared with the query",)
