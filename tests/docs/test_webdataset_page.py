"""The page about WebDataset shards is true: its program and commands run, one after the other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from paths import ROOT

PAGE = ROOT / "docs" / "webdataset.md"


def test_the_program_and_the_commands_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    exec(compile(program, str(PAGE), "exec"), {})  # noqa: S102  (it is our own page)
    (commands,) = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    tools = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    script = "\n".join(["set -e", *(line.removeprefix("$ ") for line in commands.splitlines())])
    subprocess.run(["bash", "-c", script], cwd=tmp_path, env=tools, check=True, capture_output=True)
    shards = sorted(Path("shards").glob("*.tar"))
    assert [path.read_bytes() for path in shards] == [(Path("again") / path.name).read_bytes() for path in shards]
    assert (tmp_path / "poses" / "stats.json").exists()
