"""Plugins by name: a literal table, entry points of other packages, and "package.module:attribute"; imported on use."""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from wshard.core.messages import how_to_install
from wshard.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.errors import WShardError


def find_plugin(name: str, table: Mapping[str, str], group: str) -> str | None:
    """Return the target "module:attribute" of a name; None if neither the table nor an entry point has it.

    A name of the table cannot be taken over.
    """
    return table.get(name) or announced_plugins(group).get(name)


def announced_plugins(group: str) -> dict[str, str]:
    """Return the target "module:attribute" of every entry point of a group, by name."""
    return _announced(group, tuple(sys.path))


@lru_cache
def _announced(group: str, _path: tuple[str, ...]) -> dict[str, str]:
    return {point.name: f"{point.module}:{point.attr}" for point in entry_points(group=group)}


def load_plugin(target: str, what: str, *, unknown: type[WShardError], extra: str = "") -> Any:
    """Import the object named by "package.module:attribute".

    what: its name in messages, such as "format 'npz'"; extra: the extra of this package that installs its dependencies.
    Raises `unknown` for invalid text and for a module without the attribute, MissingExtraError if the module cannot be
    imported: its message says what to install.
    """
    module_name, _, attribute = target.partition(":")
    if not attribute.isidentifier() or not all(part.isidentifier() for part in module_name.split(".")):
        raise unknown(f"{what}: expected 'package.module:attribute', found {target!r}")
    try:
        module = import_module(module_name)
    except ImportError as error:
        raise MissingExtraError(
            f"{what}: expected to import {target!r}: {error}: {_advise(error, module_name, extra)}"
        ) from error
    if not hasattr(module, attribute):
        raise unknown(f"{what}: expected {attribute!r} in module {module_name!r}, found no such name")
    return getattr(module, attribute)


def _advise(error: ImportError, module: str, extra: str) -> str:
    if extra:
        return how_to_install(extra)
    if error.name == module.partition(".")[0]:  # commands do not look into the folder they are called in
        return "install it, or put its folder into PYTHONPATH"
    return "install what is missing"


def import_library(name: str, extra: str) -> Any:
    """Import an optional library; raises MissingExtraError, which says what to install."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(f"expected to import {name}: {error}: {how_to_install(extra)}") from error
