"""The verb `moments`: spans of episodes like timesteps of one, as a table or JSON."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridge.cli.index import IndexOption
from bridge.cli.options import (
    EmbedderOption,
    LanesOption,
    TimeoutOption,
    WindowsOption,
    index_target,
    parse_lanes,
    parse_windows,
)
from bridge.cli.search import EXAMPLE, compiling_told, hits_as_json, print_hits, read_query
from catalog.cli.common import ArchiveOption, EnvOption, MinLengthOption, RewardOption, WhereOption, parse_range
from wshard.cli.common import JsonOption, print_json, reported

if TYPE_CHECKING:
    from bridge.results import Hits


@reported()
def moments(
    query: Annotated[str | None, typer.Argument(help=f"{EXAMPLE}.")] = None,
    start: Annotated[int | None, typer.Option("--from", help="First timestep that asks (default: 0).")] = None,
    stop: Annotated[int | None, typer.Option("--to", help="Timestep behind the last that asks (default: end).")] = None,
    like: Annotated[
        list[str] | None, typer.Option(help="A further example, as QUERY; may be repeated.", metavar="QUERY")
    ] = None,
    unlike: Annotated[
        list[str] | None, typer.Option(help="A counter-example, as QUERY; may be repeated.", metavar="QUERY")
    ] = None,
    archive: ArchiveOption = None,
    index: IndexOption = None,
    timeout: TimeoutOption = None,
    top: Annotated[int, typer.Option("--top", "-k", min=1, help="How many hits.")] = 10,
    exclude_self: Annotated[bool, typer.Option("--exclude-self", help="Leave out the episode that asks.")] = False,
    per_episode: Annotated[int | None, typer.Option(min=1, help="How many of one episode at most.")] = None,
    min_score: Annotated[float | None, typer.Option(help="No hits below this score.")] = None,
    max_overlap: Annotated[float, typer.Option(min=0, max=0.99, help="Of two moments of one episode.")] = 0.3,
    refine: Annotated[bool, typer.Option(help="Find exact bounds on the lanes in the files.")] = True,
    windows: WindowsOption = None,
    env: EnvOption = None,
    reward: RewardOption = None,
    min_length: MinLengthOption = None,
    where: WhereOption = None,
    embedder: EmbedderOption = None,
    lanes: LanesOption = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say how the index found the windows.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Find the moments most like timesteps of an episode: where they start and end, and which steps meet."""
    from bridge.search.retriever import TrajectoryRetriever
    from catalog.location import archive_named

    if query is None and not like:
        raise typer.BadParameter("expected QUERY or --like, found neither")
    if query is None and (start, stop) != (None, None):
        raise typer.BadParameter("--from and --to: expected QUERY beside them; an example is QUERY@START:STOP")
    if start is not None and stop is not None and start >= stop:
        raise typer.BadParameter(f"--from and --to: expected a span with timesteps, found {start}:{stop}")
    named = archive_named(archive)
    target, span = index_target(index, named, timeout), None if start is None and stop is None else (start, stop)
    asked: dict[str, Any] = {"refine": refine, "max_overlap": max_overlap, "per_episode": per_episode}
    asked |= {"min_score": min_score, "exclude_self": exclude_self, "explain": explain, "where": where}
    asked |= {"windows": None if windows is None else parse_windows(windows)}
    opened = TrajectoryRetriever(target, embedder, lanes=parse_lanes(lanes), archive=named)
    with compiling_told() if refine else nullcontext(), opened as retriever:
        asked |= {"like": [read_query(one, named) for one in like or ()]}
        asked |= {"unlike": [read_query(one, named) for one in unlike or ()]}
        wanted = None if query is None else read_query(query, named, span)
        hits = retriever.search_moments(wanted, top, env or None, min_length, parse_range(reward), **asked)
    if as_json:
        print_json(_as_json(hits))
    else:
        print_hits(hits, with_span=True)
        if 0 < len(hits) < top and not hits.missing:
            limits = {"--per-episode": per_episode, "--min-score": min_score}
            named = ", ".join(["--max-overlap", *(name for name, limit in limits.items() if limit is not None)])
            typer.echo(f"fewer than {top}: whatever else passes is left out by {named}", err=True)


def _as_json(hits: Hits) -> dict[str, Any]:
    told = hits_as_json(hits)
    for hit, ref in zip(told["items"], hits, strict=True):
        hit |= {"lane_scores": dict(ref.lane_scores), "alignment": ref.alignment, "remaining": ref.remaining}
    return told
