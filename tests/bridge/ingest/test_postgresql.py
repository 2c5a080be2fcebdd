"""An archive whose catalog is on a server: ingest, search, the command line, and several machines at once."""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pytest
from bridge_episodes import INGEST, assert_complete, copies, episode, ingest, save, spaces_of, start
from command_line import app
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool
from typer.testing import CliRunner

from bridge.archive import is_url
from bridge.graph.block_weights import BlockWeights
from bridge.maintenance import restore_archive
from bridge.search.ranking.query_vector import QueryVector
from bridge.search.ranking.stored_vectors import StoredVectors
from embedders import Space
from wshard import TrajectoryIngestor, TrajectoryRetriever, open_archive
from wshard import check_archive as check
from wshard import repair_archive as repair
from wshard.errors import CatalogNotFoundError, CatalogUnreachableError, CatalogWriteError

COMMAND = """
from bridge.cli.main import main
sys.argv[0] = "wshard"
main()
"""


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
        report = ingestor.ingest(tmp_path / "data", windows="whole")
        assert (report.new, report.embedded, report.ok) == (12, 12, True)
        assert ingestor.ingest(tmp_path / "data", windows="whole").unchanged == 12
    with TrajectoryRetriever(url) as retriever:
        hits = retriever.search_similar_episodes(episode(1, 4), 3)
        assert hits.exact
        assert [hits[0].episode_id, hits[0].file_path] == ["task-1-4", str(paths[4])]
        only = retriever.search_similar_episodes(episode(1, 4), 12, ["task-2"], where="reward:150..")
        assert {hit.metadata["env_id"] for hit in only} == {"task-2"}


def test_copies_of_vectors_are_in_the_cache_and_may_be_deleted(url, tmp_path):
    place = tmp_path / "cache"
    with open_archive(url, create=True) as archive:
        assert archive.place.index.is_relative_to(place)
        assert archive.place.name.startswith("postgresql+psycopg://postgres@/test_")
        assert not place.exists()
    with pytest.raises(CatalogNotFoundError, match="no archive at"):
        open_archive(tmp_path / "absent")
    assert is_url("http://host:8080")
    assert not is_url(url)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Return a folder of 60 short episodes, and the paths in it."""
    folder = tmp_path_factory.mktemp("many")
    return folder, save(folder, *(episode(number % 3, number, 8) for number in range(60)))


def ended(child):
    """Wait for a child process and return its exit code and what it said of errors."""
    errors = child.communicate(timeout=120)[1]
    return child.returncode, errors


@contextmanager
def stored(url):
    """Hold the write lock of a catalog; gives a function that waits until so many others want it."""
    with open_archive(url) as archive, archive.catalog._session.write():

        def wanted(count):
            query = f"SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted LIMIT {count}"
            while len(archive.catalog.query.sql(query).rows) < count:
                time.sleep(0.05)

        yield wanted


@pytest.mark.long
def test_two_processes_ingest_the_same_folder_at_once(url, many):
    folder, paths = many
    open_archive(url, create=True).close()
    children = [start(INGEST, url, folder, 1) for _ in range(2)]
    assert [ended(child) for child in children] == [(0, "")] * 2
    assert_complete(url, paths)


@pytest.mark.long
def test_one_of_two_ingests_is_killed_and_the_next_run_finishes_its_work(url, many):
    folder, paths = many
    ingest(url, *paths[:15])
    with open_archive(url) as archive:
        archive.catalog.annotations.tag(archive.catalog.query.ids(), "good")
    with stored(url) as wanted:
        victim, other = (start(INGEST, url, place, 1) for place in (folder, folder / "task-1"))
        wanted(2)
        victim.kill()
    victim.communicate()
    assert ended(other) == (0, "")
    assert ingest(url, folder).ok
    assert_complete(url, paths)
    with open_archive(url) as archive:
        assert archive.catalog.query.count("tag:good") == 15
        assert check(archive).ok


@pytest.mark.long
def test_a_server_that_is_restarted_ends_an_ingest_in_one_line_and_the_next_run_finishes(server, url, many):
    folder, paths = many
    ingest(url, *paths[:15])
    with open_archive(url) as archive:
        try:
            with pytest.raises(CatalogUnreachableError, match="committed is safe"), stored(url) as wanted:  # noqa: PT012  (the end of the block raises)
                child = start(COMMAND, "ingest", folder, "-a", url)
                wanted(1)
                server.stop()
            code, errors = ended(child)
            line = errors.splitlines()[-1]
            assert (code, "Traceback" in errors) == (1, False)
            assert line.startswith("error: cannot use the catalog at postgresql+psycopg://")
            assert "is it running" in line
            assert "try again when it is back" in line
            for what in (check, repair):
                with pytest.raises(CatalogUnreachableError, match="What was committed is safe"):
                    what(archive)
        finally:
            server.start()
        assert check(archive).ok
    assert ingest(url, folder).ok
    assert_complete(url, paths)


@pytest.mark.long
def test_copies_of_what_came_after_a_dump_do_not_count_once_it_is_restored(server, url, paths, tmp_path):
    """The ledger's numbers are given again, to other episodes."""
    ingest(url, *paths[:10])
    server.dump(url, tmp_path / "dump")
    ingest(url, paths[10])
    assert copies(url)
    server.restore(url, tmp_path / "dump")
    (other,) = save(tmp_path / "data", episode(1, 40))
    ingest(url, other)
    assert len(spaces_of(url, "retired")) == 0
    assert_complete(url, [*paths[:10], other])


def test_a_program_that_keeps_an_archive_open_notices_that_it_was_restored(product, place, request, paths, tmp_path):
    """As above, with the numbers that it holds in memory."""
    known, gone, other = paths[:10], paths[10], save(tmp_path / "other", episode(1, 40))[0]
    ingest(place, *known)
    file = tmp_path / "saved"
    if product == "sqlite":
        with open_archive(place) as archive:
            archive.catalog.maintenance.back_up(file)
    else:
        request.getfixturevalue("server").dump(place, file)
    ingest(place, gone)
    with TrajectoryRetriever(place) as retriever, open_archive(place) as archive:
        assert retriever.search_similar_episodes(gone, 1)[0].file_path == str(gone)
        before = archive.catalog.instant()
        stored, (row,) = StoredVectors(archive), archive.catalog.vectors.spaces()
        space = Space.from_json(row.definition)
        none = np.zeros((0, space.dim), np.float32)
        query = QueryVector(space, np.eye(space.dim, dtype=np.float32)[0], none, BlockWeights())
        stored.background(query)
        if product == "sqlite":
            restore_archive(file, place, force=True)
        else:
            request.getfixturevalue("server").restore(place, file)
        ingest(place, other)
        after = archive.catalog.instant()
        assert (after.clock, after.history == before.history) == (before.clock, False)
        hits = retriever.search_similar_episodes(other, 20)
        assert {hit.file_path for hit in hits} == {str(path) for path in (*known, other)}
        assert [hits[0].file_path, round(hits[0].score, 5)] == [str(other), 1.0]
        assert stored.background(query) == StoredVectors(archive).background(query)


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
    assert run("tag", "good", "task-1-4") == "tag good added to 1 of 1 episodes\n"
    found = json.loads(run("search", str(paths[4]), "--json", "--where", "tag:good"))["items"]
    assert [hit["episode_id"] for hit in found] == ["task-1-4"]
    np.testing.assert_allclose(found[0]["score"], 1.0, atol=1e-5)
    assert "ok" in run("index", "audit")
    assert "task-1" in run("sql", "SELECT env_id, count(*) FROM episode GROUP BY 1")
    run("ingest", str(tmp_path / "data"), "--windows", "both", "--no-check")
    (span,) = json.loads(run("moments", str(paths[4]), "--from", "5", "--to", "20", "-k", "1", "--json"))["items"]
    assert (span["episode_id"], span["span"]) == ("task-1-4", [5, 20])
    assert "nothing found that is certain" in run("check")
    assert "1.000" in run("evaluate", "--label", "env")
    assert "12 episodes checked: no problems found" in run("fsck", "--data")
    refused = CliRunner().invoke(app, ["restore", "x"])
    assert (refused.exit_code, "expected a backup at" in refused.stderr) == (1, True)


def test_who_may_only_read_searches_and_is_reported_what_they_may_not(server, url, paths, tmp_path, monkeypatch):
    ingest(url, tmp_path / "data")
    server.run("CREATE ROLE reader LOGIN", "GRANT pg_read_all_data TO reader")
    try:
        monkeypatch.setenv("WSHARD_ARCHIVE", url.replace("postgres@", "reader@"))
        assert "task-1-4" in run("search", str(paths[4]))
        assert "no problems found" in run("fsck")
        refused = CliRunner().invoke(app, ["tag", "good", "task-1-4"])
        assert (refused.exit_code, "or may not" in refused.stderr) == (1, True)
    finally:
        server.run("DROP ROLE reader")


@contextmanager
def roles_of_the_page(url):
    """Run the statements of docs/share.md in a database; yield its URL for each role."""
    page = (Path(__file__).resolve().parents[3] / "docs/share.md").read_text()
    names = ("reader", "curator", "ingestor")
    with create_engine(url, poolclass=NullPool).begin() as connection:
        connection.exec_driver_sql(page.partition("```sql\n")[2].partition("```")[0])
    yield {name: url.replace("postgres@", f"{name}@") for name in names}
    with create_engine(url, poolclass=NullPool).begin() as connection:
        for name in names:
            connection.exec_driver_sql(f"DROP OWNED BY {name}; DROP ROLE {name}")


def test_roles_may_do_what_the_page_says(server, paths, tmp_path, monkeypatch):
    monkeypatch.setenv("WSHARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{server.process.bin_path}:{os.environ['PATH']}")
    url, data = server.empty(), tmp_path / "data"
    with TrajectoryIngestor(url) as ingestor:
        ingestor.ingest(paths[:6], windows="whole")
    with roles_of_the_page(url) as roles:
        for name, role in roles.items():
            with open_archive(role) as lab, TrajectoryIngestor(lab) as ingestor:
                assert lab.search(paths[1])[0].episode_id == "task-1-1"
                assert lab.catalog.maintenance.back_up(tmp_path / f"{name}.dump")
                one = lab.catalog.query.ids()[:1]
                with pytest.raises(CatalogWriteError) if name == "reader" else nullcontext():
                    lab.catalog.annotations.tag(one, name)
                    lab.catalog.annotations.add_note(one, "a note", who=name)
                    lab.catalog.annotations.review(one, "accepted", who=name)
                    lab.catalog.annotations.set_scores("grasp", {one[0]: 0.5})
                    lab.catalog.annotations.add_lineage(one, "edited", name)
                    lab.catalog.collections.save_snapshot(name, f"tag:{name}")
                assert lab.catalog.query.count(f"tag:{name} lineage.edited:{name}") == (name != "reader")
                with pytest.raises(CatalogWriteError) if name != "ingestor" else nullcontext():
                    assert ingestor.ingest(data).new == 6
                    paths[0].unlink()
                    assert ingestor.ingest(data, prune=True).removed == 1
                assert lab.catalog.query.count() == (11 if name == "ingestor" else 6)
