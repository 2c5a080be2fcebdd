"""The page about WebDataset shards is true: its program and commands run, one after the other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from bridge_episodes import command
from paths import ROOT

PAGE = ROOT / "docs" / "webdataset.md"


def test_the_program_and_the_commands_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    exec(compile(code, str(PAGE), "exec"), {})  # noqa: S102  (it is our own page)
    (commands,) = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    for line in commands.splitlines():
        prompt, program, *arguments = shlex.split(line)
        assert (prompt, program) == ("$", "wshard")
        done = command(*arguments, folder=tmp_path)
        assert done.exit_code == 0, f"{line}: {done.stderr}"
    shards = sorted(Path("shards").glob("*.tar"))
    assert [path.read_bytes() for path in shards] == [(Path("again") / path.name).read_bytes() for path in shards]
    assert (tmp_path / "poses" / "stats.json").exists()
