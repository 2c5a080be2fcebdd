"""Resolves the text that names a query: an episode, timesteps of one, or an array; one notation for all interfaces."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.episodes.open import exists
from bridge.results import EpisodeRef, make_ref, resolve_span
from catalog.names import find_episode
from catalog.values import storable
from wshard.core.episode.protocol import EpisodeAddress, EpisodeSpan
from wshard.core.files.schemes import place_of
from wshard.core.messages import shown
from wshard.errors import EntryNotFoundError, MissingFileError, ObjectStoreError, QueryError

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from catalog.records import EpisodeRow
    from wshard.core.files.place import Place
    from wshard.core.types import Array

_ARRAY: Final = ".npy"
_UID_SPAN: Final = re.compile(r"([^@]*)(?:@(\d{0,15}):(\d{0,15}))?")


@dataclass(frozen=True, eq=False)
class NamedEpisode:
    """The episode that a text names, and timesteps [start, stop) of it; both None for all of it."""

    episode: EpisodeRef | EpisodeAddress
    start: int | None = None
    stop: int | None = None


class EpisodeNames:
    """Resolves names of episodes with the catalog of an archive.

    A catalogued episode becomes an EpisodeRef, which refuses a file that has changed since the ingest; a file that
    exists becomes its address, whether it is in the catalog or not.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def resolve(
        self, name: str | os.PathLike[str], start: int | None = None, stop: int | None = None
    ) -> NamedEpisode | Array:
        """Return what a text names: an episode_id, a uid, PATH, PATH#KEY, an .npy array, or a hit of `--json`.

        Names may end in @START:STOP, unless start or stop is passed. Raises EntryNotFoundError for a name of nothing,
        QueryError for one of several episodes, for two spans, and for an array without numbers, MissingFileError for a
        catalogued episode whose file is gone, StepError for negative timesteps.
        """
        text = os.fspath(name)
        if isinstance(name, str) and _is_hit(text):
            row, *span_of_hit = self._read_hit(text)
            start, stop = span_of_hit if (start, stop) == (None, None) else (start, stop)
            return NamedEpisode(make_ref(row, 1.0, (0, 0)), start, stop)
        span = self._parse(text)
        if (span.start, span.stop) != (0, None):
            if (start, stop) != (None, None):
                raise QueryError(
                    f"{text}: expected one span, found @START:STOP and also --span, --from, --to or (name, start, stop)"
                )
            start, stop = span.start, span.stop
        if span.address.uri.endswith(_ARRAY) and not span.address.key:
            place = place_of(span.address.uri)
            if place.is_file():
                return _read_array(place, start, stop)
        return NamedEpisode(self._find(span.address) or span.address, start, stop)

    def find(self, name: str | os.PathLike[str]) -> EpisodeRef:
        """Return the catalogued episode, or the timesteps of it, that a text names as in resolve, with its span."""
        if not isinstance(name, (str, os.PathLike)):
            raise QueryError(f"expected the name of an episode: an episode_id, a uid or a path; found {shown(name)}")
        text = os.fspath(name)
        if _is_hit(text):
            row, start, stop = self._read_hit(text)
        else:
            span = self._parse(text)
            row, start, stop = find_episode(self._catalog, str(span.address)), span.start, span.stop
        whole = (start or 0, stop) == (0, None)
        return make_ref(row, 1.0, (0, row.length) if whole else resolve_span(start, stop, row.episode_id, row.length))

    def of_uid(self, text: str) -> EpisodeRef:
        """Return the episode of `UID`, or the timesteps of `UID@START:STOP`; its span is (0, 0) without timesteps.

        No text names a file here. Raises QueryError, EntryNotFoundError.
        """
        uid, start, stop = parse_uid_span(text)
        row = self._catalog.episodes.get(uid)
        if (start, stop) == (0, None):
            return make_ref(row, 1.0, (0, 0))
        return make_ref(row, 1.0, resolve_span(start, stop, row.episode_id, row.length))

    def place(self, name: str) -> EpisodeAddress:
        """Return where the episode is that a text names: an episode_id, a uid, PATH or PATH#KEY. Raises as resolve."""
        address = EpisodeAddress.parse(name)
        found = self._find(address)
        return address if found is None else found.address

    def _parse(self, text: str) -> EpisodeSpan:
        """Return the timesteps that a text names; an episode_id is one, whatever characters it contains."""
        span = EpisodeSpan.parse(text)
        is_id = str(span.address) != text and self._catalog.episodes.named(text) is not None
        return EpisodeSpan(EpisodeAddress(text)) if is_id else span

    def _find(self, address: EpisodeAddress) -> EpisodeRef | None:
        """Return the catalogued episode of that name; None for a file that exists. Raises as find_episode."""
        text = str(address)
        if storable(text) and (os.path.lexists(address.uri) or exists(replace(address, key=""))):
            return None
        row = find_episode(self._catalog, text)
        if not exists(replace(row.address, key="")):
            raise MissingFileError.at(
                row.path, f"the file of {text!r} is missing: {row.path}: restore it, or ingest its new location"
            )
        return make_ref(row, 1.0, (0, 0))

    def _read_hit(self, text: str) -> tuple[EpisodeRow, int | None, int | None]:
        """Return the episode and the span of a hit that `wshard search --json` printed."""
        try:
            hit: dict[str, Any] = json.loads(text)
            uid, (first, last) = str(hit["uid"]), map(int, hit.get("span", (0, 0)))
        except (ValueError, KeyError, TypeError) as error:
            raise QueryError(
                f"query: expected a hit of `wshard search --json`, with uid and span, found {shown(text)}"
            ) from error
        try:
            row = self._catalog.episodes.get(uid)
        except EntryNotFoundError as error:
            raise EntryNotFoundError(f"query: the hit's episode {uid!r} is not in this archive") from error
        return (row, None, None) if (first, last) == (0, 0) else (row, first, last)


def _is_hit(text: str) -> bool:
    return text.lstrip().startswith("{")


def parse_uid_span(text: str) -> tuple[str, int, int | None]:
    """Parse `UID` or `UID@START:STOP` without asking whether there is such a file. Raises QueryError."""
    match = _UID_SPAN.fullmatch(text)
    if match is None:
        raise QueryError(f"expected UID or UID@START:STOP, found {shown(text)}")
    return match[1], int(match[2] or 0), int(match[3]) if match[3] else None


def _read_array(path: Place, start: int | None, stop: int | None) -> Array:
    try:
        with path.open() as file:
            array: Array = np.load(file, allow_pickle=False)
    except ObjectStoreError:
        raise
    except (ValueError, EOFError, OSError) as error:
        raise QueryError(f"{path}: expected an array of numbers [T, D] or [D]: {error}") from error
    if (start, stop) == (None, None) or not array.ndim:
        rows = array
    else:
        rows = array[start:stop]
        if not rows.size or (stop or 0) > len(array):
            raise QueryError(f"{path}: expected a span within shape {list(array.shape)}, found {(start, stop)}")
    if not rows.size:
        raise QueryError(f"{path}: expected timesteps, found none in an array of shape {list(array.shape)}")
    return rows
