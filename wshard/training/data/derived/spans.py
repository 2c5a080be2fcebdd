"""Subsets of a data set: selected episodes or spans of them, with weights; and disjoint splits by episode."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from wshard.core.arguments import finite_number, integer, whole_number, whole_numbers
from wshard.core.messages import plural, shown
from wshard.errors import DatasetError, NoClipsWarning
from wshard.training.data.derived.base import DerivedDataset
from wshard.training.data.sampler import check_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wshard.training.data.dataset import Dataset


class SpanDataset(DerivedDataset):
    """Clips within spans (episode, start, stop) of a data set; stop None: to the end of the episode.

    weights: one per span, above 0, by default those of its episodes; every clip has the weight of its span, by which
    ClipSampler draws.
    """

    def __init__(
        self,
        dataset: Dataset,
        spans: Sequence[tuple[int, int, int | None]],
        weights: Sequence[float] | None = None,
    ) -> None:
        rows = np.array([_check_span(dataset, span) for span in spans], np.int64).reshape(-1, 3)
        lengths = rows[:, 2] - rows[:, 1]
        super().__init__(dataset, lengths, np.cumsum(lengths) - lengths)
        self._episodes, self._span_starts = rows[:, 0], rows[:, 1]
        if weights is not None:
            self.weights = check_weights(weights, len(rows))
        elif self.weights is not None:
            self.weights = self.weights[self._episodes]

    def checksum_clips(self) -> int:
        """Return a checksum that changes with the spans."""
        return crc32(np.concatenate([self._episodes, self._span_starts]).tobytes(), super().checksum_clips())

    def _map_to_source(self, episodes: NDArray[np.int64], steps: Any) -> tuple[NDArray[np.int64], Any]:
        span_starts = self._span_starts[episodes]
        return self._episodes[episodes], steps + (span_starts[:, None] if np.ndim(steps) > 1 else span_starts)


def _check_span(dataset: Dataset, span: tuple[int, int, int | None]) -> tuple[int, int, int]:
    """Return (episode, start, stop) of a valid span, with stop None resolved; raises DatasetError."""
    values = list(span) if isinstance(span, Sequence) and len(span) == 3 else [None]
    episode = integer(values[0])
    if episode is None or not 0 <= episode < len(dataset.lengths):
        raise DatasetError(
            f"spans: expected (episode, start, stop) with an episode below {len(dataset.lengths)}, found {shown(span)}"
        )
    length = int(dataset.lengths[episode])
    start, stop = integer(values[1]), length if values[2] is None else integer(values[2])
    if start is None or stop is None or not 0 <= start <= stop <= length:
        raise DatasetError(f"spans: expected 0 <= start <= stop <= {length}, the episode's length, found {shown(span)}")
    return episode, start, stop


def select_episodes(dataset: Dataset, numbers: Sequence[int]) -> SpanDataset:
    """Return the data set restricted to these episodes."""
    return SpanDataset(dataset, [(number, 0, None) for number in whole_numbers(numbers, "episodes", DatasetError)])


def split_episodes(
    dataset: Dataset, parts: Mapping[str, float], *, seed: int = 0, groups: Sequence[Any] | None = None
) -> dict[str, SpanDataset]:
    """Split a data set by whole episodes into parts with these fractions of the episodes, which sum to 1.

    groups: one value per episode; episodes with equal values stay in the same part, for example copies of each other.
    A NoClipsWarning names parts that get no episode. Raises DatasetError.
    """
    if not isinstance(parts, Mapping):
        raise DatasetError(f"parts: expected names and shares, e.g. {{'train': 0.8, 'val': 0.2}}, found {shown(parts)}")
    total = len(dataset.lengths)
    fractions = np.array(
        [finite_number(fraction, f"parts: {name!r}", DatasetError) for name, fraction in parts.items()]
    )
    seed = whole_number(seed, "seed", DatasetError, least=0)
    if not len(fractions) or (fractions < 0).any() or not np.isclose(fractions.sum(), 1):
        raise DatasetError(f"parts: expected shares >= 0 that are 1 together, found {dict(parts)}")
    if groups is not None and len(groups) != total:
        raise DatasetError(f"groups: expected one for each of {total} episodes, found {len(groups)}")
    episodes_by_group: dict[Any, list[int]] = {}
    for episode in range(total):
        episodes_by_group.setdefault(episode if groups is None else groups[episode], []).append(episode)
    groups_of_episodes = [*episodes_by_group.values()]
    ordered = [
        groups_of_episodes[index] for index in np.random.default_rng(seed).permutation(len(groups_of_episodes)).tolist()
    ]
    midpoints = np.cumsum([len(group) for group in ordered]) - np.array([len(group) for group in ordered]) / 2
    owners = np.searchsorted(np.cumsum(fractions) * total, midpoints, side="left").clip(max=len(fractions) - 1)
    episodes_by_part = {
        name: sorted(
            episode for group, owner in zip(ordered, owners, strict=True) if owner == part for episode in group
        )
        for part, name in enumerate(parts)
    }
    empty = [name for name, share in zip(parts, fractions, strict=True) if share > 0 and not episodes_by_part[name]]
    if empty:
        found = f"{plural(total, 'episode')} in {plural(len(ordered), 'group')}"
        warnings.warn(f"parts: no episodes for {', '.join(map(repr, empty))}: found {found}", NoClipsWarning, 2)
    return {name: select_episodes(dataset, numbers) for name, numbers in episodes_by_part.items()}
