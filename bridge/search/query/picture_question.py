"""Reads which question by picture or in words a search asks, and refuses options that such a search does not take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bridge.pictures.question import Question, QuestionReader
from bridge.search.query.options import MomentOptions, options_of
from wshard.errors import QueryError

if TYPE_CHECKING:
    from bridge.search.query.options import CommonOptions
    from catalog.catalog import Catalog

_TAKEN: Final = {"top_k", "stride", "like", "unlike", "min_score", "exclude_self", "max_overlap", "per_episode",
                 "contributions", "text", "words"}  # fmt: skip


def read_question(catalog: Catalog, query: Any, options: CommonOptions) -> tuple[Question | None, bool]:
    """Return the question, None without picture or words, and whether the query is part of it.

    Raises as QuestionReader, and QueryError for both.
    """
    question, is_frame = QuestionReader(catalog).read(options.image, query, options.like, options.unlike)
    if options.words is not None:
        if question is not None or options.like or options.unlike:
            raise QueryError("words: expected them without pictures and further examples, found both")
        question = Question((), (), frozenset(), options.words)
    refused = [] if question is None else [
        one.name for one in options_of(type(options))
        if one.name not in _TAKEN and getattr(options, one.name) != one.default
    ]  # fmt: skip
    if question is not None and not is_frame and query is not None and isinstance(options, MomentOptions):
        raise QueryError("moments: expected a query, or a picture or words, found both")
    if question is None and options.stride is not None:
        raise QueryError("stride: expected a picture with it (--image FILE, image=), or words, found neither")
    if refused:
        raise QueryError(f"image, words: expected a search by picture without {', '.join(refused)}, found both")
    return question, is_frame
