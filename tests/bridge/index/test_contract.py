"""The index contract accepts two very different indexes, and catches indexes that break a promise.

WSHARD_FILTERS: how many random filters the embedded index answers (`make properties`: 2,000).
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from bridge import Answer, Match, Point, VectorIndex
from bridge.index.embedded.index import EmbeddedIndex
from bridge.index.stored_rows import StoredRows
from bridge.testing.index_contract import IndexContract
from catalog import EVERYTHING, all_of
from catalog.filters.where import comparisons, parts_of
from wshard.errors import EmbedderError, SpaceMismatchError


class TestEmbeddedIndex(IndexContract):
    filters = int(os.environ.get("WSHARD_FILTERS", "50"))

    def open_index(self, catalog, folder):
        return EmbeddedIndex(catalog, folder)


class TestEmbeddedIndexByInnerProductThatAlwaysCompacts(IndexContract):
    metric = "dot"
    filters = 20

    def open_index(self, catalog, folder):
        return EmbeddedIndex(catalog, folder, tail_rows=0)


class _Flat(VectorIndex):
    """The simplest index there is: it reads the whole ledger for every call. Its hooks are there to be broken."""

    def __init__(self, catalog, folder) -> None:
        self.catalog = catalog

    def space_id(self, space):
        for row in self.catalog.vectors.spaces():
            if row.fingerprint == space.fingerprint and row.state != "retired":
                return row.id
        raise SpaceMismatchError("unknown Space")

    def stored(self, space):
        stored = {}
        for entry in self.catalog.vectors.ledger(self.space_id(space)):
            self.take(stored, entry, space)
        return stored

    def take(self, stored, entry, space):
        stored.pop(entry.episode_id, None)
        if entry.vectors is not None:
            vectors = np.frombuffer(entry.vectors, np.float32).reshape(entry.count, space.dim)
            stored[entry.episode_id] = Point(entry.episode_id, entry.seq, vectors)

    def check(self, vectors, space, axes):
        if vectors.ndim != axes or vectors.shape[-1] != space.dim or vectors.dtype != np.float32:
            raise SpaceMismatchError("another size or type")
        if not np.isfinite(vectors).all():
            raise EmbedderError("not finite")

    def upsert(self, space, points):
        for point in points:
            self.check(point.vectors, space, 2)
        self.space_id(space)

    def delete(self, space, episodes):
        self.space_id(space)

    def count(self, space):
        return sum(len(point.vectors) for point in self.stored(space).values())

    def scan(self, space):
        yield from self.stored(space).values()

    def allowed(self, where):
        return set(self.catalog.query.ids(where))

    def score(self, vectors, query):
        wide, requested = vectors.astype(float), query.astype(float)
        lengths = np.sqrt((wide**2).sum(axis=1)) * np.sqrt((requested**2).sum())
        return np.clip((wide * requested).sum(axis=1) / lengths, -1, 1)

    def rank(self, found):
        return sorted(found, key=lambda match: (-match.score, match.episode, match.window))

    def found(self, space, query, where):
        allowed = self.allowed(where)
        return [
            Match(point.episode, window, float(score))
            for point in self.stored(space).values()
            if point.episode in allowed
            for window, score in enumerate(self.score(point.vectors, query))
        ]

    def search(self, space, query, request):
        self.check(query, space, 1)
        ranked = self.rank(self.found(space, query, request.where))
        if request.distinct:
            ranked = self.distinct(ranked, request.top_k)
        return Answer(tuple(ranked[: request.top_k]), exact=True, scored=len(ranked))

    def distinct(self, ranked, top_k):
        firsts = {}
        for match in ranked:
            firsts.setdefault(match.episode, match)
        return [*firsts.values()]


@pytest.mark.long
class TestFlat(IndexContract):
    filters = 20
    open_index = staticmethod(_Flat)


class _PostFiltering(_Flat):
    def search(self, space, query, request):
        found = self.rank(super().found(space, query, EVERYTHING))[: request.top_k]
        allowed = self.allowed(request.where)
        return Answer(tuple(match for match in found if match.episode in allowed), exact=True, scored=0)


class _IgnoringTombstones(_Flat):
    def take(self, stored, entry, space):
        if entry.vectors is not None:
            super().take(stored, entry, space)

    def stored(self, space):
        self.__dict__.setdefault("saved", {})
        saved = self.saved.setdefault(space.fingerprint, {})
        saved.update(super().stored(space))
        return dict(saved)

    def upsert(self, space, points):
        super().upsert(space, points)
        self.stored(space)


class _Appending(_Flat):
    """Puts new vectors beside the old ones of an episode."""

    def __init__(self, catalog, folder) -> None:
        super().__init__(catalog, folder)
        self.seen = {}

    def take(self, stored, entry, space):
        super().take(stored, entry, space)
        if entry.episode_id in stored:
            parts = self.seen.setdefault((space.fingerprint, entry.episode_id), {})
            parts[entry.seq] = stored[entry.episode_id].vectors
            stored[entry.episode_id] = Point(entry.episode_id, entry.seq, np.concatenate([*parts.values()]))

    def upsert(self, space, points):
        super().upsert(space, points)
        self.stored(space)


class _CountingCalls(_Flat):
    """Counts the points it got instead of those it has."""

    def __init__(self, catalog, folder) -> None:
        super().__init__(catalog, folder)
        self.message = {}

    def upsert(self, space, points):
        super().upsert(space, points)
        added = sum(len(point.vectors) for point in points)
        self.message[space.fingerprint] = self.message.get(space.fingerprint, 0) + added

    def count(self, space):
        self.space_id(space)
        return self.message.get(space.fingerprint, 0)


class _CountingEpisodes(_Flat):
    def count(self, space):
        return len(self.stored(space))


class _MixingSpaces(_Flat):
    def stored(self, space):
        self.space_id(space)
        stored = {}
        for row in self.catalog.vectors.spaces():
            for entry in self.catalog.vectors.ledger(row.id):
                self.take(stored, entry, space)
        return stored


class _UnstableTies(_Flat):
    """Ranks float32 sums whose last bits depend on where a vector lies."""

    def found(self, space, query, where):
        noise = np.random.default_rng(3)
        return [
            Match(match.episode, match.window, min(1.0, match.score + noise.normal(0, 1e-8)))
            for match in super().found(space, query, where)
        ]


class _TiesByArrival(_Flat):
    def rank(self, found):
        return sorted(found, key=lambda match: -match.score)


class _DistinctAfterwards(_Flat):
    def distinct(self, ranked, top_k):
        return super().distinct(ranked[:top_k], top_k)


class _NeverDistinct(_Flat):
    def distinct(self, ranked, top_k):
        return ranked


class _FirstWindowOnly(_Flat):
    def found(self, space, query, where):
        return [match for match in super().found(space, query, where) if match.window == 0]


class _Distances(_Flat):
    def score(self, vectors, query):
        return 1 - super().score(vectors, query)


class _Unbounded(_Flat):
    def score(self, vectors, query):
        return super().score(vectors, query) * 1.000001


class _TenAtMost(_Flat):
    def rank(self, found):
        return super().rank(found)[:10]


class _RememberingFilters(_Flat):
    def __init__(self, catalog, folder) -> None:
        super().__init__(catalog, folder)
        self.remembered = {}

    def allowed(self, where):
        return self.remembered.setdefault(where, super().allowed(where))


class _MissingIsAnyReward(_Flat):
    def allowed(self, where):
        header = "total_reward"
        others = all_of(*(p for p in parts_of(where) if header not in {clause.field for clause in comparisons(p)}))
        rows = self.catalog.episodes.rows(self.catalog.query.ids(others))
        lacking = {row.id for row in rows.values() if row.total_reward is None}
        return super().allowed(where) | lacking


class _OnlyWhatItWasTold(_Flat):
    def __init__(self, catalog, folder) -> None:
        super().__init__(catalog, folder)
        self.message = set()

    def upsert(self, space, points):
        super().upsert(space, points)
        self.message |= {point.episode for point in points}

    def stored(self, space):
        return {episode: point for episode, point in super().stored(space).items() if episode in self.message}


class _ForgettingNumbers(_Flat):
    def scan(self, space):
        yield from (Point(point.episode, 0, point.vectors) for point in super().scan(space))


class _Hospitable(_Flat):
    """Takes any Space."""

    def space_id(self, space):
        try:
            return super().space_id(space)
        except SpaceMismatchError:
            return -1


class _ServingTheRetired(_Flat):
    def space_id(self, space):
        found = [row.id for row in self.catalog.vectors.spaces() if row.fingerprint == space.fingerprint]
        return found[0] if found else super().space_id(space)


class _Careless(_Flat):
    def check(self, vectors, space, axes):
        return None

    def score(self, vectors, query):
        return super().score(vectors, np.resize(query, vectors.shape[1]))


class _NeverEmpty(_Flat):
    def found(self, space, query, where):
        return super().found(space, query, where) or [Match(0, 0, 0.0)]


class _Obedient(_Flat):
    def stored(self, space):
        gone = self.__dict__.setdefault("gone", set())
        return {episode: point for episode, point in super().stored(space).items() if episode not in gone}

    def delete(self, space, episodes):
        self.stored(space)
        self.gone |= set(episodes)


class _DeletedTakePlaces(_Flat):
    """Looks among all that it ever had for the nearest, drops the deleted, and is content if others fill the places.

    The others are those that lie aside, since an equal one was there before them.
    """

    def stored(self, space):
        stored = super().stored(space)
        self.__dict__.setdefault("ever", {}).setdefault(space.fingerprint, {}).update(stored)
        return stored

    def upsert(self, space, points):
        super().upsert(space, points)
        self.stored(space)

    def found(self, space, query, where):
        right = super().found(space, query, where)
        places, firsts = [], {}
        for point in self.ever[space.fingerprint].values():
            for window, score in enumerate(self.score(point.vectors, query)):
                first = firsts.setdefault(point.vectors[window].tobytes(), (point.episode, window))
                if first == (point.episode, window):
                    places.append(Match(point.episode, window, float(score)))
        shown = {(match.episode, match.window) for match in self.rank(places)[: self.top_k]}
        saved = [m for m in right if (m.episode, m.window) in shown or (m.episode, m.window) not in firsts.values()]
        return saved if len(saved) >= self.top_k else right

    def search(self, space, query, request):
        self.top_k = request.top_k
        return super().search(space, query, request)


class _ReadingWhatItWasTold(_Flat):
    def __init__(self, catalog, folder) -> None:
        super().__init__(catalog, folder)
        self.message = {}

    def upsert(self, space, points):
        super().upsert(space, points)
        self.message |= {point.episode: point.vectors for point in points}

    def read_vectors(self, space, episodes):
        some = {episode: self.message[episode] for episode in episodes.tolist() if episode in self.message}
        return StoredRows.of(some, space.dim)


class _Cluttered(_Flat):
    def leftovers(self, living):
        return [Path(fingerprint) for fingerprint in living]


class _Doubtful(_Flat):
    def search(self, space, query, request):
        answer = super().search(space, query, request)
        return Answer(answer.matches, exact=False, scored=answer.scored)


CONTRACT_TESTS = {name for name in dir(IndexContract) if name.startswith("test_")}
DOUBLES = [
    (_Cluttered, "test_optional_verbs_find_nothing_wrong_with_a_sound_index"),
    (_NeverEmpty, "test_an_empty_index_answers_with_nothing"),
    (_NeverEmpty, "test_an_index_without_episodes_left_answers_with_nothing"),
    (_IgnoringTombstones, "test_an_index_without_episodes_left_answers_with_nothing"),
    (_Distances, "test_one_vector_is_found_with_its_own_score"),
    (_Unbounded, "test_every_vector_finds_itself_first"),
    (_FirstWindowOnly, "test_every_vector_finds_itself_first"),
    (_Doubtful, "test_one_vector_is_found_with_its_own_score"),
    (_Distances, "test_vectors_of_any_length_are_ranked_as_the_metric_says"),
    (_Obedient, "test_a_delete_of_what_the_ledger_holds_changes_nothing"),
    (_TenAtMost, "test_more_than_there_is_gives_all_there_is"),
    (_CountingEpisodes, "test_more_than_there_is_gives_all_there_is"),
    (_DistinctAfterwards, "test_distinct_gives_each_episode_by_its_best_window"),
    (_NeverDistinct, "test_distinct_gives_each_episode_by_its_best_window"),
    (_UnstableTies, "test_equal_vectors_come_by_episode_then_window"),
    (_TiesByArrival, "test_equal_vectors_come_by_episode_then_window"),
    (_Appending, "test_an_upsert_replaces_all_vectors_of_an_episode"),
    (_CountingCalls, "test_the_same_upsert_again_changes_nothing"),
    (_IgnoringTombstones, "test_a_deleted_episode_is_not_a_hit_and_the_next_best_takes_its_place"),
    (_DeletedTakePlaces, "test_deletions_near_the_query_cost_no_hits_however_many_equal_vectors_lie_farther_away"),
    (_ForgettingNumbers, "test_scan_gives_every_point_as_it_was_put"),
    (_ReadingWhatItWasTold, "test_vectors_are_read_as_they_were_put_last"),
    (_OnlyWhatItWasTold, "test_an_index_that_is_opened_again_holds_the_same"),
    (_PostFiltering, "test_a_filter_never_costs_hits"),
    (_RememberingFilters, "test_filters_see_what_the_catalog_says_now"),
    pytest.param(_MissingIsAnyReward, "test_random_filters_give_what_brute_force_gives", marks=pytest.mark.long),
    (_PostFiltering, "test_random_filters_give_what_brute_force_gives"),
    (_UnstableTies, "test_random_filters_give_what_brute_force_gives"),
    (_OnlyWhatItWasTold, "test_random_lives_give_what_brute_force_gives"),
    (_Appending, "test_random_lives_give_what_brute_force_gives"),
    (_MixingSpaces, "test_two_spaces_never_mix"),
    (_Hospitable, "test_a_space_that_the_archive_does_not_hold_is_refused"),
    (_ServingTheRetired, "test_a_space_that_was_replaced_is_refused"),
    (_Careless, "test_vectors_of_another_size_or_type_are_refused"),
    (_Careless, "test_a_query_that_is_not_finite_is_refused"),
]


@pytest.mark.long
@pytest.mark.parametrize(("broken", "caught_by"), DOUBLES)
def test_the_contract_catches(broken, caught_by, tmp_path):
    class Contract(IndexContract):
        filters = 4000  # the first that catches it ends the search
        repeatable = True  # what is caught once is caught always
        open_index = staticmethod(broken)

    with pytest.raises(AssertionError):
        getattr(Contract(), caught_by)(tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("wanted", ["dot", "l2"])
def test_the_contract_catches_cosines_where_another_metric_is_wanted(wanted, tmp_path):
    class Contract(IndexContract):
        metric = wanted
        open_index = staticmethod(_Flat)

    with pytest.raises(AssertionError):
        Contract().test_vectors_of_any_length_are_ranked_as_the_metric_says(tmp_path)


def test_every_test_of_the_contract_has_a_double_that_it_catches():
    assert {getattr(double, "values", double)[1] for double in DOUBLES} == CONTRACT_TESTS
