"""The verbs about files, and what importing the package loads."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import typer
from paths import ROOT
from typer.testing import CliRunner

import wshard.cli.files
from wshard import (
    Channel,
    ChannelDef,
    DType,
    Episode,
    ShardReader,
    ShardWriter,
    WShardStreamWriter,
    load_wshard,
    open_wshard,
    save_wshard,
)
from wshard.cli.common import reported
from wshard.cli.files import app
from wshard.core.container.layout import ENTRY_COMPRESSED, HEADER_SIZE, checksum
from wshard.core.container.metadata import ShardMetadata
from wshard.errors import MissingExtraError
from wshard.testing import make_episode
from wshard.training.conversion.jobs import list_jobs
from wshard.training.conversion.location import convert_location

RUNNER = CliRunner()


def run(*arguments: object):
    return RUNNER.invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def episode(tmp_path) -> Path:
    path = tmp_path / "a.wshard"
    save_wshard(make_episode(0, image_size=8), path, {"signal/joint_pos": "zstd", "*": "none"})
    return path


def damage(path: Path, block: str) -> None:
    with open_wshard(path) as file:
        offset = file.shard.entry(block).data_offset
    data = bytearray(path.read_bytes())
    data[offset + 9] ^= 1
    path.write_bytes(data)


# ---- inspect -------------------------------------------------------------------------------------------------------


def test_inspect_shows_the_episode_and_every_lane(episode):
    result = run("inspect", episode)
    assert result.exit_code == 0
    assert f"file size  : {episode.stat().st_size} bytes" in result.stdout
    for line in (
        "episode id : reach-0000",
        "env id     : Reach-v1",
        "length     : 20 timesteps at 20 Hz (1.00 s)",
        'metadata   : {"task": "reach", "success": true, "seed": 0}',
        "filled in  : time/ticks (not recorded)",
    ):
        assert line in result.stdout
    lines = result.stdout.splitlines()
    table = [line.rstrip() for line in lines[lines.index(next(line for line in lines if "dtype" in line)) + 1 :]]
    assert [line[: len(line) - len(line.lstrip())] + line.split()[0] for line in table] == [
        "action/",
        "  ctrl",
        "done",
        "meta/",
        "  channels",
        "  episode",
        "  wshard",
        "reward",
        "signal/",
        "  camera/",
        "    rgb",
        "  gripper",
        "  joint_pos",
        "time/",
        "  ticks",
    ]
    rows = {line.split()[0]: line.split()[1:] for line in table}
    assert rows["rgb"] == ["u8", "20x8x8x3", "none", "3840", "3840", "100%", "ok"]
    assert rows["gripper"][:3] == ["f32", "20", "none"]
    assert rows["joint_pos"][2] == "none" or rows["joint_pos"][5] != "100%"


def test_inspect_reports_a_rate_that_no_one_gave(tmp_path):
    path = with_lanes(tmp_path, a=np.zeros(20))
    assert "length     : 20 timesteps (30 Hz is assumed: no rate was given)" in run("inspect", path).stdout
    assert json.loads(run("inspect", path, "--json").stdout)["episode"]["assumed_rate"] is True


def test_inspect_as_json_reports_the_same_and_more(episode):
    report = json.loads(run("inspect", episode, "--json").stdout)
    blocks = {block["block"]: block for block in report["blocks"]}
    assert report["episode"]["length"] == 20
    assert report["episode"]["metadata"] == make_episode(0).metadata
    assert blocks["action/ctrl"] == {
        "block": "action/ctrl",
        "codec": "none",
        "size": 320,
        "stored": 320,
        "crc": "ok",
        "dtype": "f32",
        "shape": [20, 4],
        "kinds": ["4:number"],
    }
    with open_wshard(episode) as file:
        assert report["digest"] == file.digest()


def test_inspect_shows_compression_and_damage(tmp_path):
    path = tmp_path / "a.wshard"
    save_wshard(make_episode(0, 300), path, {"signal/gripper": "lz4"})
    damage(path, "signal/joint_pos")
    blocks = {block["block"]: block for block in json.loads(run("inspect", path, "--json").stdout)["blocks"]}
    assert (blocks["signal/gripper"]["codec"], blocks["signal/gripper"]["crc"]) == ("lz4", "ok")
    assert blocks["signal/gripper"]["stored"] < 100 < blocks["signal/gripper"]["size"]
    assert blocks["signal/joint_pos"]["crc"] == "BAD"
    assert "BAD" in run("inspect", path).stdout


def test_inspect_shows_containers_that_are_not_episodes(tmp_path):
    with ShardWriter(tmp_path / "a.shard") as writer:
        writer.write_entry("notes", b"text")
    result = run("inspect", tmp_path / "a.shard")
    assert result.exit_code == 0
    assert "notes" in result.stdout
    assert "episode id" not in result.stdout


def test_names_cannot_command_the_terminal(tmp_path):
    path = tmp_path / "a.shard"
    with ShardWriter(path) as writer:
        writer.write_entry("\x1b[31m[bold]\x07\nname", b"text")
    for verb in ("inspect", "verify"):
        result = run(verb, path)
        assert result.exit_code == 0
        assert "\x1b" not in result.stdout
    assert r"\x1b[31m[bold]\x07\nname" in run("inspect", path).stdout


# ---- verify --------------------------------------------------------------------------------------------------------


def test_verify_accepts_own_and_golden_files(episode, golden):
    result = run("verify", episode, golden)
    assert result.exit_code == 0
    assert f"OK    10 block(s) verified  {episode}" in result.stdout
    assert f"OK    5 block(s) verified  {golden / 'compressed.wshard'}" in result.stdout
    count = 1 + len(list(golden.glob("*.wshard")))
    assert result.stdout.endswith(f"{count} of {count} files OK\n")


def test_verify_accepts_files_of_other_writers(wshard_fixtures):
    result = run("verify", wshard_fixtures / "golden", wshard_fixtures / "other-writers")
    assert result.exit_code == 1
    failed = [line for line in result.stdout.splitlines() if line.startswith("FAIL")]
    assert len(failed) == 2
    assert failed[0].startswith(f"FAIL  header: {wshard_fixtures / 'other-writers' / 'py_stream_100.wshard'}: blocks ")
    assert "overlap at offset" in failed[0]


def test_verify_names_the_damaged_blocks_and_fails(episode):
    damage(episode, "signal/gripper")
    damage(episode, "action/ctrl")
    result = run("verify", episode)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"FAIL  'action/ctrl': {episode}: block 'action/ctrl': Checksum mismatch: stored 0x")
    assert lines[1].startswith("FAIL  'signal/gripper': ")
    assert lines[2] == f"FAIL  2 problem(s) in 10 block(s)  {episode}"


def test_verify_finds_what_no_checksum_tells(tmp_path):
    """Lanes that contradict the episode's length, and files that are none."""
    with ShardWriter(tmp_path / "lane.wshard", role=5) as writer:
        writer.write_entry("meta/episode", b'{"episode_id": "e", "length_T": 3}')
        writer.write_entry("reward", bytes(16))
    (tmp_path / "none.wshard").write_bytes(b"nothing")
    with ShardWriter(tmp_path / "meta.wshard", role=5) as writer:
        writer.write_entry("meta/episode", b"{")
    result = run("verify", tmp_path, "--json")
    assert result.exit_code == 1
    found = {
        Path(file["path"]).name: [p["block"] for p in file["problems"]] for file in json.loads(result.stdout)["items"]
    }
    assert found == {"lane.wshard": ["reward"], "none.wshard": ["header"], "meta.wshard": ["meta"]}
    assert "FAIL  header: " in run("verify", tmp_path / "none.wshard").stdout


def test_a_cut_file_leads_to_repair_where_any_block_is_left(episode):
    whole = episode.read_bytes()
    for saved, message in (
        (len(whole) - 1, "`wshard repair` saves the intact blocks"),
        (100, "no block of it is left"),
    ):
        episode.write_bytes(whole[:saved])
        result = run("verify", episode)
        assert (result.exit_code, message in result.stdout) == (1, True)
        assert run("repair", episode).exit_code == 1


def test_verify_follows_links_once_and_passes_nothing_by(episode, tmp_path):
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    episode.rename(elsewhere / "damaged.wshard")
    damage(elsewhere / "damaged.wshard", "reward")
    (folder / "linked").symlink_to(elsewhere)
    (folder / "again").symlink_to(elsewhere)
    (elsewhere / "round").symlink_to(folder)
    (folder / "gone.wshard").symlink_to("nowhere")
    os.mkfifo(folder / "pipe.wshard")
    result = run("verify", folder, "--json")
    assert result.exit_code == 1
    assert sorted(Path(one["path"]).name for one in json.loads(result.stdout)["items"]) == [
        "damaged.wshard", "gone.wshard", "pipe.wshard"
    ]  # fmt: skip
    assert all(one["problems"] for one in json.loads(result.stdout)["items"])


def test_verify_strict_refuses_what_can_be_read_nevertheless(episode, tmp_path):
    assert run("verify", "--strict", episode).exit_code == 0
    with ShardWriter(tmp_path / "a.shard", compression="zstd") as writer:
        writer.write_entry("meta", b"json" * 100)
    with ShardReader(tmp_path / "a.shard") as reader:
        stored = checksum(reader.stored("meta"))
    patch(tmp_path / "a.shard", HEADER_SIZE + 14, ENTRY_COMPRESSED.to_bytes(2, "little"))
    patch(tmp_path / "a.shard", HEADER_SIZE + 40, stored.to_bytes(4, "little"))
    with ShardWriter(tmp_path / "b.shard") as writer:
        writer.write_entry("block", b"data")
    patch(tmp_path / "b.shard", 6, bytes(2))
    patch(tmp_path / "b.shard", HEADER_SIZE + 40, bytes(4))
    assert run("verify", tmp_path).exit_code == 0
    result = run("verify", "--strict", tmp_path)
    assert result.exit_code == 1
    assert "FAIL  header: " in result.stdout
    assert "its checksum is that of the compressed bytes" in result.stdout
    assert "FAIL  'block': " in result.stdout
    assert "no checksum covers it" in result.stdout
    assert "1 of 3 files OK" in result.stdout


def patch(path: Path, place: int, data: bytes) -> None:
    whole = bytearray(path.read_bytes())
    whole[place : place + len(data)] = data
    path.write_bytes(whole)


def test_a_file_that_cannot_be_opened_stops_neither_verify_nor_convert_of_its_folder(tmp_path):
    folder = tmp_path / "lab"
    folder.mkdir()
    for number in range(2):
        save_wshard(make_episode(number), tmp_path / f"{number}.wshard")
        convert_location(tmp_path / f"{number}.wshard", folder / f"{number}.hdf5")
    (folder / "0.hdf5").write_bytes((folder / "0.hdf5").read_bytes()[:-100])
    (folder / "cut.wshard").write_bytes((tmp_path / "0.wshard").read_bytes()[:-100])
    result = run("verify", folder)
    assert result.exit_code == 1
    assert "1 of 3 episodes OK" in result.stdout
    assert all(f"0 block(s)  {folder / name}" in result.stdout for name in ("0.hdf5", "cut.wshard"))
    jobs = list_jobs([folder])
    assert sorted(Path(job.span.address.uri).name for job in jobs) == ["0.hdf5", "1.hdf5", "cut.wshard"]
    converted = convert_location(folder, tmp_path / "out", target_format="wshard")
    assert (converted.converted, len(converted.outcomes)) == (1, 3)


def test_verify_with_nothing_to_check_fails(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    assert run("verify", tmp_path).exit_code == 1
    message = run("verify", tmp_path).stderr
    assert "nothing to verify" in message
    assert "give other formats by their own paths" in message
    output = run("verify", tmp_path / "never")
    assert (output.exit_code, output.stderr) == (1, f"error: {tmp_path / 'never'}: No such file or directory\n")
    (tmp_path / "fine").mkdir()
    (tmp_path / "empty").mkdir()
    save_wshard(make_episode(), tmp_path / "fine" / "a.wshard")
    output = run("verify", tmp_path / "fine", tmp_path / "empty")
    assert (output.exit_code, output.stderr) == (1, "")
    assert "1 of 2 files OK" in output.stdout
    assert f"FAIL  1 problem(s) in 0 block(s)  {tmp_path / 'empty'}" in output.stdout
    assert run("verify").exit_code == 2


# ---- recover -------------------------------------------------------------------------------------------------------


def test_recover_says_what_it_saved(tmp_path, golden):
    (tmp_path / "a.wshard.partial").write_bytes((golden / "recording.journal").read_bytes())
    result = run("recover", tmp_path / "a.wshard.partial", "--compression", "zstd")
    assert result.exit_code == 0
    assert result.stdout == f"recovered  {tmp_path / 'a.wshard'}  (3 timesteps)\n"
    assert load_wshard(tmp_path / "a.wshard").length == 3


def test_recover_reports_errors_in_one_line(tmp_path):
    (tmp_path / "a.wshard.partial").write_bytes(b"WSJ1")
    result = run("recover", tmp_path / "a.wshard.partial")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert (tmp_path / "a.wshard.partial").exists()


# ---- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["inspect", "recover"])
def test_missing_files_are_one_line(verb, tmp_path):
    result = run(verb, tmp_path / "never.wshard.partial")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: ")
    assert "never.wshard.partial" in result.stderr


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (MissingExtraError("needs\nmore"), 1, "error: needs\nmore\n"),
        (PermissionError(13, "Permission denied", "x"), 1, "error: x: Permission denied\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_errors_end_verbs_with_one_line_and_a_code(error, code, said, capsys):
    @reported()
    def verb():
        raise error

    with pytest.raises(typer.Exit) as caught:
        verb()
    assert caught.value.exit_code == code
    assert capsys.readouterr().err == said


def test_programming_errors_are_not_hidden():
    @reported()
    def verb():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        verb()


# ---- as a process --------------------------------------------------------------------------------------------------


def child(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *map(str, arguments)]
    settings = os.environ | environment
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=settings, cwd=ROOT)


@pytest.mark.long
def test_verbs_work_in_a_process_and_through_a_pipe(episode):
    program = "from wshard.cli.files import app; app()"
    result = child("-c", program, "inspect", episode)
    assert (result.returncode, result.stderr) == (0, "")
    assert "    rgb " in result.stdout
    assert child("-c", program, "verify", episode).returncode == 0


def test_interrupt_ends_with_one_line_and_130(tmp_path):
    program = (
        "import wshard.cli.files, wshard.core.recording.recover, signal\n"
        "wshard.core.recording.recover.recover = lambda *a, **k: signal.raise_signal(signal.SIGINT)\n"
        "wshard.cli.files.app()"
    )
    result = child("-c", program, "recover", tmp_path)
    assert (result.returncode, result.stderr.strip()) == (128 + signal.SIGINT, "interrupted")


def test_module_runs_the_installed_command(tmp_path):
    """`python -m wshard` runs what is registered as the command, and says so if nothing is."""
    info = tmp_path / "wshard-99.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: wshard\nVersion: 99\n")
    (info / "entry_points.txt").write_text("[console_scripts]\nwshard = somebodys_cli:main\n")
    (tmp_path / "somebodys_cli.py").write_text("def main(): print('hello'); raise SystemExit(7)\n")
    result = child("-m", "wshard", PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert (result.returncode, result.stdout) == (7, "hello\n")
    (info / "entry_points.txt").write_text("")
    result = child("-m", "wshard", PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert result.returncode == 1
    assert "not installed" in result.stderr


@pytest.mark.parametrize("module", ["wshard", "wshard.core.recording.writer", "wshard.testing"])
def test_importing_the_library_loads_no_heavy_package(module):
    heavy = ["torch", "sqlalchemy", "httpx", "rich", "typer", "hypothesis", "bridge", "catalog", "embedders", "pandas"]
    program = f"import json, sys, {module}; print(json.dumps([m for m in {heavy} if m in sys.modules]))"
    assert json.loads(child("-c", program).stdout) == []


def test_importing_the_command_line_loads_nothing_beyond_typer():
    program = (
        "import sys, wshard.errors, typer; before = set(sys.modules); import wshard.cli.files; "
        "print(*sorted(name for name in {*sys.modules} - before if name.split('.')[0] not in sys.stdlib_module_names))"
    )
    assert child("-c", program).stdout.split() == [
        "wshard.cli",
        "wshard.cli.common",
        "wshard.cli.files",
        "wshard.cli.interrupts",
    ]


def test_recording_and_inspecting_while_it_runs_do_not_meet(tmp_path):
    """A recording in progress is no file to check."""
    with WShardStreamWriter(tmp_path / "a.wshard", "e", [ChannelDef("s", DType.INT8)]) as recording:
        recording.begin_episode()
        assert run("verify", tmp_path).exit_code == 1
        assert run("recover", recording.partial).exit_code == 1
        recording.write_timestep(0, {"s": 1}, {}, 0, done=True)
    assert run("verify", tmp_path).exit_code == 0


# ---- cat -----------------------------------------------------------------------------------------------------------


def with_lanes(tmp_path: Path, **lanes: np.ndarray) -> Path:
    path = tmp_path / "lanes.wshard"
    length = len(next(iter(lanes.values())))
    channels = {name: Channel.of(name, array) for name, array in lanes.items()}
    save_wshard(Episode("e", length=length, observations=channels), path)
    return path


def test_cat_gives_npy_that_numpy_loads(episode, tmp_path):
    assert run("cat", episode, "action/ctrl", "--format", "npy", "-o", tmp_path / "a.npy").exit_code == 0
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), make_episode(0, image_size=8).actions["ctrl"].data)
    output = run("cat", episode, "camera/rgb", "-f", "npy", "--span", "3:5")
    found = np.load(io.BytesIO(output.stdout_bytes))
    np.testing.assert_array_equal(found, make_episode(0, image_size=8).observations["camera/rgb"].data[3:5])


def test_cat_gives_csv_with_timesteps_and_places(tmp_path):
    path = with_lanes(
        tmp_path,
        a=np.array([0.1, 1e-7, np.nan], "f4"),
        b=np.arange(12, dtype="i2").reshape(3, 2, 2),
        c=np.array([True, False, True]),
        d=np.zeros((3, 0)),
    )
    assert run("cat", path, "a").stdout == "t,value\n0,0.1\n1,1e-07\n2,nan\n"
    assert run("cat", path, "b", "--span", "1:").stdout == "t,0.0,0.1,1.0,1.1\n1,4,5,6,7\n2,8,9,10,11\n"
    assert run("cat", path, "c", "--span", ":2").stdout == "t,value\n0,1\n1,0\n"
    assert run("cat", path, "d").stdout == "t\n0\n1\n2\n"


def test_cat_gives_json_that_loses_nothing(tmp_path):
    values = np.array([[0.1, np.inf], [-np.inf, np.nan]], "f4")
    path = with_lanes(tmp_path, a=values, b=np.array([2**63, 1], "u8"), c=np.array([True, False]))
    found = json.loads(run("cat", path, "a", "-f", "json").stdout)
    assert found == {
        "lane": "a",
        "dtype": "float32",
        "span": [0, 2],
        "shape": [2, 2],
        "values": [[0.1, "Infinity"], ["-Infinity", "NaN"]],
    }
    assert json.loads(run("cat", path, "b", "-f", "json", "--span", "0:1").stdout)["values"] == [2**63]
    assert json.loads(run("cat", path, "c", "-f", "json", "--span", "2:").stdout)["values"] == []


def test_cat_writes_bfloat16_as_float32(tmp_path):
    path = with_lanes(tmp_path, a=np.array([1.5, -2.0], ml_dtypes.bfloat16))
    assert run("cat", path, "a").stdout == "t,value\n0,1.5\n1,-2.0\n"
    run("cat", path, "a", "-f", "npy", "-o", tmp_path / "a.npy")
    assert np.load(tmp_path / "a.npy").dtype == np.float32


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["never"], 1, "no lane 'never'; it has "),
        (["reward", "--span", "1-2"], 2, "expected START:STOP"),
        (["reward", "--span", "-1:2"], 2, "expected START:STOP"),
        (["reward", "--format", "xml"], 2, "xml"),
        (["reward", "--span", "5:2"], 1, "expected timesteps within 0:20, found 5:2"),
        (["reward", "--span", "21:"], 1, "expected timesteps within 0:20, found 21:"),
        (["reward", "--span", "0:21"], 1, "expected timesteps within 0:20, found 0:21"),
    ],
)
def test_cat_reports_what_is_wrong(arguments, code, said, episode):
    result = run("cat", episode, *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in " ".join(result.stderr.split())


def test_cat_writes_what_the_suffix_tells(episode, tmp_path):
    ctrl = make_episode(0, image_size=8).actions["ctrl"].data
    assert run("cat", episode, "action/ctrl", "-o", tmp_path / "a.NPY").exit_code == 0
    np.testing.assert_array_equal(np.load(tmp_path / "a.NPY"), ctrl)
    assert run("cat", episode, "action/ctrl", "-o", tmp_path / "a.json").exit_code == 0
    assert json.loads((tmp_path / "a.json").read_text())["lane"] == "action/ctrl"
    for name in ("frame.png", "a.parquet"):
        result = run("cat", episode, "camera/rgb", "-o", tmp_path / name)
        assert result.exit_code == 2
        assert "expected a .npy, .csv or .json file" in " ".join(result.stderr.split())
        assert not (tmp_path / name).exists()
    assert run("cat", episode, "reward", "--format", "csv", "-o", tmp_path / "a.tsv").exit_code == 0
    assert (tmp_path / "a.tsv").read_text().startswith("t,value")


def test_cat_replaces_its_own_files_only(episode, tmp_path):
    notes = tmp_path / "notes.csv"
    notes.write_text("operator,day\n")
    result = run("cat", episode, "reward", "-o", notes)
    assert (result.exit_code, notes.read_text()) == (1, "operator,day\n")
    assert "expected an unused path or an earlier lane as csv, found another file" in result.stderr
    (tmp_path / "a.csv").touch()  # nothing would be lost
    for suffix in (".csv", ".npy", ".json"):
        for _ in range(2):
            assert run("cat", episode, "reward", "-o", tmp_path / f"a{suffix}").exit_code == 0


def test_cat_does_not_write_over_what_it_reads(episode):
    before, link = episode.read_bytes(), episode.with_name("link.wshard")
    link.symlink_to(episode.name)
    for read, written in ((episode, episode), (link, episode), (episode, link)):
        result = run("cat", read, "reward", "--output", written)
        assert result.exit_code == 2
        assert "choose another one" in " ".join(result.stderr.split())
    assert episode.read_bytes() == before


# ---- progress, sections --------------------------------------------------------------------------------------------


def test_verify_reports_how_far_it_is_on_stderr(episode, golden, monkeypatch):
    monkeypatch.setattr(wshard.cli.files, "_REPORT_SECONDS", 0.0)
    result = run("verify", golden, "--json")
    count = len(list(golden.glob("*.wshard")))
    assert json.loads(result.stdout)["total"] == count
    assert result.stderr.splitlines() == [f"checked {number} of {count} files" for number in range(1, count + 1)]


def test_verify_reads_the_json_section_too(tmp_path):
    with ShardWriter(tmp_path / "a.shard") as writer:
        writer.set_metadata(ShardMetadata(producer="me"))
    assert run("verify", tmp_path / "a.shard").exit_code == 0
    (tmp_path / "a.shard").write_bytes((tmp_path / "a.shard").read_bytes().replace(b'"me"', b"1234"))
    assert (
        "producer: expected str"
        in json.loads(run("inspect", tmp_path / "a.shard", "--json").stdout)["section"]["error"]
    )
    result = run("verify", tmp_path / "a.shard")
    assert result.exit_code == 1
    assert result.stdout.startswith(f"FAIL  meta: {tmp_path / 'a.shard'}: JSON section: producer: expected str")
