"""Full-text search in each database product: the index of words, and conditions that use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

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
    select,
    table,
    true,
)

from catalog.database.sql_functions import _after_create, _DialectFunction, contains

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import FromClause, Select
    from sqlalchemy.exc import DBAPIError


_MAX_INDEXED_LENGTH: Final = 250_000
"""Characters of an episode's words that PostgreSQL indexes: the type tsvector has a limit."""


class _Query(_DialectFunction):
    type = Boolean()
    inherit_cache = True
    templates: ClassVar = {"postgresql": "({0} @@ CAST({1} AS tsquery))"}


class _Joined(_DialectFunction):
    """(values, separator, what the rows are ordered by); SQLite keeps the order of an ordered subquery."""

    type = Text()
    inherit_cache = True
    templates: ClassVar = {
        "sqlite": "group_concat({0}, {1})",
        "postgresql": "string_agg(CAST({0} AS text), {1} ORDER BY {2})",
    }


def join_rows(statement: Select[Any], separators: Sequence[str]) -> Select[Any]:
    """Return a statement for one row: all values of each column as one text, ordered by the first column.

    The statement is in this order. Reading many rows one by one takes twice the time. None where there are no rows.
    """
    columns = [*statement.subquery().c]
    pairs = zip(columns, separators, strict=True)
    return select(*(_Joined(values, literal(separator, Text()), columns[0]) for values, separator in pairs))


def is_too_long(error: DBAPIError) -> bool:
    """Return whether a statement failed because a text, such as joined rows, was longer than the database allows."""
    code = getattr(error.orig, "sqlite_errorname", None) or getattr(error.orig, "sqlstate", None)
    return code in {"SQLITE_TOOBIG", "54000"}


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
    listed = f"array_to_tsvector(string_to_array(left({column_name}, {_MAX_INDEXED_LENGTH}), ' '))"
    _after_create(
        owner,
        "postgresql",
        f"ALTER TABLE {owner.name} ADD COLUMN lexemes tsvector GENERATED ALWAYS AS ({listed}) STORED",
        f"CREATE INDEX {name} ON {owner.name} USING gin (lexemes)",
    )


def search_words(
    product: str,
    words: Column[str],
    key: Column[int],
    phrases: Iterable[tuple[Sequence[str], bool]],
    *,
    how: Literal["AND", "OR"] = "AND",
) -> tuple[FromClause, ColumnElement[int], ColumnElement[bool]]:
    """Return (table, its key column, condition) to select the rows that contain all phrases, by the full-text index.

    how: "OR" for rows that contain any. A phrase is (adjacent words of letters and digits, whether the last is a
    prefix). SQLite's index yields keys in ascending or descending order, one by one, so that the first ones are fast.
    """
    if product == "postgresql":
        phrase_list = list(phrases)
        alternatives = [[phrase] for phrase in phrase_list] if how == "OR" else [phrase_list]
        return words.table, key, or_(*(_lexemes(words, alternative) for alternative in alternatives))
    name = f"{words.table.name}_index"
    query = f" {how} ".join(f'"{" ".join(terms)}"' + ("*" if is_prefix else "") for terms, is_prefix in phrases)
    source = table(name, column("rowid", Integer))
    return source, source.c.rowid, literal_column(name).op("MATCH", is_comparison=True)(literal(query))


def _lexemes(words: Column[str], phrases: Sequence[tuple[Sequence[str], bool]]) -> ColumnElement[bool]:
    """Return the condition for PostgreSQL: the index, then the text of its matches, as it has no order of words."""
    terms = {
        f"'{word}'{':*' if is_prefix and word is phrase[-1] else ''}"
        for phrase, is_prefix in phrases
        for word in phrase
    }
    matches = _Query(literal_column(f"{words.table.name}.lexemes"), literal(" & ".join(sorted(terms)), Text()))
    return and_(matches, matches_text(words, [phrase_ for phrase_ in phrases if len(phrase_[0]) > 1]))


def matches_text(words: Column[str], phrases: Iterable[tuple[Sequence[str], bool]]) -> ColumnElement[bool]:
    """Return the condition that the text contains all phrases, without an index."""
    padded = literal(" ") + words + literal(" ")
    return and_(
        true(), *(contains(padded, f" {' '.join(phrase)}{'' if is_prefix else ' '}") for phrase, is_prefix in phrases)
    )
