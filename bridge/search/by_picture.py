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
from bridge.pictures.chosen_encoder import read_chosen, read_stride
from bridge.pictures.frame_scores import FrameExamples, FrameScores, likely_gaps, without_overlaps
from bridge.pictures.seen_frames import SeenFrames
from bridge.search.query.options import MomentOptions
from bridge.search.ranking.rankers import LEAST_DEPTH
from bridge.search.ranking.scores import reciprocal_ranks
from catalog.filters.where import Compare, all_of
from embedders.image.frame_encoder import comparable_rows, encode_checked, encode_words, frame_encoder_of
from embedders.image.frames import Frames
from wshard.core.messages import plural
from wshard.errors import EmbedderError, QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from bridge.archive import Archive
    from bridge.episodes.read import Failure
    from bridge.pictures.question import Question
    from bridge.pictures.seen_frames import Seen
    from bridge.results import EpisodeRef
    from bridge.search.query.options import CommonOptions, SearchOptions
    from bridge.search.query.prepare import QueryPreparer
    from bridge.support.progress import Progress
    from catalog.filters.where import Where
    from embedders.encoders.local_encoder import LocalEncoder
    from embedders.image.frame_encoder import FrameEncoder

_MOST_SHOWN: Final = 3  # episodes that cannot be read, in a message
_GAPS: Final = 64  # between described frames, beside the best, of which all frames are compared, for any top_k


class PictureSearch:
    """Answers questions by picture: compares with all described camera frames of an archive.

    Frames are described by the retriever's embedder if it is a frame encoder, else by the encoder that was chosen at
    ingest, else by that of the newest Space of one, else by the default. Near the best, all frames are described, but
    not by an encoder that was chosen: one question would take minutes. What is found does not depend on top_k, and is
    exact only if every frame was compared. lanes: only these cameras.
    """

    def __init__(self, archive: Archive, queries: QueryPreparer, lanes: Sequence[str] | None) -> None:
        self._archive, self._queries, self._lanes = archive, queries, lanes
        self._seen: SeenFrames | None = None
        self._chosen: LocalEncoder | None = None

    def frames(self) -> SeenFrames:
        """Return the described frames for the encoder of the archive as it is now."""
        encoder = self._encoder()
        if self._seen is None or self._seen.encoder.fingerprint != encoder.fingerprint:
            self._seen = SeenFrames(self._archive, encoder)
        return self._seen

    def _encoder(self) -> FrameEncoder:
        if (chosen := frame_encoder_of(self._queries.embedder)) is not None:
            return chosen
        self._chosen = read_chosen(self._archive.folder, self._chosen)
        if self._chosen is not None:
            return self._chosen
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
        if question.words is not None:
            like = comparable_rows(encode_words(frames.encoder, question.words))
        examples = FrameExamples(like, unlike)
        where = options.filters
        if options.exclude_self and question.uids:
            where &= all_of(~Compare("uid", "in", tuple(sorted(question.uids))))
        failures: list[Failure] = []
        stride = self._stride(options.stride)
        some = [_score(seen, examples) for seen in frames.load(where, self._lanes, failures, stride=stride)]
        with OpenLocations() as locations:
            if frames.encoder is not self._chosen:
                some = self._add_likely(some, examples, locations)
            there, missing = _take(_rank(some, options, moments=moments), options.top_k, locations)
        seen = {one.episode.address for one in some}
        partial = [one for one in failures if one.address in seen]
        left_out = self._left_out(where, len(seen), [one for one in failures if one.address not in seen])
        doubts = [] if all(one.is_complete for one in some) else [_describe_stride(stride)]
        doubts += [f"{plural(len(partial), 'episode')} without a camera that cannot be read"] if partial else []
        return Hits(
            there,
            proven=not doubts,
            milliseconds=(time.perf_counter() - started) * 1e3,
            missing=missing,
            answered=Answered(
                compared=len(seen) if left_out else None,
                left_out=left_out,
                frames=", ".join(doubts),
                notes=(f"cameras that cannot be read: {_name(partial)}",) if partial else (),
            ),
        )

    def describe(self, where: Where, progress: Progress, *, stride: float | None = None) -> None:
        """Describe the frames that searches of these episodes compare, where they are not yet, and report progress."""
        for _ in self.frames().load(where, self._lanes, [], stride=self._stride(stride), progress=progress):
            pass

    def _stride(self, wanted: float | None) -> float:
        return read_stride(self._archive.folder) if wanted is None else wanted

    def _add_likely(
        self, some: list[FrameScores], examples: FrameExamples, locations: OpenLocations
    ) -> list[FrameScores]:
        """Return the scores with those of all frames in the gaps beside the best; no other choice depends on them."""
        found = [*some]
        for place, steps in likely_gaps(some, _GAPS).items():
            rows = self.frames().read_rows(some[place].episode, some[place].camera, steps, locations)
            if rows is not None:
                found[place] = some[place].add(steps, examples.score(rows))
        return found

    def fuse(
        self, question: Question, options: SearchOptions, query: Any, search: Callable[[Any, SearchOptions], Hits]
    ) -> Hits:
        """Return the hits of the pictures, with a query or words fused with those by their ranks in both.

        search: of the query alone. With contributions, each part is that of one of the two.
        """
        if query is None and options.text is None:
            return self.search(question, options)
        longer = replace(options, top_k=_list_length(options.top_k), min_score=None)
        alone = replace(longer, image=None, stride=None, words=None, like=(), unlike=(), contributions=False)
        return _fuse(search(query, alone), self.search(question, longer), options)

    def _left_out(self, where: Where, compared: int, failures: Sequence[Failure]) -> tuple[LeftOut, ...]:
        unseen = self._archive.catalog.query.count(where) - compared - len(failures)
        found = [LeftOut(unseen, "have no camera of this choice", "pictures are compared with cameras only")]
        found += [LeftOut(len(failures), "have frames that cannot be read", _name(failures))]
        return tuple(one for one in found if one.episodes > 0)


def _name(failures: Sequence[Failure]) -> str:
    named = "; ".join(f"{one.address}: {one.error}" for one in failures[:_MOST_SHOWN])
    return f"{named}; and {len(failures) - _MOST_SHOWN} more" if len(failures) > _MOST_SHOWN else named


def _score(seen: Seen, examples: FrameExamples) -> FrameScores:
    features = seen.features
    values = examples.score(seen.rows) if len(seen.rows) else np.empty(0)
    return FrameScores(seen.episode, seen.camera, features.rate if features.timed else None, features.steps, values)


def _rank(some: Sequence[FrameScores], options: CommonOptions, *, moments: bool) -> list[EpisodeRef]:
    """Return all hits, best first: one per episode, or its moments."""
    count, overlap = (options.per_episode, options.max_overlap) if isinstance(options, MomentOptions) else (1, 0.0)
    least = -np.inf if options.min_score is None else options.min_score
    by_episode: dict[int, list[EpisodeRef]] = {}
    for one in some:
        if len(one.steps):
            by_episode.setdefault(one.episode.id, []).extend(one.spans() if moments else one.best())
    hits = [hit for found in by_episode.values() for hit in without_overlaps(found, overlap, count)]
    return sorted((hit for hit in hits if hit.score >= least), key=lambda hit: (-hit.score, hit.uid, hit.span))


def _take(hits: Sequence[EpisodeRef], count: int, locations: OpenLocations) -> tuple[list[EpisodeRef], int]:
    """Return the first hits that exist, and how many before the last of them do not."""
    there: list[EpisodeRef] = []
    missing = 0
    for hit in hits:
        if len(there) == count:
            break
        if locations.exists(hit.address):
            there.append(hit)
        else:
            missing += 1
    return there, missing


def _describe_stride(stride: float) -> str:
    often = f"{1 / stride:.3g} frames a second" if 0 < stride < 1 else f"a frame every {stride:g} s"
    return f"{often} compared (stride 0: all)"


def _list_length(top_k: int) -> int:
    """Return how many hits of each list are fused: one number for most top_k, on which scores depend."""
    length = LEAST_DEPTH
    while length < top_k:
        length *= 4
    return length


def _fuse(states: Hits, pictures: Hits, options: SearchOptions) -> Hits:
    lists = [[hit.uid for hit in hits] for hits in (states, pictures)]
    by_uid = {hit.uid: hit for hit in (*states, *pictures)}  # those of pictures, which name a frame, are taken
    scores = reciprocal_ranks(lists)
    views = {"query": reciprocal_ranks([lists[0], []]), "picture": reciprocal_ranks([[], lists[1]])}
    fused = []
    for uid in sorted(scores, key=lambda one: (-scores[one], one))[: options.top_k]:
        parts = {name: ranks.get(uid, 0.0) for name, ranks in views.items()} if options.contributions else {}
        fused.append(replace(by_uid[uid], score=scores[uid], contributions=parts))
    counts = [hits.answered.compared for hits in (states, pictures)]
    missed = [f"pictures: {pictures.answered.missed}"] if pictures.answered.left_out else []
    return Hits(
        fused,
        proven=states.proven and pictures.proven,
        milliseconds=states.milliseconds + pictures.milliseconds,
        missing=max(states.missing, pictures.missing),
        explained=states.explained,
        answered=replace(
            states.answered,
            compared=min((count for count in counts if count is not None), default=None),
            frames=pictures.answered.frames,
            notes=(*states.answered.notes, *pictures.answered.notes, *missed),
        ),
    )


def _describe(encoder: FrameEncoder, pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
    if not pictures:
        return np.empty((0, 0), np.float32)
    rows = comparable_rows(np.concatenate([encode_checked(encoder, one[None]) for one in pictures]))
    if not rows.any(axis=1).all():
        raise QueryError("image: expected pictures that show something, found one of a single shade of gray")
    return rows
