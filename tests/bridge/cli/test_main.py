"""The command line as a user meets it: exit codes and what the terminal shows, of real processes where they matter."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bridge_episodes import command

from bridge.cli.main import command as whole_command
from bridge.cli.verbs import EXAMPLES
from wshard import Channel, Episode, save_wshard
from wshard.formats.base import OWN_DATA
from wshard.testing import make_episode

WSHARD = str(Path(sys.executable).with_name("wshard"))


def wshard(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "WSHARD_ARCHIVE"}
    command = [WSHARD, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """Make a folder with eight episodes and an archive of them in ./.wshard; tests that change it take a copy."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "episodes").mkdir()
    for seed in range(8):
        episode = make_episode(seed, T=30 + seed, env_id=("Reach-v1", "Push-v1")[seed % 2])
        save_wshard(episode, folder / "episodes" / f"ep_{seed}.wshard")
    done = command("ingest", "episodes", folder=folder)
    assert done.exit_code == 0, done.stderr
    assert "8 new, 8 embedded" in done.stdout
    return folder


@pytest.fixture
def own(home, tmp_path) -> Path:
    """Copy the home folder, for a test that changes it."""
    shutil.copytree(home, tmp_path / "own")
    return tmp_path / "own"


def test_the_same_command_twice_does_nothing_the_second_time(home):
    again = command("ingest", "episodes", folder=home)
    assert again.exit_code == 0
    assert "8 unchanged" in again.stdout
    assert "new" not in again.stdout


@pytest.mark.parametrize("kind", [".wshard", "archive"])
def test_an_archive_that_is_opened_by_a_link_is_the_same_archive(own, tmp_path, kind):
    link = tmp_path / "link"
    link.symlink_to(own)
    assert "8 new" in command("ingest", own / "episodes", "-a", link / "archive", folder=tmp_path).stdout
    for archive, episodes in ((own, own), (link, own), (own, link)):
        printed = command("ingest", episodes / "episodes", "-a", archive / kind, folder=tmp_path).stdout
        assert "8 unchanged" in printed
        assert "new" not in printed
    shown = command("show", own / "episodes/ep_2.wshard", "-a", link / kind, folder=tmp_path)
    assert f"{own}/episodes/ep_2.wshard" in shown.stdout, shown.output


def test_a_default_archive_that_is_opened_by_a_link_of_another_name_is_the_same(own, tmp_path):
    (tmp_path / "linked").symlink_to(own / ".wshard")
    assert "8 unchanged" in command("ingest", own / "episodes", "-a", "linked", folder=tmp_path).stdout
    assert "no problems found" in command("fsck", "-a", "linked", folder=tmp_path).stdout


def test_an_archive_that_was_made_by_a_link_can_be_moved_with_its_episodes(own, tmp_path):
    shutil.rmtree(own / ".wshard")
    (tmp_path / "link").symlink_to(own)
    assert "8 new" in command("ingest", "link/episodes", "-a", "link/.wshard", folder=tmp_path).stdout
    (tmp_path / "link").unlink()
    own.rename(tmp_path / "elsewhere")
    assert "no problems found" in command("fsck", "-a", "elsewhere/.wshard", folder=tmp_path).stdout


def test_search_finds_the_query_first_and_reports_how(home):
    done = command("search", "episodes/ep_3.wshard", "--top", 3, folder=home)
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["rank", "score", "episode", "env", "length", "reward", "file"]
    assert lines[1].split()[:4] == ["1", "1.0000", "reach-0003", "Push-v1"]
    assert lines[1].split()[-1] == "episodes/ep_3.wshard"
    assert lines[-1].startswith("3 hits, exact, ")


@pytest.mark.long
def test_a_closed_stderr_changes_nothing(own):
    quiet = f'"{WSHARD}" ingest episodes -a other 2>&-'
    done = subprocess.run(["/bin/sh", "-c", quiet], cwd=own, capture_output=True, text=True, check=False)
    assert "8 new" in done.stdout
    assert "8 of 8 episodes" in command("ls", "-a", "other", folder=own).stdout


def test_search_filters_and_json(home):
    done = command("search", "reach-0003", "--env", "Reach-v1", "--min-length", 33, "--json", folder=home)
    found = json.loads(done.stdout)
    assert found["exact"] is True
    assert {hit["metadata"]["env_id"] for hit in found["items"]} == {"Reach-v1"}
    assert sorted(hit["metadata"]["length"] for hit in found["items"]) == [34, 36]


def test_search_with_an_array_file_and_a_span(home, tmp_path):
    query = make_episode(5, T=35)
    lanes = [query.observations["gripper"].data[:, None], query.observations["joint_pos"].data]
    np.save(tmp_path / "query.npy", np.concatenate(lanes, axis=1))
    whole = json.loads(command("search", tmp_path / "query.npy", "--json", folder=home).stdout)["items"]
    assert (whole[0]["episode_id"], round(whole[0]["score"], 6)) == ("reach-0005", 1.0)
    part = json.loads(command("search", tmp_path / "query.npy", "--span", "0:9", "--json", folder=home).stdout)["items"]
    assert part[0]["score"] < 0.9999
    beyond = command("search", tmp_path / "query.npy", "--span", "30:36", folder=home)
    assert beyond.exit_code == 1
    assert "expected a span within shape [35, 8], found (30, 36)" in beyond.stderr


def test_moments_need_windows_and_then_have_spans(own):
    shutil.rmtree(own / ".wshard")
    assert command("ingest", "episodes", "--windows", "whole", folder=own).exit_code == 0
    before = command("search", "reach-0001", "--windows-only", folder=own)
    assert before.exit_code == 1
    assert "there are no vectors for this search" in before.stderr
    assert command("ingest", "episodes", "--windows", "8:4", folder=own).exit_code == 0
    done = command("search", "reach-0001", "--windows-only", "--span", "8:16", "--top", 1, "--json", folder=own)
    (hit,) = json.loads(done.stdout)["items"]
    assert (hit["episode_id"], hit["span"]) == ("reach-0001", [8, 16])


def test_ls_filters_sorts_and_pages(home):
    page = json.loads(command("ls", "--sort", "-length", "--limit", 3, "--json", folder=home).stdout)
    assert [row["length"] for row in page["items"]] == [37, 36, 35]
    assert page["total"] == 8
    rest = json.loads(
        command("ls", "--sort", "-length", "--limit", 9, "--after", page["next"], "--json", folder=home).stdout
    )
    assert [row["length"] for row in rest["items"]] == [34, 33, 32, 31, 30]
    assert rest["next"] is None
    some = command("ls", "--env", "Push-v1", "--max-length", 33, folder=home)
    assert "2 of 2 episodes" in some.stdout


def test_filters_as_text(home):
    some = command("ls", "--where", "env:Push-v1 -length:>33", folder=home)
    assert "2 of 2 episodes" in some.stdout
    both = command("ls", "--where", "env:Push-v1", "--max-length", 33, folder=home)
    assert both.stdout == some.stdout
    hits = json.loads(command("search", "reach-0003", "-w", "length:33..35 meta.task:*", "--json", folder=home).stdout)
    assert sorted(hit["metadata"]["length"] for hit in hits["items"]) == [33, 34, 35]
    lanes = json.loads(command("ls", "-w", "lane.signal/joint_pos.max[6]:*", "--json", folder=home).stdout)
    assert lanes["total"] == 8
    wrong = command("ls", "-w", "env:Push-v1 lenght:5", folder=home)
    assert wrong.exit_code == 2
    assert "found 'lenght' (did you mean length?), at character 13 of the filter" in wrong.stderr
    assert len(wrong.stderr.strip().splitlines()) == 1


def test_show_by_id_uid_and_file(home):
    (by_id,) = json.loads(command("show", "reach-0002", "--json", folder=home).stdout)["items"]
    (by_uid,) = json.loads(command("show", by_id["uid"], "--json", folder=home).stdout)["items"]
    (by_file,) = json.loads(command("show", "episodes/ep_2.wshard", "--json", folder=home).stdout)["items"]
    assert by_id == by_uid == by_file
    assert by_id["lanes"]["signal/joint_pos"] == "f32[7]"
    size = by_id["length"] * 7 * 4
    assert by_id["stored_lanes"]["signal/joint_pos"] == {"rate": 20.0, "codec": "none", "bytes": size, "stored": size}
    output = command("show", "reach-0002", folder=home).stdout
    assert output.startswith("uid ")
    assert f"f32[7], 20 Hz, none, {size:,} bytes, {size:,} stored" in output
    assert re.search(r"^tags *$", output, re.MULTILINE)
    scores = {name: f"{value:g}" for name, value in by_id["scores"].items()}
    assert scores
    assert dict(re.findall(r"^score (\S+) +(\S+) *$", output, re.MULTILINE)) == scores
    assert by_id["metadata"]["task"] == "reach"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ingest", "nowhere"), "no such file or folder: nowhere"),
        (("ingest", "."), "no episodes in .: expected files that end in .wshard"),
        (("ls",), "no archive at .wshard: expected .wshard/catalog.db in {}"),
        (("search", "x"), "no archive at .wshard"),
        (("ls", "-a", "linked"), "no archive at linked: expected linked/catalog.db; `wshard ingest`"),
        (("ingest", "ep.wshard", "--embedder", "nope"), "found 'nope'"),
        (("ingest", "ep.wshard", "--index", "gopher://x"), "found 'gopher://x'"),
    ],
)
def test_mistakes_are_one_clear_line_and_leave_nothing(tmp_path, arguments, message):
    if "ep.wshard" in arguments:
        save_wshard(make_episode(1), tmp_path / "ep.wshard")
    done = command(*arguments, folder=tmp_path)
    assert done.exit_code == (2 if "ep.wshard" in arguments else 1)
    assert message.format(f"{tmp_path} or in a folder above it") in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert isinstance(done.exception, SystemExit)
    assert not done.stdout
    if "ep.wshard" not in arguments:
        assert list(tmp_path.iterdir()) == []


def test_unknown_episode_names_are_reported(home):
    done = command("show", "nobody", folder=home)
    assert (done.exit_code, type(done.exception)) == (1, SystemExit)
    assert "'nobody' is neither a file nor an episode of this archive" in done.stderr
    done = command("show", "\udce9.wshard", folder=home)  # a file name that is not UTF-8
    assert (done.exit_code, type(done.exception)) == (1, SystemExit)
    assert "is not in this archive: its names and paths are text in UTF-8" in done.stderr


@pytest.mark.parametrize("bad", ["--reward=x", "--reward=5", "--span=1.5:2"])
def test_bad_ranges_are_usage_errors(home, bad):
    verb = ("search", "reach-0001") if bad.startswith("--span") else ("ls",)
    assert command(*verb, bad, folder=home).exit_code == 2


def test_a_broken_file_is_left_out_and_reported_and_the_rest_goes_in(own):
    broken = own / "episodes" / "broken.wshard"
    broken.write_bytes((own / "episodes" / "ep_1.wshard").read_bytes()[:500])
    save_wshard(make_episode(99), own / "episodes" / "good.wshard")
    done = command("ingest", "episodes", folder=own)
    assert done.exit_code == 1
    assert "failed: episodes/broken.wshard: total file size" in done.stderr
    assert "1 new, 8 unchanged, " in done.stdout
    assert ", 1 failed in " in done.stdout
    assert command("show", "episodes/good.wshard", folder=own).exit_code == 0
    assert command("show", "episodes/broken.wshard", folder=own).exit_code == 1


def test_of_many_files_that_are_left_out_the_first_are_named(tmp_path):
    for number in range(23):
        (tmp_path / f"{number:02d}.wshard").write_bytes(b"n" * (number + 1))
    done = command("ingest", ".", "-a", "archive", folder=tmp_path)
    assert (done.exit_code, done.stderr.count("failed: ")) == (1, 1)
    assert "failed: 00.wshard, 01.wshard, 02.wshard and 20 more (--json lists all): e.g. Data too short" in done.stderr
    everything = json.loads(command("ingest", ".", "-a", "archive", "--json", folder=tmp_path).stdout)
    assert len(everything["failed"]) == 23


def test_episodes_of_two_kinds_are_distinguished(own):
    planar = Channel.of("pose", np.cumsum(np.ones((25, 2), np.float32), axis=0))
    save_wshard(Episode("planar", "Plane-v0", 25, observations={"pose": planar}), own / "episodes" / "planar.wshard")
    assert command("ingest", "episodes", folder=own).exit_code == 0
    hits = json.loads(command("search", "planar", "--json", folder=own).stdout)["items"]
    assert [hit["episode_id"] for hit in hits] == ["planar"]
    np.save(own / "odd.npy", np.zeros((5, 3)))
    odd = command("search", "odd.npy", folder=own)
    assert odd.exit_code == 1
    assert "fits none of the searchable Spaces" in odd.stderr
    assert "signal/pose[2]" in odd.stderr


def test_text_with_markup_is_printed_as_it_is(own):
    state = Channel.of("gripper", np.zeros(9, np.float32))
    episode = Episode("[red]x[/red]", "[bold]", 9, observations={"gripper": state})
    save_wshard(episode, own / "episodes" / "markup.wshard")
    command("ingest", "episodes", folder=own)
    assert "[red]x[/red]  [bold]" in command("ls", "--env", "[bold]", folder=own).stdout


def test_help_lists_the_verbs(home):
    done = wshard("--help", folder=home)
    assert done.returncode == 0
    for verb in ("ingest", "search", "show", "ls", "inspect", "verify", "recover"):
        assert verb in done.stdout
    headings = re.findall(r"^(\w+):$", done.stdout, re.MULTILINE)
    assert headings == ["Options", "Archive", "Search", "Curate", "Maintenance", "Files"]  # no verb is left outside


def walk_verbs(verb, name=""):
    inner = getattr(verb, "commands", {})
    if not inner:
        yield name, verb
    for word, one in inner.items():
        yield from walk_verbs(one, f"{name} {word}".strip())


def test_every_help_names_all_options_in_full_at_80_columns_and_ends_with_an_example_that_fits():
    verbs = dict(walk_verbs(whole_command()))
    assert verbs.keys() == EXAMPLES.keys()
    for name, verb in verbs.items():
        example = EXAMPLES[name]
        message = verb.get_help(verb.make_context(name, shlex.split(example)[len(name.split()) :]))  # no wrong usage
        assert max(map(len, message.splitlines())) <= 80, name
        for option in verb.params:
            assert all(word in message for word in (*option.opts, *option.secondary_opts) if word[:1] == "-"), name
        assert "<bool>" not in message  # flags take no value
        assert message.endswith(f"\n    wshard {example}"), name


def test_data_of_other_programs_leads_to_the_page_that_helps(own):
    np.save(own / "walk.npy", np.zeros((5, 3)))
    (own / "walk.txt").write_text("notes")
    for name, advice in (("walk.npy", "`wshard layout guess"), ("walk.txt", OWN_DATA)):
        for line in (("ingest", name), ("convert", name, "walk.wshard")):
            done = command(*line, folder=own)
            assert done.exit_code == 1
            assert advice in done.stderr
            assert "magic" not in done.stderr


def test_a_file_where_the_archive_should_be_is_reported_as_one(tmp_path):
    (tmp_path / ".wshard").write_text("notes")
    save_wshard(make_episode(1), tmp_path / "ep.wshard")
    for arguments in (("ls",), ("ingest", "ep.wshard")):
        done = command(*arguments, folder=tmp_path)
        assert done.exit_code == 1
        assert re.search(r"expected a folder( \S*/\.wshard)?, found a file\n$", done.stderr)
    assert (tmp_path / ".wshard").read_text() == "notes"


def test_a_warning_is_one_line(home, tmp_path):
    damaged = bytearray((home / "episodes" / "ep_0.wshard").read_bytes())
    damaged[64] ^= 1  # a bit of the first stored hash
    (tmp_path / "a.wshard").write_bytes(damaged)
    done = wshard("cat", "a.wshard", "reward", "--span", "0:1", folder=tmp_path)
    assert done.returncode == 0
    assert re.fullmatch(r"warning: a\.wshard: block .*: the stored hash does not match the name: .*\n", done.stderr)


# Root may write everywhere, but not a program without CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH.
AS_OWNER = """
import ctypes, os, sys
for right in (1, 2):
    ctypes.CDLL(None).prctl(24, right, 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
SEVERAL = """
import json, sys
from typer.testing import CliRunner
from bridge.cli.main import make_app
app = make_app()
done = [CliRunner().invoke(app, arguments.split()) for arguments in sys.argv[1:]]
print(json.dumps([(one.exit_code, one.stdout, one.stderr) for one in done]))
"""
REFUSED = {
    "ingest episodes --archive locked/archive": "cannot make a catalog at {}/locked/archive/catalog.db: Permission",
    "ingest episodes --archive locked": "cannot make a catalog at {}/locked/catalog.db: Permission denied",
    "ingest episodes --archive hidden/archive": "cannot look for a catalog at {}/hidden/archive/catalog.db: ",
    "ingest episodes --archive file/archive": "cannot make a catalog at {}/file/archive/catalog.db: ",
    "ls --archive hidden/archive": "cannot look for a catalog at hidden/archive: ",
    "backup locked/backup": "cannot write {}/locked/backup: Permission denied",
    "ls --archive secret": "cannot use the catalog at {}/secret/catalog.db: Permission denied",
    "restore copy.db --archive locked/archive": "cannot make a catalog in {}/locked/archive: Permission denied",
    "inspect unreadable.wshard": "unreadable.wshard: Permission denied",
}


@pytest.mark.skipif(sys.platform != "linux", reason="rights are dropped in the way of Linux")
def test_what_may_not_be_written_or_read_is_one_line(own):
    shutil.copy(own / ".wshard" / "catalog.db", own / "copy.db")
    for name in ("locked", "hidden", "secret"):
        (own / name).mkdir()
    unreadable = ("unreadable.wshard", "secret/catalog.db")
    for name in ("file", *unreadable):
        (own / name).touch()
    for name, mode in (("locked", 0o555), ("hidden", 0o000), *((name, 0o000) for name in unreadable)):
        (own / name).chmod(mode)
    command = [sys.executable, "-c", AS_OWNER, "-c", SEVERAL, *REFUSED]
    done = subprocess.run(command, cwd=own, capture_output=True, text=True, check=True, timeout=60)
    for (code, out, error), message in zip(json.loads(done.stdout), REFUSED.values(), strict=True):
        assert (code, out) == (1, "")
        assert error.startswith(f"error: {message.format(own)}")
        assert error.count("\n") == 1
    assert list((own / "locked").iterdir()) == []


def test_an_interrupt_while_a_connection_is_returned_prints_nothing():
    script = """
import sys
from sqlalchemy import create_engine, event
import bridge.cli.main as cli
def interrupt(*_):
    raise KeyboardInterrupt
engine = create_engine("sqlite://")
event.listen(engine, "reset", interrupt)
def run(*_):
    def work(**_):
        with engine.connect():
            pass
    return work
cli.command = run
cli.main()
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "interrupted\n")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /dev/full")
def test_help_that_cannot_be_written_is_one_line():
    with open("/dev/full", "w") as full:  # noqa: PTH123
        command = [sys.executable, "-m", "wshard", "--help"]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "error: No space left on device\n")


def test_an_unknown_format_is_refused_before_anything_is_made(own):
    done = command("ingest", "episodes", "-a", "new", "--format", "nope", folder=own)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "format: expected one of wshard, " in done.stderr
    assert not (own / "new").exists()
