"""Recognises Ctrl-C in the errors that libraries make of it."""

from __future__ import annotations


def raise_interrupt(error: Exception) -> None:
    """Raise KeyboardInterrupt if an error came up while a library cleaned up after one, as SQLAlchemy in a commit."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        cause = cause.__context__
