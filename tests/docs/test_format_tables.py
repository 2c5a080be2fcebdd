"""The page of format tables is what `wshard formats NAME` prints; this file, run as a program, writes it."""

from __future__ import annotations

import sys
from pathlib import Path

from wshard.formats.base import FORMATS, describe_format

PAGE = Path(__file__).resolve().parents[2] / "docs" / "format_tables.md"
HEAD = """# What the fields of each format become

`wshard formats` lists the formats, `wshard formats NAME` prints the table of one. This page has all of them.
Lanes are renamed with `--map OLD=NEW` at `wshard ingest` and `wshard convert`.
"""


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def draw_format(name: str) -> str:
    """Return the part of the page about one format."""
    about = describe_format(name)
    access = ", ".join(word for word in ("read", "written") if about[word])
    needs = f" Needs `wshard[{about['needs']}]`." if about["needs"] else ""
    lines = [f"## {name}", "", f"{about['about'][0].upper()}{about['about'][1:]}: {access}.{needs}"]
    if about["meaning"]:
        rows = [f"| {_escape(field)} | {_escape(lane)} |" for field, lane in about["meaning"]]
        lines += ["", "| field | becomes |", "|---|---|", *rows]
    for limit in about["cannot_hold"]:
        lines += ["", f"Cannot hold: {limit}."]
    return "\n".join(lines) + "\n"


def draw_page() -> str:
    """Return the whole page."""
    return "\n".join((HEAD, *map(draw_format, FORMATS)))


def test_the_page_has_every_table():
    assert draw_page() == PAGE.read_text(), "run: python tests/docs/test_format_tables.py"


def test_every_format_says_what_its_fields_become():
    missing = [name for name in FORMATS if describe_format(name)["read"] and not describe_format(name)["meaning"]]
    assert missing == []


if __name__ == "__main__":
    PAGE.write_text(draw_page())
    sys.exit()
