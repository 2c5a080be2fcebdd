"""Pages of episodes with words, in other orders than by id, are what plain Python finds and sorts."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from catalog import Catalog, matches, parse_where
from catalog.testing.contract import make_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

EPISODES = 75
ORDERS = ("total_reward", "length", "env_id", "success", "size", "score.quality")
WORDS = ("cube", "red cube", '"red cube"', "cu*", '"the red c*"', "pick", "absent", "cube -red", "plate OR cube")


@pytest.fixture
def catalog(location: Path | str) -> Iterator[Catalog]:
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
        ids = [done.id for done in opened.episodes.register(records)]
        opened.annotations.set_scores("quality", {number: dice.random() for number in ids[::2]})
        yield opened


@pytest.mark.parametrize("order", ORDERS)
def test_every_page_is_what_plain_python_says(catalog: Catalog, order: str) -> None:
    rows = list(catalog.episodes.rows(catalog.query.ids()).values())
    facts = catalog.query.facts([row.id for row in rows])

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
                page = catalog.query.select(where, order=named, limit=23, after=after)
                seen += page.rows
                after = page.next
                if not page.rows:
                    break
            assert seen == there + missing, (words, named)


def test_words_that_come_and_go_are_met(catalog: Catalog) -> None:
    ids = catalog.query.ids()
    notes = catalog.annotations.add_note(ids, "Schöne Arbeit")
    assert len(catalog.query.select("schone", order="-total_reward", limit=30).rows) == 30
    for written in notes[10:]:
        catalog.annotations.remove_note(written.id)
    assert {row.id for row in catalog.query.select("schone", order="-total_reward", limit=30).rows} == set(ids[:10])


def test_a_filter_of_hundreds_of_words_is_answered(catalog: Catalog) -> None:
    many = " ".join(["cube"] * 400)
    expected = catalog.query.select("cube", order="length", limit=40)
    assert catalog.query.select(many, order="length", limit=40).rows == expected.rows
