"""The verb shardify: locations, tasks of Raiden, collections and filters of an archive."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner
from webdataset_tars import read_samples

from bridge.cli.shardify import choose_tasks, shardify
from wshard import TrajectoryIngestor, open_archive

app = typer.Typer()
app.command()(shardify)
SMALL = ("--resize-images", "None")


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    return result.exit_code, result.stdout, result.stderr


def test_a_location_and_an_episode_of_it(raiden_folder, tmp_path):
    code, out, _ = run(raiden_folder / "pick_cube", "--to", tmp_path / "a", *SMALL, "--samples-per-shard", 10)
    assert (code, out.splitlines()[1]) == (0, "left out  36 padding")
    assert "(41 samples, 5 shards, 3 episodes)" in out
    assert run(f"{raiden_folder}/pick_cube#0001@0:11", "--to", tmp_path / "b", *SMALL)[0] == 1
    assert run(raiden_folder / "pick_cube", "--to", tmp_path / "a", *SMALL)[0] == 1
    assert run(raiden_folder / "pick_cube", "--to", tmp_path / "a", *SMALL, "--mode", "overwrite")[0] == 0
    assert len(list((tmp_path / "a").glob("*.tar"))) == 1


def test_a_parent_folder_of_locations_is_written_whole(raiden_folder, tmp_path):
    places = {"pick_cube": tmp_path / "parent/first/pick", "open_drawer": tmp_path / "parent/deep/second/open"}
    for task, place in places.items():
        place.parent.mkdir(parents=True)
        place.symlink_to(raiden_folder / task)
    code, out, _ = run(tmp_path / "parent", "--to", tmp_path / "all", *SMALL)
    assert (code, "(62 samples, 1 shard, 6 episodes)" in out) == (0, True)
    assert len(read_samples(tmp_path / "all")) == 62


def test_tasks_go_to_folders_of_their_own(raiden_folder, tmp_path):
    place = ("--data-dir", raiden_folder.parent, "--output-dir", tmp_path / "out")
    code, out, _ = run(*place, "--task", "pick_cube", "--task", "open_drawer", *SMALL, "--json")
    assert (code, [row["samples"] for row in json.loads(out)["items"]]) == (0, [41, 21])
    assert (tmp_path / "out" / "open_drawer" / "shards" / "manifest.jsonl").exists()
    code, _, err = run(*place, "--task", "none")
    assert (code, "pick_cube (3)" in err) == (1, True)


def test_episodes_of_an_archive(raiden_folder, tmp_path):
    archive = tmp_path / "archive"
    TrajectoryIngestor(archive).ingest([raiden_folder / "pick_cube"])
    with open_archive(archive) as opened:
        opened.catalog.collections.save_snapshot("good", "key:0000")
    assert run("--archive", archive, "--collection", "good", "--to", tmp_path / "one", *SMALL)[0] == 0
    assert {place[0] for place in read_samples(tmp_path / "one")} == {"0000"}
    assert run("--archive", archive, "--where", "length:..30", "--to", tmp_path / "two", *SMALL)[0] == 0
    assert {place[0] for place in read_samples(tmp_path / "two")} == {"0002"}


def test_tasks_are_chosen_by_number():
    tasks = {"pick": 3, "open drawer": 1, "push": 2}
    answers, requested, shown = iter(["", "4", "2-", "3-1", "x", "3, 1-2 1"]), [], []
    chosen = choose_tasks(tasks, lambda question: requested.append(question) or next(answers), shown.append)
    assert chosen == ["push", "pick", "open drawer"]
    assert len(requested) == 6
    assert shown[0].endswith("ALL TASKS ***")
    assert shown[2].endswith("open drawer (1 episode)")
    assert choose_tasks(tasks, lambda _: "1 0", shown.append) == list(tasks)


def test_what_a_person_chooses_at_a_terminal_is_written(raiden_folder, tmp_path, monkeypatch):
    place = ("--data-dir", raiden_folder.parent, "--to", tmp_path / "to", "--interactive", *SMALL)
    assert run(*place)[0] == 2, "nobody can answer"
    monkeypatch.setattr("bridge.cli.shardify._has_terminal", lambda: True)
    result = CliRunner().invoke(app, [*map(str, place)], input="9\n3\n")
    assert (result.exit_code, "3  open_drawer (" in result.stderr) == (0, True)
    assert "(21 samples" in result.stdout
    again = ("--data-dir", raiden_folder.parent, "--output-dir", tmp_path / "out", *SMALL)
    result = CliRunner().invoke(app, [*map(str, again)], input="3\n")
    assert (result.exit_code, "ALL TASKS" in result.stderr) == (0, True), "the bare command asks, too"
    assert (tmp_path / "out" / "open_drawer" / "shards" / "manifest.jsonl").exists()
    code, _, err = run("--data-dir", tmp_path)
    assert (code, "expected tasks with episodes, found none: name --data-dir" in err) == (1, True)


@pytest.mark.parametrize("wrong", [(), ("x", "--task", "y"), ("x", "--stride", 0), ("x", "--image-indices", "a")])
def test_wrong_usage(wrong, tmp_path):
    assert run(*wrong, "--to", tmp_path / "to")[0] == 2
    assert not list(tmp_path.iterdir())
