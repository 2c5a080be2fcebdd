"""Which of the episodes that pass a filter are counted, where finding or counting all of them takes long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from catalog.filters.fields import field_of
from catalog.filters.parse import as_where
from catalog.filters.where import Compare, comparisons
from catalog.query.sampling import draw_ids

if TYPE_CHECKING:
    from bridge.web.endpoints import ApiCall
    from catalog.filters.where import Where

_MANY: Final = 100_000  # episodes from which on a sample is enough
_ENOUGH: Final = 20_000  # episodes of a sample
_SLOW: Final = frozenset({"meta", "lane", "folder", "path"})  # fields that are read episode by episode


@dataclass(frozen=True)
class EpisodeSample:
    """A filter for some episodes, how many each of them stands for, and how many they are; None: all that pass."""

    where: Where
    scale: float = 1
    episodes: int | None = None


def choose_sample(call: ApiCall) -> EpisodeSample:
    """Return a sample of the episodes that pass the filter of the call; all, unless they are many."""
    where, estimate = as_where(call["where"]), _estimate(call)
    if estimate is not None and estimate.is_many:
        return EpisodeSample(where & estimate.some, estimate.scale, estimate.counted)
    ids = _passing(call)
    if ids is None or len(ids) <= _ENOUGH:
        return EpisodeSample(exact_filter(call))
    drawn = call.archive.remember(("drawn", call["where"]), lambda: draw_ids(ids, _ENOUGH))
    return EpisodeSample(drawn, len(ids) / _ENOUGH, _ENOUGH)


def exact_filter(call: ApiCall) -> Where:
    """Return the filter of the call; by ids where it is slow and few of many pass, so that these are found once."""
    ids = _passing(call)
    if ids is None:
        return as_where(call["where"])
    every: Where = call.archive.remember(("every", call["where"]), lambda: Compare("id", "in", tuple(ids)))
    return every


def count_passing(call: ApiCall) -> int:
    """Return how many episodes pass the filter of the call."""
    ids = _passing(call)
    return call.archive.catalog.query.count(as_where(call["where"])) if ids is None else len(ids)


class _Estimate(NamedTuple):
    """Some of all episodes, how many each of them stands for, and how many pass the filter."""

    some: Where
    scale: float
    counted: int

    @property
    def is_many(self) -> bool:
        return self.counted * self.scale >= _MANY


def _estimate(call: ApiCall) -> _Estimate | None:
    """Return how many pass by a sample; None in an archive that has few."""
    query, remember = call.archive.catalog.query, call.archive.remember
    last = remember("last id", lambda: query.select(order="-id", limit=1).rows)
    if not last or last[0].id < _MANY:
        return None
    ids = range(1, last[0].id + 1)
    some: Where = remember("some ids", lambda: draw_ids(ids, _ENOUGH))
    counted = remember(("sample", call["where"]), lambda: query.count(as_where(call["where"]) & some))
    return _Estimate(some, max(1.0, len(ids) / _ENOUGH), counted)


def _passing(call: ApiCall) -> list[int] | None:
    """Return the ids of those that pass a slow filter, if they are some of many; else None."""
    where = as_where(call["where"])
    if not any(field_of(one.field).root in _SLOW for one in comparisons(where)):
        return None
    estimate = _estimate(call)
    if estimate is None or estimate.is_many:
        return None
    ids: list[int] = call.archive.remember(("passing", call["where"]), lambda: call.archive.catalog.query.ids(where))
    return ids
