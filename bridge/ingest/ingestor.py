"""Ingest: episodes into catalog, ledger and index; resumable at any instant.

    plan      which files are new or changed since the catalog saw them
    register  read metadata and moments, write episode rows         (transaction per batch)
    embed     every episode that its Space lacks, write the ledger  (transaction per batch); so what is said of tasks
    push      tell the index what the ledger has committed

There is no queue: what is left to do is the difference between files, catalog and ledger. A run that was killed is
finished by the next one.
"""

from __future__ import annotations

import os
import time
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self

from bridge.archive import Archive, open_archive
from bridge.episodes.discover import discover, listed_paths
from bridge.episodes.files import locate
from bridge.ingest.fill import fill
from bridge.ingest.index_sync import IndexSync
from bridge.ingest.register import register, take_stock
from bridge.ingest.report import IngestReport, Run
from bridge.ingest.text import embed_tasks, loaded
from bridge.ingest.watch import watch
from bridge.spaces.identity import identity, maker_of
from bridge.spaces.lanes import LaneChoice
from bridge.spaces.statistics import Choice
from bridge.support.progress import Progress, Silent
from bridge.support.workers import workers
from embedders.base import takes_frames
from embedders.registry import DEFAULT_EMBEDDER, as_embedder, default_embedder
from embedders.space import Space
from embedders.windows import BOTH, WindowPlan, as_plans
from wshard.episode.protocol import EpisodeAddress
from wshard.errors import EmbedderError, IndexWarning, IngestError, NotEmbeddedWarning, SourceNotFoundError
from wshard.open import local_path
from wshard.quality.thresholds import DEFAULT_THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from threading import Event

    from catalog.records import EpisodeRow
    from embedders.base import Embedder
    from embedders.text.base import AnyTextEncoder
    from embedders.trajectory.pooled import PooledFunction
    from wshard.quality.thresholds import Thresholds

    PathLike = str | os.PathLike[str]
    Place = PathLike | EpisodeAddress
    Windows = WindowPlan | str | Sequence[WindowPlan | str]

__all__ = ["IngestReport", "TrajectoryIngestor"]

_WHOLE: Final = WindowPlan()


class TrajectoryIngestor:
    """Puts episode files into an archive: catalog, embeddings and search index.

    deepdata_url (as the reference package calls it): an archive folder, made when missing ("demo-archive": catalog.db
    and index/; the episodes may lie anywhere), or the URL of a vector index; `archive` then names the catalog's folder
    (see open_archive).
    embedder: a name ("combo", "dct", ...), an Embedder, or a callable [D] -> [E] that gets the mean over time; None or
    "blocks" = blocks for whole episodes, arcdct for windows. lanes: what to embed, e.g. "state" or ["state", "reward"];
    None = every observation lane that is a number or a vector of at most 256 numbers per timestep. A mapping gives the
    lanes weights: {"state": 2, "action/ctrl": 1} lets the state decide two thirds of the similarity (see
    docs/search.md). An embedder of frames takes one lane of images. token: API token or JWT for the index's server (see
    docs/deepdata.md).

    limits: from where on quality checks flag an episode (docs/quality.md); None to check nothing.

    Use as a context manager, or close() it. Several ingestors may work on one archive at once.
    """

    def __init__(
        self,
        deepdata_url: PathLike,
        embedder: str | Embedder | PooledFunction | None = None,
        *,
        lanes: str | Sequence[str] | Mapping[str, float] | None = None,
        archive: PathLike | None = None,
        token: str | None = None,
        limits: Thresholds | None = DEFAULT_THRESHOLDS,
    ) -> None:
        # By its name alone the default is what it is by default: tuned to how episodes are cut.
        self._embedder = None if embedder in (None, DEFAULT_EMBEDDER) else as_embedder(embedder)
        self._limits = limits
        self._lanes = LaneChoice.of(lanes, frames=self._embedder is not None and takes_frames(self._embedder))
        if self._embedder is not None and self._lanes.weights is not None and not self._embedder.uses_statistics:
            name = self._embedder.name
            raise EmbedderError(f"weights of lanes: expected an embedder that standardises channels, found {name!r}")
        self._archive: Archive = open_archive(deepdata_url, archive=archive, create=True, token=token)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the archive."""
        self._archive.close()

    def ensure_collection(self, dim: int, collection: str = "traj_episodes") -> None:
        """Do nothing: a call of the reference package, whose servers wanted to be told before the first vector.

        Here the archive knows the size of its vectors, and an index makes room for a Space when it first gets some.
        """

    def ingest_episode(self, path: Place, *, windows: Windows | None = None) -> str:
        """Ingest one episode and return its uid; an episode that is there already costs next to nothing.

        path: an episode file, or the address of one episode of a location of many, as `PATH#KEY` or EpisodeAddress.

        windows: as in ingest. Raises IngestError (a ValueError), FormatError, SourceNotFoundError; then nothing of the
        file was taken in. A NotEmbeddedWarning says that the episode is catalogued, but has no vector (no lane to
        embed, NaN); an IndexWarning, that the index could not be told: the next ingest tells it.
        """
        return self._ingest_one(path, windows)[0].uid

    def ingest_timesteps(self, path: PathLike, window_size: int = 32, stride: int = 16) -> list[str]:
        """Ingest windows of one episode: window_size timesteps, one every `stride`, the tail covered too.

        Returns one id "uid:start-stop" per window, stop exclusive; none where the episode has no vectors, which a
        NotEmbeddedWarning tells. Raises as ingest_episode.
        """
        plan = WindowPlan(window_size, stride)
        row, embedded = self._ingest_one(path, plan)
        spans = plan.spans(row.length).tolist() if embedded else []
        return [f"{row.uid}:{start}-{stop}" for start, stop in spans]

    def _ingest_one(self, path: Place, windows: Windows | None) -> tuple[EpisodeRow, bool]:
        """Ingest the episode; return its row, and whether it has vectors."""
        listed = listed_paths(path)
        one = listed[0] if listed else ""
        address = EpisodeAddress.parse(os.fspath(one)) if isinstance(one, str | os.PathLike) else one
        if len(listed) != 1 or (Path(local_path(address.uri)).is_dir() and not address.key):
            found = "a folder" if len(listed) == 1 else f"{len(listed)} paths"
            raise IngestError(f"{path}: expected one episode file, found {found}: ingest() takes folders")
        report = self.ingest(listed, windows=windows)
        if report.delayed is not None:
            warnings.warn(f"the vectors are safe in the catalog, the index lags: {report.delayed}", IndexWarning, 4)
        where, embedded = EpisodeAddress(locate(address.uri), address.key), True
        for failure in report.unembedded:
            if failure.path == where.uri and where.key in ("", failure.key):
                embedded = False
                warnings.warn(f"{where}: catalogued, not embedded: {failure.error}", NotEmbeddedWarning, 4)
        for failure in report.failed:
            if failure.path == where.uri and where.key in ("", failure.key):
                raise failure.cause or IngestError(f"{failure.path}: {failure.error}")
        episodes = self._archive.catalog.episodes
        known = [one for one in episodes.known([where.uri])[where.uri] if where.key in ("", one.key)]
        if len(known) != 1:
            raise IngestError(f"{where}: expected one episode, found {len(known)}: ingest() takes locations of many")
        return episodes.get(known[0].id), embedded

    def ingest(
        self,
        paths: Place | Sequence[Place],
        *,
        windows: Windows | None = None,
        sentences: AnyTextEncoder | None = None,
        workers_count: int = 1,
        prune: bool | Literal["cautiously"] = False,
        progress: Progress | None = None,
    ) -> IngestReport:
        """Ingest files and folders (searched recursively); unchanged episodes are skipped.

        Locations of other formats (see `wshard formats`) are catalogued where they are. An EpisodeAddress names one
        episode of a location, or says how to read one: EpisodeAddress(path, read_as=read_as("robomimic", lane_map)).
        What it says is kept, so that later ingests of the location do the same.

        windows: WindowPlan() for one vector per episode, or how to cut windows, or the words of the command line for it
        ("whole", "32:16", "multi", "both"); several plans are filled in one pass.
        None: "both", one vector per episode and windows of several sizes; where the archive has vectors of whole
        episodes or windows of several sizes by this embedder already, what it has: "whole" once stays so.
        sentences: a text encoder, or the folder of one: what is said of tasks is embedded too (docs/search.md).
        workers_count: processes that read and embed, this one among them. prune: forget catalogued episodes below the
        given folders (which may be gone as a whole) whose files are gone; "cautiously": unless they are more than half,
        which is reported.
        Episodes that cannot be ingested are reported, the others are not held up. Raises SourceNotFoundError before
        anything is written, and so EmbedderError for windows that are no plan; CatalogError, OSError, EmbedderError for
        a text encoder that fails (the rest stays).
        """
        begun = time.perf_counter()
        encoder = loaded(sentences)  # what is wrong with it is told before anything is written
        wanted = None if windows is None else as_plans(windows)  # likewise
        remembered = self._archive.catalog.episodes.read_as
        found = discover(listed_paths(paths), may_be_gone=bool(prune), remembered=remembered)
        report = IngestReport()
        report.leave_out(found.unreadable)
        report.skipped = found.skipped
        with workers(workers_count) as crew:
            run = Run(self._archive, crew, progress or Silent(), report, IndexSync(self._archive))
            self._begin(found.folders)
            addresses = register(run, found.episodes, self._lanes, self._limits)
            take_stock(run, (*found.folders, *found.locations), (one.address for one in found.episodes), prune=prune)
            fill(run, [self._chosen(plan) for plan in wanted or self._default_plans()], addresses)
            if encoder is not None:
                embed_tasks(run, encoder)
            run.index_sync.finish()
            report.delayed = run.index_sync.delayed
        report.seconds = time.perf_counter() - begun
        return report

    def _default_plans(self) -> Sequence[WindowPlan]:
        """Return what is embedded where nobody says: what the archive has, or BOTH.

        Of a first ingest that was stopped the Space of whole episodes may be there without the others.
        """
        rows = [row for row in self._archive.catalog.vectors.spaces() if row.state != "retired"]
        held = [(row.state, space) for row in rows if self._makes(space := Space.from_json(row.definition))]
        several = {space.windows for _, space in held if space.windows.scales}
        only_whole = not several and any(state == "active" and space.windows.whole for state, space in held)
        return [_WHOLE, *sorted(several, key=str)] if several or only_whole else BOTH

    def _makes(self, space: Space) -> bool:
        """Say whether it makes such a Space, or made it in an older version."""
        (name, _, parameters), (own, _, mine) = (
            maker_of(space),
            identity(self._embedder or default_embedder(space.windows)),
        )
        return (name, parameters) == (own, mine)

    def _chosen(self, windows: WindowPlan) -> Choice:
        return Choice(self._embedder or default_embedder(windows), self._lanes, windows)

    def _begin(self, folders: Sequence[str]) -> None:
        """Make the folders roots; one that is gone must at least be known."""
        catalog = self._archive.catalog
        for folder in folders:
            if Path(folder).is_dir():
                catalog.episodes.add_root(folder)
            elif next(catalog.episodes.places(folder), None) is None:
                raise SourceNotFoundError(f"no such file or folder, and nothing of it is catalogued: {folder}")

    def watch(
        self,
        folders: PathLike | Sequence[PathLike],
        *,
        windows: Windows | None = None,
        sentences: AnyTextEncoder | None = None,
        workers_count: int = 1,
        stop: Event | None = None,
    ) -> Iterator[IngestReport]:
        """Ingest what is in the folders and what comes into them, as it is finished; yield a report per batch.

        Goes on until `stop` is set. What cannot be ingested is reported once, and tried again when it changes; while
        catalog or disk refuse, everything waits. windows, sentences, workers_count: as in ingest. Raises
        SourceNotFoundError for what is no folder, EmbedderError for windows that are no plan or a text encoder that
        cannot be loaded, MissingExtraError without the package watchfiles.
        """
        listed = [one.uri if isinstance(one, EpisodeAddress) else one for one in listed_paths(folders)]
        encoder = loaded(sentences)  # once, and what is wrong with it is told at once
        plans = None if windows is None else as_plans(windows)
        ingest = partial(self.ingest, windows=plans, sentences=encoder, workers_count=workers_count)
        return watch(self._archive, ingest, listed, stop)
