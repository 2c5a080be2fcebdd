"""The page about training on a search result is true: what it says is done, from the recording to the policy."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
from bridge_episodes import command
from paths import ROOT

PAGE = ROOT / "docs" / "imitation.md"


@pytest.mark.long
def test_the_page_leads_from_a_recording_to_a_policy_that_is_judged(tmp_path, monkeypatch):
    for name in ("torch", "metaworld"):
        pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    programs = re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in programs] == ["python", "sh", "python", "python", "python"]
    for kind, program in programs:
        if kind == "python":
            # Of each task: to simulate an episode takes a second, and to draw forty goals as long.
            fewer = program.replace("range(6)", "range(4)").replace("goals=[40]", "goals=[11]")
            exec(compile(fewer, str(PAGE), "exec"), names)  # noqa: S102  (it is our own page)
            continue
        name, *arguments = shlex.split(program)
        assert name == "wshard"
        assert command(*arguments, folder=tmp_path).exit_code == 0
    found = {hit.metadata["env_id"] for hit in names["hits"][:2]}
    assert found == {"drawer-open-v3"}, "the first hits are those of the examples' task"
    heavy = [names["weights"][hit.uid] for hit in names["hits"] if hit.metadata["env_id"] == "drawer-open-v3"]
    assert min(heavy) > max(w for uid, w in names["weights"].items() if w not in heavy)
    assert names["success"] in (0.0, 1.0)
