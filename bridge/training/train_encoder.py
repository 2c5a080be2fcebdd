"""Train the embedders `learned` and `adapted` on the episodes of an archive."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.archive import archive_of
from bridge.episodes.open import OpenLocations
from bridge.episodes.read import Failure, attempt
from bridge.episodes.rows import read_lanes, read_sample
from bridge.spaces.identity import describe_lanes
from bridge.spaces.lanes import LaneChoice
from bridge.spaces.statistics import Choice, Family, archive_scale, families
from bridge.support.progress import Silent
from catalog.filters.where import EVERYTHING
from embedders.lanes import count_channels
from embedders.neural.network import save_network
from embedders.neural.temporal_encoder import Shape
from embedders.neural.training import Training, train
from embedders.shard_arrays import holds_arrays
from embedders.standardise import standardise
from embedders.trajectory.arc import ArcDct
from embedders.trajectory.fitting import FitOptions, fit
from embedders.windows import WindowPlan
from wshard.core.container.atomic_write import check_replaceable
from wshard.core.messages import plural
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
    from wshard.core.episode.protocol import EpisodeAddress

MOST_WINDOWS: Final = 20_000
"""Windows that are shown to the training at most, of episodes chosen at random: they are held in memory."""


@dataclass(frozen=True)
class Lesson:
    """What to train on: windows, cut by this plan, of these lanes of the episodes that match the filter."""

    lanes: Sequence[str] | None = None
    windows: WindowPlan = field(default_factory=WindowPlan)
    where: Where | str = EVERYTHING


@dataclass(frozen=True)
class Learnt:
    """The result: the number of windows, the final loss, and the episodes that could not be read."""

    windows: int
    loss: float
    left_out: tuple[Failure, ...]


@dataclass(frozen=True)
class AdaptReport:
    """The result: the number of episodes, and those that could not be read.

    found: the share of disturbed episodes whose nearest by the fitted descriptor is their original, from 0 to 1.
    found_before: the same by `blocks`.
    """

    episodes: int
    found: float
    found_before: float
    left_out: tuple[Failure, ...]


def train_embedder(
    target: str | os.PathLike[str] | Archive,
    out: str | os.PathLike[str],
    lesson: Lesson | None = None,
    *,
    training: Training | None = None,
    progress: Progress | None = None,
) -> Learnt:
    """Train an encoder on the archive and write it to the file `out`, for the embedder "learned:OUT".

    No labels are used. Raises QueryError where the episodes' lanes differ (name some), EmbedderError for too few
    windows, FileExistsError where `out` is another file, MissingExtraError without torch, CatalogNotFoundError,
    OSError.
    """
    check_replaceable(out, "a trained embedder", holds_arrays)
    lesson, training, watch = lesson or Lesson(), training or Training(), progress or Silent()
    windows, left_out = _read(target, lesson, training.seed, MOST_WINDOWS)
    watch.stage("training", training.steps)
    losses: list[float] = []

    def follow(_: int, loss: float) -> None:
        losses.append(loss)
        watch.advance(1)

    encoder = train(windows, Shape(windows[0].shape[1] if windows else 1), training, follow)
    save_network(encoder, out)
    return Learnt(len(windows), losses[-1], tuple(left_out))


def adapt_embedder(
    target: str | os.PathLike[str] | Archive,
    out: str | os.PathLike[str],
    lesson: Lesson | None = None,
    *,
    options: FitOptions | None = None,
    progress: Progress | None = None,
) -> AdaptReport:
    """Fit `adapted` to whole episodes of the archive and write it to the file `out`, for the embedder "adapted:OUT".

    No labels are used, and no torch. Raises QueryError where the episodes' lanes differ (name some), EmbedderError for
    too few episodes, FileExistsError where `out` is another file, CatalogNotFoundError, OSError.
    """
    check_replaceable(out, "a trained embedder", holds_arrays)
    lesson, options, watch = lesson or Lesson(), options or FitOptions(), progress or Silent()
    episodes, left_out = _read(target, lesson, options.seed, options.episodes)
    watch.stage("fitting", options.views + 1)
    fitted = fit(episodes, options, partial(watch.advance, 1))
    fitted.linear_map.save(out)
    return AdaptReport(len(episodes), fitted.found, fitted.found_before, tuple(left_out))


def _read(
    target: str | os.PathLike[str] | Archive, lesson: Lesson, seed: int, most: int
) -> tuple[list[Rows], list[Failure]]:
    """Return at most so many windows of the archive's episodes, and the episodes that could not be read."""
    archive, close = archive_of(target)
    try:
        return _windows(archive, _family(archive, lesson), lesson, np.random.default_rng(seed), most)
    finally:
        close()


def _family(archive: Archive, lesson: Lesson) -> Family:
    names = None if lesson.lanes is None else tuple(lesson.lanes)
    matching = {layout.id: layout.episodes for layout in archive.catalog.query.layouts(lesson.where)}
    groups, _ = families(archive.catalog, Choice(ArcDct(), LaneChoice(names), lesson.windows))
    groups = [group for group in groups if matching.keys() & {*group.group.measured_layouts}]
    if not groups:
        raise QueryError(
            "training: expected episodes with the same lanes, found none that pass the filter and have them"
        )
    counts = [sum(matching.get(id_, 0) for id_ in group.group.measured_layouts) for group in groups]
    complete = [group for group, count in zip(groups, counts, strict=True) if count == sum(matching.values())]
    if complete:
        return max(complete, key=lambda group: count_channels(group.lanes))
    listed = "\n".join(
        f"  {plural(count, 'episode')} of {describe_lanes(group.space(None))}"
        for group, count in zip(groups, counts, strict=True)
    )
    raise QueryError(f"training: expected the same lanes everywhere, choose some (--lanes, --where); found:\n{listed}")


def _windows(
    archive: Archive, family: Family, lesson: Lesson, rng: np.random.Generator, most: int
) -> tuple[list[Rows], list[Failure]]:
    """Return z-scored windows [T_i, channels] of episodes in random order, and the episodes that could not be read."""
    scale = archive_scale(archive.catalog, family, partial(read_sample, archive.catalog))
    space = family.space(scale)
    rows = archive.catalog.episodes.rows(archive.catalog.query.ids(lesson.where))
    fitting = [row for row in rows.values() if row.layout_id in family.group.measured_layouts]
    windows: list[Rows] = []
    failed: list[Failure] = []
    with OpenLocations() as locations:
        for place in rng.permutation(len(fitting)).tolist():
            address = fitting[place].address
            values = attempt(partial(_values, address, space, locations), address)
            if isinstance(values, Failure):
                failed.append(values)
                continue
            scored = standardise(values.astype(np.float64), scale.statistics)
            windows += [scored[start:stop] for start, stop in space.windows.spans(len(scored)).tolist()]
            if len(windows) >= most:
                break
    return windows[:most], failed


def _values(address: EpisodeAddress, space: Space, locations: OpenLocations) -> NDArray[Any]:
    with locations.open(address) as file:
        return read_lanes(file, space, address)
