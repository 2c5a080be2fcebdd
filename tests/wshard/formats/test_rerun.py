"""Recordings for Rerun are read by its own program; without its library, errors say what to install."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import numpy as np
import pytest

from wshard import Channel, Episode, TimebaseSpec, open_sink
from wshard.errors import MissingExtraError

HAS_RERUN = importlib.util.find_spec("rerun") is not None


@pytest.mark.skipif(HAS_RERUN, reason="rerun-sdk is installed")
def test_without_the_library_the_error_says_what_to_install(tmp_path):
    with pytest.raises(MissingExtraError, match=r"pip install .*rerun"):
        open_sink(tmp_path / "a.rrd", "rrd")


@pytest.mark.skipif(not HAS_RERUN, reason="no rerun-sdk here: pip install rerun-sdk")
def test_its_program_finds_lanes_cameras_and_metadata(tmp_path):
    episode = Episode(
        id="e",
        timebase=TimebaseSpec(tick_hz=10.0),
        observations={
            "state": Channel.of("state", np.arange(12, dtype=np.float32).reshape(6, 2)),
            "cam": Channel.of("cam", np.full((6, 4, 5, 3), 7, np.uint8)),
        },
        metadata={"task": "find me"},
    )
    with open_sink(tmp_path / "a.rrd", "rrd") as sink:
        sink.write(episode)
    command = [sys.executable, "-m", "rerun", "rrd"]
    subprocess.run([*command, "verify", tmp_path / "a.rrd"], check=True, timeout=60)
    output = subprocess.check_output([*command, "print", "-vvv", tmp_path / "a.rrd"], text=True, timeout=60)
    assert all(text in output for text in ("/signal/state", "/signal/cam", "find me")), output
    assert [path.name for path in tmp_path.iterdir()] == ["a.rrd"]
