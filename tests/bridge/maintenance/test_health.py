"""Health: every figure against an archive in which it is known, and the words of the command line."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from bridge_episodes import command, episode, ingest, opened_archive, save, spaces_of

from bridge import Request
from bridge.index.embedded.index import EmbeddedIndex
from bridge.maintenance.health import examine, hubness
from catalog import EVERYTHING
from embedders import Blocks, WindowPlan
from wshard import TrajectoryRetriever, open_archive


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def archive(tmp_path):
    made = [episode(task, number) for task in range(4) for number in range(5)]
    made += [episode(0, 0, id="twin"), episode(0, 0, id="triplet")]
    save(tmp_path / "data", *made)
    ingest(tmp_path / "archive", tmp_path / "data")
    return tmp_path / "archive"


def test_figures_of_a_small_archive(archive):
    with opened_archive(archive) as opened:
        (found,) = examine(opened)
        assert (found.episodes, found.vectors, found.stale) == (22, 22, 0)
        assert found.duplicates == pytest.approx(2 / 22)
        assert (found.certified, found.scored) == (1, 1)
        assert found.milliseconds > 0
        gone, changed = sorted((archive.parent / "data").rglob("t*.wshard"))[:2]
        gone.unlink()
        changed.write_bytes(changed.read_bytes() + b" ")
        assert examine(opened)[0].stale == pytest.approx(2 / 22)


def test_an_archive_without_vectors_is_healthy(tmp_path):
    save(tmp_path / "data", episode())
    ingest(tmp_path / "archive", tmp_path / "data")
    with opened_archive(tmp_path / "archive") as opened:
        opened.catalog.episodes.withdraw(opened.catalog.query.ids())
        (found,) = examine(opened)
    assert (found.episodes, found.vectors, found.stale, found.duplicates, found.certified) == (0, 0, 0, 0, 1)


def test_an_archive_without_spaces_says_so(tmp_path):
    open_archive(tmp_path, create=True).close()
    output = command("health", "--archive", tmp_path, folder=tmp_path).stderr
    assert output == "no vectors: `wshard ingest` makes them\n"


def test_hubness_is_high_where_few_vectors_are_near_to_all():
    rng = np.random.default_rng(0)
    spread = unit(rng.normal(size=(1000, 4)))
    rays = rng.normal(size=(1000, 300))
    rays[:10] = 1.0 + 0.1 * rng.normal(size=(10, 300))
    rays[10:] += 0.5
    assert abs(hubness(spread)) < 1
    assert hubness(unit(rays)) > 5
    assert hubness(spread[:2]) == 0


def test_hubness_is_of_the_metric():
    """Of inner products the longest vectors are hubs, whatever lies where; of distances they are far from all."""
    vectors = np.random.default_rng(1).normal(size=(1000, 3)).astype(np.float32)
    vectors[:5] *= 100
    assert hubness(vectors, "dot") > 5
    assert abs(hubness(vectors, "l2")) < 2


class _Distant:
    """An embedder whose vectors are compared by their distance."""

    name, version, uses_statistics, metric = "distant", 1, False, "l2"

    def parameters(self):
        return {}

    def dim(self, channels):
        return channels

    def embed(self, windows, _statistics):
        return np.stack([100 * window[-1] for window in windows]).astype(np.float32)


def test_answers_by_distance_are_proven_by_a_scan(archive):
    ingest(archive, archive.parent / "data", embedder=_Distant(), windows=WindowPlan(4, 1))
    with opened_archive(archive) as opened:
        (space,) = (space for space in spaces_of(archive) if space.metric == "l2")
        index = EmbeddedIndex(opened.catalog, archive / "lists", tail_rows=0, lists_rows=1, direct_rows=0)
        index.rebuild(space)
        (found,) = (one for one in examine(replace(opened, index=index)) if one.space == space)
        request = Request(10, EVERYTHING, explain=True)
        message = [index.search(space, point.vectors[0], request).explained for point in index.scan(space)]
    assert found.vectors > 400
    assert (found.certified, found.hubness == 0) == (1, False)
    assert found.scored == 1
    assert {one.route for one in message} == {"scan"}


def test_the_command_line_reports_health_and_how_hits_were_found(archive):
    def wshard(arguments):
        done = command(*arguments.split(), "--archive", archive, folder=archive)
        assert done.exit_code == 0, done.output
        return done.stdout

    printed = wshard("health")
    assert f"blocks version {Blocks.version} over state" in printed.replace("signal/", "")
    assert "vectors       22" in printed
    (found,) = json.loads(wshard("health --json"))["items"]
    assert (found["vectors"], found["certified"]) == (22, 1)
    printed = wshard("search task-1-1 --explain")
    assert "index: scan; 22 vectors scored, 22 pass the filter; 0 of 0 lists visited, 22 in the tail;" in printed
    # One pass over all is quicker here than picking those that pass.
    assert "index: scan; 22 vectors scored, 17 pass" in wshard("search task-1-1 --explain --where -env:task-1")
    hits = json.loads(wshard("search task-1-1 --explain --json"))
    assert (hits["explained"]["scored"], hits["explained"]["tail"]) == (22, 22)
    assert "explained" not in json.loads(wshard("search task-1-1 --json"))


def test_the_retriever_explains_on_request(archive):
    with TrajectoryRetriever(archive) as retriever:
        query = episode(1, 1)
        assert retriever.search_similar_episodes(query).explained is None
        message = retriever.search_similar_episodes(query, env_id="task-1", explain=True).explained
        assert (message.allowed, message.scored) == (5, 5)
