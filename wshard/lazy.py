"""Names of a package that are imported on first use.

Most commands need only few of the packages.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def importer(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module's `__getattr__` for names that live elsewhere: {name: "module" or "module:name there"}."""

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, attribute = places[name].partition(":")
        return getattr(import_module(module), attribute or name)

    return find
