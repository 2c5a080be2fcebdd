"""How long the result of an audit of the server is trusted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bridge.index.deepdata.api_versions import Connections


class Trust:
    """Trust in one server, by Space: it ends after `audit_s` seconds, and when a connection breaks."""

    def __init__(self, wire: Connections, audit_s: float) -> None:
        self._wire = wire
        self._audit_s = audit_s
        self._audited: dict[str, tuple[float, int]] = {}  # fingerprint: (when, breaks before)

    def needs_audit(self, fingerprint: str) -> bool:
        """Return whether the collection must be audited before it is used."""
        audited = self._audited.get(fingerprint)
        return audited is None or time.monotonic() - audited[0] > self._audit_s or self.is_broken(fingerprint)

    def is_broken(self, fingerprint: str) -> bool:
        """Return True if a connection broke since the collection was audited, so that its state is unknown."""
        audited = self._audited.get(fingerprint)
        return audited is None or audited[1] != self._wire.breaks

    def begin(self) -> int:
        """Return the argument of `give` for an audit that starts now."""
        return self._wire.breaks

    def give(self, fingerprint: str, breaks: int) -> None:
        """Trust the collection from now on, unless a connection broke since `begin`."""
        self._audited[fingerprint] = (time.monotonic(), breaks)

    def postpone(self, fingerprint: str) -> None:
        """Leave the audit to the process that is writing; broken collections stay marked."""
        _, breaks = self._audited.get(fingerprint, (0.0, self._wire.breaks))
        self._audited[fingerprint] = (time.monotonic(), breaks)

    def withdraw(self) -> None:
        """Make audits of all collections due."""
        self._audited.clear()
