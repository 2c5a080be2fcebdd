"""Keeps the index synchronised with the ledger, as far as the index is available."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedders.space import Space
from wshard.errors import SpaceMismatchError, VectorIndexError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.archive import Archive
    from bridge.index.base import Point


class IndexSync:
    """Updates the index with what a run commits. After a failure, updates wait for the end of the run.

    delayed: why the index is behind the ledger, None if it is not.
    """

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self.delayed: str | None = None

    def upsert(self, space: Space, points: Sequence[Point]) -> None:
        """Add points to the index. Raises SpaceMismatchError for a Space that was replaced meanwhile."""
        if self.delayed is None:
            try:
                self._archive.index.upsert(space, points)
            except VectorIndexError as error:
                self.delayed = str(error)

    def delete(self, deleted: Sequence[int]) -> None:
        """Delete episodes in every Space."""
        for space in self._living() if deleted and self.delayed is None else ():
            try:
                self._archive.index.delete(space, deleted)
            except SpaceMismatchError:
                continue  # replaced by another ingest, so its vectors are deleted
            except VectorIndexError as error:
                self.delayed = str(error)
                return

    def finish(self) -> None:
        """Send everything that this run and earlier ones could not send."""
        self.delayed = None
        for space in self._living():
            try:
                self._archive.index.upsert(space, [])
            except SpaceMismatchError:
                continue
            except VectorIndexError as error:
                self.delayed = str(error)
                return

    def _living(self) -> list[Space]:
        return [Space.from_json(row.definition) for row in self._archive.catalog.vectors.live_spaces()]
