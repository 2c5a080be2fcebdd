"""Benchmark RB-N: nuisances. Sets of RB-T as archives really are: signs, units, lanes, rates and channels differ.

The same episodes ask in a clean archive and in the same one with a nuisance in all or half of it: mean average
precision and precision at 1 by the default and by plain=True, and the share of episodes that pass but were not
compared, as the answer itself says. Planted moments, short with noise, or 2.5 times shorter than the query: recall
among ten hits, with alignment ("default") and by windows alone ("plain=True"). Prints Markdown tables; --out writes
them and JSON.

    WSHARD_FIXTURES=... python benchmarks/retrieval/rb_n.py --out .bench/rb_n     # --quick: two sets, fewer queries

Sets are those of fixtures and of real recordings, half of them tuned on; --sets takes others of RB-T.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import rb_outcome
from rb_a import scored
from rb_a_archive import ingest_rows, save_rows
from rb_n_nuisances import ACTION, NUISANCES, STATE, at_rate
from rb_t_moments import COPIES, KINDS, PROBES, judge, plant, search_planted
from rb_t_sets import FIXTURES, REAL, TUNED, load_set

from bridge.search.retriever import TrajectoryRetriever
from catalog.filters.where import Compare
from wshard.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from rb_a_methods import Archive
    from rb_n_nuisances import Lanes, Nuisance
    from rb_t_moments import Change

    Rows = NDArray[np.float64]
    Found = tuple[Rows, float]

METHODS: Final[Mapping[str, bool]] = {"default": False, "plain=True": True}
_QUICK: Final = ("cheetah", "real/lp4")
_QUICK_QUERIES: Final = 16
_NOT_QUICK: Final = ("128 channels", "256 channels")  # rows that take long and lie between others
_LONG: Final = 80  # timesteps of an episode that moments are planted in
_ENOUGH: Final = PROBES * (1 + COPIES)  # such episodes
_SHORTER: Final = 2.5


def _noisy(rows: Rows, spread: Rows, rng: np.random.Generator) -> Rows:
    return rows + 0.1 * spread * rng.standard_normal(rows.shape)


def _squeeze(rows: Rows, spread: Rows, rng: np.random.Generator) -> Rows:  # noqa: ARG001  (one signature)
    return at_rate(rows, 1 / _SHORTER)


MOMENTS: Final[Mapping[str, tuple[Change, tuple[int, int]]]] = {
    **{f"moments of {steps} steps, noise .1": (_noisy, (steps, steps + 1)) for steps in (8, 12, 16, 20, 24)},
    f"moments {_SHORTER} x shorter than the query": (_squeeze, (50, 76)),
}


@dataclass(frozen=True)
class Result:
    """What one method finds of a set, clean and disturbed.

    precision: mean average precision, for moments the recall among ten hits. first: precision at 1. uncompared: share
    of the episodes that pass but were not compared, disturbed. None for moments.
    """

    half: str
    name: str
    nuisance: str
    method: str
    clean_precision: float
    precision: float
    clean_first: float | None = None
    first: float | None = None
    uncompared: float | None = None


def half_of(name: str) -> str:
    """Return the half of RB-T that a set belongs to."""
    return REAL.get(name, "tuned" if name in TUNED else "reported")


def choose(archive: Archive, queries: int, labels: int) -> Archive:
    """Return the episodes of one of so many labels, some of them asking."""
    kept = np.flatnonzero(archive.tasks % labels == 0)
    asking = np.unique(np.linspace(0, len(kept) - 1, queries).astype(np.int64))
    return replace(archive, episodes=[archive.episodes[n] for n in kept], tasks=archive.tasks[kept], asking=asking)


def as_lanes(rows: Rows) -> Lanes:
    """Return the first two thirds of the channels as the state, the others as the action."""
    cut = -(-2 * rows.shape[1] // 3)
    return {STATE: rows[:, :cut], ACTION: rows[:, cut:]}


def answers(
    episodes: Sequence[Lanes | None], queries: Sequence[Lanes], asking: Rows, nuisance: Nuisance | None = None
) -> dict[str, Found]:
    """Return per method the scores [Q, N], minus infinity for what was not found, and the share not compared.

    Queries are arrays, or files where the nuisance states sources.
    """
    found = {}
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder, given = Path(name), [*map(dict, queries)]
        sources = nuisance.sources(len(episodes)) if nuisance and any(nuisance.other) else ()
        if nuisance and sources:
            named = zip(queries, asking, strict=True)
            given = [save_rows(query, folder / "queries", str(own), nuisance.usual) for query, own in named]
        called = nuisance.called(episodes) if nuisance else {}
        archive = ingest_rows(episodes, folder, sources=sources, called=called)
        retriever = stack.enter_context(TrajectoryRetriever(archive))
        for method, plain in METHODS.items():
            scores, uncompared = np.full((len(queries), len(episodes)), -np.inf), 0
            for number, (query, own) in enumerate(zip(given, asking, strict=True)):
                others = ~Compare("episode_id", "eq", str(own))
                try:
                    hits = retriever.search_similar_episodes(query, len(episodes), where=others, plain=plain)
                except QueryError:  # fits no Space: nothing is compared
                    uncompared += len(episodes) - 1
                    continue
                uncompared += sum(one.episodes for one in hits.answered.left_out)
                for hit in hits:
                    scores[number, int(hit.episode_id)] = hit.score
            found[method] = scores, uncompared / (len(queries) * (len(episodes) - 1))
    return found


def measure_episodes(name: str, archive: Archive, nuisances: Sequence[Nuisance] = NUISANCES) -> Iterator[Result]:
    """Yield the results of the nuisances; clean archives of the same preparation are measured once."""
    given = [as_lanes(rows) for rows in archive.episodes]
    cleans: dict[object, dict[str, Found]] = {}
    for nuisance in nuisances:
        clean = nuisance.prepared(given)
        if nuisance.prepare not in cleans:
            cleans[nuisance.prepare] = answers(clean, [clean[n] for n in archive.asking], archive.asking)
        yield from _compare(nuisance, clean, cleans[nuisance.prepare], (name, archive))


def _compare(
    nuisance: Nuisance, clean: list[Lanes], before: Mapping[str, Found], about: tuple[str, Archive]
) -> Iterator[Result]:
    name, archive = about
    disturbed = nuisance.disturbed(clean)
    queried = disturbed if nuisance.in_queries else clean
    after = answers(disturbed, [queried[n] for n in archive.asking], archive.asking, nuisance)
    inside = np.flatnonzero([lanes is not None for lanes in disturbed])
    for method, (scores, uncompared) in after.items():
        was, now = (_scored(one, archive, inside) for one in (before[method][0], scores))
        yield Result(half_of(name), name, nuisance.name, method, was[0], now[0], was[1], now[1], uncompared)


def _scored(scores: Rows, archive: Archive, inside: NDArray[np.int64]) -> Rows:
    """Return mean average precision and precision at 1 among those inside; if some are outside, only those ask."""
    found = []
    for row, own in enumerate(archive.asking):
        if len(inside) == len(archive.tasks) or own not in inside:
            columns = np.union1d(inside, own)
            one = replace(archive, tasks=archive.tasks[columns], asking=np.searchsorted(columns, [own]))
            found.append(scored(scores[row : row + 1, columns], one)[:2])
    mean: Rows = np.mean(found, axis=0)
    return mean


def measure_moments(name: str, archive: Archive) -> Iterator[Result]:
    """Yield the recall of short moments and of much shorter ones, planted as they are and changed."""
    if sum(len(rows) >= _LONG for rows in archive.episodes) < _ENOUGH:
        print(f"  {name} has too few long episodes for moments", flush=True)
        return
    for nuisance, (change, sizes) in MOMENTS.items():
        was, now = (_recalls(archive, one, sizes) for one in (KINDS["copy"], change))
        for method, recall in now.items():
            yield Result(half_of(name), name, nuisance, method, was[method], recall)


def _recalls(archive: Archive, change: Change, sizes: tuple[int, int]) -> dict[str, float]:
    episodes, probes = plant(archive, change, sizes)
    with tempfile.TemporaryDirectory() as folder, TrajectoryRetriever(ingest_rows(episodes, Path(folder))) as retriever:
        return {
            method: judge(probes, partial(search_planted, retriever, refine=not plain))[0]
            for method, plain in METHODS.items()
        }


def table(results: Sequence[Result], half: str) -> str:
    """Return a Markdown table of a half: per set the default, then the means over sets; all clean, then disturbed."""
    mine = [one for one in results if one.half == half]
    names = [*dict.fromkeys(one.name for one in mine)]
    head = [f"{half} sets", *names, *(f"{method} mAP (P@1)" for method in METHODS), "not compared"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for nuisance in dict.fromkeys(one.nuisance for one in mine):
        rows = [one for one in mine if one.nuisance == nuisance]
        default = {one.name: one for one in rows if not METHODS[one.method]}
        sets = [_change(default[name]) if name in default else "-" for name in names]
        means = [_mean([one for one in rows if one.method == method]) for method in METHODS]
        uncompared = [one.uncompared for one in default.values() if one.uncompared is not None]
        missed = f"{np.mean(uncompared):.0%}" if uncompared else "-"
        lines.append(f"| {' | '.join([nuisance, *sets, *means, missed])} |")
    return "\n".join(lines)


def _change(one: Result) -> str:
    return f"{_short(one.clean_precision)} → {_short(one.precision)}"


def _mean(rows: Sequence[Result]) -> str:
    firsts = [(one.clean_first, one.first) for one in rows if one.clean_first is not None and one.first is not None]
    before, after = (
        [_short(float(np.mean(values))) for values in zip(*pairs, strict=True)] if pairs else ["", ""]
        for pairs in ([(one.clean_precision, one.precision) for one in rows], firsts)
    )
    was, now = (f"{first} ({second})" if second else first for first, second in zip(before, after, strict=True))
    return f"{was} → {now}"


def _short(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def report(results: Sequence[Result]) -> str:
    """Return the tables of both halves, and the machine."""
    halves = dict.fromkeys(one.half for one in results)
    return "\n\n".join([*(table(results, half) for half in halves), f"Measured on {rb_outcome.facts()}."])


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="RB-N: archives as they are")
    parser.add_argument("--cache", type=Path, default=Path(".bench"), help="folder of recorded sets")
    parser.add_argument("--half", choices=("tuned", "reported"), help="only this half of the sets")
    parser.add_argument("--sets", nargs="+", default=[*FIXTURES, *REAL], help="these sets, others of RB-T too")
    parser.add_argument("--queries", type=int, default=40, help="episodes of each set that ask")
    parser.add_argument("--nuisances", nargs="+", help="only those about episodes whose names begin with these words")
    quick = f"only {' and '.join(_QUICK)}, half of their labels, {_QUICK_QUERIES} queries, fewer rows"
    parser.add_argument("--quick", action="store_true", help=quick)
    rb_outcome.add_option(parser)
    options = parser.parse_args()
    wanted = _QUICK if options.quick else options.sets
    count = _QUICK_QUERIES if options.quick else options.queries
    rows = [one for one in NUISANCES if not (options.quick and one.name.startswith(_NOT_QUICK))]
    if options.nuisances:
        rows = [one for one in rows if one.name.startswith(tuple(options.nuisances))]
    results: list[Result] = []
    for name in [name for name in wanted if options.half in {None, half_of(name)}]:
        archive = load_set(name, options.cache)
        if archive is None:
            continue
        taken = choose(archive, count, labels=2 if options.quick else 1)
        moments = () if options.nuisances else measure_moments(name, taken)
        for part in (measure_episodes(name, taken, rows), moments):
            for one in part:
                print(f"  {one.name}, {one.nuisance}, {one.method}: {_mean([one])}", flush=True)
                results.append(one)
    rb_outcome.leave(options, results, report(results), lambda _: None)


if __name__ == "__main__":
    main()
