"""The methods of benchmark RB-T on labelled series: the class of the first hit, through files and archive too."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from dtw import full_dtw
from rb_a_archive import ingest_rows
from rb_a_methods import evenly

from bridge.search.retriever import TrajectoryRetriever
from embedders.space import Statistics
from embedders.standardise import standardise

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rb_t_series import SeriesSet

    Rows = NDArray[np.float64]

_LENGTH: Final = 128
_ALIGNED: Final = 10  # first hits that are compared by alignment


def series_accuracy(series: SeriesSet) -> dict[str, float]:
    """Return the share of queries whose first hit is of their class, by method, and what lies among the first ten."""
    steps = np.concatenate(series.episodes)
    statistics = Statistics(len(steps), steps.mean(axis=0), steps.std(axis=0))
    references, asked = ([standardise(rows, statistics) for rows in some] for some in (series.episodes, series.queries))
    flat, flat_asked = (np.stack([evenly(rows, _LENGTH).ravel() for rows in some]) for some in (references, asked))
    euclid = np.stack([((flat - row) ** 2).sum(axis=1) for row in flat_asked])
    dtw = np.array([[full_dtw(query, rows) for rows in references] for query in asked])
    listed_shares: dict[str, float] = {}
    first = {"Euclid": euclid.argmin(axis=1), "DTW (scan)": dtw.argmin(axis=1)}
    for name, plain in (("plain ingest, plain search", False), ("one vector (`plain=True`)", True)):
        listed = _search(series, plain=plain)
        first[f"**{name}**"] = np.array([hits[0] for hits in listed])
        best = [hits[int(np.argmin([dtw[number, hit] for hit in hits]))] for number, hits in enumerate(listed)]
        first[f"{name}, the first ten by DTW"] = np.array(best)
        tens = np.array(listed)
        listed_shares[f"{name}: DTW's first hit is among ten"] = float(
            (tens == first["DTW (scan)"][:, None]).any(1).mean()
        )
        right = series.labels[tens] == series.expected[:, None]
        listed_shares[f"{name}: the class is among ten"] = float(right.any(1).mean())
    accuracies = {name: float((series.labels[found] == series.expected).mean()) for name, found in first.items()}
    return accuracies | listed_shares


def _search(series: SeriesSet, *, plain: bool) -> list[list[int]]:
    with tempfile.TemporaryDirectory() as name:
        ingest_rows(series.episodes, Path(name))
        with TrajectoryRetriever(Path(name) / "archive") as retriever:
            return [
                [int(hit.episode_id) for hit in retriever.search_similar_episodes(rows, _ALIGNED, plain=plain)]
                for rows in series.queries
            ]
