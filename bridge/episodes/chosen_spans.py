"""Finds the episodes and spans of a collection, or of a filter, to be written in a format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wshard.core.episode.protocol import EpisodeSpan, Fingerprint
from wshard.core.messages import plural, shown
from wshard.errors import CollectionError, FormatError
from wshard.formats.base import sink_class

if TYPE_CHECKING:
    from collections.abc import Collection

    from catalog.catalog import Catalog
    from catalog.records import EpisodeRow


def find_spans(catalog: Catalog, *, collection: str | None, where: str | None, to: str = "") -> list[EpisodeSpan]:
    """Return the episodes and spans of a collection, or else those that pass a filter.

    to: the format that they will be written in, if it is known. Raises CollectionError if episodes of the collection
    are missing, and what check_together raises.
    """
    if collection is None:
        rows = catalog.episodes.rows(catalog.query.ids(where or "")).values()
        check_together(rows, to)
        return [span_of(row) for row in rows]
    picked = catalog.collections.picked(collection)
    if any(row is None for _, row in picked):
        raise CollectionError(catalog.collections.explain_gone(collection))
    check_together([row for _, row in picked if row is not None], to)
    return [
        span_of(row, pick.start, None if (pick.start, pick.stop) == (0, row.length) else pick.stop)
        for pick, row in picked
        if row is not None
    ]


def span_of(row: EpisodeRow, start: int = 0, stop: int | None = None) -> EpisodeSpan:
    """Return timesteps of a catalogued episode, of the data that was ingested."""
    return EpisodeSpan(row.address, start, stop, row.digest, Fingerprint(row.size, row.mtime_ns))


def check_together(rows: Collection[EpisodeRow], to: str) -> None:
    """Raise FormatError if a format takes the episodes of one environment, and these are of several."""
    environments = sorted({row.env_id for row in rows})
    if to and len(environments) > 1 and sink_class(to).one_environment:
        raise FormatError(
            f"{to}: expected episodes of one environment, found {plural(len(rows), 'episode')} of "
            f"{len(environments)}: {', '.join(map(shown, environments[:5]))}: choose those of one, such as "
            f"env:{environments[-1]}"
        )
