"""Ingestor, retriever and command line on a server, as a user meets them: a process that can be killed."""

# ruff: noqa: S106 -- invented tokens

from __future__ import annotations

import json
import signal
from functools import partial

import pytest
from bridge_episodes import command
from deepdata_fake import Fake
from deepdata_process import Process
from deepdata_replay import serving

from wshard import TrajectoryIngestor, TrajectoryRetriever, save_wshard
from wshard.errors import IndexAccessError, IndexUnreachableError, IndexWarning, UnknownIndexError
from wshard.testing import make_episode


@pytest.fixture
def server(tmp_path):
    with Process(tmp_path / "server") as made:
        yield made


@pytest.fixture
def episodes(tmp_path):
    folder = tmp_path / "episodes"
    folder.mkdir()
    for seed in range(12):
        save_wshard(make_episode(seed, T=30 + seed, env_id=("reach", "push")[seed % 2]), folder / f"ep_{seed}.wshard")
    return folder


def found(target, archive, query, **options: object):
    with TrajectoryRetriever(target, archive=archive) as retriever:
        hits = retriever.search_similar_episodes(query, **options)
        return [(hit.uid, hit.score) for hit in hits]


def test_the_server_answers_as_the_embedded_index_does(server, episodes, tmp_path):
    archive = tmp_path / "archive"
    with TrajectoryIngestor(server.url, archive=archive) as ingestor:
        report = ingestor.ingest(episodes, windows="whole")
        assert (report.new, report.embedded, report.ok) == (12, 12, True)
        ids = ingestor.ingest_timesteps(episodes / "ep_3.wshard", window_size=8, stride=4)
        assert len(ids) > 3
    query = make_episode(5, T=35)
    for options in ({}, {"env_id": "push"}, {"min_length": 35, "top_k": 3}, {"reward_range": (None, 1e9)}):
        assert found(server.url, archive, query, **options) == found(archive, None, query, **options)
    with TrajectoryRetriever(server.url, archive=archive) as retriever:
        (moment,) = retriever.search_similar_timesteps(make_episode(3, T=33), top_k=1)
    assert moment.file_path.endswith("ep_3.wshard")


def test_a_token_is_taken_from_the_argument_the_url_and_the_environment(episodes, tmp_path, monkeypatch):
    archive, query = tmp_path / "archive", make_episode(5, T=35)
    fake = Fake(auth="token:right")
    with serving(fake.respond) as running:
        plain, inside = f"{running.url}?rpm=0", running.url.replace("//", "//right@") + "?rpm=0"
        with TrajectoryIngestor(plain, archive=archive, token="right") as ingestor:
            assert ingestor.ingest(episodes, windows="whole").ok
        assert len(fake.tenants["default"]) == 1
        right = found(archive, None, query)
        assert found(inside, archive, query) == right
        monkeypatch.setenv("DEEPDATA_TOKEN", "right")
        assert found(plain, archive, query) == right
        with (
            TrajectoryRetriever(inside, archive=archive, token="wrong") as retriever,
            pytest.raises(IndexAccessError, match=r"401: unauthorized.*does not suffice: set DEEPDATA_TOKEN"),
        ):
            retriever.search_similar_episodes(query)
        monkeypatch.delenv("DEEPDATA_TOKEN")
        with pytest.raises(IndexAccessError, match=r"401: unauthorized.*\(no token was given: set DEEPDATA_TOKEN"):
            found(plain, archive, query)
    with pytest.raises(UnknownIndexError, match="found the embedded index"):
        TrajectoryRetriever(archive, token="right")


def test_a_dead_server_delays_and_loses_nothing(server, episodes, tmp_path):
    archive, query = tmp_path / "archive", make_episode(5, T=35)
    server.end(signal.SIGKILL)
    with TrajectoryIngestor(server.url, archive=archive) as ingestor:
        report = ingestor.ingest(episodes, windows="whole")
        assert (report.embedded, report.failed, report.ok) == (12, [], False)
        assert "no answer from http://127.0.0.1" in str(report.delayed)
        with pytest.warns(IndexWarning, match="safe in the catalog"):
            ingestor.ingest_episode(episodes / "ep_1.wshard", windows="whole")
    with pytest.raises(IndexUnreachableError):
        found(server.url, archive, query)
    server.start()
    assert found(server.url, archive, query) == found(archive, None, query), "from the ledger, meanwhile"
    with TrajectoryIngestor(server.url, archive=archive) as ingestor:
        assert ingestor.ingest(episodes, windows="whole").ok
    server.end(signal.SIGTERM)
    server.start()
    assert found(server.url, archive, query) == found(archive, None, query)


def test_episodes_that_change_or_go_do_so_on_the_server(server, episodes, tmp_path):
    archive = tmp_path / "archive"
    with TrajectoryIngestor(server.url, archive=archive) as ingestor:
        ingestor.ingest(episodes, windows="whole")
        (episodes / "ep_0.wshard").unlink()
        save_wshard(make_episode(99, T=50, env_id="other"), episodes / "ep_1.wshard")
        report = ingestor.ingest(episodes, prune=True, windows="whole")
        assert (report.removed, report.changed, report.ok) == (1, 1, True)
    query = make_episode(99, T=50)
    assert len(found(server.url, archive, query, top_k=50)) == 11
    (only,) = found(server.url, archive, query, env_id="other")
    assert only[1] == pytest.approx(1.0)


def test_the_command_line_audits_rebuilds_and_copies(server, episodes, tmp_path):
    run = partial(command, folder=tmp_path)

    done = run("ingest", episodes, "--index", server.url, "--windows", "whole")
    assert done.exit_code == 0, done.stderr
    assert run("index", "audit", "--index", server.url, "--full").exit_code == 0
    assert run("index", "audit").exit_code == 0, "the embedded index is complete at all times"
    server.end(signal.SIGKILL)
    done = run("index", "audit", "--index", server.url)
    assert done.exit_code == 1
    assert "no answer" in done.stderr
    server.start()
    done = run("index", "audit", "--index", server.url, "--json")
    (state,) = json.loads(done.stdout)["items"]
    assert (done.exit_code, state["ok"], state["state"], state["ledger"]) == (1, False, "lost", 12)
    assert "ingest again to catch up" in done.stderr
    done = run("index", "rebuild", "--index", server.url)
    assert done.exit_code == 0, done.stderr
    done = run("index", "copy", "--from", server.url, "--to", f"{server.url.partition('?')[0]}/second?rpm=0", "--json")
    assert [(row["read"], row["vectors"]) for row in json.loads(done.stdout)["items"]] == [(12, 12)], done.stderr
    done = run("index", "copy", "--to", f"{server.url.partition('?')[0]}/third?rpm=0")
    assert done.stdout.split()[:5] == ["read", "vectors", "space", "12", "12"]
    assert run("index", "rebuild").exit_code == 0
    done = run("search", episodes / "ep_5.wshard", "--index", server.url, "--top", 2)
    assert "2 hits, exact" in done.stdout  # so few vectors are compared here
    assert done.stdout.splitlines()[1].split()[:2] == ["1", "1.0000"]


def test_a_delayed_ingest_says_so_and_exits_with_1(server, episodes, tmp_path):
    server.end(signal.SIGKILL)
    done = command("ingest", episodes, "--index", server.url, folder=tmp_path)
    assert done.exit_code == 1
    assert "12 new, 12 embedded" in done.stdout
    assert "index delayed: no answer" in done.stderr
    assert "safe in the catalog" in done.stderr
