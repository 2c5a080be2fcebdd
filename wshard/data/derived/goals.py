"""Clips with goals: an observation of another timestep, drawn anew in every epoch."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from wshard.data.clips import ClipIndex
from wshard.data.dataset import ClipBatch, Dataset
from wshard.data.derived.base import DerivedDataset
from wshard.data.sampler import EpochIndex
from wshard.data.tensors import worker_seed
from wshard.errors import DatasetError
from wshard.messages import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wshard.data.dataset import Item

_GOALS: Final = {"pixels": "goal_pixels", "proprio": "goal_proprio"}
_RANDOM, _GEOMETRIC, _UNIFORM, _CURRENT = range(4)


class GoalDataset(DerivedDataset):
    """A data set whose items also have goals.

    goal_probabilities: of a random step of any episode, of a future step at a geometric distance (gamma), of one at a
    uniform distance, and of the current step, which is current_goal_offset steps from the clip's start (by default its
    last). goal_keys: {column: name of the goal}, by default pixels and proprio. draws "index": a goal depends only on
    seed, epoch and the clip's number, whatever the workers and order; "sequence": one generator draws them in sequence,
    like the original. The epoch is that of the sampler (ClipSampler), or set_epoch.
    """

    def __init__(  # noqa: PLR0913  (the signature of the original)
        self,
        dataset: Dataset,
        goal_probabilities: tuple[float, float, float, float] = (0.3, 0.5, 0.0, 0.2),
        gamma: float = 0.99,
        current_goal_offset: int | None = None,
        goal_keys: Mapping[str, str] | None = None,
        seed: int | None = None,
        *,
        draws: Literal["index", "sequence"] = "index",
    ) -> None:
        if len(goal_probabilities) != 4:
            raise DatasetError(f"goal_probabilities must be a 4-tuple, found {len(goal_probabilities)} numbers")
        if not np.isclose(sum(goal_probabilities), 1.0):
            raise DatasetError(f"goal_probabilities must sum to 1.0, found {sum(goal_probabilities)}")
        super().__init__(dataset, dataset.lengths, dataset.offsets)
        self.goal_probabilities = tuple(goal_probabilities)
        self.gamma = gamma
        self.current_goal_offset = current_goal_offset or dataset.num_steps
        known = _GOALS if goal_keys is None else goal_keys
        if not isinstance(known, Mapping):
            raise DatasetError(f"goal_keys: expected a dict {{column: name of the goal}}, found {shown(known)}")
        unknown = [key for key in goal_keys or () if key not in dataset.column_names]
        if unknown and dataset.transform is None:  # which may add columns
            columns = ", ".join(dataset.column_names)
            raise DatasetError(f"goal_keys: expected columns of the data set, {columns}; found {shown(unknown[0])}")
        self.goal_keys = {key: name for key, name in known.items() if goal_keys or key in dataset.column_names}
        self.seed = secrets.randbits(63) if seed is None else int(seed)
        self.epoch: int | None = None
        self._sequence = np.random.default_rng(seed) if draws == "sequence" else None
        self._reach = (self.current_goal_offset - 1) * dataset.frameskip
        future = goal_probabilities[_GEOMETRIC] > 0 or goal_probabilities[_UNIFORM] > 0
        if future:  # only clips behind whose current step there is another one
            self.clip_indices = ClipIndex(self.lengths, max(self.span, self._reach + dataset.frameskip + 1))

    @property
    def column_names(self) -> list[str]:
        """The names of the columns of an item, those of the goals at the end."""
        return [*self.dataset.column_names, *self.goal_keys.values()]

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which selects the goals; for loaders whose sampler has no epoch."""
        self.epoch = int(epoch)

    def __getitems__(self, numbers: Sequence[int]) -> Sequence[Item]:
        """Return several clips with their goals."""
        episodes, starts = self.clip_indices.locate(numbers)
        items = self.dataset._clips(episodes, starts, self.num_steps)  # noqa: SLF001  (of the same base)
        if not self.goal_keys:
            return items
        goals = [self._draw(*clip) for clip in zip(map(_epoch_of, numbers), numbers, episodes, starts, strict=True)]
        return self._add_goals(items, *np.array(goals, np.int64).T)

    def goal_of(self, number: int) -> tuple[int, int]:
        """Return episode and timestep of the goal of a clip in the current epoch."""
        episodes, starts = self.clip_indices.locate([number])
        return self._draw(_epoch_of(number), number, episodes[0], starts[0])

    def _draw(self, epoch: int | None, number: int, episode: Any, start: Any) -> tuple[int, int]:
        rng = self._sequence
        if rng is None:
            known = epoch if epoch is not None else self.epoch
            known = worker_seed() or 0 if known is None else known
            rng = np.random.default_rng((self.seed, known, int(number) % len(self)))
        return self._draw_from(rng, int(episode), int(start))

    def _draw_from(self, rng: np.random.Generator, episode: int, start: int) -> tuple[int, int]:
        current = start + self._reach
        kind = int(np.searchsorted(np.cumsum(self.goal_probabilities), rng.random(), side="right"))
        steps = (int(self.lengths[episode]) - 1 - current) // self.frameskip
        if kind == _RANDOM:
            goals = self.locate_rows(np.array([rng.integers(0, int(self.lengths.sum()))]))
            return int(goals[0][0]), int(goals[1][0])
        if kind == _GEOMETRIC:
            return episode, current + min(int(rng.geometric(max(1 - self.gamma, 1e-6))), steps) * self.frameskip
        if kind == _UNIFORM:
            return episode, current + int(rng.integers(1, steps + 1)) * self.frameskip
        return episode, current

    def _add_goals(
        self, items: Sequence[Item], episodes: NDArray[np.int64], steps: NDArray[np.int64]
    ) -> Sequence[Item]:
        if self.transform is None and isinstance(items, ClipBatch):
            for key, name in self.goal_keys.items():
                rows = self.dataset._take(key, episodes, steps[:, None])  # noqa: SLF001  (as above)
                items.columns[name] = self.dataset._present(key, rows)  # noqa: SLF001  (as above)
            return items
        for item, episode, step in zip(items, episodes.tolist(), steps.tolist(), strict=True):
            goal = self.dataset._load(episode, range(step, step + 1))  # noqa: SLF001  (as above)
            item |= {name: goal[key] for key, name in self.goal_keys.items()}
        return items

    def _load(self, episode: int, steps: range) -> Item:
        return self.dataset._load(episode, steps)  # noqa: SLF001  (as above)

    def read_episode(self, episode: int, *, encoded: bool = False) -> Item:
        """Return all columns of an episode, without goals."""
        return self.dataset.read_episode(episode, encoded=encoded)

    def get_row_data(self, row_idx: int | Sequence[int]) -> Item:
        """Return rows of all columns, without goals."""
        return self.dataset.get_row_data(row_idx)

    def _take(self, column: str, episodes: NDArray[np.int64], steps: NDArray[np.int64]) -> Any:
        return self.dataset._take(column, episodes, steps)  # noqa: SLF001  (as above)


def _epoch_of(number: int) -> int | None:
    return number.epoch if isinstance(number, EpochIndex) else None
