"""The docs read easily: nine of ten sentences of a page have at most 32 words."""

from __future__ import annotations

import math
import re

import pytest
from paths import ROOT

LONGEST = 32
PAGES = [
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")),
]
CODE = re.compile(r"^ *(```|~~~).*?^ *\1", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
ITEM = re.compile(r"^\s*([-*]|\d+\.)\s+")
END = re.compile(r"[.:;!?]\)?\s+(?=[\"(]?[A-Z0-9])")


def read_sentences(text: str) -> list[str]:
    """Return the sentences of a page without code, tables and headings; a colon before a capital ends one, too."""
    paragraphs: list[list[str]] = [[]]
    for line in LINK.sub(r"\1", CODE.sub("\n", text)).splitlines():
        if not line.strip() or line.startswith(("#", "|", ">")) or ITEM.match(line):
            paragraphs.append([])
        if line.strip() and not line.startswith(("#", "|")):
            paragraphs[-1].append(ITEM.sub("", line).strip())
    plain = [re.sub(r"`[^`]*`", "Code", " ".join(lines)) for lines in paragraphs if lines]
    return [sentence for paragraph in plain for sentence in END.split(paragraph) if len(sentence.split()) > 2]


def measure_length(text: str) -> int:
    """Return the 90th percentile of the number of words in a sentence."""
    lengths = sorted(len(sentence.split()) for sentence in read_sentences(text))
    return lengths[math.ceil(0.9 * len(lengths)) - 1] if lengths else 0


def test_code_tables_and_headings_are_not_sentences():
    page = "# A title\n\nOne two three. Four `five six` seven\neight.\n\n| a | b |\n\n```\nx = 1\n```\n- An item of it."
    assert read_sentences(page) == ["One two three", "Four Code seven eight.", "An item of it."]
    assert measure_length(" ".join(["word"] * 40)) == 40


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_are_short(page):
    assert measure_length(page.read_text()) <= LONGEST
