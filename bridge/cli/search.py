"""The verbs `search` and `moments`: similar episodes, windows or spans, as a table or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridge.cli import options
from catalog.cli import common
from catalog.cli.common import format_number, parse_range, print_table, shorten
from wshard.cli.common import JsonOption, parse_span, print_json, printable, reported
from wshard.messages import plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridge.archive import Archive
    from bridge.results import Hits
    from bridge.search.retriever import TrajectoryRetriever

EXAMPLE = "Episode file, .npy array [T, D], or id of a catalogued episode; append @START:STOP for a span of timesteps"


@reported()
def search(
    query: Annotated[str | None, typer.Argument(help=f"{EXAMPLE}. Optional with --like or --text.")] = None,
    archive: common.ArchiveOption = None,
    index: options.IndexOption = None,
    timeout: options.TimeoutOption = None,
    top: options.TopOption = 10,
    span: Annotated[str | None, typer.Option(help="Span START:STOP of the query.")] = None,
    like: options.LikeOption = None,
    unlike: options.UnlikeOption = None,
    text: Annotated[
        str | None, typer.Option(help="Text of task descriptions or notes; alone, or combined with a query.")
    ] = None,
    sentences: options.SentencesOption = None,
    moments: Annotated[
        bool, typer.Option("--moments", help="Search windows instead of episodes (see ingest --windows).")
    ] = False,
    windows: options.WindowsOption = None,
    distinct: Annotated[bool, typer.Option("--distinct", help="With --moments: at most one hit per episode.")] = False,
    env: common.EnvOption = None,
    reward: common.RewardOption = None,
    min_length: common.MinLengthOption = None,
    where: common.WhereOption = None,
    embedder: options.EmbedderOption = None,
    lanes: options.SearchedLanesOption = None,
    expand: Annotated[
        int | None, typer.Option(min=0, help="Query expansion: number of top hits to add to the query.")
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Rank only by the cosine similarity of whole episodes.")
    ] = False,
    least: Annotated[bool, typer.Option("--least", help="Rank the least similar first.")] = False,
    min_score: options.MinScoreOption = None,
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
    exclude_self: options.ExcludeSelfOption = False,
    explain: options.ExplainOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find episodes or windows similar to a query, to examples (minus counter-examples), or by text."""
    if query is None and not like and text is None:
        raise typer.BadParameter("expected at least one of QUERY, --like and --text")
    if distinct and not (moments or windows is not None):
        raise typer.BadParameter("--distinct requires --moments: a search for episodes returns each only once")
    if sentences is not None and text is None:
        raise typer.BadParameter("--sentences requires --text")
    used = None if span is None else parse_span(span)
    wanted: dict[str, Any] = {"text": text, "expand": expand, "plain": plain, "least": least, "where": where}
    wanted |= {"min_score": min_score, "diversity": diversity, "contributions": contributions, "explain": explain}
    wanted |= {"alignment": alignment, "exclude_self": exclude_self, "like": like or (), "unlike": unlike or ()}
    with options.open_named(archive, index, timeout) as opened:
        retriever = _retriever(opened, embedder, lanes, sentences=sentences)
        find: Callable[..., Hits] = retriever.search_similar_episodes
        if moments or windows is not None:
            find = retriever.search_similar_timesteps
            wanted |= {"windows": None if windows is None else options.parse_windows(windows), "distinct": distinct}
        example = None if query is None else query if used is None else (query, *used)
        hits = find(example, top, env or None, min_length, parse_range(reward), **wanted)
    if as_json:
        from bridge.present.hits import present_hits

        print_json(present_hits(hits))
    else:
        print_hits(hits, with_span=moments or windows is not None)


@reported()
def moments(
    query: Annotated[str | None, typer.Argument(help=f"{EXAMPLE}.")] = None,
    start: Annotated[int | None, typer.Option("--from", help="First timestep of the query (default: 0).")] = None,
    stop: Annotated[int | None, typer.Option("--to", help="End of the query span (exclusive; default: end).")] = None,
    like: options.LikeOption = None,
    unlike: options.UnlikeOption = None,
    archive: common.ArchiveOption = None,
    index: options.IndexOption = None,
    timeout: options.TimeoutOption = None,
    top: options.TopOption = 10,
    exclude_self: options.ExcludeSelfOption = False,
    per_episode: Annotated[int | None, typer.Option(min=1, help="Maximum number of hits per episode.")] = None,
    min_score: options.MinScoreOption = None,
    max_overlap: Annotated[
        float, typer.Option(min=0, max=0.99, help="Maximum overlap of two moments of one episode.")
    ] = 0.3,
    refine: Annotated[bool, typer.Option(help="Refine the bounds by aligning the lanes in the files.")] = True,
    windows: options.WindowsOption = None,
    env: common.EnvOption = None,
    reward: common.RewardOption = None,
    min_length: common.MinLengthOption = None,
    where: common.WhereOption = None,
    embedder: options.EmbedderOption = None,
    lanes: options.SearchedLanesOption = None,
    explain: options.ExplainOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find moments similar to a span of an episode, with exact bounds and a timestep alignment."""
    if query is None and not like:
        raise typer.BadParameter("expected QUERY or --like")
    if query is None and (start, stop) != (None, None):
        raise typer.BadParameter("--from and --to require QUERY; for --like append @START:STOP")
    if start is not None and stop is not None and start >= stop:
        raise typer.BadParameter(f"--from and --to: expected FROM < TO, found {start}:{stop}")
    wanted: dict[str, Any] = {"refine": refine, "max_overlap": max_overlap, "per_episode": per_episode}
    wanted |= {"min_score": min_score, "exclude_self": exclude_self, "explain": explain, "where": where}
    wanted |= {"windows": None if windows is None else options.parse_windows(windows)}
    wanted |= {"like": like or (), "unlike": unlike or ()}
    with options.open_named(archive, index, timeout) as opened:
        retriever = _retriever(opened, embedder, lanes)
        example = None if query is None else (query, start, stop)
        hits = retriever.search_moments(example, top, env or None, min_length, parse_range(reward), **wanted)
    if as_json:
        from bridge.present.hits import present_hits

        print_json(present_hits(hits, moments=True))
    else:
        print_hits(hits, with_span=True)
        if 0 < len(hits) < top and not hits.missing:
            limits = {"--per-episode": per_episode, "--min-score": min_score}
            chosen = ", ".join(["--max-overlap", *(name for name, limit in limits.items() if limit is not None)])
            typer.echo(f"fewer than {top}: other candidates were excluded by {chosen}", err=True)


def _retriever(
    archive: Archive, embedder: str | None, lanes: str | None, *, sentences: str | None = None
) -> TrajectoryRetriever:
    from bridge.search.retriever import TrajectoryRetriever

    return TrajectoryRetriever(archive, embedder, lanes=options.parse_lanes(lanes), sentences=sentences)


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
        metadata = ref.metadata
        cells = {
            "span": f"{ref.span[0]}:{ref.span[1]}",
            "aligned": f"{ref.aligned[0]}:{ref.aligned[1]}",
            "agreement": " ".join(f"{name} {agreed:.2f}" for name, agreed in ref.lane_scores.items()),
            "lanes": " ".join(f"{name} {added:+.2f}" for name, added in ref.contributions.items()),
        }
        length, reward = str(metadata["length"]), format_number(metadata["total_reward"])
        place = shorten(str(ref.address))
        more = (cells[name] for name in extra)
        rows.append((str(rank), f"{ref.score:.4f}", ref.episode_id, metadata["env_id"], length, reward, *more, place))
    print_table(columns, rows)
    _print_spaces(hits)
    for note in hits.answered.notes:
        typer.echo(printable(note), err=True)
    missed = f"; {printable(hits.answered.missed)}" if hits.answered.left_out else ""
    typer.echo(f"{plural(len(hits), 'hit')}, {hits.certainty}, {hits.milliseconds:.1f} ms{missed}")
    if hits.missing:
        skipped = f"{hits.missing} skipped: their files are gone or changed"
        typer.echo(f"{skipped}: wshard ingest FOLDER takes in what was changed or moved", err=True)
    if (explained := hits.explained) is not None:
        steps = ", ".join(f"{name} {spent:.2f} ms" for name, spent in explained.milliseconds.items())
        scored = f"{explained.scored} vectors scored, {explained.passing} pass the filter"
        lists = f"{explained.lists} of {explained.all_lists} lists visited, {explained.tail} in the tail"
        typer.echo(f"index: {explained.route}; {scored}; {lists}; {steps}")


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
