"""The plain values that go into and come out of the catalog.

Knows: what an episode, a layout, a space and a ledger entry are made of, and which of them are refused.
Does not know: tables, SQL, files, or what the vectors and moments mean (opaque bytes).
"""

from __future__ import annotations

import math
import posixpath
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from catalog.values import INTEGER_LIMIT, encode_metadata, storable
from wshard.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog.values import JSON

Outcome: TypeAlias = Literal["new", "changed", "unchanged", "moved"]
SpaceState: TypeAlias = Literal["building", "active", "retired"]


@dataclass(frozen=True)
class LaneDefinition:
    """What one lane looks like in every episode of a layout; shape is that of one timestep."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class Spread(NamedTuple):  # there is one per channel of each episode, so they must be made and read quickly
    """What the numbers of one channel, or of a whole lane, are like in one episode; finite, std of the population."""

    min: float
    max: float
    mean: float
    std: float


@dataclass(frozen=True)
class Storage:
    """How a lane lies in its file: the codec's name ("none" for raw), bytes when decoded, bytes as stored."""

    codec: str
    bytes: int
    stored: int


@dataclass(frozen=True)
class LaneRecord:
    """One lane of one episode; count in timesteps, rate in timesteps per second.

    moments (opaque to the catalog) and channels are None when the lane is not summarised (images, text), rate and
    storage where they are not known.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    count: int
    moments: bytes | None
    channels: tuple[Spread, ...] | None = None
    rate: float | None = None
    storage: Storage | None = None


@dataclass(frozen=True)
class Asset:
    """One of the files of an episode: what it is to it ("episode" where it is the only one), and its absolute path.

    digest says what is in it, size (bytes) and mtime_ns (nanoseconds) when to look again.
    """

    role: str
    path: str
    digest: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class EpisodeRecord:
    """One episode as ingest hands it in.

    path is the absolute, normalised POSIX path of the file, key is "" for files of one episode, length counts
    timesteps, size bytes, mtime_ns nanoseconds. assets are the files of an episode of several, all of them in or below
    the folder of path; size is then that of all, mtime_ns that of the latest. moved_from is the id of the catalogued
    episode whose file is now here. A NaN reward is a missing one; encoded is the metadata as text. Raises IngestError
    for a value that the catalog cannot hold.
    """

    path: str
    key: str
    episode_id: str
    env_id: str
    length: int
    total_reward: float | None
    success: bool | None
    digest: str
    size: int
    mtime_ns: int
    metadata: Mapping[str, JSON]
    lanes: tuple[LaneRecord, ...]
    moved_from: int | None = None
    assets: tuple[Asset, ...] = ()
    encoded: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_path(self.path)
        for name in ("key", "episode_id", "env_id", "digest"):
            _check_text(getattr(self, name), name=name, path=self.path)
        for name in ("length", "size", "mtime_ns"):
            _check_integer(getattr(self, name), name=name, path=self.path)
        object.__setattr__(self, "total_reward", _reward(self.total_reward, path=self.path))
        _check_success(self.success, path=self.path)
        _check_lanes(self.lanes, path=self.path)
        _check_assets(self.assets, path=self.path)
        object.__setattr__(self, "encoded", encode_metadata(self.metadata, path=self.path))


@dataclass(frozen=True)
class Registered:
    """What became of one registered record; superseded: ids of forgotten episodes, whose files are parts of it."""

    id: int
    uid: str
    outcome: Outcome
    superseded: tuple[int, ...] = ()


@dataclass(frozen=True)
class Known:
    """What is needed to decide whether a file must be read again; assets: those of an episode of several files."""

    id: int
    key: str
    digest: str
    size: int
    mtime_ns: int
    assets: tuple[Asset, ...] = ()


@dataclass(frozen=True)
class EpisodeRow:
    """One catalogued episode; path is absolute, ingested_at is UTC in ISO 8601, tags are sorted."""

    id: int
    uid: str
    path: str
    key: str
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


@dataclass(frozen=True)
class LaneFacts:
    """What is known of one lane of an episode: over all its numbers and by channel, None when not summarised.

    rate in timesteps per second; rate and storage are None where ingest did not tell them.
    """

    count: int
    whole: Spread | None
    channels: tuple[Spread, ...]
    rate: float | None = None
    storage: Storage | None = None


@dataclass(frozen=True)
class Note:
    """What somebody wrote about an episode, and when (UTC, ISO 8601); who "" is nobody in particular."""

    id: int
    episode_id: int
    text: str
    who: str
    at: str


@dataclass(frozen=True)
class Review:
    """One entry of the audit: the state that an episode came into, None for no review any more.

    undoes is the id of the entry that this one takes back, None for a plain one.
    """

    id: int
    episode_id: int
    state: str | None
    who: str
    at: str
    undoes: int | None = None


@dataclass(frozen=True)
class Lineage:
    """Where an episode comes from: relation says how (converted_from, trimmed_from, recorded_by), source from what."""

    relation: str
    source: str


@dataclass(frozen=True)
class Found:
    """Something that a check found wrong with an episode: the check, and the reason in words."""

    check: str
    reason: str


@dataclass(frozen=True)
class Checked:
    """What the checks of a version say of an episode with that digest: scores by name, and what is wrong.

    measures: opaque numbers, to be kept so that others of the family can be compared with them; None to keep nothing.
    """

    episode_id: int
    digest: str
    version: str
    family: str
    scores: Mapping[str, float]
    findings: tuple[Found, ...]
    measures: bytes | None = None


@dataclass(frozen=True)
class Facts:
    """What is known of an episode beyond its row. collections holds names and hashes of the snapshots it is in.

    roles: what its files are to it, where it consists of several.
    """

    lanes: Mapping[str, LaneFacts] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    findings: tuple[Found, ...] = ()
    notes: tuple[Note, ...] = ()
    review: Review | None = None
    lineage: tuple[Lineage, ...] = ()
    collections: tuple[str, ...] = ()
    spaces: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layout:
    """A set of lanes that `episodes` catalogued episodes share; lanes are sorted by name."""

    id: int
    lanes: tuple[LaneDefinition, ...]
    episodes: int


@dataclass(frozen=True)
class SpaceRow:
    """A vector space; definition is the embedder's own text, checked_seq the clock at its last check."""

    id: int
    fingerprint: str
    family: str
    state: SpaceState
    definition: str
    checked_seq: int


@dataclass(frozen=True)
class Among:
    """Which episodes a space is meant for: those of these layouts, and, unless None, of these ids only."""

    layout_ids: tuple[int, ...]
    ids: tuple[int, ...] | None = None


@dataclass(frozen=True)
class EmbeddingRow:
    """All `count` vectors of one episode, made from the data with that digest."""

    episode_id: int
    digest: str
    count: int
    vectors: bytes


@dataclass(frozen=True)
class LedgerEntry:
    """One committed ledger row; vectors None (and count 0) is a tombstone: whatever was there is gone."""

    episode_id: int
    seq: int
    count: int
    vectors: bytes | None


@dataclass(frozen=True)
class Page:
    """Some rows in order, and the cursor of the rest (None at the end)."""

    rows: tuple[EpisodeRow, ...]
    next: str | None


def _check_path(path: object) -> None:
    normal = isinstance(path, str) and path.startswith("/") and not path.startswith("//")
    if not (normal and isinstance(path, str) and posixpath.normpath(path) == path and storable(path)):
        raise IngestError(f"path must be an absolute, normalised POSIX path in UTF-8, found {path!r}")


def _check_text(value: object, *, name: str, path: str) -> None:
    if not isinstance(value, str) or not storable(value):
        raise IngestError(f"{name} must be text in UTF-8 without NUL, found {value!r}, in the episode at {path}")


def _check_integer(value: object, *, name: str, path: str) -> None:
    least = -INTEGER_LIMIT if name.startswith("mtime_ns") else 0
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < INTEGER_LIMIT:
        raise IngestError(f"{name} must be an integer from {least}, found {value!r}, in the episode at {path}")


def _reward(value: object, *, path: str) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise IngestError(f"total_reward must be a number or None, found {value!r}, in the episode at {path}")
    try:
        return None if math.isnan(value) else float(value)
    except OverflowError as error:
        raise IngestError(f"total_reward must fit in a float, found {value!r}, in the episode at {path}") from error


def _check_success(value: object, *, path: str) -> None:
    if value is not None and not isinstance(value, bool):
        raise IngestError(f"success must be True, False or None, found {value!r}, in the episode at {path}")


def _check_lanes(lanes: Sequence[LaneRecord], *, path: str) -> None:
    if len({lane.name for lane in lanes}) != len(lanes):
        raise IngestError(f"lane names must differ, found {[lane.name for lane in lanes]}, in the episode at {path}")
    for lane in lanes:
        _check_text(lane.name, name="a lane's name", path=path)
        _check_text(lane.dtype, name="a lane's dtype", path=path)
        for number in (lane.count, *lane.shape):
            _check_integer(number, name=f"a count or axis of lane {lane.name}", path=path)
        _check_storage(lane, path=path)
        for spread in lane.channels or ():
            if not math.isfinite(spread.min + spread.max + spread.mean + spread.std):
                raise IngestError(
                    f"statistics must be finite, found {spread} in lane {lane.name}, in the episode at {path}"
                )


def _check_assets(assets: Sequence[Asset], *, path: str) -> None:
    folder = posixpath.dirname(path).rstrip("/")
    for asset in assets:
        _check_path(asset.path)
        if not asset.path.startswith(f"{folder}/"):
            raise IngestError(f"expected the files of the episode at {path} in its folder, found {asset.path}")
        _check_text(asset.role, name="the role of a file", path=path)
        _check_text(asset.digest, name="the digest of a file", path=path)
        for name in ("size", "mtime_ns"):
            _check_integer(getattr(asset, name), name=f"{name} of {asset.path}", path=path)
    if len({asset.path for asset in assets}) != len(assets):
        raise IngestError(f"expected different files, found one twice, in the episode at {path}")


def _check_storage(lane: LaneRecord, *, path: str) -> None:
    if lane.rate is not None and not (math.isfinite(lane.rate) and lane.rate > 0):
        raise IngestError(f"a rate must be above 0, found {lane.rate!r} in lane {lane.name}, in the episode at {path}")
    if lane.storage is not None:
        _check_text(lane.storage.codec, name=f"the codec of lane {lane.name}", path=path)
        for number in (lane.storage.bytes, lane.storage.stored):
            _check_integer(number, name=f"the bytes of lane {lane.name}", path=path)
