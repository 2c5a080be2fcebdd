"""The verb cache: texts and exit codes."""

from __future__ import annotations

import json

import typer
from typer.testing import CliRunner

from wshard.cli.cache import cache
from wshard.core.files.disk_cache import objects_folder, write_blocks

app = typer.Typer()
app.command()(cache)


def run(*arguments: str):
    done = CliRunner().invoke(app, [*arguments])
    return done.exit_code, " ".join(done.output.split())


def test_the_cache_is_shown_and_cleared(tmp_path, monkeypatch):
    monkeypatch.setenv("WSHARD_CACHE", str(tmp_path / "c"))
    monkeypatch.setenv("WSHARD_CACHE_SIZE", "20 GB")
    where = objects_folder()
    write_blocks(("s3://lab/a", '"one"', 10**6), {number: bytes(10**5) for number in range(3)})
    for show in ([], ["--size"]):
        assert run(*show) == (0, f"3 blocks, 0.3 MB of at most 20,000.0 MB in {where}")
    found = {"folder": str(where), "removed": False, "limit": 20 * 10**9, "blocks": 3, "size": 300_048}
    assert json.loads(run("--json")[1]) == found
    assert run("--clear") == (0, f"removed 3 blocks, 0.3 MB in {where}")
    assert not where.exists()
    assert json.loads(run("--clear", "--json")[1]) == {**found, "removed": True, "blocks": 0, "size": 0}
    assert run("--size", "--clear")[0] == 2
    monkeypatch.setenv("WSHARD_CACHE_SIZE", "much")
    code, text = run()
    assert (code, "WSHARD_CACHE_SIZE: expected a size" in text) == (2, True)
