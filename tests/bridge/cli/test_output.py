"""What commands print: JSON that every program reads, ids that can be copied."""

from __future__ import annotations

import json
import math

import pytest
from command_line import app
from typer.testing import CliRunner

from bridge.cli.output import print_files
from catalog.cli.common import print_table
from catalog.testing.contract import make_record
from wshard import Catalog
from wshard.cli.common import print_json


def strictly(text: str) -> object:
    def refuse(name: str) -> None:
        raise AssertionError(f"no JSON: {name}")

    return json.loads(text, parse_constant=refuse)


def test_json_knows_no_infinity(tmp_path):
    rewards = (math.inf, -math.inf, 1.5)
    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog:
        catalog.episodes.register([make_record(number, total_reward=reward) for number, reward in enumerate(rewards)])
    page = strictly(CliRunner().invoke(app, ["ls", "--json", "--archive", str(tmp_path)]).stdout)
    assert [row["total_reward"] for row in page["items"]] == [None, None, 1.5]
    (shown,) = strictly(
        CliRunner().invoke(app, ["show", "episode_000000", "--json", "--archive", str(tmp_path)]).stdout
    )["items"]
    assert shown["total_reward"] is None


def test_json_of_nested_values(capsys):
    print_json({"a": [math.nan, (1, {"b": -math.inf})], "c": "NaN", "d": True})
    assert strictly(capsys.readouterr().out) == {"a": [None, [1, {"b": None}]], "c": "NaN", "d": True}


@pytest.mark.parametrize("terminal", [False, True])
def test_ids_are_never_folded_or_cut(capsys, monkeypatch, terminal):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FORCE_COLOR" if terminal else "NO_COLOR", "1")
    long = "an-episode-with-a-name-" * 6
    print_table(("episode", ">length", "file"), [(long, "12", f"/data/{long}.wshard")])
    out = capsys.readouterr().out
    assert long in out
    assert f"/data/{long}.wshard" in out
    assert len(out.splitlines()) == 2


def test_files_with_the_same_message_take_one_line(capsys):
    print_files("failed", [(f"/{number}", "no lane" if number else "cut") for number in range(6)])
    assert capsys.readouterr().err == ("failed: /0: cut\nfailed: /1, /2, /3 and 2 more (--json lists all): no lane\n")
    print_files("failed", [(f"/{number}", "no lane") for number in range(3)])
    assert capsys.readouterr().err == "".join(f"failed: /{number}: no lane\n" for number in range(3))
    print_files("failed", [(f"/{number}", str(number // 4)) for number in range(88)])
    assert capsys.readouterr().err.endswith("(--json lists all): 19\nfailed: 8 more (--json lists all)\n")
