"""catalog.checks: results of quality checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, func, insert, select

from catalog.database.bulk_rows import append
from catalog.database.engine import one_of
from catalog.database.schema import checked, episode, finding, score
from catalog.query.facts import load_findings
from catalog.vectors import ledger
from wshard.arguments import episode_ids

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy import Connection

    from catalog.records import CheckFinding, CheckResult
    from catalog.session import Session

PREFIX: Final = "quality."
"""What the names of scores by checks begin with."""


class CheckResults:
    """Results of checks; ids that are not catalogued are ignored."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def unchecked(self, version: str, ids: Sequence[int]) -> list[int]:
        """Return those of the episodes that checks of this version have not looked at, ascending."""
        ids = episode_ids(ids)
        with self._session.read() as connection:
            known = select(episode.c.id).where(one_of(connection, episode.c.id, ids))
            of_them = one_of(connection, checked.c.episode_row, ids)
            done = select(checked.c.episode_row).where(of_them, checked.c.version == version)
            return sorted({*connection.scalars(known)} - {*connection.scalars(done)})

    def stored_measures(self, family: str, limit: int) -> dict[int, tuple[str, bytes]]:
        """Return up to limit stored measures of a family: (digest, measures) by episode id, ascending."""
        with self._session.read() as connection:
            conditions = (
                checked.c.family == family,
                checked.c.measures.is_not(None),
                episode.c.id == checked.c.episode_row,
            )
            columns = (checked.c.episode_row, episode.c.digest, checked.c.measures)
            found = select(*columns).where(*conditions).order_by(checked.c.episode_row).limit(limit)
            return {number: (digest, bytes(data)) for number, digest, data in connection.execute(found)}

    def set_checked(self, verdicts: Sequence[CheckResult], *, most: int, doubted: Collection[int] = ()) -> int:
        """Replace the check results of episodes whose data has not changed; return their number.

        doubted: ids of those that flag() had flagged before their data was read: these flags are cleared. Later flags
        are kept. The measures of at most `most` episodes of a family are stored.
        """
        latest = {verdict.episode_id: verdict for verdict in verdicts}
        with self._session.write() as connection:
            statement = select(episode.c.id, episode.c.digest).where(one_of(connection, episode.c.id, latest))
            digests = {row.id: row.digest for row in connection.execute(statement)}
            later = _flagged(connection, latest.keys() - set(doubted))
            living = [
                one
                for one in latest.values()
                if digests.get(one.episode_id) == one.digest and one.episode_id not in later
            ]
            if living:
                _replace(connection, living, most)
                ledger.advance(connection)
            return len(living)

    def flag(self, ids: Sequence[int], found: CheckFinding) -> int:
        """Flag episodes whose data cannot be measured; return their number.

        Other findings stay; the episodes count as unchecked from now on.
        """
        with self._session.write() as connection:
            statement = select(episode.c.id).where(one_of(connection, episode.c.id, episode_ids(ids)))
            living = sorted(connection.execute(statement).scalars())
            if living:
                name = PREFIX + found.check
                where = one_of(connection, finding.c.episode_row, living)
                connection.execute(delete(finding).where(where, finding.c.name == found.check))
                where = one_of(connection, score.c.episode_row, living)
                connection.execute(delete(score).where(where, score.c.name == name))
                connection.execute(delete(checked).where(one_of(connection, checked.c.episode_row, living)))
                rows = [{"episode_row": number, "name": found.check, "reason": found.reason} for number in living]
                connection.execute(insert(finding), rows)
                scores = [{"episode_row": number, "name": name, "value": 1.0} for number in living]
                connection.execute(insert(score), scores)
                ledger.advance(connection)
            return len(living)

    def findings(self, ids: Sequence[int]) -> dict[int, list[CheckFinding]]:
        """Return the findings of these episodes, without those that have none."""
        with self._session.read() as connection:
            return load_findings(connection, episode_ids(ids))


def _flagged(connection: Connection, ids: Collection[int]) -> set[int]:
    """Return those of the episodes that flag() spoke of last: there are findings, and no check has looked since."""
    looked = select(checked.c.episode_row).where(checked.c.episode_row == finding.c.episode_row).correlate(finding)
    there = (one_of(connection, finding.c.episode_row, ids), ~looked.exists())
    return set(connection.execute(select(finding.c.episode_row).where(*there)).scalars())


def _replace(connection: Connection, verdicts: Sequence[CheckResult], most: int) -> None:
    ids = [verdict.episode_id for verdict in verdicts]
    for table in (finding, checked):
        connection.execute(delete(table).where(one_of(connection, table.c.episode_row, ids)))
    ours = (score.c.name >= PREFIX, score.c.name < PREFIX[:-1] + "/")
    connection.execute(delete(score).where(one_of(connection, score.c.episode_row, ids), *ours))
    stored = (one_of(connection, checked.c.family, {verdict.family for verdict in verdicts}),)
    counted = select(checked.c.family, func.count(checked.c.measures)).where(*stored, checked.c.measures.is_not(None))
    counts = {family: int(count) for family, count in connection.execute(counted.group_by(checked.c.family))}
    rows = []
    for one in verdicts:
        keep = one.measures is not None and counts.get(one.family, 0) < most
        counts[one.family] = counts.get(one.family, 0) + keep
        rows.append((one.episode_id, one.version, one.family, one.measures if keep else None))
    append(connection, checked, ("episode_row", "version", "family", "measures"), rows)
    scores = [(one.episode_id, PREFIX + name, float(value)) for one in verdicts for name, value in one.scores.items()]
    append(connection, score, ("episode_row", "name", "value"), scores)
    findings = [(one.episode_id, found.check, found.reason) for one in verdicts for found in one.findings]
    append(connection, finding, ("episode_row", "name", "reason"), findings)
