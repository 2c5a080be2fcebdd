"""The page about the user's own data is true: its blocks run in order, and it lists what there is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bridge_episodes import command
from paths import ROOT

from wshard.formats.layouts.layout import CONTAINERS, ROLES, RULES
from wshard.formats.layouts.named import shipped_layouts

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PAGE = ROOT / "docs" / "layouts.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_its_blocks_run_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    hits = []
    for kind, text in BLOCK.findall(PAGE.read_text()):
        if kind == "python":
            exec(compile(text, PAGE.name, "exec"), names)  # noqa: S102  (it is our own page)
        elif kind == "toml":
            (tmp_path / "own.toml").write_text(text)
        else:
            for line in text.splitlines():
                done = command(*line.removeprefix("$ wshard ").split(), folder=tmp_path)
                assert done.exit_code == 0, f"{line}: {done.output}"
                hits += [done.stdout.splitlines()] if "search" in line else []
    assert "5 recorded; 0 failed" in capsys.readouterr().out
    assert len(names["lab"]) == 3 + 1 + 5 + 4
    assert [any("1.0000" in line for line in found) for found in hits] == [True, True]
    channel = names["lab"].episode("run_1").load().observations["state"]
    assert (channel.names, channel.unit) == (("j1", "j2", "j3", "j4", "j5", "j6", "j7"), "rad")


def test_it_lists_what_there_is() -> None:
    page = PAGE.read_text()
    words = (*CONTAINERS, *ROLES, *RULES)
    assert [word for word in words if not re.search(rf'[`/"]{re.escape(word)}[`/"]', page)] == []
    assert page.endswith("".join(f"| `{name}` | {one.about} |\n" for name, one in shipped_layouts().items()))
