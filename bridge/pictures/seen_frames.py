"""The described camera frames of an archive's episodes: read from their files, described first where they are not."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from bridge.episodes.open import OpenLocations
from bridge.episodes.read import Failure, attempt
from bridge.pictures.cameras import find_cameras
from bridge.pictures.features import STRIDE, FeatureFiles, Features, spaced_steps
from bridge.support.batches import batches
from bridge.support.progress import Silent
from embedders.image.frame_encoder import comparable_rows
from wshard.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
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

    def load(
        self,
        where: Where,
        lanes: Sequence[str] | None,
        failures: list[Failure],
        *,
        stride: float = STRIDE,
        progress: Progress | None = None,
    ) -> Iterator[Seen]:
        """Yield the frames of every camera of the matching episodes, and add a failure of each episode that has one.

        Frames that are not described yet are; the files of other episodes are not opened. A camera that cannot be read
        leaves the others of its episode.
        """
        cameras, watch = find_cameras(self._catalog, where, lanes), progress or Silent()
        ids = self._catalog.query.ids(where)
        watch.stage("frames", len(ids))
        for batch in batches(ids):
            with OpenLocations() as locations:
                for row in self._catalog.episodes.rows(batch).values():
                    unread = []
                    for camera in cameras.get(row.layout_id, ()):
                        found = attempt(partial(self._find, row, camera, locations, stride), row.address)
                        if isinstance(found, Failure):
                            unread.append(found)
                        else:
                            yield Seen(row, camera, *found)
                    failures += unread[:1]
                    watch.advance(1)

    def read_rows(
        self, row: EpisodeRow, camera: str, steps: NDArray[np.int64], locations: OpenLocations
    ) -> NDArray[np.float32] | None:
        """Return rows to compare of these frames, which are described now; None if they cannot be read."""
        found = attempt(partial(self._describe, row, camera, locations, steps), row.address)
        return None if isinstance(found, Failure) else comparable_rows(found.rows)

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
        if (known := self._files.find(row, camera, wanted)) is not None:
            return known
        with locations.open(row.address) as file:
            if not locations.is_as_ingested(file, row):
                raise IngestError(f"{row.address}: changed since it was ingested: run `wshard ingest` again")
            return self._files.describe(file, row, camera, wanted)

    def _store(self, key: tuple[str, str, str], features: Features) -> None:
        replaced = self._cache.pop(key, None)
        self._size += features.rows.nbytes - (0 if replaced is None else replaced.rows.nbytes)
        self._cache[key] = features
        while self._size > _MAX_CACHED:
            self._size -= self._cache.popitem(last=False)[1].rows.nbytes
