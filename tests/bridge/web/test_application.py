"""The pages that the server names are those that the scripts show, and that the head of every page links to."""

from __future__ import annotations

import re

import pytest
from paths import ROOT

pytest.importorskip("starlette")

from bridge.web.application import PAGES

SCRIPTS = ROOT / "bridge" / "web" / "pages"


def test_every_page_has_a_script():
    shown = re.findall(r"^  (\w+): async ", (SCRIPTS / "main.js").read_text(), re.MULTILINE)
    assert sorted(shown) == sorted([*PAGES.values(), "login"])


def test_links_in_the_head_lead_to_pages():
    linked = dict(re.findall(r'\["(/[^"]*)", "[^"]+", "(\w+)"\]', (SCRIPTS / "components" / "shell.js").read_text()))
    assert linked == {path: name for path, name in PAGES.items() if name not in ("episode", "compare")}


def test_what_users_do_is_tested():
    folder = ROOT / "tests" / "bridge" / "web"
    named = set(re.findall(r"`(test_\w+)`", (folder / "README.md").read_text()))
    written = {
        name
        for file in folder.glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)
    }
    assert len(named) > 40
    assert named <= written
