"""Episodes that lack a lane are ranked by what their others say about it, and nothing else changes for them."""

from __future__ import annotations

import pytest
from bridge_episodes import episode, ingest, save, spaces_of

from bridge.graph import neighbour_graph
from bridge.search.ranking.stored_vectors import StoredVectors
from embedders import embedder_of
from embedders.base import blocks_of
from wshard import TrajectoryRetriever, open_archive

GROUPS, SIZE = 4, 20
LACKING = [f"task-{group}-{number}" for group in range(GROUPS) for number in range(0, SIZE, 2)]


def performance(group, number):
    lacks = f"task-{group}-{number}" in LACKING
    return episode(group, number, 40, lanes=("state",) if lacks else ("state", "hand"))


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lacking")
    paths = save(folder / "data", *(performance(group, number) for group in range(GROUPS) for number in range(SIZE)))
    ingest(folder / "archive", *paths, windows="whole")
    return folder / "archive"


def test_the_graph_of_all_lanes_has_the_episodes_that_lack_one(archive):
    (wide,) = [space for space in spaces_of(archive) if len(space.lanes) == 2]
    with open_archive(archive) as opened:
        stored = StoredVectors(opened)
        graph = stored.graph(wide, stored.weights(wide, blocks_of(embedder_of(wide), wide)))
        assert (len(graph.episodes), len(graph.completions)) == (GROUPS * SIZE, 1)
        assert len(stored.load(wide, graph.episodes.tolist()).episodes) == GROUPS * SIZE // 2


def test_hits_are_of_the_group_and_say_what_they_were_compared_by(archive):
    with TrajectoryRetriever(archive) as retriever:
        hits = retriever.search_similar_episodes(episode(1, 99, 40, lanes=("state", "hand")), SIZE)
        assert hits.answered.ranked_by == "graph"
        assert {hit.episode_id.rsplit("-", 1)[0] for hit in hits} == {"task-1"}
        for hit in hits:
            assert ("signal/hand" in hit.compared_by) == (hit.episode_id not in LACKING)


def test_archives_without_groups_use_what_is_predicted_too(archive, monkeypatch):
    monkeypatch.setattr(neighbour_graph, "LEAST_GROUPS", 2.0)
    query = episode(1, 99, 40, lanes=("state", "hand"))
    with TrajectoryRetriever(archive) as retriever:
        hits = retriever.search_similar_episodes(query, SIZE)
        by_vectors = retriever.search_similar_episodes(query, SIZE, plain=True)
    assert hits.answered.ranked_by == "vectors"
    assert {hit.episode_id.rsplit("-", 1)[0] for hit in hits} == {"task-1"}
    scores, cosines = ({hit.episode_id: hit.score for hit in of} for of in (hits, by_vectors))
    differs = {id_ for id_ in scores.keys() & cosines.keys() if scores[id_] != cosines[id_]}
    assert differs == scores.keys() & cosines.keys() & {*LACKING}


def test_a_copy_that_lacks_a_lane_scores_1(archive):
    with TrajectoryRetriever(archive) as retriever:
        hits = retriever.search_similar_episodes(episode(2, 4, 40, lanes=("state", "hand")), 3)
        assert (hits[0].episode_id, hits[0].score) == ("task-2-4", 1.0)
        assert hits[1].score < 1


def test_lanes_that_are_named_find_no_episode_that_lacks_them(archive):
    with TrajectoryRetriever(archive, lanes=["signal/state", "signal/hand"]) as retriever:
        hits = retriever.search_similar_episodes(episode(1, 99, 40, lanes=("state", "hand")), GROUPS * SIZE)
        assert not {hit.episode_id for hit in hits} & {*LACKING}
