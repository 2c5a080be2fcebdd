"""Register records of episodes in one transaction."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, insert, select

from catalog.curation.annotations import delete_annotations, now, renew_words, take_lineage
from catalog.database.bulk_rows import append, renew
from catalog.database.engine import one_of
from catalog.database.roots import Roots, add_roots, load_roots
from catalog.database.schema import asset, checked, document, episode, finding, lane, layout, score, tag
from catalog.episodes.assets import inherit, write_assets
from catalog.episodes.reconcile import Step, load_occupants, plan, waves
from catalog.records import Outcome, Registered
from catalog.vectors.ledger import advance, bury

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from catalog.episode_record import EpisodeRecord

_Row = tuple[Any, ...]
_FINGERPRINT = ("size", "mtime_ns")
_PLACE = ("root_id", "path", "key")
_READ_AS = ("format", "lane_map")
_COMPARED = (*_FINGERPRINT, *_READ_AS, "episode_id", "env_id", "length", "total_reward", "success", "digest")
_CONTENT = (*_COMPARED, "metadata", "layout_id", "ingested_at")
_LANE = ("episode_row", "name", "count", "spread", "rate", "codec", "bytes", "stored")
_compared_values = attrgetter(*_COMPARED, "encoded")
_summary_of = attrgetter("name", "count", "spread", "rate")
_storage_of = attrgetter("codec", "bytes", "stored")
_UNKNOWN = (None, None, None)


def register(connection: Connection, records: Sequence[EpisodeRecord], *, base: str | None) -> list[Registered]:
    """Write the records and return what became of each, in their order; of two for one place the later wins."""
    steps, gone = _write(connection, records, roots=load_roots(connection, base=base))
    return [Registered(*step.occupant[:2], step.outcome, gone.get(step.occupant.id, ())) for step in steps]


def _write(
    connection: Connection, records: Sequence[EpisodeRecord], *, roots: Roots
) -> tuple[list[Step], dict[int, tuple[int, ...]]]:
    """Return what was done, and which episodes each one superseded."""
    done: list[Step] = []
    gone: dict[int, tuple[int, ...]] = {}
    for wave in waves(records):
        steps, left = plan(connection, wave, roots=roots)
        # First, for others move to their places, and they themselves may go on from there.
        aside = [(*roots.spot(path), occupant.id) for path, occupant in left.items()]
        renew(connection, episode, ("root_id", "path", "id"), aside)
        _apply(connection, steps, roots=roots)
        gone |= _supersede(connection, steps, roots=roots)
        done += steps
    return done, gone


def _supersede(connection: Connection, steps: Sequence[Step], *, roots: Roots) -> dict[int, tuple[int, ...]]:
    """Remove episodes whose files turned out to be parts of others, and return them by the id of the other."""
    owners = {part.path: step.occupant.id for step in steps for part in step.record.assets}
    gone: dict[int, list[int]] = {}
    for (path, _), occupant in (load_occupants(connection, owners, roots=roots) if owners else {}).items():
        if occupant.id != owners[path]:
            gone.setdefault(owners[path], []).append(occupant.id)
    for heir, parts in gone.items():
        inherit(connection, heir, parts=parts)
        remove(connection, parts)
    return {heir: tuple(parts) for heir, parts in gone.items()}


def remove(connection: Connection, ids: Collection[int]) -> int:
    """Delete the episodes with their lanes and tags, bury their vectors, and return how many there were."""
    living = list(connection.execute(select(episode.c.id).where(one_of(connection, episode.c.id, ids))).scalars())
    if living:
        bury(connection, living)
        delete_annotations(connection, living)
        for table in (lane, tag, asset):
            connection.execute(delete(table).where(one_of(connection, table.c.episode_row, living)))
        connection.execute(delete(episode).where(one_of(connection, episode.c.id, living)))
        advance(connection)
    return len(living)


def _apply(connection: Connection, steps: Sequence[Step], *, roots: Roots) -> None:
    by: dict[Outcome, list[Step]] = {"moved": [], "changed": [], "unchanged": [], "new": []}
    for step in steps:
        by[step.outcome].append(step)
    # A moved episode may free the place that a new one takes.
    add_roots(connection, [step.record.path for step in by["moved"]], roots=roots)
    moved = [
        (*roots.spot(s.record.path), s.record.key, s.record.format, s.record.lane_map, *_fingerprint(s), s.occupant.id)
        for s in by["moved"]
    ]
    renew(connection, episode, (*_PLACE, *_READ_AS, *_FINGERPRINT, "id"), moved)
    touched = [step for step in by["unchanged"] if _fingerprint(step) != step.occupant[-2:]]
    renew(connection, episode, (*_FINGERPRINT, "id"), [(*_fingerprint(step), step.occupant.id) for step in touched])
    _replace(connection, by["changed"])
    new = by["new"]
    ids, uids = [step.occupant.id for step in new], [step.occupant.uid for step in new]
    _insert(connection, [step.record for step in new], ids=ids, uids=uids, roots=roots)
    write_assets(connection, ((step.occupant.id, step.record) for step in steps))
    if by["moved"] or by["changed"] or touched:
        advance(connection)


def _replace(connection: Connection, steps: Sequence[Step]) -> None:
    """Write what changed episodes are now, and drop what was known of the data before."""
    if not steps:
        return
    ids = [step.occupant.id for step in steps]
    bury(connection, ids)
    for table in (lane, asset, score, checked, finding):
        connection.execute(delete(table).where(one_of(connection, table.c.episode_row, ids)))
    records = [step.record for step in steps]
    layouts, at = _layout_ids(connection, records), now()
    rows = [(*_compared_values(step.record), layouts[step.record.layout], at, step.occupant.id) for step in steps]
    renew(connection, episode, (*_CONTENT, "id"), rows)
    append(connection, lane, _LANE, _lanes(ids, records))
    renew_words(connection, {step.occupant.id: step.record.words for step in steps})
    take_lineage(connection, zip(ids, (record.metadata for record in records), strict=True))


def _insert(
    connection: Connection, records: Sequence[EpisodeRecord], *, ids: Sequence[int], uids: Sequence[str], roots: Roots
) -> None:
    """Write new episodes."""
    if not records:
        return
    add_roots(connection, [record.path for record in records], roots=roots)
    layouts, at = _layout_ids(connection, records), now()
    rows = (
        (
            number,
            uid,
            *roots.spot(record.path),
            record.key,
            *_compared_values(record),
            layouts[record.layout],
            at,
        )
        for number, uid, record in zip(ids, uids, records, strict=True)
    )
    append(connection, episode, ("id", "uid", *_PLACE, *_CONTENT), rows)
    append(connection, lane, _LANE, _lanes(ids, records))
    words = ((number, record.words) for number, record in zip(ids, records, strict=True) if record.words)
    append(connection, document, ("episode_row", "words"), words)
    take_lineage(connection, zip(ids, (record.metadata for record in records), strict=True))
    advance(connection)


def _layout_ids(connection: Connection, records: Iterable[EpisodeRecord]) -> dict[str, int]:
    """Return the ids of their layouts by text; one that is new is added."""
    texts = {record.layout for record in records}
    statement = select(layout.c.definition, layout.c.id).where(one_of(connection, layout.c.definition, texts))
    known = {row.definition: row.id for row in connection.execute(statement)}
    for text in sorted(texts - known.keys()):
        key = connection.execute(insert(layout).values(definition=text)).inserted_primary_key
        known[text] = int(key[0]) if key else 0
    return known


def _fingerprint(step: Step) -> tuple[int, int]:
    return step.record.size, step.record.mtime_ns


def _lanes(ids: Iterable[int], records: Iterable[EpisodeRecord]) -> Iterator[_Row]:
    """Yield the columns _LANE of every lane."""
    for number, record in zip(ids, records, strict=True):
        for part in record.lanes:
            yield (number, *_summary_of(part), *(_storage_of(part.storage) if part.storage else _UNKNOWN))
