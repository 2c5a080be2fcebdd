"""An item for every timestep: past observations, the next actions, and n-step returns, padded at the ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from wshard.core.arguments import finite_number, whole_number
from wshard.errors import DatasetError
from wshard.training.data.batch import ClipBatch
from wshard.training.data.clips import positive
from wshard.training.data.dataset import Dataset
from wshard.training.data.derived.base import DerivedDataset
from wshard.training.data.tensors import as_tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wshard.training.data.batch import Item

_ENDS = ("reward", "terminated", "truncated")


class WindowDataset(DerivedDataset):
    """An item for every timestep t of a data set's episodes.

    Observations are the `history` timesteps up to t, actions the `chunk` timesteps from t on. With n_step, `next_KEY`
    is the observation n_step timesteps later, `return` the discounted sum of the rewards until then, and `discount` the
    factor of the value of that observation: 0 after the end of an episode (`terminated`). Timesteps outside the episode
    are padded with the nearest one (padding "edge"), or zeros ("zero"), and KEY_is_pad marks them. The data set's
    frameskip, num_steps and transform have no effect.
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        history: int = 1,
        chunk: int = 1,
        n_step: int = 0,
        discount: float = 0.99,
        padding: Literal["edge", "zero"] = "edge",
    ) -> None:
        if padding not in ("edge", "zero"):
            raise DatasetError(f"padding: expected 'edge' or 'zero', found {padding!r}")
        n_step = whole_number(n_step, "n_step", DatasetError)
        if n_step < 0 or not 0 <= finite_number(discount, "discount", DatasetError) <= 1:
            raise DatasetError(f"expected n_step >= 0 and a discount from 0 to 1, found {n_step} and {discount}")
        super().__init__(dataset, dataset.lengths, dataset.offsets, same_clips=False)
        self.padding = padding
        self.history, self.chunk = positive(history, "history"), positive(chunk, "chunk")
        self.n_step, self.discount = n_step, discount
        if n_step and "reward" not in dataset.column_names:
            raise DatasetError(f"n_step: expected a column 'reward', found {', '.join(dataset.column_names)}")

    def _group_actions(self, column: str, rows: Any, axis: int, count: int) -> Any:  # noqa: ARG002  (no action is skipped)
        return rows

    def _read_clips(self, episodes: NDArray[np.int64], starts: NDArray[np.int64], count: int) -> Sequence[Item]:
        past = starts[:, None] + np.arange(count - self.history, count)
        coming = starts[:, None] + np.arange(self.chunk)
        columns: Item = {}
        for name in self.column_names:
            columns |= self._padded(name, name, episodes, coming if self.is_action(name) else past)
            if self.n_step and not self.is_action(name) and name not in _ENDS:
                columns |= self._padded(name, f"next_{name}", episodes, starts[:, None] + self.n_step)
        if self.n_step:
            columns |= self._returns(episodes, starts)
        return self._transform_all(ClipBatch(columns, len(episodes)))

    def _load_steps(self, episode: int, steps: range) -> Item:
        return Dataset._load_steps(self, episode, steps)  # noqa: SLF001  (of every timestep, untransformed)

    def _padded(self, column: str, name: str, episodes: NDArray[np.int64], steps: NDArray[np.int64]) -> Item:
        inside = np.clip(steps, 0, self.lengths[episodes][:, None] - 1)
        rows, is_pad = self._take(column, episodes, inside), inside != steps
        if self.padding == "zero" and isinstance(rows, np.ndarray):
            rows[is_pad] = 0
        return {name: self._as_shown(column, rows), f"{name}_is_pad": self._as_item(is_pad)}

    def _returns(self, episodes: NDArray[np.int64], starts: NDArray[np.int64]) -> Item:
        steps = starts[:, None] + np.arange(self.n_step)
        lengths = self.lengths[episodes][:, None]
        inside = np.minimum(steps, lengths - 1)
        rewards = self._take("reward", episodes, inside).astype(np.float64)
        ended = np.zeros(steps.shape, np.bool_)
        if "terminated" in self.column_names:
            ended = self._take("terminated", episodes, inside).astype(np.bool_) & (steps < lengths)
        ends_before: NDArray[np.int64] = np.cumsum(ended, axis=1) - ended  # ends at earlier timesteps
        is_counted = (steps < lengths) & (ends_before == 0)
        total = (rewards * is_counted * self.discount ** np.arange(self.n_step)).sum(axis=1)
        factor = self.discount ** is_counted.sum(axis=1) * ~(ended & is_counted).any(axis=1)
        return {"return": self._as_item(total.astype(np.float32)), "discount": self._as_item(factor.astype(np.float32))}

    def _as_item(self, array: NDArray[Any]) -> Any:
        return as_tensor(array) if self.as_tensors else array
