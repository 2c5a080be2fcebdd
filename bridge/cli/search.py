"""The verb `search`: similar episodes or windows, as a table or JSON."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridge.cli.options import (
    EmbedderOption,
    ExcludeSelfOption,
    ExplainOption,
    IndexOption,
    LanesOption,
    LikeOption,
    MinScoreOption,
    SentencesOption,
    TimeoutOption,
    TopOption,
    UnlikeOption,
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
    format_number,
    open_catalog,
    parse_range,
    print_table,
    shorten,
)
from wshard.cli.common import JsonOption, parse_span, print_json, printable, reported
from wshard.episode.protocol import EpisodeAddress, EpisodeSpan
from wshard.messages import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bridge.results import Hits
    from bridge.search.query.fit import Query

EXAMPLE = "Episode file, .npy array [T, D], or id of a catalogued episode; append @START:STOP for a span of timesteps"


@reported()
def search(
    query: Annotated[str | None, typer.Argument(help=f"{EXAMPLE}. Optional with --like or --text.")] = None,
    archive: ArchiveOption = None,
    index: IndexOption = None,
    timeout: TimeoutOption = None,
    top: TopOption = 10,
    span: Annotated[str | None, typer.Option(help="Span START:STOP of the query.")] = None,
    like: LikeOption = None,
    unlike: UnlikeOption = None,
    text: Annotated[
        str | None, typer.Option(help="Text of task descriptions or notes; alone, or combined with a query.")
    ] = None,
    sentences: SentencesOption = None,
    moments: Annotated[
        bool, typer.Option("--moments", help="Search windows instead of episodes (see ingest --windows).")
    ] = False,
    windows: WindowsOption = None,
    distinct: Annotated[bool, typer.Option("--distinct", help="With --moments: at most one hit per episode.")] = False,
    env: EnvOption = None,
    reward: RewardOption = None,
    min_length: MinLengthOption = None,
    where: WhereOption = None,
    embedder: EmbedderOption = None,
    lanes: LanesOption = None,
    expand: Annotated[
        int | None, typer.Option(min=0, help="Query expansion: number of top hits to add to the query.")
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Rank only by the cosine similarity of whole episodes.")
    ] = False,
    least: Annotated[bool, typer.Option("--least", help="Rank the least similar first.")] = False,
    min_score: MinScoreOption = None,
    diversity: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="Maximal marginal relevance: (1 - N) * score - N * similarity to earlier hits."
        ),
    ] = 0.0,
    contributions: Annotated[
        bool, typer.Option("--contributions", help="Show how much each lane contributes to the score.")
    ] = False,
    alignment: Annotated[
        bool, typer.Option("--alignment", help="Show the timestep alignment and a score per lane.")
    ] = False,
    exclude_self: ExcludeSelfOption = False,
    explain: ExplainOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find episodes or windows similar to a query, to examples (minus counter-examples), or by text."""
    from bridge.search.retriever import TrajectoryRetriever
    from catalog.location import archive_named

    if query is None and not like and text is None:
        raise typer.BadParameter("expected at least one of QUERY, --like and --text")
    if distinct and not (moments or windows is not None):
        raise typer.BadParameter("--distinct requires --moments: a search for episodes returns each only once")
    if sentences is not None and text is None:
        raise typer.BadParameter("--sentences requires --text")
    named = archive_named(archive)
    target, used = index_target(index, named, timeout), None if span is None else parse_span(span)
    options: dict[str, Any] = {"where": where, "text": text, "expand": expand, "plain": plain, "least": least}
    options |= {"min_score": min_score, "diversity": diversity, "contributions": contributions, "explain": explain}
    options |= {"alignment": alignment, "exclude_self": exclude_self}
    options |= {"like": [read_query(one, named) for one in like or ()]}
    options |= {"unlike": [read_query(one, named) for one in unlike or ()]}
    opened = TrajectoryRetriever(target, embedder, lanes=parse_lanes(lanes), archive=named, sentences=sentences)
    with report_compiling(), opened as retriever:
        find: Callable[..., Hits] = retriever.search_similar_episodes
        if moments or windows is not None:
            find = retriever.search_similar_timesteps
            options |= {"windows": None if windows is None else parse_windows(windows), "distinct": distinct}
        example = None if query is None else read_query(query, named, used)
        hits = find(example, top, env or None, min_length, parse_range(reward), **options)
    if as_json:
        from bridge.present.hits import present_hits

        print_json(present_hits(hits))
    else:
        print_hits(hits, with_span=moments or windows is not None)


@contextmanager
def report_compiling() -> Iterator[None]:
    """Print a message if the alignment has to be compiled first."""
    from bridge.alignment.align import compiling

    with compiling(lambda: typer.echo("compiling the alignment (once per machine, up to 30 seconds)", err=True)):
        yield


def print_hits(hits: Hits, *, with_span: bool = False) -> None:
    """Print hits as a table, and how they were found."""
    contributions = any(ref.contributions for ref in hits)
    part = any(ref.aligned != ref.span for ref in hits)
    several = any(len(ref.lane_scores) > 1 for ref in hits)
    shown = {"span": with_span, "aligned": part, "agreement": several, "lanes": contributions}
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
        length, reward = str(about["length"]), format_number(about["total_reward"])
        place = shorten(str(ref.address))
        more = (cells[name] for name in extra)
        rows.append((str(rank), f"{ref.score:.4f}", ref.episode_id, about["env_id"], length, reward, *more, place))
    print_table(columns, rows)
    _print_spaces(hits)
    for note in hits.answered.notes:
        typer.echo(printable(note), err=True)
    how = "exact" if hits.exact else "approximate"
    typer.echo(f"{plural(len(hits), 'hit')}, {how}, {hits.milliseconds:.1f} ms")
    if hits.missing:
        typer.echo(
            f"{hits.missing} skipped: their files are gone or changed; re-ingest them from their new location",
            err=True,
        )
    if (explained := hits.explained) is not None:
        steps = ", ".join(f"{name} {spent:.2f} ms" for name, spent in explained.milliseconds.items())
        scored = f"{explained.scored} of {explained.passing} filtered vectors scored by {explained.kernel}"
        lists = f"{explained.lists} of {explained.all_lists} lists visited, {explained.tail} in the tail"
        typer.echo(f"index: {explained.route}; {scored}, {lists}; {steps}")


def _print_spaces(hits: Hits) -> None:
    """Print the Spaces that were searched, if there were others to choose from, or they differ in lanes."""
    from bridge.spaces.identity import describe

    spaces, others = hits.answered.spaces, hits.answered.others
    if not others and len({space.lanes for space in spaces}) < 2:
        return
    typer.echo(f"searched {printable('; '.join(map(describe, spaces)))}", err=True)
    if others:
        listed = printable("; ".join(map(describe, others)))
        typer.echo(f"also available (--embedder, --lanes, --windows or --env): {listed}", err=True)


def read_query(text: str, archive: Path | str, span: tuple[int | None, int | None] | None = None) -> Query:
    """Return the file or array that a text names, or a span of it: as `span` [start, stop), or as NAME@START:STOP."""
    import numpy as np

    from bridge.episodes.open import exists
    from wshard.errors import QueryError
    from wshard.open import local_path
    from wshard.types import Array

    address = EpisodeAddress.parse(text)
    if span is None:
        found = EpisodeSpan.parse(text)
        address, span = found.address, None if (found.start, found.stop) == (0, None) else (found.start, found.stop)
    path = Path(local_path(address.uri))
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
    place = str(address) if address.key else Path(local_path(address.uri))
    return place if span is None else (place, *span)
