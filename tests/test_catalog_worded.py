"""Pages of episodes with words, in other orders than by id: found in two ways, and the same either way."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import event

from catalog import Catalog, matches, parse_where, worded
from catalog.testing import make_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

EPISODES = 400
ORDERS = ("total_reward", "length", "env_id", "success", "size", "score.quality")
WORDS = ("cube", "red cube", '"red cube"', "cu*", '"the red c*"', "pick", "absent", "cube -red", "plate OR cube")


@pytest.fixture
def catalog(location: Path | str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    monkeypatch.setattr(worded, "_SAMPLED", 8)
    dice = Random(1)
    with Catalog.open(location, create=True) as opened:
        records = [
            make_record(
                number,
                episode_id=f"e{dice.randrange(10**6)}",
                length=dice.randrange(50),
                total_reward=dice.choice((None, dice.random(), dice.random(), 0.5)),
                metadata={"task": f"{dice.choice(('pick', 'push'))} the {dice.choice(('red', 'blue'))} {thing}"},
            )
            for number in range(EPISODES)
            for thing in [dice.choice(("cube", "cube", "cube", "plate")) if number else "cubes"]
        ]
        ids = [done.id for done in opened.register(records)]
        opened.set_scores("quality", {number: dice.random() for number in ids[::2]})
        yield opened


def reads(catalog: Catalog, words: str, order: str, **paged: Any) -> tuple[Any, list[str]]:
    """Return the page and the statements that found it."""
    seen: list[str] = []

    def remember(*details: Any) -> None:
        seen.append(details[2])

    engine = catalog._database._engine
    event.listen(engine, "before_cursor_execute", remember)
    try:
        return catalog.select(words, order=order, **paged), seen
    finally:
        event.remove(engine, "before_cursor_execute", remember)


@pytest.mark.parametrize("order", ORDERS)
def test_every_page_is_what_plain_python_says(catalog: Catalog, order: str) -> None:
    rows = list(catalog.rows(catalog.ids()).values())
    facts = catalog.facts([row.id for row in rows])

    def key(row: Any) -> Any:
        return facts[row.id].scores.get("quality") if order == "score.quality" else getattr(row, order)

    for words in WORDS:
        where = parse_where(words)
        found = [row for row in rows if matches(where, row, facts[row.id])]
        for down in (False, True):
            there = sorted((row for row in found if key(row) is not None), key=lambda r: (key(r), r.id), reverse=down)
            missing = sorted((row for row in found if key(row) is None), key=lambda row: row.id, reverse=down)
            seen, after, named = [], None, f"{'-' * down}{order}"
            while after is not None or not seen:
                page = catalog.select(where, order=named, limit=23, after=after)
                seen += page.rows
                after = page.next
                if not page.rows:
                    break
            assert seen == there + missing, (words, named)


def test_common_words_are_met_in_the_order_and_rare_ones_looked_up(location: Path | str, catalog: Catalog) -> None:
    served = isinstance(location, str)
    page, statements = reads(catalog, "cube", "-total_reward", limit=5)
    assert len(page.rows) == 5
    asked = [text for text in statements if "sorted_by" in text and "LIMIT" in text]
    assert [("MATCH" in text, "instr" in text) for text in asked] == [(False, not served)]
    for words, order in (("plates", "-total_reward"), ("cube", "-size"), ("cube env:env-1", "-total_reward")):
        _, statements = reads(catalog, words, order, limit=5)
        assert not any("instr" in text for text in statements), words


def test_a_walk_that_meets_too_few_is_given_up(location: Path | str, catalog: Catalog) -> None:
    # The first episodes all hold the words, so they look common; those of the highest rewards do not.
    worst = [make_record(n, total_reward=-1.0 - n, metadata={"task": "weld"}) for n in range(1000, 1040)]
    with Catalog.open(location) as again:
        again.remove(again.ids())
        again.register(worst)
        again.register([make_record(n, total_reward=float(n), metadata={"task": "cut"}) for n in range(2000, 2200)])
        page, statements = reads(again, "weld", "-total_reward", limit=5)
        assert [row.total_reward for row in page.rows] == [-1001.0 - n for n in range(5)]
        asked = ["instr" in text for text in statements if "sorted_by" in text and "LIMIT" in text]
        assert asked == ([False] if isinstance(location, str) else [True, False])
        page, _ = reads(again, "weld", "total_reward", limit=5)
        assert [row.total_reward for row in page.rows] == [-1040.0 + n for n in range(5)]


def test_a_filter_of_hundreds_of_words_is_answered(catalog: Catalog) -> None:
    many = " ".join(["cube"] * 400)
    expected = catalog.select("cube", order="length", limit=40)
    assert catalog.select(many, order="length", limit=40).rows == expected.rows
