"""Split the concatenated rows of all episodes at the flags of their last rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.errors import FormatError

if TYPE_CHECKING:
    from wshard.types import Array

HORIZON: Final = 1000
"""Timesteps of an episode of D4RL's MuJoCo tasks, where files lack timeouts."""


@dataclass(frozen=True)
class FlatSpan:
    """The rows [start, stop) of an episode. end: "" for a flag, "horizon", or "unfinished" for rows after the last."""

    start: int
    stop: int
    end: str = ""

    @property
    def length(self) -> int:
        """The number of rows."""
        return self.stop - self.start


def split_at_flags(flags: Array, *, horizon: int | None = None) -> dict[str, FlatSpan]:
    """Return the episodes by number; each ends with a flagged row, or after `horizon` rows."""
    ends = np.flatnonzero(flags) + 1
    end_of_rows = [len(flags)] if len(flags) and (not len(ends) or ends[-1] < len(flags)) else []
    spans: list[FlatSpan] = []
    start = 0
    for number, stop in enumerate([*ends.tolist(), *end_of_rows]):
        end = "unfinished" if number == len(ends) else ""
        while horizon is not None and stop - start > horizon:
            spans.append(FlatSpan(start, start + horizon, "horizon"))
            start += horizon
        is_full = end and horizon is not None and stop - start == horizon
        spans.append(FlatSpan(start, stop, "horizon" if is_full else end))
        start = stop
    return {str(number): span for number, span in enumerate(spans)}


def flatten_flags(values: Array, length: int, where: str) -> Array:
    """Return flags [N] or [N, 1] as bool [N]; raises FormatError for another number of flags."""
    flags: Array = np.asarray(values).reshape(-1) != 0
    if len(flags) != length:
        raise FormatError(f"{where}: expected {length} flags, one for each row of actions, found {len(flags)}")
    return flags
