"""Let a person at a terminal choose tasks of Raiden from a list."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wshard.cli.common import printable
from wshard.messages import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ALL = "*** ALL TASKS ***"


def choose_tasks(tasks: Mapping[str, int], ask: Callable[[str], str], show: Callable[[str], None]) -> list[str]:
    """Show tasks and how many episodes each has, and return those that the answers name by number.

    ask: returns the answer to a question; it is asked again until the answer is numbers and ranges, such as "1 3-5", of
    which 0 means all.
    """
    names = list(tasks)
    labels = [ALL, *(f"{printable(name)} ({plural(count, 'episode')})" for name, count in tasks.items())]
    for number, label in enumerate(labels):
        show(f"{number:>4}  {label}")
    while True:
        chosen = parse_numbers(ask("tasks (numbers and ranges, as 1 3-5)"), len(names))
        if chosen:
            return names if 0 in chosen else [names[number - 1] for number in chosen]
        show(f"expected numbers from 0 to {len(names)}")


def parse_numbers(text: str, most: int) -> list[int]:
    """Return the numbers that a text such as "1 3-5" names, each once; none where it says anything else, or > most."""
    found: dict[int, None] = {}
    for part in re.split(r"[\s,]+", text.strip()):
        span = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part)
        first, last = (int(span[1]), int(span[2] or span[1])) if span else (1, 0)
        if not first <= last <= most:
            return []
        found |= dict.fromkeys(range(first, last + 1))
    return list(found)
