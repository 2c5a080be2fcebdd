"""The contract that every vector index keeps, as a test class to inherit from.

Knows the promises of `bridge.index.base.VectorIndex` and archives of awkward episodes; bruteforce.py says which answers
are right. Does not know any backend. A subclass whose name begins with "Test" gives `open_index`; pytest gives each
test an empty folder.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bridge.bruteforce import DIM, Shelf, make_space, unit_vectors
from bridge.index.base import Match, Point, Request, VectorIndex, Vectors
from catalog.catalog import Catalog
from catalog.filters import EVERYTHING, Compare, Where, build_where
from catalog.records import Among, EpisodeRecord
from catalog.testing import AWKWARD, LENGTHS, REWARDS, TAGS, wheres
from embedders.space import Space, Statistics
from wshard.errors import SpaceMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TOLERANCE: Final = 1e-5
"""What float32 arithmetic may change in a score."""


def top(count: int, where: Where = EVERYTHING, *, distinct: bool = True) -> Request:
    """Return a request for `count` matches."""
    return Request(count, where, distinct)


def check(shelf: Shelf, space: Space, query: Vectors, request: Request) -> tuple[Match, ...]:
    """Search, compare with the brute force, and return the matches."""
    answer = shelf.index.search(space, query, request)
    expected = shelf.brute_force(space, query, request)
    found = [(match.episode, match.window) for match in answer.matches]
    wanted = [(match.episode, match.window) for match in expected]
    assert found == wanted, f"{request}: expected {wanted}, found {found}"
    for match, right in zip(answer.matches, expected, strict=True):
        assert abs(match.score - right.score) <= TOLERANCE, f"{request}: expected {right}, found {match}"
        assert space.metric != "cosine" or -1.0 <= match.score <= 1.0, f"{request}: expected a cosine, found {match}"
    assert answer.exact or not shelf.exact, f"{request}: expected an answer that is known to be exact"
    return answer.matches


class IndexContract:
    """Tests that hold for every vector index."""

    filters = 150
    """Random filters that are compared with the brute force."""

    repeatable = False
    """Whether they are the same ones in every run."""

    exact = True
    """Whether every answer must be proven to be right; a backend that cannot prove it must be right all the same."""

    metric = "cosine"
    """Of the Spaces: cosine, dot or l2."""

    @property
    def own(self) -> float:
        """The score that a unit vector has with itself."""
        return 0.0 if self.metric == "l2" else 1.0

    def space(self, name: str = "contract") -> Space:
        """Return a Space of the metric; another name is another Space."""
        return make_space(name, metric=self.metric)

    def open_index(self, catalog: Catalog, folder: Path) -> VectorIndex:
        """Return an index over the catalog with the folder for its own files; may be called again for the same."""
        raise NotImplementedError

    @contextmanager
    def shelf(self, folder: Path) -> Iterator[Shelf]:
        """Open the archive in this folder, made when missing."""
        with Catalog.open(folder / "catalog.db", create=True) as catalog:
            yield Shelf(catalog, self.open_index(catalog, folder / "index"), exact=self.exact)

    @contextmanager
    def filled(self, folder: Path, episodes: int = 40) -> Iterator[tuple[Shelf, Space, list[int]]]:
        """Open an archive of episodes with 1 to 4 windows each."""
        with self.shelf(folder) as shelf:
            ids, space = shelf.register(episodes), self.space()
            shelf.put(space, {id_: unit_vectors(1 + number % 4, number) for number, id_ in enumerate(ids)})
            yield shelf, space, ids

    def test_an_empty_index_answers_with_nothing(self, tmp_path: Path) -> None:
        with self.shelf(tmp_path) as shelf:
            space = self.space()
            shelf.put(space, {})
            assert check(shelf, space, unit_vectors(1)[0], top(5)) == ()
            assert shelf.index.count(space) == 0
            assert list(shelf.index.scan(space)) == []

    def test_one_vector_is_found_with_its_own_score(self, tmp_path: Path) -> None:
        with self.shelf(tmp_path) as shelf:
            space, (only,) = self.space(), shelf.register(1)
            shelf.put(space, {only: unit_vectors(1)})
            (match,) = check(shelf, space, unit_vectors(1)[0], top(5))
            assert match == Match(only, 0, match.score)
            assert abs(match.score - self.own) <= TOLERANCE
            (opposite,) = check(shelf, space, -unit_vectors(1)[0], top(5))
            assert abs(opposite.score - (self.own - 2.0)) <= TOLERANCE

    def test_every_vector_finds_itself_first(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, space, ids):
            for number, id_ in enumerate(ids):
                for window, vector in enumerate(unit_vectors(1 + number % 4, number)):
                    first = check(shelf, space, vector, top(3, distinct=False))[0]
                    assert (first.episode, first.window) == (id_, window)
                    assert abs(first.score - self.own) <= TOLERANCE

    def test_more_than_there_is_gives_all_there_is(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, space, ids):
            query = unit_vectors(1, 99)[0]
            assert len(check(shelf, space, query, top(10_000))) == len(ids)
            assert len(check(shelf, space, query, top(10_000, distinct=False))) == shelf.index.count(space)

    def test_distinct_gives_each_episode_by_its_best_window(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, space, _):
            for seed in range(20):
                query = unit_vectors(1, 1000 + seed)[0]
                for count in (1, 7, 39):
                    episodes = [match.episode for match in check(shelf, space, query, top(count))]
                    assert len(set(episodes)) == count
                    check(shelf, space, query, top(count, distinct=False))

    def test_equal_vectors_come_by_episode_then_window(self, tmp_path: Path) -> None:
        with self.shelf(tmp_path) as shelf:
            space, ids = self.space(), shelf.register(30)
            twins = np.repeat(unit_vectors(1), 3, axis=0)
            shuffled = np.random.default_rng(5).permutation(ids).tolist()
            for batch in (shuffled[:11], shuffled[11:13], shuffled[13:]):
                shelf.put(space, dict.fromkeys(batch, twins))
            for where in (EVERYTHING, build_where(env_id="env-1"), build_where(min_length=110)):
                for count in (1, 5, 200):
                    found = check(shelf, space, unit_vectors(1, 7)[0], top(count, where, distinct=False))
                    assert [(m.episode, m.window) for m in found] == sorted((m.episode, m.window) for m in found)
                    check(shelf, space, unit_vectors(1)[0], top(count, where))

    def test_vectors_of_any_length_are_ranked_as_the_metric_says(self, tmp_path: Path) -> None:
        with self.shelf(tmp_path) as shelf:
            space, ids = self.space(), shelf.register(50)
            rng = np.random.default_rng(3)
            spread = 0.0 if self.metric == "cosine" else 1.5
            lengths = np.exp(spread * rng.normal(size=(50, 3, 1))).astype(np.float32)
            shelf.put(space, {id_: unit_vectors(3, id_) * lengths[at] for at, id_ in enumerate(ids)})
            for seed in range(20):
                query = (unit_vectors(1, 1000 + seed)[0] * np.exp(spread * rng.normal())).astype(np.float32)
                for where in (EVERYTHING, build_where(env_id="env-1")):
                    for count in (1, 7, 500):
                        check(shelf, space, query, top(count, where, distinct=bool(seed % 2)))

    def test_an_upsert_replaces_all_vectors_of_an_episode(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, space, ids):
            before = shelf.index.count(space)
            shelf.put(space, {ids[3]: unit_vectors(1, 500), ids[4]: unit_vectors(6, 501)})  # had 4 windows, and 1
            assert shelf.index.count(space) == before - 3 + 5
            for vector in (*unit_vectors(4, 3), *unit_vectors(1, 500), *unit_vectors(6, 501)):
                check(shelf, space, vector, top(50, distinct=False))

    def test_the_same_upsert_again_changes_nothing(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, space, ids):
            before = shelf.index.count(space)
            points = shelf.put(space, {ids[0]: unit_vectors(1, 0)})
            shelf.index.upsert(space, points)
            shelf.index.upsert(space, [])
            assert shelf.index.count(space) == before
            check(shelf, space, unit_vectors(1, 0)[0], top(50, distinct=False))

    def test_a_deleted_episode_is_no_hit_and_the_next_best_takes_its_place(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, space, ids):
            query, before = unit_vectors(1, 5)[0], shelf.index.count(space)
            best = [match.episode for match in check(shelf, space, query, top(5))]
            shelf.bury(best[:3], space)
            after = [match.episode for match in check(shelf, space, query, top(5))]
            assert after[:2] == best[3:]
            assert len(after) == 5
            assert shelf.index.count(space) == before - sum(1 + ids.index(gone) % 4 for gone in best[:3])
            assert not {point.episode for point in shelf.index.scan(space)} & set(best[:3])
            shelf.bury([ids[-1] + 1000], space)
            shelf.put(space, {best[0]: unit_vectors(2, 5)})
            assert check(shelf, space, unit_vectors(2, 5)[1], top(1))[0].episode == best[0]

    def test_a_delete_of_what_the_ledger_holds_changes_nothing(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, space, ids):
            before, query = shelf.index.count(space), unit_vectors(1, 5)[0]
            shelf.index.delete(space, [*ids[:7], ids[-1] + 1000])
            assert shelf.index.count(space) == before
            check(shelf, space, query, top(1000, distinct=False))
            gone, again = (match.episode for match in check(shelf, space, query, top(2)))
            shelf.bury([gone, again])
            shelf.put(space, {again: unit_vectors(2, 5)})
            shelf.index.delete(space, [gone, again])
            assert again in {match.episode for match in check(shelf, space, query, top(1000))}

    def test_an_index_without_episodes_left_answers_with_nothing(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, space, ids):
            shelf.bury(ids, space)
            assert check(shelf, space, unit_vectors(1)[0], top(5)) == ()
            assert shelf.index.count(space) == 0

    def test_scan_gives_every_point_as_it_was_put(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, space, ids):
            (newest,) = shelf.put(space, {ids[0]: unit_vectors(3, 77)})
            found = {point.episode: point for point in shelf.index.scan(space)}
            assert sorted(found) == ids
            assert found[ids[0]].seq == newest.seq == max(point.seq for point in found.values())
            assert len({point.seq for point in found.values()}) == len(ids)
            for episode, vectors in shelf.held[space.fingerprint].items():
                assert found[episode].vectors.dtype == np.float32
                assert np.array_equal(found[episode].vectors, vectors), f"episode {episode} came back different"

    def test_an_index_that_is_opened_again_holds_the_same(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, space, ids):
            shelf.bury(ids[:5], space)
            held = shelf.held
        with self.shelf(tmp_path) as again:
            again.held = held
            assert again.index.count(space) == sum(map(len, held[space.fingerprint].values()))
            for seed in range(10):
                check(again, space, unit_vectors(1, seed)[0], top(9, build_where(min_length=120)))
                check(again, space, unit_vectors(1, seed)[0], top(9, distinct=False))

    def test_a_filter_never_costs_hits(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, space, ids):
            query = unit_vectors(1, 3)[0]
            for where, passing in (
                (build_where(env_id="nowhere"), 0),
                (Compare("episode_id", "eq", "episode_000030"), 1),
                (build_where(env_id="env-2"), 8),
                (build_where(min_length=1), len(ids)),
            ):
                for count in (1, 5, 100):
                    assert len(check(shelf, space, query, top(count, where))) == min(count, passing)

    def test_filters_see_what_the_catalog_says_now(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, space, ids):
            query, tagged = unit_vectors(1, 3)[0], build_where(tag="kept")
            assert check(shelf, space, query, top(5, tagged)) == ()
            shelf.catalog.tag(ids[10:14], "kept")
            assert {match.episode for match in check(shelf, space, query, top(5, tagged))} == {*ids[10:14]}
            shelf.catalog.untag(ids[10:12], "kept")
            assert {match.episode for match in check(shelf, space, query, top(5, tagged))} == {*ids[12:14]}

    def test_random_filters_give_what_brute_force_gives(self, tmp_path: Path) -> None:
        with self.shelf(tmp_path) as shelf:
            space, query = self.space(), st.integers(0, 11).map(lambda seed: unit_vectors(1, seed)[0])
            ids = shelf.register(60, change=_awkward)
            for number, name in enumerate(TAGS):
                shelf.catalog.tag(ids[number :: 3 + number], name)
            # Vectors from a small pool: queries meet many equal scores.
            for half in (ids[::2], ids[1::2]):
                shelf.put(space, {id_: unit_vectors(1 + id_ % 3, id_ % 12) for id_ in half})

            @settings(
                max_examples=self.filters,
                deadline=None,
                database=None,
                derandomize=self.repeatable,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(query, wheres(), st.sampled_from((1, 2, 5, 17, 60, 500)), st.booleans())
            def compare(query: Vectors, where: Where, count: int, distinct: bool) -> None:  # noqa: FBT001
                check(shelf, space, query, Request(count, where, distinct))

            with shelf.still():
                compare()

    def test_two_spaces_never_mix(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, one, ids):
            two = self.space("another")
            shelf.put(two, {id_: unit_vectors(2, 900 + number) for number, id_ in enumerate(ids[:10])})
            assert shelf.index.count(one) == sum(1 + number % 4 for number in range(len(ids)))
            assert shelf.index.count(two) == 20
            for seed in (0, 5, 900, 905):
                query = unit_vectors(1, seed)[0]
                for space in (one, two):
                    check(shelf, space, query, top(30, distinct=False))
                    check(shelf, space, query, top(30, build_where(env_id="env-0")))
            shelf.put(two, {ids[0]: unit_vectors(1, 5)})
            check(shelf, one, unit_vectors(1, 0)[0], top(3))
            assert all(np.array_equal(p.vectors, shelf.held[two.fingerprint][p.episode]) for p in shelf.index.scan(two))

    def test_a_space_that_the_archive_does_not_hold_is_refused(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, space, ids):
            stranger, query = self.space("stranger"), unit_vectors(1)[0]
            _assert_refused(lambda: shelf.index.search(stranger, query, top(1)))
            _assert_refused(lambda: shelf.index.upsert(stranger, [Point(ids[0], 1, unit_vectors(1))]))
            _assert_refused(lambda: shelf.index.count(stranger))
            _assert_refused(lambda: list(shelf.index.scan(stranger)))
            _assert_refused(lambda: shelf.index.delete(stranger, ids[:1]))
            check(shelf, space, query, top(3))

    def test_a_space_that_was_replaced_is_refused(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, old, ids):
            _activate(shelf.catalog, shelf.catalog.spaces()[0].id)
            new = replace(old, statistics=Statistics(1, np.zeros(DIM), np.ones(DIM)))
            shelf.put(new, {id_: unit_vectors(1, 300 + id_) for id_ in ids})
            check(shelf, old, unit_vectors(1)[0], top(3))
            _activate(shelf.catalog, shelf.catalog.spaces()[1].id)
            check(shelf, new, unit_vectors(1)[0], top(3))
            _assert_refused(lambda: shelf.index.search(old, unit_vectors(1)[0], top(3)))

    def test_vectors_of_another_size_or_type_are_refused(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, space, ids):
            query, longer = unit_vectors(1)[0], unit_vectors(1, dim=DIM + 1)
            for wrong in (longer, longer[:, 2:], unit_vectors(1).astype(float), query):
                _assert_refused(partial(shelf.index.upsert, space, [Point(ids[0], 1, wrong)]))
            for wrong in (longer[0], longer[0, 2:], query.astype(float), query[None]):
                _assert_refused(partial(shelf.index.search, space, wrong, top(1)))
            check(shelf, space, query, top(3))


def _awkward(record: EpisodeRecord) -> EpisodeRecord:
    """Return the record with values from the pools that random filters draw from."""
    number = record.size
    return replace(
        record,
        key=AWKWARD[number % 3],
        env_id=AWKWARD[number % len(AWKWARD)],
        length=LENGTHS[number % len(LENGTHS)],
        total_reward=(None, *REWARDS)[number % (len(REWARDS) + 1)],
        success=(None, True, False)[number % 3],
    )


def _activate(catalog: Catalog, space_id: int) -> None:
    assert catalog.activate(space_id, Among(tuple(layout.id for layout in catalog.layouts())))


def _assert_refused(call: Callable[[], object]) -> None:
    try:
        call()
    except SpaceMismatchError:
        return
    raise AssertionError("expected SpaceMismatchError, found an answer")
