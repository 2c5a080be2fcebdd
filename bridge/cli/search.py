"""The verbs `search` and `moments`: similar episodes, windows or spans, as a table or JSON."""

from __future__ import annotations

from textwrap import shorten as shorten_text
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bridge.cli import options
from bridge.search.query.options import MomentOptions, SearchOptions
from catalog.cli import common
from catalog.cli.common import format_number, parse_range, print_table, shorten
from wshard.cli.common import JsonOption, parse_span, print_json, printable, reported
from wshard.core.messages import plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bridge.archive import Archive
    from bridge.hits import Hits

EXAMPLE = "Episode file, .npy array [T, D], or id of a catalogued episode; append @START:STOP for a span of timesteps"

_NOTES: Final = 2  # without --explain
_WIDTH: Final = 200
_TEXTS: Final = 2  # columns of metadata
_LABELS: Final = ("task", "label", "behaviour", "behavior")

ImageOption = Annotated[
    str | None, typer.Option("--image", help="Picture to find: a file, or EPISODE#CAMERA@FRAME.", metavar="FILE")
]


@reported()
@options.searching(SearchOptions)
def search(
    query: Annotated[
        str | None, typer.Argument(help=f"{EXAMPLE}. Optional with --like, --text, --words or --image.")
    ] = None,
    image: ImageOption = None,
    archive: common.ArchiveOption = None,
    index: options.IndexOption = None,
    timeout: options.TimeoutOption = None,
    span: Annotated[str | None, typer.Option(help="Span START:STOP of the query.")] = None,
    text_encoder: options.TextEncoderOption = None,
    env: common.EnvOption = None,
    reward: common.RewardOption = None,
    min_length: common.MinLengthOption = None,
    max_length: common.MaxLengthOption = None,
    where: common.WhereOption = None,
    embedder: options.EmbedderOption = None,
    lanes: options.SearchedLanesOption = None,
    as_json: JsonOption = False,
    **chosen: Any,
) -> None:
    """Find episodes or windows similar to a query, to examples (minus counter-examples), or by text."""
    if query is None and not chosen["like"] and {chosen["text"], chosen["words"], image} == {None}:
        raise typer.BadParameter("expected at least one of QUERY, --like, --text, --words and --image")
    if chosen["distinct"] and not (chosen["windows_only"] or chosen["windows"]):
        raise typer.BadParameter("--distinct requires --windows-only: a search for episodes returns each only once")
    if text_encoder is not None and chosen["text"] is None:
        raise typer.BadParameter("--text-encoder requires --text")
    example = query if query is None or span is None else (query, *parse_span(span))
    with options.open_named(archive, index, timeout) as opened:
        filters = _read_filters(env, (min_length, max_length), reward, where)
        given = {**filters, **options.read_chosen(chosen), "image": image}
        _describe(opened, query, given, lanes, embedder)
        hits = opened.search(
            example, embedder=embedder, lanes=options.parse_lanes(lanes), text_encoder=text_encoder, **given
        )
        names = opened.catalog.query.short_names(hits)
    if as_json:
        from bridge.present.hits import present_hits

        print_json(present_hits(hits, names))
    else:
        with_span = bool(chosen["windows_only"] or chosen["windows"])
        print_hits(hits, names, with_span=with_span, whole=chosen["explain"])


@reported()
@options.searching(MomentOptions)
def moments(
    query: Annotated[str | None, typer.Argument(help=f"{EXAMPLE}.")] = None,
    image: ImageOption = None,
    start: Annotated[int | None, typer.Option("--from", help="First timestep of the query (default: 0).")] = None,
    stop: Annotated[int | None, typer.Option("--to", help="End of the query span (exclusive; default: end).")] = None,
    archive: common.ArchiveOption = None,
    index: options.IndexOption = None,
    timeout: options.TimeoutOption = None,
    env: common.EnvOption = None,
    reward: common.RewardOption = None,
    min_length: common.MinLengthOption = None,
    max_length: common.MaxLengthOption = None,
    where: common.WhereOption = None,
    embedder: options.EmbedderOption = None,
    lanes: options.SearchedLanesOption = None,
    as_json: JsonOption = False,
    **chosen: Any,
) -> None:
    """Find moments similar to a span of an episode, with exact bounds and a timestep alignment."""
    if query is None and not chosen["like"] and chosen["words"] is None and image is None:
        raise typer.BadParameter("expected QUERY, --like, --words or --image")
    if query is None and (start, stop) != (None, None):
        raise typer.BadParameter("--from and --to require QUERY; for --like append @START:STOP")
    if start is not None and stop is not None and start >= stop:
        raise typer.BadParameter(f"--from and --to: expected FROM < TO, found {start}:{stop}")
    example = query if (start, stop) == (None, None) else (query, start, stop)
    with options.open_named(archive, index, timeout) as opened:
        filters = _read_filters(env, (min_length, max_length), reward, where)
        given = {**filters, **options.read_chosen(chosen), "image": image}
        _describe(opened, query, given, lanes, embedder)
        hits = opened.moments(example, embedder=embedder, lanes=options.parse_lanes(lanes), **given)
        names = opened.catalog.query.short_names(hits)
    if as_json:
        from bridge.present.hits import present_hits

        print_json(present_hits(hits, names, moments=True))
    else:
        print_hits(hits, names, with_span=True, whole=chosen["explain"])
        if 0 < len(hits) < chosen["top_k"] and not hits.missing:
            limits = {"--per-episode": chosen["per_episode"], "--min-score": chosen["min_score"]}
            limiting = ", ".join(["--max-overlap", *(name for name, limit in limits.items() if limit is not None)])
            typer.echo(f"fewer than {chosen['top_k']}: other candidates were excluded by {limiting}", err=True)


def _describe(
    opened: Archive, query: str | None, given: Mapping[str, Any], lanes: str | None, embedder: str | None
) -> None:
    """Describe the camera frames that a picture will be compared with, and show the progress of it."""
    from bridge.search.query.options import CommonOptions
    from bridge.search.query.picture_question import read_question
    from bridge.support.progress import show_progress

    seen = (given["image"], given.get("words"))
    if seen == (None, None) and read_question(opened.catalog, query, CommonOptions())[0] is None:
        return
    retriever = opened.retriever(embedder, lanes=options.parse_lanes(lanes))
    named = {name: given[name] for name in ("env_id", "min_length", "reward_range", "where")}
    with show_progress() as progress:
        retriever.pictures.describe(CommonOptions(**named).filters, progress, stride=given.get("stride"))


def _read_filters(
    env: list[str] | None, lengths: tuple[int | None, int | None], reward: str | None, where: str | None
) -> dict[str, Any]:
    """Return the filters of a search as the archive takes them."""
    from catalog.filters.parse import parse_where
    from catalog.filters.where import all_of, build_where

    least, most = lengths
    chosen = where if most is None else all_of(parse_where(where or ""), build_where(max_length=most))
    return {"env_id": env or None, "min_length": least, "reward_range": parse_range(reward), "where": chosen}


def print_hits(hits: Hits, names: Sequence[str], *, with_span: bool = False, whole: bool = False) -> None:
    """Print hits by their short names as a table, and how they were found; whole: all notes, in full."""
    contributions = any(ref.contributions for ref in hits)
    part = any(ref.aligned != ref.span for ref in hits)
    several = any(len(ref.lane_scores) > 1 for ref in hits)
    differ = len({ref.compared_by for ref in hits if not ref.seen}) > 1
    shown = {
        "span": with_span,
        "camera": any(ref.seen for ref in hits),
        ">frame": any(ref.seen for ref in hits),
        ">time": any(ref.seen and ref.seen.seconds is not None for ref in hits),
        "aligned": part,
        "compared by": differ,
        "agreement": several,
        "lanes": contributions,
        "descriptors": any(ref.descriptors for ref in hits),
    }
    extra = [name for name, wanted in shown.items() if wanted]
    texts = find_telling_texts([ref.metadata for ref in hits])
    columns = (">rank", ">score", "episode", "env", *texts, ">length", ">reward", *extra, "/file")
    rows = []
    for rank, (ref, episode) in enumerate(zip(hits, names, strict=True), 1):
        metadata = ref.metadata
        cells = {
            "camera": ref.seen.camera.removeprefix("signal/") if ref.seen else "",
            ">frame": str(ref.seen.step) if ref.seen else "",
            ">time": f"{ref.seen.seconds:.2f} s" if ref.seen and ref.seen.seconds is not None else "",
            "span": f"{ref.span[0]}:{ref.span[1]}",
            "aligned": f"{ref.aligned[0]}:{ref.aligned[1]}",
            "compared by": ", ".join(name.removeprefix("signal/") for name in ref.compared_by),
            "agreement": " ".join(f"{name} {agreed:.2f}" for name, agreed in ref.lane_scores.items()),
            "lanes": " ".join(f"{name} {added:+.2f}" for name, added in ref.contributions.items()),
            "descriptors": " ".join(f"{name} {added:+.2f}" for name, added in ref.descriptors.items()),
        }
        length, reward = str(ref.length), format_number(ref.total_reward)
        place = shorten(str(ref.address))
        more = (cells[name] for name in extra)
        labels = (metadata.get(name) or "" for name in texts)
        rows.append((str(rank), f"{ref.score:z.4f}", episode, ref.env_id, *labels, length, reward, *more, place))
    print_table(columns, rows)
    _print_notes([*hits.answered.notes, *_name_spaces(hits)], whole=whole)
    text = hits.answered.missed if whole else _cut(hits.answered.missed, " ... (--explain: all)")
    missed = f"; {printable(text)}" if text else ""
    by_graph = ", ranked by: graph" if hits.answered.ranked_by == "graph" else ""
    typer.echo(f"{plural(len(hits), 'hit')}, {hits.certainty}{by_graph}, {hits.milliseconds:.1f} ms{missed}")
    if hits.missing:
        skipped = f"{hits.missing} skipped: their files are gone or changed"
        typer.echo(f"{skipped}: run `wshard ingest FOLDER` to pick up changed or moved files", err=True)
    if (explained := hits.explained) is not None:
        steps = ", ".join(f"{name} {spent:.2f} ms" for name, spent in explained.milliseconds.items())
        scored = f"{explained.scored} vectors scored, {explained.allowed} pass the filter"
        lists = f"{explained.lists} of {explained.all_lists} lists visited, {explained.tail} in the tail"
        typer.echo(f"index: {explained.route}; {scored}; {lists}; {steps}")


def find_telling_texts(hits: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys of metadata whose texts tell hits apart, at most two, the task or else the label first.

    Texts that every hit has another of are names, unless they are a task or label; what env tells is no news.
    """
    known = {tuple(one["env_id"] for one in hits)}
    found: list[str] = []
    for key in dict.fromkeys([*_LABELS, *(key for one in hits for key in one)]):
        values = tuple(one.get(key) for one in hits)
        texts = {*values} if all(value is None or isinstance(value, str) for value in values) else {None}
        is_name = key not in _LABELS and len(texts) > max(1, len(hits) // 2)
        if len(texts) < 2 or is_name or any(len({*zip(values, one, strict=True)}) == len({*one}) for one in known):
            continue
        known.add(values)
        found.append(key)
    return found[:_TEXTS]


def _print_notes(notes: Sequence[str], *, whole: bool) -> None:
    """Print notes; at most two short ones unless the whole is wanted."""
    short = notes if whole else [_cut(note) for note in notes[:_NOTES]]
    for note in short:
        typer.echo(printable(note), err=True)
    if short != notes:
        typer.echo(f"{plural(len(notes), 'note')} in full: --explain", err=True)


def _cut(text: str, rest: str = " ...") -> str:
    """Return the beginning of a long text, by whole words and whole commands."""
    if len(text) <= _WIDTH:
        return text
    beginning = shorten_text(text, _WIDTH, placeholder="")
    if beginning.count("`") % 2 and (end := text.find("`", len(beginning))) >= 0:
        beginning = text[: end + 1]
    return beginning + rest if len(beginning) < len(text) else text


def _name_spaces(hits: Hits) -> list[str]:
    """Return the Spaces that were searched, if there were others to choose from, or they differ in lanes."""
    from bridge.spaces.identity import describe

    spaces, others = hits.answered.spaces, hits.answered.others
    if not others and len({space.lanes for space in spaces}) < 2:
        return []
    lines = [f"searched {'; '.join(map(describe, spaces))}"]
    if others:
        lines.append(f"also available (--embedder, --lanes, --windows or --env): {'; '.join(map(describe, others))}")
    return lines
