"""Facets, histograms and statistics say what counting in plain Python says; pages follow scores."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from itertools import chain
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from databases import SQLITE_FIRST
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog import Catalog, EmbeddingRow, EpisodeRow, Facts, NumberSummary, matches
from catalog.filters.evaluate import read_field
from catalog.filters.fields import field_of
from catalog.testing.contract import AWKWARD, JSON_NUMBERS, LENGTHS, REWARDS, TAGS, make_assets, make_record, wheres
from catalog.values import comparable_number
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Filled(NamedTuple):
    catalog: Catalog
    rows: list[EpisodeRow]
    facts: dict[int, Facts]

    def __repr__(self) -> str:
        return "Filled"


GROUPABLE = (
    *("env_id", "length", "total_reward", "success", "review", "tag", "score.quality", "path", "meta.task"),
    *(
        'meta."a.b"',
        "lane.action/joint.max",
        "lane.action/joint.count",
        "lane.signal/state.shape",
        "root",
        "folder",
        "mtime_ns",
    ),
    *("note_by", "lineage.trimmed_from", "space", "vectors", "asset", "asset_path", "asset_size"),
)


@pytest.fixture(scope="module")
def filled(shared_location) -> Iterator[Filled]:
    random = Random(4)
    with Catalog.open(shared_location, create=True) as catalog:
        records = [
            make_record(
                number,
                folder=("/data/set", "/data/set/left arm", "")[number % 5 % 3],
                env_id=random.choice(AWKWARD),
                length=random.choice((*LENGTHS, 7, 50)),
                total_reward=random.choice((None, *REWARDS)) if number % 2 else random.gauss(1e6, 3),
                success=random.choice((None, True, False)),
                assets=make_assets(make_record(number).path) if number % 50 == 0 else (),
                metadata={"task": random.choice(AWKWARD), "a.b": random.choice((None, True, 1, "1", *JSON_NUMBERS))},
            )
            for number in range(200)
        ]
        ids = [done.id for done in catalog.episodes.register(records)]
        for name in TAGS:
            catalog.annotations.tag(random.sample(ids, 60), name)
        catalog.annotations.review(random.sample(ids, 50), "accepted")
        catalog.annotations.add_lineage(random.sample(ids, 50), "trimmed_from", "uid")
        for who in ("ann", "ann", "bob"):
            catalog.annotations.add_note(random.sample(ids, 90), "blurred", who=who)
        catalog.collections.save_snapshot("failures", "success:false")
        space = catalog.vectors.add_space("fingerprint", "family", "{}").id
        embedded = catalog.episodes.rows(random.sample(ids, 60)).values()
        catalog.vectors.write(
            space, [EmbeddingRow(row.id, row.digest, row.id % 3, b"v" * (row.id % 3)) for row in embedded]
        )
        catalog.annotations.set_scores(
            "quality", {id_: random.choice((0.1, 0.2, 0.3)) for id_ in random.sample(ids, 120)}
        )
        yield Filled(catalog, list(catalog.episodes.rows(ids).values()), catalog.query.facts(ids))


def values(filled: Filled, names: Sequence[str], where: Any) -> dict[str, list[Any]]:
    """Return each value of the fields among the matching episodes, None where it is missing."""
    _, rows, facts = filled
    passing = [(row, facts[row.id]) for row in rows if matches(where, row, facts[row.id])]
    return {name: list(chain.from_iterable(read(name, *one) for one in passing)) for name in names}


def read(name: str, row: EpisodeRow, facts: Facts) -> Sequence[Any]:
    here = read_field(field_of(name), row, facts)
    return list(dict.fromkeys(here)) if field_of(name).many else [comparable(here[0])] if here else [None]


def comparable(value: Any) -> Any:
    return comparable_number(value) if type(value) is int else value


@settings(max_examples=12)
@given(where=wheres(max_clauses=1), first=st.integers(0, 3))
def test_facets_count_the_matching_episodes(where, first, filled) -> None:
    facets = filled[0].query.facets(GROUPABLE, where)
    assert list(facets) == list(GROUPABLE)
    stored = values(filled, GROUPABLE, where)
    for name, found in facets.items():
        expected = Counter((type(value) is bool, value) for value in stored[name])
        assert Counter({(type(value) is bool, value): count for value, count in found}) == expected, name
        assert [count for _, count in found] == sorted((count for _, count in found), reverse=True)
    some = GROUPABLE[first::4]
    assert filled[0].query.facets(some, where, limit=2) == {name: facets[name][:2] for name in some}


@settings(max_examples=12)
@given(where=wheres(max_clauses=1))
def test_histograms_count_each_value_once_in_its_range(where, filled) -> None:
    requested = {"length": 7, "total_reward": 5, "score.quality": 3, 'meta."a.b"': 4}
    stored = values(filled, [*requested], where)
    for name, bins in requested.items():
        found = [v if type(v) in (int, float) else None for v in stored[name]]
        numbers = [value for value in found if value is not None and abs(value) != float("inf")]
        histogram = filled[0].query.histogram(name, where, bins=bins)
        assert histogram.missing == len(found) - len(numbers)
        assert sum(histogram.counts) == len(numbers)
        if not numbers:
            assert histogram.edges == ()
            continue
        # edges are floats: the largest integer is not one, its nearest float is the edge
        assert (histogram.edges[0], histogram.edges[-1]) == (float(min(numbers)), float(max(numbers)))
        if len(set(numbers)) > 1:
            assert len(histogram.counts) == bins
            assert histogram.counts[0] >= numbers.count(min(numbers))
            assert histogram.counts[-1] >= numbers.count(max(numbers))


def test_a_facet_of_collections_counts_by_name(filled) -> None:
    catalog, rows, _ = filled
    catalog.collections.save_snapshot("some", "success:true")
    catalog.collections.save_snapshot("same", "success:true")
    failures, successes = ([row for row in rows if row.success is found] for found in (False, True))
    found = dict(catalog.query.facets(["collection"])["collection"])
    assert found == {"failures": len(failures), "some": len(successes), "same": len(successes)}


def test_a_histogram_of_known_values(location) -> None:
    with Catalog.open(location, create=True) as catalog:
        catalog.episodes.register([make_record(number, length=number, total_reward=None) for number in range(100)])
        histogram = catalog.query.histogram("length", "length:10..59", bins=5)
        assert histogram.counts == (10, 10, 10, 10, 10)
        assert histogram.edges == pytest.approx((10, 19.8, 29.6, 39.4, 49.2, 59))
        assert catalog.query.histogram("length", "length:7").counts == (1,)
        assert catalog.query.histogram("total_reward").missing == 100


@pytest.mark.parametrize(
    "by", [(), ("env_id",), ("success", "review"), ("tag",), ("tag", "note_by", "env_id"), ("meta.task", "success")]
)
def test_statistics_by_group(by: tuple[str, ...], filled) -> None:
    catalog, rows, facts = filled
    where = "length:..1000 reward:999000..1001000"
    groups: dict[tuple, list[EpisodeRow]] = {}
    for row in rows:
        if row.length <= 1000 and row.total_reward is not None and 999_000 <= row.total_reward <= 1_001_000:
            key: list[tuple] = [()]
            for name in by:
                here = read(name, row, facts[row.id])
                key = [(*start, value) for start in key for value in here]
            for each in key:
                groups.setdefault(each, []).append(row)
    found = catalog.query.statistics(["total_reward", "score.quality"], where, by=by)
    assert {group.key: group.episodes for group in found} == {key: len(rows) for key, rows in groups.items()}
    assert [group.episodes for group in found] == sorted((group.episodes for group in found), reverse=True)
    for group in found:
        rewards = [row.total_reward for row in groups[group.key]]
        summary = group.values["total_reward"]
        assert (summary.count, summary.min, summary.max) == (len(rewards), min(rewards), max(rewards))
        assert summary.mean == pytest.approx(statistics.fmean(rewards), rel=1e-12)
        # Rewards near a million that differ by a few: a naive sum of squares would lose the spread.
        assert summary.std == pytest.approx(statistics.pstdev(rewards), rel=1e-6, abs=1e-6)
        scores = [facts[row.id].scores.get("quality") for row in groups[group.key]]
        assert group.values["score.quality"].count == len([score for score in scores if score is not None])


def test_groups_of_other_magnitudes_keep_their_mean_and_spread(location) -> None:
    """One reward counts cents, another one millions: the mean of all says nothing of either."""
    rewards = {"cents": [0.25, 0.5, 1.0], "millions": [4e11, 5e11, 9e11], "nothing": [0.0, 0.0], "other": [1e-7, 3e-7]}
    with Catalog.open(location, create=True) as catalog:
        pairs = [(env, reward) for env, listed in rewards.items() for reward in listed]
        catalog.episodes.register(
            [make_record(n, env_id=env, total_reward=reward) for n, (env, reward) in enumerate(pairs)]
        )
        found = catalog.query.statistics(["total_reward", "length"], by=["env_id"])
    assert {group.key[0] for group in found} == set(rewards)
    for group in found:
        listed, summary = rewards[group.key[0]], group.values["total_reward"]
        assert (group.episodes, summary.count) == (len(listed), len(listed))
        assert summary.mean == pytest.approx(statistics.fmean(listed), rel=1e-12)
        assert summary.std == pytest.approx(statistics.pstdev(listed), rel=1e-9)
        assert group.values["length"].count == len(listed)


def test_numbers_whose_squares_no_float_holds_are_reported_without_mean_and_spread(location) -> None:
    """Beside them others keep theirs, also those far below, and nothing is raised in the database's words."""
    rewards = {"far": [1e200, -1e160, 1.0], "ends": [1.7e308, -1.7e308], "one": [1e300, 1e300], "cents": [0.25, 0.5]}
    with Catalog.open(location, create=True) as catalog:
        pairs = [(env, reward) for env, listed in rewards.items() for reward in listed]
        catalog.episodes.register(
            [make_record(n, env_id=env, total_reward=reward) for n, (env, reward) in enumerate(pairs)]
        )
        found = {
            one.key[0]: one.values["total_reward"] for one in catalog.query.statistics(["total_reward"], by=["env_id"])
        }
        (whole,) = catalog.query.statistics(["total_reward"])
    for env in ("far", "ends"):
        listed = rewards[env]
        assert found[env] == NumberSummary(len(listed), None, None, min(listed), max(listed))
    assert found["one"] == NumberSummary(2, 1e300, 0.0, 1e300, 1e300)
    assert found["cents"] == NumberSummary(2, 0.375, 0.125, 0.25, 0.5)
    assert whole.values["total_reward"] == NumberSummary(len(pairs), None, None, -1.7e308, 1.7e308)


def test_infinities_count_as_missing_in_statistics(location) -> None:
    rewards = {"endless": [math.inf, 1.0, -math.inf, 3.0], "finite": [0.25, 0.75], "only": [math.inf, math.inf]}
    with Catalog.open(location, create=True) as catalog:
        pairs = [(env, reward) for env, listed in rewards.items() for reward in listed]
        catalog.episodes.register(
            [make_record(n, env_id=env, total_reward=reward) for n, (env, reward) in enumerate(pairs)]
        )
        found = catalog.query.statistics(["total_reward"], by=["env_id"])
        (whole,) = catalog.query.statistics(["total_reward"])
    assert {one.key[0]: (one.episodes, one.values["total_reward"]) for one in found} == {
        "endless": (4, NumberSummary(2, 2.0, 1.0, 1.0, 3.0)),
        "finite": (2, NumberSummary(2, 0.5, 0.25, 0.25, 0.75)),
        "only": (2, NumberSummary(0, None, None, None, None)),
    }
    assert whole.values["total_reward"] == NumberSummary(4, 1.25, pytest.approx(1.0458250331675945), 0.25, 3.0)


def test_statistics_of_nothing(filled) -> None:
    (nothing,) = filled[0].query.statistics(["length"], "env:nowhere")
    assert (nothing.episodes, nothing.values["length"].mean) == (0, None)
    assert filled[0].query.statistics(["length"], "env:nowhere", by=["env_id"]) == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda c: c.query.facets(["colour"]),
        lambda c: c.query.facets(["text"]),
        lambda c: c.query.histogram("env_id"),
        lambda c: c.query.histogram("success"),
        lambda c: c.query.histogram("tag"),
        lambda c: c.query.histogram("length", bins=0),
        lambda c: c.query.histogram("length", bins=10**6),
        lambda c: c.query.statistics(["env_id"]),
        lambda c: c.query.statistics(["length"], by=["text"]),
        lambda c: c.query.select(order="score."),
        lambda c: c.query.select(order="tag"),
        lambda c: c.query.select(order="--length"),
        lambda c: c.query.count("collection:nobody"),
    ],
)
@SQLITE_FIRST
def test_what_cannot_be_summed_up_is_refused(ask, filled) -> None:
    with pytest.raises(FilterError, match="expected"):
        ask(filled[0])


@pytest.mark.parametrize("order", ["score.quality", "-score.quality", "score.absent"])
@pytest.mark.parametrize("limit", [7, 500])
def test_pages_in_the_order_of_a_score_show_every_episode_once(order: str, limit: int, filled) -> None:
    catalog, rows, facts = filled
    name, sign = order.partition(".")[2], -1 if order.startswith("-") else 1

    def place(row: EpisodeRow) -> tuple:
        score = facts[row.id].scores.get(name)
        return (score is None, sign * (score or 0.0), sign * row.id)

    seen: list[EpisodeRow] = []
    after = None
    while True:
        page = catalog.query.select("length:>5", order=order, limit=limit, after=after)
        seen += page.rows
        after = page.next
        if after is None:
            break
    assert seen == sorted((row for row in rows if row.length > 5), key=place)


def test_the_files_of_several_episodes_count_once(location):
    alike = {"path": "/data/a.h5", "size": 1000, "mtime_ns": 5}
    with Catalog.open(location, create=True) as catalog:
        assert catalog.query.file_bytes() == {(): 0}
        catalog.episodes.register(
            [make_record(number, **alike, key=str(number), env_id="ab"[number % 2]) for number in range(4)]
            + [make_record(number, path=f"/data/{number}.wshard", size=10, env_id="b") for number in (7, 8)]
        )
        assert catalog.query.file_bytes() == {(): 1020}
        assert catalog.query.file_bytes(by=["env_id"]) == {("a",): 1000, ("b",): 1020}
        assert catalog.query.file_bytes("env:b path:*wshard*") == {(): 20}
