"""How much the camera frames of an episode are like what is asked: where more are worth a look, and what is found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bridge.results import EpisodeRef, SeenFrame, make_ref
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from catalog.records import EpisodeRow


@dataclass(frozen=True, eq=False)
class FrameExamples:
    """Rows [N, D] of pictures or words that frames should be like, and of those that they should not."""

    like: NDArray[np.float32]
    unlike: NDArray[np.float32]

    def score(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return the score of each frame: of the example that is nearest; none where a counter-example is nearer."""
        if rows.shape[1] != self.like.shape[1]:
            wanted = f"expected {rows.shape[1]} features, as of frames"
            raise EmbedderError(f"frame encoder: {wanted}, found {self.like.shape[1]}")
        scores: NDArray[np.float64] = (rows @ self.like.T).max(axis=1).clip(-1.0, 1.0).astype(np.float64)
        if len(self.unlike):
            scores[(rows @ self.unlike.T).max(axis=1) > scores] = -np.inf
        return scores


@dataclass(frozen=True, eq=False)
class FrameScores:
    """The scores [N] of the frames at `steps` [N], ascending, of one camera of an episode.

    rate: in Hz, None if it is not known.
    """

    episode: EpisodeRow
    camera: str
    rate: float | None
    steps: NDArray[np.int64]
    values: NDArray[np.float64]

    @property
    def is_complete(self) -> bool:
        """Whether every frame of the camera was compared."""
        return len(self.steps) == self.episode.length

    @property
    def gaps(self) -> NDArray[np.float64]:
        """Runs of frames that were not compared [M, 3]: the score of the better frame beside it, first, stop."""
        stops = np.append(self.steps[1:], self.episode.length)[: len(self.steps)]
        likely = np.maximum(self.values, np.append(self.values[1:], -np.inf))
        found: NDArray[np.float64] = np.column_stack([likely, self.steps + 1, stops])
        return np.compress((stops > self.steps + 1) & np.isfinite(likely), found, axis=0)

    def add(self, steps: NDArray[np.int64], values: NDArray[np.float64]) -> FrameScores:
        """Return the scores with those of further frames."""
        joined = np.concatenate([self.steps, steps])
        order = np.argsort(joined)
        return replace(self, steps=joined[order], values=np.concatenate([self.values, values])[order])

    def best(self) -> Iterator[EpisodeRef]:
        """Yield the episode with its best frame; nothing if counter-examples are nearer to all."""
        best = int(self.values.argmax())
        if np.isfinite(self.values[best]):
            yield self._hit(best, (0, self.episode.length))

    def spans(self) -> Iterator[EpisodeRef]:
        """Yield the spans in which the score is nearer to that of their best frame than to the episode's median."""
        ends = np.append(self.steps[1:], self.episode.length)
        usual = self._median(ends - self.steps)
        free = np.isfinite(self.values)
        while free.any():
            best = int(np.where(free, self.values, -np.inf).argmax())
            if self.values[best] < usual:
                return
            near = free & (self.values >= (self.values[best] + usual) / 2)
            first = last = best
            while first > 0 and near[first - 1]:
                first -= 1
            while last + 1 < len(near) and near[last + 1]:
                last += 1
            free[first : last + 1] = False
            yield self._hit(best, (int(self.steps[first]), int(ends[last])))

    def _median(self, weights: NDArray[np.int64]) -> float:
        """Return the score that half of the time is below; -1 if counter-examples are nearer then."""
        order = np.argsort(self.values)
        passed = np.cumsum(weights[order])
        usual = float(self.values[order[np.searchsorted(passed, passed[-1] / 2)]])
        return usual if np.isfinite(usual) else -1.0

    def _hit(self, best: int, span: tuple[int, int]) -> EpisodeRef:
        step = int(self.steps[best])
        frame = SeenFrame(self.camera, step, None if self.rate is None else step / self.rate)
        ref = make_ref(self.episode, float(self.values[best]), span)
        return replace(ref, compared_by=(self.camera,), seen=frame)


def likely_gaps(some: Sequence[FrameScores], most: int) -> dict[int, NDArray[np.int64]]:
    """Return the timesteps to compare next, ascending, by the place of their camera: those in the likeliest gaps."""
    gaps = [one.gaps for one in some]
    if not gaps:
        return {}
    owners = np.repeat(np.arange(len(some)), [len(one) for one in gaps])
    joined = np.concatenate(gaps)
    found: dict[int, list[NDArray[np.int64]]] = {}
    for place in np.argsort(-joined[:, 0], kind="stable")[:most]:
        first, stop = joined[place, 1:].astype(np.int64)
        found.setdefault(int(owners[place]), []).append(np.arange(first, stop))
    return {owner: np.sort(np.concatenate(steps)) for owner, steps in found.items()}


def without_overlaps(hits: list[EpisodeRef], most: float, count: int | None) -> list[EpisodeRef]:
    """Return the best hits of one episode, of all its cameras, that overlap by at most this share."""
    taken: list[EpisodeRef] = []
    for hit in sorted(hits, key=lambda ref: -ref.score):
        if len(taken) == count:
            break
        if all(_overlap(hit.span, other.span) <= most for other in taken):
            taken.append(hit)
    return taken


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> float:
    shared = min(one[1], other[1]) - max(one[0], other[0])
    return max(shared, 0) / (max(one[1], other[1]) - min(one[0], other[0]))
