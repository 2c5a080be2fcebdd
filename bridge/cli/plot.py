"""The verb `plot`: episodes, spans and hits as a picture or a page."""

from __future__ import annotations

import json
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catalog.cli.common import ArchiveOption, find_episode, open_catalog
from wshard.cli.common import named_path, printable, reported

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bridge.episodes.drawing import Sketch
    from bridge.results import EpisodeRef
    from catalog.catalog import Catalog

_SUFFIXES = (".png", ".svg", ".html")


@reported()
def plot(
    what: Annotated[
        list[str],
        typer.Argument(help="Episode, NAME@START:STOP, or a file of hits written by --json.", metavar="EPISODE|HITS"),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="File to write: .png, .svg or .html.", parser=named_path, metavar="FILE"),
    ],
    archive: ArchiveOption = None,
) -> None:
    """Draw episodes, spans of them or hits: lanes over time and a few frames."""
    from bridge.results import sketch_hit
    from wshard.container.atomic_write import publish

    form = output.suffix.lower()
    if form not in _SUFFIXES:
        raise typer.BadParameter(
            f"--output: expected a file that ends in {', '.join(_SUFFIXES)}, found {output.name!r}"
        )
    with open_catalog(archive) as catalog:
        sketches = [sketch_hit(ref) for name in what for ref in _read(catalog, name)]
    if form == ".svg" and len(sketches) != 1:
        raise typer.BadParameter(f"--output: a .svg holds one drawing, found {len(sketches)}: choose .png or .html")
    with publish(output) as file:
        file.write(_draw(sketches, form))
    typer.echo(f"{printable(str(output))}: {len(sketches)} drawn")


def _read(catalog: Catalog, name: str) -> Iterator[EpisodeRef]:
    """Yield what a name means: an episode, a span of it, or the hits in a file."""
    from bridge.results import make_ref
    from wshard.episode.protocol import EpisodeSpan
    from wshard.errors import QueryError

    path = Path(name)
    if path.suffix == ".json":
        try:
            items = json.loads(path.read_text(encoding="utf-8"))["items"]
            hits = [(str(one["uid"]), tuple(map(int, one["span"])), float(one["score"])) for one in items]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise QueryError(f"{name}: expected hits as `wshard search --json` prints them: {error!r}") from None
        for uid, (start, stop), score in hits:
            yield make_ref(catalog.episodes.get(uid), score, (start, stop))
        return
    span = EpisodeSpan.parse(name)
    row = find_episode(catalog, str(span.address))
    ref = make_ref(row, 1.0, (0, row.length))
    yield replace(ref, span=(span.start, row.length if span.stop is None else min(span.stop, row.length)))


def _draw(sketches: list[Sketch], form: str) -> bytes:
    from bridge.episodes.drawing import draw_html, draw_png, draw_svg

    if form == ".png":
        return draw_png(sketches)
    if form == ".svg":
        return draw_svg(sketches[0]).encode()
    title = escape(", ".join(one.title for one in sketches[:3]))
    body = "\n".join(map(draw_html, sketches))
    return f'<!doctype html><meta charset="utf-8"><title>{title}</title>\n{body}\n'.encode()
