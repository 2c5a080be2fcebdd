"""Findings about a data set, as tables for people and as JSON for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from catalog.cli.common import print_table, shorten
from wshard.cli.common import print_items, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bridge.curation.duplicates import Twin
    from bridge.curation.signals import Valued
    from catalog.records import EpisodeRow


def by_group(twins: Iterable[Twin], groups: Mapping[int, int]) -> dict[int, list[Twin]]:
    """Return the twins of each group of episodes, the group with the smallest id first."""
    found: dict[int, list[Twin]] = {}
    for twin in sorted(twins, key=lambda twin: groups[twin.left.id]):
        found.setdefault(groups[twin.left.id], []).append(twin)
    return found


def print_twins(twins: Iterable[Twin]) -> None:
    """Print pairs of episodes, if there are any."""
    rows = [
        (
            *(twin.kind, f"{twin.apart:.4f}"),
            *(_told(twin.left, _spans(twin)[0])),
            *(_told(twin.right, _spans(twin)[1])),
        )
        for twin in twins
    ]
    if rows:
        print_table(("same", ">apart", "episode", "/file", "timesteps", "twin", "/its file", "its timesteps"), rows)


def print_valued(found: Sequence[Valued], heading: str) -> None:
    """Print episodes with their values below `heading`, and labels where those are doubted."""
    labels = any(one.label for one in found)
    rows = []
    for rank, one in enumerate(found, 1):
        row = one.episode
        kind = (one.label, one.suggested) if labels else (row.env_id,)
        rows.append((str(rank), f"{one.value:.4f}", row.episode_id, *kind, str(row.length), shorten(str(row.address))))
    kinds = ("label", "neighbours say") if labels else ("env",)
    print_table((">rank", f">{heading}", "episode", *kinds, ">length", "/file"), rows)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines of text whose names come from files and users."""
    for line in lines:
        typer.echo(printable(line))


def print_valued_json(found: Iterable[Valued]) -> None:
    """Print all values as JSON, in their order."""
    print_items(
        {
            "rank": rank,
            "value": one.value,
            **_episode(one.episode),
            **({"label": one.label, "suggested": one.suggested} if one.suggested else {}),
        }
        for rank, one in enumerate(found, 1)
    )


def as_group(group: int, twins: Sequence[Twin]) -> dict[str, Any]:
    """Return a group as JSON: its number, its episodes, and the pairs that make it one."""
    rows = {row.id: row for twin in twins for row in (twin.left, twin.right)}
    members = [_episode(rows[id_]) for id_ in sorted(rows)]
    return {"group": group, "episodes": members, "pairs": [as_pair(twin) for twin in twins]}


def as_pair(twin: Twin) -> dict[str, Any]:
    """Return a pair as JSON."""
    pair = {"left": _episode(twin.left), "right": _episode(twin.right)}
    spans = dict(zip(("left_span", "right_span"), map(list, _spans(twin)), strict=True))
    return {"kind": twin.kind, "apart": twin.apart, **pair, **spans}


def _spans(twin: Twin) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the timesteps [start, stop) of either that are the same."""
    start, stop = max(0, twin.shift), min(twin.left.length, twin.right.length + twin.shift)
    start, stop = twin.span or (start, stop)
    return (start, stop), (start - twin.shift, stop - twin.shift)


def _told(row: EpisodeRow, span: tuple[int, int]) -> tuple[str, str, str]:
    return row.episode_id, shorten(str(row.address)), f"{span[0]}:{span[1]}"


def _episode(row: EpisodeRow) -> dict[str, Any]:
    names = ("uid", "episode_id", "env_id", "length")
    return {**{name: getattr(row, name) for name in names}, "file_path": row.path, "key": row.key} | {
        "address": str(row.address)
    }
