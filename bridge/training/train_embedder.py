"""Train the embedder `learned` on the episodes of an archive."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bridge.archive import open_archive
from bridge.episodes.open import OpenLocations
from bridge.episodes.read import Failure, attempt, read_lanes
from bridge.spaces.identity import describe
from bridge.spaces.lanes import LaneChoice
from bridge.spaces.statistics import Choice, Family, archive_statistics, families
from bridge.support.progress import Silent
from catalog.filters.where import EVERYTHING
from embedders.standardise import standardise
from embedders.trajectory.blocks import Blocks
from embedders.trajectory.training import Training, train
from embedders.windows import WindowPlan
from wshard.errors import QueryError

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bridge.archive import Archive
    from bridge.support.progress import Progress
    from catalog.filters.where import Where
    from embedders.numeric import Rows
    from embedders.space import Space
    from wshard.episode.protocol import EpisodeAddress


@dataclass(frozen=True)
class Lesson:
    """What to train on: these lanes of the episodes that match the filter."""

    lanes: Sequence[str] | None = None
    where: Where | str = EVERYTHING


@dataclass(frozen=True)
class Learnt:
    """The result: the number of episodes, and those that could not be read.

    found: the share of disturbed episodes whose nearest by the learned descriptor is their original, from 0 to 1.
    found_before: the same by `blocks`.
    """

    episodes: int
    found: float
    found_before: float
    left_out: tuple[Failure, ...]


def train_embedder(
    target: str | os.PathLike[str],
    out: str | os.PathLike[str],
    lesson: Lesson | None = None,
    *,
    training: Training | None = None,
    progress: Progress | None = None,
) -> Learnt:
    """Train on the archive's episodes and write what was learned to the file `out`, for the embedder "learned:OUT".

    No labels are used. Raises QueryError where the episodes' lanes differ (name some), EmbedderError for too few
    episodes or too many channels, CatalogNotFoundError, OSError.
    """
    lesson, training, watch = lesson or Lesson(), training or Training(), progress or Silent()
    with open_archive(target) as archive:
        family = _family(archive, lesson)
        episodes, left_out = _read_some(archive, family, lesson, training)
    watch.stage("training", training.views + 1)
    trained = train(episodes, training, partial(watch.advance, 1))
    trained.projection.save(out)
    return Learnt(len(episodes), trained.found, trained.found_before, tuple(left_out))


def _family(archive: Archive, lesson: Lesson) -> Family:
    names = None if lesson.lanes is None else tuple(lesson.lanes)
    groups, _ = families(archive.catalog, Choice(Blocks(), LaneChoice(names), WindowPlan()))
    if len(groups) == 1:
        return groups[0]
    listed = "\n".join(f"  {describe(group.space(None))}" for group in groups) or "  none"
    raise QueryError(f"training: expected the same lanes everywhere, choose some (--lanes, --where); found:\n{listed}")


def _read_some(
    archive: Archive, family: Family, lesson: Lesson, training: Training
) -> tuple[list[Rows], list[Failure]]:
    """Return z-scored rows [T_i, channels] of episodes chosen at random, and the episodes that could not be read."""
    statistics = archive_statistics(archive.catalog, family)
    space = family.space(statistics)
    rows = archive.catalog.episodes.rows(archive.catalog.query.ids(lesson.where))
    fitting = [row for row in rows.values() if row.layout_id in family.layout_ids and row.length > 1]
    found: list[Rows] = []
    failed: list[Failure] = []
    with OpenLocations() as locations:
        for place in np.random.default_rng(training.seed).permutation(len(fitting)).tolist():
            if len(found) == training.episodes:
                break
            address = fitting[place].address
            values = attempt(partial(_values, address, space, locations), address)
            if isinstance(values, Failure):
                failed.append(values)
            else:
                found.append(standardise(values.astype(np.float64), statistics))
    return found, failed


def _values(address: EpisodeAddress, space: Space, locations: OpenLocations) -> NDArray[Any]:
    with locations.open(address) as file:
        return read_lanes(file, space)
