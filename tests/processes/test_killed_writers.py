"""After a kill at any stage of writing training data there is the old or the new, and the next attempt succeeds.

WSHARD_KILLS: at how many stages each way to write is killed (`make torture`: 40, and every way there is).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict

import pytest
from paths import SUPPORT

KILLS = int(os.environ.get("WSHARD_KILLS", "1"))
QUICK = ("pack over", "hdf5, overwrite", "folder, append", "lance, overwrite", "shardify")


@pytest.mark.long
def test_a_writer_that_is_killed_at_any_stage_leaves_the_old_or_the_new():
    if sys.platform != "linux":
        pytest.skip("processes that the system can fork and kill are needed")
    command = [sys.executable, "-W", "error", str(SUPPORT / "killed_writers.py"), str(KILLS)]
    done = subprocess.run([*command, *(QUICK if KILLS == 1 else ())], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    tried = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one for one in tried if one["wrong"]] == []
    states = defaultdict(set)
    for one in tried:
        states[one["way"]].add(one["state"])
    assert states["pack over"] == {"old", "new"}
    if KILLS == 1:
        assert states.keys() == {*QUICK}
    else:
        assert all(found >= {"old", "new"} for found in states.values())
