"""The demo from end to end on a small plan, twice, and stopped in the middle."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from paths import ROOT

from bridge import open_archive

if TYPE_CHECKING:
    from pathlib import Path

SMALL = ("--tasks", "2", "--episodes", "2", "--camera-episodes", "1", "--workers", "2")


def demo(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "demo", "--folder", str(folder), *SMALL]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(folder: Path) -> str:
    running = demo(folder)
    out, err = running.communicate(timeout=250)
    assert running.returncode == 0, err
    return out


def interrupted_at(step: str, folder: Path) -> str:
    """Stop the demo with Ctrl-C when this step begins; return what it printed until then."""
    running, printed = demo(folder), []
    for line in running.stdout:
        printed.append(line)
        if line.startswith(f"== {step}"):
            break
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "Traceback" not in err
    assert err.strip().splitlines()[-1].startswith("interrupted: ")
    return "".join(printed)


def test_the_demo_runs_and_after_ctrl_c_the_next_run_repeats_nothing(tmp_path):
    folder = tmp_path / "archive"
    out = interrupted_at("Moments", folder)
    assert "8 recorded" in out
    assert "8 new, 0 unchanged, 8 embedded, 0 left out" in out
    out = finished(folder)
    assert "0 recorded (0 timesteps), 8 were there already" in out
    assert "0 new, 8 unchanged, 0 embedded, 0 left out" in out
    assert "bit for bit" in out
    assert "blocks (default)" in out
    assert (folder / "demo.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    with open_archive(folder) as archive:
        assert archive.catalog.query.count() == 8


def test_ctrl_c_while_recording_is_one_line(tmp_path):
    interrupted_at("Record", tmp_path / "archive")
