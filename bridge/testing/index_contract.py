"""Contract tests for vector indexes, as a test class to inherit from.

A subclass whose name begins with "Test" defines `open_index`; pytest gives each test an empty folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bridge.index.base import Match, read_vectors
from bridge.testing.brute_force import unit_vectors
from bridge.testing.filter_promises import FilterPromises
from bridge.testing.life_promises import LifePromises
from bridge.testing.shelf import TOLERANCE, check, top
from bridge.testing.space_promises import SpacePromises
from catalog.filters.where import EVERYTHING, build_where

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["IndexContract", "check", "top"]


class IndexContract(FilterPromises, LifePromises, SpacePromises):
    """Tests that hold for every vector index: of its answers, of changes, of filters, of lives, of Spaces."""

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
            for seed in range(6):
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
            with shelf.still():
                for seed in range(6):
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

    def test_a_deleted_episode_is_not_a_hit_and_the_next_best_takes_its_place(self, tmp_path: Path) -> None:
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

    def test_deletions_near_the_query_cost_no_hits_however_many_equal_vectors_lie_farther_away(
        self, tmp_path: Path
    ) -> None:
        with self.shelf(tmp_path) as shelf:
            space, ids, query = self.space(), shelf.register(200), unit_vectors(1, 6)[0]
            pool = unit_vectors(200, 5)
            pool = pool[np.argsort(-(pool @ query))]  # nearest first, whatever the metric
            pool[140:] = pool[[140 + number % 3 for number in range(60)]]
            shelf.put(space, {id_: pool[number : number + 1] for number, id_ in enumerate(ids)})
            with shelf.still():
                assert [match.episode for match in check(shelf, space, query, top(20))] == ids[:20]
            shelf.bury(ids[:20], space)
            with shelf.still():
                for count in (1, 5, 15, 25, 60):
                    for where in (EVERYTHING, build_where(env_id="env-1"), build_where(min_length=110)):
                        check(shelf, space, query, top(count, where))
                        check(shelf, space, query, top(count, where, distinct=False))

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
            for episode, vectors in shelf.stored[space.fingerprint].items():
                assert found[episode].vectors.dtype == np.float32
                assert np.array_equal(found[episode].vectors, vectors), f"episode {episode} came back different"

    def test_vectors_are_read_as_they_were_put_last(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, space, ids):
            shelf.put(space, {ids[3]: unit_vectors(2, 500)})
            shelf.bury(ids[:2], space)
            stranger = ids[-1] + 1000
            found = read_vectors(shelf.index, space, catalog=shelf.catalog, episodes=[*ids[:9], stranger]).by_episode()
            assert sorted(found) == ids[2:9]
            for episode, vectors in found.items():
                assert vectors.dtype == np.float32
                assert np.array_equal(vectors, shelf.stored[space.fingerprint][episode]), f"episode {episode}"
            assert not len(read_vectors(shelf.index, space, catalog=shelf.catalog, episodes=[]).vectors)

    def test_optional_verbs_find_nothing_wrong_with_a_sound_index(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, space, _):
            for data in (False, True):
                assert shelf.index.check_copy(space, data=data) == ""
            assert shelf.index.leftovers([space.fingerprint]) == []
            derived = shelf.index.open_derived(space)
            if derived is not None:
                derived.write("a name", [0.1, 2.0])
                again = shelf.index.open_derived(space)
                assert again is not None
                assert again.read("a name") == [0.1, 2.0]
                assert again.read("another name") is None

    def test_an_index_that_is_opened_again_holds_the_same(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, space, ids):
            shelf.bury(ids[:5], space)
            stored = shelf.stored
        with self.shelf(tmp_path) as again:
            again.stored = stored
            assert again.index.count(space) == sum(map(len, stored[space.fingerprint].values()))
            for seed in range(4):
                check(again, space, unit_vectors(1, seed)[0], top(9, build_where(min_length=120)))
                check(again, space, unit_vectors(1, seed)[0], top(9, distinct=False))
