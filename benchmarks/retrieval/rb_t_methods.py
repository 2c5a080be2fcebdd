"""The methods of benchmark RB-T on one set: mean, Euclid, alignments, shape profiles, every embedder, the archive."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from dtw import full_dtw
from rb_a_archive import searched
from rb_a_methods import WHOLE, best_piece, evenly, scan, whole, windowed

from embedders.neural.learned import Learned
from embedders.neural.network import save_network
from embedders.neural.temporal_encoder import Shape
from embedders.neural.training import Training, train
from embedders.standardise import standardise
from embedders.trajectory.adapted import Adapted
from embedders.trajectory.arc import ArcDct
from embedders.trajectory.fitting import FitOptions, fit
from wshard.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray
    from rb_a_methods import Archive, Ask

    from embedders.base import Embedder

    Rows = NDArray[np.float64]

ARCHIVE: Final = "**plain ingest, plain search**"
ADAPTED: Final = "the same with `adapted`"
LEARNED: Final = "the same with `learned`"
_EMBEDDERS: Final = ("stats", "dct", "arcdct", "sig2", "combo", "combo2", "blocks")
_LENGTH: Final = 64


SCANS: Final[dict[str, Callable[[Rows, Rows], float]]] = {
    "DTW (scan)": full_dtw,
    "subsequence DTW, free (scan)": partial(best_piece, free=True),
    "subsequence DTW, (1,1) (1,2) (scan)": partial(best_piece, free=False),
}


def scanned(archive: Archive, queries: dict[str, list[Rows]], cache: Path) -> dict[str, dict[str, Rows]]:
    """Return the scores [Q, N] of every scan for every list of queries; they take minutes, and are computed once."""
    found: dict[str, dict[str, Rows]] = {}
    for number, (name, align) in enumerate(SCANS.items()):
        path = cache.with_name(f"{cache.name}-scan{number}.npz")
        if not path.exists():
            ask = scan(align, archive)
            np.savez(path, **{kind: ask(asked) for kind, asked in queries.items()})
        with np.load(path) as stored:
            found[name] = {kind: stored[kind] for kind in queries}
    return found


def methods(archive: Archive) -> dict[str, Callable[[], Ask]]:
    """Return what makes each method ready to answer, by name."""
    made: dict[str, Callable[[], Ask]] = {
        "mean over time, z-scored": partial(_pooled, archive),
        "Euclid": partial(_euclid, archive),
    }
    for name in _EMBEDDERS:
        made[name] = partial(whole, WHOLE[name], archive)
    of_windows = ArcDct(damping=0.0, position=None, level=0.6)
    made["windows, arcdct along all channels"] = partial(windowed, of_windows, archive)
    return made


def archive_scores(archive: Archive, queries: dict[str, list[Rows]]) -> dict[str, dict[str, Rows]]:
    """Return the scores [Q, N] of a plain ingest and search for every list of queries, by default and trained."""
    found = {}
    with trained_on(archive) as trained:
        for method, embedder in {ARCHIVE: None, **trained}.items():
            with searched(archive.episodes, archive.asking.tolist(), embedder) as ask:
                found[method] = {name: ask(asked) for name, asked in queries.items()}
    return found


@contextmanager
def trained_on(archive: Archive) -> Iterator[dict[str, Embedder]]:
    """Train on the episodes, without their labels, and provide the embedders; `learned` only where torch is there."""
    episodes = [_standard(archive, rows) for rows in archive.episodes]
    with tempfile.TemporaryDirectory() as folder:
        linear, network = Path(folder) / "adapted.shard", Path(folder) / "learned.shard"
        fit(episodes, FitOptions()).linear_map.save(linear)
        trained: dict[str, Embedder] = {ADAPTED: Adapted(linear)}
        with suppress(MissingExtraError):
            save_network(train(episodes, Shape(archive.statistics.mean.size), Training()), network)
            trained[LEARNED] = Learned(network)
        yield trained


def _pooled(archive: Archive) -> Ask:
    references = np.stack([_standard(archive, rows).mean(axis=0) for rows in archive.episodes])
    references /= np.linalg.norm(references, axis=1, keepdims=True)
    return lambda queries: np.stack([_standard(archive, rows).mean(axis=0) for rows in queries]) @ references.T


def _euclid(archive: Archive) -> Ask:
    def flat(rows: Rows) -> Rows:
        return evenly(_standard(archive, rows), _LENGTH).ravel()

    references = np.stack([flat(rows) for rows in archive.episodes])

    def ask(queries: list[Rows]) -> Rows:
        return -np.stack([((references - flat(rows)) ** 2).sum(axis=1) for rows in queries])

    return ask


def _standard(archive: Archive, rows: Rows) -> Rows:
    return standardise(rows, archive.statistics)
