"""Clips by number: which episode a clip is of and where it starts, calculated from the lengths of the episodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wshard.core.arguments import integer
from wshard.core.messages import plural, shown
from wshard.errors import DatasetError, StepError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Integers = "NDArray[np.int64]"


class ClipIndex(Sequence[tuple[int, int]]):
    """The (episode, start) of every clip of `span` rows, in the order of the episodes; no clip spans two episodes.

    Memory grows with the number of episodes, not of clips.
    """

    def __init__(self, lengths: Any, span: int) -> None:
        self.lengths, self.span = np.asarray(lengths, np.int64), span
        self._last_starts = self.lengths - min(span, np.iinfo(np.int64).max)
        self._ends = np.cumsum(np.maximum(self._last_starts + 1, 0))

    @property
    def counts(self) -> NDArray[np.int64]:
        """The number of clips of each episode."""
        return np.diff(self._ends, prepend=0)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[position] for position in range(*number.indices(len(self)))]
        episodes, starts = self.locate([number])
        return int(episodes[0]), int(starts[0])

    def explain_none(self, detail: str = "") -> str:
        """Return why there are no clips; detail: appended to their length in the message."""
        longest = f"the longest of {plural(len(self.lengths), 'episode')} has {self.lengths.max(initial=0)}"
        reason = longest if len(self.lengths) else "there are no episodes"
        return f"no clips of {plural(self.span, 'timestep')}{detail}: {reason}"

    def locate(self, numbers: Sequence[int] | NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return episode and start of each clip; negative numbers count from the end. Raises StepError."""
        requested = np.asarray(numbers)
        if requested.ndim != 1 or (len(requested) and requested.dtype.kind not in "iu"):
            raise StepError(f"expected whole numbers of clips, found {shown(numbers)}")
        clips = np.where(requested < 0, requested + len(self), requested)
        if len(clips) and (int(clips.min()) < 0 or int(clips.max()) >= len(self)):
            invalid = requested[(clips < 0) | (clips >= len(self))][0]
            if not len(self):
                raise StepError(f"clip {invalid}: {self.explain_none()}")
            raise StepError(f"expected a clip below {len(self)}, found {invalid}")
        episodes = np.searchsorted(self._ends, clips, side="right")
        return episodes, clips - self._ends[episodes] + self._last_starts[episodes] + 1


def positive(value: object, name: str) -> int:
    """Return a whole number above 0; raises DatasetError."""
    number = integer(value)
    if number is None or number <= 0:
        raise DatasetError(f"{name} must be positive: expected a whole number > 0, found {shown(value)}")
    return number
