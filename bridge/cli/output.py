"""What verbs say of files, on stderr: the first of a kind, and how many more there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bridge.cli.findings import print_lines, print_valued, print_valued_json
from catalog.cli.common import shorten
from wshard.cli.common import printable
from wshard.messages import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from bridge.archive import Archive
    from bridge.curation.signals import Valued
    from bridge.support.progress import Progress
    from catalog.filters.where import Where


_TOLD: Final = 20  # of a kind; --json lists all


def tell_files(what: str, found: Sequence[tuple[str, str]]) -> None:
    """Tell of the first of these files, (path, words), what became of them."""
    for path, told in found[:_TOLD]:
        typer.echo(f"{what}: {printable(shorten(path))}: {printable(told)}", err=True)
    if len(found) > _TOLD:
        typer.echo(f"{what}: {len(found) - _TOLD} more (--json lists all)", err=True)


SpaceOption = Annotated[
    str | None, typer.Option("--space", help="Beginning of a Space's fingerprint, where there are several.")
]


WriteOption = Annotated[str | None, typer.Option("--write", help="Keep the values as the score of this name.")]
CollectionOption = Annotated[str | None, typer.Option("--collection", help="Keep the outcome as this collection.")]
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, help="Rows to show; --json has all.")]
NeighboursOption = Annotated[int, typer.Option("--neighbours", min=1, help="Nearest ones that are asked.")]
LabelOption = Annotated[str, typer.Option("--label", help="A key of the metadata, or a field: env, tag, meta.a.b.")]


@dataclass(frozen=True)
class Wanted:
    """What was asked for: the names of a score and of a collection to keep, rows to show, JSON instead of a table."""

    write: str | None = None
    collection: str | None = None
    limit: int = 20
    as_json: bool = False


def opened(archive: str | None) -> Archive:
    """Open the archive that --archive names."""
    from bridge.archive import open_archive
    from catalog.location import archive_named

    return open_archive(archive_named(archive))


def set_named(archive: Archive, text: str) -> Where:
    """Return the filter that is meant by a collection's name, a snapshot's hash, or by its text."""
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


def keep(
    archive: Archive,
    wanted: Wanted,
    values: Mapping[int, float],
    *,
    picks: Iterable[int] = (),
    weights: Mapping[int, float] | None = None,
) -> list[str]:
    """Keep values by episode as the score, and picks, of these weights, as the collection that is wanted; say so."""
    from catalog.cli.annotate import account
    from catalog.cli.collection import replaced_lines
    from catalog.curation.selection import Pick

    told = []
    if wanted.write is not None:
        count = archive.catalog.annotations.set_scores(
            wanted.write, {id_: float(value) for id_, value in values.items()}
        )
        told.append(f"score.{wanted.write} of {plural(count, 'episode')} was written")
    if wanted.collection is not None:
        rows = archive.catalog.episodes.rows([*picks]).values()
        chosen = [Pick(row.uid, row.digest, 0, row.length, (weights or {}).get(row.id, 1.0)) for row in rows]
        kept = archive.catalog.collections.save_snapshot(wanted.collection, chosen, who=account())
        hash_ = kept.snapshot.hash if kept.snapshot else ""
        told.append(f"collection {kept.name}: {plural(len(chosen), 'pick')}, {hash_}")
        told += replaced_lines(kept)
    return told


def space_told(archive: Archive, where: str | None, name: str | None) -> str:
    """Return the fingerprint of the Space to compare by; say which one it is where it could have been another."""
    from bridge.curation.archive_vectors import choose_space
    from bridge.spaces.identity import describe

    chosen, others = choose_space(archive, where or "", name)
    if others:
        typer.echo(f"compared by {printable(describe(chosen))}", err=True)
        typer.echo(f"there is too: {printable('; '.join(map(describe, others)))} (--space chooses)", err=True)
    return chosen.fingerprint


def by_id(found: Sequence[Valued]) -> dict[int, float]:
    """Return the values by the ids of their episodes."""
    return {one.episode.id: one.value for one in found}


def show(found: Sequence[Valued], heading: str, wanted: Wanted, told: Iterable[str]) -> None:
    """Print episodes with their values below `heading`, and what else is to be told; or JSON."""
    if wanted.as_json:
        print_valued_json(found)
        return
    print_valued(found[: wanted.limit], heading)
    print_lines([f"{min(wanted.limit, len(found))} of {len(found)} episodes", *told])


def rank(
    archive: str | None,
    wanted: Wanted,
    heading: str,
    find: Callable[[Archive, Progress], list[Valued]],
    *,
    beyond: tuple[float, str],
) -> None:
    """Find episodes with values, keep these as the score that is wanted, and show them, and how many lie above a value.

    beyond: that value, and what it means.
    """
    from bridge.support.progress import watched

    with opened(archive) as held:
        with watched() as progress:
            found = find(held, progress)
        told = keep(held, wanted, by_id(found))
    limit, meaning = beyond
    show(found, heading, wanted, [f"{sum(one.value > limit for one in found)} above {limit}{meaning}", *told])
