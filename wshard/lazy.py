"""Names of a package that are imported when first used.

The command line starts from packages of which most verbs need little.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def importer(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module's `__getattr__` for names that live in other modules: {name: module}."""

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(places[name]), name)

    return find
