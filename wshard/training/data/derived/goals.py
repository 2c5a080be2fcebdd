"""Clips with goals: observations of another timestep, drawn anew in every epoch."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from wshard.core.arguments import finite_number, whole_number
from wshard.core.messages import shown
from wshard.errors import DatasetError
from wshard.training.data.batch import ClipBatch
from wshard.training.data.clips import ClipIndex, positive
from wshard.training.data.derived.base import DerivedDataset, list_columns
from wshard.training.data.sampler import EpochIndex
from wshard.training.data.tensors import worker_seeds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wshard.training.data.batch import Item
    from wshard.training.data.dataset import Dataset

_GOALS: Final = {"pixels": "goal_pixels", "proprio": "goal_proprio"}
_RANDOM, _GEOMETRIC, _UNIFORM, _CURRENT = range(4)


class GoalDataset(DerivedDataset):
    """A data set whose items also have goals.

    goal_probabilities: of a random step of any episode, of a future step at a geometric distance (gamma), of one at a
    uniform distance, and of the current step, which is current_goal_offset steps from the clip's start (by default its
    last). goal_keys: {column: name of the goal}, by default pixels and proprio. draws "index": a goal depends only on
    seed, epoch and the clip's number, whatever the workers and order; "sequence": one generator draws them in sequence,
    like the original. The epoch is that of the sampler (ClipSampler), or set_epoch; without either, how often this
    data set has drawn a goal for the clip before.
    """

    has_goals = True

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
        probabilities = [
            finite_number(probability, "goal_probabilities", DatasetError) for probability in goal_probabilities
        ]
        if len(probabilities) != 4:
            raise DatasetError(f"goal_probabilities must be a 4-tuple, found {len(probabilities)} numbers")
        if min(probabilities) < 0 or not np.isclose(sum(probabilities), 1.0):
            total = sum(probabilities)
            raise DatasetError(
                f"goal_probabilities must be >= 0 and sum to 1.0, found {probabilities} with sum {total}"
            )
        if draws not in ("index", "sequence"):
            raise DatasetError(f"draws: expected 'index' or 'sequence', found {shown(draws)}")
        super().__init__(dataset, dataset.lengths, dataset.offsets)
        self.goal_probabilities = tuple(probabilities)
        self.gamma = finite_number(gamma, "gamma", DatasetError)
        if not 0 <= self.gamma <= 1:
            raise DatasetError(f"gamma: expected 0 to 1, found {gamma}")
        self.current_goal_offset = positive(current_goal_offset or dataset.num_steps, "current_goal_offset")
        self.goal_keys = _check_keys(dataset, goal_keys)
        self.seed = secrets.randbits(63) if seed is None else whole_number(seed, "seed", DatasetError, least=0)
        self.epoch: int | None = None
        self._draws: NDArray[np.uint32] | None = None
        self._sequence = np.random.default_rng(seed) if draws == "sequence" else None
        self._current_offset = (self.current_goal_offset - 1) * dataset.frameskip
        has_future_goals = probabilities[_GEOMETRIC] > 0 or probabilities[_UNIFORM] > 0
        # A clip needs a step after its current one if its goal may be in the future.
        steps_ahead = dataset.frameskip if has_future_goals else 0
        if has_future_goals or probabilities[_CURRENT] > 0:
            self.clip_indices = ClipIndex(self.lengths, max(self.span, self._current_offset + steps_ahead + 1))

    @property
    def episode_lengths(self) -> NDArray[np.int64]:
        """The number of timesteps of each episode."""
        return self.lengths

    @property
    def episode_offsets(self) -> NDArray[np.int64]:
        """The number of timesteps before each episode."""
        return self.offsets

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which selects the goals of loaders whose sampler has no epoch, and makes them reproducible."""
        self.epoch = whole_number(epoch, "epoch", DatasetError, least=0)

    def __getitems__(self, numbers: Sequence[int]) -> Sequence[Item]:
        """Return several clips with their goals."""
        episodes, starts = self.clip_indices.locate(numbers)
        items = self._make_clips(episodes, starts, self.num_steps)
        if not self.goal_keys:
            return items
        epochs = [self._count(number) for number in numbers]
        goals = [self._draw(*clip) for clip in zip(epochs, numbers, episodes, starts, strict=True)]
        return self._add_goals(items, *np.array(goals, np.int64).T)

    def goal_of(self, number: int) -> tuple[int, int]:
        """Return episode and timestep of the goal of a clip in the current epoch, or the one that was drawn last."""
        episodes, starts = self.clip_indices.locate([number])
        return self._draw(self._epoch_of(number), number, episodes[0], starts[0])

    def _epoch_of(self, number: int) -> tuple[int, ...]:
        """Return what distinguishes this goal of a clip from its other ones."""
        epoch = number.epoch if isinstance(number, EpochIndex) else self.epoch
        if epoch is not None:
            return (epoch,)
        draws = 0 if self._draws is None else max(int(self._draws[number]) - 1, 0)
        return (*worker_seeds(), draws)

    def _count(self, number: int) -> tuple[int, ...]:
        if self._sequence is None and self.epoch is None and not isinstance(number, EpochIndex):
            if self._draws is None:
                self._draws = np.zeros(len(self), np.uint32)
            self._draws[number] += 1
        return self._epoch_of(number)

    def _draw(self, epoch: tuple[int, ...], number: int, episode: Any, start: Any) -> tuple[int, int]:
        rng = self._sequence
        if rng is None:
            rng = np.random.default_rng((self.seed, *epoch, int(number) % len(self)))
        return self._draw_from(rng, int(episode), int(start))

    def _draw_from(self, rng: np.random.Generator, episode: int, start: int) -> tuple[int, int]:
        current = start + self._current_offset
        outcome = int(np.searchsorted(np.cumsum(self.goal_probabilities), rng.random(), side="right"))
        steps = (int(self.lengths[episode]) - 1 - current) // self.frameskip
        if outcome == _RANDOM:
            goals = self.locate_rows(np.array([rng.integers(0, int(self.lengths.sum()))]))
            return int(goals[0][0]), int(goals[1][0])
        if outcome == _GEOMETRIC:
            return episode, current + min(int(rng.geometric(max(1 - self.gamma, 1e-6))), steps) * self.frameskip
        if outcome == _UNIFORM:
            return episode, current + int(rng.integers(1, steps + 1)) * self.frameskip
        return episode, current

    def _add_goals(
        self, items: Sequence[Item], episodes: NDArray[np.int64], steps: NDArray[np.int64]
    ) -> Sequence[Item]:
        if isinstance(items, ClipBatch):
            for key, name in self.goal_keys.items():
                items.columns[name] = self._as_shown(key, self._take(key, episodes, steps[:, None]))
            return items
        for item, episode, step in zip(items, episodes.tolist(), steps.tolist(), strict=True):
            goal = self._load_steps(episode, range(step, step + 1))
            item |= {name: goal[key] for key, name in self.goal_keys.items()}
        return items

    def read_episode(self, episode: int, *, encoded: bool = False) -> Item:
        """Return all columns of an episode, without goals."""
        return self.dataset.read_episode(episode, encoded=encoded)

    def get_row_data(self, row_idx: int | Sequence[int]) -> Item:
        """Return rows of all columns, without goals."""
        return self.dataset.get_row_data(row_idx)


def _check_keys(dataset: Dataset, goal_keys: Any) -> dict[str, str]:
    """Return {column: name of the goal}, by default of the existing default columns; raises DatasetError."""
    if goal_keys is None:
        return {key: name for key, name in _GOALS.items() if key in dataset.column_names}
    if not isinstance(goal_keys, Mapping):
        raise DatasetError(f"goal_keys: expected a dict {{column: name of the goal}}, found {shown(goal_keys)}")
    available = list_columns(dataset, goal_keys)
    for number, (key, name) in enumerate(goal_keys.items()):
        if key not in available:
            raise DatasetError(
                f"goal_keys: expected columns of the data set, {', '.join(available)}; found {shown(key)}"
            )
        if not isinstance(name, str) or name in available or name in [*goal_keys.values()][:number]:
            raise DatasetError(f"goal_keys: expected a new name for the goal of {key!r}, found {shown(name)}")
    return dict(goal_keys)
