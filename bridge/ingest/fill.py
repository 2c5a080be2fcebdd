"""Fills Spaces: computes missing vectors of catalogued episodes, and writes them to ledger and index."""

from __future__ import annotations

from array import array
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.episodes.open import OpenLocations
from bridge.episodes.read import Failure
from bridge.episodes.rows import read_sample
from bridge.index.base import Point
from bridge.index.stored_rows import decode_vectors
from bridge.ingest.embed import Embedding, MissingEmbeddings, embed_episodes, lost_outcomes
from bridge.ingest.neighbours import find_scaling
from bridge.quality.judge import INTEGRITY
from bridge.spaces.identity import describe_lanes, describe_picks, describe_scales, identity, maker_of
from bridge.spaces.statistics import Family, current, families, find_space_to_fill, measure_once
from bridge.support.batches import batches, growing_batches
from bridge.support.id_set import IdSet
from catalog.records import CheckFinding
from catalog.vectors.records import Among
from embedders.space import Space
from wshard.errors import FormatError, NoLaneError, SpaceMismatchError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bridge.ingest.report import Run
    from bridge.spaces.statistics import Choice
    from catalog.catalog import Catalog
    from catalog.records import EpisodeRow
    from catalog.vectors.records import EmbeddingRow, SpaceRow
    from embedders.lanes import LaneSpec

_QUERIED: Final = 16_384  # ids in one query


@dataclass(frozen=True, eq=False)
class _Plan:
    """What to embed: the Spaces of one family; requested: episodes for which windows were requested, None for all."""

    choice: Choice
    family: Family
    requested: Sequence[int] | None


@dataclass(frozen=True)
class _Target:
    """One Space to fill, and its episodes."""

    family: Family
    row: SpaceRow
    among: Among
    left_out: list[int] = field(default_factory=list)  # ids of episodes that could not be embedded


def fill(run: Run, choices: Sequence[Choice], ids: Sequence[int]) -> None:
    """Compute the missing embeddings for these choices; ids: those of the episodes passed to the run.

    Choices with the same lanes are embedded together: each episode is opened once for all of them.
    """
    catalog = run.archive.catalog
    run.free_memory(len(run.present))
    plans_by_lanes: dict[tuple[LaneSpec, ...], list[_Plan]] = {}
    reasons: dict[int, tuple[NoLaneError, bool]] = {}
    for choice in choices:
        groups, unfit = families(catalog, choice)
        reasons |= {layout: (error, choice.lanes.names is None) for layout, error in unfit.items()}
        for family in groups:
            requested = None if choice.windows.whole else _request(catalog, choice, family, ids)
            plans_by_lanes.setdefault(family.lanes, []).append(_Plan(choice, family, requested))
    for plans in plans_by_lanes.values():  # skipped then: lanes without any finite numbers
        reasons |= {layout: (error, True) for layout, error in _fill_together(run, plans).items()}
    run.free_memory(len(run.present))
    if reasons:
        affected = [
            (row.address, *reasons[row.layout_id])
            for batch in batches(ids)
            for row in catalog.episodes.rows(batch).values()
            if row.layout_id in reasons
        ]
        run.report.add_failures(
            Failure.of(
                NoLaneError(f"{address}: {str(error).removeprefix('episode: ')}"), address, catalogued=catalogued
            )
            for address, error, catalogued in affected
        )


def _request(catalog: Catalog, choice: Choice, family: Family, ids: Sequence[int]) -> Sequence[int]:
    """Return the episodes that get windows: those passed to the run, and for lanes that they share all that have such.

    Otherwise an episode would be compared with those that were ingested before it by whole episodes alone.
    """
    if not family.group.shared:
        return ids
    made = identity(choice.embedder)
    alike = [
        row.id
        for row in catalog.vectors.spaces("active")
        if (space := Space.from_json(row.definition)).windows == choice.windows and maker_of(space) == made
    ]
    return array("q", IdSet(chain(ids, *map(catalog.vectors.embedded, alike))))


def _fill_together(run: Run, plans: Sequence[_Plan]) -> dict[int, NoLaneError]:
    """Fill the active Spaces, and new ones if the statistics have changed, until nothing is left to do.

    The episodes of a Space are queried again after each step during which another ingest may have changed them. Returns
    why layouts, by id, could not be embedded.
    """
    catalog = run.archive.catalog
    unfit: dict[int, NoLaneError] = {}
    read = lru_cache(maxsize=1)(partial(read_sample, catalog, cache=run.cache))  # once for all plans
    while plans:
        active = {plan: row for plan in plans if (row := current(catalog, plan.family)) is not None}
        known = [(one, row, _episodes_of(one.family, row, one.requested)) for one, row in active.items()]
        _embed(run, [_Target(one.family, row, among) for one, row, among in known])
        targets: dict[_Plan, _Target | None] = {}
        measure = measure_once(catalog, read)
        for plan in plans:
            try:
                row = find_space_to_fill(catalog, plan.family, measure)
            except NoLaneError as error:
                unfit |= dict.fromkeys(plan.family.group.layout_ids, error)
            else:
                targets[plan] = None if row is None else _Target(plan.family, row, _among(run, plan, row))
        written = _embed(run, [target for target in targets.values() if target is not None])
        for target in filter(None, targets.values()):  # what this run wrote since does not change statistics
            catalog.vectors.mark_checked(target.row.id, target.row.checked_seq + written)
        plans = [plan for plan, target in targets.items() if not _activate(run, plan, active.get(plan), target)]
    return unfit


def _activate(run: Run, plan: _Plan, active: SpaceRow | None, target: _Target | None) -> bool:
    """Activate the filled Space; return True if nothing was filled and no other ingest replaced the Space."""
    catalog = run.archive.catalog
    if target is None:
        present = current(catalog, plan.family)
        return present is None or (active is not None and present.id == active.id)
    with suppress(SpaceMismatchError):  # replaced by another ingest; the next round finds the new Space
        catalog.vectors.activate(target.row.id, target.among, ignoring=target.left_out)
        rows = (active or target.row, target.row)
        before, after = (describe_lanes(Space.from_json(row.definition)) for row in rows)
        if before != after:  # what was embedded before it was known how, is compared by it no more
            run.by_lanes.pop(before, None)
            run.report.spaces.pop(before, None)
    return False


def _episodes_of(family: Family, row: SpaceRow, ids: Sequence[int] | None) -> Among:
    """Return the family's episodes, or those of them with these ids, that a Space of the family can read."""
    return family.group.among(ids, wider=family.reads_as(Space.from_json(row.definition)))


def _among(run: Run, plan: _Plan, row: SpaceRow) -> Among:
    """Return the episodes for which a new Space of the family is meant.

    Whole-episode vectors are for every episode of the archive, so that any run finishes the work of an earlier one;
    windows are many, and only for the episodes for which they were requested.
    """
    catalog, family = run.archive.catalog, plan.family
    now = next((now for now in families(catalog, plan.choice)[0] if now.lanes == family.lanes), None)
    if now is None:
        return Among(())
    if plan.requested is None:
        return _episodes_of(now, row, None)
    active = current(catalog, family)
    ids = IdSet(chain(plan.requested, catalog.vectors.embedded(active.id) if active else ()))
    return _episodes_of(now, row, array("q", ids))


def _embed(run: Run, targets: Sequence[_Target]) -> int:
    """Embed every pending episode into the Spaces that it lacks; returns how many numbers the ledger issued for it."""
    catalog, incomplete, waiting = run.archive.catalog, list[_Target](), IdSet()
    for target in targets:
        if ids := _pending_ids(catalog, target):
            incomplete.append(target)
            waiting.update(ids)
    if not incomplete:
        return 0
    run.watch.stage("embedding", len(waiting))
    spaces = [Space.from_json(target.row.definition) for target in incomplete]
    said = chain.from_iterable([*describe_picks(space), *describe_scales(space)] for space in spaces)
    run.report.picked = [*dict.fromkeys(chain(run.report.picked, said))]
    makers, folder = [target.family.embedder for target in incomplete], run.archive.folder
    scalings = [find_scaling(run, space, waiting) for space in spaces]
    parts = zip(makers, spaces, scalings, strict=True)
    jobs = [Embedding(embedder, space, folder, run.cache, scaling) for embedder, space, scaling in parts]
    replaced, issued = set[int](), 0
    pending = _pending(run, incomplete, waiting)
    for outcome in run.pool.each(partial(embed_episodes, jobs), pending, partial(lost_outcomes, len(jobs))):
        embedded: set[int] = set()
        for target, space, result in zip(incomplete, spaces, outcome, strict=True):
            if target.row.id in replaced:
                continue
            try:
                written = commit(run, target.row.id, space, result.rows)
            except SpaceMismatchError:
                replaced.add(target.row.id)  # by another ingest meanwhile
                continue
            embedded |= written
            issued += len(written)
            run.spool.add(space.fingerprint, result.timesteps)
            run.bridged.update(written & result.bridged)
            run.by_lanes.setdefault(describe_lanes(space), IdSet()).update(written)
            target.left_out.extend(id_ for id_, _ in result.failed)
            # A file that disappeared is not a failure, as above.
            with OpenLocations() as locations:
                failures = [failure for _, failure in result.failed if locations.exists(failure.address)]
            run.report.add_failures(failures)
        seen = {row.episode_id for result in outcome for row in result.rows}
        run.watch.advance(len(seen | {id_ for result in outcome for id_, _ in result.failed}))
        run.embedded.update(embedded)
        run.report.embedded, run.report.bridged = len(run.embedded), len(run.bridged)
        run.report.spaces = {lanes: len(ids) for lanes, ids in run.by_lanes.items() if ids}
        # Once for each file that was read here, though several Spaces may lack it.
        broken = {
            id_: one.error for result in outcome for id_, one in result.failed if isinstance(one.cause, FormatError)
        }
        for id_, reason in broken.items():
            catalog.checks.flag([id_], CheckFinding(INTEGRITY, reason))
        if len(replaced) == len(incomplete):
            break
    return issued


def _pending_ids(catalog: Catalog, target: _Target) -> list[int]:
    """Return the ids of the target's episodes without vectors; a query for all would hold all ids as text."""
    ids, pending = target.among.ids, partial(catalog.vectors.pending_ids, target.row.id)
    if ids is None:
        return pending(target.among)
    parts = (ids[start : start + _QUERIED] for start in range(0, len(ids), _QUERIED))
    return [id_ for part in parts for id_ in pending(replace(target.among, ids=part))]


def commit(run: Run, space_id: int, space: Space, rows: Sequence[EmbeddingRow]) -> set[int]:
    """Write vectors to the ledger, update the index, and return the ids of the episodes.

    Raises SpaceMismatchError if the Space was replaced.
    """
    entries = run.archive.catalog.vectors.write(space_id, rows)
    points = [
        Point(entry.episode_id, entry.seq, decode_vectors(entry.episode_id, entry.vectors, (entry.count, space.dim)))
        for entry in entries
        if entry.vectors is not None
    ]
    run.index_sync.upsert(space, points)
    return {entry.episode_id for entry in entries}


def _pending(run: Run, targets: Sequence[_Target], waiting: IdSet) -> Iterator[list[MissingEmbeddings]]:
    """Yield batches of the episodes that lack vectors in any of the Spaces.

    The episodes of this run come first, then the others in random order, so that several machines share the work
    instead of duplicating it. Episodes whose files are missing are skipped, since no search would return them.
    """
    catalog, newly_cataloged = run.archive.catalog, IdSet(run.newly_cataloged)
    asked = [None if target.among.ids is None else IdSet(target.among.ids) for target in targets]
    own = array("q", (id_ for id_ in waiting if id_ in newly_cataloged))
    rest = [*batches(array("q", (id_ for id_ in waiting if id_ not in newly_cataloged)))]
    order = np.random.default_rng().permutation(len(rest)).tolist()
    for ids in chain(growing_batches(own, run.pool.sharing), (rest[part] for part in order)):
        among = [_within(target.among, ids, wanted) for target, wanted in zip(targets, asked, strict=True)]
        found = [catalog.vectors.pending(t.row.id, of) for t, of in zip(targets, among, strict=True)]
        if lacking := _lacking(run, targets, found):
            yield lacking


def _within(among: Among, ids: Sequence[int], wanted: IdSet | None) -> Among:
    return replace(among, ids=tuple(id_ for id_ in ids if wanted is None or id_ in wanted))


def _lacking(run: Run, targets: Sequence[_Target], found: Sequence[Sequence[EpisodeRow]]) -> list[MissingEmbeddings]:
    """Return the pending episodes of each Space whose files exist, by id."""
    lacking: dict[int, tuple[EpisodeRow, list[int]]] = {}
    for number, rows in enumerate(found):
        for row in rows:
            lacking.setdefault(row.id, (row, []))[1].append(number)
    there = []
    with OpenLocations() as locations:
        for id_, (row, numbers) in sorted(lacking.items()):
            if locations.exists(row.address):
                there.append(MissingEmbeddings(row, tuple(numbers)))
                continue
            run.watch.advance(len(numbers))
            for number in numbers:
                targets[number].left_out.append(id_)
    return there
