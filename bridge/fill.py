"""From catalog rows to vectors in the ledger and the index.

Knows: which episodes lack vectors, and that other ingests may register episodes and replace Spaces meanwhile.
Does not know: how episodes came into the catalog, or when statistics are taken anew.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bridge.index.base import Point
from bridge.reading import Embedding, Failure, embed_episodes, told
from bridge.run import BATCH, batches
from bridge.spaces import Family, current, due, families
from catalog.records import Among
from embedders.space import Space
from wshard.errors import NoLaneError, SpaceMismatchError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bridge.run import Run
    from bridge.spaces import Choice
    from catalog.records import EmbeddingRow, EpisodeRow, SpaceRow


def fill(run: Run, choice: Choice, files: Sequence[str]) -> None:
    """Embed what the archive's episodes lack under this choice; `files` are those that the run was asked for."""
    catalog = run.archive.catalog
    known = [found[0].id for batch in batches(files) for found in catalog.known(batch).values()]
    asked = None if choice.windows.whole else known
    groups, unfit = families(catalog, choice)
    reasons = {layout: (error, choice.lanes.names is None) for layout, error in unfit.items()}
    for family in groups:
        try:
            _fill_family(run, choice, family, asked)
        except NoLaneError as error:  # of their numbers in a lane none are finite
            reasons |= dict.fromkeys(family.layout_ids, (error, True))
    if reasons:
        blamed = [
            (row.path, *reasons[row.layout_id]) for row in catalog.rows(known).values() if row.layout_id in reasons
        ]
        run.report.leave_out(Failure(path, told(error, "episode"), kept) for path, error, kept in blamed)


def _fill_family(run: Run, choice: Choice, family: Family, asked: Sequence[int] | None) -> None:
    """Fill the family's active Space, and a new one where its statistics are due, until nothing is left to do.

    Whom a Space is for is asked anew after each step that another ingest might have overtaken.
    """
    catalog = run.archive.catalog
    while True:
        active = current(catalog, family)
        if active is not None:
            _embed(run, family, active, _among(run, choice, family, asked))
        target = due(catalog, family)
        if target is None:
            now = current(catalog, family)
            if now is None or (active is not None and now.id == active.id):
                return
            continue
        among = _among(run, choice, family, asked)
        left_out = _embed(run, family, target, among)
        try:
            catalog.activate(target.id, among, ignoring=left_out)
        except SpaceMismatchError:
            continue  # another ingest replaced the Space meanwhile; the next round finds the new one


def _among(run: Run, choice: Choice, family: Family, asked: Sequence[int] | None) -> Among:
    """Return whom the family's Spaces are for.

    Whole-episode vectors are for every episode of the archive, so that any run finishes what an earlier one left;
    windows are many, and only for the episodes that they were asked for.
    """
    catalog = run.archive.catalog
    layouts = next((now.layout_ids for now in families(catalog, choice)[0] if now.lanes == family.lanes), ())
    if asked is None:
        return Among(layouts)
    active = current(catalog, family)
    return Among(layouts, tuple({*asked, *(catalog.embedded(active.id) if active else ())}))


def _embed(run: Run, family: Family, target: SpaceRow, among: Among) -> list[int]:
    """Embed every pending episode into one Space; returns the ids of those that could not be embedded."""
    space = Space.from_json(target.definition)
    total = run.archive.catalog.pending_count(target.id, among)
    if total == 0:
        return []
    run.watch.stage("embedding", total)
    left_out: list[int] = []
    job = partial(embed_episodes, Embedding(family.embedder, space))
    for rows, failures in run.crew.each(job, _pending(run, target, among, left_out)):
        try:
            _commit(run, target.id, space, rows)
        except SpaceMismatchError:
            break  # another ingest replaced the Space meanwhile
        left_out += [id_ for id_, _ in failures]
        run.report.leave_out(failure for _, failure in failures)
        run.watch.advance(len(rows) + len(failures))
    return left_out


def _commit(run: Run, space_id: int, space: Space, rows: Sequence[EmbeddingRow]) -> None:
    entries = run.archive.catalog.write_embeddings(space_id, rows)
    run.report.embedded += len(entries)
    points = [
        Point(entry.episode_id, entry.seq, np.frombuffer(entry.vectors, "<f4").reshape(entry.count, space.dim))
        for entry in entries
        if entry.vectors is not None
    ]
    run.follower.upsert(space, points)


def _pending(run: Run, target: SpaceRow, among: Among, left_out: list[int]) -> Iterator[list[EpisodeRow]]:
    """Yield batches of pending episodes; those whose files are gone are left out: no search would return them."""
    after = 0
    while rows := run.archive.catalog.pending(target.id, among, after=after, limit=BATCH):
        after = rows[-1].id
        there = {row.id: Path(row.path).exists() for row in rows}
        left_out += [id_ for id_, exists in there.items() if not exists]
        run.watch.advance(len(rows) - sum(there.values()))
        yield [row for row in rows if there[row.id]]
