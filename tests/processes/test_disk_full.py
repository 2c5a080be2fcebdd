"""On a disk that fills up at any byte there is the old or the new, whole, and an error that says so; never a success.

WSHARD_DISK_SIZES: at how many sizes of the disk each way to write is tried (`make diskfull`: 64).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from paths import SUPPORT

SIZES = int(os.environ.get("WSHARD_DISK_SIZES", "1"))
PROGRAM = SUPPORT / "full_disk.py"


@pytest.mark.long
def test_whatever_fills_the_disk_there_is_the_old_or_the_new_and_never_a_false_success():
    if sys.platform != "linux":
        pytest.skip("a small disk for one process can be mounted on Linux only")
    command = [sys.executable, "-W", "error", str(PROGRAM), str(SIZES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    tried = [json.loads(line) for line in done.stdout.splitlines()]
    if tried and "skip" in tried[0]:
        pytest.skip(tried[0]["skip"])
    assert done.returncode == 0, done.stderr
    assert [one for one in tried if one["wrong"]] == []
    ways = {one["way"] for one in tried}
    assert len(ways) > 20
    for outcome in ("ok", "typed"):  # each way was tried with too little room, and with enough
        assert {one["way"] for one in tried if one["outcome"].startswith(outcome)} == ways
