"""Tables and messages that several verbs print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import typer

from catalog.cli.common import print_table, shorten
from wshard.cli.common import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bridge.curation.duplicates import Twin
    from bridge.curation.signals import Valued
    from catalog.records import EpisodeRow

_PRINTED: Final = 20  # of a kind; --json lists all


def print_files(what: str, found: Sequence[tuple[str, str]]) -> None:
    """Print the first of these files, (path, message), on stderr, and how many more there are."""
    for path, message in found[:_PRINTED]:
        typer.echo(f"{what}: {printable(shorten(path))}: {printable(message)}", err=True)
    if len(found) > _PRINTED:
        typer.echo(f"{what}: {len(found) - _PRINTED} more (--json lists all)", err=True)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines of text that contain names from files and users."""
    for line in lines:
        typer.echo(printable(line))


def print_twins(twins: Iterable[Twin]) -> None:
    """Print pairs of episodes, if there are any."""
    from bridge.present.findings import spans_of

    rows = []
    for twin in twins:
        left, right = spans_of(twin)
        rows.append((twin.kind, f"{twin.apart:.4f}", *_cells(twin.left, left), *_cells(twin.right, right)))
    if rows:
        print_table(("same", ">apart", "episode", "/file", "timesteps", "twin", "/its file", "its timesteps"), rows)


def _cells(row: EpisodeRow, span: tuple[int, int]) -> tuple[str, str, str]:
    return row.episode_id, shorten(str(row.address)), f"{span[0]}:{span[1]}"


def print_ranking(found: Sequence[Valued], heading: str) -> None:
    """Print episodes with their values below `heading`; with labels where those are ranked."""
    labels = any(one.label for one in found)
    rows = []
    for rank, one in enumerate(found, 1):
        row = one.episode
        kind = (one.label, one.suggested) if labels else (row.env_id,)
        rows.append((str(rank), f"{one.value:.4f}", row.episode_id, *kind, str(row.length), shorten(str(row.address))))
    kinds = ("label", "suggested") if labels else ("env",)
    print_table((">rank", f">{heading}", "episode", *kinds, ">length", "/file"), rows)
