"""Benchmarks start as their docstrings say, from the folder of the project."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from paths import ROOT

SCRIPTS = [path for path in sorted((ROOT / "benchmarks").rglob("*.py")) if "ArgumentParser(" in path.read_text()]


@pytest.mark.long
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_starts(path):
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, path, "--help"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
