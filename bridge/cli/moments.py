"""The verb `moments`: similar spans of episodes, as a table or JSON."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bridge.cli.options import (
    EmbedderOption,
    ExcludeSelfOption,
    ExplainOption,
    IndexOption,
    LanesOption,
    LikeOption,
    MinScoreOption,
    TimeoutOption,
    TopOption,
    UnlikeOption,
    WindowsOption,
    index_target,
    parse_lanes,
    parse_windows,
)
from bridge.cli.search import EXAMPLE, print_hits, read_query, report_compiling
from catalog.cli.common import ArchiveOption, EnvOption, MinLengthOption, RewardOption, WhereOption, parse_range
from wshard.cli.common import JsonOption, print_json, reported


@reported()
def moments(
    query: Annotated[str | None, typer.Argument(help=f"{EXAMPLE}.")] = None,
    start: Annotated[int | None, typer.Option("--from", help="First timestep of the query (default: 0).")] = None,
    stop: Annotated[int | None, typer.Option("--to", help="End of the query span (exclusive; default: end).")] = None,
    like: LikeOption = None,
    unlike: UnlikeOption = None,
    archive: ArchiveOption = None,
    index: IndexOption = None,
    timeout: TimeoutOption = None,
    top: TopOption = 10,
    exclude_self: ExcludeSelfOption = False,
    per_episode: Annotated[int | None, typer.Option(min=1, help="Maximum number of hits per episode.")] = None,
    min_score: MinScoreOption = None,
    max_overlap: Annotated[
        float, typer.Option(min=0, max=0.99, help="Maximum overlap of two moments of one episode.")
    ] = 0.3,
    refine: Annotated[bool, typer.Option(help="Refine the bounds by aligning the lanes in the files.")] = True,
    windows: WindowsOption = None,
    env: EnvOption = None,
    reward: RewardOption = None,
    min_length: MinLengthOption = None,
    where: WhereOption = None,
    embedder: EmbedderOption = None,
    lanes: LanesOption = None,
    explain: ExplainOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find moments similar to a span of an episode, with exact bounds and a timestep alignment."""
    from bridge.search.retriever import TrajectoryRetriever
    from catalog.location import archive_named

    if query is None and not like:
        raise typer.BadParameter("expected QUERY or --like")
    if query is None and (start, stop) != (None, None):
        raise typer.BadParameter("--from and --to require QUERY; for --like append @START:STOP")
    if start is not None and stop is not None and start >= stop:
        raise typer.BadParameter(f"--from and --to: expected FROM < TO, found {start}:{stop}")
    named = archive_named(archive)
    target, span = index_target(index, named, timeout), None if start is None and stop is None else (start, stop)
    options: dict[str, Any] = {"refine": refine, "max_overlap": max_overlap, "per_episode": per_episode}
    options |= {"min_score": min_score, "exclude_self": exclude_self, "explain": explain, "where": where}
    options |= {"windows": None if windows is None else parse_windows(windows)}
    opened = TrajectoryRetriever(target, embedder, lanes=parse_lanes(lanes), archive=named)
    with report_compiling(), opened as retriever:
        options |= {"like": [read_query(one, named) for one in like or ()]}
        options |= {"unlike": [read_query(one, named) for one in unlike or ()]}
        example = None if query is None else read_query(query, named, span)
        hits = retriever.search_moments(example, top, env or None, min_length, parse_range(reward), **options)
    if as_json:
        from bridge.present.hits import present_hits

        print_json(present_hits(hits, moments=True))
    else:
        print_hits(hits, with_span=True)
        if 0 < len(hits) < top and not hits.missing:
            limits = {"--per-episode": per_episode, "--min-score": min_score}
            named = ", ".join(["--max-overlap", *(name for name, limit in limits.items() if limit is not None)])
            typer.echo(f"fewer than {top}: other candidates were excluded by {named}", err=True)
