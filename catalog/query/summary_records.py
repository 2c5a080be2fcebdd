"""Facets, histograms and statistics of groups, as values."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.values import Scalar

Facet = list[tuple[Scalar | None, int]]


@dataclass(frozen=True)
class Histogram:
    """Episodes per range of a field: counts[i] of those from edges[i] to edges[i + 1], the last one included.

    missing counts the episodes without a value, or with an infinite one.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    missing: int


@dataclass(frozen=True)
class NumberSummary:
    """What the values of a field are like in a group; all but count None when there are none. std: population.

    mean and std are None where values differ of which one is beyond 1e140: no float holds sums of their squares.
    """

    count: int
    mean: float | None
    std: float | None
    min: float | None
    max: float | None


@dataclass(frozen=True)
class Group:
    """The episodes with equal values of the fields grouped by, and summaries of other fields among them."""

    key: tuple[Scalar | None, ...]
    episodes: int
    values: dict[str, NumberSummary]
