"""Pages of episodes with words, in other orders than by id: found in two ways, and the same either way."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from databases import SQLITE_ALONE
from sqlalchemy import event, select, update

from catalog import Catalog, matches, parse_where
from catalog.database import schema
from catalog.full_text import bits
from catalog.query import text_pages
from catalog.testing.contract import make_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

EPISODES = 400
ORDERS = ("total_reward", "length", "env_id", "success", "size", "score.quality")
WORDS = ("cube", "red cube", '"red cube"', "cu*", '"the red c*"', "pick", "absent", "cube -red", "plate OR cube")


@pytest.fixture
def catalog(location: Path | str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    monkeypatch.setattr(text_pages, "_MOST", 1024)
    monkeypatch.setattr(text_pages, "_LOOK", 8)
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


def reads(catalog: Catalog, words: str, order: str, **paged: Any) -> tuple[Any, list[str]]:
    """Return the page and the statements that found it."""
    seen: list[str] = []

    def remember(*details: Any) -> None:
        seen.append(details[2])

    engine = catalog._session.database._engine
    event.listen(engine, "before_cursor_execute", remember)
    try:
        return catalog.query.select(words, order=order, **paged), seen
    finally:
        event.remove(engine, "before_cursor_execute", remember)


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


def pages(statements: list[str]) -> list[str]:
    """Return how each page was looked for."""
    asked = [text for text in statements if "sorted_by" in text and "LIMIT" in text]
    return ["walk" if "word_bits" in text else "index" for text in asked]


def test_common_words_are_met_in_the_order_and_rare_ones_looked_up(catalog: Catalog) -> None:
    page, statements = reads(catalog, "cube", "-total_reward", limit=5)
    assert len(page.rows) == 5
    assert pages(statements) == ["walk"]
    assert set(pages(reads(catalog, '"push the red plate"', "-total_reward", limit=20)[1])) == {"walk"}
    assert pages(reads(catalog, "plates", "-total_reward", limit=5)[1]) == ["walk", "index", "index"]
    for words, order in (("cube", "-size"), ("cube env:env-1", "-total_reward")):
        assert set(pages(reads(catalog, words, order, limit=5)[1])) == {"index"}, words


def test_a_short_page_after_a_long_one_is_met_too(location: Path | str, catalog: Catalog) -> None:
    """What a dense first page tells says little of the next: as much is looked at as for a first one."""
    with Catalog.open(location) as again:
        again.remove(again.query.ids())
        words = [{"task": "weld" if n < 300 or n % 4 == 0 else "cut"} for n in range(400)]
        again.episodes.register(
            [make_record(n, total_reward=-float(n), metadata=found) for n, found in enumerate(words)]
        )
        first = again.query.select('"weld"', order="-total_reward", limit=299)
        page, statements = reads(again, '"weld"', "-total_reward", limit=3, after=first.next)
        assert [row.total_reward for row in page.rows] == [-299.0, -300.0, -304.0]
        assert isinstance(location, Path) or pages(statements) == ["walk"]  # SQLite judges while it walks


def test_no_text_is_looked_at_whose_episode_lacks_a_bit(catalog: Catalog) -> None:
    assert pages(reads(catalog, "red", "length", limit=5)[1]) == ["walk"]
    with catalog._session.write() as connection:
        connection.execute(update(schema.episode).values(word_bits=0))
    _, statements = reads(catalog, "red", "length", limit=5)
    assert pages(statements) == ["walk", "index"]


def test_words_that_come_and_go_are_met(catalog: Catalog) -> None:
    ids = catalog.query.ids()
    notes = catalog.annotations.add_note(ids, "Schöne Arbeit")
    assert len(catalog.query.select("schone", order="-total_reward", limit=30).rows) == 30
    for written in notes[10:]:
        catalog.annotations.remove_note(written.id)
    assert {row.id for row in catalog.query.select("schone", order="-total_reward", limit=30).rows} == set(ids[:10])
    with catalog._session.read() as connection:
        kept = connection.execute(select(schema.episode.c.id, schema.episode.c.word_bits)).all()
        texts = dict(connection.execute(select(*schema.document.c)).all())
    assert kept == [(number, bits(texts[number])) for number, _ in kept]


def test_a_walk_that_meets_too_few_is_given_up(location: Path | str, catalog: Catalog) -> None:
    # Half of the first episodes in the order hold the words, and hardly any of the others.
    with Catalog.open(location) as again:
        again.remove(again.query.ids())
        both = [{"task": "weld"}, {"task": "cut"}]
        first = [make_record(n, total_reward=2000.0 - n, metadata=both[n % 2]) for n in range(1000, 1064)]
        rest = [make_record(n, total_reward=-float(n), metadata=both[n != 2999]) for n in range(2000, 3000)]
        again.episodes.register(first + rest)
        page, statements = reads(again, "weld", "-total_reward", limit=40)
        assert [row.total_reward for row in page.rows] == [1000.0 - 2 * n for n in range(32)] + [-2999.0]
        walks = ["walk"] if isinstance(location, Path) else ["walk", "walk"]
        assert pages(statements) == [*walks, "index", "index"]


@SQLITE_ALONE
def test_one_episode_is_not_looked_for_longer_than_a_page(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    monkeypatch.setattr(text_pages, "count", lambda first: (looks.append(each) or each for each in count(first)))
    for limit in (1, 40):
        assert not catalog.query.select("absent", order="-total_reward", limit=limit).rows
        assert 1 <= looks.pop() <= 4
        looks.clear()


def test_a_filter_of_hundreds_of_words_is_answered(catalog: Catalog) -> None:
    many = " ".join(["cube"] * 400)
    expected = catalog.query.select("cube", order="length", limit=40)
    assert catalog.query.select(many, order="length", limit=40).rows == expected.rows


def test_a_walk_is_not_given_up_for_what_the_one_before_it_did(catalog: Catalog) -> None:
    found = [pages(reads(catalog, '"push the red plate"', "-total_reward", limit=20)[1]) for _ in range(40)]
    assert all(set(ways) == {"walk"} for ways in found)
