"""Ingest: episode files into catalog, ledger and index; resumable at any instant.

Knows: the order of the work and what each step leaves behind. Does not know: formats, tables, vector backends.

    plan      which files are new or changed since the catalog saw them
    register  read metadata and moments, write episode rows         (transaction per batch)
    embed     every episode that its Space lacks, write the ledger  (transaction per batch)
    push      tell the index what the ledger has committed

There is no queue: what is left to do is the difference between files, catalog and ledger. A run that was killed is
finished by the next one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import numpy as np

from bridge.archive import Archive, open_archive
from bridge.discover import Sources, discover
from bridge.index.base import Point
from bridge.progress import Progress, Silent
from bridge.reading import Embedding, Failure, embed_episodes, locate, read_record, told
from bridge.selection import choose_lanes
from bridge.spaces import Family, current, due
from bridge.workers import Workers, workers
from catalog.records import Among, EpisodeRecord
from embedders.registry import DEFAULT_EMBEDDER, as_embedder
from embedders.space import Space, WindowPlan
from wshard.errors import IngestError, NoLaneError, SpaceMismatchError, WShardError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from catalog.records import EpisodeRow, Known, SpaceRow
    from embedders.base import Embedder
    from embedders.pooled import PooledFunction

    PathLike = str | os.PathLike[str]

BATCH: Final = 256  # episodes per transaction: large enough to share one fsync, small enough to lose little work
_WHOLE: Final = WindowPlan()
Item = TypeVar("Item")


@dataclass
class IngestReport:
    """What a run did, in episodes; `failed` says what was left out and why."""

    new: int = 0
    changed: int = 0
    moved: int = 0
    unchanged: int = 0
    removed: int = 0
    embedded: int = 0
    failed: list[Failure] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """True if nothing was left out."""
        return not self.failed


class TrajectoryIngestor:
    """Puts episode files into an archive: catalog, embeddings and search index.

    target: an archive folder, made when missing ("demo-archive": catalog.db and index/; the episodes may lie
    anywhere), or the URL of a vector index; `archive` then names the catalog's folder (see open_archive).
    embedder: a name ("arcdct", "dct", "stats", "mean"), an Embedder, or a callable [D] -> [E] that gets the mean over
    time. lanes: what to embed, e.g. ["state"]; None = every observation lane that is a number or a vector of at most
    256 numbers per timestep.

    Use as a context manager, or close() it. Several ingestors may work on one archive at once.
    """

    def __init__(
        self,
        target: PathLike,
        embedder: str | Embedder | PooledFunction = DEFAULT_EMBEDDER,
        *,
        lanes: Sequence[str] | None = None,
        archive: PathLike | None = None,
    ) -> None:
        self._embedder = as_embedder(embedder)
        self._lanes = list(lanes) if lanes is not None else None
        self._archive: Archive = open_archive(target, archive=archive, create=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the archive."""
        self._archive.close()

    def ingest_episode(self, path: PathLike) -> str:
        """Ingest one episode file and return its uid; an episode that is there already costs next to nothing.

        Raises IngestError (a ValueError), FormatError, SourceNotFoundError; then nothing of the file was taken in.
        """
        return self._ingest_one(path, _WHOLE).uid

    def ingest_timesteps(self, path: PathLike, window_size: int = 32, stride: int = 16) -> list[str]:
        """Ingest windows of one episode: window_size timesteps, one every `stride`, the tail covered too.

        Returns one id "uid:start-stop" per window, stop exclusive. Raises as ingest_episode.
        """
        plan = WindowPlan(window_size, stride)
        row = self._ingest_one(path, plan)
        return [f"{row.uid}:{start}-{stop}" for start, stop in plan.spans(row.length).tolist()]

    def _ingest_one(self, path: PathLike, windows: WindowPlan) -> EpisodeRow:
        report = self.ingest([path], windows=windows)
        where = locate(path)
        for failure in report.failed:
            if failure.path == where:
                read_record(where, self._lanes)  # raises the typed error; what else went wrong is told in words
                raise IngestError(f"{failure.path}: {failure.error}")
        return self._archive.catalog.get(self._archive.catalog.known([where])[where][0].id)

    def ingest(
        self,
        paths: PathLike | Sequence[PathLike],
        *,
        windows: WindowPlan = _WHOLE,
        workers_count: int = 1,
        prune: bool = False,
        progress: Progress | None = None,
    ) -> IngestReport:
        """Ingest files and folders (searched recursively); unchanged episodes are skipped.

        windows: one vector per episode, or per window. workers_count: processes that read and embed. prune: forget
        catalogued episodes below the given folders whose files are gone. Episodes that cannot be ingested are reported,
        the others are not held up. Raises SourceNotFoundError before anything is written, CatalogError, OSError.
        """
        begun = time.perf_counter()
        listed = [paths] if isinstance(paths, (str, Path)) or hasattr(paths, "__fspath__") else list(paths)
        sources = discover(listed, allow_empty=prune)
        report = IngestReport()
        watch = progress or Silent()
        with workers(workers_count) as crew:
            run = _Run(self._archive, crew, watch, report)
            run.register(sources, self._lanes)
            if prune:
                run.prune(sources.folders)
            for family in self._families(windows):
                run.fill(family, sources)
        report.seconds = time.perf_counter() - begun
        return report

    def _families(self, windows: WindowPlan) -> list[Family]:
        """Group the archive's layouts by the lanes that this ingestor embeds."""
        groups: dict[tuple[Any, ...], list[int]] = {}
        for layout in self._archive.catalog.layouts():
            try:
                groups.setdefault(choose_lanes(layout.lanes, self._lanes), []).append(layout.id)
            except NoLaneError:
                continue  # ingested with other lanes than this ingestor's; not its business
        return [Family(self._embedder, lanes, windows, tuple(ids)) for lanes, ids in groups.items()]


@dataclass(frozen=True)
class _Run:
    """One run over an archive."""

    archive: Archive
    crew: Workers
    watch: Progress
    report: IngestReport

    def register(self, sources: Sources, lanes: Sequence[str] | None) -> None:
        """Bring the catalog up to date with the files."""
        catalog = self.archive.catalog
        for folder in sources.folders:
            catalog.add_root(folder)
        due_files = [path for batch in _batches(sources.files) for path in self._unseen(batch)]
        self.report.unchanged += len(sources.files) - len(due_files)
        if not due_files:
            return
        self.watch.stage("reading", len(due_files))
        for outcome in self.crew.each(partial(_read, wanted=lanes), _batches(due_files)):
            records = [found for found in outcome if isinstance(found, EpisodeRecord)]
            failures = [found for found in outcome if isinstance(found, Failure)]
            for registered in catalog.register(self._moved(records)):
                name = registered.outcome
                setattr(self.report, name, getattr(self.report, name) + 1)
            self._withdraw(failures)
            self.report.failed += failures
            self.watch.advance(len(outcome))

    def _unseen(self, paths: Sequence[str]) -> list[str]:
        """Return the files that the catalog does not know as they are now, by size and modification time."""
        known = self.archive.catalog.known(paths)
        return [path for path in paths if not (path in known and _same_file(path, known[path][0]))]

    def _moved(self, records: Sequence[EpisodeRecord]) -> list[EpisodeRecord]:
        """Recognise files that were moved: equal digest, and nothing is left at the catalogued place."""
        known = self.archive.catalog.known([record.path for record in records])
        fresh = {record.digest for record in records if record.path not in known}
        lost: dict[str, list[int]] = {}
        for row in self.archive.catalog.by_digest(sorted(fresh)):
            if not Path(row.path).exists():
                lost.setdefault(row.digest, []).append(row.id)
        return [
            replace(record, moved_from=lost[record.digest].pop(0))
            if record.path not in known and lost.get(record.digest)
            else record
            for record in records
        ]

    def _withdraw(self, failures: Sequence[Failure]) -> None:
        """Bury the vectors of catalogued episodes whose files can no longer be read: they describe other data."""
        known = self.archive.catalog.known([failure.path for failure in failures])
        self._bury([episode.id for episodes in known.values() for episode in episodes], forget=False)

    def prune(self, folders: Sequence[str]) -> None:
        """Forget the episodes below these folders whose files are gone."""
        catalog = self.archive.catalog
        gone = [id_ for folder in folders for id_, path in catalog.places(folder) if not Path(path).exists()]
        self._bury(gone, forget=True)
        self.report.removed += len(gone)

    def _bury(self, ids: Sequence[int], *, forget: bool) -> None:
        if not ids:
            return
        catalog = self.archive.catalog
        if forget:
            catalog.remove(ids)
        else:
            catalog.withdraw(ids)
        for row in catalog.spaces():
            if row.state != "retired":
                self.archive.index.delete(Space.from_json(row.definition), ids)

    def fill(self, family: Family, sources: Sources) -> None:
        """Embed what the family's Spaces lack, and take statistics anew where the archive has moved on."""
        catalog = self.archive.catalog
        active = current(catalog, family)
        among = self._among(family, active, sources)
        if active is not None:
            self._embed(family, active, among)
        while (target := due(catalog, family)) is not None:
            left_out = self._embed(family, target, among)
            if catalog.activate(target.id, among, ignoring=left_out):
                catalog.mark_checked(target.id, catalog.clock())

    def _among(self, family: Family, active: SpaceRow | None, sources: Sources) -> Among:
        """Return whom the Space is for.

        Whole-episode vectors are for every episode of the archive, so that any run finishes what an earlier one left;
        windows are many, and only for the episodes that they were asked for.
        """
        if family.windows.whole:
            return Among(family.layout_ids)
        catalog = self.archive.catalog
        asked = {found[0].id for batch in _batches(sources.files) for found in catalog.known(batch).values()}
        return Among(family.layout_ids, tuple(asked.union(catalog.embedded(active.id) if active else ())))

    def _embed(self, family: Family, target: SpaceRow, among: Among) -> list[int]:
        """Embed every pending episode into one Space; returns the ids of those that could not be embedded."""
        catalog = self.archive.catalog
        space = Space.from_json(target.definition)
        total = catalog.pending_count(target.id, among)
        if total == 0:
            return []
        self.watch.stage("embedding", total)
        left_out: list[int] = []
        job = partial(embed_episodes, Embedding(family.embedder, space))
        for rows, failures in self.crew.each(job, self._pending(target, among)):
            try:
                entries = catalog.write_embeddings(target.id, rows)
            except SpaceMismatchError:
                return left_out  # another ingest replaced the Space meanwhile; the next round finds the new one
            points = [
                Point(entry.episode_id, entry.seq, np.frombuffer(entry.vectors, "<f4").reshape(entry.count, space.dim))
                for entry in entries
                if entry.vectors is not None
            ]
            self.archive.index.upsert(space, points)
            self.report.embedded += len(entries)
            left_out += [id_ for id_, _ in failures]
            told_already = {failure.path for failure in self.report.failed}
            self.report.failed += [failure for _, failure in failures if failure.path not in told_already]
            self.watch.advance(len(rows) + len(failures))
        return left_out

    def _pending(self, target: SpaceRow, among: Among) -> Iterator[list[EpisodeRow]]:
        after = 0
        while rows := self.archive.catalog.pending(target.id, among, after=after, limit=BATCH):
            after = rows[-1].id
            yield rows


def _read(paths: Sequence[str], wanted: Sequence[str] | None) -> list[EpisodeRecord | Failure]:
    return [_read_one(path, wanted) for path in paths]


def _read_one(path: str, wanted: Sequence[str] | None) -> EpisodeRecord | Failure:
    try:
        return read_record(path, wanted)
    except (WShardError, OSError) as error:
        return Failure(path, told(error, path))


def _same_file(path: str, known: Known) -> bool:
    status = Path(path).stat()
    return (status.st_size, status.st_mtime_ns) == (known.size, known.mtime_ns)


def _batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    return (items[start : start + BATCH] for start in range(0, len(items), BATCH))
