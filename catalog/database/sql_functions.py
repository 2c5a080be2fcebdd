"""Expressions that each database product writes in its own way: JSON, lists of numbers, text search.

sqlite_functions.py adds what SQLite lacks.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

from sqlalchemy import (
    DDL,
    Boolean,
    Column,
    ColumnElement,
    Double,
    Integer,
    Table,
    Text,
    cast,
    event,
    func,
    literal,
    literal_column,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from catalog.database.column_types import TEXT, JsonNumber
from catalog.values import INTEGER_LIMIT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy.schema import ExecutableDDLElement
    from sqlalchemy.sql.compiler import SQLCompiler

_ORDINARY: Final = re.compile(r"\w+", re.ASCII)


# A JSON number in PostgreSQL as catalog.values.comparable_number has it: beyond 64 bits a float, beyond floats nothing.
_EXACT: Final = (
    f"CASE WHEN abs(({{0}})::numeric) <= {INTEGER_LIMIT} THEN ({{0}})::numeric "
    f"WHEN abs(({{0}})::numeric) < {2**1024 - 2**970} THEN (({{0}})::double precision)::text::numeric END"
)


class _Spelled(FunctionElement[Any]):
    """An expression of some clauses, which stand as {0}, {1}, ... in its spelling by each product."""

    spelling: ClassVar[Mapping[str, str]]
    inherit_cache = True


@compiles(_Spelled)
def _spell(element: _Spelled, compiler: SQLCompiler, **options: Any) -> str:
    clauses = [compiler.process(clause, **options) for clause in element.clauses]
    return element.spelling[compiler.dialect.name].format(*clauses)


class _NumberAt(_Spelled):
    """(numbers, index)."""

    type = Double()
    inherit_cache = True
    spelling: ClassVar = {"sqlite": "number_at({0}, {1})", "postgresql": "({0})[{1} + 1]"}


class _Arrow(_Spelled):
    """(document, key). Text after the arrow is always a name: a list has none, also not under "0"."""

    inherit_cache = True
    spelling: ClassVar = dict.fromkeys(("sqlite", "postgresql"), "({0} -> {1})")


class _Member(_Spelled):
    """(document, path of SQLite, element in PostgreSQL)."""

    inherit_cache = True
    spelling: ClassVar = {"sqlite": "({0} -> {1})", "postgresql": "{2}"}


class _OddMember(_Spelled):
    """(document, keys in JSON, element in PostgreSQL)."""

    inherit_cache = True
    spelling: ClassVar = {"sqlite": "json_member({0}, {1})", "postgresql": "{2}"}


class _JsonText(_Spelled):
    type = TEXT
    inherit_cache = True
    spelling: ClassVar = {
        "sqlite": "CASE WHEN json_type({0}) = 'text' THEN json_extract({0}, '$') END",
        "postgresql": """CASE WHEN jsonb_typeof({0}) = 'string' THEN ({0} #>> '{{}}') COLLATE "C" END""",
    }


class _JsonFlag(_Spelled):
    type = Boolean()
    inherit_cache = True
    spelling: ClassVar = {
        "sqlite": "CASE json_type({0}) WHEN 'true' THEN 1 WHEN 'false' THEN 0 END",
        "postgresql": "CASE {0} WHEN 'true'::jsonb THEN true WHEN 'false'::jsonb THEN false END",
    }


class _JsonNumber(_Spelled):
    type = JsonNumber()
    inherit_cache = True
    spelling: ClassVar = {
        "sqlite": "json_number({0})",
        "postgresql": f"CASE WHEN jsonb_typeof({{0}}) = 'number' THEN {_EXACT} END",
    }


class _JsonScalar(_Spelled):
    type = TEXT
    inherit_cache = True
    spelling: ClassVar = {
        "sqlite": "json_scalar({0})",
        "postgresql": f"(CASE jsonb_typeof({{0}}) WHEN 'number' THEN trim_scale({_EXACT})::text "
        """WHEN 'string' THEN {0}::text WHEN 'boolean' THEN {0}::text END) COLLATE "C\"""",
    }


class _JsonThere(_Spelled):
    type = Boolean()
    inherit_cache = True
    spelling: ClassVar = {"sqlite": "({0} <> 'null')", "postgresql": "(jsonb_typeof({0}) <> 'null')"}


class _Position(_Spelled):
    type = Integer()
    inherit_cache = True
    spelling: ClassVar = {"sqlite": "instr({0}, {1})", "postgresql": "strpos({0}, {1})"}


class _Folder(_Spelled):
    """(path)."""

    type = TEXT
    inherit_cache = True
    spelling: ClassVar = {
        "sqlite": "rtrim({0}, replace({0}, '/', ''))",
        "postgresql": "regexp_replace({0}, '[^/]*$', '')",
    }


class _Bin(_Spelled):
    """(number, low, high, width, bins); PostgreSQL counts from 1."""

    type = Integer()
    inherit_cache = True
    spelling: ClassVar = {
        "sqlite": "CAST((({0}) - {1}) / {3} AS INTEGER)",
        "postgresql": "width_bucket(CAST({0} AS double precision), CAST({1} AS double precision), "
        "CAST({2} AS double precision), {4}) - 1",
    }


class _Square(_Spelled):
    """(number). PostgreSQL refuses results that no float can hold, also those that are too close to 0."""

    type = Double()
    inherit_cache = True
    spelling: ClassVar = {
        "sqlite": "(({0}) * ({0}))",
        "postgresql": "CASE WHEN abs({0}) < 1e-150 THEN 0 WHEN abs({0}) > 1e150 THEN 'Infinity' ELSE ({0}) * ({0}) END",
    }


def number_at(numbers: ColumnElement[Any], index: int) -> ColumnElement[Any]:
    """Return one of the numbers of a column of type Numbers, NULL after their end."""
    return _NumberAt(numbers, literal(index))


def json_element(document: Column[str], keys: Sequence[str]) -> ColumnElement[Any]:
    """Return the value under the keys in a column of JSON text, as JSON, NULL if there is none.

    PostgreSQL uses the jsonb column that index_json maintains.
    """
    within: ColumnElement[Any] = literal_column(f"{document.table.name}.{document.name}_json")
    for key in keys:
        within = _Arrow(within, literal(key, Text()))
    if all(_ORDINARY.fullmatch(key) for key in keys):
        return _Member(document, literal("$" + "".join(f'."{key}"' for key in keys)), within)
    # SQLite compares other keys with their escaped form.
    return _OddMember(document, literal(json.dumps(keys)), within)


def json_value(element: ColumnElement[Any], kind: str) -> ColumnElement[Any]:
    """Return JSON as a value of that kind (text, number, flag), NULL for another kind."""
    return {"number": _JsonNumber, "flag": _JsonFlag}.get(kind, _JsonText)(element)


def json_scalar(element: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return one JSON value as text in one spelling, NULL for null, lists and objects: equal values, equal text."""
    return _JsonScalar(element)


def json_there(element: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return whether there is a value other than null; NULL may stand for false."""
    return _JsonThere(element)


def json_list(product: str, values: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the values of all rows as one JSON list, as text; "[]" for none."""
    if product == "sqlite":
        return func.json_group_array(values)
    return func.coalesce(cast(func.json_agg(values), Text()), "[]")


def contains(text: ColumnElement[Any], part: str) -> ColumnElement[bool]:
    """Return whether the text contains the part, by code point."""
    return _Position(text, literal(part, Text())) > 0


def folder_of(path: ColumnElement[Any]) -> ColumnElement[str]:
    """Return the folder of a path, with the trailing slash."""
    return _Folder(path)


def bin_of(number: ColumnElement[Any], low: float, high: float, *, bins: int) -> ColumnElement[int]:
    """Return in which of so many ranges of equal width from low to high a number is, from 0; high itself: bins."""
    width = high / bins - low / bins
    return _Bin(number, literal(low, Double()), literal(high, Double()), literal(width, Double()), literal(bins))


def square(number: ColumnElement[Any]) -> ColumnElement[float]:
    """Return the number times itself."""
    return _Square(number)


def index_json(document: Column[str]) -> None:
    """Keep a column of JSON text in PostgreSQL's binary form too, as long as its table is there."""
    named, column = document.table.name, f"{document.name}_json"
    _after_create(
        document.table,
        "postgresql",
        f"ALTER TABLE {named} ADD COLUMN {column} jsonb GENERATED ALWAYS AS ({document.name}::jsonb) STORED",
    )


def _after_create(owner: Table, product: str, *statements: str) -> None:
    for statement in statements:
        ddl: ExecutableDDLElement = DDL(statement)  # type: ignore[no-untyped-call]  # so it is in SQLAlchemy
        event.listen(owner, "after_create", ddl.execute_if(dialect=product))
