"""Suggests what a filter means: keys of the metadata for fields that there are not, values for those that none has."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from catalog.filters.fields import advise_on_field, field_of
from catalog.filters.parse import KEYWORDS
from catalog.filters.to_text import where_text
from catalog.filters.where import EVERYTHING, Compare, comparisons
from catalog.query.differences import find_keys
from catalog.query.sampling import draw_ids, sample_episodes
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from catalog.filters.where import Where
    from catalog.query.api import Queries

_TYPED: Final = frozenset(
    {"env_id", "tag", "flag", "review", "format", "meta", "folder", "root", "reviewer", "note_by", "lineage"}
)
"""Fields whose values people type from memory."""

_COMPUTED: Final = frozenset({"meta", "folder", "root"})
"""Those of them that are read out of each episode's row: counting all their values takes longer than any list."""

_MOST_VALUES: Final = 1000
"""Values of a field among which the nearest is looked for, the most frequent ones."""

_MOST_EPISODES: Final = 2000
"""Episodes whose values of such a field are counted."""


@contextmanager
def suggest_keys(query: Queries) -> Iterator[None]:
    """Name the key of the archive's metadata that is meant, in errors about fields that there are not."""
    try:
        yield
    except FilterError as error:
        if error.field:
            advice = advise_on_field(error.field, find_keys(sample_episodes(query)))
            error.args = (str(error).replace(advise_on_field(error.field), advice),)
        raise


def suggest_values(query: Queries, where: Where, *, unknown: bool = True, empty: Collection[Where] = ()) -> list[str]:
    """Return what is wrong with the comparisons of a filter: fields that no episode has, and values.

    Of values only for a filter that matches nothing: parts of a text, the nearest one of names, keywords in lower case,
    reversed ranges, numbers that are text in the metadata. unknown: also names for which there is nothing to suggest.
    empty: filters that are known to match nothing, which are not tried again: that may read every episode.
    """
    clauses = [*comparisons(where)]
    missing = [
        name
        for name in sorted({clause.field for clause in clauses})
        if field_of(name).free and not _matches(query, Compare(name, "exists"))
    ]
    lines = [f"no episode has {name}" for name in missing]
    if not clauses or (where not in empty and _matches(query, where)):
        return lines
    return lines + [
        line
        for clause in clauses
        if clause.field not in missing
        for line in _suggest_for_clause(query, clause, unknown=unknown, empty={where, *empty})
    ]


def _suggest_for_clause(query: Queries, clause: Compare, *, unknown: bool, empty: Collection[Where]) -> Iterator[str]:
    value = clause.value
    if clause.field == "text" and isinstance(value, str) and value.upper() in KEYWORDS:
        yield f"{value!r} is a word of metadata and notes: the keyword is {value.upper()}"
    if clause.op == "between" and not clause.about.timed and isinstance(value, tuple) and value[0] > value[1]:
        yield f"{where_text(clause)} matches nothing: its low end is above its high one"
    if clause.op not in ("eq", "in"):
        return
    for one in clause.values:
        compared = replace(clause, op="eq", value=one)
        if compared in empty or not _matches(query, compared):
            yield from _suggest_for_value(query, compared, unknown=unknown)


def _suggest_for_value(query: Queries, clause: Compare, *, unknown: bool) -> Iterator[str]:
    """Yield what may be meant by a value that no episode has: at most one line."""
    value, written = clause.value, where_text(clause)
    if isinstance(value, int | float) and not isinstance(value, bool) and clause.about.root == "meta":
        text = replace(clause, value=written.rpartition(":")[2])
        if _matches(query, text):
            yield f"no episode has {written}, a number; some have {where_text(text)}, which is text"
    if not isinstance(value, str) or clause.about.type not in (str, None):
        return
    if "*" in value:
        hint = 'in quotes, * stands for itself: for texts that begin with some, write FIELD:WORD* or FIELD:"TWO WORDS"*'
        yield f"{written} matches nothing: {hint}"
    elif "contains" in clause.about.operators and value and (part := _count_part(query, clause)):
        yield f"{written} matches no whole value; {part}"
    elif clause.about.root in _TYPED:
        nearest = _find_nearest(value, _frequent_values(query, clause))
        if nearest or unknown:
            yield f"no episode has {clause.about.short} {value!r}{f' ({nearest}?)' * bool(nearest)}"


def _frequent_values(query: Queries, clause: Compare) -> list[str]:
    """Return texts that episodes have in the field of a comparison, the most frequent ones first."""
    last = query.select(order="-id", limit=1).rows if clause.about.root in _COMPUTED else ()
    some = draw_ids(range(1, last[0].id + 1), _MOST_EPISODES) if last else EVERYTHING
    counts = query.facets([clause.field], some, limit=_MOST_VALUES)[clause.field]
    return [one for one, _ in counts if isinstance(one, str)]


def _find_nearest(value: str, known: Sequence[str]) -> str:
    """Return the known value that is most like one: in other case, longer, or mistyped; "" for none."""
    folded = value.casefold()
    part = next((one for one in known if value and folded in one.casefold()), "")
    return part or next(iter(get_close_matches(value, known, n=1)), "")


def _count_part(query: Queries, clause: Compare) -> str:
    """Return how many episodes have the value as a part of theirs; "" if none has."""
    part = replace(clause, op="contains")
    count = query.count(part)
    return f"{where_text(part)} matches {count} of {query.count()} episodes" if count else ""


def _matches(query: Queries, where: Where) -> bool:
    return bool(query.select(where, order="id", limit=1).rows)
