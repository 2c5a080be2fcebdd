"""Queries that somebody uploads or draws: files of arrays or of an episode, which stay outside of the archive."""

from __future__ import annotations

import csv
import io
import re
import secrets
import threading
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.results import EpisodeRef, SeenFrame
from bridge.search.query.fit import fit_query
from bridge.spaces.lanes import block_name
from embedders.space import Space
from wshard.core.episode.file import load_wshard, save_wshard
from wshard.core.episode.lanes import REWARD
from wshard.core.media.read_picture import is_picture_name, read_picture
from wshard.core.messages import shown
from wshard.core.types import Channel, Episode
from wshard.errors import EntryNotFoundError, QueryError
from wshard.formats.npz import parse_npy, read_npz

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.search.query.fit import Query
    from catalog.catalog import Catalog

_PREFIX: Final = "upload-"
_MOST: Final = 32
_PICTURE: Final = "picture"
_CLOCKS: Final = {"t", "time", "timestamp", "step", "timestep", "index", ""}
_SEPARATORS: Final = ",;\t"
_CHANNEL: Final = re.compile(r"(.+)\[([^\[\]]+)\]")


class Uploads:
    """The last queries that were uploaded: each is a file in a temporary folder, searched like an episode."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folder: TemporaryDirectory[str] | None = None
        self._refs: dict[str, EpisodeRef] = {}

    def add(self, catalog: Catalog, name: str, content: bytes) -> EpisodeRef:
        """Keep a file as a query, a picture as an episode of one frame.

        Raises QueryError where it fits no Space of the archive, FormatError for damage, and as read_picture.
        """
        if is_picture_name(name):
            picture = Channel.of(_PICTURE, read_picture(content)[None])
            episode = Episode(PurePath(name).name, "", 1, observations={_PICTURE: picture})
            return self._save(name, episode, SeenFrame(f"signal/{_PICTURE}", 0))
        rows = catalog.vectors.spaces("active")
        spaces = [space for space in (Space.from_json(row.definition) for row in rows) if not space.of_text]
        query = read_upload(name, content, {lane.name for space in spaces for lane in space.lanes})
        fits = fit_query(query, spaces)
        episode = query if isinstance(query, Episode) else _as_episode(name, *next(iter(fits.items())))
        return self._save(name, episode, lanes=[lane.name for lane in next(iter(fits)).lanes])

    def _save(
        self, name: str, episode: Episode, seen: SeenFrame | None = None, lanes: Sequence[str] = ()
    ) -> EpisodeRef:
        uid = f"{_PREFIX}{f'{_PICTURE}-' if seen else ''}{secrets.token_hex(8)}"  # pages know a picture by it
        with self._lock:
            self._folder = self._folder or TemporaryDirectory(prefix="wshard-queries-")
            path = Path(self._folder.name) / f"{uid}.wshard"
            save_wshard(episode, path)
            while len(self._refs) >= _MOST:
                Path(self._refs.pop(next(iter(self._refs))).file_path).unlink()
            metadata = {"length": episode.length, "lanes": [*lanes]}
            self._refs[uid] = EpisodeRef(PurePath(name).name, str(path), 1.0, metadata, uid=uid, seen=seen)
            return self._refs[uid]

    def find(self, uid: str) -> EpisodeRef | None:
        """Return the query of that uid; None for the uid of an episode. Raises EntryNotFoundError for one long gone."""
        if not uid.startswith(_PREFIX):
            return None
        try:
            return self._refs[uid]
        except KeyError:
            raise EntryNotFoundError("this uploaded query is no longer kept: upload or draw it again") from None

    def close(self) -> None:
        """Remove the files."""
        if self._folder is not None:
            self._folder.cleanup()


def read_upload(name: str, content: bytes, known: set[str]) -> Query:
    """Return the query in a file: an episode (.wshard), arrays by lane (.npz, .csv with LANE[CHANNEL]), or one array.

    known: the lanes that can be searched; other arrays of a file of several are left out.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix == ".wshard":
        return load_wshard(io.BytesIO(content))
    if suffix == ".csv":
        return _read_csv(name, content)
    if suffix == ".npy":
        return parse_npy(content, name)
    if suffix != ".npz":
        raise QueryError(f"{name}: expected a file that ends in .npz, .npy, .csv or .wshard, or a picture")
    arrays = read_npz(io.BytesIO(content))
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    chosen = {name: array for name, array in arrays.items() if block_name(name, known) in known}
    if not chosen:
        found = ", ".join(sorted(arrays)) or "none"
        raise QueryError(f"{name}: expected an array of one of the lanes {', '.join(sorted(known))}, found {found}")
    return chosen


def _read_csv(name: str, content: bytes) -> Query:
    """Return the rows of a table as an array [T, D]; by lane where its head names each column LANE[CHANNEL]."""
    try:
        text = content.decode("utf-8-sig")
        separator = max(_SEPARATORS, key=text.partition("\n")[0].count)
        rows = [row for row in csv.reader(text.splitlines(), delimiter=separator) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise QueryError(f"{name}: expected a table of numbers as text: {error}") from None
    head = rows.pop(0) if rows and not all(map(_is_number, rows[0])) else []
    try:
        table = np.array(rows, np.float64)
    except ValueError:
        raise QueryError(f"{name}: expected rows of as many numbers below one head, found other cells") from None
    if not table.size:
        raise QueryError(f"{name}: expected timesteps as rows of numbers, found none")
    if head and head[0].strip().lower() in _CLOCKS and len(head) > 1:
        head, table = head[1:], table[:, 1:]
    named = [_CHANNEL.fullmatch(cell.strip()) for cell in head]
    lanes = [one[1] for one in named if one]
    if not lanes or len(lanes) < len(head):
        return table
    return {lane: table[:, [at for at, one in enumerate(lanes) if one == lane]] for lane in dict.fromkeys(lanes)}


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _as_episode(name: str, space: Space, window: Any) -> Episode:
    """Return the lanes of a Space as an episode."""
    episode, start = Episode(id=PurePath(name).name, env_id="", length=len(window)), 0
    for lane in space.lanes:
        values = window if window.ndim > 2 else window[:, start : start + lane.channels]
        values, start = values.reshape(len(window), *lane.shape), start + lane.channels
        kind, _, own = lane.name.partition("/")
        if lane.name == REWARD:
            episode.rewards = values.reshape(-1)
        elif kind in ("signal", "action"):
            group = episode.observations if kind == "signal" else episode.actions
            group[own] = Channel.of(own, values.astype(np.float32))
        else:
            raise QueryError(f"{name}: expected a query of observations, actions or rewards, found {shown(lane.name)}")
    return episode
