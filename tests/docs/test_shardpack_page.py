"""The page about ShardPacks is true: its programs and commands run, one after the other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from paths import ROOT

PAGE = ROOT / "docs" / "shardpack.md"


def test_the_programs_of_the_page_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    programs = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(programs) == 6
    for program in programs:
        exec(compile(program, str(PAGE), "exec"), {})  # noqa: S102  (it is our own page)
    assert (tmp_path / "cut.repaired.shardpack").exists()


def test_the_commands_of_the_page_run_in_order(tmp_path):
    (tmp_path / "images" / "sub").mkdir(parents=True)
    for name in ("1.left.jpg", "1.json", "2.left.jpg"):
        (tmp_path / "images" / "sub" / name).write_text(name)
    (commands,) = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    tools = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    script = "\n".join(["set -e", *(line.removeprefix("$ ") for line in commands.splitlines())])
    subprocess.run(["bash", "-c", script], cwd=tmp_path, env=tools, check=True, capture_output=True)
    assert (tmp_path / "copy" / "sub" / "1.left.jpg").read_text() == "1.left.jpg"
    assert (tmp_path / "samples.tar").exists()
