"""How long a server is believed to hold what it was last seen to hold."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bridge.index.deepdata.http import Wire


class Trust:
    """Trust in one server, by Space: it ends after `audit_s` seconds, and when a connection breaks."""

    def __init__(self, wire: Wire, audit_s: float) -> None:
        self._wire = wire
        self._audit_s = audit_s
        self._seen: dict[str, tuple[float, int]] = {}  # fingerprint: (when, breaks before)

    def needs_audit(self, fingerprint: str) -> bool:
        """Say whether the collection must be compared before it is used."""
        seen = self._seen.get(fingerprint)
        return seen is None or time.monotonic() - seen[0] > self._audit_s or self.is_broken(fingerprint)

    def is_broken(self, fingerprint: str) -> bool:
        """Return True if a connection broke since the collection was compared, so that its state is unknown."""
        seen = self._seen.get(fingerprint)
        return seen is None or seen[1] != self._wire.breaks

    def begin(self) -> int:
        """Return the argument of `give` for a comparison that starts now."""
        return self._wire.breaks

    def give(self, fingerprint: str, begun: int) -> None:
        """Trust the collection from now on, unless a connection broke since `begin`."""
        self._seen[fingerprint] = (time.monotonic(), begun)

    def postpone(self, fingerprint: str) -> None:
        """Leave the comparison to the process that is writing; broken collections stay marked."""
        _, begun = self._seen.get(fingerprint, (0.0, self._wire.breaks))
        self._seen[fingerprint] = (time.monotonic(), begun)

    def withdraw(self) -> None:
        """Trust nothing any more."""
        self._seen.clear()
