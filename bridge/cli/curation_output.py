"""What the curation verbs share: choosing sets and Spaces, saving scores and collections, printing rankings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from bridge.cli.options import open_named
from bridge.cli.output import print_lines, print_notes
from catalog.cli.common import print_table, report_unknown, shorten
from wshard.cli.common import print_items, printable
from wshard.core.messages import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from bridge.archive import Archive
    from bridge.curation.signals import Valued
    from bridge.curation.twins import Twin, Twins
    from bridge.support.progress import Progress
    from catalog.filters.where import Where
    from catalog.records import EpisodeRow


@dataclass(frozen=True)
class OutputOptions:
    """Names of a score and of a collection to save, the number of rows to print, JSON instead of a table."""

    write: str | None = None
    collection: str | None = None
    limit: int = 20
    as_json: bool = False


def parse_set(archive: Archive, text: str) -> Where:
    """Return the filter for a collection's name, a snapshot's hash, or the text of a filter."""
    from catalog.filters.parse import parse_where
    from catalog.filters.where import Compare
    from wshard.errors import EntryNotFoundError, FilterError

    try:
        archive.catalog.collections.ancestors(text)
    except EntryNotFoundError:
        try:
            return parse_where(text)
        except FilterError as error:
            known = "a collection (`wshard collection ls` lists them)"
            raise FilterError(f"expected {known} or a filter, found {text!r}: {error}") from error
    return Compare("collection", "eq", text)


def save_result(
    archive: Archive,
    options: OutputOptions,
    values: Mapping[int, float],
    *,
    picks: Iterable[int] = (),
    weights: Mapping[int, float] | None = None,
) -> list[str]:
    """Save values by episode as a score, and picks with their weights as a collection, if requested.

    Returns lines that report what was saved.
    """
    from catalog.cli.annotate import account
    from catalog.cli.collection import replaced_lines
    from catalog.curation.selection import Pick

    lines = []
    if options.write is not None:
        scores = {id_: float(value) for id_, value in values.items()}
        count = archive.catalog.annotations.set_scores(options.write, scores)
        lines.append(f"score.{options.write} saved for {plural(count, 'episode')}")
    if options.collection is not None:
        rows = archive.catalog.episodes.rows([*picks]).values()
        chosen = [Pick(row.uid, row.digest, 0, row.length, (weights or {}).get(row.id, 1.0)) for row in rows]
        saved = archive.catalog.collections.save_snapshot(options.collection, chosen, who=account())
        hash_ = saved.snapshot.hash if saved.snapshot else ""
        lines.append(f"collection {saved.name}: {plural(len(chosen), 'pick')}, {hash_}")
        lines += replaced_lines(saved)
    return lines


def report_spaces(archive: Archive, where: str | None, name: str | None, *, least: int = 0) -> int:
    """Print which Spaces compare the episodes, and what they leave out; return how many episodes are compared.

    least: the size from which on groups tell what is rare.
    """
    from bridge.curation.archive_vectors import group_by_space
    from bridge.present.findings import describe_left_out, describe_small
    from bridge.spaces.identity import describe

    report_unknown(archive.catalog, where)
    groups, others = group_by_space(archive, where or "", name)
    if len(groups) > 1:
        typer.echo(f"{len(groups)} groups, each compared by itself:", err=True)
        for space, ids in groups:
            typer.echo(f"  {plural(len(ids), 'episode')} using {printable(describe(space))}", err=True)
    elif others:
        typer.echo(f"using {printable(describe(groups[0][0]))}", err=True)
    total, chosen = archive.catalog.query.count(where or ""), sum(len(ids) for _, ids in groups)
    print_notes(describe_left_out(total, chosen))
    print_notes(describe_small(sum(len(ids) for _, ids in groups if len(ids) < least), least))
    if others:
        typer.echo(f"also available (--space): {printable('; '.join(map(describe, others)))}", err=True)
    return chosen


def report_compared(found: Twins, episodes: str, *, pieces: bool) -> None:
    """Print by which Spaces copies were looked for, which copies were not, and the pair that is nearly one."""
    from bridge.present.findings import describe_gaps
    from bridge.spaces.identity import describe

    print_notes([f"compared by {describe(space)}" for space in found.spaces] or ["compared by equal data alone"])
    print_notes(describe_gaps(found, episodes))
    closest = found.closest
    if closest is not None:
        pair = " and ".join(shorten(str(row.address)) for row in (closest.left, closest.right))
        least = math.ceil(closest.apart * 1e4) / 1e4
        typer.echo(
            f"closest pair beyond the limit: {printable(pair)}, {closest.apart:.4f} apart "
            f"(--within {least:.4f} counts it)",
            err=True,
        )
    if not pieces:
        typer.echo("cut copies, of which only a piece is in another episode, are found by --pieces", err=True)


def values_by_id(values: Sequence[Valued]) -> dict[int, float]:
    """Return the values by the ids of their episodes."""
    return {valued.episode.id: valued.value for valued in values}


def print_result(
    archive: Archive, values: Sequence[Valued], heading: str, options: OutputOptions, lines: Iterable[str]
) -> None:
    """Print episodes with their values below `heading`, then further lines; or JSON."""
    from bridge.present.episodes import present_ranking

    if options.as_json:
        print_items(present_ranking(values))
        return
    shown = values[: options.limit]
    print_ranking(shown, archive.catalog.query.short_names([valued.episode for valued in shown]), heading)
    print_lines([f"{min(options.limit, len(values))} of {len(values)} episodes", *lines])


def print_ranked(
    archive: str | None,
    options: OutputOptions,
    heading: str,
    find: Callable[[Archive, Progress], list[Valued]],
    *,
    beyond: tuple[float, str],
) -> None:
    """Find episodes with values, save these as a score if requested, print them and how many exceed a threshold.

    beyond: the threshold, and its meaning.
    """
    from bridge.support.progress import show_progress

    with open_named(archive) as opened:
        with show_progress() as progress:
            values = find(opened, progress)
        lines = save_result(opened, options, values_by_id(values))
        limit, meaning = beyond
        above = f"{sum(one.value > limit for one in values)} above {limit}{meaning}"
        print_result(opened, values, heading, options, [above, *lines])


def print_twins(twins: Iterable[Twin]) -> None:
    """Print pairs of episodes, if there are any."""
    from bridge.present.findings import spans_of

    rows = []
    for twin in twins:
        left, right = spans_of(twin)
        rows.append((twin.kind, f"{twin.apart:.4f}", *_cells(twin.left, left), *_cells(twin.right, right)))
    if rows:
        print_table(("same", ">apart", "/file", "timesteps", "/twin", "timesteps"), rows)


def _cells(row: EpisodeRow, span: tuple[int, int]) -> tuple[str, str]:
    """Return the address, as ids of duplicates are often equal, and the timesteps."""
    return shorten(str(row.address)), f"{span[0]}:{span[1]}"


def print_ranking(values: Sequence[Valued], names: Sequence[str], heading: str) -> None:
    """Print episodes by their short names, with their values below `heading`; with labels where those are ranked."""
    labels = any(valued.label for valued in values)
    rows = []
    for rank, (valued, name) in enumerate(zip(values, names, strict=True), 1):
        row = valued.episode
        kind = (valued.label, valued.suggested) if labels else (row.env_id,)
        rows.append((str(rank), f"{valued.value:z.4f}", name, *kind, str(row.length), shorten(str(row.address))))
    kinds = ("label", "suggested") if labels else ("env",)
    print_table((">rank", f">{heading}", "episode", *kinds, ">length", "/file"), rows)
