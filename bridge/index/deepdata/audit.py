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

_NEWEST_COUNT: Final = 3
_SAMPLE_SIZE: Final = 5
_BATCH_SIZE: Final = 200
_MAX_LISTED: Final = 1000


def inspect(target: Target, *, full: bool = False) -> IndexFinding:
    """Compare the collection with the ledger: name tag, count, the newest and some random documents.

    If these do not agree, or with `full`, every document is compared.
    """
    copies = target.link.catalog.index_copies
    expected, last = copies.totals(target.copy.id)
    if target.copy.damaged:
        return IndexFinding("damaged", 0, expected, reason="it was caught giving senseless answers")
    collection = target.link.dialect.collection(target.name)
    if collection is None:
        return IndexFinding("lost" if expected else "new", 0, expected, reason="there is no such collection")
    try:
        check(target, collection)
    except IndexDamagedError as error:
        return IndexFinding("foreign", collection.documents, expected, reason=str(error))
    try:
        missing = _missing(target, _sample(target, last))
        if full or missing or collection.documents < expected:
            missing = _missing(target, _all(target))
    except IndexDamagedError as error:
        return IndexFinding("damaged", collection.documents, expected, reason=str(error))
    except IndexLostError as error:
        return IndexFinding("lost", 0, expected, reason=str(error))
    if missing:
        state, reason = "lost", f"{len(missing)} documents are gone or replaced"
    else:
        reason = _describe_surplus(target, collection.documents - expected)
        state = "more" if reason else "ok"
    return IndexFinding(state, collection.documents, expected, tuple(missing), reason)


def heal(target: Target, finding: IndexFinding) -> Target:
    """Prepare collection and ledger for a push, and return the updated target.

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
    """Record what the server has lost, so that searches read it from the ledger until it has been sent again.

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
    collection = link.dialect.collection(target.name)
    if collection is not None and not is_ours(target, collection):
        raise IndexDamagedError(
            f"{link.settings.base}: the collection {target.name} was not made by this archive, and is left alone: "
            f"drop it by hand, or choose another prefix in the index's URL"
        )
    if collection is not None:
        link.dialect.drop(target.name)
    copies.renew(target.copy.id)
    return Target(link, target.space, copies.open(link.place, target.copy.space_id))


def _describe_surplus(target: Target, surplus: int) -> str:
    """Describe unexpected documents, "" if there are none; surplus: number of documents beyond those sent."""
    copies = target.link.catalog.index_copies
    unknown = surplus - copies.count_in_transit(target.copy.id)
    if unknown > 0:
        return f"{unknown} documents more than it was given"
    stale = copies.find_stale(target.copy.id, limit=_MAX_LISTED)
    return (
        f"{len(stale)}{' or more' * (len(stale) == _MAX_LISTED)} vectors that the catalog no longer has"
        if stale
        else ""
    )


def _sample(target: Target, last: int) -> list[tuple[int, str]]:
    """Return the newest documents, which a restart with an older state loses first, and some others.

    And the next numbers, under the name "", which none has: where the server has given these out, the catalog is older.
    """
    copies = target.link.catalog.index_copies
    sampled = dict.fromkeys(range(last + 1, last + 1 + _NEWEST_COUNT), "")
    sampled |= dict(copies.documents(target.copy.id, after=last - _NEWEST_COUNT, limit=_NEWEST_COUNT))
    for _ in range(_SAMPLE_SIZE if last else 0):
        sampled |= dict(copies.documents(target.copy.id, after=random.randrange(last), limit=1))  # noqa: S311 (no secret)
    return sorted(sampled.items())


def _all(target: Target) -> list[tuple[int, str]]:
    listed: list[tuple[int, str]] = []
    while batch := target.link.catalog.index_copies.documents(target.copy.id, after=listed[-1][0] if listed else 0):
        listed += batch
    return listed


def _missing(target: Target, documents: Sequence[tuple[int, str]]) -> list[int]:
    """Return the ids of documents that the server does not have, or has reused."""
    missing: list[int] = []
    for start in range(0, len(documents), _BATCH_SIZE):
        expected = dict(documents[start : start + _BATCH_SIZE])
        refs = {
            document.id: document.ref for document in target.link.dialect.fetch(target.name, expected, target.space.dim)
        }
        missing += [number for number, ref in expected.items() if (refs.get(number) or "") != ref]
    return missing
