"""What commands print: JSON that every program reads, ids that can be copied."""

from __future__ import annotations

import json
import math

import pytest
from command_line import app
from typer.testing import CliRunner

from bridge.cli.output import print_files, print_notes
from bridge.cli.search import find_telling_texts
from catalog.cli.common import print_table
from catalog.testing.contract import make_record
from wshard import Catalog
from wshard.cli.common import print_json
from wshard.formats.layouts.named import guess_reference, table_reference
from wshard.formats.layouts.options import TableOptions

GUESS = 'layout = 1\ncontainer = "hdf5"\n[arrays]\n"act" = "action"\n"q*" = "observation"\n'


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
    print_files("failed", [(f"/{number}", "abcdefghijk"[number // 8]) for number in range(88)])
    assert capsys.readouterr().err.endswith("(--json lists all): h\nfailed: 24 more (--json lists all)\n")


def test_of_many_files_each_cause_takes_one_line_with_an_example(capsys):
    cut = [(f"/{number}", f"has {number} bytes, not 900") for number in range(6)]
    damaged = [(f"/{number}", f"block 'state/{number}': checksum 0x{number:x}") for number in range(6, 12)]
    print_files("failed", [*cut, *damaged, ("/12", "no lane")])
    assert capsys.readouterr().err == (
        "failed: /0, /1, /2 and 3 more (--json lists all): e.g. has 0 bytes, not 900\n"
        "failed: /6, /7, /8 and 3 more (--json lists all): e.g. block 'state/6': checksum 0x6\n"
        "failed: /12: no lane\n"
    )


def test_only_the_first_of_many_notes_are_printed(capsys):
    print_notes([str(number) for number in range(11)])
    assert capsys.readouterr().err.splitlines() == [*"01234567", "3 more such lines (--json lists all)"]


def test_paths_are_cut_before_what_only_a_line_says(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    reason = "3 of 118 timesteps have no number in state"
    place = f"recordings/{'of-monday/' * 4}arm-07.wshard"
    print_table(("episode", "check", ">score", "reason", "/file"), [("arm-07", "gaps", "1", reason, place)])
    _, line = capsys.readouterr().out.splitlines()
    assert reason in line
    assert line.endswith("07.wshard")
    assert len(line) <= 80
    longer = f"{reason}, and others"
    print_table(("episode", "check", ">score", "reason", "~file"), [("arm-07", "gaps", "1", longer, place)])
    head, line = capsys.readouterr().out.splitlines()
    assert line.endswith(longer)
    assert "file" not in head


HITS = {
    "labels": ([{"label": "fold"}, {"label": "pour"}, {"label": "fold"}], ["label"]),
    "tasks and labels": (
        [{"task": "a", "label": "x"}, {"task": "b", "label": "x"}, {"task": "b", "label": "y"}],
        ["task", "label"],
    ),
    "one label": ([{"label": "fold"}] * 3, []),
    "names of episodes": ([{"file": "1"}, {"file": "2"}, {"file": "3"}], []),
    "what env says": ([{"env_id": "a", "label": "x"}, {"env_id": "b", "label": "y"}], []),
    "numbers": ([{"speed": 1}, {"speed": 2}], []),
    "none": ([], []),
}


@pytest.mark.parametrize(("hits", "expected"), HITS.values(), ids=HITS)
def test_texts_that_tell_hits_apart_are_columns(hits, expected):
    assert find_telling_texts([{"env_id": "lab", **one} for one in hits]) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("lerobot", "lerobot"),
        (table_reference(TableOptions(episode="run")), "table (episodes by column 'run')"),
        (guess_reference(GUESS), "hdf5 as action=act, observation=q* (by guess)"),
        ("layout:guess?of%20another%20version", "layout:guess?of%20another%20version"),
    ],
)
def test_formats_are_shown_as_people_read_them_and_json_has_their_names(tmp_path, value, text):
    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog:
        catalog.episodes.register([make_record(0, format=value)])

    def printed(*arguments: str) -> str:
        done = CliRunner().invoke(app, [*arguments, "--archive", str(tmp_path)])
        assert done.exit_code == 0, done.output
        return done.stdout

    for verb in ("facets format", "ls --columns format", "stats length --by format"):
        assert printed(*verb.split()).splitlines()[1].partition("  ")[0] == text
    (facet,) = json.loads(printed("facets", "format", "--json"))["items"]
    assert facet["values"] == [{"value": value, "episodes": 1} | ({"text": text} if text != value else {})]
    name, mark, _ = value.partition("?")
    assert "1 of 1" in printed("ls", "-w", f"format:{name}{'?*' if mark else ''}")
