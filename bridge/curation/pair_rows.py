"""Reads the lanes of pairs of episodes: those of many together, as they lie in files."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.episodes.open import OpenLocations
from bridge.episodes.read import Failure, attempt
from bridge.episodes.rows import read_lanes
from bridge.spaces.lane_statistics import lane_statistics
from bridge.spaces.lanes import layouts_with
from embedders.standardise import scales
from wshard.errors import NoLaneError, StaleEpisodeError

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from bridge.archive import Archive
    from bridge.curation.arrays import Ids, Vectors
    from bridge.curation.time_shift import Rows
    from catalog.records import EpisodeRow
    from embedders.space import Space, Statistics

_MOST: Final = 1 << 25  # numbers in memory, about
_SAMPLE: Final = 4096  # vectors that determine the order
_ROUNDS: Final = 16  # of power iteration: an approximate direction is sufficient
_TOGETHER: Final = 2048  # episodes that are read before their pairs are compared: about a second


def sort_by_likeness(vectors: Vectors, pairs: Ids) -> Ids:
    """Return the pairs of places [n, 2] so that those of similar episodes come one after the other."""
    along = vectors @ find_main_direction(vectors)
    return pairs[np.argsort(along[pairs[:, 0]], kind="stable")]


def find_main_direction(rows: Vectors) -> Vectors:
    """Return the direction of unit length along which a sample of the rows [N, E] varies most, nearly.

    By power iteration, as E is in the thousands where channels are many. Where all rows are equal it is zero.
    """
    sample = rows[:: max(1, len(rows) // _SAMPLE)].astype(np.float64)
    if not len(sample):
        return np.zeros(rows.shape[1], np.float32)
    apart = sample - sample.mean(axis=0)
    direction = apart[np.argmax(np.square(apart).sum(axis=1))]
    for _ in range(_ROUNDS):
        direction = apart.T @ (apart @ direction)
        direction /= np.linalg.norm(direction) or 1.0
    nearest: Vectors = direction.astype(np.float32)
    return nearest


def read_pairs(
    archive: Archive, space: Space, pairs: Sequence[tuple[EpisodeRow, EpisodeRow]]
) -> Iterator[tuple[Rows | None, Rows | None]]:
    """Yield the rows of each pair of episodes, in this order: best if pairs of the same episodes are close together.

    Rows are the lanes concatenated as in the Space, [T, D] in standard deviations of the archive; None if the file is
    missing, changed or damaged, and for lanes of images.
    """
    scale = _deviations(archive, space) if pairs else None
    if scale is None:
        yield from ((None, None) for _ in pairs)
        return
    known: dict[int, Rows | None] = {}
    start, most = 0, _MOST // space.channels
    with OpenLocations() as locations:
        while start < len(pairs):
            wanted, stop = _take(pairs, start, known, most)
            new = [wanted[id_] for id_ in sorted(wanted.keys() - known.keys())]  # as they lie in files
            if sum(len(rows) for rows in known.values() if rows is not None) + _count_steps(new) > most:
                known = {id_: rows for id_, rows in known.items() if id_ in wanted}
            for row in new:
                read = attempt(partial(_read, row, space, scale, locations), row.address)
                known[row.id] = None if isinstance(read, Failure) else read
            yield from ((known[one.id], known[other.id]) for one, other in pairs[start:stop])
            start = stop


def _take(
    pairs: Sequence[tuple[EpisodeRow, EpisodeRow]], start: int, known: Container[int], most: int
) -> tuple[dict[int, EpisodeRow], int]:
    """Return the episodes of the next pairs by id, up to about so many timesteps, and where these pairs end."""
    wanted: dict[int, EpisodeRow] = {}
    steps = new = 0
    for place in range(start, len(pairs)):
        if steps > most or new > _TOGETHER:
            return wanted, place
        for row in pairs[place]:
            if row.id not in wanted:
                wanted[row.id] = row
                steps += row.length
                new += row.id not in known
    return wanted, len(pairs)


def _count_steps(rows: Iterable[EpisodeRow]) -> int:
    return sum(row.length for row in rows)


def _deviations(archive: Archive, space: Space) -> Statistics | None:
    """Return mean and standard deviation of every channel of the Space's lanes, None for images.

    They are those of the catalogued episodes with these lanes, without glitched ones; a Space of an earlier version may
    have the scale of one.
    """
    if len(space.window_shape) > 1 or space.rotations or space.units:  # the catalog has them of rows as stored
        return space.statistics
    try:
        return lane_statistics(archive.catalog, layouts_with(archive.catalog, space.lanes), space.lanes)
    except NoLaneError:  # the episodes have changed since
        return space.statistics


def _read(row: EpisodeRow, space: Space, scale: Statistics, locations: OpenLocations) -> Rows:
    with locations.open(row.address) as file:
        if not locations.is_as_ingested(file, row):
            raise StaleEpisodeError.at(row.address, row.address.uri)
        rows = read_lanes(file, space, row.address)
    standardised: Rows = ((rows - scale.mean) / scales(scale)).astype(np.float32)
    return standardised
