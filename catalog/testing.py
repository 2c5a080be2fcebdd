"""Episodes and filters for tests, as builders and Hypothesis strategies.

Knows: which values are awkward: ties, missing values, infinities, text that looks like SQL or sorts unusually. Does not
know: what is tested with them. Values come from small pools, so that random filters match random episodes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from catalog.filters import FIELDS, OPERATORS, UNORDERED, Compare, Where
from catalog.records import EpisodeRecord, LaneRecord

AWKWARD = (
    "",
    "reach-v3",
    "Reach-v3",
    "'; DROP TABLE episode; --",
    '"quoted" \\ % _ * ?',
    "a'' OR 1=1",
    "päivää",
    "𝄞 clef",
    "\uffff",
    "-- comment /* */ :name $1 ?1",
)
"""Text that a careless query would break on."""

TAGS = ("good", "bad", "'; DROP TABLE tag; --", "ünïcode %")
LENGTHS = (0, 1, 99, 100, 2**53, 2**62)
REWARDS = (0.0, -0.0, 0.1, 0.30000000000000004, -1.5, 5e-324, 1.7976931348623157e308, float("inf"), float("-inf"))

LANES = (
    LaneRecord("action/joint", "f32", (4,), 100, b"moments of the action"),
    LaneRecord("signal/state", "f32", (39,), 100, b"moments of the state"),
    LaneRecord("signal/camera", "u8", (64, 64, 3), 100, None),
)


def make_record(number: int, *, folder: str = "/data/set", **changes: Any) -> EpisodeRecord:
    """Return a plain episode that differs from those of other numbers in path, episode_id and digest."""
    record = EpisodeRecord(
        path=f"{folder}/episode_{number:06d}.wshard",
        key="",
        episode_id=f"episode_{number:06d}",
        env_id=f"env-{number % 5}",
        length=100 + number % 400,
        total_reward=float(number % 97),
        success=number % 3 == 0,
        digest=f"digest-{number:032d}",
        size=10_000 + number,
        mtime_ns=1_700_000_000_000_000_000 + number,
        metadata={"seed": number},
        lanes=LANES,
    )
    return replace(record, **changes)


def records(number: int) -> st.SearchStrategy[EpisodeRecord]:
    """Draw an episode with the path of that number and awkward values everywhere else."""
    text = st.sampled_from(AWKWARD)
    return st.builds(
        make_record,
        st.just(number),
        key=text,
        episode_id=text,
        env_id=text,
        length=st.sampled_from(LENGTHS),
        total_reward=st.none() | st.sampled_from(REWARDS),
        success=st.none() | st.booleans(),
        metadata=st.dictionaries(text, st.none() | st.booleans() | st.integers() | text, max_size=2),
    )


def record_lists(*, max_size: int = 20) -> st.SearchStrategy[list[EpisodeRecord]]:
    """Draw episodes at different places."""
    sizes = st.integers(0, max_size)
    return sizes.flatmap(lambda size: st.tuples(*(records(number) for number in range(size))).map(list))


def wheres(*, max_clauses: int = 3) -> st.SearchStrategy[Where]:
    """Draw a filter of up to max_clauses comparisons over every field and operator."""
    return st.lists(compares(), max_size=max_clauses).map(lambda clauses: Where(tuple(clauses)))


def compares() -> st.SearchStrategy[Compare]:
    """Draw one comparison."""
    return st.sampled_from(tuple(FIELDS)).flatmap(_compares_of)


def _compares_of(field: str) -> st.SearchStrategy[Compare]:
    values = _values(field)
    operators = ("eq", "ne") if field in UNORDERED else tuple(OPERATORS)
    single = st.builds(Compare, st.just(field), st.sampled_from(operators), values)
    return single | st.builds(Compare, st.just(field), st.just("in"), st.lists(values, max_size=4))


def _values(field: str) -> st.SearchStrategy[Any]:
    if field == "tag":
        return st.sampled_from((*TAGS, "absent"))
    if FIELDS[field] is str:
        return st.sampled_from((*AWKWARD, "episode_000001", "zzz"))
    if FIELDS[field] is bool:
        return st.booleans()
    if FIELDS[field] is int:
        return st.sampled_from((*LENGTHS, -1, 50, 10**30, -(10**30)))
    return st.sampled_from((*REWARDS, 0, 1, 10**400)) | st.floats(allow_nan=False)
