"""Changes of many episodes that can be reverted, for a while, where nobody has changed the same since."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wshard.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_MOST: Final = 50


@dataclass(frozen=True)
class Change:
    """A change that was made: its answer to the browser, the ids that it changed, and the function that reverts it.

    revert: takes ids among `changed`, reverts those that are still as the change left them, and returns these.
    subject, such as a tag: a later change of the same subject by anyone protects its episodes, `touched`, even those
    that were in the requested state already. Reviews and notes have ids of their own and need none.
    """

    answer: dict[str, Any]
    changed: Collection[int]
    revert: Callable[[set[int]], Collection[int]]
    subject: tuple[str, ...] = ()
    touched: Collection[int] = ()


@dataclass(frozen=True)
class Undone:
    """Ids of the episodes where a change was reverted, and of those that others have changed since; ascending."""

    reverted: list[int]
    changed_since: list[int]


class Undos:
    """The last changes; each can be undone once, by the account that made it."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._known: dict[int, tuple[str, Change]] = {}
        self._lock = threading.Lock()

    def make(self, who: str, act: Callable[[], Change]) -> dict[str, Any]:
        """Make a change and return its answer, with the number by which it can be undone.

        Changes are made one after another, so that their numbers are in the order in which they were made.
        """
        with self._lock:
            change, number = act(), next(self._numbers)
            self._known[number] = who, change
            while len(self._known) > _MOST:
                del self._known[next(iter(self._known))]
            return {**change.answer, "undo": number}

    def run(self, number: int, who: str) -> Undone:
        """Undo a change; RequestError for an unknown one, or one of another account."""
        with self._lock:
            owner, change = self._known.get(number, (None, None))
            if change is None or owner != who:
                raise RequestError("expected a change of yours that can still be undone", 409)
            reverted = set(change.revert(set(change.changed) - self._changed_later(number, change)))
            del self._known[number]  # only now: when the catalog is busy, it can be tried again
            return Undone(sorted(reverted), sorted(set(change.changed) - reverted))

    def _changed_later(self, number: int, change: Change) -> set[int]:
        """Return the ids that later changes of the same subject touched."""
        later = (other for key, (_, other) in self._known.items() if key > number and change.subject)
        return {one for other in later if other.subject == change.subject for one in other.touched}
