"""catalog.query: pages, counts, facets, statistics and tables of episodes."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from catalog.database import readonly_sql
from catalog.database.engine import one_of
from catalog.database.schema import episode
from catalog.database.schema import lane as stored
from catalog.filters.parse import as_where
from catalog.filters.where import EVERYTHING, Where
from catalog.query import arrow, pages, summaries
from catalog.query.bm25 import load_relevance, load_word_weights
from catalog.query.facts import find_existing, known_parts, load_facts, load_lanes_without_numbers
from catalog.query.iterate import walk_spreads
from catalog.query.layouts import load_layouts
from catalog.query.short_names import short_names
from catalog.query.sorted_ids import SortedIds, is_far
from wshard.core.arguments import episode_ids, plain_text, several_names, whole_number
from wshard.core.messages import how_to_install
from wshard.errors import FilterError, MissingExtraError, StatementError

if TYPE_CHECKING:
    from array import array
    from collections.abc import Collection, Iterable, Iterator, Sequence

    import pandas as pd
    import pyarrow as pa
    from sqlalchemy import Connection, Select

    from catalog.database.readonly_sql import QueryResult
    from catalog.filters.where import Where
    from catalog.query.short_names import Placed
    from catalog.query.summary_records import Facet, Group, Histogram
    from catalog.records import Facts, Layout, Page
    from catalog.session import Instant, Session
    from catalog.values import Scalar


@dataclass(frozen=True)
class QueryPlan:
    """A statement, its parameters, and the lines of its plan."""

    sql: str
    parameters: dict[str, Any]
    plan: tuple[str, ...]


class Queries:
    """Pages, counts, facets, histograms, statistics. Invalid filters raise FilterError; None matches everything."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sorted = SortedIds(session)
        self._layouts: tuple[Instant, list[Layout]] | None = None  # as of that state of the catalog

    def select(
        self,
        where: Where | str | None = EVERYTHING,
        *,
        order: str = "episode_id",
        after: str | None = None,
        limit: int = 50,
        skip: int = 0,
    ) -> Page:
        """Return the first rows, or those after the cursor of an earlier page in the same order.

        order is a single-valued field, reversed by a leading "-"; ties are ordered by id, missing values come last.
        ORDERS and score.NAME are columns; for other fields all matches are sorted. skip: number of rows to skip first.
        The sorted ids of a far page are cached until the catalog changes.
        FilterError for an unknown order, a foreign cursor or a limit below 1.
        """
        plain_text(order, "order", FilterError)
        after = None if after is None else plain_text(after, "after", FilterError)
        limit = whole_number(limit, "limit", FilterError, least=1)
        skip = whole_number(skip, "skip", FilterError, least=0)
        request = pages.PageRequest(order, after, limit, skip)
        if is_far(request):
            ids = self._sorted.find(as_where(where), order)
            with self._session.read() as connection:
                return pages.load_listed(connection, request, ids[skip : skip + limit + 1])
        with self._session.matching(where) as (connection, resolved):
            return pages.load_page(connection, resolved, request)

    def count(self, where: Where | str | None = EVERYTHING) -> int:
        """Return how many episodes match."""
        with self._session.matching(where) as (connection, resolved):
            return pages.count_rows(connection, resolved)

    def ids(self, where: Where | str | None = EVERYTHING) -> list[int]:
        """Return the ids of all matching episodes, ascending."""
        with self._session.matching(where) as (connection, resolved):
            return pages.load_matching_ids(connection, resolved)

    def id_array(self, where: Where) -> array[int] | None:
        """Return `ids` as an array, None for all episodes; the last ones are cached until the catalog changes."""
        return None if where == EVERYTHING else self._sorted.find(where, "id")

    def relevant(
        self, text: str, where: Where | str | None = EVERYTHING, *, limit: int | None = None
    ) -> list[tuple[int, float]]:
        """Return (id, BM25) of the matching episodes whose texts contain any word of the text, best first.

        limit: maximum number of results.
        """
        plain_text(text, "text", FilterError)
        limit = None if limit is None else whole_number(limit, "limit", FilterError, least=0)
        with self._session.matching(where) as (connection, resolved):
            return load_relevance(connection, text, resolved, limit=limit)

    def word_weights(self, text: str, where: Where | str | None = EVERYTHING) -> dict[str, float]:
        """Return the weight of each word among the matching episodes: rare words weigh more, those in all nearly 0."""
        plain_text(text, "text", FilterError)
        with self._session.matching(where) as (connection, resolved):
            return load_word_weights(connection, text, resolved)

    def facets(
        self, fields: Sequence[str], where: Where | str | None = EVERYTHING, *, limit: int | None = None
    ) -> dict[str, Facet]:
        """Return (value, episodes) per field among the matching episodes, the most frequent first.

        None stands for missing values, and for lists and objects of metadata. limit: maximum number of values per
        field.
        """
        with self._session.matching(where) as (connection, resolved):
            return {
                field: summaries.load_facet(connection, field, where=resolved, limit=limit)
                for field in several_names(fields, "fields")
            }

    def histogram(self, field: str, where: Where | str | None = EVERYTHING, *, bins: int = 20) -> Histogram:
        """Return how a numeric field is distributed among the matching episodes, in ranges of equal width."""
        with self._session.matching(where) as (connection, resolved):
            return summaries.load_histogram(connection, field, where=resolved, bins=bins)

    def statistics(
        self, fields: Sequence[str], where: Where | str | None = EVERYTHING, *, by: Sequence[str] = ()
    ) -> list[Group]:
        """Return count, mean, std, min and max of numeric fields per combination of values of the fields `by`."""
        with self._session.matching(where) as (connection, resolved):
            names, keys = several_names(fields, "fields"), several_names(by, "by")
            return summaries.load_groups(connection, names, by=keys, where=resolved)

    def file_bytes(
        self, where: Where | str | None = EVERYTHING, *, by: Sequence[str] = ()
    ) -> dict[tuple[Scalar | None, ...], int]:
        """Return how many bytes the files of the matching episodes have, per combination of values of the fields `by`.

        A file that has several of them counts once in each combination: {(): bytes} has the sum without `by`. Of stores
        in chunks, and of files that state what is in which part of them, it is an estimate.
        """
        with self._session.matching(where) as (connection, resolved):
            return summaries.load_file_bytes(connection, by=several_names(by, "by"), where=resolved)

    def sql(self, text: str, *, seconds: float = 5.0, limit: int = 1000) -> QueryResult:
        """Return the first rows of a SQL statement that reads; the tables are those of SCHEMA.md.

        StatementError for an invalid one, and one that would write, takes longer than `seconds`, or (SQLite) has values
        of more than 4 MiB. A result is truncated after 64 MiB.
        """
        with self._session.read() as connection:
            return readonly_sql.run_readonly(
                connection, plain_text(text, "statement", StatementError), seconds=seconds, limit=limit
            )

    def columns(self) -> list[str]:
        """Return the default columns of a table: those of an episode's row, and every score in use."""
        with self._session.read() as connection:
            return arrow.plain_columns(connection)

    def to_arrow(self, where: Where | str | None = EVERYTHING, *, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the matching episodes, by id, as an Arrow table of typed columns.

        columns: fields as in filters ("env_id", "score.quality", "meta.task", "lane.signal/state.max", "note"), "tags"
        (a list) and "metadata" (JSON text); None = columns(). Raises MissingExtraError without
        pyarrow, FilterError for an unknown column and for none at all.
        """
        with self._session.matching(where) as (connection, resolved):
            return arrow.load_table(connection, resolved, columns)

    def to_pandas(
        self, where: Where | str | None = EVERYTHING, *, columns: Sequence[str] | None = None
    ) -> pd.DataFrame:
        """Return the same as a pandas DataFrame; MissingExtraError without pandas."""
        try:
            import pandas as _  # noqa: F401, ICN001, PLC0415  (only to say what is missing)
        except ImportError as error:
            raise MissingExtraError(f"data frames need pandas: {how_to_install('pandas')}") from error
        return self.to_arrow(where, columns=columns).to_pandas()

    def explain(self, where: Where | str | None = EVERYTHING, *, order: str = "episode_id") -> list[QueryPlan]:
        """Return the statements that `select` would use for a page, with the database's query plans."""
        plain_text(order, "order", FilterError)
        with self._session.matching(where) as (connection, resolved):
            statements = pages.page_statements(connection, resolved, order=order)
            return [_explain(connection, each) for each in statements]

    def facts(self, ids: Iterable[int], *, parts: Collection[str] | None = None) -> dict[int, Facts]:
        """Return the facts about these episodes beyond their rows.

        parts: names of the requested fields of Facts, {"scores", "notes"}; the others stay empty. None: all.
        """
        requested = None if parts is None else known_parts(several_names(parts, "parts"))
        with self._session.read() as connection:
            return load_facts(connection, find_existing(connection, episode_ids(ids)), requested)

    def short_names(self, episodes: Sequence[Placed]) -> list[str]:
        """Return a name that no other has for each row or hit: its id, with its set where others have the id."""
        with self._session.read() as connection:
            return short_names(connection, episodes)

    def layouts(self, where: Where | str | None = EVERYTHING) -> list[Layout]:
        """Return the layouts that at least one of the matching episodes has, by id, with the number of these."""
        if where is not None and where != EVERYTHING:
            with self._session.matching(where) as (connection, resolved):
                return load_layouts(connection, resolved)
        instant, known = self._session.read_instant(), self._layouts  # an ingest needs them six times
        if known is None or known[0] != instant:
            with self._session.read() as connection:
                known = self._layouts = instant, load_layouts(connection, EVERYTHING)
        return [*known[1]]

    def spreads(self, layout_ids: Sequence[int], lane: str) -> Iterator[tuple[int, tuple[float, ...]]]:
        """Yield (timesteps, spreads) of the lane in every episode of these layouts that has them, by episode id.

        spreads: least, greatest, mean and standard deviation of the first channel, then of the next. Episodes with
        channels without numbers are left out.
        """
        return ((count, spreads) for _, count, spreads in self.spreads_by_id(layout_ids, lane))

    def spreads_by_id(
        self, layout_ids: Sequence[int], lane: str, *, blank: bool = False
    ) -> Iterator[tuple[int, int, tuple[float, ...]]]:
        """Yield (episode id, timesteps, spreads) as `spreads` does; blank: NaN stands for channels without numbers."""
        ids = sorted(set(layout_ids))
        walks = [walk_spreads(self._session.read, number, lane_name=lane, blank=blank) for number in ids]
        return heapq.merge(*walks, key=itemgetter(0))

    def ids_of(self, layout_ids: Sequence[int]) -> list[int]:
        """Return the ids of all episodes of these layouts."""
        with self._session.read() as connection:
            return [
                *connection.scalars(select(episode.c.id).where(one_of(connection, episode.c.layout_id, layout_ids)))
            ]

    def lanes_without_numbers(
        self, layout_ids: Sequence[int], names: Sequence[str]
    ) -> dict[int, dict[int, frozenset[str]]]:
        """Return which of these lanes have no moments, as their numbers are not finite: by layout, by episode id."""
        with self._session.read() as connection:
            return load_lanes_without_numbers(connection, layout_ids, names)

    def rates(self, layout_ids: Sequence[int], lane: str) -> set[float | None]:
        """Return the rates of the lane in episodes of these layouts; None stands for unknown ones."""
        with self._session.read() as connection:
            statement = select(stored.c.rate).distinct().select_from(episode.join(stored)).where(stored.c.name == lane)
            return {*connection.scalars(statement.where(one_of(connection, episode.c.layout_id, layout_ids)))}


def _explain(connection: Connection, statement: Select[Any]) -> QueryPlan:
    """Return the statement as sent, and its plan, without running it."""
    compiled = statement.compile(dialect=connection.dialect, compile_kwargs={"render_postcompile": True})
    if connection.dialect.name == "sqlite":
        values = tuple(compiled.params[name] for name in compiled.positiontup or ())
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}", values)
    else:
        rows = connection.exec_driver_sql(f"EXPLAIN {compiled}", dict(compiled.params))
    return QueryPlan(str(compiled), dict(compiled.params), tuple(str(row[-1]) for row in rows))
