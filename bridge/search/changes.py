"""Detects hits whose episodes have changed since they were ingested."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bridge.episodes.open import OpenLocations, open_at
from wshard.core.messages import plural
from wshard.errors import FormatError, WShardError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bridge.results import EpisodeRef
    from wshard.core.episode.protocol import Fingerprint

_MAX_LISTED: Final = 3


class ChangeCheck:
    """Compares the files of hits with the catalog by size and time, and by digest only if these differ.

    Files that were merely touched or copied are read once.
    """

    def __init__(self) -> None:
        self._same: dict[tuple[str, str], Fingerprint] = {}  # by uid and digest: touched, but with the same data

    def find_changed(self, refs: Iterable[EpisodeRef]) -> list[EpisodeRef]:
        """Return the hits whose files have changed data, without files that cannot be opened."""
        with OpenLocations() as locations:
            return [ref for ref in refs if self._has_changed(ref, locations)]

    def explain(self, refs: Iterable[EpisodeRef]) -> list[str]:
        """Return a note if hits have changed."""
        names = [ref.episode_id for ref in self.find_changed(refs)]
        if not names:
            return []
        listed = ", ".join([*names[:_MAX_LISTED], *["..."][: len(names) - _MAX_LISTED]])
        return [f"{plural(len(names), 'hit')} changed since the last ingest ({listed}): run wshard ingest FOLDER"]

    def _has_changed(self, ref: EpisodeRef, locations: OpenLocations) -> bool:
        key = ref.uid, ref.digest
        try:
            now = locations.fingerprint(ref.address)
            if now in (ref.fingerprint, self._same.get(key)):
                return False
            with open_at(ref.address) as file:
                changed = file.digest() != ref.digest
        except FormatError:
            return True
        except (OSError, WShardError):  # loading it reports the error
            return False
        if not changed:
            self._same[key] = now
        return changed
