"""Exact scores of local vectors, and the best matches over several sources."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.base import Match
from bridge.index.metric import COSINE, score

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from bridge.index.base import Ids, Request, Vectors
    from catalog.vectors.index_copy_records import CopiedVector
    from catalog.vectors.records import LedgerEntry

_MARGIN: Final = 1e-4  # float32 scores this close to the k-th are compared again in float64


@dataclass(frozen=True, eq=False)
class Block:
    """vectors float32 [n, E]; row i is window windows[i] of episode episodes[i]."""

    episodes: NDArray[np.int64]
    windows: NDArray[np.int64]
    vectors: Vectors

    def __len__(self) -> int:
        return len(self.vectors)


def of_entries(entries: Iterable[LedgerEntry], dim: int) -> Block:
    """Return all vectors of these ledger rows."""
    filled = [entry for entry in entries if entry.vectors]
    counts = [entry.count for entry in filled]
    return Block(
        np.repeat(np.array([entry.episode_id for entry in filled], np.int64), counts),
        np.concatenate([np.zeros(0, np.int64), *(np.arange(count) for count in counts)]),
        np.frombuffer(b"".join(entry.vectors or b"" for entry in filled), "<f4").reshape(-1, dim),
    )


def of_copies(copied: Sequence[CopiedVector], dim: int) -> Block:
    """Return these vectors."""
    return Block(
        np.array([copy.episode_id for copy in copied], np.int64),
        np.array([copy.position for copy in copied], np.int64),
        np.frombuffer(b"".join(copy.vector for copy in copied), "<f4").reshape(-1, dim),
    )


def join(blocks: Sequence[Block], dim: int) -> Block:
    """Return all rows of the blocks."""
    return Block(
        np.concatenate([np.zeros(0, np.int64), *(block.episodes for block in blocks)]),
        np.concatenate([np.zeros(0, np.int64), *(block.windows for block in blocks)]),
        np.concatenate([np.zeros((0, dim), np.float32), *(block.vectors for block in blocks)]),
    )


class Best:
    """The best matches among all vectors offered in one search, with float64 scores; duplicates count once."""

    def __init__(self, query: Vectors, request: Request, allowed: Ids | None) -> None:
        self._query = query
        self._query64 = query.astype(np.float64)
        self._request = request
        self._allowed = allowed
        self._scores: dict[tuple[int, int], float] = {}
        self._offered: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []  # episodes, windows
        self.scored = 0

    def offer(self, block: Block) -> None:
        """Add vectors; those of episodes that do not pass the filter are ignored."""
        if self._allowed is not None:
            keep = np.isin(block.episodes, self._allowed)
            block = Block(block.episodes[keep], block.windows[keep], block.vectors[keep])
        self.scored += len(block)
        self._offered.append((block.episodes, block.windows))
        rows = self._contenders(block)
        with np.errstate(all="ignore"):
            cosines = score(COSINE, block.vectors[rows].astype(np.float64), self._query64)
        columns = (block.episodes[rows].tolist(), block.windows[rows].tolist(), cosines.tolist())
        for episode, window, cosine in zip(*columns, strict=True):
            if not isnan(cosine):  # that of an invalid vector, which is never a hit
                self._scores[episode, window] = cosine

    def covers(self, count: int) -> bool:
        """Return whether at least `count` different vectors were offered."""
        pairs = (zip(*(column.tolist() for column in columns), strict=True) for columns in self._offered)
        return len({pair for block_pairs in pairs for pair in block_pairs}) >= count

    def worst(self) -> float:
        """Return the score of the last match if there are as many as requested, else -inf."""
        matches = self.matches()
        return matches[-1].score if len(matches) == self._request.top_k else float("-inf")

    def matches(self) -> tuple[Match, ...]:
        """Return the best, best first; ties by episode, then window."""
        ranked = sorted((-cosine, episode, window) for (episode, window), cosine in self._scores.items())
        if self._request.distinct:
            firsts: dict[int, tuple[float, int, int]] = {}
            for match in ranked:
                firsts.setdefault(match[1], match)
            ranked = [*firsts.values()]
        return tuple(Match(episode, window, -negated) for negated, episode, window in ranked[: self._request.top_k])

    def _contenders(self, block: Block) -> NDArray[np.intp]:
        """Return the rows that can be among the best: of many, those near the k-th in float32 or above."""
        top_k = self._request.top_k
        if len(block) <= 4 * top_k:
            return np.arange(len(block))
        scores = block.vectors @ self._query
        ranked = scores
        if self._request.distinct:
            episodes, places = np.unique(block.episodes, return_inverse=True)
            ranked = np.full(len(episodes), -np.inf, np.float32)
            np.maximum.at(ranked, places, scores)
        if len(ranked) <= top_k:
            return np.arange(len(block))
        threshold = np.partition(ranked, len(ranked) - top_k)[len(ranked) - top_k] - _MARGIN
        return np.flatnonzero(scores >= threshold)
