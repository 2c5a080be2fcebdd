"""Push vectors from the ledger to the server: each once, and one of nearly equal ones, despite interruptions.

The rows of a shipment are written before it is sent and completed after it has arrived; the state of incomplete rows is
unknown, so they are looked up by ref before anything is sent again. The caller holds the lock.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from bridge.index.deepdata.collection import collection_name
from bridge.index.deepdata.documents import about_of, document_of, flaw_of, ref_of
from bridge.index.deepdata.messages import Ask
from bridge.index.deepdata.near import Near
from bridge.index.deepdata.settings import CAP
from catalog.vectors.index_copy_records import Landed, Synced
from wshard.errors import IndexLostError, IndexUnreachableError, VectorIndexError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.index.deepdata.collection import Link, Target
    from catalog.vectors.index_copy_records import CopiedVector
    from catalog.vectors.records import LedgerEntry

_MAX_UNCONFIRMED: Final = 5  # responses in a row that do not confirm what arrived
_REMOVAL_BATCH: Final = 50  # documents per transaction; each is one request

Waiting = list[tuple[Synced, "CopiedVector"]]


def push(target: Target, nears: dict[str, Near]) -> None:
    """Send missing vectors. Raises VectorIndexError, at the end also for vectors that must not be sent.

    nears: representatives of near duplicates, by the copies' generations; the caller keeps it for later pushes.
    """
    is_unconfirmed, unconfirmed, last = True, 0, 0
    flaws: list[str] = []
    while True:
        waiting = _waiting(target)
        if not waiting:
            reached = _begin(target, last, nears, flaws)
            if reached is None:
                break
            is_unconfirmed, last = False, reached
            continue
        if is_unconfirmed:
            waiting = _reconcile(target, waiting)
        is_unconfirmed = not _send(target, waiting)
        unconfirmed = unconfirmed + 1 if is_unconfirmed else 0
        if unconfirmed == _MAX_UNCONFIRMED:
            raise IndexUnreachableError(
                f"{target.link.settings.base} gave up {_MAX_UNCONFIRMED} batches for {target.name}"
            )
    if flaws:
        raise VectorIndexError(
            f"expected finite vectors of length 1, found {len(flaws)} that must not be sent: {'; '.join(flaws[:3])}"
        )


def sweep(target: Target) -> None:
    """Remove the documents that no live vector uses; one request each, since the server has no batch delete."""
    link = target.link
    while rows := link.catalog.index_copies.find_stale(target.copy.id, limit=_REMOVAL_BATCH):
        documents = {document for _, _, document in rows if document is not None}
        for document in sorted(documents):
            link.dialect.delete(target.name, document)
        link.catalog.index_copies.forget(target.copy.id, [(seq, at) for seq, at, _ in rows], removed=len(documents))


def sweep_retired(link: Link) -> None:
    """Drop the collections of removed Spaces."""
    copies = link.catalog.index_copies
    retired = {row.id: row.fingerprint for row in link.catalog.vectors.spaces("retired")}
    for copy in copies.of_place(link.place):
        if copy.space_id in retired:
            name = collection_name(link, retired[copy.space_id])
            collection = link.dialect.collection(name)
            if collection is not None and collection.metadata.get("generation") == copy.generation:
                link.dialect.drop(name)
            copies.close(copy.id)


def _waiting(target: Target) -> Waiting:
    """Return rows of one shipment that may or may not have arrived; rows of deleted vectors are removed."""
    copies = target.link.catalog.index_copies
    while rows := copies.find_in_transit(target.copy.id, target.size, limit=target.link.settings.batch):
        living = [(row, copied) for row, copied in rows if copied is not None]
        if living:
            return living
        _reconcile_refs(target, rows[0][0].run or "", {row.ref for row, _ in rows})
        unchanged = copies.find_in_transit(target.copy.id, target.size, limit=target.link.settings.batch)
        copies.forget(target.copy.id, [(row.seq, row.position) for row, copied in unchanged if copied is None])
    return []


def _begin(target: Target, after: int, nears: dict[str, Near], flaws: list[str]) -> int | None:
    """Write the rows of the next shipment and return the last ledger number in it, None at the end.

    Vectors represented by another document are served by the ledger alone, so their rows have no fields.
    """
    link = target.link
    entries = link.catalog.index_copies.pending(target.copy, after=after, limit=link.settings.batch)
    if not entries:
        return None
    fields_by_episode = {
        id_: about_of(row) for id_, row in link.catalog.episodes.rows({entry.episode_id for entry in entries}).items()
    }
    valid = [
        entry for entry in entries if entry.episode_id in fields_by_episode and not _flawed(entry, target.size, flaws)
    ]
    vectors = {(entry.seq, at): vector for entry in valid for at, vector in enumerate(_cut(entry, target.size))}
    refs = {place: ref_of(vector) for place, vector in vectors.items()}
    if target.copy.generation not in nears:
        nears[target.copy.generation] = _load_sent(target)
    names = _names(target, nears[target.copy.generation], [*refs.values()], [*vectors.values()])
    landed = link.catalog.index_copies.known(target.copy.id, set(names))
    run = str(uuid.uuid4())
    fields = {entry.seq: fields_by_episode[entry.episode_id] for entry in valid}
    rows = []
    for ((seq, at), ref), name in zip(refs.items(), names, strict=True):
        document, described = landed.get(name), fields[seq] if name == ref else ""
        if document is None:
            rows.append(Synced(seq, at, name, described, document=None, served=False, run=run))
        else:
            same = name == ref and document.about == described
            rows.append(Synced(seq, at, name, described, document=document.document, served=same, run=None))
    if rows:
        link.catalog.index_copies.begin(target.copy.id, rows)
    return entries[-1].seq


def _load_sent(target: Target) -> Near:
    """Return the vectors that the documents sent so far represent."""
    copies, near, last = target.link.catalog.index_copies, Near(target.space.dim), 0
    while batch := copies.documents(target.copy.id, after=last):
        stored = {
            copied.ref: copied.vector
            for copied in copies.lookup(target.copy.id, [number for number, _ in batch], target.size)
        }
        near.add([*stored], [*stored.values()])
        last = batch[-1][0]
    return near


def _names(target: Target, near: Near, refs: list[str], vectors: list[bytes]) -> list[str]:
    """Return the name of the document that represents each vector: existing, or of this shipment."""
    candidates = near.add(refs, vectors)
    landed = target.link.catalog.index_copies.known(target.copy.id, {*refs, *candidates})
    names: list[str] = []
    present = {*landed}
    successors: dict[str, str] = {}  # of documents that have been removed since `near` saw them
    for ref, candidate in zip(refs, candidates, strict=True):
        name = successors.get(candidate, candidate)
        if ref not in present and name not in present:
            if name != ref:
                near.replace(name, ref)
                successors[name] = ref
            present.add(ref)
        names.append(ref if ref in present else name)
    return names


def _reconcile(target: Target, waiting: Waiting) -> Waiting:
    """Complete the rows whose documents did arrive, and return the others."""
    arrived = _reconcile_refs(target, waiting[0][0].run or "", {row.ref for row, _ in waiting})
    return [(row, copied) for row, copied in waiting if row.ref not in arrived]


def _reconcile_refs(target: Target, run: str, refs: set[str]) -> set[str]:
    """Find documents by ref, complete their rows, remove duplicates; returns the refs found."""
    link = target.link
    query = [1.0] + [0.0] * (target.space.dim - 1)
    ask = Ask(query, min(CAP, 2 * len(refs) + 10), {"ref": {"$in": sorted(refs)}}, link.settings.ef_search)
    arrived: dict[str, Landed] = {}
    for document in sorted(link.dialect.search(target.name, ask).documents, key=lambda document: document.id):
        if document.ref in arrived:
            link.dialect.delete(target.name, document.id)
        elif document.ref in refs:
            arrived[document.ref] = Landed(document.ref, document.id, str(document.metadata.get("about", "")))
    link.catalog.index_copies.mark_arrived(target.copy.id, run, [*arrived.values()])
    return set(arrived)


def _send(target: Target, waiting: Waiting) -> bool:
    """Send one document per ref and record the numbers; False if the server did not confirm."""
    if not waiting:
        return True
    link, run = target.link, waiting[0][0].run or ""
    episodes = link.catalog.episodes.rows({copied.episode_id for _, copied in waiting})
    firsts: dict[str, CopiedVector] = {}
    for row, copied in sorted(
        waiting, key=lambda pair: not pair[0].about
    ):  # rows without fields, of nearly equal vectors, come last
        if copied.episode_id in episodes:
            firsts.setdefault(row.ref, copied)
    documents = [document_of(episodes[copied.episode_id], copied.vector, ref, run) for ref, copied in firsts.items()]
    answers = link.dialect.insert(target.name, documents) if documents else []
    if answers is None:
        return False
    failed = [words for words in answers if isinstance(words, str)]
    arrived = [
        Landed(ref, answer, str(document.metadata["about"]))
        for ref, document, answer in zip(firsts, documents, answers, strict=True)
        if isinstance(answer, int)
    ]
    if link.catalog.index_copies.mark_arrived(target.copy.id, run, arrived):
        raise IndexLostError(f"{link.settings.base} reuses numbers of {target.name}: it has lost documents")
    if failed:
        raise VectorIndexError(f"{link.settings.base} refused {len(failed)} of {len(answers)} vectors: {failed[0]}")
    return bool(documents)


def _flawed(entry: LedgerEntry, size: int, flaws: list[str]) -> bool:
    own_flaws = [flaw for vector in _cut(entry, size) if (flaw := flaw_of(vector))]
    flaws += [f"{flaw} in episode {entry.episode_id}" for flaw in own_flaws[:1]]
    return bool(own_flaws)


def _cut(entry: LedgerEntry, size: int) -> Sequence[bytes]:
    vectors = entry.vectors or b""
    return [vectors[start : start + size] for start in range(0, len(vectors), size)]
