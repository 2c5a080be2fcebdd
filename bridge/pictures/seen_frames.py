"""The described camera frames of an archive's episodes: read from their files, described first where they are not."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.episodes.open import OpenLocations
from bridge.episodes.read import Failure, attempt
from bridge.pictures.features import STRIDE, FeatureFiles, Features, spaced_steps
from bridge.pictures.question import is_camera
from bridge.spaces.lanes import block_name
from bridge.support.batches import batches
from bridge.support.progress import Silent
from embedders.image.frame_encoder import comparable_rows
from wshard.core.episode.protocol import Fingerprint
from wshard.errors import IngestError, QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from bridge.archive import Archive
    from bridge.support.progress import Progress
    from catalog.filters.where import Where
    from catalog.records import EpisodeRow
    from embedders.image.frame_encoder import FrameEncoder

_MAX_CACHED: Final = 1 << 28  # bytes


@dataclass(frozen=True, eq=False)
class Seen:
    """The described frames of one camera of an episode, and their rows to compare."""

    episode: EpisodeRow
    camera: str
    features: Features
    rows: NDArray[np.float32]


class SeenFrames:
    """Reads the described frames of an archive for one encoder; those read last stay in memory, within a bound."""

    def __init__(self, archive: Archive, encoder: FrameEncoder) -> None:
        self.encoder = encoder
        self._catalog = archive.catalog
        self._files = FeatureFiles(archive.folder, encoder)
        self._cache: OrderedDict[tuple[str, str, str], Features] = OrderedDict()
        self._size = 0

    def cameras(self, where: Where, lanes: Sequence[str] | None = None) -> dict[int, list[str]]:
        """Return the cameras of each layout of the matching episodes: those named, by default all.

        Raises QueryError if no episode has one.
        """
        layouts = self._catalog.query.layouts(where)
        found = {one.id: [lane.name for lane in one.lanes if is_camera(lane)] for one in layouts}
        if lanes is not None:
            found = {id_: [one for one in named if one in {block_name(lane, named) for lane in lanes}]
                     for id_, named in found.items()}  # fmt: skip
        if layouts and not any(found.values()):
            wanted = "a camera" if lanes is None else f"a camera of {', '.join(lanes)}"
            raise QueryError(f"pictures: expected episodes with {wanted} (a lane of images of bytes), found none")
        return {id_: named for id_, named in found.items() if named}

    def load(
        self,
        where: Where,
        lanes: Sequence[str] | None,
        failures: list[Failure],
        *,
        stride: float = STRIDE,
        progress: Progress | None = None,
    ) -> Iterator[Seen]:
        """Yield the frames of every camera of the matching episodes, and add the episodes that cannot be read.

        Frames that are not described yet are; the files of other episodes are not opened.
        """
        cameras, watch = self.cameras(where, lanes), progress or Silent()
        ids = self._catalog.query.ids(where)
        watch.stage("frames", len(ids))
        for batch in batches(ids):
            with OpenLocations() as locations:
                for row in self._catalog.episodes.rows(batch).values():
                    for camera in cameras.get(row.layout_id, ()):
                        found = attempt(partial(self._find, row, camera, locations, stride), row.address)
                        if isinstance(found, Failure):
                            failures.append(found)
                            break
                        yield Seen(row, camera, *found)
                    watch.advance(1)

    def find_near(
        self, row: EpisodeRow, camera: str, step: int, locations: OpenLocations, stride: float
    ) -> Seen | None:
        """Return all frames between those described before and after a timestep; None if they cannot be read."""
        known = self._of(row, camera, locations, stride)
        place = int(np.searchsorted(known.steps, step))
        first = int(known.steps[place - 1]) + 1 if place else 0
        stop = int(known.steps[place + 1]) if place + 1 < len(known.steps) else row.length
        wanted = np.arange(first, stop, dtype=np.int64)
        near = attempt(partial(self._describe, row, camera, locations, wanted), row.address)
        return None if isinstance(near, Failure) else Seen(row, camera, near, comparable_rows(near.rows))

    def _find(
        self, row: EpisodeRow, camera: str, locations: OpenLocations, stride: float
    ) -> tuple[Features, NDArray[np.float32]]:
        features = self._of(row, camera, locations, stride)
        return features, comparable_rows(features.rows)

    def _of(self, row: EpisodeRow, camera: str, locations: OpenLocations, stride: float) -> Features:
        key = (row.uid, row.digest, camera)
        known = self._cache.get(key)
        wanted = None if known is None else known.at(spaced_steps(row.length, known.rate, stride))
        if wanted is None:
            wanted = self._describe(row, camera, locations, stride)
        self._store(key, wanted)
        return wanted

    def _describe(
        self, row: EpisodeRow, camera: str, locations: OpenLocations, wanted: NDArray[np.int64] | float
    ) -> Features:
        """Return the features of some frames; the file is opened only for those that are not stored."""
        if (stored := self._files.read(row, camera)) is not None:
            steps = wanted if isinstance(wanted, np.ndarray) else spaced_steps(row.length, stored.rate, wanted)
            if (known := stored.at(steps)) is not None:
                return known
        with locations.open(row.address) as file:
            fingerprint = Fingerprint(row.size, row.mtime_ns)
            if not (row.key and locations.fingerprint(row.address) == fingerprint) and file.digest() != row.digest:
                raise IngestError(f"{row.address}: changed since it was ingested: run `wshard ingest` again")
            return self._files.describe(file, row, camera, wanted)

    def _store(self, key: tuple[str, str, str], features: Features) -> None:
        replaced = self._cache.pop(key, None)
        self._size += features.rows.nbytes - (0 if replaced is None else replaced.rows.nbytes)
        self._cache[key] = features
        while self._size > _MAX_CACHED:
            self._size -= self._cache.popitem(last=False)[1].rows.nbytes
