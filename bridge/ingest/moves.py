"""Which episodes moved, and which took the places of others: files that were renamed, renumbered, swapped, replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bridge.episodes.open import OpenLocations, exists, known_episodes
from bridge.ingest.report import Replaced

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from catalog.catalog import Catalog
    from catalog.episode_record import EpisodeRecord
    from catalog.records import Asset, EpisodeRow, Known
    from wshard.episode.protocol import EpisodeAddress


def match_moved(catalog: Catalog, records: Sequence[EpisodeRecord]) -> list[EpisodeRecord]:
    """Mark the records of episodes that were moved here, and of those that replaced another episode.

    An unknown episode at the path of another counts as a new version of it, unless the old one has annotations or the
    new one was moved.
    """
    known = known_episodes(catalog, [record.address for record in records])
    there = {address: one for address, one in known if one is not None}
    others = _others(catalog, records, there)
    movers = _movers(catalog, [one for one in records if one.address not in there or one.address in others])
    staying = {*movers.values(), *_find_annotated(catalog, others.values())}
    if not movers and not others:
        return [*records]
    matched: list[EpisodeRecord] = []
    for record in records:
        mover, other = movers.get(record.address), others.get(record.address)
        displaced = other.id if other is not None and (mover is not None or other.id in staying) else None
        moved = mover is not None or displaced is not None
        matched.append(replace(record, moved_from=mover, displaces=displaced) if moved else record)
    return matched


def find_displaced(catalog: Catalog, aside: Mapping[int, EpisodeRecord]) -> list[Replaced]:
    """Return the displaced episodes, by id, whose data was not found elsewhere."""
    rows = catalog.episodes.rows(aside) if aside else {}
    return [
        Replaced(row.id, str(aside[row.id].address), row.episode_id, aside[row.id].episode_id)
        for row in rows.values()
        if not exists(row.address)
    ]


def has_left(row: EpisodeRow, files: Sequence[Asset], locations: OpenLocations) -> bool:
    """Return True if an episode is not at its catalogued path: its file is missing, or has another episode id.

    A file with the same id is a new version of it; another file with its data is a copy.
    """
    if not all(locations.exists(one.address) for one in files):
        return True
    if locations.are_unchanged(files):
        return False
    try:
        with locations.open(row.address) as file:
            return file.id != row.episode_id
    except Exception:  # noqa: BLE001  (reading it as an episode reports the error)
        return False


def _others(
    catalog: Catalog, records: Sequence[EpisodeRecord], there: Mapping[EpisodeAddress, Known]
) -> dict[EpisodeAddress, EpisodeRow]:
    """Return the episodes that are catalogued at the places of others, by their ids."""
    changed = {
        record.address: record
        for record in records
        if record.address in there and there[record.address].digest != record.digest
    }
    rows = catalog.episodes.rows(there[place].id for place in changed) if changed else {}
    found = {place: rows[there[place].id] for place in changed if there[place].id in rows}
    return {place: row for place, row in found.items() if row.episode_id != changed[place].episode_id}


def _movers(catalog: Catalog, records: Sequence[EpisodeRecord]) -> dict[EpisodeAddress, int]:
    """Return the ids of the episodes that were moved to these places: equal digest, and no longer where they were."""
    rows = catalog.episodes.by_digest(sorted({record.digest for record in records}))
    files = catalog.episodes.assets(row.id for row in rows) if rows else {}
    left: dict[str, list[int]] = {}
    with OpenLocations() as locations:
        for row in rows:
            if has_left(row, files.get(row.id, ()), locations):
                left.setdefault(row.digest, []).append(row.id)
    return {record.address: left[record.digest].pop(0) for record in records if left.get(record.digest)}


def _find_annotated(catalog: Catalog, rows: Iterable[EpisodeRow]) -> set[int]:
    """Return the ids of those of the episodes that people tagged, wrote about, reviewed or picked."""
    tagged = {row.id: bool(row.tags) for row in rows}
    facts = catalog.query.facts(tagged, parts={"notes", "review", "collections"}) if tagged else {}
    return {id_ for id_, one in facts.items() if tagged[id_] or one.notes or one.review is not None or one.collections}
