"""Compare episodes to convert with those of the same id that the target has already."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.chunks.manifest import safe_name
from wshard.errors import EpisodeError, UnsupportedFormatError, WShardError
from wshard.formats.base import source_class
from wshard.formats.detect import detect_format
from wshard.formats.open import open_location

if TYPE_CHECKING:
    from wshard.core.episode.meta_reader import Declaration
    from wshard.formats.source_base import SourceBase
    from wshard.training.conversion.jobs import ConversionJob
    from wshard.training.conversion.target import ConversionTarget

_LOSSY: Final = ("jpeg", "mp4")
_MAX_DIFFERENCE: Final = 40  # mean, of the values of a frame that was encoded again


class ExistingEpisodes:
    """The episodes of the target as they were when the first of them was compared; close() releases them."""

    def __init__(self, target: ConversionTarget) -> None:
        self._target = target
        self._lock = threading.Lock()

    @cached_property
    def _source(self) -> SourceBase | None:
        """The target as a Source, None if it is of a format that is only written."""
        name = self._target.format
        try:
            source_class(name)
        except UnsupportedFormatError:
            name = detect_format(self._target.location) or ""
        return open_location(self._target.location, name) if name else None

    @cached_property
    def _keys(self) -> dict[str, str]:
        """The key of each episode, by its id."""
        source, keys = self._source, {}
        for key in [] if source is None else source.keys():
            try:
                keys[source.info(key).id] = key  # type: ignore[union-attr]
            except WShardError:  # a damaged one
                keys[key] = key
        return keys

    def has_same(self, id_: str, job: ConversionJob, source: SourceBase) -> bool:
        """Return True if the target's episode of this id has the data of the job's; False for another one.

        Lanes that both have in the same dtype and shape are compared; of frames, the first, middle and last one. True
        for a format that cannot be read. Raises EpisodeError where there is nothing to compare.
        """
        with self._lock:
            if self._source is None:
                return True
            try:
                key = self._keys.get(id_) or self._keys[safe_name(id_)]
                return self._compare(self._source, key, job, source)
            except (KeyError, WShardError) as error:
                raise EpisodeError(
                    f"{self._target.location}: expected to compare episode {id_!r} with the one of this id that is "
                    f"there: {error}"
                ) from error

    def _compare(self, existing: SourceBase, key: str, job: ConversionJob, source: SourceBase) -> bool:
        span, found, new = job.span, existing.info(key), source.info(job.span.address.key)
        length = (new.length if span.stop is None else span.stop) - span.start
        if found.length != length:
            return False
        blocks = [
            name
            for name, lane in new.lanes.items()
            if name.startswith(("signal/", "action/", "reward")) and _is_alike(lane, found.lanes.get(name))
        ]
        if not blocks:
            raise EpisodeError("expected lanes that both have, found none")
        for name in blocks:
            is_frames = bool(new.lanes[name].encoding or found.lanes[name].encoding or len(new.lanes[name].shape) == 3)
            steps = sorted({0, length // 2, length - 1}) if is_frames else [None]
            for step in steps:
                start, stop = (0, length) if step is None else (step, step + 1)
                rows = source.lane(span.address.key, name, span.start + start, span.start + stop)
                stored = existing.lane(key, name, start, stop)
                if not _is_equal(rows, stored, exact=_is_exact(new.lanes[name], found.lanes[name])):
                    return False
        return True

    def close(self) -> None:
        """Release the target."""
        source = vars(self).get("_source")
        if source is not None:
            source.close()


def _is_alike(lane: Declaration, other: Declaration | None) -> bool:
    return other is not None and (lane.dtype, tuple(lane.shape)) == (other.dtype, tuple(other.shape))


def _is_exact(lane: Declaration, stored: Declaration) -> bool:
    """Return True if frames are stored without loss, or as they were encoded."""
    return stored.encoding not in _LOSSY or (stored.encoding == lane.encoding == "jpeg")


def _is_equal(rows: Any, stored: Any, *, exact: bool) -> bool:
    if exact:
        return np.array_equal(rows, stored, equal_nan=np.asarray(rows).dtype.kind in "fc")
    return bool(np.abs(rows.astype(np.float64) - stored.astype(np.float64)).mean() <= _MAX_DIFFERENCE)
