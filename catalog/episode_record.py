"""The record of one episode that ingest registers, and the validation of its values."""

from __future__ import annotations

import math
import posixpath
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from catalog.full_text import indexed
from catalog.records import Asset, LaneRecord
from catalog.values import INTEGER_LIMIT, encode_lanes, encode_metadata, storable, unpack_numbers
from wshard.core.episode.natural_order import natural_key
from wshard.core.episode.protocol import OWN_FORMAT, EpisodeAddress, read_as
from wshard.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from catalog.records import Asset, LaneRecord
    from catalog.values import JSON

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*://")


@dataclass(frozen=True)
class EpisodeRecord:
    """One episode, as ingest registers it.

    path is the absolute, normalised POSIX path of the location, or its URI; key is "" if that is one episode; length is
    in timesteps, size in bytes, mtime_ns in nanoseconds. assets are the files of an episode of several, all in or below
    the folder of path; size is then their sum, mtime_ns the latest. moved_from is the id of the catalogued episode
    whose file has moved here; displaces that of the episode catalogued here, if this is a different one. format and
    lane_map specify how to read the location. A NaN reward is a missing one. Raises IngestError for a value that the
    catalog cannot store. Stored forms are computed here, since records are made in parallel and stored one after
    another: encoded is the metadata as text, layout the lanes as text, words the full text of the metadata.
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
    displaces: int | None = None
    assets: tuple[Asset, ...] = ()
    format: str = OWN_FORMAT
    lane_map: str = ""
    encoded: str = field(init=False, repr=False, compare=False)
    layout: str = field(init=False, repr=False, compare=False)
    words: str = field(init=False, repr=False, compare=False)

    @property
    def sort_key(self) -> str:
        """The text that orders episodes by episode_id."""
        return natural_key(self.episode_id)

    @property
    def address(self) -> EpisodeAddress:
        """The address of the episode."""
        return EpisodeAddress(self.path, self.key, read_as(self.format, self.lane_map))

    def __post_init__(self) -> None:
        check_record(self)
        stored_forms = {
            "total_reward": checked_reward(self.total_reward, path=self.path),
            "encoded": encode_metadata(self.metadata, path=self.path),
            "layout": encode_lanes(tuple((lane.name, lane.dtype, lane.shape, lane.names) for lane in self.lanes)),
            "words": indexed(self.metadata, ()),
        }
        for name, value in stored_forms.items():
            object.__setattr__(self, name, value)


def check_record(record: EpisodeRecord) -> None:
    """Refuse the record if any of its values cannot be stored; metadata and reward are checked elsewhere."""
    check_path(record.path)
    for name in ("key", "episode_id", "env_id", "digest", "format", "lane_map"):
        _check_text(getattr(record, name), name=name, path=record.path)
    for name in ("length", "size", "mtime_ns"):
        _check_integer(getattr(record, name), name=name, path=record.path)
    _check_success(record.success, path=record.path)
    _check_lanes(record.lanes, path=record.path)
    _check_assets(record.assets, path=record.path)


def check_path(path: object) -> None:
    """Refuse what is no absolute path and no URI of an object, and what some database cannot store."""
    text = path if isinstance(path, str) else ""
    begin = _SCHEME.match(text)
    below = text[begin.end() - 1 :] if begin else text
    is_absolute = below.startswith("/") and not below.startswith("//")
    if not (is_absolute and posixpath.normpath(below) == below and storable(text)):
        raise IngestError(f"path must be an absolute, normalised POSIX path or a URI in UTF-8, found {path!r}")


def checked_reward(value: object, *, path: str) -> float | None:
    """Return the reward as it is stored: NaN is a missing one."""
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise IngestError(f"total_reward must be a number or None, found {value!r}, in the episode at {path}")
    try:
        return None if math.isnan(value) else float(value)
    except OverflowError as error:
        raise IngestError(f"total_reward must fit in a float, found {value!r}, in the episode at {path}") from error


def _check_text(value: object, *, name: str, path: str) -> None:
    if type(value) is str and value.isascii() and "\0" not in value:
        return  # fast path: nearly all texts are such, and a record has twenty
    if not isinstance(value, str) or not storable(value):
        raise IngestError(f"{name} must be text in UTF-8 without NUL, found {value!r}, in the episode at {path}")


def _check_integer(value: object, *, name: str, path: str) -> None:
    minimum = -INTEGER_LIMIT if name == "mtime_ns" else 0
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value < INTEGER_LIMIT:
        raise IngestError(f"{name} must be an integer from {minimum}, found {value!r}, in the episode at {path}")


def _check_counts(values: Iterable[object], name: str, *, path: str) -> None:
    for value in values:
        if type(value) is not int or not 0 <= value < INTEGER_LIMIT:
            _check_integer(value, name=name, path=path)


def _check_success(value: object, *, path: str) -> None:
    if value is not None and not isinstance(value, bool):
        raise IngestError(f"success must be True, False or None, found {value!r}, in the episode at {path}")


def _check_lanes(lanes: Sequence[LaneRecord], *, path: str) -> None:
    if len({lane.name for lane in lanes}) != len(lanes):
        raise IngestError(f"lane names must differ, found {[lane.name for lane in lanes]}, in the episode at {path}")
    for lane in lanes:
        _check_text(lane.name, name="a lane's name", path=path)
        _check_text(lane.dtype, name="a lane's dtype", path=path)
        _check_counts((lane.count, *lane.shape), f"a count or axis of lane {lane.name}", path=path)
        _check_storage(lane, path=path)
        numbers = unpack_numbers(lane.spread or b"")
        # NaN: channels without numbers; what is known of a lane is of the others
        if not math.isfinite(sum(numbers)) and (any(map(math.isinf, numbers)) or any(map(math.isnan, numbers[:4]))):
            raise IngestError(
                f"statistics must be finite, found {numbers} in lane {lane.name}, in the episode at {path}"
            )


def _check_assets(assets: Sequence[Asset], *, path: str) -> None:
    folder = posixpath.dirname(path).rstrip("/")
    for asset in assets:
        check_path(asset.path)
        if not asset.path.startswith(f"{folder}/"):
            raise IngestError(f"expected the files of the episode at {path} in its folder, found {asset.path}")
        _check_text(asset.role, name="the role of a file", path=path)
        _check_text(asset.digest, name="the digest of a file", path=path)
        for name in ("size", "mtime_ns"):
            _check_integer(getattr(asset, name), name=name, path=path)
    if len({asset.path for asset in assets}) != len(assets):
        raise IngestError(f"expected different files, found one twice, in the episode at {path}")


def _check_storage(lane: LaneRecord, *, path: str) -> None:
    if lane.rate is not None and not (math.isfinite(lane.rate) and lane.rate > 0):
        raise IngestError(f"a rate must be above 0, found {lane.rate!r} in lane {lane.name}, in the episode at {path}")
    if lane.storage is not None:
        _check_text(lane.storage.codec, name="the codec of a lane", path=path)
        size, stored = lane.storage[1:]
        _check_counts((size, stored or 0), f"the bytes of lane {lane.name}", path=path)
