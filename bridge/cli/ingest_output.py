"""What the verbs that bring episodes into an archive print of a run."""

from __future__ import annotations

import json
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Final

import typer

from bridge.cli.output import print_files, print_notes
from wshard.cli.common import print_json, printable
from wshard.core.episode.protocol import OWN_FORMAT
from wshard.core.messages import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bridge.ingest.report import IngestReport

_SUFFIXES: Final = 5  # listed by name
WATCHED: Final = ("new", "changed", "moved", "unchanged", "embedded", "tasks")
"""What is counted of batches of watched files."""


def print_batch(report: IngestReport, *, as_json: bool) -> None:
    """Print what became of a batch of watched files."""
    if as_json:
        from bridge.present.reports import present_ingest

        typer.echo(json.dumps(present_ingest(report)))
        return
    _print_changes(report)
    if report.delayed is not None:
        typer.echo(f"index delayed: {printable(report.delayed)}; the vectors are safe in the catalog", err=True)
    counts = {name: getattr(report, name) for name in WATCHED}
    typer.echo(summarise_counts({**counts, "failed": len(report.failed)}))


def print_report(report: IngestReport, place: str, *, as_json: bool) -> None:
    """Print what an ingest did: what calls for a decision on stderr, the counts on stdout; or JSON."""
    from bridge.present.reports import COUNTS, present_ingest

    if as_json:
        print_json(present_ingest(report))
        return
    is_news = bool(report.new or report.changed or report.embedded)  # else it was said before
    if is_news:
        print_files("catalogued, not embedded", [(str(one.address), one.error) for one in report.unembedded])
    _print_changes(report)
    _print_data(report)
    _print_compared(report, is_news=is_news)
    if report.unread or report.skipped:
        _print_unread(report)
    _print_delayed(report)
    counts = summarise_counts({**{name: getattr(report, name) for name in COUNTS}, "failed": len(report.failed)})
    typer.echo(f"{printable(place)}: {counts} in {report.seconds:.1f} s")


def _print_changes(report: IngestReport) -> None:
    """Print which episodes others replaced, and which failed."""
    print_files("replaced", [(one.path, str(one)) for one in report.replaced])
    if report.earlier is not None:
        typer.echo(f"read otherwise before: {report.earlier}", err=True)
    print_notes(report.stale)
    print_files("failed", [(str(one.address), one.error) for one in report.failed])


def _print_data(report: IngestReport) -> None:
    """Print what is odd in the data, how they are read, and what is left out."""
    from wshard.formats.layouts.named import is_guess

    flags, others = ([one for one in report.anomalies if one.flag == kind] for kind in (True, False))
    for heading, anomalies in (("flagged (wshard ls --where flag:NAME)", flags), ("read as they are", others)):
        by_path = groupby(anomalies, key=lambda one: one.path)
        print_files(heading, [(path, "; ".join(map(str, found))) for path, found in by_path])
    if {*report.formats} - {OWN_FORMAT}:
        advice = "; `wshard layout guess PATH` writes a guess down" if any(map(is_guess, report.formats)) else ""
        typer.echo(f"read as: {printable(_by_format(report.formats))}{advice}", err=True)
    print_notes([*map(str, report.left_out)])


def _print_compared(report: IngestReport, *, is_news: bool) -> None:
    """Print by which lanes how many episodes are compared, how many by nothing, and what may be done about it."""
    if len(report.spaces) > 1 or report.unembedded:
        parts = [f"{lanes}: {plural(count, 'episode')}" for lanes, count in report.spaces.items()]
        if report.unembedded:
            parts.append(f"nothing: {plural(len(report.unembedded), 'episode')} (wshard ls --where '-vectors:1..')")
        typer.echo(f"compared by {printable('; '.join(parts))}", err=True)
    if len(report.spaces) > 1:
        typer.echo("searches compare two episodes by the lanes that both have", err=True)
    if is_news:
        print_notes(report.picked)
        print_notes(report.alike)


def _print_unread(report: IngestReport) -> None:
    """Print why files are not read, and how to describe those of arrays and tables that nothing says how to read."""
    from bridge.episodes.discover import NO_LAYOUT
    from wshard.formats.base import OWN_DATA
    from wshard.formats.layouts.guessing.reference import NO_COLUMN
    from wshard.formats.table import how_to_describe

    print_files("not read", [*report.unread.items()], most_lines=1)
    reasons = Counter(why for why in report.unread.values() if why.startswith(NO_LAYOUT))
    for reason, _ in reasons.most_common(1):
        file = next(file for file, why in report.unread.items() if why == reason)
        typer.echo(printable(how_to_describe(file)), err=True)
    if any(reason.endswith(NO_COLUMN) for reason in reasons):
        typer.echo(
            "or name the column of times of such tables: --time-column NAME, or of episodes: --episode-column NAME",
            err=True,
        )
    if report.skipped:
        typer.echo(f"skipped: {_by_suffix(report.skipped)}: unrecognized format; {OWN_DATA}", err=True)


def _print_delayed(report: IngestReport) -> None:
    """Print what a later run, or a search, has to make up for."""
    if report.delayed is not None:
        typer.echo(f"index delayed: {printable(report.delayed)}", err=True)
        typer.echo("the vectors are safe in the catalog; run the same command again to catch up", err=True)
    if report.unprepared is not None:
        text = printable(report.unprepared)
        typer.echo(f"neighbours or timesteps not stored yet, searches do so: {text}", err=True)
    if report.missing:
        how = "`wshard fsck` lists them, --prune removes their episodes"
        typer.echo(f"missing: catalogued files not found; {how}", err=True)


def summarise_counts(counts: Mapping[str, int]) -> str:
    """Return "3 new, 3 embedded, 1 failed"; "nothing to do" where nothing but failures is counted."""
    counted = ", ".join(f"{count} {name}" for name, count in counts.items() if count and name != "failed")
    return (counted or "nothing to do") + (f", {counts['failed']} failed" if counts["failed"] else "")


def _by_format(formats: Mapping[str, tuple[int, int]]) -> str:
    """Return "lerobot: 312 episodes of 3 locations; layout 'sb3-expert': 100 episodes of 1 location"."""
    from wshard.formats.layouts.named import describe_layout

    return "; ".join(
        f"{describe_layout(name)}: {plural(episodes, 'episode')} of {plural(locations, 'location')}"
        for name, (locations, episodes) in formats.items()
    )


def _by_suffix(skipped: Mapping[str, int]) -> str:
    """Return "12 .json, 3 .mp4", the most frequent first; all but the first few suffixes as one number."""
    named = [f"{count} {suffix or 'without suffix'}" for suffix, count in [*skipped.items()][:_SUFFIXES]]
    rest_count = sum([*skipped.values()][_SUFFIXES:])
    return printable(", ".join([*named, *([f"{rest_count} others"] if rest_count else [])]))
