"""What a search did not compare is counted, with the reason and the way on."""

import json
import time

import numpy as np
import pytest
from bridge_episodes import command, episode, ingest, save

from bridge.answered import LeftOut
from bridge.present.hits import present_hits
from bridge.search.query.coverage import CoverageReader
from catalog import EVERYTHING
from catalog.filters.parse import as_where
from embedders import Space
from wshard import TrajectoryIngestor, TrajectoryRetriever, open_archive
from wshard.errors import QueryError


def sets(folder):
    """Save six episodes of one lane, four of another one, and two without any number to embed."""
    alike = [episode(0, number) for number in range(6)]
    others = [episode(1, number, lanes=("force",)) for number in range(4)]
    silent = [episode(2, number, observations={}) for number in range(2)]
    save(folder, *alike, *others, *silent)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets")
    sets(folder / "data")
    ingest(folder / "archive", folder / "data", windows="both")
    return folder / "archive"


def left(hits):
    return {one.reason.partition(" (")[0]: one.episodes for one in hits.answered.left_out}


def test_episodes_of_other_lanes_are_counted_with_the_way_on(archive):
    with TrajectoryRetriever(archive) as retriever:
        hits = retriever.search_similar_episodes("task-0-1")
        assert len(hits) == hits.answered.compared == 6
        assert hits.proven
        assert not hits.exact
        assert hits.certainty == "exact among the 6 episodes compared"
        assert left(hits) == {"have other lanes": 4, "have no lane to embed by default": 2}
        other = next(one for one in hits.answered.left_out if one.episodes == 4)
        assert other.reason == "have other lanes (force; none of the query's)"
        assert other.remedy == "a query with these lanes finds them"
        assert hits.answered.missed in repr(hits)
        assert "not compared" in hits._repr_html_()
        presented = present_hits(hits, [hit.episode_id for hit in hits])
        assert presented["compared"] == 6
        assert [one["episodes"] for one in presented["not_compared"]] == [4, 2]
        other_way = retriever.search_similar_episodes("task-1-1")
        assert (other_way.answered.compared, left(other_way)["have other lanes"]) == (4, 6)


def test_lanes_of_any_searched_space_are_those_of_the_query(tmp_path):
    kinds = [("arm", "touch")] * 3 + [("force", "touch")] * 3 + [("arm",)] * 3
    save(tmp_path / "data", *[episode(0, number, lanes=lanes) for number, lanes in enumerate(kinds)])
    ingest(tmp_path / "archive", tmp_path / "data")
    with open_archive(tmp_path / "archive") as opened:
        spaces = {
            tuple(lane.name.removeprefix("signal/") for lane in space.lanes): space
            for space in (Space.from_json(row.definition) for row in opened.catalog.vectors.spaces("active"))
        }
        wide, narrow = spaces["arm", "touch"], spaces["arm",]
        _, (other,) = CoverageReader(opened.catalog).read([wide, narrow], EVERYTHING)
        assert other.episodes == 3
        assert "touch" in other.reason
        assert "none of the query's" not in other.reason
        assert "--lanes touch`" in other.remedy
        _, left_out = CoverageReader(opened.catalog).read([wide], EVERYTHING)
        remedies = {one.reason: one.remedy for one in left_out}
        assert remedies["have other lanes (arm)"] == "a search with `--lanes arm`, or without --lanes, compares them"


ASKED = {
    "episodes": (["search"], {}, False),
    "plain": (["search", "--plain"], {"plain": True}, False),
    "windows": (["search", "--windows-only"], {"windows_only": True}, False),
    "text and query": (["search", "--text", "put"], {"text": "put"}, False),
    "one kind": (["search", "-e", "task-0"], {"env_id": "task-0"}, True),
    "moments": (["moments"], {}, False),
    "moments of one kind": (["moments", "-e", "task-0"], {"env_id": "task-0"}, True),
}


@pytest.mark.parametrize(("typed", "options", "exact"), ASKED.values(), ids=ASKED)
def test_python_calls_no_answer_exact_that_the_command_restricts(archive, typed, options, exact):
    verb, *rest = typed
    printed = command(verb, "task-0-1", *rest, "--archive", archive, "--json", folder=archive.parent)
    said = json.loads(printed.stdout)
    with open_archive(archive) as opened:
        hits = (opened.moments if verb == "moments" else opened.search)("task-0-1", **options)
        assert (hits.exact, hits.certainty) == (said["exact"], said["certainty"])
        assert hits.exact == exact == (" among the " not in hits.certainty)
        assert hits.proven == hits.certainty.startswith("exact")


def test_only_episodes_that_pass_the_filter_count(archive):
    with TrajectoryRetriever(archive) as retriever:
        own = retriever.search_similar_episodes("task-0-1", env_id="task-0")
        assert own.answered.compared is None
        assert own.answered.left_out == ()
        assert own.certainty == "exact"
        mixed = retriever.search_similar_episodes("task-0-1", env_id=["task-0", "task-1"], exclude_self=True)
        assert len(mixed) == 5
        assert left(mixed) == {"have other lanes": 4}


def test_windows_and_moments_count_too(tmp_path):
    save(tmp_path / "a", *[episode(0, number) for number in range(3)])
    save(tmp_path / "b", *[episode(1, number) for number in range(2)])
    ingest(tmp_path / "archive", tmp_path / "a", windows="both")
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        ingestor.ingest(tmp_path / "b", windows="whole")
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        for find in (retriever.search_similar_timesteps, retriever.search_moments):
            hits = find(("task-0-1", 3, 20))
            (one,) = hits.answered.left_out
            assert one.episodes == 2
            assert "--windows both" in one.remedy
            assert hits.answered.compared == 3
        assert retriever.search_similar_episodes("task-0-1").answered.left_out == ()


def test_a_filter_costs_one_count_until_the_catalog_changes(archive):
    with open_archive(archive) as opened:
        coverage, where = CoverageReader(opened.catalog), as_where("length:>3")
        space = next(
            space
            for row in opened.catalog.vectors.spaces("active")
            if (space := Space.from_json(row.definition)).lanes[0].name == "signal/state"
        )
        first = coverage.read([space], where)
        started = time.process_time()
        for _ in range(200):
            assert coverage.read([space], where) == first
        assert (time.process_time() - started) / 200 < 0.0003
        assert coverage.read([space], EVERYTHING)[0] == 6


def test_the_command_says_so_in_its_last_line(archive):
    printed = command("search", "task-0-1", "--archive", archive, folder=archive.parent)
    assert printed.exit_code == 0
    last = printed.stdout.splitlines()[-1]
    assert last.startswith("6 hits, exact among the 6 episodes compared, ")
    assert "6 that pass the filter were not compared: 4 have other lanes (force; none of the query's): " in last


def test_a_search_without_any_vector_says_why(tmp_path):
    save(tmp_path / "data", episode(0, 0, observations={}))
    ingest(tmp_path / "archive", tmp_path / "data")
    with (
        TrajectoryRetriever(tmp_path / "archive") as retriever,
        pytest.raises(QueryError, match=r"no episode has vectors: 1 has no lane to embed by default: .* --lanes NAME"),
    ):
        retriever.search_similar_episodes(np.zeros((5, 4)))


def test_one_of_them_reads_as_a_sentence():
    assert str(LeftOut(3, "have other lanes (a)", "type this")) == "3 have other lanes (a): type this"
