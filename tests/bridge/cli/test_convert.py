"""The verb convert: any readable format into any written one, from files, locations and archives."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import typer
from jsonl_source import announce, write_lines
from typer.testing import CliRunner

from bridge.cli.convert import convert, formats
from wshard import (
    Format,
    FormatError,
    TrajectoryIngestor,
    convert_location,
    load,
    load_wshard,
    open_archive,
    open_sink,
    open_source,
    save_wshard,
)
from wshard.core.episode.protocol import EpisodeAddress, EpisodeSpan
from wshard.core.messages import plural
from wshard.core.timebase import TimebaseSpec
from wshard.errors import StaleEpisodeError
from wshard.formats.table import FORMATS
from wshard.testing import assert_same_episode, make_episode
from wshard.training.webdataset import shardify

app = typer.Typer()
for verb in (convert, formats):
    app.command()(verb)


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def episode(tmp_path):
    save_wshard(make_episode(T=40), tmp_path / "ep.wshard")
    return tmp_path / "ep.wshard"


@pytest.fixture
def lines(tmp_path, monkeypatch):
    announce(tmp_path / "site", monkeypatch)
    return write_lines(tmp_path / "many.jsonl", (make_episode(number) for number in range(3)))


def test_a_file_becomes_a_file(episode, tmp_path):
    out = tmp_path / "out.npz"
    assert run("convert", episode, out)[:2] == (
        0,
        f"converted  {episode}  ->  {out}  (dreamerv3: 1 episode, 40 timesteps)\n",
    )
    assert np.array_equal(load(out).rewards, make_episode(T=40).rewards)
    assert run("convert", out, tmp_path / "again.wshard", "--compression", "zstd")[0] == 0
    assert load_wshard(tmp_path / "again.wshard").length == 40


def test_a_location_becomes_a_folder_and_a_second_run_adds_what_is_missing(dataset_fixtures, tmp_path):
    folder, out = dataset_fixtures / "other" / "dreamerv3_replay", tmp_path / "out"
    code, text, _ = run("convert", folder, out)
    assert (code, text) == (0, f"converted  {folder}  ->  {out}  (wshard: 2 episodes, 14 timesteps)\n")
    with open_source(folder, "dreamerv3") as source:
        for key in list(source.keys()):
            expected = replace(source.load(key), metadata={}, blocks={}, source_format=Format.WSHARD)
            assert_same_episode(replace(load_wshard(out / f"{key}.wshard"), metadata={}, blocks={}), expected)
    min(out.iterdir()).unlink()
    code, text, _ = run("convert", folder, out)
    assert (code, "1 episode, " in text, "1 already there" in text) == (0, True, True)
    damaged = min(out.iterdir())
    damaged.write_bytes(damaged.read_bytes()[:-1])
    code, text, err = run("convert", out, tmp_path / "again", "--to", "dreamerv3")
    assert (code, "1 episode, " in text, "1 failed" in text) == (1, True, True)
    assert err.splitlines()[-1].startswith(f"error: {out}#{damaged.name}: ")


def test_spans_and_single_episodes_are_converted_under_names_that_say_so(lines, tmp_path):
    key = make_episode(1).id
    assert run("convert", f"{lines}#{key}@3:9", f"{lines}#{key}", tmp_path / "out")[0] == 0
    parts = {path.name: load_wshard(path) for path in (tmp_path / "out").iterdir()}
    assert sorted(parts) == [f"{key}-3-9.wshard", f"{key}.wshard"]
    assert np.array_equal(parts[f"{key}-3-9.wshard"]["joint_pos"], make_episode(1)["joint_pos"][3:9])


def test_episodes_of_several_locations_keep_apart(lines, tmp_path):
    other = write_lines(tmp_path / "other.jsonl", [make_episode(0)])
    assert run("convert", lines, other, tmp_path / "out")[0] == 0
    names = {path.stem for path in (tmp_path / "out").iterdir()}
    assert names == {f"many-{make_episode(number).id}" for number in range(3)} | {f"other-{make_episode(0).id}"}


def test_cameras_are_encoded(tmp_path):
    save_wshard(make_episode(T=20, image_size=16), tmp_path / "raw.wshard")
    encoded = tmp_path / "encoded.wshard"
    assert run("convert", tmp_path / "raw.wshard", encoded, "--encode", "png")[0] == 0
    found = load_wshard(encoded)
    assert found == make_episode(T=20, image_size=16)
    assert [one.encoded.encoding for one in found.observations.values() if one.encoded] == ["png"]
    code, _, error = run("convert", tmp_path / "raw.wshard", encoded, "--encode", "gif")
    assert code == 2
    assert "expected such as 'jpeg:90'" in " ".join(error.replace("│", " ").split())


def test_lanes_are_renamed_and_workers_give_the_same(lines, tmp_path):
    for count in (1, 2):
        arguments = ("--map", "joint_pos=state", "--workers", count)
        assert run("convert", lines, tmp_path / f"out{count}", *arguments)[0] == 0
    first, second = ({path.name: path.read_bytes() for path in (tmp_path / f"out{n}").iterdir()} for n in (1, 2))
    assert first == second
    assert "state" in load_wshard(next((tmp_path / "out1").iterdir()))


def test_collections_and_filters_of_an_archive_are_converted(lines, tmp_path):
    with TrajectoryIngestor(tmp_path / "lab") as ingestor:
        ingestor.ingest(lines)
    with open_archive(tmp_path / "lab") as archive:
        archive.catalog.collections.save_snapshot("good", f"key:{make_episode(2).id}")
    archive_named = ("--archive", tmp_path / "lab")
    assert run("convert", "--collection", "good", *archive_named, tmp_path / "good")[0] == 0
    assert [load_wshard(path).id for path in (tmp_path / "good").iterdir()] == [make_episode(2).id]
    assert run("convert", "--where", "format:jsonl", *archive_named, tmp_path / "all")[0] == 0
    assert len(list((tmp_path / "all").iterdir())) == 3
    assert run("convert", lines, "--where", "format:jsonl", *archive_named, tmp_path / "all")[0] == 2


def test_what_changed_since_it_was_chosen_is_not_written(tmp_path):
    (tmp_path / "in").mkdir()
    with open_sink(tmp_path / "in" / "robot", "lerobot") as sink:
        sink.write(make_episode(0))
    for number in range(1, 4):
        save_wshard(make_episode(number), tmp_path / "in" / f"{number}.wshard")
    with open_archive(tmp_path / "lab", create=True) as archive:
        archive.ingest(tmp_path / "in")
        archive.catalog.collections.save_snapshot("good", "")
    for path in (tmp_path / "in").rglob("*"):
        os.utime(path)  # the same data
    save_wshard(make_episode(9), tmp_path / "in" / "2.wshard")
    words = ("--collection", "good", "--archive", tmp_path / "lab", "--map", "joint_pos=obs")
    code, output, error = run("convert", *words, tmp_path / "out")
    assert (code, "3 episodes" in output, "1 failed" in output) == (1, True, True), output
    assert "2.wshard: changed since it was ingested: run wshard ingest" in error
    places = [EpisodeSpan(EpisodeAddress(str(tmp_path / "in" / f"{n}.wshard")), digest="another") for n in (1, 2)]
    with pytest.raises(StaleEpisodeError):
        shardify(places, tmp_path / "shards")


def test_episodes_that_a_format_cannot_take_together_are_refused_before(tmp_path):
    for number, env_id in enumerate(("lift", "push")):
        episode = make_episode(number)
        episode.env_id = env_id
        (tmp_path / "in").mkdir(exist_ok=True)
        save_wshard(episode, tmp_path / "in" / f"{number}.wshard")
    with TrajectoryIngestor(tmp_path / "lab") as ingestor:
        ingestor.ingest(tmp_path / "in")
    for name in ("robomimic", "minari"):
        words = ("--to", name, "--where", "length:1..", "--archive", tmp_path / "lab", tmp_path / "out-v0")
        code, _, output = run("convert", *words)
        assert (code, "found 2 episodes of 2: 'lift', 'push': choose those of one, such as env:push" in output) == (
            1,
            True,
        )
        assert not (tmp_path / "out-v0").exists()
    (tmp_path / "in" / "0.wshard").unlink()
    code, output, _ = run("convert", "--where", "length:1..", "--archive", tmp_path / "lab", tmp_path / "rest")
    assert (code, [path.stem for path in (tmp_path / "rest").iterdir()]) == (1, [episode.id])
    assert "1 failed" in output


def test_a_lane_that_only_some_have_is_left_out_by_the_option_that_the_refusal_states(tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(3):
        episode = make_episode(number)
        save_wshard(episode if number == 1 else replace(episode, rewards=None), tmp_path / "in" / f"{number}.wshard")
    words = ("convert", tmp_path / "in", tmp_path / "a.zarr")
    code, _, output = run(*words)
    assert (code, (tmp_path / "a.zarr").exists()) == (1, False)
    assert "expected the same lanes in all 3 episodes, found reward in 1 (not in " in output
    assert "`--without reward` leaves it out of all" in output
    code, output, _ = run(*words, "--without", "reward")
    assert (code, "3 episodes" in output) == (0, True)


def test_lanes_of_an_archive_are_renamed_as_the_refusal_states(tmp_path):
    """By the names that they have there; so are those of paths and addresses."""
    episode = replace(make_episode(T=20), timestamps_ns=np.arange(20) * 50_000_000)
    (action,) = episode.actions.values()
    for number, name in enumerate(("action", "actions")):
        with open_sink(tmp_path / f"{number}.zarr", "zarr") as sink:
            sink.write(replace(episode, id=str(number), actions={name: action}))
    with TrajectoryIngestor(tmp_path / "lab") as ingestor:
        ingestor.ingest(tmp_path / "0.zarr", lane_map={"action": "ctrl"})
        ingestor.ingest(tmp_path / "1.zarr")
    chosen = ("convert", "--to", "zarr", "--archive", tmp_path / "lab", "--where", "length:20")
    code, _, printed = run(*chosen, tmp_path / "out.zarr")
    assert (code, "--without" in printed) == (1, False)
    (advice,) = re.findall("`(--map [^`]*)`", printed)
    assert run(*chosen, tmp_path / "out.zarr", *advice.split())[0] == 0
    assert run(*chosen, tmp_path / "none", "--to", "wshard", "--map", "nope=state")[0] == 1
    places = (tmp_path / "0.zarr", tmp_path / "1.zarr", tmp_path / "paths.zarr")
    assert run(*chosen[:5], *places, *advice.split())[0] == 0
    for name in ("out.zarr", "paths.zarr"):
        with open_source(tmp_path / name, "zarr") as source:
            assert len([*source.keys()]) == 2
    with open_archive(tmp_path / "lab") as archive:
        (address,) = (row.address for row in archive.catalog.episodes.rows([1]).values())
    convert_location(address, tmp_path / "own", lane_map={"ctrl": "joints"})
    assert [*load_wshard(next((tmp_path / "own").iterdir())).actions] == ["joints"]


@pytest.mark.parametrize(("name", "out"), [("robomimic", "a.hdf5"), ("lerobot", "a")])
def test_episodes_of_several_rates_are_refused_with_filters_that_select_each(name, out, tmp_path):
    pytest.importorskip({"robomimic": "h5py", "lerobot": "pyarrow"}[name])
    (tmp_path / "in").mkdir()
    for number, rate in enumerate((20.0, 49.79, 49.79, None, None, None)):
        timebase = TimebaseSpec() if rate is None else TimebaseSpec(tick_hz=rate)
        save_wshard(replace(make_episode(number), timebase=timebase), tmp_path / "in" / f"{number}.wshard")
    with TrajectoryIngestor(tmp_path / "lab") as ingestor:
        ingestor.ingest(tmp_path / "in")
    words = ("convert", "--to", name, "--archive", tmp_path / "lab", "--where")
    code, _, output = run(*words, "length:1..", tmp_path / out)
    assert (code, (tmp_path / out).exists(), "lossy" in output) == (1, False, False)
    assert "expected one rate in all 6 episodes, found " in output
    assert "rate = 30" not in output
    found = re.findall(r"(\S+ Hz|no rate) in (\d) \(--where '?([^')]*)", output)
    assert [one[:2] for one in found] == [("49.79 Hz", "2"), ("20 Hz", "1"), ("no rate", "3")][: len(found)]
    assert len(found) == (3 if name == "robomimic" else 2)
    for number, (_, count, where) in enumerate(found):
        code, printed, _ = run(*words, f"length:1.. {where}", tmp_path / f"{number}{out}")
        assert (code, f"({name}: {plural(int(count), 'episode')}, " in printed) == (0, True)


def test_robots_of_several_settings_are_refused_with_filters_that_select_each(tmp_path):
    pytest.importorskip("h5py")
    (tmp_path / "in").mkdir()
    for number in range(5):
        robot = {
            "env_name": "arm",
            "type": 1,
            "env_kwargs": {"robot": ("panda", "ur5e")[number // 3], "hard": number < 3},
        }
        episode = replace(make_episode(number), env_id="arm", metadata={"env_args": robot})
        save_wshard(episode, tmp_path / "in" / f"{number}.wshard")
    code, _, output = run("convert", tmp_path / "in", tmp_path / "a.hdf5", "--to", "robomimic")
    assert (code, (tmp_path / "a.hdf5").exists()) == (1, False)
    assert "expected one meta.env_args.env_kwargs.robot in all 5 episodes, found 'panda' in 3 (--where " in output
    with TrajectoryIngestor(tmp_path / "lab") as ingestor:
        ingestor.ingest(tmp_path / "in")
    words = ("convert", "--to", "robomimic", "--archive", tmp_path / "lab", "--where")
    for number, (count, where) in enumerate(re.findall(r"in (\d) \(--where ([^)]+)", output)):
        code, printed, _ = run(*words, where, tmp_path / f"{number}.hdf5")
        assert (code, f"(robomimic: {count} episodes, " in printed) == (0, True)
    assert number == 1


def test_failures_for_one_reason_are_one_line_and_losses_are_of_what_is_there(tmp_path):
    pytest.importorskip("h5py")
    (tmp_path / "in").mkdir()
    for number in range(7):
        episode = replace(make_episode(number), timestamps_ns=np.arange(make_episode(number).length) * 50_000_000)
        if number > 1:  # two lanes, of which none is called actions
            (lane,) = episode.actions.values()
            episode = replace(episode, actions={"left": lane, "right": lane})
        save_wshard(episode, tmp_path / "in" / f"{number}.wshard")
    code, printed, output = run("convert", tmp_path / "in", tmp_path / "a.hdf5", "--to", "robomimic")
    assert (code, "2 episodes" in printed, "5 failed" in printed) == (1, True, True)
    (line,) = (line for line in output.splitlines() if line.startswith("error: "))
    assert "and 2 more: robomimic: expected a lane action/actions, or one lane of actions, found action/left" in line
    assert "no dataset for it (2 episodes)" in output
    assert "no dataset for it (7 episodes)" not in output


def test_missing_files_fail_for_one_reason(tmp_path):
    missing = [tmp_path / "in" / f"{number}.wshard" for number in range(5)]
    missing[0].parent.mkdir()
    for number in range(6):
        save_wshard(make_episode(number), tmp_path / "in" / f"{number}.wshard")
    TrajectoryIngestor(tmp_path / "archive").ingest(tmp_path / "in")
    for path in missing:
        path.unlink()
    code, _, output = run("convert", "--archive", tmp_path / "archive", "--where", "length:1..", tmp_path / "out")
    (line,) = (line for line in output.splitlines() if line.startswith("error: "))
    assert (code, line) == (1, f"error: {', '.join(map(str, missing[:3]))} and 2 more: No such file or directory")


def test_a_filter_that_no_episode_passes_writes_nothing(lines, tmp_path):
    TrajectoryIngestor(tmp_path / "archive").ingest(lines)
    code, _, output = run("convert", "--archive", tmp_path / "archive", "--where", "env:nope", tmp_path / "out")
    assert (code, output) == (1, "no episode has env 'nope'\nerror: no episode passes the filter 'env:nope'\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="needs a terminal of its own")
def test_losses_stand_on_lines_of_their_own_beside_the_bar(episode, tmp_path):
    screen, terminal = os.openpty()
    command = [sys.executable, "-m", "wshard", "convert", episode, tmp_path / "x.h5"]
    subprocess.run(command, stderr=terminal, env={**os.environ, "TERM": "xterm"}, check=True, timeout=60)
    os.close(terminal)
    before = os.read(screen, 100_000).split(b"lossy: ")[:-1]
    os.close(screen)
    assert before
    assert all(text.endswith((b"\n", b"\x1b[2K")) for text in before)


def test_overwriting_waits_for_the_new_and_error_refuses(lines, episode, tmp_path):
    out = tmp_path / "out"
    assert run("convert", lines, out)[0] == 0
    (out / "notes.txt").write_text("own")
    assert run("convert", lines, out, "--mode", "error")[0] == 1
    assert run("convert", episode, out, "--mode", "overwrite", "--to", "wshard")[0] == 0
    assert sorted(path.name for path in out.iterdir()) == ["notes.txt", f"{make_episode(T=40).id}.wshard"]


def test_what_the_target_cannot_hold_is_listed_and_refused_when_strict(episode, tmp_path):
    pytest.importorskip("h5py")
    code, out, err = run("convert", episode, tmp_path / "strict", "--to", "minari", "--strict")
    assert (code, out) == (1, "")
    assert err.startswith("lossy: ")
    assert "nothing was written" in err
    assert [path.name for path in tmp_path.iterdir()] == ["ep.wshard"]
    code, out, err = run("convert", episode, tmp_path / "loose", "--to", "minari")
    assert (code, "lossy: " in err, "1 episode" in out) == (0, True, True)


def test_ids_that_become_numbers_are_listed_and_refused_when_strict(lines, dataset_fixtures, tmp_path):
    loss = "lossy: id: becomes the number of the episode"
    code, _, err = run("convert", lines, tmp_path / "a.h5", "--to", "hdf5", "--strict")
    assert (code, f"{loss} (3 episodes)" in err, (tmp_path / "a.h5").exists()) == (1, True, False)
    source = dataset_fixtures / "world_model" / "main.h5"
    code, _, err = run("convert", source, tmp_path / "b.h5", "--to", "hdf5")
    assert (code, loss in err) == (0, False)  # the numbers stay
    code, _, err = run("convert", source, tmp_path / "b.h5", "--to", "hdf5")
    assert (code, "state --mode append" in err) == (1, True)  # they would be there twice
    code, _, err = run("convert", source, tmp_path / "b.h5", "--to", "hdf5", "--mode", "append")
    assert (code, f"{loss} (5 episodes)" in err) == (0, True)
    assert f"{loss} (1 episode)" in run("convert", f"{source}#3", tmp_path / "c.h5", "--to", "hdf5")[2]
    assert "cannot hold: ids: episodes are numbered" in run("formats", "hdf5")[1]


def test_wrong_places_and_formats_are_one_line(episode, tmp_path):
    for arguments, code, words in (
        (("convert", tmp_path / "nothing.npz", tmp_path / "x"), 1, "nothing.npz"),
        (("convert", episode, tmp_path / "x", "--to", "nosuch"), 2, "nosuch"),
        (("convert", episode, tmp_path / "x", "--from", "nosuch"), 2, "nosuch"),
        (("convert", episode, tmp_path / "x", "--map", "state"), 2, "OLD=NEW"),
        (("convert", episode, tmp_path / "x", "--to", "webdataset"), 2, "wshard shardify"),
        (("convert", episode), 2, "IN... OUT"),
        (("convert", episode, tmp_path / "x.npz", "--compression", "zstd"), 1, "compression"),
        (("convert", tmp_path, tmp_path / "none" / "x.npz"), 1, "x.npz"),
    ):
        found, out, err = run(*arguments)
        assert (found, out) == (code, ""), arguments
        assert words in " ".join(err.replace("│", " ").split()), arguments
    assert [path.name for path in tmp_path.iterdir()] == ["ep.wshard"]


def test_formats_are_listed_with_what_they_need():
    rows = json.loads(run("formats", "--json")[1])["items"]
    assert [row["format"] for row in rows] == list(FORMATS)
    assert "dreamerv3" in run("formats")[1]
    assert run("formats", "dreamerv3")[1].startswith("dreamerv3: DreamerV3 replay")
    assert run("formats", "nosuch")[0] == 2


def test_a_parent_folder_of_data_sets_is_converted_as_it_is_ingested(episode, tmp_path):
    parent = tmp_path / "parent"
    (parent / "deep").mkdir(parents=True)
    truth = {}
    for number, place in enumerate((parent / "a", parent / "deep/b")):
        with open_sink(place, "folder") as sink:
            for row, seed in enumerate((2 * number, 2 * number + 1)):
                sink.write(make_episode(seed, T=5 + seed))
                truth[f"{place.name}-ep_{row}"] = 5 + seed
    save_wshard(make_episode(9, T=30), parent / "deep/own.wshard")
    out = tmp_path / "out"
    code, stdout, stderr = run("convert", parent, out)
    assert (code, stderr) == (0, "")
    assert stdout.endswith(f"(wshard: 5 episodes, {sum(truth.values()) + 30} timesteps)\n")
    lengths = {file.stem: load_wshard(file).length for file in out.iterdir()}
    assert truth.items() <= lengths.items()
    assert len(lengths) == 5
    report = TrajectoryIngestor(tmp_path / "archive").ingest(parent)
    assert report.new == 5
    assert run("convert", parent, out)[1].endswith("5 already there)\n")


def test_a_key_of_a_parent_folder_is_refused_with_the_places_inside(tmp_path):
    for name in ("a", "b"):
        (tmp_path / "parent").mkdir(exist_ok=True)
        with open_sink(tmp_path / "parent" / name, "folder") as sink:
            sink.write(make_episode(T=5))
    message = f"it has a (folder), b (folder): name one, such as {tmp_path / 'parent' / 'a'},"
    code, _, stderr = run("convert", f"{tmp_path / 'parent'}#ep", tmp_path / "out")
    assert code == 1
    assert message in stderr
    with pytest.raises(FormatError, match=re.escape(message)):
        TrajectoryIngestor(tmp_path / "archive").ingest(f"{tmp_path / 'parent'}#ep")
