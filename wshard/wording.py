"""Words of messages that depend on numbers.

Knows: one and many. Does not know: who says what.
"""

from __future__ import annotations


def counted(count: float, what: str) -> str:
    """Return "1 hit", "2 hits": how many of what there are, a whole number."""
    return f"{count:.0f} {what}" if count == 1 else f"{count:.0f} {what}s"
