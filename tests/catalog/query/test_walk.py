"""Pages are the same whether their order is walked or what passes is sorted."""

from __future__ import annotations

import random

import pytest

from catalog import Catalog
from catalog.query import walk
from catalog.testing.contract import make_record

FILTERS = {
    "success:true": lambda row: row.success is True,
    "length:>3 env:env-0,env-1": lambda row: row.length > 3 and row.env_id in ("env-0", "env-1"),
    "length:>=9": lambda row: row.length >= 9,
    "reward:0..1000 -success:false": lambda row: row.total_reward is not None and row.success is not False,
}
ORDERS = ("episode_id", "-length", "total_reward", "-total_reward", "success", "-env_id")


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    dice = random.Random(3)
    with Catalog.open(tmp_path_factory.mktemp("walk") / "catalog.db", create=True) as opened:
        opened.episodes.register(
            make_record(
                number,
                env_id=f"env-{dice.randrange(3)}",
                length=dice.randrange(1, 11),
                total_reward=dice.choice((None, 1.0, 2.5, float(number))),
                success=dice.choice((None, True, True, False)),
            )
            for number in range(90)
        )
        yield opened


@pytest.mark.parametrize("where", FILTERS)
def test_pages_are_what_passes_in_order_wherever_walking_ends(catalog, where, monkeypatch):
    rows = [row for row in catalog.query.select(limit=100, order="id").rows if FILTERS[where](row)]
    monkeypatch.setattr(walk, "_MAX_ROWS_WALKED", 12)
    for order in ORDERS:
        name = order.removeprefix("-")
        keyed = [row for row in rows if getattr(row, name) is not None]
        keyed.sort(key=lambda row: (getattr(row, name), row.id), reverse=order.startswith("-"))
        ends = sorted((row for row in rows if getattr(row, name) is None), key=lambda row: row.id)
        ends = ends[::-1] if order.startswith("-") else ends
        page = catalog.query.select(where, order=order, limit=4)
        found = [*page.rows]
        while page.next is not None:
            page = catalog.query.select(where, order=order, limit=4, after=page.next)
            found += page.rows
        assert [row.id for row in found] == [row.id for row in (*keyed, *ends)], order
