"""What a benchmark of retrieval leaves behind, under one name: results as JSON, tables as Markdown, a picture.

Does not know: what was measured, how a picture is drawn.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).parents[1]))

from machine import facts

__all__ = ["add_option", "facts", "leave"]

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Mapping, Sequence


def add_option(parser: ArgumentParser) -> None:
    """Add --out, which says where all of it goes."""
    parser.add_argument("--out", type=Path, metavar="NAME", help="write NAME.json, NAME.md and NAME.png")


def leave(
    options: Namespace,
    results: Sequence[Any],
    tables: str,
    draw: Callable[[Path], None],
    *,
    also: Mapping[str, Any] | None = None,
) -> None:
    """Print the tables; where --out says so, write them, the results (dataclasses) and what else there is, and draw."""
    print(f"\n{tables}")
    if options.out is None:
        return
    options.out.parent.mkdir(parents=True, exist_ok=True)
    given = {name: str(value) for name, value in vars(options).items()}
    listed = ", ".join(f"{name} {value}" for name, value in given.items() if name not in {"cache", "out", "workers"})
    Path(f"{options.out}.md").write_text(f"{tables}\n\nOptions: {listed}.\n", encoding="utf-8")
    about = {"options": given, "results": [asdict(one) for one in results]} | dict(also or {})
    Path(f"{options.out}.json").write_text(json.dumps(about, indent=1), encoding="utf-8")
    draw(Path(f"{options.out}.png"))
    print(f"\nwritten: {options.out}.md, .json and .png")
