"""The public names of a package, each imported on first use: most commands need few of the packages.

They are spelt once, in the package's stub `__init__.pyi`, which type checkers read, too.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_LINE: Final = re.compile(
    r"^(?:from (?P<module>\S+) import (?P<there>\w+)(?: as (?P<name>\w+))?|(?P<alias>\w+)(?:: .+| = (?P<of>\w+)))$",
    re.MULTILINE,
)


_UNLISTED: Final = "\n# Not in __all__"


def exports(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of the package in this file.

    Its stub has a line for each public name: `from MODULE import NAME as NAME`, `NAME = OTHER` for an imported one, or
    `NAME: TYPE` for one that the package defines. Names after the comment "Not in __all__" are not listed.
    """
    with open(f"{file}i", encoding="utf-8") as stub:  # noqa: PTH123 -- pathlib would take longer than all the rest
        text = stub.read()
    places, names, listed = dict[str, str](), dict[str, str](), list[str]()
    end = text.find(_UNLISTED) if _UNLISTED in text else len(text)
    for line in _LINE.finditer(text):
        if line["module"]:
            places[line["there"]] = line["module"]
        if name := line["name"] or line["alias"]:
            names[name] = line["there"] or line["of"]
            listed += [name] if line.start() < end else []

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(places[names[name]]), names[name])
        setattr(sys.modules[package], name, value)
        return value

    return find, lambda: sorted(listed), sorted(listed)
