"""Reads what is asked by picture: files, arrays, hits, or frames of an episode, EPISODE#CAMERA@FRAME."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.episodes.pictures import as_rgb, picture_axes
from bridge.names import EpisodeNames
from bridge.results import EpisodeRef, resolve_span
from bridge.spaces.lanes import block_name
from wshard.core.media.read_picture import read_picture
from wshard.errors import EntryNotFoundError, QueryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from catalog.catalog import Catalog
    from catalog.records import LaneDefinition

_FRAME: Final = re.compile(r"(.+)#([^#@]+)@(\d{1,15})(?::(\d{1,15}))?", re.DOTALL)
_MOST_FRAMES: Final = 64  # of a span: more are thinned evenly


@dataclass(frozen=True, eq=False)
class Question:
    """Pictures uint8 [H, W, 3] that hits should show, and that they should not; uids: the episodes that they are of."""

    like: Sequence[NDArray[np.uint8]]
    unlike: Sequence[NDArray[np.uint8]]
    uids: frozenset[str]


def is_camera(lane: LaneDefinition) -> bool:
    """Return whether a lane holds camera frames: images of bytes, not of depths."""
    return lane.name.startswith("signal/") and lane.dtype == "u8" and picture_axes(lane.shape) != ""


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
            return self._load(source, source.seen.camera, [source.seen.step])
        frames = self.read_frames(source) if isinstance(source, str) else None
        return [read_picture(source)] if frames is None else frames

    def read_frames(self, text: str) -> list[NDArray[np.uint8]] | None:
        """Return the frames that EPISODE#CAMERA@FRAME or EPISODE#CAMERA@START:STOP names; None for any other text.

        Raises QueryError for an episode without this camera or without these frames.
        """
        if (match := _FRAME.fullmatch(text)) is None:
            return None
        episode, name, first, last = match.groups()
        try:
            ref = EpisodeNames(self._catalog).find(episode)
        except (EntryNotFoundError, QueryError):
            return None  # another form of a query
        row = self._catalog.episodes.get(ref.uid)
        (lanes,) = (one.lanes for one in self._catalog.query.layouts() if one.id == row.layout_id)
        cameras = [lane.name for lane in lanes if is_camera(lane)]
        camera = block_name(name, {*cameras})
        if camera not in cameras:
            listed = ", ".join(one.partition("/")[2] for one in cameras) or "none"
            raise QueryError(f"{text}: expected a camera of {episode!r} ({listed}), found {name!r}")
        start, stop = resolve_span(int(first), int(last or int(first) + 1), row.episode_id, row.length)
        return self._load(ref, camera, np.unique(np.linspace(start, stop - 1, _MOST_FRAMES).round().astype(int)))

    def _load(self, ref: EpisodeRef, camera: str, steps: Any) -> list[NDArray[np.uint8]]:
        self._uids.add(ref.uid)
        with ref.open() as file:
            view = file.lane_view(camera)
            return [as_rgb(view[int(step)], view.shape[1:]) for step in steps]
