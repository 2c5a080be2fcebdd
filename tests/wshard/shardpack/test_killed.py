"""A writer killed at any moment leaves no half file, and no mixture of two datasets that is taken for one.

WSHARD_TORTURE: how many writers are killed (`make torture`: 200).
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time

from wshard.errors import ManifestError, MissingFileError
from wshard.shardpack import ShardLimits, ShardPackSet, ShardPackWriter, repair_shardpack, verify_shardpack

KILLS = int(os.environ.get("WSHARD_TORTURE", "3"))
PROGRAM = """
import itertools, sys
from wshard.shardpack import ShardLimits, ShardPackWriter
for turn in itertools.count(1):
    with ShardPackWriter(sys.argv[1], limits=ShardLimits(max_records=4), overwrite=True) as writer:
        for number in range(10 + turn % 9):
            writer.write_record(f"{turn}-{number}", {"a.bin": bytes([turn % 256]) * 5000})
    if turn == 1:
        print("ready", flush=True)
"""


def turns_of(samples: ShardPackSet) -> set[str]:
    """Return which writers the records are of; each holds what that writer wrote."""
    found = set()
    for record in samples:
        turn = record.key.partition("-")[0]
        assert record["a.bin"] == bytes([int(turn) % 256]) * 5000
        found.add(turn)
    return found


def test_a_killed_writer_leaves_whole_files_of_one_dataset(tmp_path):
    shards, rng, outcomes = tmp_path / "a-{0..}.shardpack", random.Random(0), {"whole": 0, "incomplete": 0}
    for _ in range(KILLS):
        with subprocess.Popen([sys.executable, "-c", PROGRAM, str(shards)], stdout=subprocess.PIPE) as child:
            assert child.stdout.readline() == b"ready\n"
            time.sleep(rng.uniform(0.02, 0.15))
            child.kill()
        for path in tmp_path.glob("*.shardpack"):
            assert verify_shardpack(path).ok
        try:
            with ShardPackSet(shards) as samples:
                assert len(turns_of(samples)) == 1
            outcomes["whole"] += 1
        except (ManifestError, MissingFileError):  # killed while files were being renamed; nothing is a mixture
            outcomes["incomplete"] += 1
        for path in tmp_path.glob("*.partial"):
            if path.stat().st_size > 10_000:  # two records or more
                assert repair_shardpack(path, tmp_path / "restored.shardpack").recovered
                (tmp_path / "restored.shardpack").unlink()
    assert outcomes["whole"] > 0 or KILLS < 20  # a few kills of a busy machine may all be in between
    with ShardPackWriter(shards, limits=ShardLimits(max_records=4), overwrite=True) as writer:
        writer.write_record("last", {})
    assert [path.name for path in tmp_path.iterdir()] == ["a-0.shardpack"]
