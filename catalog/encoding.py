"""What a record holds in the form in which tables keep it, made once, where the record is made.

Knows: the text of a layout, the numbers of a lane's statistics, the words that full text looks through. Does not know:
tables, or any database. Metadata as text is the business of values.py.
"""

from __future__ import annotations

import json
import struct
from functools import lru_cache
from itertools import chain
from operator import mul
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

Shape: TypeAlias = tuple[str, str, tuple[int, ...]]
"""Name of a lane, its dtype, the shape of one timestep."""
_Numbers: TypeAlias = tuple[float, float, float, float]


@lru_cache(maxsize=1024)
def encode_lanes(shapes: tuple[Shape, ...]) -> str:
    """Return the one text of a set of lanes, whatever their order."""
    ordered = sorted(([name, dtype, list(shape)] for name, dtype, shape in shapes), key=lambda lane: str(lane[0]))
    return json.dumps(ordered, separators=(",", ":"))


def pack_spread(channels: Sequence[_Numbers] | None) -> bytes | None:
    """Return (min, max, mean, std) of the whole lane, then those of each channel, as little-endian float64."""
    if not channels:
        return None
    lows, highs, means, stds = zip(*channels, strict=True)
    mean = sum(means) / len(means)
    apart = [each - mean for each in means]
    variance = (sum(map(mul, stds, stds)) + sum(map(mul, apart, apart))) / len(means)
    numbers = (min(lows), max(highs), mean, variance**0.5, *chain.from_iterable(channels))
    return struct.pack(f"<{len(numbers)}d", *numbers)
