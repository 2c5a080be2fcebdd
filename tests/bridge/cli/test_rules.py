"""What holds for every verb of the command line: -h, exit codes, the shape of JSON, rows of one line, the archive."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bridge_episodes import command, save
from rich.cells import cell_len
from terminal import on_a_terminal

import bridge.cli.main
from catalog.location import archive_named
from catalog.testing.contract import make_record
from wshard import Catalog
from wshard.testing import make_episode

NAME = "session-2026-03-01-recorded-in-the-morning"
ENV = "button-press-topdown-wall-v3"
FILE = f"data/{ENV}/{NAME}-1.wshard"


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """Make a folder with episodes of long names, one twice, one frozen, one gone, and their archive in ./.wshard."""
    folder = tmp_path_factory.mktemp("home")
    for number in range(6):
        episode = make_episode(number, T=40 + number, env_id=ENV)
        episode.id = f"{NAME}-{number}"
        if number == 5:
            episode.observations["joint_pos"].data[:] = 0.5  # `check` finds it
        save(folder / "data", episode)
    again = make_episode(1, T=41, env_id=ENV)
    again.id = f"{NAME}-1-again"
    (copy,) = save(folder / "data", again)
    copy.rename(copy.with_name("again.wshard"))
    assert command("ingest", "data", "--windows", "both", folder=folder).exit_code == 0
    assert command("collection", "save", "everything", "-w", "", folder=folder).exit_code == 0
    (folder / f"data/{ENV}/{NAME}-4.wshard").unlink()  # `fsck` finds it
    return folder


def verbs(whole=None, names=()):
    """Yield (names, command) of all verbs."""
    whole = whole or bridge.cli.main.command()
    yield names, whole
    for name, inner in getattr(whole, "commands", {}).items():
        yield from verbs(inner, (*names, name))


# ---- help and completion --------------------------------------------------------------------------------------------


def test_every_verb_has_a_short_option_for_help(capsys):
    whole = bridge.cli.main.command()
    for names, _ in verbs(whole):
        with pytest.raises(SystemExit) as ended:
            whole([*names, "-h"], prog_name="wshard")
        assert ended.value.code == 0, names
        assert " ".join(("Usage: wshard", *names)) in " ".join(capsys.readouterr().out.split())


def test_a_verb_that_is_made_alone_is_the_one_among_all():
    everything = bridge.cli.main.command()
    for name, verb in everything.commands.items():
        ((alone, made),) = bridge.cli.main.command(name).commands.items()
        assert alone == name
        assert [option.opts for option in made.params] == [option.opts for option in verb.params]
        assert {*getattr(made, "commands", ())} == {*getattr(verb, "commands", ())}
    assert {*bridge.cli.main.command("nosuch").commands} == {*everything.commands}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("wshard collection sp", ["split"]),
        ("wshard search --min", ["--min-length", "--min-score"]),
    ],
)
def test_a_shell_completes_verbs_and_options(words, expected):
    requested = {"_WSHARD_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    done = subprocess.run(
        [Path(sys.executable).with_name("wshard")],
        env={**os.environ, **requested},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == expected


PYTHON = re.compile(
    r"\w=(True|False|\[|'|\.\.\.)|\b\w+\((?!s\))\w*[=)\[{]|\b[a-z]+_[a-z_]+( >=|:| must|=)|open_archive|None"
)
"""What no user of the command line types."""


# ---- exit codes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("ls", 0),
        ("nosuch", 2),
        ("ls --nosuch", 2),
        ("ls --limit 0", 2),
        ("ls --where nosuch:1", 2),
        ("ls --where env:(", 2),
        ("ls --sort nosuch", 2),
        ("ls --columns nosuch", 2),
        ("ls --after nosuch", 2),
        ("ls --reward a:b", 2),
        ("ls --archive http://host", 2),
        ("ls --archive postgresql://u:p@host:notaport/db", 2),
        ("ls --archive nosuch", 1),
        ("show nosuch", 1),
        ("show", 2),
        ("facets nosuch", 2),
        ("facets --histogram env", 2),
        ("stats env", 2),
        ("sql SELEC", 1),
        ("search", 2),
        ("search nosuch", 1),
        ("search {0} --span 9", 2),
        ("search {0} --span 900:", 1),
        ("search {0} --windows nosuch", 2),
        ("search {0} --embedder nosuch", 2),
        ("search {0} --index nosuch://host", 2),
        ("search {0} --lanes nosuch", 1),
        ("search {0} --lanes state=x", 2),
        ("moments {0} --from 9 --to 3", 2),
        ("moments {0} --from 900", 1),
        ("train-embedder out.npz --windows nosuch", 2),
        ("check --limits nosuch", 1),
        ("check nosuch", 1),
        ("select --count 3 --method nosuch", 2),
        ("weights --target env:a --clip 0.5", 2),
        ("leaks env:nobody env:nobody", 1),
        ("outliers --space nosuch", 1),
        ("evaluate --label nosuch", 1),
        ("tag good", 2),
        ("tag good nosuch", 1),
        ("collection show nosuch", 1),
        ("collection split everything --fractions a", 2),
        ("collection split everything --fractions a=0.5", 2),
        ("collection split everything --by nosuch", 2),
        ("export-list everything --to list.xlsx", 2),
        ("index drop nosuch --yes", 1),
        ("index audit --index nosuch", 2),
        ("ingest", 2),
        ("ingest nosuch", 1),
        ("ingest {0} --windows nosuch", 2),
        ("restore nosuch", 1),
        ("layout guess nosuch", 1),
        ("layout guess", 2),
        ("layout show nosuch", 1),
        ("inspect nosuch", 1),
        ("verify nosuch", 1),
        ("verify .wshard", 1),
        ("cat {0} nosuch", 1),
        ("cat {0} reward --output x.png", 2),
        ("recover nosuch.partial --compression nosuch", 2),
        ("recover nosuch.partial", 1),
        ("convert {0} x.wshard --compression nosuch", 2),
        ("convert {0} x.npz --to nosuch", 2),
        ("convert nosuch x.npz", 1),
        ("export {0} -f wshard", 2),
        ("ls --reward 5:1", 2),
        ("search {0} --distinct", 2),
        ("search {0} --top 0", 2),
        ("search {0} --max-per-env 0", 2),
        ("search {0} --windows-only --windows whole", 1),
        ("search --unlike {0}", 2),
        ("moments", 2),
        ("moments --unlike {0}", 2),
        ("moments {0} --per-episode 0", 2),
        ("ingest {0} --workers 0", 2),
        ("ingest {0} --executor nosuch", 1),
        ("ingest {0} --text-encoder nosuch", 1),
        ("ingest {0} --encoder nosuch", 1),
        ("check --workers 0", 2),
        ("duplicates --within=-1", 2),
        ("outliers --neighbors 0", 2),
        ("select --count 0", 2),
        ("probe", 2),
        ("train-embedder out.npz --where env:nobody", 1),
        ("collection union x nosuch nosuch", 1),
        ("collection save x --where env:nobody", 1),
        ("convert {0} x --format nosuch", 2),
        ("shardify {0} --to x --stride 0", 2),
        ("cat {0} nosuch --span 9:", 1),
    ],
)
def test_a_wrong_usage_is_2_and_any_other_failure_1(home, line, code):
    done = command(*line.format(FILE).split(), folder=home)
    assert done.exit_code == code, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert "Traceback" not in done.output
    assert not PYTHON.search(done.output), f"an error of the command line speaks Python: {done.output}"


def test_what_needs_a_yes_fails_without_it(home):
    space = json.loads(command("index", "spaces", "--json", folder=home).stdout)["items"][0]["space"]
    assert command("index", "drop", space, folder=home).exit_code == 1


# ---- JSON -----------------------------------------------------------------------------------------------------------

REPORTS = {
    "pack data",
    "shardify data",
    "probe --right {0}",
    "unpack data",
    "ingest data",
    "watch",
    "cache",
    "doctor",
    "inspect {0}",
    "repair {0}",
    "train-embedder",
    "annotations import",
    "archive copy",
}
_FOUND = {"ranked_by", "certainty", "compared", "not_compared"}
LISTS = {
    "ls -n 3": {"next"},
    "show {0} {0}": set(),
    "facets env length --histogram length": {"histograms"},
    "stats": set(),
    "sql SELECT/**/1": {"columns", "more"},
    "search {0}": {*_FOUND, "missing", "exact", "milliseconds", "spaces", "others", "notes"},
    "moments {0}@5:20": {*_FOUND, "missing", "exact", "milliseconds", "spaces", "others", "notes"},
    "evaluate --label env": set(),
    "check": {"checked", "compared", "flagged", "unread"},
    "duplicates": {"episodes", "spaces", "pieces", "closest", "alone", "unread"},
    "leaks everything everything": {"episodes", "leaked", "spaces", "pieces", "closest", "alone", "unread"},
    "outliers --neighbors 2": set(),
    "select --count 2": set(),
    "weights --target everything": set(),
    "mislabeled --label env --neighbors 2": set(),
    "review ok {0}": {"episodes"},
    "fsck": {"episodes", "done", "failed"},
    "health": set(),
    "verify data": {"failed", "unread"},
    "formats": set(),
    "layout list": set(),
    "collection ls": set(),
    "collection show everything": {"gone", "query", "lineage"},
    "collection diff everything everything": {"added", "removed", "reweighted"},
    "index spaces": set(),
    "index audit": set(),
    "index rebuild": set(),
    "index copy --to embedded:": set(),
}


def test_every_verb_with_json_is_a_list_or_a_report():
    able = {" ".join(names) for names, verb in verbs() if any("--json" in option.opts for option in verb.params)}
    known = {
        " ".join(line.split()[: 1 + line.startswith(("annotations", "archive", "collection", "index", "layout"))])
        for line in (*REPORTS, *LISTS)
    }
    assert able == known


@pytest.mark.parametrize(("line", "beside"), LISTS.items())
def test_what_a_verb_lists_is_items_with_their_number(home, line, beside):
    done = command(*line.format(FILE).split(), "--json", folder=home)
    found = json.loads(done.stdout)
    assert {*found} == {"items", "total", *beside}
    assert isinstance(found["items"], list)
    assert found["total"] == (7 if line == "ls -n 3" else len(found["items"]))
    assert found["items"] or line.startswith("collection diff")


@pytest.mark.parametrize("line", ["ingest data", "inspect {0}", "repair {0}", "cache"])
def test_a_report_of_one_thing_is_an_object_too(home, line):
    assert isinstance(json.loads(command(*line.format(FILE).split(), "--json", folder=home).stdout), dict)


# ---- rows -----------------------------------------------------------------------------------------------------------

EVERY_LINE = """
import contextlib, shlex, sys
from bridge.cli.main import command
whole = command()
for line in sys.argv[1:]:
    print(f"$ {line}")
    with contextlib.suppress(SystemExit), contextlib.redirect_stderr(None):
        whole(shlex.split(line), prog_name="wshard")
"""
TABLES = (
    *(
        "ls",
        "ls --columns episode,env,path,length,reward,success",
        f"search {FILE}",
        f"moments {FILE}@5:20 --no-refine",
    ),
    *("check --all", "leaks everything everything", "duplicates", "outliers --neighbors 2", "health", "fsck"),
    *("index spaces", "index audit", "mislabeled --label env --neighbors 2", "collection ls", "facets env path"),
)


def test_a_row_is_one_line_of_the_terminal(home, monkeypatch):
    columns = 60
    monkeypatch.chdir(home)
    monkeypatch.delenv("WSHARD_ARCHIVE", raising=False)
    message = on_a_terminal("-c", EVERY_LINE, *TABLES, columns=columns)
    for line, part in zip(TABLES, message.split("$ ")[1:], strict=True):
        rows = part.splitlines()[1:]
        assert any("\N{HORIZONTAL ELLIPSIS}" in row for row in rows), (line, rows)
        assert len(rows) > 1
        sentences = 2 if line.startswith(("moments", "leaks")) else 1
        assert [row for row in rows[:-sentences] if cell_len(row) > columns] == [], line
    hits = next(part for part in message.split("$ ") if part.startswith("search")).splitlines()
    assert "1.0000" in hits[2]  # numbers are whole
    assert hits[2].endswith("wshard")  # of a path the end is shown


@pytest.mark.parametrize("line", TABLES[1::3])
def test_pipes_get_whole_values(home, line):
    assert "\N{HORIZONTAL ELLIPSIS}" not in command(*line.split(), folder=home).stdout


# ---- episodes and archives ------------------------------------------------------------------------------------------


def test_several_episodes_are_shown_at_once(home):
    output = command("show", f"{NAME}-3", FILE, folder=home).stdout
    first, second = output.split("\n\n")
    assert f"{NAME}-3\n" in first
    assert f"{NAME}-1\n" in second
    found = json.loads(command("show", f"{NAME}-3", FILE, "--json", folder=home).stdout)
    assert [one["episode_id"] for one in found["items"]] == [f"{NAME}-3", f"{NAME}-1"]
    assert command("show", FILE, "nosuch", folder=home).exit_code == 1


def test_an_archive_is_found_above_the_working_directory(home, tmp_path, monkeypatch):
    below = home / "data" / ENV
    assert "7 of 7 episodes" in command("ls", folder=below).stdout
    monkeypatch.chdir(below)
    monkeypatch.delenv("WSHARD_ARCHIVE", raising=False)
    assert archive_named() == home / ".wshard"
    assert archive_named("other") == Path("other")
    monkeypatch.setenv("WSHARD_ARCHIVE", "named")
    assert archive_named() == Path("named")
    assert "no archive at .wshard" in command("ls", folder=tmp_path).stderr


def test_the_nearest_archive_is_taken(home, tmp_path):
    shutil.copytree(home / ".wshard", tmp_path / ".wshard")
    inner = tmp_path / "project" / "runs"
    inner.mkdir(parents=True)
    with Catalog.open(tmp_path / "project" / ".wshard" / "catalog.db", create=True) as catalog:
        catalog.episodes.register([make_record(1)])
    assert "1 of 1 episodes" in command("ls", folder=inner).stdout
    (inner / ".wshard").mkdir()  # a folder without a catalog is no archive
    assert "1 of 1 episodes" in command("ls", folder=inner).stdout
    assert "7 of 7 episodes" in command("ls", folder=tmp_path).stdout


def test_an_archive_of_another_account_is_not_found_above(home, tmp_path, monkeypatch):
    shutil.copytree(home / ".wshard", tmp_path / ".wshard")
    (tmp_path / "below").mkdir()
    if os.getuid() == 0:
        os.chown(tmp_path / ".wshard" / "catalog.db", 4711, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 4711)
    assert command("ls", folder=tmp_path).exit_code == 0  # in the working directory itself any is
    assert "no archive at .wshard" in command("ls", folder=tmp_path / "below").stderr
