"""The verbs about what an archive holds, as a user meets them."""

from __future__ import annotations

import csv
import io
import json
import resource
import time
from typing import TYPE_CHECKING

import pytest
from command_line import app
from terminal import on_a_terminal
from typer.testing import CliRunner, Result

from catalog import Catalog, Compare
from catalog.cli.common import parse_range
from catalog.testing.contract import make_record

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def archive(tmp_path: Path, monkeypatch) -> Path:
    """Return an archive of twelve episodes, which is the one that verbs find."""
    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog:
        about = [{"task": f"pick {number}", "style": "1"} for number in range(12)]
        catalog.episodes.register([make_record(number, metadata=one) for number, one in enumerate(about)])
    monkeypatch.setenv("WSHARD_ARCHIVE", str(tmp_path))
    return tmp_path


def run(*arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == code, (done.output, done.exception)
    return done


def listed(where: str) -> list[str]:
    page = json.loads(run("ls", "--json", "--where", where).stdout)
    return [row["episode_id"] for row in page["items"]]


def test_tags_by_name_and_by_filter(archive: Path) -> None:
    output = run("tag", "good", "episode_000003", "/data/set/episode_000004.wshard").stdout
    assert output == "tag good added to 2 of 2 episodes\n"
    assert run("tag", "good", "--where", "length:..103").stdout == "tag good added to 3 of 4 episodes\n"
    assert listed("tag:good") == [f"episode_00000{number}" for number in range(5)]
    output = run("tag", "good", "-w", "tag:good", "episode_000009", "--remove").stdout
    assert output == "tag good removed from 5 of 6 episodes\n"
    assert listed("tag:good") == []


@pytest.mark.parametrize("verb", [("tag", "good"), ("note", "text"), ("review", "accepted"), ("review", "--undo")])
def test_nothing_is_stated_of_all_episodes_by_accident(archive: Path, verb: tuple[str, ...]) -> None:
    assert "expected episodes" in run(*verb, code=2).stderr
    assert "neither a file nor an episode" in run(*verb, "nobody", code=1).stderr
    assert "this archive: filters are given as --where" in run(*verb, "env:reach", code=1).stderr
    assert "as --where" not in run(*verb, "/data/of:own.wshard", code=1).stderr
    assert "at character 1 of the filter" in run(*verb, "-w", "colour:red", code=2).stderr


def test_notes(archive: Path) -> None:
    assert run("note", "The gripper slips", "episode_000003", "--who", "ann").stdout == "note added to 1 episode\n"
    assert listed('"gripper slips"') == ["episode_000003"]
    (shown,) = json.loads(run("show", "episode_000003", "--json").stdout)["items"]
    (note,) = shown["notes"]
    assert (note["text"], note["who"]) == ("The gripper slips", "ann")
    run("note", "rutscht über", "episode_000004")
    assert "rutscht über" in run("show", "episode_000004").stdout
    run("note", "--remove", str(note["id"]))
    assert listed("gripper") == []
    assert "expected the id of a note" in run("note", "--remove", "77", code=1).stderr
    run("note", code=2)
    assert "expected --remove ID without" in run("note", "--remove", "1", "episode_000003", code=2).stderr


def test_an_account_whose_name_is_not_a_unicode_can_write(archive: Path, monkeypatch) -> None:
    monkeypatch.setenv("LOGNAME", "caf\udce9")
    run("collection", "save", "all", "--where", "")
    assert json.loads(run("collection", "ls", "--json").stdout)["items"][0]["who"] == "caf\N{REPLACEMENT CHARACTER}"


def test_reviews_undo_and_audit(archive: Path) -> None:
    run("review", "accepted", "episode_000003", "episode_000004", "--who", "ann")
    assert run("review", "rejected", "episode_000003", "--who", "bob").stderr == ""
    for mistyped in ("acepted", "accpted", "Accepted"):
        assert "did you mean accepted?" in run("review", mistyped, "episode_000005", code=2).stderr
    assert "usual ones are accepted, rejected, unsure" in run("review", "later", "episode_000005").stderr
    assert (listed("review:accepted"), listed("review:rejected")) == (["episode_000004"], ["episode_000003"])
    assert run("review", "--undo", "episode_000003", "--who", "cid").stdout == "1 of 1 episodes changed\n"
    assert listed("review:accepted") == ["episode_000003", "episode_000004"]
    audit = json.loads(run("review", "--audit", "episode_000003", "--json").stdout)["items"]
    assert [(entry["state"], entry["who"]) for entry in audit] == [
        ("accepted", "ann"),
        ("rejected", "bob"),
        ("accepted", "cid"),
    ]
    assert "rejected  bob" in run("review", "--audit", "episode_000003").stdout
    assert "not both" in run("review", "--undo", "--audit", "episode_000003", code=2).stderr
    assert listed("review:accepted") == ["episode_000003", "episode_000004"]


def test_columns_of_a_list(archive: Path) -> None:
    run("tag", "good", "episode_000003")
    run("note", "slips", "episode_000003", "--who", "ann")
    names = "episode,reward,meta.task,tags,note_by,lane.signal/camera.shape,success"
    only = ("-w", "episode:episode_000003", "--columns", names)
    heads, cells, output = run("ls", *only).stdout.splitlines()
    assert heads.split() == names.split(",")
    assert cells.split() == ["episode_000003", "3", "pick", "3", "good", "ann", "64x64x3", "yes"]
    assert output == "1 of 1 episodes"
    (found,) = json.loads(run("ls", *only, "--json").stdout)["items"]
    assert list(found) == names.split(",")
    assert list(found.values()) == ["episode_000003", 3.0, "pick 3", ["good"], ["ann"], "64x64x3", True]
    wrong = run("ls", "--columns", "env,", code=2).stderr
    assert wrong == "error: expected names of columns with commas between them, found ''\n"
    assert "found 'colour'" in run("ls", "--columns", "colour", code=2).stderr


def test_a_list_as_csv(archive: Path) -> None:
    run("tag", "good", "episode_000003")
    everything = list(csv.DictReader(io.StringIO(run("ls", "--csv").stdout)))
    assert len(everything) == 12
    with Catalog.open(archive / "catalog.db") as catalog:
        assert list(everything[3]) == catalog.query.columns()
        row = catalog.episodes.get(4)
    assert (everything[3]["uid"], everything[3]["success"], everything[3]["tags"]) == (row.uid, "true", '["good"]')
    assert json.loads(everything[3]["metadata"]) == row.metadata
    chosen = run("ls", "--csv", "--columns", "meta.task,reviewer", "--sort", "-length", "-n", "2").stdout
    assert chosen == "meta.task,reviewer\npick 11,\npick 10,\n"
    assert "expected --csv or --json" in run("ls", "--csv", "--json", code=2).stderr


def test_no_cell_of_csv_is_a_formula(archive: Path) -> None:
    with Catalog.open(archive / "catalog.db") as catalog:
        texts = ("=HYPERLINK(1)", "+1", "-1+2", "@SUM(A1)", "\tx", "plain", "2-1")
        records = [
            make_record(100 + number, env_id="hostile", metadata={"task": text, "change": -1.5})
            for number, text in enumerate(texts)
        ]
        catalog.episodes.register(records)
    out = run("ls", "--csv", "--env", "hostile", "--columns", "meta.task,meta.change", "--sort", "id").stdout
    cells = [row["meta.task"] for row in csv.DictReader(io.StringIO(out))]
    assert cells == ["'=HYPERLINK(1)", "'+1", "'-1+2", "'@SUM(A1)", "'\tx", "plain", "2-1"]
    assert {row["meta.change"] for row in csv.DictReader(io.StringIO(out))} == {"-1.5"}


def test_facets_and_histograms(archive: Path) -> None:
    found = json.loads(run("facets", "env", "meta.task", "--histogram", "length", "--bins", "3", "--json").stdout)
    environments, tasks = found["items"]
    assert (environments["field"], environments["values"][0]) == ("env", {"value": "env-0", "episodes": 3})
    assert (tasks["field"], len(tasks["values"])) == ("meta.task", 12)
    assert [(one["field"], one["counts"]) for one in found["histograms"]] == [("length", [4, 4, 4])]
    text = run("facets", "-w", "env:env-1", "--histogram", "length", "env_id", "success").stdout
    assert "env-1" in text
    assert "yes" in text
    assert "#" in text
    assert "expected a numeric field" in run("facets", "--histogram", "env", code=2).stderr


@pytest.mark.parametrize(
    "verb",
    [
        ("ls",),
        ("facets",),
        ("stats",),
        ("tag", "x"),
        ("review", "unsure"),
        ("note", "x"),
        ("collection", "save", "x", "--live"),
    ],
)
def test_a_name_in_a_filter_that_no_episode_has_is_reported(archive: Path, verb: tuple[str, ...]) -> None:
    where = "-meta.tsk:pick -score.qality.spike:>1 meta.task:* -lane.signal/stat.max:1"
    names = ("lane.signal/stat.max", "meta.tsk", "score.qality.spike")
    assert run(*verb, "--where", where).stderr == "".join(f"no episode has {name}\n" for name in names)
    assert "no episode has" not in run(*verb, "--where", "env:env-1,enw-1 -tag:nope").stderr  # some match
    output = run(*verb, "--where", "env:enw-1 tag:nope").stderr
    assert output.startswith("no episode has env 'enw-1' (env-1?)\nno episode has tag 'nope'\n")


def test_what_a_filter_that_matches_nothing_may_have_meant_is_printed(archive: Path) -> None:
    assert run("ls", "-w", "meta.style:1").stderr == (
        'no episode has meta.style:1, a number; some have meta.style:"1", which is text\n'
    )
    output = run("ls", "-w", 'length:>0 or meta.style:"1"').stderr
    assert output == "'or' is a word of metadata and notes: the keyword is OR\n"
    output = run("ls", "-w", "length:900..3").stderr
    assert output == "length:900..3 matches nothing: its low end is above its high one\n"
    output = run("ls", "-w", 'meta.style:"1*"').stderr
    assert output.startswith('meta.style:"1*" matches nothing: in quotes, * stands for itself: ')
    assert not run("ls", "-w", 'meta.style:"1"*').stderr
    for where in ('meta.style:"1"', "length:3..900", "meta.style:2 OR pick", "meta.task:1"):
        assert run("ls", "-w", where).stderr == ""


def test_a_file_that_was_not_ingested_is_not_an_episode(archive: Path) -> None:
    assert "exists but is not in this archive" in run("show", str(archive / "catalog.db"), code=1).stderr


def test_by_default_no_facet_without_values_is_counted(archive: Path) -> None:
    assert "\nreview" not in run("facets").stdout
    with Catalog.open(archive / "catalog.db") as catalog:
        catalog.episodes.register([make_record(20, env_id="", metadata={})])
    found = json.loads(run("facets", "-w", 'env:""', "--json").stdout)["items"]
    assert not {one["field"] for one in found} & {"env", "meta.task", "review", "tag", "flag"}
    assert [one["field"] for one in json.loads(run("facets", "env", "tag", "--json").stdout)["items"]] == ["env", "tag"]


def test_facets_without_fields_are_those_that_tell_episodes_apart(tmp_path: Path) -> None:
    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog:
        known = [{"label": (1, "1")[n % 2], "seed": n, "arm side": "left"} for n in range(8)]
        catalog.episodes.register([make_record(n, env_id="one", metadata=each) for n, each in enumerate(known)])
    shown = run("facets", "--archive", str(tmp_path)).stdout
    assert [line.split() for line in shown.splitlines() if "label" in line] == [["meta.label", "episodes"]]
    assert {"1 4", '"1" 4'} <= {" ".join(line.split()) for line in shown.splitlines()}, "a number and a text"
    assert shown.splitlines()[-1] == "further fields: folder path 'meta.\"arm side\"' meta.seed"
    assert "further" not in run("facets", "env", "--archive", str(tmp_path)).stdout


def test_what_a_facet_counts_is_distinguished(archive: Path) -> None:
    said = ("", "-", None, {"name": "ann"}, ["ann", "bob"], "ann")
    with Catalog.open(archive / "catalog.db") as catalog:
        catalog.episodes.register([make_record(number, metadata={"by": by}) for number, by in enumerate(said, 20)])
    shown = run("facets", "meta.by").stdout.splitlines()
    assert sorted(line.rsplit(maxsplit=1) for line in shown[1:-1]) == [
        ['""', "1"],
        ['"-"', "1"],
        ["(lists, objects)", "2"],
        ["-", "13"],
        ["ann", "1"],
    ]
    assert "\n-" not in run("facets", "meta.by", "-w", "meta.by:*").stdout
    shown = run("stats", "length", "--by", "meta.by").stdout.splitlines()
    assert sorted(line.split()[0] for line in shown[1:]) == ['""', '"-"', "-", "ann"]


def test_a_facet_that_is_cut_says_so(archive: Path) -> None:
    assert "more values: increase --limit" in run("facets", "meta.task", "-n", "11").stdout
    assert "more" not in run("facets", "meta.task", "-n", "12").stdout
    found = json.loads(run("facets", "meta.task", "-n", "11", "--json").stdout)
    assert len(found["items"][0]["values"]) == 11


def test_statistics(archive: Path) -> None:
    groups = json.loads(run("stats", "length", "--by", "success", "--json").stdout)["items"]
    assert [(group["key"], group["episodes"]) for group in groups] == [([False], 8), ([True], 4)]
    assert groups[1]["values"]["length"] | {"std": None} == {
        "count": 4,
        "mean": 104.5,
        "std": None,
        "min": 100,
        "max": 109,
    }
    assert "reward" in run("stats").stdout


def test_sql_reads(archive: Path) -> None:
    answer = json.loads(
        run("sql", "SELECT id, spread FROM episode JOIN lane ON id = episode_row LIMIT 1", "--json").stdout
    )
    assert answer == {"items": [[1, "<96 bytes>"]], "total": 1, "columns": ["id", "spread"], "more": False}
    assert "2 rows (more available: --limit)" in run("sql", "SELECT env_id FROM episode", "-n", "2").stdout
    assert "it would do more than read" in run("sql", "DELETE FROM tag", code=1).stderr


def test_a_table_of_huge_values_is_drawn_at_once(archive: Path) -> None:
    many = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT hex(zeroblob(2000000)) FROM n"
    begun = time.thread_time()
    output = run("sql", many, "--seconds", "2").stdout
    assert time.thread_time() - begun < 3
    assert "more available" in output
    assert max(map(len, output.splitlines())) <= 10_000


def test_collections_from_the_command_line(archive: Path) -> None:
    assert "12 picks" in run("collection", "save", "all", "--where", "").stdout
    assert "a saved query" in run("collection", "save", "first", "--live", "-w", "env:env-1").stdout
    run("collection", "save", "nothing", code=2)
    assert "no episode passes the filter" in run("collection", "save", "nothing", "-w", "env:nope", code=1).stderr
    assert "found 'nothing'" in run("collection", "show", "nothing", code=1).stderr
    assert "0 picks" in run("collection", "save", "empty", "-w", "env:nope", "--allow-empty").stdout
    assert "9 picks" in run("collection", "without", "rest", "all", "first").stdout
    assert "12 picks" in run("collection", "union", "whole", "rest", "first").stdout
    assert "0 picks" in run("collection", "intersection", "none", "rest", "first").stdout
    assert "0 added, 3 removed, 0 reweighted" in run("collection", "diff", "all", "rest").stdout
    assert len(json.loads(run("collection", "diff", "rest", "all", "--json").stdout)["items"]) == 3
    shown = run("collection", "show", "rest").stdout
    assert "9 picks" in shown
    assert '"made": "without"' in shown
    assert shown.splitlines()[-9].split()[0] in listed("-env:env-1")
    assert run("collection", "show", "rest", "-n", "4").stdout.splitlines()[-1] == "4 of 9 picks"
    assert "query: env:env-1" in run("collection", "show", "first").stdout
    assert len(json.loads(run("collection", "show", "rest", "--json").stdout)["lineage"]) == 3
    names = [found["name"] for found in json.loads(run("collection", "ls", "--json").stdout)["items"]]
    assert names == ["all", "empty", "first", "none", "rest", "whole"]
    assert "env:env-1" in run("collection", "ls").stdout
    assert "it was 0 picks, " in run("collection", "drop", "none").stdout
    assert "found 'none'" in run("collection", "show", "none", code=1).stderr
    assert len(listed("collection:rest")) == 9


def test_a_name_that_is_taken_over_says_from_what(archive: Path) -> None:
    assert run("collection", "save", "it", "-w", "env:env-1").stderr == ""
    (made,) = json.loads(run("collection", "ls", "--json").stdout)["items"]
    assert "replaced" not in made
    output = run("collection", "save", "it", "--live", "-w", "env:env-2").stderr
    assert output == f"it replaced 3 picks, {made['snapshot']['hash']}\n"
    assert run("collection", "save", "it", "--live", "-w", "env:env-2").stderr == ""
    assert run("collection", "union", "it", "it", "it").stderr == "it replaced the query env:env-2\n"
    run("collection", "save", "live", "--live", "-w", "collection:it -env:env-3")
    dropped = run("collection", "drop", "it")
    assert "it was 2 picks, " in dropped.stdout
    assert dropped.stderr == "saved queries that name it fail without it: live\n"


def test_splits_and_lists_from_the_command_line(archive: Path, tmp_path: Path) -> None:
    run("collection", "save", "all", "--where", "")
    split = run(
        "collection", "split", "all", "--by", "env_id", "--fractions", "train=0.6,test=0.4", "--seed", "2"
    ).stdout
    assert [line.split(":")[0] for line in split.splitlines()] == ["all/train", "all/test"]
    sides = [
        {row["env_id"] for row in json.loads(run("export-list", f"all/{n}").stdout)["picks"]} for n in ("train", "test")
    ]
    assert not sides[0] & sides[1]
    assert "found 'meta.tsk'" in run("collection", "split", "all", "--by", "meta.tsk", code=1).stderr
    output = run("collection", "split", "all", "--by", "success", "--fractions", "a=0.3,b=0.3,c=0.4").stderr
    assert "all/b has 0 of 3.6" in output.splitlines()[0]
    run("export-list", "all", "--to", str(tmp_path / "list.csv"))
    assert len((tmp_path / "list.csv").read_text().splitlines()) == 13
    refused = run("export-list", "all", "--to", str(tmp_path / "list.xlsx"), code=2).stderr
    assert "expected a file of json, csv, parquet" in refused
    with Catalog.open(archive / "catalog.db") as catalog:
        catalog.episodes.remove(catalog.query.ids()[:2])
    shown = run("collection", "show", "all").stdout
    assert "12 picks, 1266 timesteps; 2 of them removed, changed or read otherwise since" in shown
    assert sum("not as it was" in line or "removed, changed" in line for line in shown.splitlines()) == 3
    assert json.loads(run("collection", "show", "all", "--json").stdout)["gone"] == 2
    output = run("export-list", "all", "--to", str(tmp_path / "list.csv"), code=1).stderr
    assert "2 of 12 picks have no path" in output
    (tmp_path / "other.csv").write_text("a,b\n")
    assert "found another file" in run("export-list", "all", "--to", str(tmp_path / "other.csv"), code=1).stderr
    assert len((tmp_path / "list.csv").read_text().splitlines()) == 13
    run("collection", "split", "all", "--fractions", "nonsense", code=2)
    assert "add up to 1" in run("collection", "split", "all", "--fractions", "a=0.5", code=2).stderr


def test_a_list_that_a_full_disk_cuts_leaves_the_earlier_one_whole(archive: Path, tmp_path: Path) -> None:
    with Catalog.open(archive / "catalog.db") as catalog:  # the list is longer than what SQLite needs to read
        catalog.episodes.register([make_record(number) for number in range(500)])
    run("collection", "save", "all", "--where", "")
    path, limits = tmp_path / "lists" / "list.json", resource.getrlimit(resource.RLIMIT_FSIZE)
    path.parent.mkdir()
    run("export-list", "all", "--to", str(path))
    before = path.read_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))
    try:
        output = run("export-list", "all", "--to", str(path), code=1).stderr
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert output == f"error: {path}: File too large\n"
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


EACH_VERB = """
import contextlib, shlex, sys
from bridge.cli.main import command
whole = command()
for line in sys.argv[1:]:
    with contextlib.suppress(SystemExit):
        whole(shlex.split(line), prog_name="wshard")
    print("== end")
"""
EVIL = "reach\x1b]0;owned\x07\x9b2J\u202e\x7f\n\rx"


def test_a_terminal_is_sent_no_control_characters_of_names(archive: Path) -> None:
    with Catalog.open(archive / "catalog.db") as catalog:
        catalog.episodes.register([make_record(99, env_id=EVIL)])
        catalog.collections.save_snapshot("evil", Compare("env_id", "eq", EVIL))
    verbs = ("ls --csv", "export-list evil", "ls", """sql 'SELECT env_id AS "a\x1b[2J" FROM episode'""")
    parts = on_a_terminal("-c", EACH_VERB, *verbs, columns=200).split("== end\n")
    assert parts.pop() == ""
    for verb, sent in zip(verbs, parts, strict=True):
        assert "owned" in sent, verb
        assert all(line.isprintable() for line in sent.split("\n")), verb
    # Programs get every value as it is.
    rows = csv.DictReader(io.StringIO(run("ls", "--csv").stdout, newline=""))
    assert [row["env_id"] for row in rows if "owned" in row["env_id"]] == [EVIL]
    assert json.loads(run("export-list", "evil").stdout)["picks"][0]["env_id"] == EVIL


def test_a_range_of_rewards_is_read_as_filters_have_it_too():
    for written, expected in {"0.8..2": (0.8, 2), "0.8:2": (0.8, 2), "..2": (None, 2), "-1..": (-1, None)}.items():
        assert parse_range(written) == expected


def test_a_split_says_what_stays_together_and_what_sizes_that_makes(archive):
    run("collection", "save", "all", "--where", "")
    with Catalog.open(archive / "catalog.db") as catalog:
        ids = catalog.query.ids()
        catalog.annotations.set_scores("group", {one: number % 2 for number, one in enumerate(ids[:5])})
    split = ("collection", "split", "all", "--fractions", "a=0.5,b=0.5")
    notes = run(*split, "--by", "score.group").stderr.splitlines()
    assert "7 episodes without score.group stay together, as one group" in notes
    assert notes[-1].startswith(
        "groups and equal data stay together, so the parts of 12 picks have other sizes: all/a "
    )
    assert "all/a has 7 of 6, all/b has 5 of 6" in notes[-1]
    assert "together" not in run(*split).stderr
    assert "without" not in run(*split, "--by", "text").stderr, "a field of which none can be missing"


def test_a_split_says_what_it_did_not_compare_and_what_does(archive):
    run("collection", "save", "my set", "--where", "")
    split = ("collection", "split", "my set", "--fractions", "a=0.5,b=0.5")
    assert "near copies may be in two parts: `wshard leaks 'my set/a' 'my set/b'` finds them" in run(*split).stderr
    with Catalog.open(archive / "catalog.db") as catalog:
        catalog.annotations.set_scores("group", dict.fromkeys(catalog.query.ids(), 1.0))
    assert "near copies" not in run(*split, "--by", "score.group").stderr
