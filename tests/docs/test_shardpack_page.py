"""The page about ShardPacks is true: its programs and commands run, one after the other."""

from __future__ import annotations

import re
import shlex

from bridge_episodes import command
from paths import ROOT

PAGE = ROOT / "docs" / "shardpack.md"


def test_the_programs_of_the_page_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    programs = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(programs) == 7
    for program in programs:
        exec(compile(program, str(PAGE), "exec"), {})  # noqa: S102  (it is our own page)
    assert (tmp_path / "cut.repaired.shardpack").exists()


def test_the_commands_of_the_page_run_in_order(tmp_path):
    (tmp_path / "images" / "sub").mkdir(parents=True)
    for name in ("1.left.jpg", "1.json", "2.left.jpg"):
        (tmp_path / "images" / "sub" / name).write_text(name)
    (commands,) = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    for line in commands.splitlines():
        prompt, program, *arguments = shlex.split(line)
        assert (prompt, program) == ("$", "wshard")
        done = command(*arguments, folder=tmp_path)
        assert done.exit_code == 0, f"{line}: {done.stderr}"
    assert (tmp_path / "copy" / "sub" / "1.left.jpg").read_text() == "1.left.jpg"
    assert (tmp_path / "samples.tar").exists()
