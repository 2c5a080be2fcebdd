"""Finds the episodes, and the spans of episodes, whose camera frames show a picture."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.answered import Answered, LeftOut
from bridge.episodes.open import OpenLocations
from bridge.hits import Hits
from bridge.pictures.features import STRIDE
from bridge.pictures.question import Question, QuestionReader
from bridge.pictures.seen_frames import SeenFrames
from bridge.results import EpisodeRef, SeenFrame, make_ref
from bridge.search.query.options import MomentOptions, options_of
from bridge.search.ranking.rankers import depth
from bridge.search.ranking.scores import reciprocal_ranks
from catalog.filters.where import Compare, all_of
from embedders.image.frame_encoder import comparable_rows, encode_checked, frame_encoder_of
from embedders.image.frames import Frames
from wshard.errors import EmbedderError, QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from bridge.archive import Archive
    from bridge.episodes.read import Failure
    from bridge.pictures.seen_frames import Seen
    from bridge.search.query.options import CommonOptions, SearchOptions
    from bridge.search.query.prepare import QueryPreparer
    from bridge.support.progress import Progress
    from catalog.filters.where import Where
    from embedders.image.frame_encoder import FrameEncoder

_MOST_SHOWN: Final = 3  # episodes that cannot be read, in a message
_MORE: Final = 2  # times the wanted hits whose frames are all compared, near the best described ones
_TAKEN: Final = {"top_k", "stride", "like", "unlike", "min_score", "exclude_self", "max_overlap", "per_episode",
                 "contributions", "text"}  # fmt: skip


class PictureSearch:
    """Answers questions by picture: compares with all described camera frames of an archive.

    Frames are described by the retriever's embedder if it is a frame encoder, else by the newest Space of one, else by
    the default. lanes: only these cameras.
    """

    def __init__(self, archive: Archive, queries: QueryPreparer, lanes: Sequence[str] | None) -> None:
        self._archive, self._queries, self._lanes = archive, queries, lanes
        self._seen: SeenFrames | None = None

    def read(self, query: Any, options: CommonOptions) -> tuple[Question | None, bool]:
        """Return the question, None without a picture, and whether the query is part of it. Raises as its reader."""
        reader = QuestionReader(self._archive.catalog)
        question, is_frame = reader.read(options.image, query, options.like, options.unlike)
        refused = [] if question is None else [
            one.name for one in options_of(type(options))
            if one.name not in _TAKEN and getattr(options, one.name) != one.default
        ]  # fmt: skip
        if question is None and options.stride is not None:
            raise QueryError("stride: expected a picture with it (--image FILE, image=), found none")
        if refused:
            raise QueryError(f"image: expected a search by picture without {', '.join(refused)}, found both")
        return question, is_frame

    def frames(self) -> SeenFrames:
        """Return the described frames for the encoder of the archive as it is now."""
        encoder = self._encoder()
        if self._seen is None or self._seen.encoder.fingerprint != encoder.fingerprint:
            self._seen = SeenFrames(self._archive, encoder)
        return self._seen

    def _encoder(self) -> FrameEncoder:
        if (chosen := frame_encoder_of(self._queries.embedder)) is not None:
            return chosen
        for space in reversed(self._queries.spaces.active()):
            if len(space.window_shape) > 1:
                with suppress(EmbedderError):  # one that was passed to ingest, or is not installed
                    if (encoder := frame_encoder_of(self._queries.embedder_for(space))) is not None:
                        return encoder
        return Frames()

    def search(self, question: Question, options: CommonOptions, *, moments: bool = False) -> Hits:
        """Return the episodes of the best frames, or with `moments` spans around them, best first.

        Raises QueryError for pictures of one shade of gray, and if no episode has a camera.
        """
        started = time.perf_counter()
        frames = self.frames()
        like, unlike = (_describe(frames.encoder, some) for some in (question.like, question.unlike))
        where = options.filters
        if options.exclude_self and question.uids:
            where &= all_of(~Compare("uid", "in", tuple(sorted(question.uids))))
        failures: list[Failure] = []
        by_episode: dict[int, list[EpisodeRef]] = {}
        stride = STRIDE if options.stride is None else options.stride
        for seen in frames.load(where, self._lanes, failures, stride=stride):
            found = by_episode.setdefault(seen.episode.id, [])
            if len(seen.rows):
                scores = _score(seen.rows, like, unlike)
                found += _spans(seen, scores) if moments else _best(seen, scores)
        count, overlap = (options.per_episode, options.max_overlap) if isinstance(options, MomentOptions) else (1, 0.0)
        least = -np.inf if options.min_score is None else options.min_score
        hits = [hit for some in by_episode.values() for hit in _without_overlaps(some, overlap, count)]
        hits = sorted((hit for hit in hits if hit.score >= least), key=_order)
        with OpenLocations() as locations:
            first = [hit for hit in hits[: _MORE * options.top_k] if locations.exists(hit.address)]
            near = (self._find_near(hit, locations, stride) for hit in first)
            exact = [_at_best(hit, frames_near, like, unlike) for hit, frames_near in zip(first, near, strict=True)]
        there = sorted(exact, key=_order)[: options.top_k]
        left_out = self._left_out(where, len(by_episode), failures)
        return Hits(
            there,
            milliseconds=(time.perf_counter() - started) * 1e3,
            missing=len(hits[: _MORE * options.top_k]) - len(first),
            answered=Answered(compared=len(by_episode) if left_out else None, left_out=left_out),
        )

    def describe(self, where: Where, progress: Progress, *, stride: float | None = None) -> None:
        """Describe the frames that searches of these episodes compare, where they are not yet, and report progress."""
        for _ in self.frames().load(where, self._lanes, [], stride=stride or STRIDE, progress=progress):
            pass

    def _find_near(self, hit: EpisodeRef, locations: OpenLocations, stride: float) -> Seen | None:
        """Return all frames around that of a hit, which are described now; None if they cannot be read."""
        frame: SeenFrame = hit.seen  # type: ignore[assignment]
        row = self._archive.catalog.episodes.get(hit.uid)
        return self.frames().find_near(row, frame.camera, frame.step, locations, stride)

    def fuse(
        self, question: Question, options: SearchOptions, query: Any, search: Callable[[Any, SearchOptions], Hits]
    ) -> Hits:
        """Return the hits of the pictures, with a query or words fused with those by their ranks in both.

        search: of the query alone. With contributions, each part is that of one of the two.
        """
        if query is None and options.text is None:
            return self.search(question, options)
        longer = replace(options, top_k=depth(options.top_k), min_score=None)
        alone = replace(longer, image=None, like=(), unlike=(), contributions=False)
        return _fuse(search(query, alone), self.search(question, longer), options)

    def _left_out(self, where: Where, compared: int, failures: Sequence[Failure]) -> tuple[LeftOut, ...]:
        unseen = self._archive.catalog.query.count(where) - compared - len(failures)
        named = "; ".join(f"{one.address}: {one.error}" for one in failures[:_MOST_SHOWN])
        found = [LeftOut(unseen, "have no camera of this choice", "pictures are compared with cameras only")]
        found += [LeftOut(len(failures), "have frames that cannot be read", named)]
        return tuple(one for one in found if one.episodes > 0)


def _at_best(hit: EpisodeRef, near: Seen | None, like: NDArray[Any], unlike: NDArray[Any]) -> EpisodeRef:
    """Return the hit with the best of the frames around its frame, which then is in its span."""
    if near is None:
        return hit
    scores = _score(near.rows, like, unlike)
    best = int(scores.argmax())
    step = int(near.features.steps[best])
    found = _hit(near, scores, best, (min(hit.span[0], step), max(hit.span[1], step + 1)))
    return found if found.score > hit.score else hit


def _order(hit: EpisodeRef) -> tuple[float, str]:
    return -hit.score, hit.uid


def _fuse(states: Hits, pictures: Hits, options: SearchOptions) -> Hits:
    lists = [[hit.uid for hit in hits] for hits in (states, pictures)]
    by_uid = {hit.uid: hit for hit in (*states, *pictures)}  # those of pictures, which name a frame, are taken
    scores = reciprocal_ranks(lists)
    views = {"query": reciprocal_ranks([lists[0], []]), "picture": reciprocal_ranks([[], lists[1]])}
    fused = []
    for uid in sorted(scores, key=lambda one: (-scores[one], one))[: options.top_k]:
        parts = {name: ranks.get(uid, 0.0) for name, ranks in views.items()} if options.contributions else {}
        fused.append(replace(by_uid[uid], score=scores[uid], contributions=parts))
    about = {name: getattr(states, name) for name in ("exact", "explained", "answered")}
    milliseconds, missing = states.milliseconds + pictures.milliseconds, max(states.missing, pictures.missing)
    return Hits(fused, milliseconds=milliseconds, missing=missing, **about)


def _describe(encoder: FrameEncoder, pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
    if not pictures:
        return np.empty((0, 0), np.float32)
    rows = comparable_rows(np.concatenate([encode_checked(encoder, one[None]) for one in pictures]))
    if not rows.any(axis=1).all():
        raise QueryError("image: expected pictures that show something, found one of a single shade of gray")
    return rows


def _score(rows: NDArray[Any], like: NDArray[Any], unlike: NDArray[Any]) -> NDArray[np.float64]:
    """Return the score of each frame: of the example that is nearest; none where a counter-example is nearer."""
    scores: NDArray[np.float64] = (rows @ like.T).max(axis=1).clip(-1.0, 1.0).astype(np.float64)
    if len(unlike):
        scores[(rows @ unlike.T).max(axis=1) > scores] = -np.inf
    return scores


def _best(seen: Seen, scores: NDArray[np.float64]) -> Iterator[EpisodeRef]:
    best = int(scores.argmax())
    if np.isfinite(scores[best]):
        yield _hit(seen, scores, best, (0, seen.episode.length))


def _spans(seen: Seen, scores: NDArray[np.float64]) -> Iterator[EpisodeRef]:
    """Yield the spans in which the score is nearer to that of their best frame than to the episode's median."""
    steps, usual = seen.features.steps, float(np.median(scores))
    ends = np.append(steps[1:], seen.episode.length)
    usual = -1.0 if not np.isfinite(usual) else usual
    free = np.isfinite(scores)
    while free.any():
        best = int(np.where(free, scores, -np.inf).argmax())
        if scores[best] < usual:
            return
        near = free & (scores >= (scores[best] + usual) / 2)
        first = last = best
        while first > 0 and near[first - 1]:
            first -= 1
        while last + 1 < len(near) and near[last + 1]:
            last += 1
        free[first : last + 1] = False
        yield _hit(seen, scores, best, (int(steps[first]), int(ends[last])))


def _hit(seen: Seen, scores: NDArray[np.float64], best: int, span: tuple[int, int]) -> EpisodeRef:
    step, rate = int(seen.features.steps[best]), seen.features.rate
    frame = SeenFrame(seen.camera, step, step / rate if seen.features.timed else None)
    ref = make_ref(seen.episode, float(scores[best]), span)
    return replace(ref, compared_by=(seen.camera,), seen=frame)


def _without_overlaps(hits: list[EpisodeRef], most: float, count: int | None) -> list[EpisodeRef]:
    """Return the best hits of one episode, of all its cameras, that overlap by at most this share."""
    taken: list[EpisodeRef] = []
    for hit in sorted(hits, key=lambda ref: -ref.score):
        if len(taken) == count:
            break
        if all(_overlap(hit.span, other.span) <= most for other in taken):
            taken.append(hit)
    return taken


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> float:
    shared = min(one[1], other[1]) - max(one[0], other[0])
    return max(shared, 0) / (max(one[1], other[1]) - min(one[0], other[0]))
