"""The values that describe facets, histograms and statistics of groups."""

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
    """Summary of the values of a field in a group; all but count are None if there are none. std: population.

    mean and std are None if different values exceed 1e140, whose squares overflow a float.
    """

    count: int
    mean: float | None
    std: float | None
    min: float | None
    max: float | None


@dataclass(frozen=True)
class Group:
    """Episodes with equal values of the grouping fields, and summaries of other fields."""

    key: tuple[Scalar | None, ...]
    episodes: int
    values: dict[str, NumberSummary]
