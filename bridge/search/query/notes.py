"""Explanations beside hits: a text that no episode has, a filter that no episode passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.spaces.lanes import has_numbers
from catalog.filters.to_text import where_text
from catalog.filters.where import Compare, any_of, parts_of
from catalog.full_text import LOOKED_AT, TASKS, words
from catalog.query.suggestions import suggest_values
from embedders.numeric import bridge_gaps, first_bad, is_real
from wshard.core.channel_names import channel_label
from wshard.core.messages import plural
from wshard.core.types import Episode

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence, Sized

    from numpy.typing import NDArray

    from bridge.results import EpisodeRef
    from bridge.search.query.fit import Query
    from bridge.search.query.options import SearchOptions
    from catalog.catalog import Catalog
    from catalog.filters.where import Where
    from wshard.core.types import Channel

_NAMES: Final = ("env_id", "tag")  # fields that people take for texts
_HAS_TEXT: Final = any_of(Compare("note", "exists"), *(Compare(f"meta.{key}", "exists") for key in TASKS))
_NO_TEXTS: Final = (
    'no episode has a task or a note; a layout names the array or column of tasks by "NAME" = "task", '
    "and `wshard note TEXT EPISODE` adds a note"
)


def explain_gaps(query: Query, compared: Collection[str], embedded: Collection[str]) -> list[str]:
    """Return notes if an episode asks that gaps kept from being compared by lanes or channels of the archive.

    compared: the lanes by which hits were; embedded: those that others are compared by.
    """
    if not isinstance(query, Episode):
        return []
    lanes = {f"signal/{id_}": channel for id_, channel in query.observations.items()}
    vectors = {name: lane for name, lane in lanes.items() if has_numbers(lane.shape, lane.dtype.value)}
    notes = []
    blank = {name: channels for name in sorted({*vectors} & {*compared}) if (channels := _blank(vectors[name]))}
    if blank:
        named = ", ".join(f"{name}[{', '.join(channels)}]" for name, channels in blank.items())
        notes.append(f"{named} of the query has too few numbers: it counts as the mean of the archive")
    missing = [name for name in sorted({*vectors} & {*embedded} - {*compared}) if _has_gaps(vectors[name].data)]
    if missing:
        by = ", ".join(sorted(compared)) or "nothing"
        notes.append(f"{', '.join(missing)} of the query was not compared, as too many values are missing, only {by}")
    return notes


def _blank(channel: Channel) -> list[str]:
    """Return the labels of the channels of a lane that have too few numbers, while its others have enough."""
    rows = channel.data.reshape(len(channel.data), -1)
    if not _has_gaps(rows) or (bridged := bridge_gaps(rows)) is None:
        return []
    return [channel_label(channel, one) for one in np.flatnonzero(np.isnan(bridged[0])).tolist()]


def _has_gaps(values: NDArray[Any]) -> bool:
    return is_real(values.dtype) and first_bad(values.reshape(len(values), -1)) is not None


def explain_hits(catalog: Catalog, options: SearchOptions, where: Where, hits: Sized, missing: int) -> list[str]:
    """Return the notes on hits of a search for episodes or windows; missing: number of hits without a file."""
    notes = _explain_unmatched_text(catalog, options.text, where)
    if not hits:
        limited = bool(missing or notes) or options.min_score is not None
        notes += explain_empty_result(catalog, where, limited=limited)
    if not (hits or missing or notes) and options.min_score is not None:
        notes.append(f"no hit has a score of {options.min_score:g} or more")
    return notes


def explain_moments(
    catalog: Catalog, where: Where, moments: Sequence[EpisodeRef], missing: int, min_score: float | None
) -> list[str]:
    """Return the notes on the moments that were found, best first, and that may be below the minimum score."""
    if not moments:
        return explain_empty_result(catalog, where, limited=missing > 0)
    best = moments[0].score
    if min_score is None or best >= min_score:
        return []
    return [f"the best moment has a score of {best:.4f}, less than the minimum of {min_score:g}"]


def _explain_unmatched_text(catalog: Catalog, text: str | None, where: Where) -> list[str]:
    """Return a note if no episode that passes the filter has a word of the text."""
    if text is None:
        return []
    if any(catalog.query.count(where & Compare("text", "contains", word)) for word in words(text)):
        return []
    named = [Compare(name, "eq", word) for name in _NAMES for word in dict.fromkeys((text, *text.split()))]
    found = {where_text(one): count for one in named if (count := catalog.query.count(where & one))}
    others = "".join(f"; {said} matches {plural(count, 'episode')}" for said, count in found.items())
    notes = [f"no episode that passes has a word of {text!r} among the {LOOKED_AT}{others}"]
    return notes if catalog.query.count(_HAS_TEXT) else [*notes, _NO_TEXTS]


def explain_empty_result(catalog: Catalog, where: Where, *, limited: bool) -> list[str]:
    """Return why a search found nothing: which part of the filter leaves nothing, by itself or with the others.

    limited: hits may have been left out for other reasons, too.
    """
    total = plural(catalog.query.count(), "episode")
    counts = {part: catalog.query.count(part) for part in parts_of(where)}
    if alone := [part for part, count in counts.items() if not count]:
        lines = [f"{where_text(part)} alone matches 0 of {total}" for part in alone]
        return [*suggest_values(catalog.query, where, unknown=False, empty=[where, *alone]), *lines]
    if matching := catalog.query.count(where):
        return [] if limited else [f"{matching} of {total} match the filter, but none could be compared with the query"]
    each = ", ".join(f"{where_text(part)} {count}" for part, count in counts.items())
    return [f"none of {total} meets all conditions; episodes per condition: {each}"] if counts else []
