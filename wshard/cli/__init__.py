"""The commands for files, helpers shared by all commands, and `main`, which runs the installed command."""

from wshard.core.lazy import exports

__getattr__, __dir__, __all__ = exports(__name__, __file__)
