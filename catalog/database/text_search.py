"""Full-text search in each database product: the index of words, and questions to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Literal

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Integer,
    Text,
    and_,
    column,
    literal,
    literal_column,
    or_,
    table,
    true,
)

from catalog.database.sql_functions import _after_create, _Spelled, contains

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import FromClause


_SEARCHED: Final = 250_000
"""Letters of an episode's words that PostgreSQL keeps in its index: more would not fit into one value of its type."""


class _Query(_Spelled):
    type = Boolean()
    inherit_cache = True
    spelling: ClassVar = {"postgresql": "({0} @@ CAST({1} AS tsquery))"}


def index_words(words: Column[str], key: Column[int]) -> None:
    """Create a full-text index over a column of words, maintained with its table."""
    owner = words.table
    name, column_name = f"{owner.name}_index", words.name
    removed = f"INSERT INTO {name} ({name}, rowid, {column_name}) VALUES ('delete', old.{key.name}, old.{column_name});"
    added = f"INSERT INTO {name} (rowid, {column_name}) VALUES (new.{key.name}, new.{column_name});"
    options = f"content='{owner.name}', content_rowid='{key.name}', tokenize='ascii'"
    _after_create(
        owner,
        "sqlite",
        f"CREATE VIRTUAL TABLE {name} USING fts5({column_name}, {options})",
        f"CREATE TRIGGER {name}_insert AFTER INSERT ON {owner.name} BEGIN {added} END",
        f"CREATE TRIGGER {name}_delete AFTER DELETE ON {owner.name} BEGIN {removed} END",
        f"CREATE TRIGGER {name}_update AFTER UPDATE ON {owner.name} BEGIN {removed} {added} END",
    )
    listed = f"array_to_tsvector(string_to_array(left({column_name}, {_SEARCHED}), ' '))"
    _after_create(
        owner,
        "postgresql",
        f"ALTER TABLE {owner.name} ADD COLUMN lexemes tsvector GENERATED ALWAYS AS ({listed}) STORED",
        f"CREATE INDEX {name} ON {owner.name} USING gin (lexemes)",
    )


def words_index(
    product: str,
    words: Column[str],
    key: Column[int],
    phrases: Iterable[tuple[Sequence[str], bool]],
    *,
    how: Literal["AND", "OR"] = "AND",
) -> tuple[FromClause, ColumnElement[int], ColumnElement[bool]]:
    """Return where a product finds the rows that hold every phrase: the index, the key of a row in it, the condition.

    how: "OR" for those that hold any. A phrase is words (letters and digits only) that stand side by side, and whether
    the last one is only begun. The index of SQLite gives keys in order, ascending or descending, and one after another:
    the first ones cost little.
    """
    if product == "postgresql":
        listed = list(phrases)
        either = [[one] for one in listed] if how == "OR" else [listed]
        return words.table, key, or_(*(_lexemes(words, each) for each in either))
    name = f"{words.table.name}_index"
    wanted = f" {how} ".join(f'"{" ".join(terms)}"' + ("*" if begun else "") for terms, begun in phrases)
    source = table(name, column("rowid", Integer))
    return source, source.c.rowid, literal_column(name).op("MATCH", is_comparison=True)(literal(wanted))


def _lexemes(words: Column[str], phrases: Sequence[tuple[Sequence[str], bool]]) -> ColumnElement[bool]:
    """Return the words' index as condition, and, for it does not know their order, a look at the text of those."""
    terms = {f"'{word}'{':*' if begun and word is phrase[-1] else ''}" for phrase, begun in phrases for word in phrase}
    found = _Query(literal_column(f"{words.table.name}.lexemes"), literal(" & ".join(sorted(terms)), Text()))
    return and_(found, stand_in(words, [one for one in phrases if len(one[0]) > 1]))


def stand_in(words: Column[str], phrases: Iterable[tuple[Sequence[str], bool]]) -> ColumnElement[bool]:
    """Return whether the words hold every phrase, by a look at the text instead of an index."""
    padded = literal(" ") + words + literal(" ")
    return and_(true(), *(contains(padded, f" {' '.join(phrase)}{'' if begun else ' '}") for phrase, begun in phrases))
