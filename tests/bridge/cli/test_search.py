"""The verb `search` with all its options, in this process."""

from __future__ import annotations

import json

import pytest
from bridge_episodes import episode, ingest, save
from command_line import app
from typer.testing import CliRunner


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Return a folder with episodes of three tasks, embedded as a whole and in windows of several sizes."""
    place = tmp_path_factory.mktemp("home")
    tasks = ("open the drawer", "close the drawer", "wave")
    made = [episode(task, n, 40 + n, metadata={"task": tasks[task]}) for task in range(3) for n in range(3)]
    save(place / "data", *made)
    done = run("ingest", place / "data", "--windows", "both", "--archive", place / "archive")
    assert "9 new, 9 embedded" in done.stdout
    return place


def run(*arguments: object, code=0):
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == code, done.output
    return done


def search(home, *arguments: object):
    done = run("search", *arguments, "--archive", home / "archive", "--json")
    return json.loads(done.stdout)["items"]


def test_windows_beside_whole_episodes_rank_together_and_plain_turns_that_off(home):
    for options in ((), ("--plain",), ("--expand", 2)):
        hits = search(home, "task-1-2", *options)
        assert (hits[0]["episode_id"], round(hits[0]["score"], 5), len(hits)) == ("task-1-2", 1.0, 9)
    scores = [[hit["score"] for hit in search(home, "task-1-2", *options)][1:] for options in ((), ("--plain",))]
    assert scores[0] != scores[1]


def test_examples_counter_examples_and_words(home):
    usual = search(home, "task-0-0", "--plain")
    liked = search(home, "task-0-0", "--plain", "--like", "task-2-0", "--like", home / "data/task-2/task-2-1.wshard")
    assert {hit["episode_id"][:6] for hit in liked[:3]} == {"task-2"}
    assert search(home, "--like", "task-0-0", "--plain") == usual
    unlike = {hit["episode_id"]: hit["score"] for hit in search(home, "task-0-0", "--plain", "--unlike", "task-1-1")}
    assert unlike["task-1-1"] < next(hit["score"] for hit in usual if hit["episode_id"] == "task-1-1")
    assert [hit["episode_id"][:6] for hit in search(home, "--text", "open drawer", "--top", 3)] == ["task-0"] * 3
    assert search(home, "task-2-0", "--text", "close")[0]["score"] < 1


def test_least_thresholds_diversity_and_lanes(home):
    usual = search(home, "task-0-0", "--plain", "--contributions")
    least = search(home, "task-0-0", "--least", "--top", 2)
    assert [hit["episode_id"] for hit in least] == [hit["episode_id"] for hit in usual[:-3:-1]]
    saved = search(home, "task-0-0", "--plain", "--min-score", usual[2]["score"])
    assert len(saved) == 3
    assert all(hit["contributions"] == {"signal/state": pytest.approx(hit["score"], abs=1e-6)} for hit in usual)
    assert {hit["metadata"]["env_id"] for hit in search(home, "task-0-0", "--top", 3, "--diversity", 0.8)} != {"task-0"}
    table = run("search", "task-0-0", "--contributions", "--plain", "--archive", home / "archive").stdout
    assert "lanes" in table.splitlines()[0]
    assert "signal/state +1.00" in table


def test_moments_one_per_episode(home):
    hits = search(home, "task-0-0", "--span", "0:30", "--windows-only", "--distinct", "--top", 5)
    assert len({hit["episode_id"] for hit in hits}) == 5
    assert (hits[0]["episode_id"], hits[0]["span"]) == ("task-0-0", [0, 30])


def test_timesteps_of_a_query_are_named_in_one_way_everywhere(home):
    for where in ("task-0-0", home / "data/task-0/task-0-0.wshard"):
        by_name, by_option = search(home, f"{where}@5:25"), search(home, where, "--span", "5:25")
        assert by_name == by_option == search(home, "--like", f"{where}@5:25")
    moments = ("moments", "--archive", home / "archive", "--json", "--top", 3)
    found = json.loads(run(*moments, "task-0-0@5:35").stdout)["items"]
    assert found == json.loads(run(*moments, "task-0-0", "--from", 5, "--to", 35).stdout)["items"]
    assert found == json.loads(run(*moments, "--like", "task-0-0@5:35").stdout)["items"]


def test_mistakes_are_reported_in_the_words_of_the_command_line(home, tmp_path):
    assert (
        "expected at least one of QUERY, --like, --text, --words and --image"
        in run("search", "--archive", home / "archive", code=2).output
    )
    for option, printed in (
        ("--distinct", "--distinct requires --windows-only"),
        ("--text-encoder=none", "--text-encoder requires --text"),
    ):
        assert printed in run("search", "task-0-0", option, "--archive", home / "archive", code=2).output
    save(tmp_path / "gone", episode(0, 7, 40))
    run("ingest", tmp_path / "gone", "--archive", tmp_path / "own")
    (tmp_path / "gone").rename(tmp_path / "moved")
    printed = run("search", "task-0-7", "--archive", tmp_path / "own", code=1).stderr
    assert printed.startswith("error: the file of 'task-0-7' is missing: ")
    assert printed.endswith(".wshard: restore it, or ingest its new location\n")
    for embedder in ("dct", "stats"):
        ingest(tmp_path, home / "data", embedder=embedder)
    printed = run("search", "task-0-0", "--archive", tmp_path).stderr
    assert "searched stats over" in printed
    assert "also available (--embedder, --lanes, --windows or --env): dct over" in printed
    assert "--embedder, --lanes, --windows or --env" in printed


def test_a_span_is_stated_once(home):
    for verb, *more in (("search", "--span", "3:9"), ("moments", "--from", 3), ("moments", "--to", 9)):
        output = run(verb, "task-1-1@2:8", *more, "--archive", home / "archive", code=1).stderr
        assert output == (
            "error: task-1-1@2:8: expected one span, found @START:STOP and also --span, --from, --to or "
            "(name, start, stop)\n"
        )
