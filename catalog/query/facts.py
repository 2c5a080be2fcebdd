"""Facts about episodes beyond their row: lanes, scores, findings, notes, review, lineage, snapshots, spaces."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, select

from catalog.database.engine import one_of
from catalog.database.schema import (
    asset,
    collection,
    embedding,
    episode,
    finding,
    lane,
    layout,
    lineage,
    note,
    pick,
    review,
    score,
    snapshot,
    space,
)
from catalog.records import Asset, CheckFinding, EmbeddedSpace, Facts, LaneFacts, Lineage, Note, Review, Spread
from wshard.core.episode.protocol import StoredLane
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping


def load_lanes_without_numbers(
    connection: Connection, layout_ids: Collection[int], names: Collection[str]
) -> dict[int, dict[int, frozenset[str]]]:
    """Return those of the lanes that are stored without moments: their names by layout and episode."""
    statement = (
        select(episode.c.layout_id, episode.c.id, lane.c.name)
        .select_from(episode.join(lane))
        .where(lane.c.spread.is_(None), one_of(connection, lane.c.name, names))
        .where(one_of(connection, episode.c.layout_id, layout_ids))
        .order_by(episode.c.id)
    )
    found: dict[int, dict[int, frozenset[str]]] = {}
    for layout_id, id_, name in connection.execute(statement):
        of_layout = found.setdefault(layout_id, {})
        of_layout[id_] = of_layout.get(id_, frozenset()) | {name}
    return found


def load_facts(connection: Connection, ids: Collection[int], parts: Collection[str] | None = None) -> dict[int, Facts]:
    """Return the facts of each of these episodes; parts: the fields of Facts to fill, None for all.

    Restrict parts if possible: lanes take most of the time, and the Spaces of each episode scan the ledger.
    """
    requested = _PARTS if parts is None else parts
    made = [(name, make) for name, make in _EMPTY.items() if name in requested]
    facts: dict[int, dict[str, Any]] = {number: {name: make() for name, make in made} for number in ids}
    for name in sorted(requested):
        _PARTS[name](connection, facts)
    return {number: Facts(**{name: _frozen(part) for name, part in fields.items()}) for number, fields in facts.items()}


def load_notes(connection: Connection, ids: Collection[int]) -> list[Note]:
    """Return the notes of these episodes that were not removed, the oldest first."""
    conditions = (one_of(connection, note.c.episode_row, ids), note.c.removed_at.is_(None))
    columns = (note.c.id, note.c.episode_row, note.c.text, note.c.who, note.c.at)
    return [Note(*row) for row in connection.execute(select(*columns).where(*conditions).order_by(note.c.id))]


def load_findings(connection: Connection, ids: Collection[int]) -> dict[int, list[CheckFinding]]:
    """Return the findings of checks by episode id, in the order of the checks' names."""
    statement = select(*finding.c).where(one_of(connection, finding.c.episode_row, ids))
    findings: dict[int, list[CheckFinding]] = {}
    for number, name, reason in connection.execute(statement.order_by(finding.c.name)):
        findings.setdefault(number, []).append(CheckFinding(name, reason))
    return findings


def load_reviews(connection: Connection, ids: Collection[int]) -> list[Review]:
    """Return all review entries of these episodes, the oldest first."""
    statement = select(*review.c).where(one_of(connection, review.c.episode_row, ids)).order_by(review.c.id)
    return [Review(*row) for row in connection.execute(statement)]


def _load_lanes(connection: Connection, facts: dict[int, dict[str, Any]]) -> None:
    types = _types(connection, facts)
    names = ("episode_row", "name", "count", "spread", "rate", "codec", "bytes", "stored")
    statement = select(*(lane.c[name] for name in names)).where(one_of(connection, lane.c.episode_row, facts))
    for row, name, count, spread, rate, *storage_columns in connection.execute(statement):
        numbers = spread or ()
        spreads = [Spread(*numbers[start : start + 4]) for start in range(0, len(numbers), 4)]
        overall = spreads[0] if spreads else None
        storage = None if storage_columns[0] is None else StoredLane(*storage_columns)
        facts[row]["lanes"][name] = LaneFacts(
            *types[row].get(name, ("", ())), count, overall, tuple(spreads[1:]), rate, storage
        )


def _types(connection: Connection, ids: Collection[int]) -> dict[int, dict[str, tuple[str, tuple[int, ...]]]]:
    """Return dtype and shape of the lanes of each episode, read once per layout."""
    layouts = dict(
        connection.execute(select(episode.c.id, episode.c.layout_id).where(one_of(connection, episode.c.id, ids))).all()
    )
    statement = select(layout.c.id, layout.c.definition).where(one_of(connection, layout.c.id, set(layouts.values())))
    types_by_layout = {
        number: {name: (dtype, tuple(shape)) for name, dtype, shape, *_ in json.loads(definition)}
        for number, definition in connection.execute(statement)
    }
    return {number: types_by_layout[layout_id] for number, layout_id in layouts.items()}


def _load_scores(connection: Connection, facts: dict[int, dict[str, Any]]) -> None:
    for row, name, value in connection.execute(select(*score.c).where(one_of(connection, score.c.episode_row, facts))):
        facts[row]["scores"][name] = value


def _load_findings(connection: Connection, facts: dict[int, dict[str, Any]]) -> None:
    for number, findings in load_findings(connection, facts).items():
        facts[number]["findings"] = findings


def _load_notes(connection: Connection, facts: dict[int, dict[str, Any]]) -> None:
    for row in load_notes(connection, facts):
        facts[row.episode_id]["notes"].append(row)


def _load_review(connection: Connection, facts: dict[int, dict[str, Any]]) -> None:
    for entry in load_reviews(connection, facts):
        facts[entry.episode_id]["review"] = entry if entry.state is not None else None


def _load_lineage(connection: Connection, facts: dict[int, dict[str, Any]]) -> None:
    for row, relation, source in connection.execute(
        select(*lineage.c).where(one_of(connection, lineage.c.episode_row, facts))
    ):
        facts[row]["lineage"].append(Lineage(relation, source))


def _load_assets(connection: Connection, facts: dict[int, dict[str, Any]]) -> None:
    names = ("episode_row", "role", "path", "digest", "size", "mtime_ns")
    files = select(*(asset.c[name] for name in names)).where(one_of(connection, asset.c.episode_row, facts))
    for row, *file in connection.execute(files.order_by(asset.c.episode_row, asset.c.position)):
        facts[row]["assets"].append(Asset(*file))


def _load_collections(connection: Connection, facts: dict[int, dict[str, Any]]) -> None:
    statement = (
        select(pick.c.episode_row, snapshot.c.hash, collection.c.name)
        .select_from(pick.join(snapshot))
        .outerjoin(collection, collection.c.snapshot_id == snapshot.c.id)
    )
    for row, digest, name in connection.execute(statement.where(one_of(connection, pick.c.episode_row, facts))):
        facts[row]["collections"] |= {digest, name} - {None}


def _load_embedded(connection: Connection, facts: dict[int, dict[str, Any]]) -> None:
    statement = (
        select(embedding.c.episode_row, space.c.fingerprint, space.c.family, space.c.state, embedding.c.count)
        .select_from(embedding.join(space))
        .where(embedding.c.count.is_not(None))
        .order_by(space.c.fingerprint)
    )
    for row, *columns in connection.execute(statement.where(one_of(connection, embedding.c.episode_row, facts))):
        facts[row]["embedded"].append(EmbeddedSpace(*columns))


def _frozen(part: Any) -> Any:
    return tuple(sorted(part)) if isinstance(part, set) else tuple(part) if isinstance(part, list) else part


def known_parts(names: Collection[str]) -> Collection[str]:
    """Return the names; FilterError for one that is not a field of Facts."""
    for name in names:
        if name not in _PARTS:
            raise FilterError(f"parts: expected some of {', '.join(_PARTS)}, found {name!r}")
    return names


_PARTS: Final[Mapping[str, Callable[[Connection, dict[int, dict[str, Any]]], None]]] = MappingProxyType(
    {
        "lanes": _load_lanes,
        "scores": _load_scores,
        "findings": _load_findings,
        "notes": _load_notes,
        "review": _load_review,
        "lineage": _load_lineage,
        "collections": _load_collections,
        "embedded": _load_embedded,
        "assets": _load_assets,
    }
)


_EMPTY: Final[Mapping[str, Callable[[], Any]]] = MappingProxyType(
    {
        **dict.fromkeys(("lanes", "scores"), dict),
        **dict.fromkeys(("findings", "notes", "lineage", "embedded", "assets"), list),
        "collections": set,
    }
)


def find_existing(connection: Connection, ids: Collection[int]) -> list[int]:
    """Return those of the ids that are catalogued, ascending."""
    return sorted(connection.execute(select(episode.c.id).where(one_of(connection, episode.c.id, ids))).scalars())
