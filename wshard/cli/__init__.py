"""The verbs about files, what all verbs share, and `main`, which runs the installed command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wshard.lazy import importer

if TYPE_CHECKING:
    from wshard.cli.command import main

__all__ = ["main"]

__getattr__ = importer("wshard.cli", {"main": "wshard.cli.command"})
