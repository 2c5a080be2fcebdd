"""The options of a search besides query, number of hits and filter: values that are checked once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

from catalog.full_text import words
from embedders.windows import as_plan
from wshard.arguments import finite_number, plain_text, whole_number
from wshard.errors import QueryError
from wshard.messages import shown
from wshard.types import Episode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog.filters.where import Where
    from embedders.windows import WindowPlan


@dataclass(frozen=True, eq=False)
class SearchOptions:
    """Options of a search for episodes or windows; TrajectoryRetriever.search_similar_episodes says what they mean.

    Raises QueryError for invalid values, or conflicting ones.
    """

    where: Where | str | None = None
    text: str | None = None
    like: Sequence[Any] = ()
    unlike: Sequence[Any] = ()
    expand: int | None = None
    plain: bool = False
    least: bool = False
    min_score: float | None = None
    diversity: float = 0.0
    contributions: bool = False
    alignment: bool = False
    exclude_self: bool = False
    explain: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "like", _check_queries("like", self.like))
        object.__setattr__(self, "unlike", _check_queries("unlike", self.unlike))
        if self.text is not None and not words(plain_text(self.text, "text", QueryError)):
            raise QueryError(f"text: expected words, found {shown(self.text)}")
        if self.expand is not None:
            whole_number(self.expand, "expand", QueryError, least=0)
        if not 0 <= finite_number(self.diversity, "diversity", QueryError) <= 1:
            raise QueryError(f"diversity: expected a number from 0 to 1, found {self.diversity}")
        _check_score(self.min_score)
        is_given = {
            "min_score": self.min_score is not None,
            "diversity": self.diversity > 0,
            "text": self.text is not None,
            "expand": bool(self.expand),
        }
        if self.least and any(is_given.values()):
            named = " and ".join(name for name, used in is_given.items() if used)
            raise QueryError(f"least: expected a search for the least similar alone, found it together with {named}")

    @property
    def need_cosine(self) -> bool:
        """Whether any option needs the cosine as metric."""
        return bool(self.unlike or self.expand or self.least or self.diversity or self.contributions)


@dataclass(frozen=True, eq=False)
class MomentOptions:
    """Options of a search for moments; TrajectoryRetriever.search_moments says what they mean.

    Raises QueryError for invalid values, EmbedderError for an invalid window plan.
    """

    where: Where | str | None = None
    like: Sequence[Any] = ()
    unlike: Sequence[Any] = ()
    windows: WindowPlan | str | None = None
    refine: bool = True
    max_overlap: float = 0.3
    per_episode: int | None = None
    min_score: float | None = None
    exclude_self: bool = False
    explain: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "like", _check_queries("like", self.like))
        object.__setattr__(self, "unlike", _check_queries("unlike", self.unlike))
        if self.windows is not None:
            plan = as_plan(self.windows)
            if plan.whole:
                raise QueryError(f"windows: expected a plan that cuts episodes into windows, found {plan}")
            object.__setattr__(self, "windows", plan)
        if not 0 <= finite_number(self.max_overlap, "max_overlap", QueryError) < 1:
            raise QueryError(f"max_overlap: expected a number >= 0 and < 1, found {self.max_overlap}")
        if self.per_episode is not None:
            whole_number(self.per_episode, "per_episode", QueryError, least=1)
        _check_score(self.min_score)


def _check_queries(name: str, queries: Any) -> tuple[Any, ...]:
    """Return several queries; QueryError for a single one (a file, a span, an array, a list of numbers), or none."""
    is_list = isinstance(queries, Iterable) and not isinstance(queries, str | bytes | Mapping | Episode)
    listed = tuple(queries) if is_list and not hasattr(queries, "__array__") else (None,)
    if any(query is None or isinstance(query, Real) for query in listed):
        raise QueryError(f"{name}: expected a list of queries, found {shown(queries)}")
    return listed


def _check_score(score: float | None) -> None:
    if score is not None:
        finite_number(score, "min_score", QueryError)
