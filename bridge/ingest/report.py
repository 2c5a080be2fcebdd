"""One ingest run: its settings, and its report."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bridge.episodes.anomalies import AnomalyTally
from bridge.ingest.left_out import LeftOutTally
from bridge.support.array_spool import ArraySpool
from bridge.support.batches import BATCH
from bridge.support.episode_cache import EpisodeCache
from bridge.support.garbage import give_back
from bridge.support.id_set import IdSet
from wshard.core.messages import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bridge.archive import Archive
    from bridge.episodes.anomalies import Anomaly
    from bridge.episodes.read import Failure
    from bridge.ingest.index_sync import IndexSync
    from bridge.ingest.left_out import UnreadArrays
    from bridge.quality.judge import Subject
    from bridge.support.progress import Progress
    from bridge.support.workers import Workers
    from wshard.core.quality.checks import Verdict


@dataclass(frozen=True)
class Replaced:
    """An episode that is missing since its file holds another one: where, both by their ids; id: in the catalog."""

    id: int
    path: str
    before: str
    now: str

    def __str__(self) -> str:
        """Say so, without the place."""
        return (
            f"now holds episode {self.now!r} (was {self.before!r}); {self.before!r} is kept as missing, with its tags, "
            "notes and reviews, until it reappears elsewhere or --prune removes it"
        )


@dataclass(frozen=True)
class EarlierReading:
    """Episodes of an earlier reading that are gone.

    episodes, locations: how many, of how many. transferred: of them, those whose annotations another has now; apart:
    those with annotations that none of the new episodes equals, which are missing now.
    """

    episodes: int
    locations: int
    transferred: int = 0
    apart: int = 0

    def __str__(self) -> str:
        """Say so in one line."""
        text = f"{plural(self.episodes, 'episode')} of {plural(self.locations, 'location')} replaced"
        if self.transferred:
            text += f"; {self.transferred} passed tags, notes and reviews on"
        if self.apart:
            text += f"; {self.apart} with tags, notes or reviews kept as missing, until --prune removes them"
        return text


@dataclass
class IngestReport:
    """Summary of an ingest run; numbers count episodes.

    missing: files of catalogued episodes below the folders that do not exist. embedded: episodes that got vectors, or
    new ones because the statistics changed. bridged: those of them with gaps (NaN) that were interpolated. tasks:
    episodes whose task description was embedded. flagged: episodes with findings of quality checks, but for those that
    had some before this run. failed: skipped episodes with the reason. unembedded: catalogued episodes without a
    vector, with the reason. replaced: missing episodes whose files were overwritten by others. earlier: what became of
    episodes whose locations were read otherwise before. stale: snapshots without all of their episodes, where some
    changed or were removed. delayed: why the index is behind the ledger (the next run catches up). unprepared: why
    neighbour graphs or stored timesteps were not made (searches make them). skipped: number of other files in the
    folders, by suffix; unread: of them, those of arrays and tables that are not read, with the reason, by their paths.
    spaces: how many episodes got vectors of which lanes; an episode may be in several. alike: lanes that may mean the
    same under different names, or not under one, and the command that maps them. picked: which channels of wider lanes
    are compared, and why, and in which scale. formats: the numbers of locations and of episodes that were read in each
    format, or by each layout. anomalies: flags of the episodes that were read, and what else is odd in them, by
    location and kind. left_out: arrays of their files that they lack.
    """

    new: int = 0
    changed: int = 0
    moved: int = 0
    unchanged: int = 0
    removed: int = 0
    missing: int = 0
    embedded: int = 0
    bridged: int = 0
    tasks: int = 0
    flagged: int = 0
    failed: list[Failure] = field(default_factory=list)
    unembedded: list[Failure] = field(default_factory=list)
    replaced: list[Replaced] = field(default_factory=list)
    earlier: EarlierReading | None = None
    stale: list[str] = field(default_factory=list)
    delayed: str | None = None
    unprepared: str | None = None
    skipped: Mapping[str, int] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    spaces: dict[str, int] = field(default_factory=dict)
    alike: list[str] = field(default_factory=list)
    picked: list[str] = field(default_factory=list)
    formats: dict[str, tuple[int, int]] = field(default_factory=dict)
    anomalies: list[Anomaly] = field(default_factory=list)
    left_out: list[UnreadArrays] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """True if nothing failed or was delayed, whatever is flagged or without a vector."""
        return not self.failed and self.delayed is None

    def add_failures(self, failures: Iterable[Failure]) -> None:
        """Add failures; only the first one of an episode is reported."""
        known = {failure.address for failure in (*self.failed, *self.unembedded)}
        fresh = [failure for failure in failures if failure.address not in known]
        self.failed += [failure for failure in fresh if not failure.catalogued]
        self.unembedded += [failure for failure in fresh if failure.catalogued]


@dataclass(frozen=True)
class Run:
    """One run over an archive.

    present: ids of the episodes that were found and are in the catalog; newly_cataloged: of the new and changed ones;
    embedded, of those that got vectors; bridged, of those of them with gaps. by_lanes: ids of those that got vectors,
    by the lanes in words. anomalies, left_out: what is odd in those that were read, and what they lack. cache: of
    their lanes; spool: of their timesteps.
    """

    archive: Archive
    pool: Workers
    watch: Progress
    report: IngestReport
    index_sync: IndexSync
    present: array[int] = field(default_factory=lambda: array("q"))
    newly_cataloged: array[int] = field(default_factory=lambda: array("q"))
    embedded: IdSet = field(default_factory=IdSet)
    bridged: IdSet = field(default_factory=IdSet)
    by_lanes: dict[str, IdSet] = field(default_factory=dict)
    anomalies: AnomalyTally = field(default_factory=AnomalyTally)
    left_out: LeftOutTally = field(default_factory=LeftOutTally)
    cache: EpisodeCache = field(default_factory=EpisodeCache)
    spool: ArraySpool = field(default_factory=ArraySpool)

    def free_memory(self, episodes: int) -> None:
        """Return what a step of so many episodes took: that of idle connections, and what is free; a few took little.

        For a few episodes it would take longer than they do.
        """
        if episodes > BATCH:
            self.archive.catalog.close_idle()
            give_back()

    def add_flags(self, subject: Subject, verdict: Verdict) -> None:
        """Add what the quality checks found in an episode."""
        if subject.address is not None:
            self.anomalies.add_flags(subject.address, verdict.findings)
