"""Find duplicate episodes: the same data, or the same recording with noise, trimmed, re-encoded or at another rate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.archive import expect_archive
from bridge.curation.archive_vectors import find_met, find_whole_spaces
from bridge.curation.lanes_with_gaps import LanesWithGaps
from bridge.curation.neighbours import find_candidates
from bridge.curation.pair_rows import read_pairs, sort_by_likeness
from bridge.curation.time_rate import find_rescaled
from bridge.curation.time_shift import find_shift, is_comparable
from bridge.curation.twins import Twin, Twins, drop_repeats
from bridge.support.progress import Silent, counted
from wshard.core.arguments import finite_number
from wshard.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from bridge.archive import Archive
    from bridge.curation.archive_vectors import EpisodeVectors
    from bridge.curation.arrays import Floats, Ids
    from bridge.curation.time_shift import Rows
    from bridge.curation.twins import Kind
    from bridge.support.progress import Progress
    from catalog.filters.where import Where
    from catalog.records import EpisodeRow
    from embedders.space import Space


WITHIN: Final = 0.006
"""Largest difference (Twin.apart) between duplicates: see docs/curation.md for how it was chosen."""


_BEYOND: Final = 3.0  # limits up to which a pair is nearly one of duplicates
_CANDIDATES: Final = 20  # nearest neighbours to compare
_AT_OTHER_RATES: Final = 4  # of them, which are also compared at other rates where their lengths differ
_SAME_RATE: Final = 1e-3
_FARTHEST: Final = 1.0  # distance of the vector of a candidate


def find_duplicates(
    archive: Archive,
    where: Where | str = "",
    *,
    within: float = WITHIN,
    space: str | None = None,
    progress: Progress | None = None,
) -> Twins:
    """Return pairs of duplicates among the episodes that match the filter; the pairs connect each group.

    within: maximum difference (see Twin.apart). space: fingerprint prefix of the Space whose vectors nominate
    candidates; None = all Spaces of whole episodes. Raises QueryError, FilterError.
    """
    return _find(archive, (where,), _same_data(_rows(archive, where)), within, space, progress)


def find_leaks(
    archive: Archive,
    left: Where | str,
    right: Where | str,
    *,
    within: float = WITHIN,
    space: str | None = None,
    progress: Progress | None = None,
) -> Twins:
    """Return pairs of duplicates between the episodes that match the left filter and those that match the right.

    Every episode with a duplicate in the other set is in a pair; an episode in both sets is paired with itself.
    Otherwise like find_duplicates.
    """
    same = _in_both(*(_rows(archive, where) for where in (left, right)))
    return _find(archive, (left, right), same, within, space, progress)


def _find(
    archive: Archive,
    sets: Sequence[Where | str],
    same: Iterable[Twin],
    within: float,
    space: str | None,
    progress: Progress | None,
) -> Twins:
    """Return the pairs up to the limit, each once, and the closest of those a little beyond it with other episodes."""
    spaces, found, beyond, unread = find_whole_spaces(archive, space), [*same], list[Twin](), list[Twin]()
    for twin in _alike(archive, spaces, sets, within, progress):
        if twin.apart <= within:
            found.append(twin)
        elif twin.apart <= max(_BEYOND * within, WITHIN):
            beyond.append(twin)
        elif math.isnan(twin.apart):
            unread.append(twin)
    flagged = {id_ for twin in found for id_ in (twin.left.id, twin.right.id)}
    missed = [twin for twin in beyond if not {twin.left.id, twin.right.id} <= flagged]
    twins = Twins(drop_repeats(found))
    twins.closest, twins.unread_pairs = min(missed, key=lambda twin: twin.apart, default=None), drop_repeats(unread)
    twins.spaces, twins.alone = find_met(archive, spaces, sets)
    return twins


def check_within(within: float) -> None:
    """Raise QueryError unless `within` is a number of 0 or more."""
    if finite_number(within, "within", QueryError) < 0:
        raise QueryError(f"within: expected 0 or more, found {within}")


def group_episodes(episodes: Sequence[int], twins: Iterable[Twin]) -> dict[int, int]:
    """Return for each of the episodes, by id ascending, the smallest id of its group of duplicates."""
    places = {id_: place for place, id_ in enumerate(episodes)}
    id_pairs = [(twin.left.id, twin.right.id) for twin in twins]
    pairs = [
        (places[left_id], places[right_id])
        for left_id, right_id in id_pairs
        if left_id in places and right_id in places
    ]
    left, right = np.array(pairs, np.int64).reshape(-1, 2).T
    return {episodes[place]: episodes[first] for place, first in enumerate(connect(len(episodes), left, right))}


def _rows(archive: Archive, where: Where | str) -> list[EpisodeRow]:
    expect_archive(archive)
    rows = archive.catalog.episodes.rows(archive.catalog.query.ids(where))
    return [rows[id_] for id_ in sorted(rows)]


def _same_data(rows: Sequence[EpisodeRow]) -> Iterator[Twin]:
    first: dict[str, EpisodeRow] = {}
    for row in rows:
        if first.setdefault(row.digest, row) is not row:
            yield Twin(first[row.digest], row, "data")


def _in_both(left: Sequence[EpisodeRow], right: Sequence[EpisodeRow]) -> Iterator[Twin]:
    left_by_digest, right_by_digest = {row.digest: row for row in left}, {row.digest: row for row in right}
    pairs = [(row, right_by_digest[row.digest]) for row in left if row.digest in right_by_digest]
    pairs += [(left_by_digest[row.digest], row) for row in right if row.digest in left_by_digest]
    both = {row.id for row in left} & {row.id for row in right}
    yield from (Twin(row, row, "episode") for row in left if row.id in both)
    yield from (Twin(left_row, right_row, "data") for left_row, right_row in pairs if left_row.id != right_row.id)


def _alike(
    archive: Archive, spaces: Iterable[Space], sets: Sequence[Where | str], within: float, progress: Progress | None
) -> Iterator[Twin]:
    """Yield pairs that are alike by vectors and files, within one set of episodes or between two, at any difference."""
    check_within(within)
    gaps = LanesWithGaps(archive.catalog)
    near = find_candidates(archive, spaces, sets, nearest=_CANDIDATES, farthest=_FARTHEST, progress=progress)
    for vectors, distances, pairs in near:
        ordered = np.sort(pairs, axis=1) if len(sets) == 1 else pairs
        nearest = {*map(tuple, ordered[_rank(distances, pairs) < _AT_OTHER_RATES].tolist())}
        for twin in _compared(archive, vectors, ordered, nearest, progress or Silent()):
            if not twin.apart <= within or not differs_elsewhere(gaps, vectors[0].space, twin):
                yield twin


def _rank(distances: Floats, pairs: Ids) -> Ids:
    """Return the rank [n] of each pair among those with the same first place, nearest 0."""
    order = np.lexsort((distances, pairs[:, 0]))
    firsts = np.flatnonzero(np.diff(pairs[order, 0], prepend=-1))
    counts = np.diff(np.append(firsts, len(order)))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order)) - np.repeat(firsts, counts)
    return ranks


def _compared(
    archive: Archive,
    sets: tuple[EpisodeVectors, EpisodeVectors],
    pairs: Ids,
    nearest: Container[tuple[int, ...]],
    progress: Progress,
) -> Iterator[Twin]:
    """Yield the pairs [n, 2] of places with what remains of each; those that are alike are read one after the other.

    nearest: the pairs that are compared at other rates where lengths differ.
    """
    left, right = sets
    places = [
        (here, there)
        for here, there in sort_by_likeness(left.vectors, np.unique(pairs, axis=0)).tolist()
        if left.episodes[here].digest != right.episodes[there].digest
        and (is_comparable(int(left.lengths[here]), int(right.lengths[there])) or (here, there) in nearest)
    ]
    rows = read_pairs(archive, left.space, [(left.episodes[here], right.episodes[there]) for here, there in places])
    has_numbers = len(left.space.window_shape) == 1  # images are compared by their vectors alone
    for (here, there), (mine, others) in zip(counted(places, "pairs", progress), rows, strict=True):
        one, other = left.episodes[here], right.episodes[there]
        if mine is None or others is None:
            if _have_equal_vectors(sets, here, there):
                yield Twin(one, other, "vector")
            if has_numbers:
                yield Twin(one, other, "vector", math.nan)
        elif (shift := find_shift(mine, others)) is None:
            yield _compare_rates(one, other, mine, others)
        else:
            kind: Kind = "vector" if _have_equal_vectors(sets, here, there) else "near"
            yield Twin(one, other, kind, shift.apart, shift.steps)


def _have_equal_vectors(sets: tuple[EpisodeVectors, EpisodeVectors], here: int, there: int) -> bool:
    """Return whether two episodes are of one length, and have equal vectors: few need be compared in full."""
    left, right = sets
    vector, other = left.vectors[here], right.vectors[there]
    is_alike = left.lengths[here] == right.lengths[there] and vector[0] == other[0]
    return bool(is_alike and np.array_equal(vector, other))


def differs_elsewhere(gaps: LanesWithGaps, space: Space, twin: Twin) -> bool:
    """Return whether the files show that a pair found in a Space differs in lanes that gaps keep out of it."""
    return gaps.differ(space, (twin.left, twin.right), (twin.rate, twin.shift), twin.span)


def _compare_rates(one: EpisodeRow, other: EpisodeRow, rows: Rows, others: Rows) -> Twin:
    """Return the pair with the difference that remains at another rate, infinite if there is no such rate."""
    found = find_rescaled(rows, others)
    if found is None:
        return Twin(one, other, "rate", math.inf)
    kind: Kind = "near" if abs(found.rate - 1) < _SAME_RATE else "rate"
    return Twin(one, other, kind, found.apart, round(found.start), None, found.rate)


def connect(count: int, left: Ids, right: Ids) -> Ids:
    """Return for each of `count` numbers the smallest one of its group, int64 [count]; alone it is its own.

    left, right [p]: the pairs.
    """
    leader = np.arange(count)
    while True:
        low = np.minimum(leader[left], leader[right])
        after = leader.copy()
        np.minimum.at(after, leader[left], low)
        np.minimum.at(after, leader[right], low)
        while (after != after[after]).any():
            after = after[after]
        if (after == leader).all():
            return leader
        leader = after
