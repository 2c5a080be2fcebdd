"""What a search may be asked for besides query, number of hits and filter: one value, checked once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from numbers import Real
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from catalog.full_text import words
from embedders.windows import as_plan
from wshard.arguments import finite_number, plain_text, whole_number
from wshard.errors import QueryError
from wshard.messages import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.search.query.prepare import Query
    from catalog.filters.where import Where
    from embedders.windows import WindowPlan


class Asked(TypedDict, total=False):
    """The options of a search by name, as keyword arguments; see Wishes for what they mean."""

    where: Where | str | None
    text: str | None
    like: Sequence[Query]
    unlike: Sequence[Query]
    expand: int | None
    plain: bool
    least: bool
    min_score: float | None
    diversity: float
    contributions: bool
    alignment: bool
    exclude_self: bool
    explain: bool


@dataclass(frozen=True, eq=False)
class Wishes:
    """Options of a search.

    where: any further filter, as a value or as text. text: words of the task or of notes; episodes that hold them
    come first, and with a text encoder those whose task means the same. like, unlike: lists of further
    examples, and counter-examples, in any form of a query. expand: how many of the best hits lead the search to their
    like; None = 8 where whole episodes and windows are searched together, else none.
    plain: rank by the one cosine of whole episodes, also where there are windows. least: the least similar first.
    min_score: no hits below it. diversity: 0 to 1; after the best hit always the one with the highest
    (1 - diversity) * score - diversity * (highest cosine with those chosen), among the best 100 or 4 * top_k.
    contributions: let every hit say what each lane adds to its similarity. alignment: let every hit say which of its
    timesteps meet which of the (first) query's, read from the files, and how well each lane agrees there.
    exclude_self: leave out the episodes that query and examples name (by a hit or a file). explain: let the hits say
    how they were found. Raises QueryError for values that cannot be, or not together.
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
        object.__setattr__(self, "like", _several("like", self.like))
        object.__setattr__(self, "unlike", _several("unlike", self.unlike))
        if self.text is not None and not words(plain_text(self.text, "text", QueryError)):
            raise QueryError(f"text: expected words, found {shown(self.text)}")
        if self.expand is not None:
            whole_number(self.expand, "expand", QueryError, least=0)
        if not 0 <= finite_number(self.diversity, "diversity", QueryError) <= 1:
            raise QueryError(f"diversity: expected a number from 0 to 1, found {self.diversity}")
        _check_score(self.min_score)
        others = {
            "min_score": self.min_score is not None,
            "diversity": self.diversity > 0,
            "text": self.text is not None,
            "expand": bool(self.expand),
        }
        if self.least and any(others.values()):
            named = " and ".join(name for name, given in others.items() if given)
            raise QueryError(f"least: expected a search for the least similar alone, found it together with {named}")

    @property
    def turn_vectors(self) -> bool:
        """Whether any of the wishes takes vectors for directions: what is not so for every metric."""
        return bool(self.unlike or self.expand or self.least or self.diversity or self.contributions)


class AskedMoments(TypedDict, total=False):
    """The options of a search for moments by name, as keyword arguments; see MomentWishes for what they mean."""

    where: Where | str | None
    like: Sequence[Query]
    unlike: Sequence[Query]
    windows: WindowPlan | str | None
    refine: bool
    max_overlap: float
    per_episode: int | None
    min_score: float | None
    exclude_self: bool
    explain: bool


@dataclass(frozen=True, eq=False)
class MomentWishes:
    """Options of a search for moments.

    where: any further filter, as a value or as text. like, unlike: lists of further examples and counter-examples, in
    any form of a query: a moment belongs to the one that it is most like, and is no hit if that is a counter-example.
    windows: the plan that they were cut by, or its notation ("32:16"), where several were ingested; None = those of
    several sizes. refine: align the query with the lanes in the files, for exact bounds. max_overlap: of two moments of
    one episode, as the share of the timesteps that either of them covers. per_episode: how many of one episode at most.
    min_score: no hits below it. exclude_self: leave out the episodes that the query and examples name. explain: let the
    hits say how the index found their windows. Raises QueryError for values that cannot be, EmbedderError for windows
    that are no plan.
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
        object.__setattr__(self, "like", _several("like", self.like))
        object.__setattr__(self, "unlike", _several("unlike", self.unlike))
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


Kind = TypeVar("Kind", Wishes, MomentWishes)


def wishes_of(kind: type[Kind], asked: Mapping[str, Any]) -> Kind:
    """Return the options of a search that were given by name.

    Raises TypeError for another name, as any call does, but says which there are.
    """
    names = [field.name for field in fields(kind)]
    if strange := [name for name in asked if name not in names]:
        raise TypeError(f"expected options of this search ({', '.join(names)}), found {strange[0]!r}")
    return kind(**asked)


def _several(name: str, queries: Any) -> tuple[Any, ...]:
    """Return several queries; QueryError for what is one (a file, a span, an array, a list of numbers), or none."""
    several = isinstance(queries, Iterable) and not isinstance(queries, str | bytes | Mapping)
    listed = tuple(queries) if several and not hasattr(queries, "__array__") else (None,)
    if any(one is None or isinstance(one, Real) for one in listed):
        raise QueryError(f"{name}: expected a list of queries, found {shown(queries)}")
    return listed


def _check_score(score: float | None) -> None:
    if score is not None:
        finite_number(score, "min_score", QueryError)
