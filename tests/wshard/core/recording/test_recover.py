"""After a crash or a full disk: what was flushed is there, exactly, and nothing else is harmed."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from paths import SUPPORT
from wshard_recording import STATE, interrupted, record, writer

from wshard import FormatError, WShardStreamWriter, load_wshard, recover, save_wshard
from wshard.core.container.atomic_write import publish
from wshard.core.recording.journal import STEP_LANES
from wshard.errors import RecordingExistsError
from wshard.testing import assert_same_episode, make_episode

if TYPE_CHECKING:
    from pathlib import Path

# ---- recovery ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 1, 4, 9])
def test_recover_gives_all_flushed_timesteps(tmp_path, steps):
    """J-9."""
    path = recover(interrupted(tmp_path / "a.wshard", steps), compression="zstd")
    ep = load_wshard(path)
    assert (path, ep.length, ep.metadata) == (tmp_path / "a.wshard", steps // 4 * 4, {"recovered": True})
    t = np.arange(ep.length)
    np.testing.assert_array_equal(ep.observations["state"].data, np.stack([t, 2 * t], 1))
    np.testing.assert_array_equal(ep.rewards, t / 2)
    assert [child.name for child in tmp_path.iterdir()] == ["a.wshard"]


def test_recover_replaces_no_episode(tmp_path):
    partial = interrupted(tmp_path / "a.wshard", 9)
    (tmp_path / "a.wshard").write_bytes(b"earlier")
    with pytest.raises(RecordingExistsError, match="exists already"):
        recover(partial)
    assert partial.exists()
    assert (tmp_path / "a.wshard").read_bytes() == b"earlier"


def test_recover_of_invalid_recording_is_refused(tmp_path):
    for name, content in (("a.partial", b""), ("b.partial", b"SHRD" + bytes(60)), ("c.partial", b"WSJ1"), ("d", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(FormatError):
            recover(tmp_path / name)
        assert (tmp_path / name).read_bytes() == content
    with pytest.raises(FileNotFoundError):
        recover(tmp_path / "never.partial")


def test_journals_torn_anywhere_give_whole_flushes_only(tmp_path):
    """J-4: a recording cut at any byte."""
    journal = interrupted(tmp_path / "a.wshard", 12).read_bytes()
    (tmp_path / "a.wshard.partial").unlink()
    lengths = []
    for cut in range(0, len(journal) + 1, 3):
        partial = tmp_path / f"{cut}.wshard.partial"
        partial.write_bytes(journal[:cut])
        try:
            ep = load_wshard(recover(partial))
        except FormatError:
            assert partial.read_bytes() == journal[:cut]
            continue
        lengths.append(ep.length)
        np.testing.assert_array_equal(ep.ticks if ep.ticks is not None else [], np.arange(ep.length))
    assert lengths == sorted(lengths)
    assert set(lengths) == {0, 4, 8} | ({12} if len(journal) % 3 == 0 else set())


def test_damaged_journals_give_a_true_prefix_or_are_refused(tmp_path):
    """J-3, J-4: never values that nobody wrote."""
    journal = interrupted(tmp_path / "a.wshard", 12).read_bytes()
    (tmp_path / "a.wshard.partial").unlink()
    rng, recovered = random.Random(4), 0
    for number in range(300):
        damaged = bytearray(journal)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        partial = tmp_path / f"{number}.wshard.partial"
        partial.write_bytes(damaged)
        try:
            ep = load_wshard(recover(partial))
        except FormatError:
            continue
        recovered += 1
        t = np.arange(ep.length)
        assert ep.length in (0, 4, 8, 12)
        np.testing.assert_array_equal(ep.observations["state"].data, np.stack([t, 2 * t], 1))
        np.testing.assert_array_equal(ep.actions["ctrl"].data, t)
    assert recovered > 50


def records_of(*records: tuple[bytes, int, bytes]) -> bytes:
    """Pack records with right checksums, as a hostile writer would."""
    from wshard.core.container.layout import checksum  # noqa: PLC0415  (the one use)

    journal = b"WSJ1"
    for kind, steps, payload in records:
        head = kind + steps.to_bytes(4, "little") + len(payload).to_bytes(8, "little")
        journal += head + checksum(head + payload).to_bytes(4, "little") + payload
    return journal


LANES = b'["reward", "done", "time/ticks", "aux/truncations"]'
DESCRIPTION = [(b"DESC", 0, b"{}"), (b"DESC", 0, b'{"episode_id": "e"}'), (b"DESC", 0, b'{"channels": [{"id": "s"}]}')]


def lanes_with(**changes: object) -> tuple[bytes, int, bytes]:
    """Return the record of lanes of which the first is encoded."""
    lane = {"block": "signal/s", "codec": "h264", "frame_shape": [8, 8, 3], "frame_dtype": "u8"} | changes
    return b"LANE", 0, json.dumps([lane, *json.loads(LANES)]).encode()


HOSTILE = {
    "no description": [(b"ROWS", 1, bytes(10))],
    "two of three": DESCRIPTION[:2],
    "description no JSON": [*DESCRIPTION[:2], (b"DESC", 0, b"{")],
    "rows before lanes": [*DESCRIPTION, (b"ROWS", 1, bytes(10))],
    "lanes no JSON": [*DESCRIPTION, (b"LANE", 0, b"[")],
    "lanes nested": [*DESCRIPTION, (b"LANE", 0, b"[" * 100_000)],
    "lanes no list": [*DESCRIPTION, (b"LANE", 0, b"{}")],
    "lanes unknown": [*DESCRIPTION, (b"LANE", 0, LANES.replace(b"[", b'["signal/t", '))],
    "lanes of lists": [*DESCRIPTION, (b"LANE", 0, LANES.replace(b"[", b"[[], "))],
    "lanes twice": [*DESCRIPTION, (b"LANE", 0, LANES.replace(b"[", b'["signal/s", "signal/s", '))],
    "lanes incomplete": [*DESCRIPTION, (b"LANE", 0, b'["signal/s"]')],
    "reward before the channels": [
        *DESCRIPTION,
        (b"LANE", 0, LANES.replace(b'"reward", ', b'"reward", "signal/s", ')),
        (b"ROWS", 1, bytes(14)),
    ],
    "rows too short": [*DESCRIPTION, (b"LANE", 0, LANES), (b"ROWS", 2, bytes(10))],
    "rows too long": [*DESCRIPTION, (b"LANE", 0, LANES), (b"ROWS", 1, bytes(11))],
    "rows without end": [*DESCRIPTION, (b"LANE", 0, LANES), (b"ROWS", 2**32 - 1, b"")],
    "unknown record": [*DESCRIPTION, (b"LANE", 0, LANES), (b"WHAT", 0, b"")],
    "codec unknown": [*DESCRIPTION, lanes_with(codec="gif")],
    "codec no text": [*DESCRIPTION, lanes_with(codec=["h264"])],
    "codec of a step lane": [*DESCRIPTION, lanes_with(block="reward")],
    "codec of no frames": [*DESCRIPTION, lanes_with(frame_shape=[])],
    "codec of huge frames": [*DESCRIPTION, lanes_with(frame_shape=[1 << 20, 1 << 20, 3])],
    "frames without sizes": [*DESCRIPTION, lanes_with(), (b"ROWS", 1, bytes(10))],
    "frames too short": [*DESCRIPTION, lanes_with(), (b"ROWS", 1, bytes(10) + b"\5\0\0\0abcd")],
    "frames too long": [*DESCRIPTION, lanes_with(), (b"ROWS", 1, bytes(10) + b"\5\0\0\0abcdef")],
    "frames without end": [*DESCRIPTION, lanes_with(), (b"ROWS", 2**32 - 1, b"\377" * 100)],
    "frames of no video": [*DESCRIPTION, lanes_with(), (b"ROWS", 1, bytes(10) + b"\5\0\0\0abcde")],
    "frames empty": [*DESCRIPTION, lanes_with(), (b"ROWS", 1, bytes(14))],
    "lanes again": [*DESCRIPTION, (b"LANE", 0, LANES), (b"LANE", 0, LANES)],
}


@pytest.mark.parametrize("case", HOSTILE)
def test_journals_with_right_checksums_and_wrong_contents_are_refused(tmp_path, case):
    """J-2, J-3, J-11."""
    partial = tmp_path / "a.wshard.partial"
    partial.write_bytes(records_of(*HOSTILE[case]))
    with pytest.raises(FormatError):
        recover(partial)
    assert [path.name for path in tmp_path.iterdir()] == [partial.name]


def test_hand_made_journal_that_breaks_no_rule_is_recovered(tmp_path):
    """The hostile ones above are refused for what is wrong with them, not for how they are made."""
    partial = tmp_path / "a.wshard.partial"
    partial.write_bytes(records_of(*DESCRIPTION, (b"LANE", 0, LANES), (b"ROWS", 2, bytes(20))))
    assert load_wshard(recover(partial)).length == 2
    assert [lane.block for lane in STEP_LANES] == ["reward", "done", "time/ticks", "aux/truncations"]


KILLS = int(os.environ.get("WSHARD_TORTURE", "4"))

VICTIM = """
import sys, time
import numpy as np
from wshard.core.recording.writer import ChannelDef, WShardStreamWriter
from wshard.types import DType

recording = WShardStreamWriter(sys.argv[1], "e", [ChannelDef("s", DType.FLOAT64, [500])], None, flush_interval=3)
recording.begin_episode()
t, last = 0, int(sys.argv[2])
while t != last:
    recording.write_timestep(t, {"s": np.full(500, t * 1.5)}, {}, t, False)
    t += 1
    if t % 3 == 0:
        sys.stdout.write("%d\\n" % t)
        sys.stdout.flush()
recording.end_episode()
"""


def killed(path: Path, after: float, last: int = -1) -> int:
    """Kill a recording process `after` seconds from its first flush; return how many steps it says it has flushed."""
    with subprocess.Popen([sys.executable, "-c", VICTIM, path, str(last)], stdout=subprocess.PIPE) as child:
        said = os.read(child.stdout.fileno(), 100)
        deadline = time.monotonic() + after
        while (left := deadline - time.monotonic()) > 0:
            if select.select([child.stdout], [], [], left)[0]:
                said = said[-20:] + os.read(child.stdout.fileno(), 1 << 16)
        child.send_signal(signal.SIGKILL)
        said = said[-20:] + child.stdout.read()
    return int(said.split(b"\n")[-2])


def test_kill_at_any_moment_costs_no_flushed_timestep(tmp_path):
    """J-4, J-9: what is recovered has exact values."""
    rng = random.Random(9)
    for number in range(KILLS):
        path = tmp_path / f"{number}.wshard"
        flushed = killed(path, rng.uniform(0, 0.03))
        assert not path.exists()
        with pytest.raises(RecordingExistsError):
            WShardStreamWriter(path, "e", [STATE]).begin_episode()
        ep = load_wshard(recover(path.with_name(path.name + ".partial")))
        assert ep.length >= flushed > 0
        assert ep.length % 3 == 0
        t = np.arange(ep.length)
        np.testing.assert_array_equal(ep.observations["s"].data, np.repeat(t[:, None] * 1.5, 500, 1))
        np.testing.assert_array_equal(ep.rewards, t)
        np.testing.assert_array_equal(ep.ticks, t)


def test_kill_while_ending_leaves_the_episode_or_its_journal(tmp_path):
    """J-1, J-9, C-27: at any moment there is a whole episode, or a journal that gives one."""
    rng, ended = random.Random(5), 0
    for number in range(KILLS):
        path = tmp_path / f"{number}.wshard"
        flushed = killed(path, 0.04 * (number + rng.random()) / KILLS, last=300)
        partial = path.with_name(path.name + ".partial")
        if path.exists():
            ended += 1
        else:
            recover(partial)
        ep = load_wshard(path)
        assert 300 >= ep.length >= flushed
        assert ep.length == 300 or ep.metadata == {"recovered": True}
        np.testing.assert_array_equal(ep.observations["s"].data, np.repeat(np.arange(ep.length)[:, None] * 1.5, 500, 1))
        partial.unlink(missing_ok=True)  # killed between the two: the episode is whole already
        path.unlink()
    assert ended < KILLS


DIES_AT_THE_END = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from wshard_recording import record
Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
record(Path(sys.argv[1]), 9)
"""


@pytest.mark.parametrize("finish", ["recover", "record again"])
def test_what_a_killed_end_left_is_removed_and_nothing_else(tmp_path, finish):
    """J-10: a real temporary file of a process that died before the rename; beside it what only looks like one."""
    path, partial = tmp_path / "a.wshard", tmp_path / "a.wshard.partial"
    subprocess.run([sys.executable, "-c", DIES_AT_THE_END, path, SUPPORT], check=False, timeout=60)
    assert len(list(tmp_path.glob(".a.wshard.????????.tmp"))) == 1
    others = [tmp_path / name for name in (".a.wshard.0123abcd.tmp", ".a.wshard.tmp", ".b.wshard.0123abcd.tmp")]
    others[0].write_bytes(b"own")
    for other in others[1:]:
        other.write_bytes(b"SHRD")
    others += [tmp_path / ".a.wshard.0123abce.tmp", tmp_path / ".a.wshard.0123abcf.tmp"]
    others[3].symlink_to(others[1])
    others[4].mkdir()
    with publish(path) as file:  # another process could be here: its file is in use
        file.write(b"SHRD")
        file.flush()
        if finish == "recover":
            recover(partial)
        else:
            record(path, 9, overwrite=True)
        ep = load_wshard(path)
    assert ep.length >= 8
    assert path.read_bytes() == b"SHRD"
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])


def test_the_folder_is_durable_once_the_partial_is_there(tmp_path, monkeypatch):
    """J-10: whoever loses power a moment later finds the name."""
    synced: list[list[str]] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        if os.path.samestat(os.fstat(descriptor), tmp_path.stat()):
            synced.append(os.listdir(tmp_path))  # noqa: PTH208  (names alone)

    monkeypatch.setattr(os, "fsync", fsync)
    recording = writer(tmp_path / "a.wshard")
    recording.begin_episode()
    assert synced == [["a.wshard.partial"]]
    recording.abort()


# ---- full disk -----------------------------------------------------------------------------------------------------

FULL_DISK = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from wshard.core.episode.file import load_wshard, save_wshard
from wshard.core.recording.writer import ChannelDef, WShardStreamWriter
from wshard.testing import make_episode
from wshard.types import DType
import numpy as np

def save(path):
    save_wshard(make_episode(1, 2000), path)

def stream(path):
    with WShardStreamWriter(path, "e", [ChannelDef("s", DType.FLOAT64, [100])], flush_interval=7) as recording:
        recording.begin_episode()
        for t in range(2000):
            recording.write_timestep(t, {"s": np.full(100, t)}, {}, t, False)

def finish(path):
    with WShardStreamWriter(path, "e", [ChannelDef("s", DType.FLOAT64, [100])], flush_interval=7) as recording:
        recording.begin_episode()
        for t in range(60):
            recording.write_timestep(t, {"s": np.full(100, t)}, {}, t, False)
        recording.flush()
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

def begin(path):
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
    stream(path)

resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, resource.RLIM_INFINITY))
try:
    globals()[sys.argv[1]](sys.argv[2])
except OSError as error:
    print(type(error).__name__, error)
else:
    print("no error")
"""


def full_disk(action: str, path: Path) -> str:
    command = [sys.executable, "-c", FULL_DISK, action, path]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.fixture
def earlier(tmp_path) -> Path:
    path = tmp_path / "a.wshard"
    save_wshard(make_episode(0), path)
    return path


def test_full_disk_while_saving_keeps_the_earlier_file(earlier):
    """C-27."""
    said = full_disk("save", earlier)
    assert "File too large" in said
    assert str(earlier) in said
    assert [path.name for path in earlier.parent.iterdir()] == ["a.wshard"]
    assert_same_episode(load_wshard(earlier), make_episode(0))


@pytest.mark.parametrize(("action", "steps"), [("stream", 70), ("finish", 60)])
def test_full_disk_while_recording_keeps_what_was_flushed(earlier, action, steps):
    """J-8: the disk's failure is no decision to throw the recording away."""
    said = full_disk(action, earlier)
    assert "File too large" in said
    assert str(earlier) in said
    assert f"{earlier}.partial keeps what was recorded: save it with `wshard recover`" in said
    assert sorted(path.name for path in earlier.parent.iterdir()) == ["a.wshard", "a.wshard.partial"]
    assert_same_episode(load_wshard(earlier), make_episode(0))
    earlier.unlink()
    ep = load_wshard(recover(earlier.with_name("a.wshard.partial")))
    assert steps <= ep.length <= 90
    np.testing.assert_array_equal(ep.observations["s"].data, np.repeat(np.arange(ep.length)[:, None], 100, 1))


def test_full_disk_at_the_begin_leaves_no_partial(earlier):
    assert "File too large" in full_disk("begin", earlier)
    assert [path.name for path in earlier.parent.iterdir()] == ["a.wshard"]
