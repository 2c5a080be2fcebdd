"""Both database products keep the contract of catalogs, and the contract catches products that do not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from catalog import EVERYTHING, Catalog, EpisodeRow, Not, Page, Registered
from catalog.episodes.api import Episodes
from catalog.query.api import Queries
from catalog.testing.contract import CatalogContract
from catalog.vectors.api import VectorLedger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class TestEachProduct(CatalogContract):
    @pytest.fixture
    def catalog(self, location: Path | str) -> Iterator[Catalog]:
        with Catalog.open(location, create=True) as opened:
            yield opened


class Forgetful(Episodes):
    """Reads metadata as a database does that rounds numbers."""

    def get(self, ref: int | str) -> EpisodeRow:
        row = super().get(ref)
        rounded = {key: float(part) if type(part) is int else part for key, part in row.metadata.items()}
        row.metadata.update(rounded)
        return row


class Careless(Episodes):
    """Takes what comes for new, whatever is there."""

    def register(self, records: Any) -> list[Registered]:
        return [replace(one, outcome="new") for one in super().register(records)]


class ThreeValued(Queries):
    """Takes what is missing for neither true nor false, as plain SQL does, also where that is negated."""

    def ids(self, where: Any = EVERYTHING) -> list[int]:
        found, rows = super().ids(where), Episodes(self._session).rows
        return [row.id for row in rows(found).values() if row.success is not None or not isinstance(where, Not)]


class Mixed(Queries):
    """Sorts missing values first."""

    def select(self, where: Any = EVERYTHING, **options: Any) -> Page:
        page = super().select(where, **options)
        first = [row for row in page.rows if row.total_reward is None]
        return Page((*first, *(row for row in page.rows if row.total_reward is not None)), page.next)


class Buried(VectorLedger):
    """Shows no tombstones."""

    def ledger(self, space_id: int, *, since: int = 0) -> Iterator[Any]:
        return (entry for entry in super().ledger(space_id, since=since) if entry.vectors is not None)


DOUBLES = [
    ("episodes", Forgetful, "test_what_goes_in_comes_back"),
    ("episodes", Careless, "test_a_batch_holds_new_changed_and_unchanged_episodes"),
    ("query", ThreeValued, "test_filters_mean_what_plain_python_says"),
    ("query", Mixed, "test_pages_show_every_episode_once_and_in_order"),
    ("vectors", Buried, "test_the_ledger_grows_in_the_order_of_commits_and_keeps_tombstones"),
]


@pytest.mark.long
@pytest.mark.parametrize(("part", "broken", "caught_by"), DOUBLES)
def test_the_contract_catches(part: str, broken: Any, caught_by: str, tmp_path: Path) -> None:
    with Catalog.open(tmp_path / "catalog.db", create=True) as double:
        setattr(double, part, broken(double._session))
        with pytest.raises(AssertionError):
            getattr(CatalogContract(), caught_by)(double)
