"""Which episodes moved, and which took the places of others: files that were renamed, renumbered, swapped, replaced."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from bridge.episodes.files import are_unchanged, status_of
from bridge.ingest.report import Replaced
from wshard.open import open_episode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from catalog.catalog import Catalog
    from catalog.episode_record import EpisodeRecord
    from catalog.records import Asset, EpisodeRow, Known

_Place: TypeAlias = tuple[str, str]  # an absolute path and a key


def settled(catalog: Catalog, records: Sequence[EpisodeRecord]) -> list[EpisodeRecord]:
    """Say of records which are episodes that were moved here, and which took the place of another episode.

    An unknown episode at the place of another is what became of that, as long as nobody said anything of it, and it
    was not moved itself.
    """
    known = catalog.episodes.known([record.path for record in records])
    there = {(path, one.key): one for path, ones in known.items() for one in ones}
    others = _others(catalog, records, there)
    movers = _movers(catalog, [one for one in records if _place(one) not in there or _place(one) in others])
    staying = {*movers.values(), *_said_of(catalog, others.values())}
    told: list[EpisodeRecord] = []
    for record in records:
        mover, other = movers.get(_place(record)), others.get(_place(record))
        displaced = other.id if other is not None and (mover is not None or other.id in staying) else None
        moved = mover is not None or displaced is not None
        told.append(replace(record, moved_from=mover, displaces=displaced) if moved else record)
    return told


def lost(catalog: Catalog, aside: Mapping[int, EpisodeRecord]) -> list[Replaced]:
    """Return those of the episodes that had to leave their places, by id, whose data did not come elsewhere."""
    rows = catalog.episodes.rows(aside) if aside else {}
    return [
        Replaced(row.id, aside[row.id].path, row.episode_id, aside[row.id].episode_id)
        for row in rows.values()
        if not Path(row.path).exists()
    ]


def has_left(row: EpisodeRow, files: Sequence[Asset]) -> bool:
    """Say whether an episode is no longer where it is catalogued: a file is gone, or another episode's, by its id.

    One of the same id is what became of it there, and whatever has its data elsewhere is a copy from before.
    """
    if not all(Path(one.path).exists() for one in files):
        return True
    if are_unchanged(files):
        return False
    try:
        status_of(row.path)  # opening a pipe would wait for ever
        with open_episode(row.path, hashed=False) as file:
            return file.id != row.episode_id
    except Exception:  # noqa: BLE001  (reading it as an episode will tell what is wrong)
        return False


def _place(record: EpisodeRecord) -> _Place:
    return record.path, record.key


def _others(
    catalog: Catalog, records: Sequence[EpisodeRecord], there: Mapping[_Place, Known]
) -> dict[_Place, EpisodeRow]:
    """Return the episodes that are catalogued at the places of others, by their ids."""
    changed = {
        place: record
        for record in records
        if (place := _place(record)) in there and there[place].digest != record.digest
    }
    rows = catalog.episodes.rows(there[place].id for place in changed) if changed else {}
    found = {place: rows[there[place].id] for place in changed if there[place].id in rows}
    return {place: row for place, row in found.items() if row.episode_id != changed[place].episode_id}


def _movers(catalog: Catalog, records: Sequence[EpisodeRecord]) -> dict[_Place, int]:
    """Return the ids of the episodes that were moved to these places: equal digest, and no longer where they were."""
    rows = catalog.episodes.by_digest(sorted({record.digest for record in records}))
    files = catalog.episodes.assets(row.id for row in rows) if rows else {}
    lost: dict[str, list[int]] = {}
    for row in rows:
        if has_left(row, files.get(row.id, ())):
            lost.setdefault(row.digest, []).append(row.id)
    return {_place(record): lost[record.digest].pop(0) for record in records if lost.get(record.digest)}


def _said_of(catalog: Catalog, rows: Iterable[EpisodeRow]) -> set[int]:
    """Return the ids of those of the episodes that people tagged, wrote about, reviewed or picked."""
    tagged = {row.id: bool(row.tags) for row in rows}
    facts = catalog.query.facts(tagged, parts={"notes", "review", "collections"}) if tagged else {}
    return {id_ for id_, one in facts.items() if tagged[id_] or one.notes or one.review is not None or one.collections}
