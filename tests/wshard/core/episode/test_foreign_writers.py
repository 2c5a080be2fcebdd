"""Files that other programs wrote: the golden ones, those of every known writer, and the hostile ones."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import warnings
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from wshard_files import saved, with_json

from wshard import Channel, DType, EpisodeFile, FormatError, Modality, ShardReader, load_wshard, open_wshard
from wshard.errors import LaneError, OverlapError
from wshard.testing import make_episode

if TYPE_CHECKING:
    from pathlib import Path

FOLDERS = ("golden", "other-writers")
CONTENT = {
    "go_episode.wshard": "go_episode",
    "go_stream.wshard": "go_stream",
    "ts_none.wshard": "ts",
    "ts_zstd.wshard": "ts",
    "ts_fnv_none.wshard": "ts",
    "py_none.wshard": "py",
    "py_zstd.wshard": "py",
    "py_lz4.wshard": "py",
    "py_stream_40.wshard": "py_stream_40",
}


def records(fixtures: Path, folder: str) -> dict:
    return json.loads((fixtures / folder / "expected.json").read_text())


def plain(array: np.ndarray) -> np.ndarray:
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


@pytest.mark.parametrize("folder", FOLDERS)
def test_container_gives_header_index_and_bytes_of_every_file(wshard_fixtures, folder):
    """C-1 to C-13: every field and every decoded block of every writer's file."""
    seen = Counter()
    for name, expected in records(wshard_fixtures, folder).items():
        if "interleaved" in expected:
            continue
        with ShardReader(wshard_fixtures / folder / name) as reader:
            header = expected["header"]
            assert reader.header.flags == int(header["flags"], 16)
            for field in ("role", "alignment", "compression_default", "entry_count", "total_file_size"):
                assert getattr(reader.header, field) == header[field], (name, field)
            for number, (entry, block) in enumerate(zip(reader.entries, expected["entries"], strict=True)):
                assert (entry.name, entry.content_type) == (block["name"], block["content_type"])
                assert (entry.data_offset, entry.disk_size) == (block["data_offset"], block["disk_size"])
                assert entry.name_hash == int(block["name_hash"], 16)
                found = hashlib.sha256(reader.read_entry(number)).hexdigest()
                assert found == block["decoded_sha256"], (name, entry.name)
                seen[folder] += 1
    assert seen[folder] >= {"golden": 25, "other-writers": 100}[folder]


@pytest.mark.parametrize("folder", FOLDERS)
def test_lanes_have_the_dtype_shape_and_first_values_that_are_expected(wshard_fixtures, folder):
    compared = 0
    for name, expected in records(wshard_fixtures, folder).items():
        if expected["header"]["role"] != 5 or "interleaved" in expected:
            continue
        with open_wshard(wshard_fixtures / folder / name) as file:
            for block in expected["entries"]:
                if "shape" not in block:
                    continue
                array = file.lane(block["name"])
                assert list(array.shape) == block["shape"]
                assert file.lanes()[block["name"]].dtype.value == block["dtype"]
                if "first_values" in block:
                    first = plain(array).ravel()[: len(block["first_values"])]
                    assert first.tolist() == pytest.approx(block["first_values"], nan_ok=True)
                compared += 1
    assert compared >= {"golden": 15, "other-writers": 60}[folder]


def every_lane(file: EpisodeFile) -> dict[str, np.ndarray]:
    """All blocks of an episode by name, as the Episode value holds them."""
    ep = file.load()
    lanes = {name: channel.data for name, channel in (ep.lanes() | ep.predictions()).items()}
    lanes |= {f"residual/{name}/{residual.type}": residual.data for name, residual in ep.residuals.items()}
    steps = {"reward": ep.rewards, "done": ep.terminations, "time/ticks": ep.ticks}
    return lanes | {name: array for name, array in steps.items() if array is not None}


@pytest.mark.parametrize("name", CONTENT)
def test_other_writers_episodes_have_their_true_values(wshard_fixtures, name):
    """E-6 to E-12: Go, TypeScript and Python files, with undeclared actions, omens and uncerts."""
    folder = wshard_fixtures / "other-writers"
    with np.load(folder / f"{CONTENT[name]}_content.npz", allow_pickle=False) as expected:
        with open_wshard(folder / name) as file:
            lanes = every_lane(file)
        assert sorted(lanes) == sorted(expected.files)
        for block in expected.files:
            found = plain(lanes[block])
            assert found.shape == expected[block].shape, block
            np.testing.assert_array_equal(found.astype(expected[block].dtype), expected[block], err_msg=block)
            if block not in ("done", "signal/o_bool"):
                assert found.dtype == expected[block].dtype, block


def test_go_episode_keeps_metadata_rate_and_modality(wshard_fixtures):
    """E-4, E-5: tick_hz, and a timestep_range [0, 0] that means "not a chunk"."""
    ep = load_wshard(wshard_fixtures / "other-writers" / "go_episode.wshard")
    assert ep.metadata == {"task": "demo", "success": True}
    assert (ep.id, ep.env_id, ep.length, ep.timebase.tick_hz) == ("go_ep", "GoEnv-v1", 20, 50.0)
    assert ep.timestep_range is None
    assert ep.observations["cam0/rgb"].modality is Modality.RGB
    assert list(ep.omens["joint_pos"]) == ["dreamer"]
    assert list(ep.uncerts) == ["joint_pos/dreamer/std"]


def test_predictions_that_newer_reference_packages_declare_have_their_dtype_and_shape():
    """E-6: `omen_channels` of meta/wshard."""
    ep = make_episode(3, 4)
    codes = np.arange(24, dtype=np.int16).reshape(4, 2, 3)
    ep.omens = {"joint_pos": {"dreamer": Channel.of("joint_pos/dreamer", codes)}}
    data = with_json(saved(ep), "meta/channels", lanes=None)
    assert load_wshard(data).omens["joint_pos"]["dreamer"].dtype is DType.FLOAT32  # E-10: nothing else is known
    row = {"block": "omen/joint_pos/dreamer", "dtype": "i16", "shape": [2, 3]}
    found = load_wshard(with_json(data, "meta/wshard", omen_channels=[row]))
    np.testing.assert_array_equal(found.omens["joint_pos"]["dreamer"].data, codes)
    with pytest.raises(LaneError, match="omen_channels: expected a list"):
        load_wshard(with_json(data, "meta/wshard", omen_channels={"a": 1}))


def test_typescript_files_have_their_rate_from_dt_ns(wshard_fixtures):
    assert load_wshard(wshard_fixtures / "other-writers" / "ts_none.wshard").timebase.tick_hz == 50.0


def test_golden_dtypes_are_the_declared_ones(wshard_fixtures):
    ep = load_wshard(wshard_fixtures / "golden" / "dtype_zoo.wshard")
    dtypes = {name: channel.dtype for name, channel in ep.observations.items()}
    assert dtypes == {f"{kind}_ch": DType(kind) for kind in ("f32", "f64", "i32", "u8", "bf16")}


def test_duplicate_names_of_a_container_give_the_last_by_name_and_each_by_number(wshard_fixtures):
    """C-12."""
    with ShardReader(wshard_fixtures / "other-writers" / "go_duplicate.shard") as reader:
        assert [reader.read_entry(number) for number in range(2)] == [b"first", b"second"]
        assert reader.read_entry("a") == b"second"


@pytest.mark.parametrize("read", [load_wshard, open_wshard, ShardReader])
def test_interleaved_stream_is_refused_as_an_overlap(wshard_fixtures, read):
    """C-7: every stored checksum of this file matches wrong bytes; only the overlap gives it away."""
    with pytest.raises(OverlapError, match="overlap at offset"):
        read(wshard_fixtures / "other-writers" / "py_stream_100.wshard")


@pytest.mark.parametrize("cut", [1, 10, 32, 64])
def test_cut_files_are_refused(wshard_fixtures, cut):
    """C-3: also where only padding is lost."""
    for path in sorted((wshard_fixtures / "other-writers").glob("*.wshard")):
        with pytest.raises(FormatError):
            load_wshard(path.read_bytes()[:-cut])


def test_files_of_other_writers_load_without_a_warning(wshard_fixtures):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in CONTENT:
            load_wshard(wshard_fixtures / "other-writers" / name)


# ---- the safety corpus ---------------------------------------------------------------------------------------------

JUDGE = """
import hashlib, json, resource, sys
from wshard.core.container.reader import ShardReader
from wshard.core.episode.file import load_wshard
from wshard.errors import FormatError

resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
for line in sys.stdin:
    path, kind = json.loads(line)
    entries = []
    try:
        if kind == "container":
            with ShardReader(path) as reader:
                for number, entry in enumerate(reader.entries):
                    data = reader.read_entry(number)
                    entries.append([entry.name, len(data), hashlib.sha256(data).hexdigest()])
        else:
            load_wshard(path)
        verdict = "accept"
    except FormatError as error:
        verdict = "reject" if str(error).startswith(path) else f"no file in message: {error}"
    except BaseException as error:
        verdict = f"foreign: {error!r}"
    print(json.dumps([verdict, entries]), flush=True)
"""


def test_every_file_of_the_safety_corpus_gets_its_verdict(wshard_fixtures):
    """Judged in a child with 1 GiB of memory: a crash, a MemoryError or a hang is a failure for every file."""
    corpus = json.loads((wshard_fixtures / "safety" / "expected.json").read_text())
    assert len(corpus) >= 50
    requested = [json.dumps([str(wshard_fixtures / "safety" / case["file"]), case["kind"]]) for case in corpus]
    child = subprocess.run(
        [sys.executable, "-c", JUDGE],
        input="\n".join(requested),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    verdicts = [json.loads(line) for line in child.stdout.splitlines()]
    assert len(verdicts) == len(corpus), f"died at {corpus[len(verdicts)]['file']}: {child.stderr}"
    for case, (verdict, entries) in zip(corpus, verdicts, strict=True):
        allowed = ("accept", "reject") if case["verdict"] == "either" else (case["verdict"],)
        assert verdict in allowed, f"{case['file']} ({case['why']}): {verdict}"
        if case["verdict"] == "accept" and "entries" in case:
            assert entries == [[e["name"], e["size"], e["data_sha256"]] for e in case["entries"]], case["file"]


@pytest.mark.long
def test_the_judge_of_the_corpus_sees_a_memory_error():
    """The verdicts above mean something only if the child's memory really is limited."""
    program = JUDGE.replace("load_wshard(path)", "bytearray(2 << 30)")
    child = subprocess.run(
        [sys.executable, "-c", program], input='["x", "wshard"]', capture_output=True, text=True, timeout=60, check=True
    )
    assert "MemoryError" in child.stdout
