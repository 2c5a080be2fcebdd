"""The list of all commands, made from their docstrings without importing them: that would take most of its time."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from typer.core import TyperGroup

from bridge.cli.verbs import GROUPS, VERBS

if TYPE_CHECKING:
    from collections.abc import Iterator

_TEXT: Final = r'\n    """(.+?)(?:"""|\n\n)'


class Overview(TyperGroup):
    """A group of commands, whose help cuts no text; that of `wshard` lists all by panel, imported or not."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a list for each panel."""
        rows = list(describe_commands())
        if ctx.parent is not None:
            rows = [("Commands", name, its.get_short_help_str(1000)) for name, its in self.commands.items()]
        for panel in dict.fromkeys(panel for panel, _, _ in rows):
            with formatter.section(panel):
                formatter.write_dl([(name, text) for its, name, text in rows if its == panel], col_max=20)


def describe_commands() -> Iterator[tuple[str, str, str]]:
    """Yield panel, name and first paragraph of the help of each command."""
    for panel, modules in VERBS.items():
        for module, names in modules.items():
            for name in names.split():
                yield panel, name, _find(module, rf"^def {name.replace('-', '_')}\(.*?\) -> None:{_TEXT}")
        for name, (its, module) in GROUPS.items():
            if its == panel:
                yield panel, name, _find(module, r'^app = typer\.Typer\(\s*help="([^"]+)"')


def _find(module: str, pattern: str) -> str:
    found = re.search(pattern, _source(module), re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()) if found else ""


@cache
def _source(module: str) -> str:
    spec = find_spec(module)
    loader: Any = spec.loader if spec else None
    return (loader.get_source(module) or "") if loader else ""
