"""Contract tests of filters in an index: they match the current catalog, and never cost hits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bridge.index.base import Request, Vectors
from bridge.testing.brute_force import unit_vectors
from bridge.testing.shelf import Promises, check, top
from catalog.filters.where import Compare, Where, build_where
from catalog.testing.contract import AWKWARD, LENGTHS, REWARDS, TAGS, wheres

if TYPE_CHECKING:
    from pathlib import Path

    from catalog.episode_record import EpisodeRecord


class FilterPromises(Promises):
    """Tests of filters."""

    def test_a_filter_never_costs_hits(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, space, ids):
            query = unit_vectors(1, 3)[0]
            for where, expected in (
                (build_where(env_id="nowhere"), 0),
                (Compare("episode_id", "eq", "episode_000030"), 1),
                (build_where(env_id="env-2"), 8),
                (build_where(min_length=1), len(ids)),
            ):
                for count in (1, 5, 100):
                    assert len(check(shelf, space, query, top(count, where))) == min(count, expected)

    def test_filters_see_what_the_catalog_says_now(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, space, ids):
            query, tagged = unit_vectors(1, 3)[0], build_where(tag="kept")
            assert check(shelf, space, query, top(5, tagged)) == ()
            shelf.catalog.annotations.tag(ids[10:14], "kept")
            assert {match.episode for match in check(shelf, space, query, top(5, tagged))} == {*ids[10:14]}
            shelf.catalog.annotations.untag(ids[10:12], "kept")
            assert {match.episode for match in check(shelf, space, query, top(5, tagged))} == {*ids[12:14]}

    def test_random_filters_give_what_brute_force_gives(self, tmp_path: Path) -> None:
        with self.shelf(tmp_path) as shelf:
            space, query = self.space(), st.integers(0, 11).map(lambda seed: unit_vectors(1, seed)[0])
            ids = shelf.register(60, change=_awkward)
            for number, name in enumerate(TAGS):
                shelf.catalog.annotations.tag(ids[number :: 3 + number], name)
            # Vectors from a small pool: queries meet many equal scores.
            for half in (ids[::2], ids[1::2]):
                shelf.put(space, {id_: unit_vectors(1 + id_ % 3, id_ % 12) for id_ in half})

            @settings(
                max_examples=self.filters,
                deadline=None,
                database=None,
                derandomize=self.repeatable,
                report_multiple_bugs=False,  # the first wrong answer is enough
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(query, wheres(), st.sampled_from((1, 2, 5, 17, 60, 500)), st.booleans())
            def compare(query: Vectors, where: Where, count: int, distinct: bool) -> None:  # noqa: FBT001
                check(shelf, space, query, Request(count, where, distinct))

            with shelf.still():
                compare()


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
