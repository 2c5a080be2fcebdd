"""The commands for files, helpers shared by all commands, and `main`, which runs the installed command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wshard.lazy import importer

if TYPE_CHECKING:
    from wshard.cli.command import main

__all__ = ["main"]

__getattr__ = importer("wshard.cli", {"main": "wshard.cli.command"})
