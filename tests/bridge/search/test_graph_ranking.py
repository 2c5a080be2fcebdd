"""Searches rank by the neighbour graph where episodes form groups: what it adds, what it keeps, and when it is left."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
from bridge_episodes import episode, ingest, save, spaces_of
from command_line import app
from typer.testing import CliRunner

from bridge.graph import stored_graphs
from bridge.index.derived_numbers import GRAPH_FILE
from bridge.search.ranking.stored_vectors import StoredVectors
from embedders import embedder_of
from embedders.base import blocks_of
from wshard import TrajectoryIngestor, TrajectoryRetriever, open_archive

GROUPS, SIZE = 4, 16


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("grouped")
    make(folder, range(SIZE))
    return folder / "archive"


def make(folder, numbers, windows="both"):
    """Save and ingest episodes of every group with these numbers."""
    paths = save(folder / "data", *(episode(group, number, 40) for group in range(GROUPS) for number in numbers))
    ingest(folder / "archive", *paths, windows=windows)


def test_the_graph_ranks_and_the_answer_says_so(archive):
    with TrajectoryRetriever(archive) as retriever:
        query = episode(1, 99, 40)
        hits = retriever.search_similar_episodes(query, GROUPS * SIZE)
        assert (hits.answered.ranked_by, hits.exact, len(hits)) == ("graph", True, GROUPS * SIZE)
        assert {hit.episode_id for hit in hits[:SIZE]} == {f"task-1-{number}" for number in range(SIZE)}
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] < 1
        plain = retriever.search_similar_episodes(query, 1, plain=True)
        assert (plain[0].episode_id, plain.answered.ranked_by) == (hits[0].episode_id, "vectors")
        for other in ({"expand": 3}, {"least": True}, {"unlike": [episode(2, 99, 40)]}):
            assert retriever.search_similar_episodes(query, 3, **other).answered.ranked_by == "vectors"


def test_an_episode_of_the_archive_is_first_with_score_1(archive):
    with TrajectoryRetriever(archive) as retriever:
        for number in (0, 7):
            hits = retriever.search_similar_episodes(f"task-2-{number}", 5)
            assert (hits[0].episode_id, hits[0].score) == (f"task-2-{number}", 1.0)
            assert hits[1].score < 1
            assert_others_are_the_same(retriever, hits, f"task-2-{number}")


def assert_others_are_the_same(retriever, hits, query):
    others = retriever.search_similar_episodes(query, len(hits) - 1, exclude_self=True)
    assert [hit.episode_id for hit in others] == [hit.episode_id for hit in hits[1:]]
    assert [hit.score for hit in others] == pytest.approx([hit.score for hit in hits[1:]])


def test_filters_hold_for_what_the_graph_reaches(archive):
    with TrajectoryRetriever(archive) as retriever:
        hits = retriever.search_similar_episodes(episode(1, 99, 40), 100, where="meta.number:>=8")
        assert len(hits) == GROUPS * SIZE // 2
        assert all(int(hit.episode_id.split("-")[2]) >= 8 for hit in hits)


def test_the_last_line_names_the_graph(archive):
    last = [
        CliRunner().invoke(app, ["search", "task-1-3", "--archive", str(archive), *more]).stdout.splitlines()[-1]
        for more in ((), ("--plain",))
    ]
    assert ["ranked by: graph" in line for line in last] == [True, False]


def test_data_without_groups_are_ranked_by_vectors(tmp_path):
    rng = np.random.default_rng(0)
    ones = [episode(0, number, 30) for number in range(40)]
    for one in ones:
        one.observations["state"].data[:] = rng.normal(size=(30, 4)).cumsum(axis=0)
    ingest(tmp_path / "archive", *save(tmp_path / "data", *ones), windows="both")
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        hits = retriever.search_similar_episodes("task-0-3", 12)
        assert (hits.answered.ranked_by, hits[0].episode_id) == ("vectors", "task-0-3")
        assert_others_are_the_same(retriever, hits, "task-0-3")


@pytest.fixture
def built(monkeypatch):
    """Return the numbers of episodes of which graphs are built from now on, in order."""
    sizes = []
    build = stored_graphs.build_graph

    def count(episodes, vectors):
        sizes.append(len(episodes))
        return build(episodes, vectors)

    monkeypatch.setattr(stored_graphs, "build_graph", count)
    return sizes


def read_graph(folder):
    """Return the graph that the searches of a new process use."""
    (space,) = spaces_of(folder / "archive")
    with open_archive(folder / "archive") as archive:
        stored = StoredVectors(archive)
        graph = stored.graph(space, stored.weights(space, blocks_of(embedder_of(space), space)))
        return graph.episodes.tolist(), graph.neighbours.tobytes(), graph.shares.tobytes()


def test_a_graph_of_other_weights_is_not_used_until_the_one_that_fits_is_made(archive, monkeypatch):
    (space, *_) = (one for one in spaces_of(archive) if one.windows.whole)
    with open_archive(archive) as lab:
        stored = StoredVectors(lab)
        weights = stored.weights(space, blocks_of(embedder_of(space), space))
        assert stored.graph(space, weights, wait=True) is not None
        monkeypatch.setattr(stored_graphs.GraphStore, "_follow", lambda *_, **__: None)
        assert stored.graph(space, replace(weights, values=None)) is None
        assert stored.graph(space, weights) is not None


def test_an_ingest_of_many_makes_the_graph_and_one_of_few_leaves_them_to_the_search(tmp_path, built):
    make(tmp_path, range(SIZE), "whole")
    assert built == [GROUPS * SIZE]
    first = read_graph(tmp_path)
    assert built == [GROUPS * SIZE]
    (path,) = (tmp_path / "archive" / "index").rglob(GRAPH_FILE)
    path.write_bytes(path.read_bytes()[:-9])
    assert (read_graph(tmp_path), built) == (first, [GROUPS * SIZE] * 2)
    make(tmp_path, [SIZE], "whole")
    joined = read_graph(tmp_path)
    assert (len(joined[0]), built) == (GROUPS * (SIZE + 1), [GROUPS * SIZE] * 2)
    assert read_graph(tmp_path) == joined
    make(tmp_path, range(SIZE + 1, 2 * SIZE), "whole")
    assert built[2:] == [GROUPS * 2 * SIZE]


def test_an_ingest_succeeds_where_no_graph_can_be_built(tmp_path, monkeypatch):
    def fail(episodes, vectors):
        raise MemoryError

    monkeypatch.setattr(stored_graphs, "build_graph", fail)
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        report = ingestor.ingest(
            save(tmp_path / "data", *(episode(1, number, 40) for number in range(40))), windows="whole"
        )
    assert (report.ok, report.embedded) == (True, 40)


def test_without_enough_vectors_left_when_they_are_read_vectors_rank(archive, tmp_path, monkeypatch):
    copied = shutil.copytree(archive, tmp_path / "archive")
    shutil.rmtree(copied / "index")
    load = stored_graphs.GraphStore._load
    monkeypatch.setattr(stored_graphs.GraphStore, "_load", lambda self, space, ids: load(self, space, ids[:16]))
    with TrajectoryRetriever(copied) as retriever:
        assert retriever.search_similar_episodes(episode(1, 99, 40)).answered.ranked_by == "vectors"


def test_an_archive_of_whole_episodes_is_ranked_by_the_graph_too(tmp_path):
    make(tmp_path, range(SIZE), "whole")
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        hits = retriever.search_similar_episodes(episode(1, 99, 40), SIZE)
        assert (hits.answered.ranked_by, {hit.metadata["env_id"] for hit in hits}) == ("graph", {"task-1"})
        plain = retriever.search_similar_episodes(episode(1, 99, 40), 1, plain=True)
        assert (plain[0].episode_id, plain.answered.ranked_by) == (hits[0].episode_id, "vectors")


def test_new_episodes_join_the_graph_of_a_running_process(tmp_path, monkeypatch):
    make(tmp_path, range(SIZE))
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        retriever.search_similar_episodes("task-1-3", 3)
        monkeypatch.setattr(stored_graphs, "build_graph", None)
        ingest(tmp_path / "archive", *save(tmp_path / "data", episode(1, 50, 40)), windows="both")
        hits = retriever.search_similar_episodes("task-1-50", SIZE + 1)
        assert hits.answered.ranked_by == "graph"
        assert {hit.metadata["env_id"] for hit in hits} == {"task-1"}
