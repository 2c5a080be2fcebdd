"""Servers that do not answer, answer too late, or are none of DeepData's: what is said, and when searches give up."""

from __future__ import annotations

import socket
import subprocess
import sys
import time

import pytest
from bridge_episodes import command
from deepdata_bench import filled
from deepdata_fake import Fake
from deepdata_replay import serving

from bridge.index.deepdata.api_versions import connect
from bridge.index.deepdata.http import Call, Wire
from bridge.index.deepdata.index import DeepDataIndex
from bridge.index.deepdata.rate_limit import Throttle
from bridge.index.deepdata.settings import Settings
from bridge.testing.brute_force import unit_vectors
from bridge.testing.index_contract import top
from wshard import TrajectoryRetriever, save_wshard
from wshard.errors import IndexUnreachableError
from wshard.testing import make_episode

__all__ = ["filled"]


@pytest.fixture
def hanging():
    """Give the address of a server that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def archive(tmp_path):
    save_wshard(make_episode(1), tmp_path / "ep.wshard")
    assert command("ingest", "ep.wshard", "-a", "archive", folder=tmp_path).exit_code == 0
    return tmp_path


def test_a_server_that_hangs_holds_a_search_as_long_as_its_time_limit_allows(hanging, archive, caplog):
    begun = time.monotonic()
    with (
        TrajectoryRetriever(f"{hanging}?timeout=2.5", archive=archive / "archive") as retriever,
        pytest.raises(IndexUnreachableError, match=r"no answer from http://127.* to GET /v2/collections within 2\.5 s"),
    ):
        retriever.search_similar_episodes(make_episode(1))
    assert 2.4 < time.monotonic() - begun < 6
    (said,) = [record.getMessage() for record in caplog.records if record.name == "bridge.support.waiting"]
    assert said == f"waiting for {hanging}: no answer yet to GET /v2/collections"


@pytest.mark.long
def test_the_command_line_says_after_two_seconds_that_it_waits_and_gives_up_when_it_should(hanging, archive):
    line = [
        sys.executable,
        "-c",
        "from bridge.cli.entry import main; main()",
        "search",
        "ep.wshard",
        "-a",
        "archive",
        "--index",
        hanging,
    ]
    done = subprocess.run(
        [*line, "--timeout", "3"], cwd=archive, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    waiting, error = done.stderr.splitlines()
    assert waiting == f"waiting for {hanging}: no answer yet to GET /v2/collections"
    assert error == f"error: no answer from {hanging} to GET /v2/collections within 3 s"


@pytest.mark.long
def test_endless_refusals_are_reported_and_end_with_the_time_limit(filled, caplog):
    filled.check()
    filled.fake.rpm = 0
    slow = DeepDataIndex(filled.catalog, filled.folder / "index", Settings(filled.url, rpm=0, timeout=3.0))
    filled.opened.append(slow)
    begun = time.monotonic()
    with pytest.raises(IndexUnreachableError, match="429: rate limited"):
        slow.search(filled.space, unit_vectors(1)[0], top(1))
    assert time.monotonic() - begun < 3.5
    hurried = Throttle(0, sleep=lambda _: time.sleep(1.6))
    with Wire(Settings(filled.url, rpm=0), throttle=hurried) as wire, pytest.raises(IndexUnreachableError, match="429"):
        wire.send(Call("GET", "/v2/collections"))
    assert [record.getMessage() for record in caplog.records if record.name == "bridge.support.waiting"] == [
        f"waiting for {filled.url}: it refuses requests (429, rate limited), usually for up to a minute"
    ]


def test_a_limit_of_ones_own_is_not_waited_for_longer_than_a_search_may_take():
    with serving(Fake().respond) as server, Wire(Settings(server.url, rpm=2)) as wire:
        for _ in range(2):
            wire.send(Call("GET", "/v2/collections"))
        with wire.within(0.5), pytest.raises(IndexUnreachableError, match=r"within 0\.5 s"):
            wire.send(Call("GET", "/v2/collections"))


@pytest.mark.parametrize("status", [200, 404, 403, 502])
def test_a_web_server_is_not_a_deepdata_server_in_one_line(status):
    page = b"<!DOCTYPE HTML>\n<html>\n<head><title>Welcome</title></head>\n</html>\n"
    with serving(lambda *_: (status, {"Content-Type": "text/html"}, page)) as server:
        settings = Settings(server.url, rpm=0)
        with Wire(settings) as wire, pytest.raises(IndexUnreachableError) as caught:
            connect(wire, settings)
    assert str(caught.value) == (
        f"no DeepData server at {server.url}: GET /v2/collections was answered with {status} and a page for browsers"
    )


@pytest.mark.parametrize(
    ("status", "body"), [(200, b'{"hello": "world"}'), (200, b"hello"), (404, b"404 page\nnot found\n")]
)
def test_another_programs_answer_is_none_of_a_deepdata_server(status, body):
    with serving(lambda *_: (status, {"Content-Type": "text/plain"}, body)) as server:
        settings = Settings(server.url, rpm=0)
        with (
            Wire(settings) as wire,
            pytest.raises(IndexUnreachableError, match=f"no DeepData server at {server.url}: ") as caught,
        ):
            connect(wire, settings)
    assert "\n" not in str(caught.value)


def test_a_time_limit_wants_an_index(archive):
    done = command("search", "ep.wshard", "-a", "archive", "--timeout", "3", folder=archive)
    assert done.exit_code == 2
    assert "--timeout requires --index" in done.stderr
