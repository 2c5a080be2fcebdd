"""Benchmark RB-T: does it transfer? Labelled sets of many kinds, half of which were never looked at while tuning.

Every set's episodes ask, disturbed in six ways as in RB-A, for the others of their label among all others: mean average
precision. Whole searches, also with half of the set in the archive and the other half asking. Series of the UCR and
UEA archives: accuracy of the first hit. Planted moments: recall among ten hits.
Prints Markdown tables; --out writes them and JSON.

    python benchmarks/retrieval/rb_t.py --half reported --out .bench/rb_t

Sets are recorded once into --cache; fixtures are taken from WSHARD_FIXTURES/retrieval where that is set.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import rb_outcome
from rb_a_disturb import DISTURBANCES
from rb_ranking import average_precisions
from rb_t_methods import archive_scores, methods, scanned
from rb_t_moments import KINDS, planted
from rb_t_outside import measure_whole
from rb_t_series import SERIES, TUNED_SERIES, load_series
from rb_t_series_methods import series_accuracy
from rb_t_sets import REAL, REPORTED, TUNED, load_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from rb_a_methods import Archive

    Scores = NDArray[np.float64]

_MEAN: Final = "mean"


@dataclass(frozen=True)
class Result:
    """One number: of a part (such as episodes), a set, a method and a disturbance; error: its standard one."""

    part: str
    name: str
    method: str
    disturbance: str
    value: float
    error: float


def measure_episodes(name: str, archive: Archive, cache: Path | None) -> Iterator[Result]:
    """Yield the results of all methods on one set; cache: where scans lie, None to leave them out."""
    queries = {kind: archive.queries(kind, 0) for kind in DISTURBANCES}
    answers = {
        method: {kind: ask(asked) for kind, asked in queries.items()}
        for method, make in methods(archive).items()
        for ask in [make()]
    }
    if cache is not None:
        answers |= scanned(archive, queries, cache / "rb_t" / name)
    answers |= archive_scores(archive, queries)
    for method, scores in answers.items():
        for kind in DISTURBANCES:
            found = average_precisions(scores[kind], archive.tasks, archive.asking)
            error = float(found.std() / np.sqrt(len(found)))
            yield Result("episodes", name, method, kind, float(found.mean()), error)
    print(f"  {name} is measured", flush=True)


def measure_series(names: Iterable[str], cache: Path) -> Iterator[Result]:
    """Yield the accuracies of the first hit."""
    for name in names:
        series = load_series(name, cache / "wheels")
        for method, right in series_accuracy(series).items():
            error = float(np.sqrt(right * (1 - right) / len(series.queries)))
            yield Result("series", name, method, "clean", right, error)
        print(f"  {name} is measured", flush=True)


def measure_moments(name: str, archive: Archive) -> Iterator[Result]:
    """Yield the recall of planted moments."""
    for method, kind, recall, bounds in planted(archive):
        yield Result("moments", name, method, kind, recall, 0.0)
        yield Result("bounds", name, method, kind, bounds, 0.0)
    print(f"  moments of {name} are measured", flush=True)


def measure_outside(name: str, archive: Archive) -> Iterator[Result]:
    """Yield what whole searches by episodes inside and outside find."""
    for place, method, precision, first in measure_whole(archive):
        yield Result("whole", name, method, place, precision, 0.0)
        yield Result("first", name, method, place, first, 0.0)
    print(f"  whole searches of {name} are measured", flush=True)


def whole_table(results: Sequence[Result]) -> str:
    """Return mean average precision (precision at 1) of whole searches, by where the queries are from."""
    mine = {(r.part, r.name, r.method, r.disturbance): r.value for r in results if r.part in {"whole", "first"}}
    kinds = [*dict.fromkeys((method, place) for _, _, method, place in mine)]
    names = [*dict.fromkeys(name for _, name, _, _ in mine)]
    lines = [f"| whole searches | {' | '.join(f'{place}, {method}' for method, place in kinds)} |"]
    lines.append("|---" * (len(kinds) + 1) + "|")
    for name in names:
        cells = [f"{mine['whole', name, *kind]:.3f} ({mine['first', name, *kind]:.3f})" for kind in kinds]
        lines.append(f"| {name} | {' | '.join(map(_short, cells))} |")
    means = [np.mean([[mine[part, name, *kind] for part in ("whole", "first")] for name in names], 0) for kind in kinds]
    lines.append(f"| {_MEAN} | {' | '.join(_short(f'{precision:.3f} ({first:.3f})') for precision, first in means)} |")
    return "\n".join(lines)


def episode_table(results: Sequence[Result]) -> str:
    """Return the table of all sets: clean / mean of the six."""

    def cell(rows: Sequence[Result]) -> str:
        clean = np.mean([row.value for row in rows if row.disturbance == "clean"])
        return _short(f"{clean:.3f}/{np.mean([row.value for row in rows]):.3f}")

    return _table([row for row in results if row.part == "episodes"], cell, "clean / mean of six")


def disturbance_table(results: Sequence[Result]) -> str:
    """Return the means over the sets by disturbance."""
    mine = [row for row in results if row.part == "episodes"]
    lines = [f"| mean of the sets | {' | '.join(DISTURBANCES)} |", "|---" * (len(DISTURBANCES) + 1) + "|"]
    for method in dict.fromkeys(row.method for row in mine):
        values = [
            np.mean([row.value for row in mine if row.method == method and row.disturbance == kind])
            for kind in DISTURBANCES
        ]
        lines.append(f"| {method} | {' | '.join(_short(f'{value:.3f}') for value in values)} |")
    return "\n".join(lines)


def moment_table(results: Sequence[Result]) -> str:
    """Return recall@10 / median error of the bounds by kind of query."""
    lines = [f"| moments | method | {' | '.join(KINDS)} |", "|---" * (len(KINDS) + 2) + "|"]
    mine = {(r.part, r.name, r.method, r.disturbance): r.value for r in results if r.part in {"moments", "bounds"}}
    for name, method in dict.fromkeys((row.name, row.method) for row in results if row.part == "moments"):
        cells = [
            f"{mine['moments', name, method, kind]:.3f} / {mine['bounds', name, method, kind]:.1f}" for kind in KINDS
        ]
        lines.append(f"| {name} | {method} | {' | '.join(map(_short, cells))} |")
    return "\n".join(lines)


def _table(mine: Sequence[Result], cell: object, what: str) -> str:
    names = [*dict.fromkeys(row.name for row in mine)]
    lines = [f"| {what} | {' | '.join(names)} | {_MEAN} |", "|---" * (len(names) + 2) + "|"]
    for method in dict.fromkeys(row.method for row in mine):
        rows = [row for row in mine if row.method == method]
        cells = [cell([row for row in rows if row.name == name]) for name in names]  # type: ignore[operator]
        lines.append(f"| {method} | {' | '.join([*cells, cell(rows)])} |")  # type: ignore[operator]
    return "\n".join(lines)


def _short(text: str) -> str:
    return text.replace("0.", ".") if "1.000" not in text else text.replace("0.", ".").replace("1.000", "1")


def report(results: Sequence[Result]) -> str:
    """Return all tables as Markdown."""
    series = [row for row in results if row.part == "series"]
    parts = [episode_table(results), disturbance_table(results)] if any(r.part == "episodes" for r in results) else []
    if any(row.part == "whole" for row in results):
        parts.append(whole_table(results))
    if series:
        parts.append(
            _table(series, lambda rows: _short(f"{np.mean([row.value for row in rows]):.3f}"), "1-NN accuracy")
        )
    if any(row.part == "moments" for row in results):
        parts.append(moment_table(results))
    return "\n\n".join(parts)


def main() -> None:
    """Record what is missing, measure, print, write."""
    parser = argparse.ArgumentParser(description="RB-T: sets of many kinds")
    parser.add_argument("--cache", type=Path, default=Path(".bench"), help="folder for recorded sets and wheels")
    parser.add_argument("--half", choices=("tuned", "reported"), default="reported", help="which half of the sets")
    parser.add_argument("--sets", nargs="*", help="only these sets")
    parser.add_argument("--no-scans", action="store_true", help="without alignment of all with all (minutes a set)")
    parser.add_argument(
        "--parts", nargs="+", default=["episodes", "whole", "series", "moments"], help="what is measured"
    )
    rb_outcome.add_option(parser)
    options = parser.parse_args()
    names = TUNED if options.half == "tuned" else REPORTED
    results: list[Result] = []
    wanted = [*names, *(name for name, half in REAL.items() if half == options.half)]
    if {*options.parts} <= {"series"}:
        wanted = []
    for name in [name for name in wanted if not options.sets or name in options.sets]:
        archive = load_set(name, options.cache)
        if archive is None:
            continue
        if "whole" in options.parts:
            results += measure_outside(name, archive)
        if name in REAL:  # too short for what else is measured
            continue
        if "episodes" in options.parts:
            results += measure_episodes(name, archive, None if options.no_scans else options.cache)
        if "moments" in options.parts:
            results += measure_moments(name, archive)
    if "series" in options.parts:
        half = [name for name in SERIES if (name in TUNED_SERIES) == (options.half == "tuned")]
        results += measure_series(half, options.cache)
    rb_outcome.leave(options, results, report(results), lambda _: None)


if __name__ == "__main__":
    main()
