"""Full text as words: what is searched, and what a search means, without any database.

A phrase holds where its words stand side by side in one of these texts.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

TASKS: Final = ("task", "instruction", "language_instruction", "task_description")
"""Keys of the metadata whose text, or list of texts, says what an episode is about."""

_WORD: Final = re.compile(r"[^\W_]+")
_PLAIN: Final = {code: " " for code in range(128) if not chr(code).isalnum()}
_LETTERS: Final = 255

BOUNDARY: Final = "¶"
"""Stands between two texts where an index keeps them as one; no word is equal to it."""


def words(text: str) -> list[str]:
    """Return the words: letters and digits, small, without accents, no more than the first 255 of each."""
    if text.isascii():
        found = text.lower().translate(_PLAIN).split()
        return found if len(text) <= _LETTERS else [word[:_LETTERS] for word in found]
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    bare = "".join(sign for sign in plain if not unicodedata.combining(sign))
    return [word[:_LETTERS] for word in _WORD.findall(bare)]


def texts(metadata: Mapping[str, Any], notes: Iterable[str]) -> Iterator[str]:
    """Yield the texts of an episode that are searched."""
    for name in TASKS:
        found = metadata.get(name)
        if isinstance(found, str):
            yield found
        elif isinstance(found, list | tuple):
            yield from (part for part in found if isinstance(part, str))
    yield from notes


def indexed(metadata: Mapping[str, Any], notes: Iterable[str]) -> str:
    """Return the full text of an episode as indexed; "" if there is none."""
    return joined(" ".join(words(text)) for text in texts(metadata, notes))


def joined(parts: Iterable[str]) -> str:
    """Return the words of several texts as indexed."""
    return f" {BOUNDARY} ".join(filter(None, parts))


def phrase(text: str) -> tuple[list[str], bool]:
    """Return the words to look for, and whether the last one is the beginning of a word ("pick u*")."""
    return words(text), text.endswith("*")


def holds(text: str, wanted: str) -> bool:
    """Say whether the words of the phrase stand side by side in the text."""
    there, (asked, prefix) = words(text), phrase(wanted)
    size = len(asked)
    for start in range(len(there) - size + 1):
        part = there[start : start + size]
        if part[:-1] == asked[:-1] and (part[-1].startswith(asked[-1]) if prefix else part[-1] == asked[-1]):
            return True
    return False
