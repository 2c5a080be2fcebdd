"""catalog.checks: results of quality checks."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, delete, func, insert, select

from catalog.database.bulk_rows import insert_rows
from catalog.database.engine import in_parameter, list_parameter, one_of
from catalog.database.schema import checked, episode, finding, score
from catalog.query.facts import load_findings
from catalog.vectors import ledger
from wshard.core.arguments import episode_ids
from wshard.core.quality.thresholds import CAMERA

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, Delete, Select, Table

    from catalog.records import CheckFinding, CheckResult
    from catalog.session import Session

PREFIX: Final = "quality."
"""Prefix of the names of scores that checks set."""

# Statements are built once: every ingest runs them, and building one takes longer than running it for a few episodes.
_MEASURES: Final = (
    select(checked.c.episode_row, episode.c.digest, checked.c.measures)
    .where(
        checked.c.family == bindparam("family"),
        checked.c.measures.is_not(None),
        episode.c.id == checked.c.episode_row,
    )
    .order_by(checked.c.episode_row)
    .limit(bindparam("most"))
)
_CHECKED: Final = select(checked.c.episode_row).where(
    checked.c.episode_row == episode.c.id, checked.c.version == bindparam("version")
)
_UNCHECKED: Final = select(episode.c.id).where(~_CHECKED.correlate(episode).exists())


class CheckResults:
    """Results of checks; ids that are not catalogued are ignored."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def unchecked(self, version: str, ids: Sequence[int]) -> list[int]:
        """Return the ids of the episodes that checks of this version have not checked, ascending."""
        ids = episode_ids(ids)
        with self._session.read() as connection:
            existing = select(episode.c.id).where(one_of(connection, episode.c.id, ids))
            among_ids = one_of(connection, checked.c.episode_row, ids)
            checked_ids = select(checked.c.episode_row).where(among_ids, checked.c.version == version)
            return sorted({*connection.scalars(existing)} - {*connection.scalars(checked_ids)})

    def all_unchecked(self, version: str) -> list[int]:
        """Return the ids of all episodes that checks of this version have not checked, in any order."""
        with self._session.read() as connection:
            return list(connection.scalars(_UNCHECKED, {"version": version}))

    def stored_measures(self, family: str, limit: int) -> dict[int, tuple[str, bytes]]:
        """Return up to limit stored measures of a family: (digest, measures) by episode id, ascending."""
        with self._session.read() as connection:
            rows = connection.execute(_MEASURES, {"family": family, "most": limit})
            return {number: (digest, bytes(data)) for number, digest, data in rows}

    def set_checked(self, verdicts: Sequence[CheckResult], *, most: int, doubted: Collection[int] = ()) -> int:
        """Replace the check results of episodes whose data has not changed; return their number.

        doubted: ids of those that flag() had flagged before their data was read: these flags are cleared. Later flags
        are kept. The measures of at most `most` episodes of a family are stored.
        """
        latest = {verdict.episode_id: verdict for verdict in verdicts}
        with self._session.write() as connection:
            flagged_later = _flagged_since_check(connection, latest.keys() - set(doubted))
            current = [one for one in _unchanged(connection, latest) if one.episode_id not in flagged_later]
            if current:
                _replace(connection, current, most)
                ledger.advance(connection)
            return len(current)

    def set_cameras_checked(self, verdicts: Sequence[CheckResult]) -> int:
        """Replace the results of checks of cameras, of episodes whose data has not changed; return their number."""
        by_id = {verdict.episode_id: verdict for verdict in verdicts}
        with self._session.write() as connection:
            current = _unchanged(connection, by_id)
            ids = [verdict.episode_id for verdict in current]
            for table, prefix in ((finding, ""), (score, PREFIX)):
                among = one_of(connection, table.c.episode_row, ids)
                connection.execute(delete(table).where(among, _of_cameras(table, prefix)))
            _insert_results(connection, current)
            ledger.advance(connection)
            return len(current)

    def flag(self, ids: Sequence[int], found: CheckFinding) -> int:
        """Flag episodes whose data cannot be measured; return their number.

        Other findings stay; the episodes count as unchecked from now on.
        """
        with self._session.write() as connection:
            statement = select(episode.c.id).where(one_of(connection, episode.c.id, episode_ids(ids)))
            existing = sorted(connection.execute(statement).scalars())
            if existing:
                name = PREFIX + found.check
                where = one_of(connection, finding.c.episode_row, existing)
                connection.execute(delete(finding).where(where, finding.c.name == found.check))
                where = one_of(connection, score.c.episode_row, existing)
                connection.execute(delete(score).where(where, score.c.name == name))
                connection.execute(delete(checked).where(one_of(connection, checked.c.episode_row, existing)))
                rows = [{"episode_row": number, "name": found.check, "reason": found.reason} for number in existing]
                connection.execute(insert(finding), rows)
                scores = [{"episode_row": number, "name": name, "value": 1.0} for number in existing]
                connection.execute(insert(score), scores)
                ledger.advance(connection)
            return len(existing)

    def findings(self, ids: Sequence[int]) -> dict[int, list[CheckFinding]]:
        """Return the findings of these episodes, by id; episodes without findings are omitted."""
        with self._session.read() as connection:
            return load_findings(connection, episode_ids(ids))


def _unchanged(connection: Connection, verdicts: Mapping[int, CheckResult]) -> list[CheckResult]:
    """Return the results of episodes, by id, that are catalogued with the data that was checked."""
    statement = select(episode.c.id, episode.c.digest).where(one_of(connection, episode.c.id, verdicts))
    digests = {row.id: row.digest for row in connection.execute(statement)}
    return [one for one in verdicts.values() if digests.get(one.episode_id) == one.digest]


def _flagged_since_check(connection: Connection, ids: Collection[int]) -> set[int]:
    """Return the ids of the episodes that flag() flagged after their last check: they have findings, but no check."""
    return set(connection.scalars(_flags(connection.dialect.name), list_parameter(connection, ids)))


@cache
def _flags(product: str) -> Select[tuple[int]]:
    later_checks = select(checked.c.episode_row).where(checked.c.episode_row == finding.c.episode_row)
    has_none = ~later_checks.correlate(finding).exists()
    among = in_parameter(product, finding.c.episode_row)
    return select(finding.c.episode_row).where(among, has_none, ~_of_cameras(finding, ""))


@cache
def _deletions(product: str) -> tuple[Delete, ...]:
    """Return what deletes the results of some episodes, but for those of cameras."""
    of_checks = score.c.name.startswith(PREFIX, autoescape=True)
    return (
        delete(checked).where(in_parameter(product, checked.c.episode_row)),
        delete(finding).where(in_parameter(product, finding.c.episode_row), ~_of_cameras(finding, "")),
        delete(score).where(in_parameter(product, score.c.episode_row), of_checks, ~_of_cameras(score, PREFIX)),
    )


def _replace(connection: Connection, verdicts: Sequence[CheckResult], most: int) -> None:
    ids = [verdict.episode_id for verdict in verdicts]
    for deletion in _deletions(connection.dialect.name):
        connection.execute(deletion, list_parameter(connection, ids))
    in_families = (one_of(connection, checked.c.family, {verdict.family for verdict in verdicts}),)
    statement = select(checked.c.family, func.count(checked.c.measures)).where(
        *in_families, checked.c.measures.is_not(None)
    )
    counts = {family: int(count) for family, count in connection.execute(statement.group_by(checked.c.family))}
    rows = []
    for verdict in verdicts:
        is_stored = verdict.measures is not None and counts.get(verdict.family, 0) < most
        counts[verdict.family] = counts.get(verdict.family, 0) + is_stored
        rows.append((verdict.episode_id, verdict.version, verdict.family, verdict.measures if is_stored else None))
    insert_rows(connection, checked, ("episode_row", "version", "family", "measures"), rows)
    _insert_results(connection, verdicts)


def _of_cameras(table: Table, prefix: str) -> ColumnElement[bool]:
    return table.c.name.startswith(prefix + CAMERA, autoescape=True)


def _insert_results(connection: Connection, verdicts: Sequence[CheckResult]) -> None:
    scores = [
        (verdict.episode_id, PREFIX + name, float(value))
        for verdict in verdicts
        for name, value in verdict.scores.items()
    ]
    insert_rows(connection, score, ("episode_row", "name", "value"), scores)
    findings = [
        (verdict.episode_id, problem.check, problem.reason) for verdict in verdicts for problem in verdict.findings
    ]
    insert_rows(connection, finding, ("episode_row", "name", "reason"), findings)
