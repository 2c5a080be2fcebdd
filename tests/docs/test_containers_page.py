"""The page about containers is true: its programs run, one after the other."""

from __future__ import annotations

import re

from paths import ROOT

PAGE = ROOT / "docs" / "containers.md"


def test_the_programs_of_the_page_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    programs = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(programs) == 5
    for program in programs:
        exec(compile(program, str(PAGE), "exec"), {})  # noqa: S102  (it is our own page)
    assert (tmp_path / "cut.repaired.shard").exists()
