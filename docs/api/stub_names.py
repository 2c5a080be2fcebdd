"""For the API reference: the public names of a package are those that its stub spells (wshard/core/lazy.py)."""

from importlib import import_module
from typing import Any

import griffe


class StubNames(griffe.Extension):
    """Sets the public names of packages with a stub, which griffe would take for private imports."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Set the names of a package and of all in it."""
        modules = [pkg]
        for module in modules:
            modules += [] if module.is_alias else module.modules.values()
            if not module.is_alias and module.is_init_module and module.filepath.with_suffix(".pyi").exists():
                module.exports = import_module(module.path).__all__
                for name, member in [*module.members.items()]:
                    if not member.is_alias and member.is_attribute and str(member.value) in module.members:
                        module.set_member(name, griffe.Alias(name, module.members[str(member.value)].target_path))
