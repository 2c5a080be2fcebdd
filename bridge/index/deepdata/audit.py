"""Check whether the server still has what was sent to it, and repair it.

Repair writes to the catalog and drops only collections of this archive; the caller holds the lock.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from bridge.index.base import IndexFinding
from bridge.index.deepdata.collection import Target, check, create, is_ours
from wshard.errors import IndexDamagedError, IndexLostError

if TYPE_CHECKING:
    from collections.abc import Sequence

_NEWEST: Final = 3
_SAMPLED: Final = 5
_AT_ONCE: Final = 200
_LISTED: Final = 1000


def inspect(target: Target, *, full: bool = False) -> IndexFinding:
    """Compare the collection with the ledger: name tag, count, the newest and some random documents.

    If these do not agree, or with `full`, every document is compared.
    """
    copies = target.link.catalog.index_copies
    expected, last = copies.totals(target.copy.id)
    if target.copy.damaged:
        return IndexFinding("damaged", 0, expected, reason="it was caught giving senseless answers")
    found = target.link.dialect.collection(target.name)
    if found is None:
        return IndexFinding("lost" if expected else "new", 0, expected, reason="there is no such collection")
    try:
        check(target, found)
    except IndexDamagedError as error:
        return IndexFinding("foreign", found.documents, expected, reason=str(error))
    try:
        missing = _missing(target, _sample(target, last))
        if full or missing or found.documents < expected:
            missing = _missing(target, _all(target))
    except IndexDamagedError as error:
        return IndexFinding("damaged", found.documents, expected, reason=str(error))
    except IndexLostError as error:
        return IndexFinding("lost", 0, expected, reason=str(error))
    if missing:
        state, reason = "lost", f"{len(missing)} documents are gone or replaced"
    else:
        reason = _too_much(target, found.documents - expected)
        state = "more" if reason else "ok"
    return IndexFinding(state, found.documents, expected, tuple(missing), reason)


def heal(target: Target, finding: IndexFinding) -> Target:
    """Bring collection and ledger to where pushing can begin, and return the target as it is then.

    Raises IndexDamagedError for a foreign collection, which is never touched.
    """
    link, copies = target.link, target.link.catalog.index_copies
    if finding.state == "foreign":
        raise IndexDamagedError(finding.reason)
    if finding.state in ("ok", "more"):
        return target
    if finding.state == "lost" and finding.missing:
        copies.mark_missing(target.copy.id, finding.missing)
    elif finding.state in ("lost", "damaged"):
        target = renew(target)
    target = Target(link, target.space, copies.open(link.place, target.copy.space_id))
    create(target)
    return target


def remember(target: Target, finding: IndexFinding) -> None:
    """Write down what a search cannot count on any more: it comes from the ledger until it has been sent again.

    Raises IndexDamagedError for a foreign collection.
    """
    copies, copy = target.link.catalog.index_copies, target.copy
    if finding.state == "foreign":
        raise IndexDamagedError(finding.reason)
    if finding.state == "damaged":
        copies.mark_damaged(copy.id)
    elif finding.missing:
        copies.mark_missing(copy.id, finding.missing)
    elif finding.state == "lost":
        copies.renew(copy.id)


def renew(target: Target) -> Target:
    """Drop the collection, if this archive made it, and begin a new generation; raises IndexDamagedError if not."""
    link, copies = target.link, target.link.catalog.index_copies
    found = link.dialect.collection(target.name)
    if found is not None and not is_ours(target, found):
        raise IndexDamagedError(
            f"{link.settings.base}: the collection {target.name} was not made by this archive, and is left alone: "
            f"drop it by hand, or choose another prefix in the index's URL"
        )
    if found is not None:
        link.dialect.drop(target.name)
    copies.renew(target.copy.id)
    return Target(link, target.space, copies.open(link.place, target.copy.space_id))


def _too_much(target: Target, spare: int) -> str:
    """Describe unexpected documents, "" if there are none; spare: documents beyond those that were sent."""
    copies = target.link.catalog.index_copies
    strays = spare - copies.count_in_transit(target.copy.id)
    if strays > 0:
        return f"{strays} documents more than it was given"
    dead = copies.find_stale(target.copy.id, limit=_LISTED)
    return f"{len(dead)}{' or more' * (len(dead) == _LISTED)} vectors that the catalog no longer has" if dead else ""


def _sample(target: Target, last: int) -> list[tuple[int, str]]:
    """Return the newest documents, which a restart with an older state loses first, and some others.

    And the next numbers, under the name "", which none has: where the server has given these out, the catalog is older.
    """
    copies = target.link.catalog.index_copies
    sampled = dict.fromkeys(range(last + 1, last + 1 + _NEWEST), "")
    sampled |= dict(copies.documents(target.copy.id, after=last - _NEWEST, limit=_NEWEST))
    for _ in range(_SAMPLED if last else 0):
        sampled |= dict(copies.documents(target.copy.id, after=random.randrange(last), limit=1))  # noqa: S311 (no secret)
    return sorted(sampled.items())


def _all(target: Target) -> list[tuple[int, str]]:
    listed: list[tuple[int, str]] = []
    while some := target.link.catalog.index_copies.documents(target.copy.id, after=listed[-1][0] if listed else 0):
        listed += some
    return listed


def _missing(target: Target, documents: Sequence[tuple[int, str]]) -> list[int]:
    """Return the ids that the server does not have, or has given to something else."""
    missing: list[int] = []
    for start in range(0, len(documents), _AT_ONCE):
        asked = dict(documents[start : start + _AT_ONCE])
        found = {one.id: one.ref for one in target.link.dialect.fetch(target.name, asked, target.space.dim)}
        missing += [number for number, ref in asked.items() if (found.get(number) or "") != ref]
    return missing
