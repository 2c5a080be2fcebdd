"""Detects episodes that moved or took the place of others: files that were renamed, swapped or replaced."""

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
    from wshard.core.episode.protocol import EpisodeAddress


def match_moved(catalog: Catalog, records: Sequence[EpisodeRecord]) -> list[EpisodeRecord]:
    """Mark the records of episodes that were moved here, and of those that replaced another episode.

    An unknown episode at the path of another counts as a new version of it, unless the old one has annotations or the
    new one was moved.
    """
    known = known_episodes(catalog, [record.address for record in records])
    catalogued = {address: one for address, one in known if one is not None}
    replaced = _find_replaced(catalog, records, catalogued)
    moved_ids = _find_moved(
        catalog, [one for one in records if one.address not in catalogued or one.address in replaced]
    )
    protected = {*moved_ids.values(), *find_annotated(catalog, replaced.values())}
    if not moved_ids and not replaced:
        return [*records]
    matched: list[EpisodeRecord] = []
    for record in records:
        moved_from, replaced_row = moved_ids.get(record.address), replaced.get(record.address)
        displaced = (
            replaced_row.id
            if replaced_row is not None and (moved_from is not None or replaced_row.id in protected)
            else None
        )
        is_moved = moved_from is not None or displaced is not None
        matched.append(replace(record, moved_from=moved_from, displaces=displaced) if is_moved else record)
    return matched


def find_displaced(catalog: Catalog, displaced_by: Mapping[int, EpisodeRecord]) -> list[Replaced]:
    """Return the displaced episodes, by id, whose data was not found elsewhere."""
    rows = catalog.episodes.rows(displaced_by) if displaced_by else {}
    return [
        Replaced(row.id, str(displaced_by[row.id].address), row.episode_id, displaced_by[row.id].episode_id)
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


def _find_replaced(
    catalog: Catalog, records: Sequence[EpisodeRecord], catalogued: Mapping[EpisodeAddress, Known]
) -> dict[EpisodeAddress, EpisodeRow]:
    """Return the catalogued episodes at the addresses of records with another id, where these are read as before."""
    changed = {
        record.address: record
        for record in records
        if (one := catalogued.get(record.address)) is not None
        and one.digest != record.digest
        and one.read_as == record.address.read_as
    }
    rows = catalog.episodes.rows(catalogued[place].id for place in changed) if changed else {}
    rows_by_address = {place: rows[catalogued[place].id] for place in changed if catalogued[place].id in rows}
    return {place: row for place, row in rows_by_address.items() if row.episode_id != changed[place].episode_id}


def _find_moved(catalog: Catalog, records: Sequence[EpisodeRecord]) -> dict[EpisodeAddress, int]:
    """Return the ids of the episodes that were moved to these places: equal digest, and not at the old address."""
    rows = catalog.episodes.by_digest(sorted({record.digest for record in records}))
    files = catalog.episodes.assets(row.id for row in rows) if rows else {}
    departed: dict[str, list[int]] = {}
    with OpenLocations() as locations:
        for row in rows:
            if has_left(row, files.get(row.id, ()), locations):
                departed.setdefault(row.digest, []).append(row.id)
    return {record.address: departed[record.digest].pop(0) for record in records if departed.get(record.digest)}


def find_annotated(catalog: Catalog, rows: Iterable[EpisodeRow]) -> set[int]:
    """Return the ids of episodes with tags, notes or reviews, or in collections."""
    tagged = {row.id: bool(row.tags) for row in rows}
    facts = catalog.query.facts(tagged, parts={"notes", "review", "collections"}) if tagged else {}
    return {id_ for id_, one in facts.items() if tagged[id_] or one.notes or one.review is not None or one.collections}
