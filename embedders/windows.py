"""How an episode is cut into windows, as a plain value.

Knows timesteps. Does not know lanes, embedders or data.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from embedders.canonical import canonical, check_count, parse
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class WindowPlan:
    """How an episode is cut into windows of `size` timesteps, one every `stride`; both None: one window, the whole.

    `stride` may not exceed `size`, so that every timestep lies in a window. Raises EmbedderError.
    """

    size: int | None = None
    stride: int | None = None

    def __post_init__(self) -> None:
        if self.size is None and self.stride is None:
            return
        size = check_count(self.size, "window size (given with a stride)")
        stride = check_count(self.stride, "window stride (given with a size)")
        if stride > size:
            raise EmbedderError(f"window stride: expected at most the window size {size}, found {stride}")

    @property
    def whole(self) -> bool:
        """True when the whole episode is the one window."""
        return self.size is None

    def spans(self, length: int) -> NDArray[np.int64]:
        """Return the windows of an episode of `length` timesteps: int64 [n, 2], half-open [start, stop).

        An episode not longer than `size` is one window; a tail that the stride misses gets one last window that ends
        with the episode; an episode without timesteps has no window.
        """
        if length < 0:
            raise EmbedderError(f"length of an episode: expected 0 or more timesteps, found {length}")
        if length == 0:
            return np.empty((0, 2), np.int64)
        if self.size is None or self.stride is None or length <= self.size:
            return np.array([[0, length]], np.int64)
        starts = np.arange(0, length - self.size + 1, self.stride, dtype=np.int64)
        if starts[-1] + self.size < length:
            starts = np.append(starts, length - self.size)
        return np.stack([starts, starts + self.size], axis=1)

    def to_json(self) -> str:
        """Return the canonical JSON text of the plan."""
        return canonical(asdict(self))

    @staticmethod
    def from_json(text: str) -> WindowPlan:
        """Return the plan that `to_json` wrote. Raises EmbedderError for any other text."""
        try:
            return WindowPlan(**parse(text))
        except (TypeError, ValueError, RecursionError) as error:
            raise EmbedderError(f"expected the JSON of a WindowPlan, found {text[:80]!r}: {error}") from error
