"""The page about training data is true: its programs run, one after the other."""

from __future__ import annotations

import re

from paths import ROOT

from wshard.data import FORMATS

PAGE = ROOT / "docs" / "training.md"


def test_the_programs_of_the_page_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    programs = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(programs) >= 6
    for program in programs:
        exec(compile(program, str(PAGE), "exec"), names)  # noqa: S102  (it is our own page)
    FORMATS.pop("csv")  # which the page registers
