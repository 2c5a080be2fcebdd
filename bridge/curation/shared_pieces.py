"""Find pieces that two episodes share: recordings that were split, spliced, or saved once with a longer lead-in."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.curation.archive_vectors import find_window_spaces
from bridge.curation.duplicates import WITHIN, check_within, differs_elsewhere
from bridge.curation.lanes_with_gaps import LanesWithGaps
from bridge.curation.neighbours import find_candidates
from bridge.curation.pair_rows import read_pairs
from bridge.curation.time_shift import find_shared_piece
from bridge.curation.twins import Twin, Twins, drop_repeats
from bridge.support.progress import Silent, counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bridge.archive import Archive
    from bridge.curation.archive_vectors import EpisodeVectors
    from bridge.curation.arrays import Ids
    from bridge.support.progress import Progress
    from catalog.filters.where import Where

_CANDIDATES: Final = 4  # nearest windows of other episodes to compare
_FARTHEST: Final = 0.5
_MAX_TRIED: Final = 3  # pairs of windows per pair of episodes


def find_pieces(
    archive: Archive,
    where: Where | str = "",
    *,
    within: float = WITHIN,
    space: str | None = None,
    progress: Progress | None = None,
) -> Twins:
    """Return the longest shared piece of each pair of episodes that match the filter, if there is one.

    Twin.span has its position; pairs with similar windows that could not be read are in Twins.unread_pairs. A piece is
    at least as long as the smallest windows that were ingested. space: fingerprint prefix of the Space whose windows
    are compared; None = all Spaces of windows. Raises QueryError, FilterError.
    """
    return _longest(_shared(archive, (where,), within, space, progress))


def find_shared(
    archive: Archive,
    left: Where | str,
    right: Where | str,
    *,
    within: float = WITHIN,
    space: str | None = None,
    progress: Progress | None = None,
) -> Twins:
    """Return the longest pieces that episodes of one filter share with episodes of another.

    Otherwise like find_pieces; an episode in both sets is not compared with itself.
    """
    return _longest(_shared(archive, (left, right), within, space, progress))


def _shared(
    archive: Archive, sets: Sequence[Where | str], within: float, space: str | None, progress: Progress | None
) -> Iterator[Twin]:
    """Yield the pieces that vectors and files show, within one set of episodes or between two; NaN apart: unread."""
    check_within(within)
    spaces, gaps = find_window_spaces(archive, space), LanesWithGaps(archive.catalog)
    near = find_candidates(archive, spaces, sets, nearest=_CANDIDATES, farthest=_FARTHEST, progress=progress)
    for vectors, distances, pairs in near:
        candidates = zip(distances.tolist(), *pairs.T.tolist(), strict=True)
        found = _confirmed(archive, vectors, candidates, within, progress or Silent())
        for piece in found:
            if math.isnan(piece.apart) or not differs_elsewhere(gaps, vectors[0].space, piece):
                yield piece


def _confirmed(
    archive: Archive,
    sets: tuple[EpisodeVectors, EpisodeVectors],
    candidates: Iterable[tuple[float, int, int]],
    within: float,
    progress: Progress,
) -> Iterator[Twin]:
    """Yield the pieces confirmed by the files; of each pair of episodes only the nearest windows are tried.

    A pair of which a file cannot be read is yielded with NaN.
    """
    left, right = sets
    pairs: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for _, left_place, right_place in sorted(candidates):
        tried = pairs.setdefault((int(left.owners[left_place]), int(right.owners[right_place])), [])
        if len(tried) < _MAX_TRIED:
            tried.append((left_place, right_place))
    left_spans, right_spans = _spans(left), _spans(right)
    ordered = sorted(pairs.items())
    episodes = [(left.episodes[here], right.episodes[there]) for (here, there), _ in ordered]
    read = read_pairs(archive, left.space, episodes)
    counts = counted(ordered, "pairs", progress)
    for (_, tried), (left_row, right_row), (rows, right_rows) in zip(counts, episodes, read, strict=True):
        if rows is None or right_rows is None:
            yield Twin(left_row, right_row, "piece", math.nan)
            continue
        for window, near in tried:
            start, stop = left_spans[window].tolist()
            steps = start - int(right_spans[near][0]) + np.arange(-(stop - start) // 6, (stop - start) // 6 + 1)
            piece = find_shared_piece(rows, right_rows, start, steps, size=stop - start, within=within)
            if piece is not None:
                yield Twin(left_row, right_row, "piece", piece.apart, piece.steps, (piece.start, piece.stop))


def _spans(vectors: EpisodeVectors) -> Ids:
    """Return the timesteps [start, stop) of every window, int64 [N, 2]."""
    cuts = [vectors.space.windows.spans(row.length) for row in vectors.episodes]
    return np.concatenate([np.zeros((0, 2), np.int64), *cuts])


def _longest(pieces: Iterable[Twin]) -> Twins:
    """Return the longest piece of every pair of episodes, in either order, sorted by id."""
    known, unread = list[Twin](), list[Twin]()
    for piece in pieces:
        (unread if math.isnan(piece.apart) else known).append(piece)
    longest = Twins(drop_repeats(sorted(known, key=_length, reverse=True)))
    longest.unread_pairs = drop_repeats(unread)
    return longest


def _length(piece: Twin) -> int:
    start, stop = piece.span or (0, 0)
    return stop - start
