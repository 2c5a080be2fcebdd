"""Random filters over every field and operator, as Hypothesis strategies."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from catalog.filters.fields import FIELDS, TEXT_OPERATORS, Field, field_of
from catalog.filters.where import EVERYTHING, NOTHING, Compare, Where
from catalog.testing.records import AWKWARD, JSON_NUMBERS, LENGTHS, PHRASES, REWARDS, TAGS, WORDS

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
    "lane.signal/state.rate",
    "lane.action/joint.codec",
    "lane.action/joint.bytes",
    "lane.signal/state.stored",
    "lane.signal/camera.codec",
    "lane.signal/camera.dtype",
    "lane.action/joint.shape",
    "lane.signal/camera.shape",
    "lineage.converted_from",
)
"""A field of every kind; only collections, which must be there, are left out."""

_TIMES = ("2000", "3000", "2026-11", "2024-01-01", "2024-01-01T09:00+09:00", "2024-01-01T00:00:00Z", "9999")
_POOLS: dict[str, tuple[Any, ...]] = {
    "tag": (*TAGS, "absent"),
    "text": WORDS,
    "flag": ("spike", "integrity", *AWKWARD[1:4]),
    "note": (*PHRASES, "cube", "P"),
    "review": ("accepted", "rejected", "acc"),
    "reviewer": ("ann", "bob", ""),
    "reviewed_at": _TIMES,
    "ingested_at": _TIMES,
    "space": ("fingerprint", "other"),
    "note_by": ("ann", "bob", "", "a"),
    "note_at": _TIMES,
    "space_family": ("family", "other", "fam"),
    "space_state": ("building", "active"),
    "vectors": (0, 1, 2),
    "format": ("wshard", "lerobot", "l"),
    "lane_map": ("a=b", ""),
    **dict.fromkeys(("root", "folder"), ("/data/set", "/data", "/", "set", "/data/set/left arm")),
    "asset": ("chunk", "manifest", "chu", *AWKWARD[1:3]),
    "asset_path": ("/data/set/episode_000005.wshard", "/data/set/episode_000005.wshard.parts/0.wshard", "parts/1", "/"),
    "asset_digest": ("digest 1", "digest of the manifest", "digest"),
    "asset_size": (5, 10, 7, -1),
    "asset_mtime_ns": (0, 9, 5),
    "lineage": (*AWKWARD, "file:///old/a.h5"),
    "path": ("/data/set", "/data/set/episode_000001.wshard", "01.wshard", "/", "set/episode"),
    "lane": (-1.0, 0.0, 0.1, 0.5, 1.0, 0.05, 100),
    "dtype": ("f32", "u8", "f", "F32"),
    "shape": ("4", "39", "64x64x3", "64x", "scalar", "5"),
    "codec": ("zstd", "none", "z", "Zstd"),
    "bytes": (1600, 1599, 10**30),
    "stored": (15_600, 320, -1),
}


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


# Made once: making strategies takes longer than drawing from them.
@cache
def _compares_of(name: str) -> st.SearchStrategy[Compare]:
    field = field_of(name)
    return st.sampled_from(field.operators).flatmap(lambda op: _compares_with(field, op))


@cache
def _compares_with(field: Field, op: str) -> st.SearchStrategy[Compare]:
    if op == "exists":
        return st.just(Compare(field.name, op))
    values = _values(field)
    if op in TEXT_OPERATORS or (field.type is None and op not in ("eq", "ne", "in")):
        values = values.filter(lambda value: isinstance(value, str))
    if op == "between":
        values = st.tuples(values, values)
    elif op == "in":
        values = st.lists(values, max_size=4).filter(lambda found: len({type(v) is str for v in found}) < 2)
        if field.type is None:
            values = values.map(lambda found: [value for value in found if not isinstance(value, bool)])
    return st.builds(Compare, st.just(field.name), st.just(op), values)


def _values(field: Field) -> st.SearchStrategy[Any]:
    pool = next((name for name in (*field.parts[1:], field.root) if name in _POOLS), None)
    if pool is not None and (pool != "lane" or field.type is not int):
        return st.sampled_from(_POOLS[pool])
    if field.type is str:
        return st.sampled_from((*AWKWARD, "episode_000001", "zzz"))
    if field.type is bool:
        return st.booleans()
    if field.type is int:
        return st.sampled_from((*LENGTHS, -1, 50, 10**30, -(10**30)))
    if field.type is None:
        return st.sampled_from((*AWKWARD, *JSON_NUMBERS, True, False))
    return st.sampled_from((*REWARDS, 0, 1, 10**400)) | st.floats(allow_nan=False)
