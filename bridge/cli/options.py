"""Options that several verbs share, and how their texts are read."""

from __future__ import annotations

import inspect
import math
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridge.search.query.options import options_of
from wshard.cli.common import local_place, named_path, option_read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bridge.archive import Archive
    from bridge.search.query.options import CommonOptions, Option
    from embedders.windows import WindowPlan
    from wshard.core.quality.thresholds import Thresholds

IndexOption = Annotated[str | None, typer.Option("--index", help="URL of a vector index (default: embedded).")]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout", min=0.001, max=999_999, help="Time limit for requests to the --index.", metavar="SECONDS"
    ),
]
EmbedderOption = Annotated[
    str | None, typer.Option("--embedder", help="Embedder: blocks, arcdct, dct, ... or module:attribute.")
]
LanesOption = Annotated[
    str | None,
    typer.Option("--lanes", help="Lanes to embed, e.g. state,reward or state=2,reward=1 (default: all small vectors)."),
]
PlansOption = Annotated[
    list[str] | None,
    typer.Option(
        "--windows",
        help="What to embed: whole (one vector per episode), multi (windows of several sizes), both (recommended), or "
        "SIZE:STRIDE; may be repeated. Default: both for a new archive, else what the archive already has.",
        metavar="PLAN",
    ),
]
SearchedLanesOption = Annotated[
    str | None, typer.Option("--lanes", help="Compare only these lanes, e.g. state,reward or state=2,reward=1.")
]
WorkersOption = Annotated[
    int, typer.Option("--workers", min=1, help="Processes for reading and embedding, including this one.")
]
ExecutorOption = Annotated[
    str,
    typer.Option(
        "--executor", metavar="WHERE", help="Who reads and embeds: processes of this machine, or dask://HOST:PORT."
    ),
]
ReadersOption = Annotated[int, typer.Option("--workers", min=1, help="Processes for reading files.")]
TextEncoderOption = Annotated[
    str | None,
    typer.Option(
        "--text-encoder",
        help="Folder of a sentence encoder; enables text search by meaning in addition to words.",
        parser=local_place,
        metavar="FOLDER",
    ),
]
EncoderOption = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        help="Folder of a pretrained encoder that describes the cameras, for search by picture and by words.",
        parser=local_place,
        metavar="FOLDER",
    ),
]
StrideOption = Annotated[
    float | None,
    typer.Option("--stride", help="For --encoder: seconds from one described frame to the next (default 0.5)."),
]
LimitsOption = Annotated[
    Path | None,
    typer.Option(
        "--limits",
        help="TOML or JSON file with quality-check limits, e.g. spike = 8.",
        parser=named_path,
        metavar="FILE",
    ),
]
CheckOption = Annotated[bool, typer.Option("--check/--no-check", help="Run quality checks (see `wshard check`).")]
SpaceOption = Annotated[
    str | None, typer.Option("--space", help="Fingerprint prefix of the Space to use, if there are several.")
]
WriteOption = Annotated[str | None, typer.Option("--write", help="Save the values as a score with this name.")]
CollectionOption = Annotated[
    str | None, typer.Option("--collection", help="Save the result as a collection with this name.")
]
SourceFormatOption = Annotated[str | None, typer.Option("--from", help="Format of IN (default: detected).")]
ChosenCollectionOption = Annotated[
    str | None, typer.Option("--collection", help="Take the episodes and spans of this collection of --archive.")
]
ChosenWhereOption = Annotated[
    str | None, typer.Option("--where", help="Take the episodes of --archive that match this filter.")
]
NeighboursOption = Annotated[int, typer.Option("--neighbors", min=1, help="Number of nearest neighbors to compare.")]
LabelOption = Annotated[
    str, typer.Option("--label", help="Label: a metadata key, or a field such as env, tag or meta.a.b.")
]


def searching(kind: type[CommonOptions]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a verb all options of one kind of search, in place of its `**chosen`."""
    return lambda verb: with_parameters(verb, [_declare(one) for one in options_of(kind) if one.offered])


def with_parameters(verb: Callable[..., None], made: Sequence[inspect.Parameter]) -> Callable[..., None]:
    """Give a verb these parameters, in place of those that it takes by `**`."""
    signature = inspect.signature(verb, eval_str=True)
    own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    setattr(verb, "__signature__", signature.replace(parameters=[*own, *made]))  # noqa: B010  (of any callable)
    verb.__annotations__ = {one.name: one.annotation for one in (*own, *made)}
    return verb


def make_parameter(name: str, kind: Any, default: Any, *flags: str, **described: Any) -> inspect.Parameter:
    """Return an option of a verb; described: what typer.Option takes."""
    annotation = Annotated[kind, typer.Option(*flags, **described)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _declare(option: Option) -> inspect.Parameter:
    flags = option.flags or (f"--{option.name.replace('_', '-')}",)
    bounds = {"min": option.least, "max": option.most} if option.kind in (int, float) else {}
    limits = {name: option.kind(bound) for name, bound in bounds.items() if not math.isinf(bound)}
    kind: Any = list[str] if option.many else option.kind
    optional = option.many or option.default is None
    kind, default = (kind | None, None) if optional else (kind, option.default)
    return make_parameter(option.name, kind, default, *flags, help=option.help, metavar=option.metavar, **limits)


def read_chosen(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a search that were given, with their window plan parsed."""
    given = {name: value for name, value in chosen.items() if value is not None}
    return given | ({"windows": parse_windows(given["windows"])} if "windows" in given else {})


def read_quality_limits(path: Path | None) -> Thresholds:
    """Return the limits of the quality checks from a file, or the default ones."""
    from wshard.core.quality.thresholds import DEFAULT_THRESHOLDS, read_thresholds

    return DEFAULT_THRESHOLDS if path is None else read_thresholds(path)


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
    """Read window plans; "both" stands for whole episodes and windows of several sizes. None stays None."""
    from embedders.windows import as_plans

    with option_read():
        return list(as_plans(texts)) if texts else None


def parse_windows(text: str) -> WindowPlan:
    """Read one window plan."""
    from embedders.windows import WindowPlan

    with option_read():
        return WindowPlan.read(text)


def index_target(index: str | None, archive: str | Path | None, timeout: float | None = None) -> str | Path:
    """Return what ingestor and retriever are opened with: the index URL with its time limit, else the archive."""
    from bridge.archive import is_url
    from catalog.location import archive_named
    from wshard.core.messages import public_url
    from wshard.errors import UnknownIndexError

    if index is not None and not is_url(index):
        raise UnknownIndexError(f"expected the URL of an index such as http://host:8080, found {public_url(index)!r}")
    if timeout is not None and index is None:
        raise typer.BadParameter("--timeout requires --index")
    if index is None:
        return archive_named(archive)
    return index if timeout is None else f"{index}{'&' if '?' in index else '?'}timeout={timeout:.6f}"


@contextmanager
def open_named(archive: str | None, index: str | None = None, timeout: float | None = None) -> Iterator[Archive]:
    """Open the archive given by --archive, with the index given by --index, and its time limit."""
    from bridge.archive import open_archive
    from catalog.location import archive_named
    from catalog.query.suggestions import suggest_keys

    named = archive_named(archive)
    target = index_target(index, named, timeout)
    with open_archive(target, archive=named) as opened, suggest_keys(opened.catalog.query):
        yield opened
