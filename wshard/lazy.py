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


def exports(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of the package in this file.

    Its stub has a line for each public name: `from MODULE import NAME as NAME`, `NAME = OTHER` for an imported one, or
    `NAME: TYPE` for one that the package defines.
    """
    with open(f"{file}i", encoding="utf-8") as stub:  # noqa: PTH123 -- pathlib would take longer than all the rest
        lines = [match.groupdict() for match in _LINE.finditer(stub.read())]
    places = {line["there"]: line["module"] for line in lines if line["module"]}
    public = ((line["name"] or line["alias"], line["there"] or line["of"]) for line in lines)
    names = {name: there for name, there in public if name}

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(places[names[name]]), names[name])
        setattr(sys.modules[package], name, value)
        return value

    return find, lambda: sorted(names), sorted(names)
