"""Pieces that two episodes share: a recording that was cut in two, spliced, or saved once with a longer run-up.

Knows: vectors of windows find the candidates, files confirm them and tell the bounds. Does not know: how answers are
shown or kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.curation.duplicates import WITHIN, Twin
from bridge.curation.held import hold, reader, window_spaces
from bridge.curation.neighbours import nearest
from bridge.curation.shifts import shared_piece
from bridge.progress import Silent, counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bridge.archive import Archive
    from bridge.curation.held import Held
    from bridge.curation.line import Ids
    from bridge.curation.neighbours import Neighbours
    from bridge.progress import Progress
    from catalog.filters import Where

_CANDIDATES: Final = 4  # nearest windows of other episodes that are looked at
_FARTHEST: Final = 0.5
_TRIED: Final = 3  # pairs of windows per pair of episodes


def find_pieces(
    archive: Archive,
    where: Where | str = "",
    *,
    within: float = WITHIN,
    space: str | None = None,
    progress: Progress | None = None,
) -> list[Twin]:
    """Return for pairs of episodes that pass the filter the longest piece that both have, if there is any.

    Twin.span says where it is. A piece is at least as long as the smallest windows that were ingested. space: the
    beginning of the fingerprint of the Space whose windows are compared; None = all of windows. Raises QueryError,
    FilterError.
    """
    found: list[Twin] = []
    for chosen in window_spaces(archive, space):
        held = hold(archive, chosen, where)
        near = nearest(held.vectors, _CANDIDATES, owners=(held.owners, held.owners), progress=progress)
        found += _confirmed(archive, (held, held), _candidates(near), within, progress)
    return _longest(found)


def find_shared(
    archive: Archive,
    left: Where | str,
    right: Where | str,
    *,
    within: float = WITHIN,
    space: str | None = None,
    progress: Progress | None = None,
) -> list[Twin]:
    """Return the longest pieces that episodes passing one filter share with other ones passing the other filter.

    Else as find_pieces; an episode in both sets is not compared with itself.
    """
    found: list[Twin] = []
    for chosen in window_spaces(archive, space):
        mine, others = hold(archive, chosen, left), hold(archive, chosen, right)
        ids, other_ids = _ids(mine), _ids(others)
        near = nearest(mine.vectors, _CANDIDATES, among=others.vectors, owners=(ids, other_ids), progress=progress)
        back = nearest(others.vectors, _CANDIDATES, among=mine.vectors, owners=(other_ids, ids), progress=progress)
        turned = [(apart, here, there) for apart, there, here in _candidates(back)]
        found += _confirmed(archive, (mine, others), [*_candidates(near), *turned], within, progress or Silent())
    return _longest(found)


def _ids(held: Held) -> Ids:
    return np.array([row.id for row in held.episodes], np.int64)[held.owners]


def _candidates(found: Neighbours) -> list[tuple[float, int, int]]:
    """Return (distance, window, window near to it)."""
    asking, ranks = np.nonzero(found.distances <= _FARTHEST)
    columns = (found.distances[asking, ranks].tolist(), asking.tolist(), found.rows[asking, ranks].tolist())
    return list(zip(*columns, strict=True))


def _confirmed(
    archive: Archive,
    sets: tuple[Held, Held],
    candidates: Iterable[tuple[float, int, int]],
    within: float,
    progress: Progress | None,
) -> Iterator[Twin]:
    """Yield the pieces of which the files say so; of each pair of episodes only the nearest windows are tried."""
    left, right = sets
    read = reader(archive, left, right)
    pairs: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for _, here, there in sorted(candidates):
        tried = pairs.setdefault((int(left.owners[here]), int(right.owners[there])), [])
        if len(tried) < _TRIED:
            tried.append((here, there))
    spans, others = _spans(left), _spans(right)
    for (here, there), tried in counted(sorted(pairs.items()), "pairs", progress or Silent()):
        one, other = left.episodes[here], right.episodes[there]
        rows, their = read(one.id), read(other.id)
        if rows is None or their is None:
            continue
        for window, near in tried:
            start, stop = spans[window].tolist()
            steps = start - int(others[near][0]) + np.arange(-(stop - start) // 6, (stop - start) // 6 + 1)
            piece = shared_piece(rows, their, start, steps, size=stop - start, within=within)
            if piece is not None:
                yield Twin(one, other, "piece", piece.apart, piece.steps, (piece.start, piece.stop))


def _spans(held: Held) -> Ids:
    """Return the timesteps [start, stop) of every window, int64 [N, 2]."""
    cuts = [held.space.windows.spans(row.length) for row in held.episodes]
    return np.concatenate([np.zeros((0, 2), np.int64), *cuts])


def _longest(pieces: Iterable[Twin]) -> list[Twin]:
    """Return the longest piece of every pair of episodes, whichever of them was called left, by id."""
    found: dict[frozenset[int], Twin] = {}
    for piece in pieces:
        pair = frozenset({piece.left.id, piece.right.id})
        known = found.get(pair)
        if known is None or _length(piece) > _length(known):
            found[pair] = piece
    return sorted(found.values(), key=lambda piece: (piece.left.id, piece.right.id))


def _length(piece: Twin) -> int:
    start, stop = piece.span or (0, 0)
    return stop - start
