"""The plain values that the catalog takes and returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from wshard.core.episode.protocol import EpisodeAddress, StoredLane, read_as
from wshard.core.messages import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog.values import JSON

_SHOWN = 3  # rows in the text of a page

Outcome: TypeAlias = Literal["new", "changed", "unchanged", "moved"]
SpaceState: TypeAlias = Literal["building", "active", "retired"]


class LaneDefinition(NamedTuple):  # there is one per lane of each episode that is read
    """One lane, as it is in every episode of a layout; shape is that of one timestep.

    names: those of the channels of a vector, () where the episodes state none.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    names: tuple[str, ...] = ()


class Spread(NamedTuple):  # there is one per channel of each episode, so they must be made and read quickly
    """Statistics of a channel or lane in one episode; population std, NaN for a channel without numbers."""

    min: float
    max: float
    mean: float
    std: float


@dataclass(frozen=True)
class LaneRecord:
    """One lane of one episode; count in timesteps, rate in timesteps per second.

    rate and storage are None if unknown. spread: the numbers of a Spread as little-endian float64, of
    the whole lane and then of each channel, None if the lane is not summarised (images, text). names: as in the
    layout.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    count: int
    rate: float | None = None
    storage: StoredLane | None = None
    spread: bytes | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asset:
    """A file of an episode: its role ("episode" for a single file) and absolute path.

    digest identifies the content; size (bytes) and mtime_ns (nanoseconds) show when to read it again. key: that of the
    episode in a location of several, "" for a single file. read_as: that of the EpisodeAddress.
    """

    role: str
    path: str
    digest: str
    size: int
    mtime_ns: int
    key: str = ""
    read_as: str = ""

    @property
    def address(self) -> EpisodeAddress:
        """The address of the file."""
        return EpisodeAddress(self.path, self.key, self.read_as)


@dataclass(frozen=True)
class Registered:
    """Result of registering one record; superseded: ids of removed episodes whose files are parts of it."""

    id: int
    uid: str
    outcome: Outcome
    superseded: tuple[int, ...] = ()


@dataclass(frozen=True)
class Known:
    """What is needed to decide whether a file must be read again; assets: those of an episode of several files.

    read_as: that of the EpisodeAddress.
    """

    id: int
    key: str
    digest: str
    size: int
    mtime_ns: int
    assets: tuple[Asset, ...] = ()
    read_as: str = ""


class EpisodeRow(NamedTuple):  # pages of them are made for every listing, so they must be made quickly
    """One catalogued episode; path and its root are absolute, ingested_at is UTC in ISO 8601, tags are sorted.

    Its members are in the order of the table's columns, with `root` for `root_id`, and the tags behind them.
    """

    id: int
    uid: str
    root: str
    path: str
    key: str
    format: str
    lane_map: str
    episode_id: str
    env_id: str
    length: int
    total_reward: float | None
    success: bool | None
    digest: str
    size: int
    mtime_ns: int
    metadata: dict[str, JSON]
    layout_id: int
    ingested_at: str
    tags: tuple[str, ...]

    @property
    def address(self) -> EpisodeAddress:
        """The address of the episode."""
        return EpisodeAddress(self.path, self.key, read_as(self.format, self.lane_map))


@dataclass(frozen=True)
class LaneFacts:
    """What is known about one lane of an episode: statistics of all its numbers and by channel, None if not summarised.

    shape is that of one timestep, rate in timesteps per second; rate and storage are None if unknown.
    """

    dtype: str
    shape: tuple[int, ...]
    count: int
    whole: Spread | None
    channels: tuple[Spread, ...]
    rate: float | None = None
    storage: StoredLane | None = None


@dataclass(frozen=True)
class Note:
    """A note on an episode, and when it was written (UTC, ISO 8601); who is "" for an anonymous one."""

    id: int
    episode_id: int
    text: str
    who: str
    at: str


@dataclass(frozen=True)
class Review:
    """One entry of the review log: the new state of an episode, None for no review any more.

    undoes is the id of the entry that this one reverts, None for a plain one.
    """

    id: int
    episode_id: int
    state: str | None
    who: str
    at: str
    undoes: int | None = None


@dataclass(frozen=True)
class Lineage:
    """Where an episode comes from: the relation (converted_from, trimmed_from, recorded_by) and the source."""

    relation: str
    source: str


@dataclass(frozen=True)
class CheckFinding:
    """A problem that a check found in an episode: the check, and the reason as text."""

    check: str
    reason: str


@dataclass(frozen=True)
class EmbeddedSpace:
    """Number of vectors of an episode in a space, which is identified by its fingerprint."""

    space: str
    family: str
    state: SpaceState
    vectors: int


@dataclass(frozen=True)
class CheckResult:
    """Result of one version of the checks for an episode with that digest: scores by name, and findings.

    measures: opaque numbers, stored so that other episodes of the family can be compared with them; None to store
    nothing.
    """

    episode_id: int
    digest: str
    version: str
    family: str
    scores: Mapping[str, float]
    findings: tuple[CheckFinding, ...]
    measures: bytes | None = None


@dataclass(frozen=True)
class Facts:
    """What is known about an episode beyond its row. collections: names and hashes of the snapshots that contain it.

    assets: its files, if there are several; paths as stored, relative to their root.
    """

    lanes: Mapping[str, LaneFacts] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    findings: tuple[CheckFinding, ...] = ()
    notes: tuple[Note, ...] = ()
    review: Review | None = None
    lineage: tuple[Lineage, ...] = ()
    collections: tuple[str, ...] = ()
    embedded: tuple[EmbeddedSpace, ...] = ()
    assets: tuple[Asset, ...] = ()


@dataclass(frozen=True)
class Layout:
    """A set of lanes that `episodes` catalogued episodes share; lanes are sorted by name."""

    id: int
    lanes: tuple[LaneDefinition, ...]
    episodes: int


@dataclass(frozen=True)
class Page:
    """Some rows in order, and the cursor of the next page (None at the end)."""

    rows: tuple[EpisodeRow, ...]
    next: str | None

    def __repr__(self) -> str:
        """Return how many rows there are, the ids of the first ones, and whether more follow."""
        first = ", ".join(repr(row.episode_id) for row in self.rows[:_SHOWN])
        more = ", ..." if len(self.rows) > _SHOWN else ""
        count = plural(len(self.rows), "episode")
        return f"<page of {count}{': ' if self.rows else ''}{first}{more}{'; more pages' if self.next else ''}>"
