"""stumpy as one more scan of benchmark RB-B, in an environment of its own.

Knows: how it is started and asked, and whether it says what our own profile says. Does not know: what is asked.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

import numpy as np
import rb_b_stumpy
from rb_b_scan import shape_profile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    Rows = NDArray[np.float64]


@dataclass(eq=False)
class Peer:
    """A running stumpy. busy: seconds of processor time that it has used; apart: how far it was from our profile."""

    version: str
    asked: IO[bytes]
    replies: IO[bytes]
    busy: float = 0.0
    apart: float = 0.0

    def profile(self, query: Rows, rows: Rows) -> Rows:
        """Return the z-normalised Euclidean profile of a query [n, D] along rows [T, D], summed over channels."""
        rb_b_stumpy.write(self.asked, query, rows)
        busy, costs = rb_b_stumpy.read(self.replies, 2)
        self.busy = float(busy)
        return costs

    def compare(self, query: Rows, rows: Rows) -> None:
        """Ask it and ourselves, and keep the largest difference."""
        apart = np.abs(self.profile(query, rows) - shape_profile(query, rows)).max()
        self.apart = max(self.apart, float(apart))

    def __str__(self) -> str:
        return f"stumpy {self.version}: at most {self.apart:.0e} from our z-normalised profile"


@contextmanager
def stumpy(python: Path) -> Iterator[Peer | str]:
    """Provide stumpy, on one thread, as that interpreter has it; or say why there is none."""
    one_thread = os.environ | {"NUMBA_NUM_THREADS": "1"}
    try:
        process = subprocess.Popen([python, rb_b_stumpy.__file__], stdin=-1, stdout=-1, env=one_thread)
    except OSError as error:
        yield f"stumpy is skipped: {error}"
        return
    with process:
        version, reason = map(str, rb_b_stumpy.read(process.stdout, 2))
        yield Peer(version, process.stdin, process.stdout) if version else f"stumpy is skipped: {reason}"
