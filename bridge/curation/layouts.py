"""Layouts of a Space's episodes on a plane by t-SNE, UMAP or PaCMAP, computed once and stored with the archive."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.curation.archive_vectors import group_by_space, read_vectors
from bridge.support.progress import Silent
from wshard.core.container.atomic_write import publish
from wshard.core.messages import how_to_install
from wshard.errors import MissingExtraError, QueryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridge.archive import Archive
    from bridge.curation.arrays import Floats, Ids, Vectors
    from bridge.support.progress import Progress
    from embedders.space import Space

_POLL_S: Final = 0.2
_MIN_EPISODES: Final = 8  # episodes for which a layout can be computed


@dataclass(frozen=True, eq=False)
class PointLayout:
    """Positions float64 [M, 2] of the episodes with these ids, ascending; stale: vectors have changed since."""

    ids: Ids
    places: Floats
    stale: bool


def load_layout(archive: Archive, space: Space, method: str) -> PointLayout | None:
    """Return the stored layout of a Space, None if there is none. Raises QueryError for an unknown method."""
    path = _path(archive, space, method)
    try:
        with np.load(path, allow_pickle=False) as stored:
            ids, places, state = (np.asarray(stored[name]) for name in ("ids", "places", "state"))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    if ids.ndim != 1 or places.shape != (len(ids), 2):
        return None
    return PointLayout(ids.astype(np.int64), places.astype(np.float64), state.tolist() != _state_of(archive, space))


def is_installed(method: str) -> bool:
    """Return whether the library of a method is installed."""
    return find_spec(METHODS[method].library) is not None


def compute_layout(archive: Archive, space: Space, method: str, *, progress: Progress | None = None) -> None:
    """Compute the layout of all episodes with vectors in the Space, in a process of its own, and store it.

    Equal vectors give equal layouts. Raises QueryError for an unknown method or too few episodes, MissingExtraError.
    """
    path, watch = _path(archive, space, method), progress or Silent()
    if not is_installed(method):
        raise MissingExtraError(f"{METHODS[method].title} needs {METHODS[method].library}: {how_to_install('map')}")
    state = _state_of(archive, space)
    vectors = read_vectors(archive, space, "")
    if len(vectors.episodes) < _MIN_EPISODES:
        raise QueryError(
            f"expected at least {_MIN_EPISODES} episodes with vectors for a map, found {len(vectors.episodes)}"
        )
    watch.stage(f"{METHODS[method].title} of {len(vectors.episodes):,} episodes", 1)
    places = _run(method, vectors.directions, watch)
    path.parent.mkdir(parents=True, exist_ok=True)
    with publish(path) as file:
        np.savez(file, ids=[row.id for row in vectors.episodes], places=places, state=state)
    watch.advance(1)


def choose_whole_space(archive: Archive, name: str | None) -> Space:
    """Return the Space of whole episodes with the most, the newest of several, or that with a fingerprint prefix.

    Raises QueryError.
    """
    return group_by_space(archive, "", name)[0][0][0]


def _path(archive: Archive, space: Space, method: str) -> Path:
    if method not in METHODS:
        raise QueryError(f"expected a map by pca, {', '.join(METHODS)}, found {method!r}")
    return archive.folder / "maps" / f"{space.fingerprint[:16]}-{method}.npz"


def _state_of(archive: Archive, space: Space) -> list[int]:
    numbers = {row.fingerprint: row.id for row in archive.catalog.vectors.spaces()}
    return [*archive.catalog.vectors.state(numbers[space.fingerprint])]


def _run(method: str, vectors: Vectors, progress: Progress) -> Floats:
    """Return the positions computed by the library; its process is killed if the progress raises."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/vectors.npy", vectors)
        call = [sys.executable, "-W", "ignore", "-m", "bridge.curation.layouts", method, folder]
        with (
            Path(folder, "log").open("w+b") as log,
            subprocess.Popen(call, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process,  # noqa: S603
        ):
            try:
                while _is_running(process):
                    progress.advance(0)
            finally:
                process.kill()
            if process.returncode:
                log.seek(0)
                last = log.read()[-2000:].decode(errors="replace").strip().splitlines()[-1:]
                raise QueryError(f"{METHODS[method].title} failed: {' '.join(last) or process.returncode}")
        return np.asarray(np.load(f"{folder}/places.npy", allow_pickle=False), np.float64)


def _is_running(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_POLL_S)
    except subprocess.TimeoutExpired:
        return True
    return False


def _fit_tsne(vectors: Vectors) -> Any:
    from openTSNE import TSNE  # noqa: PLC0415  (imported by the process that computes)

    perplexity = min(30.0, (len(vectors) - 1) / 3)
    return TSNE(perplexity=perplexity, initialization="pca", n_jobs=1, random_state=0).fit(vectors)


def _fit_umap(vectors: Vectors) -> Any:
    from umap import UMAP  # noqa: PLC0415  (as above)

    return UMAP(n_neighbors=min(15, len(vectors) - 1), n_jobs=1, random_state=0).fit_transform(vectors)


def _fit_pacmap(vectors: Vectors) -> Any:
    from pacmap import PaCMAP  # noqa: PLC0415  (as above)

    return PaCMAP(n_neighbors=min(10, len(vectors) - 1), random_state=0).fit_transform(vectors)


@dataclass(frozen=True)
class _Method:
    title: str
    library: str
    fit: Callable[[Vectors], Any]


METHODS: Final = {
    "tsne": _Method("t-SNE", "openTSNE", _fit_tsne),
    "umap": _Method("UMAP", "umap", _fit_umap),
    "pacmap": _Method("PaCMAP", "pacmap", _fit_pacmap),
}
"""Layouts by name; PCA, which needs no library, is computed by bridge.curation.projection."""


def main() -> None:
    """Read vectors of a folder and write their places there: METHOD FOLDER."""
    os.nice(10)
    method, folder = sys.argv[1:]
    np.save(f"{folder}/places.npy", np.asarray(METHODS[method].fit(np.load(f"{folder}/vectors.npy"))))


if __name__ == "__main__":
    main()
