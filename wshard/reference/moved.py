"""Import paths that programs and pickled objects have: each leads to the module that is somewhere else here.

`import wshard.data.loader` and `import wshard.training.data.loader` are the same module, never two copies. Type
checkers read the stubs of the same names (`wshard/data.pyi`) instead: each has one.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import ModuleType

MOVED: Final = {
    "wshard.types": "wshard.core.types",
    "wshard.array_fields": "wshard.core.array_fields",  # of pickled episodes, as media
    "wshard.media": "wshard.core.media",
    "wshard.data": "wshard.training.data",
    "wshard.shardpack": "wshard.training.shardpack",
    "wshard.webdataset": "wshard.training.webdataset",
    "wshard.formats.shardpack": "wshard.training.shardpack.episodes",
    "wshard.wshard": "wshard.reference.wshard",
    "wshard.shard": "wshard.reference.shard",
    "wshard.compress": "wshard.reference.compress",
    "wshard.streaming": "wshard.reference.streaming",
    "wshard.chunked": "wshard.reference.chunked",
    "wshard.residual": "wshard.reference.residual",
    "wshard.convert": "wshard.reference.convert",
    "wshard.dreamer": "wshard.reference.dreamer",
    "wshard.huggingface": "wshard.reference.huggingface",
    "wshard.deepdata_bridge": "wshard.reference.deepdata_bridge",
}
"""Names of modules and packages, and where they are; modules of a package are with it."""


class MovedModules:
    """Finds and loads modules by these names."""

    @staticmethod
    def find_spec(fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG004
        """Return how to load a module by a name that has moved, None for others."""
        loader: Any = MovedModules
        return ModuleSpec(fullname, loader) if find_place(fullname) else None

    @staticmethod
    def create_module(_spec: ModuleSpec) -> None:
        """Let Python make an empty module, which exec_module replaces: its own has its name, spec and loader."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Have the name lead to the module that is somewhere else."""
        place = find_place(module.__name__)
        if place is not None:
            sys.modules[module.__name__] = import_module(place)


def find_place(name: str) -> str | None:
    """Return the name under which a module is here, None if it has not moved."""
    if not name.startswith("wshard."):
        return None
    parts = name.split(".")
    for count in (2, 3):
        if place := MOVED.get(".".join(parts[:count])):
            return ".".join([place, *parts[count:]])
    return None


def install_finder() -> None:
    """Find modules by these names from now on, before Python looks into folders, where it would make copies."""
    if MovedModules not in sys.meta_path:
        sys.meta_path.insert(0, MovedModules)
