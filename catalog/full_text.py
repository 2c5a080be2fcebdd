"""Full text as words: which texts are searched, and when a phrase matches, independent of any database.

A phrase matches if its words are adjacent in one of these texts.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

TASKS: Final = ("task", "instruction", "language_instruction", "task_description")
"""Keys of the metadata whose text, or list of texts, says what an episode is about."""

LONGEST: Final = 1000
"""Characters of a text of other metadata that is searched: longer ones are programs, models and tables."""

LOOKED_AT: Final = "words of tasks, other metadata and notes"
"""What a search of texts looks at."""

_WORD: Final = re.compile(r"[^\W_]+")
_SEPARATORS: Final = {code: " " for code in range(128) if not chr(code).isalnum()}
_MAX_WORD_LENGTH: Final = 255

BOUNDARY: Final = "¶"
"""Separates the texts of an episode in an index, which stores them as one; never equal to a word."""


def words(text: str) -> list[str]:
    """Return the words: letters and digits in lower case without accents, each cut to 255 characters."""
    if text.isascii():
        found = text.lower().translate(_SEPARATORS).split()
        return found if len(text) <= _MAX_WORD_LENGTH else [word[:_MAX_WORD_LENGTH] for word in found]
    normalised = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    without_accents = "".join(character for character in normalised if not unicodedata.combining(character))
    return [word[:_MAX_WORD_LENGTH] for word in _WORD.findall(without_accents)]


def texts(metadata: Mapping[str, Any], notes: Iterable[str]) -> Iterator[str]:
    """Yield the texts of an episode that are searched: its tasks, other texts of its metadata, and its notes."""
    yield from tasks(metadata)
    for name, value in metadata.items():
        if name not in TASKS:
            yield from (part for part in _texts_of(value) if len(part) <= LONGEST)
    yield from notes


def tasks(metadata: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts that say what an episode is about."""
    for name in TASKS:
        yield from _texts_of(metadata.get(name))


def _texts_of(value: Any) -> list[str]:
    """Return the texts of a value of the metadata, at any depth, in their order."""
    found, waiting = [], [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, dict | list | tuple):
            waiting += reversed([*part.values()] if isinstance(part, dict) else part)
    return found


def indexed(metadata: Mapping[str, Any], notes: Iterable[str]) -> str:
    """Return the full text of an episode as indexed; "" if there is none."""
    return joined(" ".join(words(text)) for text in texts(metadata, notes))


def joined(parts: Iterable[str]) -> str:
    """Return the words of several texts as indexed."""
    return f" {BOUNDARY} ".join(filter(None, parts))


def phrase(text: str) -> tuple[list[str], bool]:
    """Return the words to look for, and whether the last one is the beginning of a word ("pick u*")."""
    return words(text), text.endswith("*")


def contains_phrase(text: str, phrase_text: str) -> bool:
    """Return True if the words of the phrase are adjacent in the text."""
    text_words, (phrase_words, prefix) = words(text), phrase(phrase_text)
    size = len(phrase_words)
    for start in range(len(text_words) - size + 1):
        part = text_words[start : start + size]
        if part[:-1] == phrase_words[:-1] and (
            part[-1].startswith(phrase_words[-1]) if prefix else part[-1] == phrase_words[-1]
        ):
            return True
    return False
