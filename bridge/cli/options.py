"""What several verbs of the command line share: options about embedding, and how their texts are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wshard.cli.common import option_read

if TYPE_CHECKING:
    from pathlib import Path

    from embedders.windows import WindowPlan

EmbedderOption = Annotated[str | None, typer.Option("--embedder", help="arcdct, combo, dct, ... or module:attribute.")]
LanesOption = Annotated[
    str | None,
    typer.Option("--lanes", help="Lanes to embed, e.g. state,reward or state=2,reward=1 (default: all small vectors)."),
]

PlansOption = Annotated[
    list[str] | None,
    typer.Option(
        "--windows",
        help="What to embed: both (default) = whole and multi, which ranks best; whole, multi, or SIZE:STRIDE; may be "
        "repeated. An archive that has whole or multi already keeps to what it has by default.",
        metavar="PLAN",
    ),
]
WindowsOption = Annotated[
    str | None,
    typer.Option("--windows", help="Which windows, where several kinds were ingested.", metavar="PLAN"),
]

WorkersOption = Annotated[
    int, typer.Option("--workers", min=1, help="Processes that read and embed, this one among them.")
]

SentencesOption = Annotated[
    str | None,
    typer.Option(help="A folder with a sentence encoder: text is compared by what it means too.", metavar="FOLDER"),
]


def parse_lanes(text: str | None) -> list[str] | dict[str, float] | None:
    """Read names of lanes, or names with weights."""
    if text is None:
        return None
    named = [name.strip() for name in text.split(",") if name.strip()]
    if not any("=" in name for name in named):
        return named
    pairs = [name.rpartition("=") for name in named]
    try:
        return {name: float(weight) for name, _, weight in pairs}
    except ValueError:
        raise typer.BadParameter(f"expected a weight for each lane, LANE=WEIGHT, found {text!r}") from None


def parse_plans(texts: list[str] | None) -> list[WindowPlan] | None:
    """Read what to embed: how episodes are cut, "both" for whole ones and windows of several sizes; None as it is."""
    from embedders.windows import as_plans

    with option_read():
        return list(as_plans(texts)) if texts else None


def parse_windows(text: str) -> WindowPlan:
    """Read how episodes are cut."""
    from embedders.windows import WindowPlan

    with option_read():
        return WindowPlan.read(text)


TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        min=0.001,
        max=999_999,
        help="Give up after so many seconds (with --index).",
        metavar="SECONDS",
    ),
]


def index_target(index: str | None, archive: str | Path, timeout: float | None = None) -> str | Path:
    """Return what ingestor and retriever are opened with: the index's URL, with the time limit, else the archive."""
    from bridge.archive import is_url
    from wshard.errors import UnknownIndexError
    from wshard.messages import public_url

    if index is not None and not is_url(index):
        raise UnknownIndexError(f"expected the URL of an index such as http://host:8080, found {public_url(index)!r}")
    if timeout is not None and index is None:
        raise typer.BadParameter("--timeout: expected --index beside it")
    if index is None:
        return archive
    return index if timeout is None else f"{index}{'&' if '?' in index else '?'}timeout={timeout:.6f}"
