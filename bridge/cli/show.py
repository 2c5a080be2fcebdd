"""The verbs `show` and `plot`: what the archive knows about episodes, and drawings of episodes, spans and hits."""

from __future__ import annotations

import json
import os
import shutil
import sys
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catalog.cli.common import ArchiveOption, open_catalog, print_table
from wshard.cli.common import JsonOption, named_path, print_items, printable, reported

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bridge.episodes.sketch import Sketch
    from bridge.results import EpisodeRef
    from catalog.catalog import Catalog
    from catalog.records import EpisodeRow

_APART = ("metadata", "lanes", "stored_lanes", "files", "layout_id", "id")  # printed in their own way, or not at all
_FRAMES = 6  # of an episode on a terminal
_MAX_HITS = 1 << 27  # bytes of a file of hits
_BEGINNINGS = {".png": b"\x89PNG", ".svg": b"<svg ", ".html": b'<!doctype html><meta charset="utf-8">'}  # by suffix


@reported()
def show(
    episodes: Annotated[
        list[str],
        typer.Argument(help="Episode ids, uids or files; with --open also NAME@START:STOP.", metavar="EPISODES"),
    ],
    archive: ArchiveOption = None,
    opened_there: Annotated[
        bool, typer.Option("--open", help="Serve the archive and open this one episode in the browser.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show everything the archive knows about episodes."""
    from bridge.present.episodes import present_details
    from catalog.names import find_episode

    if opened_there:
        if len(episodes) != 1 or as_json:
            raise typer.BadParameter("--open: expected one episode, and no --json")
        _open_in_browser(episodes[0], archive)
        return
    with open_catalog(archive) as opened:
        rows = [find_episode(opened, name) for name in episodes]
        details = present_details(opened, rows)
    if as_json:
        print_items(details)
        return
    for number, one in enumerate(details):
        if number:
            typer.echo()
        _print(one)
        _print_courses(rows[number])


def _print_courses(row: EpisodeRow) -> None:
    """Print the course of the first channels of each lane, and frames if the terminal can; of readable files only."""
    from bridge.episodes.drawing import draw_text
    from bridge.episodes.terminal_frames import draw_frames, find_protocol
    from bridge.results import make_ref, sketch_hit
    from wshard.errors import WShardError

    protocol = find_protocol(os.environ) if sys.stdout.isatty() else None
    try:
        sketch = sketch_hit(make_ref(row, 1.0, (0, row.length)), frames=_FRAMES if protocol else 0)
    except (WShardError, OSError):
        return
    drawn = [(f"channels {lane}", text) for lane, text in sketch.channels]
    drawn += [
        (f"course {one.lane}" * (not at), f"{draw_text(line)} {name}".rstrip())
        for one in sketch.courses
        for at, (line, name) in enumerate(zip(one.lines[:3], one.names or ("", "", ""), strict=False))
    ]
    print_table(("", ""), drawn, whole=True)
    if protocol and sketch.frames:
        typer.echo(draw_frames(sketch.frames, protocol, columns=shutil.get_terminal_size().columns))


def _open_in_browser(name: str, archive: str | None) -> None:
    """Serve the archive until Ctrl-C, and open the page of an episode, at a span if the name has one."""
    from bridge.cli.serve import run_server
    from bridge.names import EpisodeNames
    from catalog.location import archive_named

    named = archive_named(archive)
    with open_catalog(named) as catalog:
        ref = EpisodeNames(catalog).find(name)
    query = "" if ref.span == (0, ref.length) else "?span={}:{}".format(*ref.span)
    run_server(named, lambda make: make(port=0, path=f"/episodes/{ref.uid}{query}"))


def _print(description: dict[str, Any]) -> None:
    from bridge.present.episodes import find_rate
    from wshard.core.types import ASSUMED_HZ
    from wshard.formats.layouts.named import describe_layout

    description = description | {"format": describe_layout(description["format"])}
    own = list(description)
    recorded = own[own.index("files") + 1 :]
    pairs = [(key, value) for key, value in description.items() if key not in (*_APART, *recorded)]
    pairs += [(f"metadata.{key}", value) for key, value in description["metadata"].items()]
    stored = description["stored_lanes"]
    pairs += [(f"lane {key}", f"{value}{_storage_text(stored[key])}") for key, value in description["lanes"].items()]
    if len(description["files"]) > 1:
        pairs += [
            (file["role"], f"{Path(file['file_path']).name}, {file['size']:,} bytes") for file in description["files"]
        ]
    pairs += [(f"score {name}", value) for name, value in description.get("scores", {}).items()]
    pairs += [(key, description[key]) for key in recorded if key != "scores"]
    rate, clock = find_rate(stored)
    if rate is None:
        pairs.append(("clock", f"{clock}: {ASSUMED_HZ:g} Hz is assumed"))
    print_table(("", ""), [(key, _text_of(value)) for key, value in pairs], whole=True)


def _text_of(value: Any) -> str:
    """Return a value for a reader: nothing for None, several texts beside one another, six digits of a number."""
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _storage_text(lane: dict[str, Any]) -> str:
    """Return rate, codec and sizes of a lane, as far as they are known."""
    rate = f", {lane['rate']:g} Hz" if lane["rate"] else ""
    size = f", {lane['codec']}, {lane['bytes']:,} bytes" if "codec" in lane else ""
    return rate + size + (f", {lane['stored']:,} stored" if lane.get("stored") is not None else "")


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
    from wshard.core.container.atomic_write import check_replaceable, publish
    from wshard.errors import QueryError

    form = output.suffix.lower()
    if form not in _BEGINNINGS:
        expected = f"a file that ends in {', '.join(_BEGINNINGS)}"
        raise typer.BadParameter(f"--output: expected {expected}, found {output.name!r}")
    check_replaceable(output, "an earlier drawing", _BEGINNINGS[form])
    with open_catalog(archive) as catalog:
        sketches = [sketch_hit(ref) for name in what for ref in _read(catalog, name)]
    if not sketches:
        raise QueryError(f"{', '.join(what)}: expected hits to draw, found none")
    if form == ".svg" and len(sketches) != 1:
        raise typer.BadParameter(f"--output: a .svg holds one drawing, found {len(sketches)}: choose .png or .html")
    with publish(output) as file:
        file.write(_draw(sketches, form))
    typer.echo(f"{printable(str(output))}: {len(sketches)} drawn")


def _read(catalog: Catalog, name: str) -> Iterator[EpisodeRef]:
    """Yield what a name means: an episode, a span of it, or the hits in a file."""
    from bridge.names import EpisodeNames
    from bridge.results import make_ref
    from wshard.core.files.schemes import place_of
    from wshard.errors import QueryError

    if name.endswith(".json"):
        try:
            items = json.loads(place_of(name).read(0, _MAX_HITS))["items"]
            hits = [(str(one["uid"]), tuple(map(int, one["span"])), float(one["score"])) for one in items]
        except (ValueError, TypeError, KeyError, RecursionError):
            fields = "items that each have uid, span and score"
            raise QueryError(f"{name}: expected hits as `wshard search --json` prints them: {fields}") from None
        for uid, (start, stop), score in hits:
            yield make_ref(catalog.episodes.get(uid), score, (start, stop))
        return
    yield EpisodeNames(catalog).find(name)


def _draw(sketches: list[Sketch], form: str) -> bytes:
    from bridge.episodes.drawing import draw_html
    from bridge.episodes.figure import PAGE, draw_png, draw_svg

    if form == ".png":
        return draw_png(sketches)
    if form == ".svg":
        return draw_svg(sketches[0], PAGE, titled=True).encode()
    title = escape(", ".join(one.title for one in sketches[:3]))
    body = "\n".join(draw_html(sketch, PAGE) for sketch in sketches)
    return f'<!doctype html><meta charset="utf-8"><title>{title}</title>\n{body}\n'.encode()
