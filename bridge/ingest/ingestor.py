"""Ingest: episodes into catalog, ledger and index; resumable at any time.

    plan      which files are new or changed since they were catalogued
    register  read metadata and moments, write episode rows         (transaction per batch)
    embed     compute missing vectors, write the ledger             (transaction per batch)
    push      send committed vectors to the index

There is no queue: the remaining work is the difference between files, catalog and ledger. A killed run is finished by
the next one.
"""

from __future__ import annotations

import os
import time
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from bridge.archive import archive_of
from bridge.episodes.discover import discover
from bridge.episodes.locations import EarlierReadings
from bridge.episodes.open import known_episodes
from bridge.ingest.frames import check_stride, load_encoder
from bridge.ingest.index_sync import IndexSync
from bridge.ingest.inputs import listed_paths, read_inputs
from bridge.ingest.neighbours import ROOM
from bridge.ingest.report import IngestReport, Run
from bridge.ingest.stages import IngestSettings, run_stages
from bridge.ingest.text import load_text_encoder
from bridge.ingest.watch import watch
from bridge.spaces.identity import identity, maker_of
from bridge.spaces.lanes import LaneChoice
from bridge.spaces.statistics import Choice
from bridge.support.array_spool import ArraySpool
from bridge.support.progress import Progress, Silent
from bridge.support.workers import PROCESSES, workers
from embedders.base import takes_frames
from embedders.registry import DEFAULT_EMBEDDER, as_embedder, embedder_for
from embedders.space import Space
from embedders.windows import BOTH, WindowPlan, as_plans
from wshard.core.chunks.files import locate
from wshard.core.episode.protocol import EpisodeAddress
from wshard.core.files.schemes import place_of
from wshard.core.keywords import check_options
from wshard.core.messages import shown
from wshard.core.quality.thresholds import DEFAULT_THRESHOLDS
from wshard.errors import EmbedderError, IndexWarning, IngestError, NotEmbeddedWarning
from wshard.formats.layouts.options import TableOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from threading import Event

    from bridge.archive import Archive
    from bridge.episodes.locations import Discovery
    from bridge.episodes.read import Failure
    from bridge.ingest.inputs import IngestInputs
    from catalog.records import EpisodeRow
    from embedders.base import Embedder
    from embedders.encoders.local_encoder import LocalEncoder
    from embedders.text.base import AnyTextEncoder
    from embedders.trajectory.pooled import PooledFunction
    from wshard.core.quality.thresholds import Thresholds

    PathLike = str | os.PathLike[str]
    Place = PathLike | EpisodeAddress
    Windows = WindowPlan | str | Sequence[WindowPlan | str]

_WHOLE: Final = WindowPlan()


class TrajectoryIngestor:
    """Ingests episodes into an archive: catalog, embeddings and search index.

    deepdata_url (the name in the reference package): an open Archive, which stays open; or what open_archive takes,
    with `archive`; a folder is created if missing ("demo-archive": catalog.db and index/; files can be anywhere).
    embedder: a name ("arcdct", "dct", ...), an Embedder, or a callable [D] -> [E] that gets the mean over time; None or
    "blocks" = blocks for whole episodes, arcdct for windows. lanes: what to embed, e.g. "state" or ["state", "reward"];
    None = every observation lane with a number or a vector of at most 1024 numbers per timestep. A mapping assigns
    weights: {"state": 2, "action/ctrl": 1} gives the state two thirds of the similarity (see docs/search.md). An
    embedder of frames takes one lane of images. token: API token or JWT for the index server (see docs/deepdata.md).
    limits: thresholds of the quality checks (docs/quality.md); None disables them. Several may work on one archive.

    Examples:
        >>> with TrajectoryIngestor(".wshard") as ingestor:
        ...     ingestor.ingest("episodes").unchanged
        41
    """

    def __init__(
        self,
        deepdata_url: PathLike | Archive,
        embedder: str | Embedder | PooledFunction | None = None,
        *,
        lanes: str | Sequence[str] | Mapping[str, float] | None = None,
        archive: PathLike | None = None,
        token: str | None = None,
        limits: Thresholds | None = DEFAULT_THRESHOLDS,
    ) -> None:
        # Naming the default embedder selects its window-tuned parameters.
        self._embedder = None if embedder in (None, DEFAULT_EMBEDDER) else as_embedder(embedder)
        self._limits = limits
        self._lanes = LaneChoice.of(lanes, frames=self._embedder is not None and takes_frames(self._embedder))
        if self._embedder is not None and self._lanes.weights is not None and not self._embedder.uses_statistics:
            name = self._embedder.name
            raise EmbedderError(f"weights of lanes: expected an embedder that standardises channels, found {name!r}")
        self._archive, self._close = archive_of(deepdata_url, archive=archive, create=True, token=token)

    def __repr__(self) -> str:
        return f"<TrajectoryIngestor of {self._archive.place.name!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the archive, unless it was passed open."""
        self._close()

    def ensure_collection(self, dim: int, collection: str = "traj_episodes") -> None:
        """Do nothing: a method of the reference package, whose servers need to know the vector size in advance.

        Here the archive knows the size of its vectors, and an index creates a Space when it receives the first vector.
        """

    def ingest_episode(self, path: Place, *, windows: Windows | None = None) -> str:
        """Ingest one episode and return its uid; an unchanged episode costs next to nothing.

        path: an episode file, or the address of one episode in a location of several, as `PATH#KEY` or EpisodeAddress.

        windows: as in ingest. Raises IngestError (a ValueError), FormatError or SourceNotFoundError; the file is then
        not ingested at all. A NotEmbeddedWarning means that the episode is catalogued without a vector (no lane to
        embed, NaN); an IndexWarning, that the index could not be updated and the next ingest will do so.
        """
        return self._ingest_one(path, windows)[0].uid

    def ingest_timesteps(self, path: PathLike, window_size: int = 32, stride: int = 16) -> list[str]:
        """Ingest windows of one episode: window_size timesteps, one every `stride`, including the tail.

        Returns one id "uid:start-stop" per window, stop exclusive; none (with a NotEmbeddedWarning) if the episode has
        no vectors. Raises like ingest_episode.
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
        if len(listed) != 1 or (place_of(address.uri).is_dir() and not address.key):
            found = "a folder" if len(listed) == 1 else f"{len(listed)} paths"
            raise IngestError(f"{path}: expected one episode file, found {found}: ingest() takes folders")
        report = self.ingest(listed, windows=windows)
        if report.delayed is not None:
            warnings.warn(f"the vectors are safe in the catalog, the index lags: {report.delayed}", IndexWarning, 4)
        real_address, embedded = EpisodeAddress(locate(address.uri), address.key), True
        for failure in report.unembedded:
            if failure.path == real_address.uri and real_address.key in ("", failure.key):
                embedded = False
                warnings.warn(f"{real_address}: catalogued, not embedded: {failure.error}", NotEmbeddedWarning, 4)
        for failure in report.failed:
            if failure.path == real_address.uri and real_address.key in ("", failure.key):
                raise failure.cause or IngestError(f"{failure.path}: {failure.error}")
        episodes, place = self._archive.catalog.episodes, real_address.uri
        catalogued = [one for one in episodes.known([place])[place] if real_address.key in ("", one.key)]
        if len(catalogued) != 1:
            raise IngestError(
                f"{real_address}: expected one episode, found {len(catalogued)}: ingest() takes locations of many"
            )
        return episodes.get(catalogued[0].id), embedded

    def ingest(  # noqa: PLR0913  (the options of `wshard ingest`)
        self,
        paths: Any,
        *,
        windows: Windows | None = None,
        text_encoder: AnyTextEncoder | None = None,
        encoder: PathLike | LocalEncoder | None = None,
        stride: float | None = None,
        workers_count: int = 1,
        executor: str = PROCESSES,
        prune: bool | Literal["cautiously"] = False,
        progress: Progress | None = None,
        layout: str | os.PathLike[str] | None = None,
        lane_map: Mapping[str, str] | None = None,
        into: str | os.PathLike[str] | None = None,
        **columns: Any,
    ) -> IngestReport:
        """Ingest files and folders (searched recursively), tables or rollouts; unchanged episodes are skipped.

        paths: one or more paths; or a table of pandas, polars or pyarrow; or a rollout, a mapping of arrays, or an
        iterable of rollouts (docs/layouts.md). What is in memory is recorded in the folder `into`, by default
        "episodes" in that of the archive. layout: how to read the files, a name or the path of a description. columns:
        those of tables, episode=, time=, rate=, actions=, ..., as in TableOptions. lane_map: new names of lanes by old
        ones, {"observation.state": "state"}; the files stay so until another map is given, {} for none. Locations of
        other formats are catalogued in place. An EpisodeAddress names one episode of a location, or its format, also
        later: EpisodeAddress(path, read_as="robomimic").

        windows: WindowPlan() for one vector per episode, another plan, or the notation of the command line ("whole",
        "32:16", "multi", "both"); several plans are embedded in one pass. None: "both" (whole episodes and windows of
        several sizes) for a new archive, otherwise what the archive already has for this embedder.

        text_encoder: a text encoder or its folder; task descriptions are embedded too (docs/search.md). encoder: the
        folder of an encoder of pictures; camera frames are described by it (docs/cameras.md), one every `stride`
        seconds, by default 0.5. workers_count: number of processes for reading and embedding, including this one; or
        executor="dask://HOST:PORT", a cluster that does so (docs/scale.md). prune: remove catalogued episodes below the
        given folders (which may be missing) whose files are gone; "cautiously": unless these are more than half, or a
        folder of theirs is there and empty (a disk that is not mounted), which is reported.

        Episodes that fail are reported and do not stop the others. Raises SourceNotFoundError, and EmbedderError for an
        invalid window plan, before anything is written; CatalogError, OSError, and EmbedderError if a text encoder
        fails (other results are kept); LayoutError for a wrong layout, EpisodeError for data in memory that are neither
        tables nor rollouts.
        """
        started = time.perf_counter()
        check_options(TrajectoryIngestor.ingest, columns, TableOptions)
        if prune not in (True, False, "cautiously"):
            raise IngestError(f"prune: expected True, False or 'cautiously', found {shown(prune)}")
        texts = load_text_encoder(text_encoder)  # errors are raised before anything is written
        plans, frames = None if windows is None else as_plans(windows), load_encoder(encoder)  # likewise
        seconds = check_stride(stride, frames)
        inputs = read_inputs(self._archive, paths, columns, layout=layout, into=into, lane_map=lane_map)
        watch = progress or Silent()
        discovery = self._discover(inputs, watch, may_be_gone=bool(prune), without_maps=lane_map == {})
        report = IngestReport(skipped=discovery.skipped, unread=discovery.unread)
        report.add_failures([*inputs.failed, *discovery.unreadable, *self._unknown(discovery.incomplete)])
        choices = [self._chosen(plan) for plan in plans or self._default_plans()]
        settings = IngestSettings(choices, self._lanes, self._limits, prune, texts, frames, seconds)
        places = (*discovery.folders, *discovery.locations)
        with workers(workers_count, executor, places) as pool, ArraySpool(ROOM, self._archive.folder) as spool:
            run = Run(self._archive, pool, watch, report, IndexSync(self._archive), spool=spool)
            run_stages(run, discovery, settings)
        report.seconds = time.perf_counter() - started
        return report

    def _discover(self, inputs: IngestInputs, watch: Progress, *, may_be_gone: bool, without_maps: bool) -> Discovery:
        """Find the episodes; those of known locations are read as before, but for their maps if without_maps."""
        earlier = EarlierReadings(self._archive.catalog, lists_unchanged=False)
        how = {"may_be_gone": may_be_gone, "without_maps": without_maps}
        return discover(inputs.paths, earlier=earlier, progress=watch, **how)

    def _unknown(self, incomplete: Sequence[Failure]) -> list[Failure]:
        """Return the failures of episodes that the catalog does not have; others are reported as missing."""
        catalogued = known_episodes(self._archive.catalog, [failure.address for failure in incomplete])
        new = {address for address, row in catalogued if row is None}
        return [failure for failure in incomplete if failure.address in new]

    def _default_plans(self) -> Sequence[WindowPlan]:
        """Return the default windows: what the archive already has, or BOTH.

        A first ingest that was interrupted may have left the Space of whole episodes without the others.
        """
        rows = self._archive.catalog.vectors.live_spaces()
        existing = [(row.state, space) for row in rows if self._makes(space := Space.from_json(row.definition))]
        several = {space.windows for _, space in existing if space.windows.scales}
        only_whole = not several and any(state == "active" and space.windows.whole for state, space in existing)
        return [_WHOLE, *sorted(several, key=str)] if several or only_whole else BOTH

    def _makes(self, space: Space) -> bool:
        """Return True if the embedder makes this Space, or made it in an older version."""
        (name, _, parameters), own = maker_of(space), identity(embedder_for(self._embedder, space.windows))
        return (name, parameters) == (own[0], own[2])

    def _chosen(self, windows: WindowPlan) -> Choice:
        return Choice(embedder_for(self._embedder, windows), self._lanes, windows)

    def watch(  # noqa: PLR0913  (options as of ingest)
        self,
        folders: PathLike | Sequence[PathLike],
        *,
        windows: Windows | None = None,
        text_encoder: AnyTextEncoder | None = None,
        encoder: PathLike | LocalEncoder | None = None,
        stride: float | None = None,
        workers_count: int = 1,
        stop: Event | None = None,
    ) -> Iterator[IngestReport]:
        """Ingest existing files of the folders, then new ones as they are completed; yield a report per batch.

        Runs until `stop` is set. A failed file is reported once and retried when it changes; while catalog or disk are
        not available, files wait. windows, text_encoder, encoder, stride, workers_count: as in ingest. Raises
        SourceNotFoundError for a path that is not a folder, EmbedderError for an invalid window plan or an encoder that
        cannot be loaded, MissingExtraError without the package watchfiles.
        """
        listed = [one.uri if isinstance(one, EpisodeAddress) else one for one in listed_paths(folders)]
        texts = load_text_encoder(text_encoder)  # opened once, so that errors are raised immediately
        plans, frames = None if windows is None else as_plans(windows), load_encoder(encoder)
        check_stride(stride, frames)
        ingest = partial(self.ingest, windows=plans, text_encoder=texts, encoder=frames, stride=stride)
        return watch(self._archive, partial(ingest, workers_count=workers_count), listed, stop)
