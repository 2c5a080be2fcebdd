"""Register records of episodes in one transaction."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, insert, select

from catalog.curation.annotations import delete_annotations, take_lineage, update_words, utc_now
from catalog.database.bulk_rows import insert_rows, update_rows
from catalog.database.engine import one_of
from catalog.database.roots import Roots, add_roots, load_roots
from catalog.database.schema import asset, checked, document, episode, finding, lane, layout, score, tag
from catalog.episodes import scans
from catalog.episodes.assets import transfer_annotations, write_assets
from catalog.episodes.reconcile import Step, displaced_path, load_stored_episodes, plan, split_by_place
from catalog.query.pages import load_ids
from catalog.records import Outcome, Registered
from catalog.vectors.ledger import advance, delete_vectors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from catalog.episode_record import EpisodeRecord

_Row = tuple[Any, ...]
_FINGERPRINT = ("size", "mtime_ns")
_PLACE = ("root_id", "path", "key")
_READ_AS = ("format", "lane_map")
_COMPARED = (*_FINGERPRINT, *_READ_AS, "episode_id", "env_id", "length", "total_reward", "success", "digest")
_CONTENT = (*_COMPARED, "sort_key", "metadata", "layout_id", "ingested_at")
_LANE = ("episode_row", "name", "count", "spread", "rate", "codec", "bytes", "stored")
_compared_values = attrgetter(*_COMPARED, "sort_key", "encoded")
_summary_of = attrgetter("name", "count", "spread", "rate")
_storage_of = attrgetter("codec", "bytes", "stored")
_UNKNOWN = (None, None, None)


def register(connection: Connection, records: Sequence[EpisodeRecord]) -> list[Registered]:
    """Write the records and return the result of each, in order; of two with the same path and key the later wins."""
    steps, superseded = _write(connection, records, roots=load_roots(connection))
    return [Registered(*step.stored[:2], step.outcome, superseded.get(step.stored.id, ())) for step in steps]


def _write(
    connection: Connection, records: Sequence[EpisodeRecord], *, roots: Roots
) -> tuple[list[Step], dict[int, tuple[int, ...]]]:
    """Return what was done, and which episodes each one superseded."""
    all_steps: list[Step] = []
    superseded: dict[int, tuple[int, ...]] = {}
    for batch in split_by_place(records):
        steps, set_aside = plan(connection, batch, roots=roots)
        # Displaced episodes first: others move to their paths, and they may themselves move on to another path.
        moved_paths = [(*roots.stored_path(path), occupant.id) for path, occupant in set_aside.items()]
        update_rows(connection, episode, ("root_id", "path", "id"), moved_paths)
        _apply(connection, steps, roots=roots)
        scans.forget(connection, {record.path for record in batch if record.key}, roots=roots)
        superseded |= _supersede(connection, steps, roots=roots)
        all_steps += steps
    return all_steps, superseded


def _supersede(connection: Connection, steps: Sequence[Step], *, roots: Roots) -> dict[int, tuple[int, ...]]:
    """Remove episodes whose files turned out to be parts of others; return their ids by the id of the whole episode."""
    owners = {part.path: step.stored.id for step in steps for part in step.record.assets}
    superseded: dict[int, list[int]] = {}
    for (path, _), stored in (load_stored_episodes(connection, owners, roots=roots) if owners else {}).items():
        if stored.id != owners[path]:
            superseded.setdefault(owners[path], []).append(stored.id)
    for owner, parts in superseded.items():
        transfer_annotations(connection, owner, parts=parts)
        remove(connection, parts)
    return {owner: tuple(parts) for owner, parts in superseded.items()}


def remove(connection: Connection, ids: Collection[int]) -> int:
    """Delete the episodes with all that belongs to them, leaving tombstones for their vectors; return their number."""
    existing = list(connection.execute(select(episode.c.id).where(one_of(connection, episode.c.id, ids))).scalars())
    if existing:
        delete_vectors(connection, existing)
        delete_annotations(connection, existing)
        for table in (lane, tag, asset):
            connection.execute(delete(table).where(one_of(connection, table.c.episode_row, existing)))
        connection.execute(delete(episode).where(one_of(connection, episode.c.id, existing)))
        advance(connection)
    return len(existing)


def supersede(connection: Connection, successors: Mapping[int, int | None]) -> None:
    """Remove episodes whose annotations go to their successors; without one, they move to a path that no file has."""
    rows = {row.id: row for row in load_ids(connection, [*successors])}
    taken: dict[int, list[int]] = {}
    for number in rows:
        if (successor := successors[number]) is not None:
            taken.setdefault(successor, []).append(number)
    for successor, parts in taken.items():
        transfer_annotations(connection, successor, parts=parts)
        remove(connection, parts)
    apart = [row for row in rows.values() if successors[row.id] is None]
    delete_vectors(connection, [row.id for row in apart])
    roots = load_roots(connection)
    moved = [(*roots.stored_path(displaced_path(row.path, row.uid)), row.id) for row in apart]
    update_rows(connection, episode, ("root_id", "path", "id"), moved)
    advance(connection)


def _apply(connection: Connection, steps: Sequence[Step], *, roots: Roots) -> None:
    by_outcome: dict[Outcome, list[Step]] = {"moved": [], "changed": [], "unchanged": [], "new": []}
    for step in steps:
        by_outcome[step.outcome].append(step)
    # Moved episodes first: they may free the path of a new one.
    add_roots(connection, [step.record.path for step in by_outcome["moved"]], roots=roots)
    moved = [
        (
            *roots.stored_path(s.record.path),
            s.record.key,
            s.record.format,
            s.record.lane_map,
            *_fingerprint(s),
            s.stored.id,
        )
        for s in by_outcome["moved"]
    ]
    update_rows(connection, episode, (*_PLACE, *_READ_AS, *_FINGERPRINT, "id"), moved)
    touched = [step for step in by_outcome["unchanged"] if _fingerprint(step) != step.stored[-2:]]
    update_rows(connection, episode, (*_FINGERPRINT, "id"), [(*_fingerprint(step), step.stored.id) for step in touched])
    _replace(connection, by_outcome["changed"])
    new = by_outcome["new"]
    ids, uids = [step.stored.id for step in new], [step.stored.uid for step in new]
    _insert(connection, [step.record for step in new], ids=ids, uids=uids, roots=roots)
    write_assets(connection, ((step.stored.id, step.record) for step in steps))
    if by_outcome["moved"] or by_outcome["changed"] or touched:
        advance(connection)


def _replace(connection: Connection, steps: Sequence[Step]) -> None:
    """Write the new state of changed episodes, and delete everything that was derived from the previous data."""
    if not steps:
        return
    ids = [step.stored.id for step in steps]
    delete_vectors(connection, ids)
    for table in (lane, asset, score, checked, finding):
        connection.execute(delete(table).where(one_of(connection, table.c.episode_row, ids)))
    records = [step.record for step in steps]
    layouts, at = _layout_ids(connection, records), utc_now()
    rows = [(*_compared_values(step.record), layouts[step.record.layout], at, step.stored.id) for step in steps]
    update_rows(connection, episode, (*_CONTENT, "id"), rows)
    insert_rows(connection, lane, _LANE, _lanes(ids, records))
    update_words(connection, {step.stored.id: step.record.words for step in steps})
    take_lineage(connection, zip(ids, (record.metadata for record in records), strict=True))


def _insert(
    connection: Connection, records: Sequence[EpisodeRecord], *, ids: Sequence[int], uids: Sequence[str], roots: Roots
) -> None:
    """Write new episodes."""
    if not records:
        return
    add_roots(connection, [record.path for record in records], roots=roots)
    layouts, at = _layout_ids(connection, records), utc_now()
    rows = (
        (
            number,
            uid,
            *roots.stored_path(record.path),
            record.key,
            *_compared_values(record),
            layouts[record.layout],
            at,
        )
        for number, uid, record in zip(ids, uids, records, strict=True)
    )
    insert_rows(connection, episode, ("id", "uid", *_PLACE, *_CONTENT), rows)
    insert_rows(connection, lane, _LANE, _lanes(ids, records))
    words = ((number, record.words) for number, record in zip(ids, records, strict=True) if record.words)
    insert_rows(connection, document, ("episode_row", "words"), words)
    take_lineage(connection, zip(ids, (record.metadata for record in records), strict=True))
    advance(connection)


def _layout_ids(connection: Connection, records: Iterable[EpisodeRecord]) -> dict[str, int]:
    """Return {layout text: id} of the records' layouts; new layouts are inserted."""
    texts = {record.layout for record in records}
    statement = select(layout.c.definition, layout.c.id).where(one_of(connection, layout.c.definition, texts))
    layout_ids = {row.definition: row.id for row in connection.execute(statement)}
    for text in sorted(texts - layout_ids.keys()):
        key = connection.execute(insert(layout).values(definition=text)).inserted_primary_key
        layout_ids[text] = int(key[0]) if key else 0
    return layout_ids


def _fingerprint(step: Step) -> tuple[int, int]:
    return step.record.size, step.record.mtime_ns


def _lanes(ids: Iterable[int], records: Iterable[EpisodeRecord]) -> Iterator[_Row]:
    """Yield the columns _LANE of every lane."""
    for number, record in zip(ids, records, strict=True):
        for part in record.lanes:
            yield (number, *_summary_of(part), *(_storage_of(part.storage) if part.storage else _UNKNOWN))
