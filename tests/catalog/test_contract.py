"""Both database products keep the contract of catalogs, and the contract catches products that do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from catalog import Catalog, EpisodeRow, Page
from catalog.filters.where import EVERYTHING, Not
from catalog.testing.contract import CatalogContract

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator
    from pathlib import Path


class TestEachProduct(CatalogContract):
    @pytest.fixture
    def catalog(self, location: Path | str) -> Iterator[Catalog]:
        with Catalog.open(location, create=True) as opened:
            yield opened


class Forgetful(Catalog):
    """Reads metadata as a database does that rounds numbers."""

    def get(self, ref: int | str) -> EpisodeRow:
        row = super().get(ref)
        rounded = {key: float(part) if type(part) is int else part for key, part in row.metadata.items()}
        row.metadata.update(rounded)
        return row


class ThreeValued(Catalog):
    """Takes what is missing for neither true nor false, as plain SQL does, also where that is negated."""

    def ids(self, where: Any = EVERYTHING) -> list[int]:
        found = super().ids(where)
        return [row.id for row in self.rows(found).values() if row.success is not None or not isinstance(where, Not)]


class Mixed(Catalog):
    """Sorts missing values first."""

    def select(self, where: Any = EVERYTHING, **options: Any) -> Page:
        page = super().select(where, **options)
        first = [row for row in page.rows if row.total_reward is None]
        return Page((*first, *(row for row in page.rows if row.total_reward is not None)), page.next)


class Careless(Catalog):
    """Loads batches one by one, so that a failure leaves those before it."""

    def load(self, batches: Any) -> Counter[Any]:
        for batch in batches:
            self.register(batch)
        raise AssertionError("not reached by loads that fail")


class Buried(Catalog):
    """Shows no tombstones."""

    def ledger(self, space_id: int, *, since: int = 0) -> Iterator[Any]:
        return (entry for entry in super().ledger(space_id, since=since) if entry.vectors is not None)


DOUBLES = [
    (Forgetful, "test_what_goes_in_comes_back"),
    (ThreeValued, "test_filters_mean_what_plain_python_says"),
    (Mixed, "test_pages_show_every_episode_once_and_in_order"),
    (Careless, "test_a_load_that_fails_leaves_nothing"),
    (Buried, "test_the_ledger_grows_in_the_order_of_commits_and_keeps_tombstones"),
]


@pytest.mark.parametrize(("broken", "caught_by"), DOUBLES)
def test_the_contract_catches(broken: type[Catalog], caught_by: str, tmp_path: Path) -> None:
    with Catalog.open(tmp_path / "catalog.db", create=True) as sound:
        double = broken(sound._database, base=sound._base)
        with pytest.raises(AssertionError):
            getattr(CatalogContract(), caught_by)(double)
