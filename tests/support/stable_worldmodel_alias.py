"""A pytest plugin: what is imported from stable_worldmodel.data comes from wshard.data, whatever module it is in."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any

import wshard.data
from wshard.data import registry

if TYPE_CHECKING:
    from types import ModuleType

PEER = "stable_worldmodel"
_FORMAT_NAMES = {"LanceVideo": "lance_video"}


class _Alias(MetaPathFinder, Loader):
    """Comes before the file system, so that the package in the peer's checkout is never imported instead."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname == PEER or f"{fullname}.".startswith(f"{PEER}.data."):
            return ModuleSpec(fullname, self, is_package=True)
        return None

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ != PEER:
            module.__getattr__ = _find  # type: ignore[method-assign]


def _find(name: str) -> Any:
    """Return a public name of wshard.data or its modules, or the class of a format."""
    if not name.startswith("_"):
        for room in (wshard.data, *_modules()):
            if hasattr(room, name):
                return getattr(room, name)
        format_name = _FORMAT_NAMES.get(name, name.lower())
        if format_name in registry.FORMATS:
            return registry.FORMATS[format_name]
    raise AttributeError(name)


def _modules() -> list[ModuleType]:
    found = pkgutil.walk_packages(wshard.data.__path__, "wshard.data.")
    return [importlib.import_module(module.name) for module in found]


sys.meta_path.insert(0, _Alias())
