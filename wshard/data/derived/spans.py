"""Parts of a data set: chosen episodes, or spans of them, with weights; and splits in which no episode is twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from wshard.data.derived.base import DerivedDataset
from wshard.errors import DatasetError
from wshard.messages import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wshard.data.dataset import Dataset


class SpanDataset(DerivedDataset):
    """Clips within spans (episode, start, stop) of a data set; stop None: to the end of the episode.

    weights: one per span, above 0; every clip has the weight of its span, by which ClipSampler draws.
    """

    def __init__(
        self,
        dataset: Dataset,
        spans: Sequence[tuple[int, int, int | None]],
        weights: Sequence[float] | None = None,
    ) -> None:
        whole = [
            (episode, start, int(dataset.lengths[episode]) if stop is None else stop) for episode, start, stop in spans
        ]
        rows = np.array(whole, np.int64).reshape(-1, 3)
        if (
            len(rows)
            and not ((rows[:, 1] >= 0) & (rows[:, 1] <= rows[:, 2]) & (rows[:, 2] <= dataset.lengths[rows[:, 0]])).all()
        ):
            raise DatasetError(f"spans: expected 0 <= start <= stop <= length of the episode, found {whole[:8]}")
        if weights is not None and len(weights) != len(rows):
            raise DatasetError(f"weights: expected one for each of {len(rows)} spans, found {len(weights)}")
        lengths = rows[:, 2] - rows[:, 1]
        super().__init__(dataset, lengths, np.cumsum(lengths) - lengths)
        self.weights = None if weights is None else np.asarray(weights, np.float64)
        self._episodes, self._begins = rows[:, 0], rows[:, 1]

    @property
    def clip_weights(self) -> NDArray[np.float64] | None:
        """The weight of each clip; None if all are equal."""
        if self.weights is None:
            return None
        return np.repeat(self.weights, np.maximum(self.lengths - self.span + 1, 0))

    def get_episode_data(self) -> dict[str, list[Any]]:
        """Return what is stated once for each episode."""
        return {
            name: [values[one] for one in self._episodes] for name, values in self.dataset.get_episode_data().items()
        }

    def _take(self, column: str, episodes: NDArray[np.int64], steps: NDArray[np.int64]) -> Any:
        rows = steps + self._begins[episodes][:, None]
        return self.dataset._take(column, self._episodes[episodes], rows)  # noqa: SLF001  (of the same base)


def select_episodes(dataset: Dataset, numbers: Sequence[int]) -> SpanDataset:
    """Return the data set restricted to these episodes."""
    return SpanDataset(dataset, [(int(number), 0, None) for number in numbers])


def split_episodes(
    dataset: Dataset, parts: Mapping[str, float], *, seed: int = 0, groups: Sequence[Any] | None = None
) -> dict[str, SpanDataset]:
    """Split a data set by whole episodes into parts with these fractions of the episodes, which sum to 1.

    groups: one value per episode; episodes with equal values stay in the same part, for example copies of each other.
    Raises DatasetError.
    """
    if not isinstance(parts, Mapping):
        raise DatasetError(f"parts: expected names and shares, e.g. {{'train': 0.8, 'val': 0.2}}, found {shown(parts)}")
    total = len(dataset.lengths)
    shares = np.array(list(parts.values()), np.float64)
    if not len(shares) or (shares < 0).any() or not np.isclose(shares.sum(), 1):
        raise DatasetError(f"parts: expected shares >= 0 that are 1 together, found {dict(parts)}")
    if groups is not None and len(groups) != total:
        raise DatasetError(f"groups: expected one for each of {total} episodes, found {len(groups)}")
    members: dict[Any, list[int]] = {}
    for episode in range(total):
        members.setdefault(episode if groups is None else groups[episode], []).append(episode)
    together = [*members.values()]
    ordered = [together[place] for place in np.random.default_rng(seed).permutation(len(together)).tolist()]
    middles = np.cumsum([len(group) for group in ordered]) - np.array([len(group) for group in ordered]) / 2
    owners = np.searchsorted(np.cumsum(shares) * total, middles, side="left").clip(max=len(shares) - 1)
    chosen = {
        name: sorted(
            episode for group, owner in zip(ordered, owners, strict=True) if owner == part for episode in group
        )
        for part, name in enumerate(parts)
    }
    return {name: select_episodes(dataset, numbers) for name, numbers in chosen.items()}
