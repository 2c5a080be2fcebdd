"""Episodes and filters for tests, as builders and Hypothesis strategies.

Knows: which values are awkward: ties, missing values, infinities, text that looks like SQL or sorts unusually. Does not
know: what is tested with them. Values come from small pools, so that random filters match random episodes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from catalog.fields import FIELDS, Field, field_of
from catalog.filters import EVERYTHING, NOTHING, Compare, Where
from catalog.records import EpisodeRecord, LaneRecord, Spread

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

JSON_NUMBERS = (0, 1, -1, 0.1, 1e300, 5e-324, 0.30000000000000004, 2**53, 2**53 + 1, float(2**53), 2**63 - 1, 10**25)
"""Numbers that JSON readers round."""

KEYS = ("task", "a.b", "päivä", 'quo"te', "nested")
"""Keys of metadata, plain and awkward."""

WORDS = ("pick", "pick up", "PICK up", "pi*", "up the red", "päivää", "paivaa", "cube 1", "drop table", "u*")

PHRASES = ("Pick up the red cube 1", "pick the cube up", "PÄIVÄÄ pick", "'; DROP TABLE episode; --", "!?")
"""Tasks and notes."""

TAGS = ("good", "bad", "'; DROP TABLE tag; --", "ünïcode %")
LENGTHS = (0, 1, 99, 100, 2**53, 2**62)
REWARDS = (0.0, -0.0, 0.1, 0.30000000000000004, -1.5, 5e-324, 1.7976931348623157e308, float("inf"), float("-inf"))

SPREADS = (Spread(-1.0, 1.0, 0.1, 0.5), Spread(0.0, 0.1, 0.05, 5e-324))

LANES = (
    LaneRecord("action/joint", "f32", (4,), 100, b"moments of the action", SPREADS),
    LaneRecord("signal/state", "f32", (39,), 100, b"moments of the state"),
    LaneRecord("signal/camera", "u8", (64, 64, 3), 100, None),
)


FIELD_NAMES = (
    *(name for name in FIELDS if name != "collection"),
    "meta.task",
    'meta."a.b"',
    "meta.päivä",
    'meta."quo\\"te".deep',
    "meta.nested.deep",
    "meta.nested",
    "score.quality",
    "score.other",
    "lane.action/joint.max",
    "lane.action/joint.mean[1]",
    "lane.action/joint.std[7]",
    "lane.signal/camera.min",
    "lane.signal/state.count",
    "lineage.converted_from",
)
"""A field of every kind; only collections, which must be there, are left out."""

_POOLS: dict[str, tuple[Any, ...]] = {
    "tag": (*TAGS, "absent"),
    "text": WORDS,
    "flag": ("spike", "integrity", *AWKWARD[1:4]),
    "note": (*PHRASES, "cube", "P"),
    "review": ("accepted", "rejected", "acc"),
    "reviewer": ("ann", "bob", ""),
    "reviewed_at": ("2000", "3000"),
    "ingested_at": ("2000", "3000"),
    "space": ("fingerprint", "other"),
    "lineage": (*AWKWARD, "file:///old/a.h5"),
    "path": ("/data/set", "/data/set/episode_000001.wshard", "01.wshard", "/", "set/episode"),
    "lane": (-1.0, 0.0, 0.1, 0.5, 1.0, 0.05, 100),
}


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
        metadata=metadata(),
    )


def metadata() -> st.SearchStrategy[dict[str, Any]]:
    """Draw an episode's metadata."""
    leaves = st.none() | st.booleans() | st.sampled_from(JSON_NUMBERS) | st.sampled_from((*AWKWARD, *PHRASES))
    deep = st.dictionaries(st.sampled_from(("deep", "other")), leaves, max_size=2)
    return st.dictionaries(st.sampled_from((*KEYS, *AWKWARD)), leaves | deep | st.lists(leaves, max_size=2), max_size=4)


def record_lists(*, max_size: int = 20) -> st.SearchStrategy[list[EpisodeRecord]]:
    """Draw episodes at different places."""
    sizes = st.integers(0, max_size)
    return sizes.flatmap(lambda size: st.tuples(*(records(number) for number in range(size))).map(list))


def wheres(*, max_clauses: int = 3) -> st.SearchStrategy[Where]:
    """Draw a filter of up to max_clauses comparisons over every field and operator, joined by and, or, not."""
    leaves = st.lists(compares(), max_size=max_clauses)
    return leaves.flatmap(_trees)


def compares() -> st.SearchStrategy[Compare]:
    """Draw one comparison."""
    return st.sampled_from(FIELD_NAMES).flatmap(_compares_of)


@st.composite
def _trees(draw: st.DrawFn, parts: list[Compare]) -> Where:
    if not parts:
        return draw(st.sampled_from((EVERYTHING, EVERYTHING, NOTHING)))
    trees: list[Where] = [~part if draw(st.integers(0, 3)) == 0 else part for part in parts]
    while len(trees) > 1:
        left, right = trees.pop(), trees.pop()
        joined = left & right if draw(st.booleans()) else left | right
        trees.append(~joined if draw(st.integers(0, 3)) == 0 else joined)
    return trees[0]


def _compares_of(name: str) -> st.SearchStrategy[Compare]:
    field = field_of(name)
    return st.sampled_from(field.operators).flatmap(lambda op: _compares_with(field, op))


def _compares_with(field: Field, op: str) -> st.SearchStrategy[Compare]:
    if op == "exists":
        return st.just(Compare(field.name, op))
    values = _values(field)
    if op in ("contains", "startswith") or (field.type is None and op not in ("eq", "ne", "in")):
        values = values.filter(lambda value: isinstance(value, str))
    if op == "between":
        values = st.tuples(values, values)
    elif op == "in":
        values = st.lists(values, max_size=4).filter(lambda found: len({type(v) is str for v in found}) < 2)
        if field.type is None:
            values = values.map(lambda found: [value for value in found if not isinstance(value, bool)])
    return st.builds(Compare, st.just(field.name), st.just(op), values)


def _values(field: Field) -> st.SearchStrategy[Any]:
    if field.root in _POOLS and field.type is not int:
        return st.sampled_from(_POOLS[field.root])
    if field.type is str:
        return st.sampled_from((*AWKWARD, "episode_000001", "zzz"))
    if field.type is bool:
        return st.booleans()
    if field.type is int:
        return st.sampled_from((*LENGTHS, -1, 50, 10**30, -(10**30)))
    if field.type is None:
        return st.sampled_from((*AWKWARD, *JSON_NUMBERS, True, False))
    return st.sampled_from((*REWARDS, 0, 1, 10**400)) | st.floats(allow_nan=False)
