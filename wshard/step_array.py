"""Rewards, terminations and truncations: arrays [T] that also answer as channels do.

Knows: in which forms such a lane may be given to an episode, and how programs ask for its values.
Does not know: files, episodes; which dtypes and lengths are right (types.py).
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from wshard.arguments import array_of

Array = NDArray[Any]


class StepArray(np.ndarray[Any, np.dtype[Any]]):
    """One value per timestep, [T]: an array whose `.data` is the plain array, as that of a Channel is.

    Parts of it are of its kind; what is calculated from it are plain arrays and numbers.
    """

    @staticmethod
    def of(values: Any) -> StepArray:
        """Return the values of an array, a sequence, or anything that holds them in `.data`; arrays are not copied.

        Raises EpisodeError for masked elements.
        """
        held = values if isinstance(values, np.ndarray) else getattr(values, "data", values)
        return array_of(held, "one value per timestep").view(StepArray)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:  # noqa: FBT001, FBT002  (numpy's protocol)
        """Give the results of arithmetic as plain arrays and numbers."""
        if array is self:  # calculated in place
            return self
        plain = np.asarray(array)
        return plain[()] if return_scalar else plain

    @property
    def data(self) -> Array:  # type: ignore[override]  # numpy's own is a memoryview, which has no arithmetic
        """The values as a plain array."""
        return np.asarray(self)

    @property
    def length(self) -> int:
        """T, the number of timesteps."""
        return self.shape[0] if self.ndim else 0


class StepField:
    """A field of an Episode that takes every form StepArray.of does, and None; it gives StepArrays."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_{name}"

    @overload
    def __get__(self, episode: None, owner: type) -> None: ...
    @overload
    def __get__(self, episode: object, owner: type) -> StepArray | None: ...
    def __get__(self, episode: object | None, owner: type) -> StepArray | None:
        found: StepArray | None = None if episode is None else getattr(episode, self._name)
        return found

    def __set__(self, episode: object, values: Any) -> None:
        setattr(episode, self._name, None if values is None else StepArray.of(values))
