"""Reads what is asked by picture: files, arrays, hits, or frames of an episode, EPISODE#CAMERA@FRAME."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.episodes.pictures import as_rgb, is_camera
from bridge.names import EpisodeNames
from bridge.results import EpisodeRef, SeenFrame, resolve_span
from bridge.spaces.lanes import block_name
from wshard.core.media.read_picture import read_picture
from wshard.errors import EntryNotFoundError, QueryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from catalog.catalog import Catalog

_FRAME: Final = re.compile(r"(.+)#([^#@]+)@(\d{1,15})(?::(\d{1,15}))?", re.DOTALL)
_MOST_FRAMES: Final = 64  # of a span: more are thinned evenly


@dataclass(frozen=True, eq=False)
class Question:
    """Pictures uint8 [H, W, 3] that hits should show, and that they should not; uids: the episodes that they are of.

    words: what hits should show, in place of pictures.
    """

    like: Sequence[NDArray[np.uint8]]
    unlike: Sequence[NDArray[np.uint8]]
    uids: frozenset[str]
    words: str | None = None


class QuestionReader:
    """Reads the pictures of one question, with the catalog that frames are named in."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._uids: set[str] = set()

    def read(self, image: Any, query: Any, like: Sequence[Any], unlike: Sequence[Any]) -> tuple[Question | None, bool]:
        """Return the question, None if no picture is asked, and whether `query` is part of it.

        image: a path, the bytes of a file, an array, a hit with a frame, or EPISODE#CAMERA@FRAME. query: of any kind;
        only frames of an episode count. like, unlike: in the forms of image, if a picture is asked. Raises as
        read_picture, and QueryError.
        """
        named = self.read_frames(query) if isinstance(query, str) else None
        if image is None and named is None:
            return None, False
        pictures = [*(named or ()), *([] if image is None else self._read(image))]
        pictures += [one for example in like for one in self._read(example)]
        against = [one for example in unlike for one in self._read(example)]
        return Question(pictures, against, frozenset(self._uids)), named is not None

    def _read(self, source: Any) -> list[NDArray[np.uint8]]:
        if isinstance(source, EpisodeRef):
            if source.seen is None:
                raise QueryError(f"image: expected a hit of a search by picture, which has a frame, found {source!r}")
            return self._load([source])
        frames = self.read_frames(source) if isinstance(source, str) else None
        return [read_picture(source)] if frames is None else frames

    def read_frames(self, text: str) -> list[NDArray[np.uint8]] | None:
        """Return the frames that a text names, None for any other text. Raises as find_frames."""
        refs = find_frames(self._catalog, text)
        return None if refs is None else self._load(refs)

    def _load(self, refs: Sequence[EpisodeRef]) -> list[NDArray[np.uint8]]:
        """Return the frames of one episode."""
        self._uids.add(refs[0].uid)
        with refs[0].open() as file:
            views = {ref.seen: file.lane_view(ref.seen.camera) for ref in refs if ref.seen}
            return [as_rgb(view[seen.step], view.shape[1:]) for seen, view in views.items()]


def find_frames(catalog: Catalog, text: str) -> list[EpisodeRef] | None:
    """Return the frames that EPISODE#CAMERA@FRAME or EPISODE#CAMERA@START:STOP names, None for any other text.

    Of long spans, frames at even distances. Raises QueryError for an episode without this camera or without these
    frames.
    """
    if (match := _FRAME.fullmatch(text)) is None:
        return None
    episode, name, first, last = match.groups()
    try:
        ref = EpisodeNames(catalog).find(episode)
    except (EntryNotFoundError, QueryError):
        return None  # another form of a query
    row = catalog.episodes.get(ref.uid)
    (lanes,) = (one.lanes for one in catalog.query.layouts() if one.id == row.layout_id)
    cameras = [lane.name for lane in lanes if is_camera(lane)]
    camera = _find_camera(name, cameras)
    if camera not in cameras:
        listed = ", ".join(one.partition("/")[2] for one in cameras) or "none"
        raise QueryError(f"{text}: expected a camera of {episode!r} ({listed}), found {name!r}")
    start, stop = resolve_span(int(first), int(last or int(first) + 1), row.episode_id, row.length)
    steps = np.unique(np.linspace(start, stop - 1, _MOST_FRAMES).round().astype(int))
    return [replace(ref, seen=SeenFrame(camera, int(step))) for step in steps]


def _find_camera(name: str, cameras: Sequence[str]) -> str:
    """Return the camera of this name, or the only one whose last part it is."""
    camera = block_name(name, {*cameras})
    ending = [one for one in cameras if one.endswith(f"/{name}")]
    return ending[0] if camera not in cameras and len(ending) == 1 else camera
