"""The verb `search`: queries and options from the command line, hits as a table or JSON."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridge.cli.index import IndexOption
from bridge.cli.options import (
    EmbedderOption,
    LanesOption,
    SentencesOption,
    TimeoutOption,
    WindowsOption,
    index_target,
    parse_lanes,
    parse_windows,
)
from catalog.cli.common import (
    ArchiveOption,
    EnvOption,
    MinLengthOption,
    RewardOption,
    WhereOption,
    find_episode,
    number,
    open_catalog,
    parse_range,
    print_table,
    shorten,
)
from wshard.cli.common import JsonOption, parse_span, print_json, printable, reported
from wshard.episode.protocol import EpisodeAddress, EpisodeSpan
from wshard.messages import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from bridge.results import EpisodeRef, Hits
    from bridge.search.query.prepare import Query
    from embedders.space import Space

EXAMPLE = "An episode file, a .npy array [T, D], or a catalogued episode's id; with @START:STOP timesteps of it"


@reported()
def search(
    query: Annotated[str | None, typer.Argument(help=f"{EXAMPLE}; none with --like or --text.")] = None,
    archive: ArchiveOption = None,
    index: IndexOption = None,
    timeout: TimeoutOption = None,
    top: Annotated[int, typer.Option("--top", "-k", min=1, help="How many hits.")] = 10,
    span: Annotated[str | None, typer.Option(help="Use timesteps START:STOP of the query only.")] = None,
    like: Annotated[
        list[str] | None, typer.Option(help="A further example, as QUERY; may be repeated.", metavar="QUERY")
    ] = None,
    unlike: Annotated[
        list[str] | None, typer.Option(help="A counter-example, as QUERY; may be repeated.", metavar="QUERY")
    ] = None,
    text: Annotated[str | None, typer.Option(help="Words of the task or of notes; alone, or beside a query.")] = None,
    sentences: SentencesOption = None,
    moments: Annotated[bool, typer.Option("--moments", help="Search windows (see ingest --windows).")] = False,
    windows: WindowsOption = None,
    distinct: Annotated[bool, typer.Option("--distinct", help="With --moments: one hit per episode.")] = False,
    env: EnvOption = None,
    reward: RewardOption = None,
    min_length: MinLengthOption = None,
    where: WhereOption = None,
    embedder: EmbedderOption = None,
    lanes: LanesOption = None,
    expand: Annotated[int | None, typer.Option(min=0, help="Let so many of the best hits lead to their like.")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Rank by the cosine of whole episodes alone.")] = False,
    least: Annotated[bool, typer.Option("--least", help="The least similar first.")] = False,
    min_score: Annotated[float | None, typer.Option(help="No hits below this score.")] = None,
    diversity: Annotated[
        float,
        typer.Option(min=0, max=1, help="After the best hit rank by (1 - N) * score - N * cosine with a hit before."),
    ] = 0.0,
    contributions: Annotated[bool, typer.Option("--contributions", help="Say what each lane adds.")] = False,
    alignment: Annotated[
        bool, typer.Option("--alignment", help="Say which timesteps meet the query's, and how well each lane agrees.")
    ] = False,
    exclude_self: Annotated[bool, typer.Option("--exclude-self", help="Leave out the episodes that ask.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Say how the index found the hits.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Find the episodes or moments most like a query, like examples and unlike others, or told by words."""
    from bridge.search.retriever import TrajectoryRetriever
    from catalog.location import archive_named

    if query is None and not like and text is None:
        raise typer.BadParameter("expected QUERY, --like or --text, found none of them")
    if distinct and not (moments or windows is not None):
        raise typer.BadParameter("--distinct: expected --moments beside it; of episodes each is one hit")
    if sentences is not None and text is None:
        raise typer.BadParameter("--sentences: expected --text beside it")
    named = archive_named(archive)
    target, used = index_target(index, named, timeout), None if span is None else parse_span(span)
    asked: dict[str, Any] = {"where": where, "text": text, "expand": expand, "plain": plain, "least": least}
    asked |= {"min_score": min_score, "diversity": diversity, "contributions": contributions, "explain": explain}
    asked |= {"alignment": alignment, "exclude_self": exclude_self}
    asked |= {"like": [read_query(one, named) for one in like or ()]}
    asked |= {"unlike": [read_query(one, named) for one in unlike or ()]}
    opened = TrajectoryRetriever(target, embedder, lanes=parse_lanes(lanes), archive=named, sentences=sentences)
    with compiling_told() if alignment else nullcontext(), opened as retriever:
        find: Callable[..., Hits] = retriever.search_similar_episodes
        if moments or windows is not None:
            find = retriever.search_similar_timesteps
            asked |= {"windows": None if windows is None else parse_windows(windows), "distinct": distinct}
        wanted = None if query is None else read_query(query, named, used)
        hits = find(wanted, top, env or None, min_length, parse_range(reward), **asked)
    if as_json:
        print_json(hits_as_json(hits))
    else:
        print_hits(hits, with_span=moments or windows is not None)


@contextmanager
def compiling_told() -> Iterator[None]:
    """Say so when an alignment inside must be compiled first."""
    from bridge.alignment.align import compiling

    with compiling(lambda: typer.echo("compiling the alignment: once on this machine, up to half a minute", err=True)):
        yield


def print_hits(hits: Hits, *, with_span: bool = False) -> None:
    """Print hits as a table, and how they were found."""
    told = any(ref.contributions for ref in hits)
    part = any(ref.aligned != ref.span for ref in hits)
    several = any(len(ref.lane_scores) > 1 for ref in hits)
    shown = {"span": with_span, "aligned": part, "agreement": several, "lanes": told}
    extra = [name for name, wanted in shown.items() if wanted]
    columns = (">rank", ">score", "episode", "env", ">length", ">reward", *extra, "/file")
    rows = []
    for rank, ref in enumerate(hits, 1):
        about = ref.metadata
        cells = {
            "span": f"{ref.span[0]}:{ref.span[1]}",
            "aligned": f"{ref.aligned[0]}:{ref.aligned[1]}",
            "agreement": " ".join(f"{name} {agreed:.2f}" for name, agreed in ref.lane_scores.items()),
            "lanes": " ".join(f"{name} {added:+.2f}" for name, added in ref.contributions.items()),
        }
        length, reward = str(about["length_T"]), number(about["total_reward"])
        place = shorten(str(ref.address))
        more = (cells[name] for name in extra)
        rows.append((str(rank), f"{ref.score:.4f}", ref.episode_id, about["env_id"], length, reward, *more, place))
    print_table(columns, rows)
    _tell_views(hits)
    for note in hits.answered.notes:
        typer.echo(printable(note), err=True)
    how = "exact" if hits.exact else "approximate"
    typer.echo(f"{plural(len(hits), 'hit')}, {how}, {hits.milliseconds:.1f} ms")
    if hits.missing:
        typer.echo(
            f"{hits.missing} left out: their files are gone or were changed; ingest the place where they are now",
            err=True,
        )
    if (explained := hits.explained) is not None:
        steps = ", ".join(f"{name} {spent:.2f} ms" for name, spent in explained.milliseconds.items())
        scored = f"{explained.scored} of {explained.passing} vectors that pass were scored by {explained.kernel}"
        lists = f"{explained.lists} of {explained.all_lists} lists visited, {explained.tail} in the tail"
        typer.echo(f"index: {explained.route}; {scored}, {lists}; {steps}")


def _tell_views(hits: Hits) -> None:
    """Say which Spaces answered where it could have been others, or where they are of several lanes."""
    from bridge.spaces.identity import describe

    spaces, others = hits.answered.spaces, hits.answered.others
    if not others and len({space.lanes for space in spaces}) < 2:
        return
    typer.echo(f"answered by {printable('; '.join(map(describe, spaces)))}", err=True)
    if others:
        told = printable("; ".join(map(describe, others)))
        typer.echo(f"fits too: {told} (--embedder, --lanes, --windows or --env choose)", err=True)


def hits_as_json(hits: Hits) -> dict[str, Any]:
    """Return hits as a JSON value."""
    from bridge.spaces.identity import describe

    def spaces(some: Iterable[Space]) -> list[dict[str, str]]:
        return [{"space": one.fingerprint, "about": describe(one)} for one in some]

    found = [_as_json(rank, ref) for rank, ref in enumerate(hits, 1)]
    told: dict[str, Any] = {"items": found, "total": len(found), "missing": hits.missing, "exact": hits.exact}
    told |= {"milliseconds": round(hits.milliseconds, 3)}
    answered = hits.answered
    told |= {"spaces": spaces(answered.spaces), "others": spaces(answered.others), "notes": list(answered.notes)}
    return told if hits.explained is None else told | {"explained": asdict(hits.explained)}


def read_query(text: str, archive: Path | str, span: tuple[int | None, int | None] | None = None) -> Query:
    """Return the file or array that a text names, or timesteps of it, [start, stop) or as NAME@START:STOP."""
    import numpy as np

    from bridge.episodes.open import exists
    from wshard.errors import QueryError
    from wshard.types import Array

    address = EpisodeAddress.parse(text)
    if span is None:
        found = EpisodeSpan.parse(text)
        address, span = found.address, None if (found.start, found.stop) == (0, None) else (found.start, found.stop)
    path = Path(address.uri)
    if path.suffix == ".npy" and path.is_file():
        try:
            array: Array = np.load(path, allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise QueryError(f"{path}: expected an array of numbers [T, D] or [D]: {error}") from error
        rows = array[slice(*span)] if span is not None and array.ndim else array
        if not rows.size:
            raise QueryError(f"{path}: expected timesteps, found none in span {span} of shape {list(array.shape)}")
        if span is not None and array.ndim and (span[1] or 0) > len(array):
            raise QueryError(f"{path}: expected a span within shape {list(array.shape)}, found {span}")
        return rows
    if not exists(EpisodeAddress(address.uri)):
        with open_catalog(archive) as opened:
            address = find_episode(opened, str(address)).address
    place = str(address) if address.key else Path(address.uri)
    return place if span is None else (place, *span)


def _as_json(rank: int, ref: EpisodeRef) -> dict[str, Any]:
    about = {
        "rank": rank,
        "score": ref.score,
        "episode_id": ref.episode_id,
        "uid": ref.uid,
        "span": list(ref.span),
        "file_path": ref.file_path,
        "key": ref.key,
        "address": str(ref.address),
        "metadata": dict(ref.metadata),
    }
    about |= {"contributions": dict(ref.contributions)} if ref.contributions else {}
    met = {"lane_scores": dict(ref.lane_scores), "alignment": ref.alignment}
    return about | (met if ref.alignment else {})
