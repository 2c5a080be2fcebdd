"""Words that messages of several modules have in common: one and many, and how something is installed.

Does not know: who says what.
"""

from __future__ import annotations


def counted(count: float, what: str) -> str:
    """Return "1 hit", "2 hits": how many of what there are, a whole number."""
    return f"{count:.0f} {what}" if count == 1 else f"{count:.0f} {what}s"


def how_to_install(extra: str = "") -> str:
    """Return how an extra is installed, "" for the package itself: from a registry, and from its own folder."""
    named = f"[{extra}]" if extra else ""
    return f"pip install 'wshard{named}', or pip install '.{named}' in its folder"
