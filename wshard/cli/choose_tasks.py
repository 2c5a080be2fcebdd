"""Let the user choose Raiden tasks from a numbered list in the terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wshard.cli.common import printable
from wshard.messages import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ALL = "*** ALL TASKS ***"


def choose_tasks(tasks: Mapping[str, int], ask: Callable[[str], str], show: Callable[[str], None]) -> list[str]:
    """Show tasks with their numbers of episodes, and return those chosen by number.

    ask: returns the answer to a prompt; called again until the answer is numbers and ranges such as "1 3-5"; 0 is all.
    show: prints a line.
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


def parse_numbers(text: str, max_number: int) -> list[int]:
    """Return the distinct numbers in a text such as "1 3-5"; [] if it is invalid or a number exceeds max_number."""
    numbers: dict[int, None] = {}
    for part in re.split(r"[\s,]+", text.strip()):
        match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last <= max_number:
            return []
        numbers |= dict.fromkeys(range(first, last + 1))
    return list(numbers)
