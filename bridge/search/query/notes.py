"""Explanations beside hits: a text that no episode has, a filter that no episode passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.filters.to_text import where_text
from catalog.filters.where import parts_of
from wshard.core.messages import plural

if TYPE_CHECKING:
    from collections.abc import Sized

    from bridge.search.query.options import SearchOptions
    from catalog.catalog import Catalog
    from catalog.filters.where import Where


def explain_hits(catalog: Catalog, options: SearchOptions, where: Where, hits: Sized, missing: int) -> list[str]:
    """Return the notes on hits of a search for episodes or windows; missing: number of hits without a file."""
    notes = _explain_unmatched_text(catalog, options.text, where)
    if not hits:
        limited = bool(missing or notes) or options.min_score is not None
        notes += explain_empty_result(catalog, where, limited=limited)
    return notes


def _explain_unmatched_text(catalog: Catalog, text: str | None, where: Where) -> list[str]:
    """Return a note if no episode that passes the filter has a word of the text."""
    if text is None or catalog.query.relevant(text, where, limit=1):
        return []
    return [f"no matching episode's task or notes contain a word of {text!r}"]


def explain_empty_result(catalog: Catalog, where: Where, *, limited: bool) -> list[str]:
    """Return why a search found nothing: which part of the filter leaves nothing, by itself or with the others.

    limited: hits may have been left out for other reasons, too.
    """
    total = plural(catalog.query.count(), "episode")
    counts = {where_text(part): catalog.query.count(part) for part in parts_of(where)}
    if alone := [part for part, count in counts.items() if not count]:
        return [f"{part} alone matches 0 of {total}" for part in alone]
    if matching := catalog.query.count(where):
        return [] if limited else [f"{matching} of {total} match the filter, but none is embedded for this search"]
    each = ", ".join(f"{part} {count}" for part, count in counts.items())
    return [f"none of {total} meets all conditions; episodes per condition: {each}"] if counts else []
