"""An archive whose catalog is on a server: ingest, search, the command line, and several machines at once."""

from __future__ import annotations

import json

import numpy as np
import pytest
from bridge_episodes import INGEST, episode, save, start
from typer.testing import CliRunner

from bridge.archive import is_url, open_archive
from bridge.cli import app
from bridge.ingest import TrajectoryIngestor
from bridge.retrieve import TrajectoryRetriever
from wshard.errors import CatalogNotFoundError


@pytest.fixture
def url(server, tmp_path, monkeypatch):
    monkeypatch.setenv("WSHARD_CACHE", str(tmp_path / "cache"))
    with server.catalog() as lent:
        yield lent


@pytest.fixture
def paths(tmp_path):
    return save(tmp_path / "data", *(episode(number % 3, number) for number in range(12)))


def test_ingest_and_search_by_url(url, paths, tmp_path):
    with TrajectoryIngestor(url) as ingestor:
        report = ingestor.ingest(tmp_path / "data")
        assert (report.new, report.embedded, report.ok) == (12, 12, True)
        assert ingestor.ingest(tmp_path / "data").unchanged == 12
    with TrajectoryRetriever(url) as retriever:
        hits = retriever.search_similar_episodes(episode(1, 4), 3)
        assert hits.exact
        assert [hits[0].episode_id, hits[0].file_path] == ["task-1-4", str(paths[4])]
        only = retriever.search_similar_episodes(episode(1, 4), 12, ["task-2"], where="reward:150..")
        assert {hit.metadata["env_id"] for hit in only} == {"task-2"}


def test_copies_of_vectors_lie_in_the_cache_and_may_be_deleted(url, tmp_path):
    place = tmp_path / "cache"
    with open_archive(url, create=True) as archive:
        assert archive.place.index.is_relative_to(place)
        assert archive.place.name.startswith("postgresql+psycopg://postgres@/test_")
        assert not place.exists()
    with pytest.raises(CatalogNotFoundError, match="no archive at"):
        open_archive(tmp_path / "absent")
    assert is_url("http://host:8080")
    assert not is_url(url)


def test_two_processes_ingest_into_one_server(url, tmp_path):
    for half in range(2):
        save(tmp_path / f"half-{half}", *(episode(number % 3, number) for number in range(10 * half, 10 * half + 10)))
    children = [start(INGEST, url, tmp_path / f"half-{half}", 1) for half in range(2)]
    for child in children:
        _, errors = child.communicate("go\n", timeout=120)
        assert child.returncode == 0, errors
    with open_archive(url) as archive:
        assert archive.catalog.count() == 20
    with TrajectoryIngestor(url) as ingestor:
        assert ingestor.ingest([tmp_path / "half-0", tmp_path / "half-1"]).ok
    with open_archive(url) as archive, TrajectoryRetriever(url) as retriever:
        assert archive.catalog.count() == 20
        (space,) = archive.catalog.spaces("active")
        assert archive.catalog.ledger_state(space.id)[0] == 20
        assert len(retriever.search_similar_episodes(episode(0, 3), 20)) == 20


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def test_the_command_line_takes_the_url_as_archive(url, paths, tmp_path, monkeypatch):
    hidden = url.replace("postgres@", "postgres:secret@")
    assert "12 new, 12 embedded" in run("ingest", str(tmp_path / "data"), "--archive", hidden)
    assert "secret" not in run("ingest", str(tmp_path / "data"), "--archive", hidden)
    monkeypatch.setenv("WSHARD_ARCHIVE", url)
    assert json.loads(run("ls", "--json", "--where", "env:task-1"))["total"] == 4
    assert run("tag", "good", "task-1-4").startswith("1 of 1 episodes")
    found = json.loads(run("search", str(paths[4]), "--json", "--where", "tag:good"))["hits"]
    assert [hit["episode_id"] for hit in found] == ["task-1-4"]
    np.testing.assert_allclose(found[0]["score"], 1.0, atol=1e-5)
    assert "ok" in run("index", "audit")
    assert "task-1" in run("sql", "SELECT env_id, count(*) FROM episode GROUP BY 1")
