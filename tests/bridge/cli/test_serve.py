"""`wshard serve` prints a link that works, ends cleanly, and refuses to be reached by others without accounts."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import signal
import subprocess
import sys
import time

import httpx
import pytest
from command_line import app as commands
from typer.testing import CliRunner
from web_app import make_archive, need_pages

from bridge.web import application, server


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return make_archive(tmp_path_factory.mktemp("serve"), 2)


def test_the_link_works_and_ctrl_c_ends_it(place, tmp_path):
    need_pages()
    token = secrets.token_urlsafe()
    accounts = tmp_path / "accounts"
    accounts.write_text(f"# name role sha256\nann reader {hashlib.sha256(token.encode()).hexdigest()}\n")
    for more in ((), ("--auth", str(accounts))):
        arguments = ["serve", str(place), "--port", "0", "--no-open", *more]
        call = f"import sys; sys.argv = ['wshard', *{arguments!r}]; from bridge.cli.entry import main; main()"
        with subprocess.Popen(
            [sys.executable, "-c", call], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
        ) as server:
            link = server.stdout.readline().strip()
            assert re.match(r"http://127\.0\.0\.1:\d+/", link), server.stderr.read() if server.poll() else link
            base = link.partition("/?")[0].rstrip("/")
            with httpx.Client(base_url=base, follow_redirects=True) as browser:
                if more:
                    assert "token=" not in link
                    assert browser.get("/api/state", headers={"authorization": "Bearer wrong"}).status_code == 401
                    assert browser.post("/login", json={"token": "wrong"}).status_code == 401
                    assert browser.post("/login", json={"token": token}).status_code == 200
                    given = browser.get("/api/state", headers={"authorization": f"Bearer {token}"}).json()
                    assert (given["account"], given["role"]) == ("ann", "reader")
                else:
                    assert browser.get(link).status_code == 200
                assert browser.get("/api/episodes").json()["total"] == 2
            for _ in range(3 if more else 1):  # a second Ctrl-C ends it at once, and quietly
                server.send_signal(signal.SIGINT)
                time.sleep(0.01)  # the system joins signals that come at once
            server.wait(timeout=20)
            out, err = server.stdout.read(), server.stderr.read()
        assert err == ""
        if more:
            assert server.returncode in (0, -signal.SIGINT)
        else:
            assert server.returncode == 0
            assert out.splitlines() == ["Ctrl-C stops it", "stopped"]


def invoke(*arguments: str):
    return CliRunner().invoke(commands, ["serve", *arguments])


def test_other_machines_need_accounts(place):
    refused = invoke(str(place), "--host", "0.0.0.0", "--no-open")  # noqa: S104  (it is refused)
    assert refused.exit_code == 2
    assert "--auth" in refused.output


def test_what_is_missing_is_stated_in_one_line(place, tmp_path, monkeypatch):
    assert "no archive at" in invoke(str(tmp_path / "none"), "--no-open").output
    bad = tmp_path / "accounts"
    bad.write_text("ann boss 12\n")
    printed = invoke(str(place), "--auth", str(bad), "--no-open").output
    assert re.search(r"line\W+1", printed)  # the box may break it between the words
    monkeypatch.setattr(application, "are_pages_built", lambda _folder: False)
    unbuilt = invoke(str(place), "--port", "0", "--no-open")
    assert unbuilt.exit_code == 1
    assert "make web" in unbuilt.output
    assert len(unbuilt.output.splitlines()) == 1
    for name in ("starlette", "uvicorn"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in [name for name in sys.modules if name.startswith("bridge.web.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("bridge.web.server")
    bare = invoke(str(place), "--no-open")
    assert "pip install 'wshard[web]'" in bare.output


def test_a_new_token_comes_with_its_hash():
    printed = re.fullmatch(r"token:  (\S+)\nsha256: (\w{64})\n", invoke("--new-token").output)
    assert hashlib.sha256(printed[1].encode()).hexdigest() == printed[2]


def test_show_opens_the_page_of_an_episode_at_a_span(place, monkeypatch):
    need_pages()
    requested = []
    monkeypatch.setattr(server, "serve", lambda named, options, report: requested.append((str(named), options, report)))
    printed = CliRunner().invoke(commands, ["show", "arm-01@20:60", "--open", "--archive", str(place)])
    assert printed.exit_code == 0, printed.output
    ((named, options, _),) = requested
    assert named == str(place)
    assert re.fullmatch(r"/episodes/\w{32}\?span=20:60", options.path)
    assert (options.port, options.opened, options.host) == (0, True, "127.0.0.1")
    assert CliRunner().invoke(commands, ["show", "arm-00", "arm-01", "--open", "--archive", str(place)]).exit_code == 2
