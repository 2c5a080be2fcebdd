"""Words that rank: BM25 against a literal reading of its formula; vectors of some episodes."""

from __future__ import annotations

import math
import sqlite3
from contextlib import contextmanager
from random import Random

import pytest
from databases import SQLITE_FIRST
from sqlalchemy import Engine, event

from catalog import Catalog, Compare, EmbeddingRow
from catalog.full_text import LONGEST, words
from catalog.query import bm25
from catalog.testing.contract import make_record
from wshard.errors import CatalogError, FilterError

TASKS = (
    "open the drawer",
    "open the door, then the drawer, then the other drawer",
    "close the window",
    "press a button",
    None,
    "Öffne die Tür",
)


@pytest.fixture
def catalog(location):
    with Catalog.open(location, create=True) as opened:
        opened.episodes.register([make_record(number, metadata={"task": task}) for number, task in enumerate(TASKS)])
        yield opened


def slow(text, numbers=range(6), tasks=TASKS):
    """Return {number: BM25} of those that hold any of the words."""
    requested = dict.fromkeys(words(text))
    stored = {number: words(tasks[number] or "") for number in numbers}
    some = {number: found for number, found in stored.items() if set(found) & set(requested)}
    lengths = [len(words(task)) for task in tasks if task][:256]
    usual = sum(lengths) / len(lengths)
    scores = {}
    for number, found in some.items():
        scores[number] = 0.0
        for word in requested:
            holding, times = sum(word in other for other in some.values()), found.count(word)
            rarity = math.log(1 + (len(stored) - holding + 0.5) / (holding + 0.5))
            scores[number] += rarity * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * len(found) / usual))
    return scores


OTHERS = {
    "a label": ({"label": "fold the towel"}, True),
    "several texts": ({"skills": ["reach", "Fold"]}, True),
    "a description beside a task": ({"task": "tidy up", "description": "fold"}, True),
    "a long text": ({"model": f"fold {'x' * LONGEST}"}, False),
    "an object": ({"robot": {"name": "fold"}}, True),
    "texts at any depth": ({"a": [{"b": [1, ["other", "Fold"]]}]}, True),
    "a long text in an object": ({"a": {"model": f"fold {'x' * LONGEST}"}}, False),
    "a key of an object": ({"a": {"fold": "b"}}, False),
    "a key": ({"fold": 1}, False),
}


@pytest.mark.parametrize(("metadata", "is_found"), OTHERS.values(), ids=OTHERS)
@SQLITE_FIRST
def test_texts_of_other_metadata_are_searched(catalog, metadata, is_found):
    catalog.episodes.register([make_record(9, metadata=metadata)])
    (id_,) = catalog.query.ids("episode:episode_000009")
    assert [found for found, _ in catalog.query.relevant("fold")] == [id_] * is_found
    assert catalog.query.ids("fold") == [id_] * is_found


@pytest.mark.parametrize("text", ["drawer", "open the drawer", "the", "ÖFFNE tur", "button window button", "no", "?!"])
def test_relevance_is_that_of_the_formula(catalog, text):
    ids = catalog.query.ids()
    wanted = {ids[number]: score for number, score in slow(text).items()}
    found = catalog.query.relevant(text)
    assert dict(found) == pytest.approx(wanted)
    assert [id_ for id_, _ in found] == sorted(wanted, key=lambda id_: (-wanted[id_], id_))
    for limit in range(len(TASKS) + 1):
        assert catalog.query.relevant(text, limit=limit) == found[:limit]


def test_texts_that_are_read_in_parts_rank_alike(catalog, monkeypatch):
    questions = [("drawer", None), ("open the drawer", 2), ("the", 1), ("the window", None)]
    whole = [catalog.query.relevant(text, "length:1..", limit=limit) for text, limit in questions]
    monkeypatch.setattr(bm25, "_READ_AT_ONCE", 2)
    assert [catalog.query.relevant(text, "length:1..", limit=limit) for text, limit in questions] == whole
    assert all(whole)


@contextmanager
def long_texts_refused(most):
    """Let SQLite refuse texts of more bytes, as it does those of more than a billion."""

    @event.listens_for(Engine, "before_cursor_execute")
    def limit(connection, *_: object):
        connection.connection.driver_connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, most)

    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", limit)


def test_texts_that_are_too_long_together_are_read_in_parts(tmp_path):
    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog:
        tasks = [{"task": f"fold {'the towel ' * (number % 3 + 1)}"} for number in range(20)]
        catalog.episodes.register([make_record(number, metadata=one) for number, one in enumerate(tasks)])
        whole = catalog.query.relevant("towel")

        with long_texts_refused(90):
            assert catalog.query.relevant("towel") == whole
        with long_texts_refused(30), pytest.raises(CatalogError, match="too big"):  # one alone is too long
            catalog.query.relevant("towel")
    assert len(whole) == 20


def test_only_what_passes_the_filter_is_ranked_and_counted(catalog):
    ids = catalog.query.ids()
    found = catalog.query.relevant("the drawer", Compare("id", "in", tuple(ids[:3])))
    assert dict(found) == pytest.approx({ids[number]: score for number, score in slow("the drawer", range(3)).items()})
    assert catalog.query.relevant("drawer", "meta.task:*window*") == []


@pytest.mark.parametrize("words_each", [(1, 4), (2, 12)])
def test_the_best_texts_are_the_same_with_and_without_early_stop(location, words_each):
    # Words as people use them: a few in nearly every task, most in hardly any.
    dice, common = Random(7), ["the", "pick", "red", *(f"thing{n}" for n in range(60))]
    shares = [1 / rank for rank in range(1, len(common) + 1)]
    tasks = [" ".join(dice.choices(common, shares, k=dice.randint(*words_each))) for _ in range(400)]
    with Catalog.open(location, create=True) as catalog:
        made = [make_record(number, metadata={"task": task}) for number, task in enumerate(tasks)]
        ids = [done.id for done in catalog.episodes.register(made)]
        requested, statements, searched_for = 0, [], 0
        event.listen(
            catalog._session.database._engine, "before_cursor_execute", lambda *details: statements.append(details[2])
        )
        for _ in range(6):
            text = " ".join(dict.fromkeys(dice.choices(common, shares, k=dice.randint(1, 5))))
            wanted = slow(text, range(400), tasks)
            found = catalog.query.relevant(text)
            assert dict(found) == pytest.approx({ids[number]: score for number, score in wanted.items()})
            statements.clear()
            for limit in (1, 3, 20, 200):
                assert catalog.query.relevant(text, limit=limit) == found[:limit], (text, limit)
                requested += sum(any(word in task.split() for task in tasks) for word in text.split())
            searched_for += sum("ORDER BY" in statement and "LIMIT" not in statement for statement in statements)
        assert 0 < searched_for < 0.9 * requested


def test_a_text_of_more_words_than_a_filter_may_have_is_refused(catalog):
    with pytest.raises(FilterError, match="text: expected at most 500 different words, found 501"):
        catalog.query.relevant(" ".join(map(str, range(501))), limit=1)
    assert catalog.query.relevant(" ".join(["drawer"] * 600), limit=1) == catalog.query.relevant("drawer", limit=1)


def test_notes_are_searched_too(catalog):
    ids = catalog.query.ids()
    catalog.annotations.add_note(ids[1::3], "a squeaking drawer", who="ann")
    tasks = [f"{task or ''} a squeaking drawer" if number % 3 == 1 else task for number, task in enumerate(TASKS)]
    wanted = slow("the squeaking", tasks=tasks)
    found = catalog.query.relevant("the squeaking")
    assert dict(found) == pytest.approx({ids[number]: score for number, score in wanted.items()})
    assert [catalog.query.relevant("the squeaking", limit=limit) for limit in (1, 2)] == [found[:1], found[:2]]


def test_vectors_of_some_episodes(catalog):
    ids, space = catalog.query.ids(), catalog.vectors.add_space("f" * 64, "family", "{}").id
    digests = {id_: row.digest for id_, row in catalog.episodes.rows(ids).items()}
    catalog.vectors.write(space, [EmbeddingRow(id_, digests[id_], 1, bytes([id_] * 4)) for id_ in ids[:3]])
    assert catalog.vectors.load(space, ids[1:]) == {id_: (1, bytes([id_] * 4)) for id_ in ids[1:3]}
    catalog.episodes.withdraw([ids[1]])
    assert catalog.vectors.load(space, ids[1:]) == {ids[2]: (1, bytes([ids[2]] * 4))}
    assert catalog.vectors.load(space + 1, ids) == {}


def test_a_sample_is_spread_over_all_episodes_with_vectors(tmp_path):
    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog:
        ids = [done.id for done in catalog.episodes.register([make_record(number) for number in range(500)])]
        space = catalog.vectors.add_space("f" * 64, "family", "{}").id
        rows = [EmbeddingRow(id_, row.digest, 1, b"four") for id_, row in sorted(catalog.episodes.rows(ids).items())]
        assert catalog.vectors.sample(space, 64) == []
        catalog.vectors.write(space, rows[:40])
        assert catalog.vectors.sample(space, 64) == ids[:40]
        catalog.vectors.write(space, rows[40:])
        found = catalog.vectors.sample(space, 64)
        assert found == catalog.vectors.sample(space, 64)
        backwards = catalog.vectors.add_space("e" * 64, "other", "{}").id  # as processes that share work may finish
        catalog.vectors.write(backwards, rows[::-1])
        assert catalog.vectors.sample(backwards, 64) == found
        assert 60 <= len(found) <= 80
        assert max(b - a for a, b in zip([ids[0], *found], [*found, ids[-1]], strict=True)) <= 16


@pytest.mark.long
def test_a_sample_is_spread_also_where_episodes_came_one_by_one(tmp_path):
    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog:
        ids = [done.id for done in catalog.episodes.register([make_record(number) for number in range(260)])]
        space, other = (catalog.vectors.add_space(letter * 64, letter, "{}").id for letter in "ab")
        rows = [EmbeddingRow(id_, row.digest, 1, b"four") for id_, row in sorted(catalog.episodes.rows(ids).items())]
        for row in rows:  # another space takes the numbers in between
            catalog.vectors.write(space, [row])
            catalog.vectors.write(other, rows[:3])
        for change in ([], ids[:1], ids[-1:]):
            catalog.episodes.withdraw(change)
            catalog.vectors.write(space, [row for row in rows if row.episode_id in change])
            found = catalog.vectors.sample(space, 64)
            assert 50 <= len(found) <= 90
            assert max(b - a for a, b in zip([ids[0], *found], [*found, ids[-1]], strict=True)) <= 16


def test_the_weight_of_a_word_is_what_bm25_gives_it_in_a_text_of_usual_length(catalog):
    ids = catalog.query.ids()
    weights = catalog.query.word_weights("the drawer unheard")
    assert weights["the"] < weights["drawer"] < weights["unheard"]
    among = len(ids)
    holding = len(catalog.query.relevant("drawer"))
    assert weights["drawer"] == pytest.approx(math.log(1 + (among - holding + 0.5) / (holding + 0.5)))
