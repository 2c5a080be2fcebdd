"""Calls of every shipped query, and a catalog that reports the plans of its statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import event

from catalog import Among, CheckFinding, CheckResult, Compare, EmbeddingRow, build_where
from catalog.database import schema
from catalog.testing.records import make_record

if TYPE_CHECKING:
    from collections.abc import Callable

    from wshard import Catalog


class Watch:
    """A catalog that reports the plans of the statements that it runs."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.ids = [done.id for done in catalog.episodes.register([make_record(number) for number in range(50)])]
        self.space = catalog.vectors.add_space("f", "family", "{}").id
        self.layouts = tuple(layout.id for layout in catalog.query.layouts())
        rows = [EmbeddingRow(row.id, row.digest, 1, b"v") for row in catalog.episodes.rows(self.ids[:25]).values()]
        catalog.vectors.write(self.space, rows)
        spike = (CheckFinding("spike", "at timestep 3"),)
        self.verdicts = [
            CheckResult(row.id, row.digest, "1", "family", {"spike": row.id / 10}, spike * (row.id % 2), b"measures")
            for row in catalog.episodes.rows(self.ids[:20]).values()
        ]
        catalog.checks.set_checked(self.verdicts, most=10)
        self.notes = [catalog.annotations.add_note([id_], f"note {id_}") for id_ in self.ids[:5]]
        catalog.annotations.review(self.ids[:10], "accepted")
        catalog.annotations.set_scores("quality", {id_: id_ / 7 for id_ in self.ids})
        catalog.annotations.add_lineage(self.ids[:5], "trimmed_from", "uid")
        catalog.collections.save_snapshot("chosen", "env:env-1")
        catalog.collections.save_query("short", "length:<120")

    def plans(self, call: Callable[[], object]) -> list[str]:
        """Return the lines of the query plans of the call."""
        seen: list[tuple[str, Any]] = []

        def remember(*details: Any) -> None:
            seen.append((details[2], details[3]))

        engine = self.catalog._session.database._engine
        event.listen(engine, "before_cursor_execute", remember)
        try:
            call()
        finally:
            event.remove(engine, "before_cursor_execute", remember)
        lines: list[str] = []
        with self.catalog._session.read() as connection:
            for statement, parameters in seen:
                if statement.startswith(("SELECT", "DELETE", "UPDATE")):
                    one = parameters[0] if isinstance(parameters, list) else parameters
                    lines += [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", one)]
        assert lines
        return lines


COMBINED = build_where(env_id="env-1", min_length=120, reward_range=(5.0, 90.0))

CALLS: dict[str, Callable[[Watch], object]] = {
    "env": lambda w: w.catalog.query.select(build_where(env_id="env-1"), order="total_reward"),
    "envs": lambda w: w.catalog.query.count(build_where(env_id=["env-1", "env-2"])),
    "reward": lambda w: w.catalog.query.select(build_where(reward_range=(1.0, None)), order="-total_reward"),
    "length": lambda w: w.catalog.query.select(build_where(min_length=120), order="length"),
    "longest": lambda w: w.catalog.query.ids(build_where(min_length=490)),
    "combined": lambda w: w.catalog.query.select(COMBINED, order="total_reward"),
    "count": lambda w: w.catalog.query.count(COMBINED),
    "ids": lambda w: w.catalog.query.ids(COMBINED),
    "facets": lambda w: w.catalog.query.facets(["env_id"], build_where(reward_range=(1.0, 5.0))),
    "name": lambda w: w.catalog.query.select(Compare("episode_id", "eq", "episode_000001")),
    "tag": lambda w: w.catalog.query.ids(build_where(tag="good")),
    "not tag": lambda w: w.catalog.query.ids("env:env-1 -tag:good"),
    "words": lambda w: w.catalog.query.select("note", order="id"),
    "words in an environment": lambda w: w.catalog.query.ids("env:env-1 note"),
    "score": lambda w: w.catalog.query.ids("score.quality:>0.5"),
    "score order": lambda w: w.catalog.query.select(order="-score.quality", limit=5),
    "score order within": lambda w: w.catalog.query.select(COMBINED, order="score.quality", limit=5),
    "asset": lambda w: w.catalog.query.ids("asset:chunk"),
    "assets": lambda w: w.catalog.episodes.assets(w.ids[:3]),
    "flag": lambda w: w.catalog.query.ids("flag:spike"),
    "facet of flags": lambda w: w.catalog.query.facets(["flag"]),
    "findings": lambda w: w.catalog.checks.findings(w.ids[:3]),
    "unchecked": lambda w: w.catalog.checks.unchecked("1", w.ids),
    "all_unchecked": lambda w: w.catalog.checks.all_unchecked("1"),
    "stored measures": lambda w: w.catalog.checks.stored_measures("family", 5),
    "set checked": lambda w: w.catalog.checks.set_checked(w.verdicts, most=5),
    "flag them": lambda w: w.catalog.checks.flag(w.ids[:3], CheckFinding("integrity", "cut")),
    "review": lambda w: w.catalog.query.ids("review:accepted"),
    "lineage": lambda w: w.catalog.query.ids("lineage.trimmed_from:uid"),
    "path within": lambda w: w.catalog.query.ids("env:env-1 path:/data/set/*"),
    "metadata within": lambda w: w.catalog.query.ids("env:env-1 meta.seed:>3"),
    "root": lambda w: w.catalog.query.ids("root:/data/set"),
    "root within": lambda w: w.catalog.query.count("env:env-1 root:/data*"),
    "lane's type": lambda w: w.catalog.query.ids("lane.signal/state.dtype:f32"),
    "lane within": lambda w: w.catalog.query.ids("env:env-1 lane.action/joint.max:>0.5"),
    "or": lambda w: w.catalog.query.ids("env:env-1 OR env:env-2 length:>300"),
    "prefix": lambda w: w.catalog.query.ids("env:env-*"),
    "facet of everything": lambda w: w.catalog.query.facets(["env_id", "success", "tag", "length"]),
    "facets within": lambda w: w.catalog.query.facets(["env_id", "success", "tag", "review", "meta.seed"], COMBINED),
    "histogram": lambda w: w.catalog.query.histogram("total_reward", build_where(env_id="env-1")),
    "histogram of a score": lambda w: w.catalog.query.histogram("score.quality", build_where(env_id="env-1")),
    "statistics": lambda w: w.catalog.query.statistics(["length", "score.quality"], COMBINED, by=["success"]),
    "layouts": lambda w: w.catalog.query.layouts(build_where(env_id="env-1")),
    "collections": lambda w: w.catalog.collections.all(),
    "save query": lambda w: w.catalog.collections.save_query("live", COMBINED),
    "save snapshot": lambda w: w.catalog.collections.save_snapshot("other", COMBINED),
    "in a snapshot": lambda w: w.catalog.query.ids("collection:chosen"),
    "in a query": lambda w: w.catalog.query.ids("collection:short"),
    "picks": lambda w: w.catalog.collections.picks("chosen"),
    "picked": lambda w: w.catalog.collections.picked("chosen"),
    "gone picks": lambda w: w.catalog.collections.gone(),
    "combine": lambda w: w.catalog.collections.combine("both", "union", "chosen", "short"),
    "split": lambda w: w.catalog.collections.split("chosen", {"a": 0.5, "b": 0.5}, by=["env_id", "tag"]),
    "ancestors": lambda w: w.catalog.collections.ancestors("chosen"),
    "facts": lambda w: w.catalog.query.facts(w.ids[:3]),
    "audit": lambda w: w.catalog.annotations.audit(w.ids[:3]),
    "add note": lambda w: w.catalog.annotations.add_note(w.ids[:3], "blurred"),
    "remove note": lambda w: w.catalog.annotations.remove_note(w.notes[0][0].id),
    "add review": lambda w: w.catalog.annotations.review(w.ids[:3], "rejected"),
    "undo review": lambda w: w.catalog.annotations.undo_review(w.ids[:3]),
    "add tag": lambda w: w.catalog.annotations.tag(w.ids[:3], "good"),
    "remove tag": lambda w: w.catalog.annotations.untag(w.ids[:3], "good"),
    "add score": lambda w: w.catalog.annotations.set_scores("quality", {w.ids[0]: 1.0}),
    "drop score": lambda w: w.catalog.annotations.drop_scores("quality", w.ids[:3]),
    "swap scores": lambda w: w.catalog.annotations.swap_scores("quality", {w.ids[0]: 1.0, w.ids[1]: None}),
    "remove notes": lambda w: w.catalog.annotations.remove_notes([w.notes[0][0].id]),
    "add lineage": lambda w: w.catalog.annotations.add_lineage(w.ids[:7], "trimmed_from", "uid"),
    "get by id": lambda w: w.catalog.episodes.get(w.ids[0]),
    "get by uid": lambda w: w.catalog.episodes.get(w.catalog.query.select().rows[0].uid),
    "rows": lambda w: w.catalog.episodes.rows(w.ids[:3]),
    "digest": lambda w: w.catalog.episodes.by_digest([make_record(3).digest]),
    "known": lambda w: w.catalog.episodes.known([make_record(3).path]),
    "places": lambda w: list(w.catalog.episodes.places("/data/set")),
    "spreads": lambda w: list(w.catalog.query.spreads_by_id(w.layouts, "signal/state")),
    "rates": lambda w: w.catalog.query.rates(w.layouts, "signal/state"),
    "pending": lambda w: w.catalog.vectors.pending(w.space, Among(w.layouts)),
    "pending ids": lambda w: w.catalog.vectors.pending_ids(w.space, Among(w.layouts)),
    "pending of some": lambda w: w.catalog.vectors.pending(w.space, Among(w.layouts, tuple(w.ids[20:30]))),
    "pending with words": lambda w: w.catalog.vectors.pending(w.space, Among(w.layouts, with_words=True)),
    "embedded": lambda w: w.catalog.vectors.embedded(w.space),
    "withdraw": lambda w: w.catalog.episodes.withdraw(w.ids[:3]),
    "ledger": lambda w: list(w.catalog.vectors.ledger(w.space, since=3)),
    "ledger state": lambda w: w.catalog.vectors.state(w.space),
    "register": lambda w: w.catalog.episodes.register([make_record(3), make_record(4, digest="new"), make_record(60)]),
    "write": lambda w: w.catalog.vectors.write(w.space, [EmbeddingRow(30, make_record(29).digest, 1, b"v")]),
    "remove": lambda w: w.catalog.episodes.remove(w.ids[:2]),
}


FEW = ("archive", "space", "root", "collection")

BIG = set(schema.metadata.tables) - set(FEW)
