"""The options of searches: each is declared once; command line, API and pages are made from these declarations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from functools import cache
from numbers import Real
from typing import TYPE_CHECKING, Any

from catalog.filters.parse import as_where
from catalog.filters.where import build_where
from catalog.full_text import words
from embedders.windows import as_plan
from wshard.core.arguments import finite_number, plain_text, whole_number
from wshard.core.messages import shown
from wshard.core.types import Episode
from wshard.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog.filters.where import Where
    from embedders.windows import WindowPlan


@dataclass(frozen=True)
class Option:
    """How one option of a search is offered; its name, in Python and elsewhere, is that of the field it belongs to.

    least, most: inclusive bounds. most_served: upper bound of the API, which limits the work of one request. flags: how
    the command line spells it, where it is not --name. served_as: its name in the API. offered: in Python only if not.
    """

    kind: type
    help: str
    least: float = -math.inf
    most: float = math.inf
    most_served: float = math.inf
    many: bool = False
    flags: tuple[str, ...] = ()
    served_as: str = ""
    metavar: str | None = None
    offered: bool = True
    name: str = ""
    default: Any = None


def _option(default: Any, kind: type, help: str, **details: Any) -> Any:  # noqa: A002  (the word of typer)
    return field(default=default, metadata={"option": Option(kind, help, **details)})


@dataclass(frozen=True, eq=False, kw_only=True)
class CommonOptions:
    """Options of every search. Raises QueryError for invalid values, EmbedderError for an invalid window plan."""

    env_id: str | Sequence[str] | None = None  # filters are options of other verbs, too: they are declared there
    min_length: int | None = None
    reward_range: tuple[float | None, float | None] | None = None
    where: Where | str | None = None
    image: Any = None  # likewise: files have an option of their own
    top_k: int = _option(10, int, "Number of hits.", least=1, most_served=1000, flags=("--top", "-k"), served_as="top")
    like: Sequence[Any] = _option(
        (), str, "Additional example, given like QUERY; may be repeated.", many=True, metavar="QUERY"
    )
    unlike: Sequence[Any] = _option(
        (), str, "Counter-example, given like QUERY; may be repeated.", many=True, metavar="QUERY"
    )
    windows: WindowPlan | str | None = _option(  # noqa: RUF009  (it makes a field)
        None, str, "Window plan to search, e.g. 32:16, if several were ingested.", metavar="PLAN"
    )
    stride: float | None = _option(
        None, float, "For a picture: seconds from one compared frame to the next (default 0.5).", least=0
    )
    words: str | None = _option(
        None, str, "What a camera should have seen, in words; needs `ingest --encoder` with text and pictures."
    )
    min_score: float | None = _option(None, float, "Minimum score of a hit.")
    exclude_self: bool = _option(False, bool, "Exclude the query episodes from the results.")
    explain: bool = _option(False, bool, "Show how the index found the hits, and all notes in full.")

    def __post_init__(self) -> None:
        for one in options_of(type(self)):
            value = getattr(self, one.name)
            if one.many:
                object.__setattr__(self, one.name, _check_queries(one.name, value))
            elif one.kind in (int, float) and (value is not None or one.default is not None):
                object.__setattr__(self, one.name, _check_number(one, value))
        if self.windows is not None:
            object.__setattr__(self, "windows", as_plan(self.windows))

    @property
    def filters(self) -> Where:
        """All filters as one. Raises FilterError."""
        named = build_where(env_id=self.env_id, min_length=self.min_length, reward_range=self.reward_range)
        return named & as_where(self.where)


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchOptions(CommonOptions):
    """Options of a search for episodes or windows; TrajectoryRetriever.search_similar_episodes says what they mean."""

    text: str | None = _option(None, str, "Words of task, other metadata or notes; alone, or with a query.")
    windows_only: bool = _option(False, bool, "Search windows instead of episodes (see `ingest --windows`).")
    window_size: int | None = _option(None, int, "Search windows of this size.", least=1, offered=False)
    distinct: bool = _option(False, bool, "With --windows-only: at most one hit per episode.")
    expand: int | None = _option(
        None, int, "Query expansion: number of top hits to add to the query.", least=0, most_served=1000
    )
    plain: bool = _option(False, bool, "Rank only by the cosine similarity of whole episodes.")
    least: bool = _option(False, bool, "Rank the least similar first.")
    diversity: float = _option(
        0.0,
        float,
        "Maximal marginal relevance: (1 - N) * score - N * similarity to earlier hits.",
        least=0,
        most=1,
    )
    contributions: bool = _option(False, bool, "Show how much each lane contributes to the score.")
    alignment: bool = _option(False, bool, "Show the timestep alignment and a score per lane.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.text is not None and not words(plain_text(self.text, "text", QueryError)):
            raise QueryError(f"text: expected words, found {shown(self.text)}")
        if self.text is not None and self.of_windows:
            raise QueryError("text: expected a search for episodes, found one for timesteps, which have no text")
        if self.distinct and not self.of_windows:
            raise QueryError(
                "distinct: expected a search for windows only, found one for episodes, which returns each only once"
            )
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
    def of_windows(self) -> bool:
        """Whether windows are searched instead of episodes."""
        return self.windows_only or self.windows is not None or self.window_size is not None

    @property
    def need_cosine(self) -> bool:
        """Whether any option needs the cosine as metric."""
        return bool(self.unlike or self.expand or self.least or self.diversity or self.contributions)

    def includes(self, plan: WindowPlan) -> bool:
        """Return whether Spaces of this window plan are searched."""
        if not self.of_windows:
            return plan.whole
        return not plan.whole and self.window_size in (None, plan.size) and self.windows in (None, plan)


@dataclass(frozen=True, eq=False, kw_only=True)
class MomentOptions(CommonOptions):
    """Options of a search for moments; TrajectoryRetriever.search_moments says what they mean."""

    refine: bool = _option(
        True, bool, "Refine the bounds by aligning the lanes in the files.", flags=("--refine/--no-refine",)
    )
    max_overlap: float = _option(
        0.3, float, "Maximum overlap of two moments of one episode, as a share.", least=0, most=0.99
    )
    per_episode: int | None = _option(None, int, "Maximum number of hits per episode.", least=1, most_served=1000)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.windows is not None and as_plan(self.windows).whole:
            raise QueryError(f"windows: expected a plan that cuts episodes into windows, found {self.windows}")


def options_of(kind: type[CommonOptions]) -> tuple[Option, ...]:
    """Return the options of one kind of search, in their order."""
    return _read_declared(fields(kind))


@cache  # each search checks its options by them
def _read_declared(members: tuple[Field[Any], ...]) -> tuple[Option, ...]:
    declared = [(one, one.metadata["option"]) for one in members if "option" in one.metadata]
    return tuple(replace(option, name=one.name, default=one.default) for one, option in declared)


def _check_number(option: Option, value: Any) -> float:
    """Return an int or a float within the bounds of the option."""
    if option.kind is int:
        return whole_number(
            value, option.name, QueryError, least=None if math.isinf(option.least) else int(option.least)
        )
    number = finite_number(value, option.name, QueryError)
    if not option.least <= number <= option.most:
        raise QueryError(f"{option.name}: expected a number from {option.least:g} to {option.most:g}, found {value}")
    return number


def _check_queries(name: str, queries: Any) -> tuple[Any, ...]:
    """Return several queries; QueryError for a single one (a file, a span, an array, a list of numbers), or none."""
    is_list = isinstance(queries, Iterable) and not isinstance(queries, str | bytes | Mapping | Episode)
    listed = tuple(queries) if is_list and not hasattr(queries, "__array__") else (None,)
    if any(query is None or isinstance(query, Real) for query in listed):
        raise QueryError(f"{name}: expected a list of queries, found {shown(queries)}")
    return listed
