"""`inspect`, `verify` and `cat` for episodes in locations of other formats, and for single ones by address."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from wshard.cli.common import print_json, printable
from wshard.core.episode.protocol import EpisodeAddress, parse_read_as
from wshard.core.messages import plural
from wshard.errors import FormatWarning, StepError, WShardError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wshard.core.episode.protocol import EpisodeReader, EpisodeSpan
    from wshard.training.conversion.jobs import ConversionJob

_MAX_LISTED: Final = 20  # episodes that `inspect` lists


def list_foreign(path: Path, how: str = "", unread: dict[str, str] | None = None) -> list[ConversionJob] | None:
    """Return the episodes that an argument names; None for a file of this project, or a folder to search for them.

    They are those of a location of another format, of all that are below a folder, of an address `PATH#KEY`, or the
    timesteps of one, `PATH#KEY@START:STOP`. how: reading options, if they are given. unread: as in list_jobs. Raises
    what list_jobs raises.
    """
    from wshard.core.chunks.files import is_episode
    from wshard.core.episode.protocol import EpisodeSpan
    from wshard.formats.detect import detect_format
    from wshard.formats.open import guess_format
    from wshard.training.conversion.jobs import list_jobs, locations_below

    if how or (path.is_file() and (how := guess_format(path))):
        return list_jobs([path], how, unread=unread)
    if path.exists():
        name = str(detect_format(path))
        found = [] if name else locations_below(EpisodeAddress(str(path)), unread=unread)
        below = [one for one in found if one.read_as or not is_episode(one.uri)]
        is_foreign = below or name not in ("", "wshard", "shardpack") or is_of_others(path)
        return list_jobs([EpisodeSpan(one) for one in below] or [path]) if is_foreign else None
    return list_jobs([path]) if path_of_argument(path).exists() else None


def is_of_others(path: Path) -> bool:
    """Return whether the name of a file says that other programs wrote it: opening it says what to do with it."""
    from wshard.formats.layouts.layout import may_have_layout
    from wshard.formats.table import is_pickle

    return path.is_file() and (may_have_layout(path.name) or is_pickle(path.name))


def list_objects(uri: str, how: str, unread: dict[str, str]) -> list[ConversionJob] | None:
    """Return the episodes that a URI names, as list_foreign for a path; None for a file of this project."""
    from wshard.formats.detect import detect_format
    from wshard.training.conversion.jobs import list_jobs

    return (
        None if not how and "#" not in uri and detect_format(uri) == "wshard" else list_jobs([uri], how, unread=unread)
    )


def is_parent(path: Path | str, jobs: Sequence[ConversionJob] | None) -> bool:
    """Return whether episodes that list_foreign listed are not in the argument itself, but below it."""
    return jobs is None or any(Path(job.span.address.uri) != path_of_argument(path) for job in jobs)


def path_of_argument(path: Path | str) -> Path:
    """Return the location in an argument, without a key and a span."""
    from wshard.core.episode.protocol import EpisodeSpan

    return Path(EpisodeSpan.parse(str(path)).address.uri)


def resolve_steps(span: EpisodeSpan, length: int) -> tuple[int, int]:
    """Return the timesteps [start, stop) of a span; raises StepError."""
    stop = length if span.stop is None else span.stop
    if not span.start <= stop <= length:
        raise StepError(f"{span.address}: expected timesteps within 0:{length}, found {span.start}:{stop}")
    return span.start, stop


# ---- inspect -------------------------------------------------------------------------------------------------------


def inspect_episodes(
    path: Path | str, jobs: Sequence[ConversionJob], unread: dict[str, str] | None, *, is_stated: bool
) -> None:
    """Print one episode with its lanes, or the episodes of a location. is_stated: the user said its layout.

    unread: for JSON, why files of a folder are not read, by path; None for text, where warnings say it.
    """
    from wshard.cli.inspect_text import print_report

    if is_parent(path, jobs):
        _print_locations(path, jobs, unread)
        return
    if len(jobs) != 1:
        _print_list(path, jobs, unread, is_stated=is_stated)
        return
    report = _report(jobs[0].span)
    if unread is not None:
        print_json(report | ({"unread": unread} if unread else {}))
    else:
        print_report(report)


def _report(span: EpisodeSpan) -> dict[str, Any]:
    from wshard.core.repair.describe import describe_episode
    from wshard.training.conversion.jobs import open_for_conversion

    address = span.address
    with open_for_conversion(address) as source, source.open(address.key) as episode:
        start, stop = resolve_steps(span, episode.length)
        blocks = [_describe_lane(episode, name, start, stop) for name in episode.lanes() if episode.has(name)]
        return {
            "path": str(address),
            "format": _format_of(address),
            "digest": episode.digest(),
            "episode": describe_episode(episode) | {"span": [start, stop]},
            "blocks": blocks,
            "section": None,
        }


def _describe_lane(episode: EpisodeReader, name: str, start: int, stop: int) -> dict[str, Any]:
    from wshard.core.repair.describe import describe_channels

    lane, stored = episode.lanes()[name], episode.stored(name)
    description: dict[str, Any] = {"block": name, "dtype": lane.dtype.value, "shape": [stop - start, *lane.shape]}
    description |= {"codec": stored.codec, "size": stored.bytes, "stored": stored.stored, "crc": ""}
    return description | describe_channels(episode, name, start, stop)


def _format_of(address: EpisodeAddress) -> str:
    """Return the name of the format that an address is read in: as it says, else as it is detected."""
    from wshard.formats.detect import detect_format

    return parse_read_as(address.read_as)[0] or str(detect_format(address.uri)) or "wshard"


def _format_below(address: EpisodeAddress) -> str:
    """Return the format of a location below a folder, "" of one that cannot be listed or fits several."""
    from wshard.core.chunks.files import is_episode

    return parse_read_as(address.read_as)[0] or ("wshard" if is_episode(address.uri) else "")


def _print_list(
    path: Path | str, jobs: Sequence[ConversionJob], unread: dict[str, str] | None, *, is_stated: bool
) -> None:
    from wshard.cli.inspect_text import shown_format

    items = _list_infos(jobs if unread is not None else jobs[:_MAX_LISTED])
    summary = {
        "path": str(path),
        "format": _format_of(jobs[0].span.address if jobs else EpisodeAddress(str(path))),
        "total": len(jobs),
    }
    if unread is not None:
        print_json(summary | {"items": items, "unread": unread})
        return
    for name, value in {"path": path, "format": shown_format(str(summary["format"])), "episodes": len(jobs)}.items():
        typer.echo(f"{name:<11}: {printable(str(value))}")
    rows = [[one["key"], one["episode_id"], one["env_id"], one["length"], one["task"] or ""] for one in items]
    _print_table(("key", "episode", "env", "length", "task"), rows)
    if len(jobs) > _MAX_LISTED:
        typer.echo(f"and {plural(len(jobs) - _MAX_LISTED, 'episode')} more")
    as_here = " with the same --layout" if is_stated else ""
    typer.echo(f"one of them: wshard inspect '{printable(str(path))}#KEY'{as_here}")


def _print_locations(path: Path | str, jobs: Sequence[ConversionJob], unread: dict[str, str] | None) -> None:
    """Print the locations below a folder with their formats and numbers of episodes."""
    from wshard.cli.inspect_text import shown_format

    counts = Counter((job.span.address.uri, _format_below(job.span.address)) for job in jobs)
    items = [{"path": uri, "format": name, "total": count} for (uri, name), count in counts.items()]
    if unread is not None:
        print_json({"path": str(path), "format": "", "total": len(jobs), "items": items, "unread": unread})
        return
    for title, value in {"path": path, "locations": len(items), "episodes": len(jobs)}.items():
        typer.echo(f"{title:<11}: {printable(str(value))}")
    shown = items[:_MAX_LISTED]
    rows = [(item["path"], shown_format(str(item["format"])), item["total"]) for item in shown]
    _print_table(("location", "format", "episodes"), rows)
    if len(items) > len(shown):
        typer.echo(f"and {plural(len(items) - len(shown), 'location')} more")
    typer.echo(f"one of them: wshard inspect '{printable(str(shown[0]['path']))}'")


def _print_table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*titles, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(printable(str(cell))) for cell in row))
    console = Console(highlight=False)
    console.print(table, soft_wrap=True) if console.is_terminal else Console(width=1000).print(table)


def _list_infos(jobs: Iterable[ConversionJob]) -> list[dict[str, Any]]:
    from wshard.training.conversion.jobs import OpenSources

    sources, items = OpenSources(), []
    try:
        for job in jobs:
            address = job.span.address
            item: dict[str, Any] = {"key": address.key, "episode_id": "", "env_id": "", "length": 0, "task": None}
            try:
                info = sources.source_of(address).info(address.key)
            except (WShardError, OSError) as error:
                items.append(item | {"task": f"error: {error}"})
                continue
            item |= {"episode_id": info.id, "env_id": info.env_id, "length": info.length}
            items.append(item | {"task": info.metadata.get("task")})
    finally:
        sources.close()
    return items


# ---- verify --------------------------------------------------------------------------------------------------------


def check_episode(job: ConversionJob, *, strict: bool) -> dict[str, Any]:
    """Return the report of `verify` on an episode: whether all of its data can be read and decoded.

    strict: report each FormatWarning as a problem, too.
    """
    from wshard.training.conversion.jobs import open_for_conversion

    address, problems, count = job.span.address, list[str](), 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with open_for_conversion(address) as source, source.open(address.key) as episode:
                count = len(episode.lanes())
                episode.verify()
        except (WShardError, OSError) as error:
            problems.append(str(error))
    if strict:
        problems += dict.fromkeys(str(item.message) for item in caught if issubclass(item.category, FormatWarning))
    rows = [{"block": "episode", "error": error} for error in problems]
    return {"path": os.fspath(str(address)), "blocks": count, "problems": rows, "repair": None}
