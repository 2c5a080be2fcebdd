"""Expressions that differ between database products: JSON, arrays of numbers, text search.

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

_PLAIN_KEY: Final = re.compile(r"\w+", re.ASCII)


# A JSON number in PostgreSQL as catalog.values.comparable_number has it: beyond 64 bits a float, beyond floats nothing.
_EXACT: Final = (
    f"CASE WHEN abs(({{0}})::numeric) <= {INTEGER_LIMIT} THEN ({{0}})::numeric "
    f"WHEN abs(({{0}})::numeric) < {2**1024 - 2**970} THEN (({{0}})::double precision)::text::numeric END"
)


class _DialectFunction(FunctionElement[Any]):
    """An expression with one template per product, in which {0}, {1}, ... stand for its clauses."""

    templates: ClassVar[Mapping[str, str]]
    inherit_cache = True


@compiles(_DialectFunction)
def _compile(element: _DialectFunction, compiler: SQLCompiler, **options: Any) -> str:
    clauses = [compiler.process(clause, **options) for clause in element.clauses]
    return element.templates[compiler.dialect.name].format(*clauses)


class _NumberAt(_DialectFunction):
    """(numbers, index); NaN, which SQLite gives out as NULL, is none in PostgreSQL either."""

    type = Double()
    inherit_cache = True
    templates: ClassVar = {"sqlite": "number_at({0}, {1})", "postgresql": "nullif(({0})[{1} + 1], 'NaN')"}


class _Arrow(_DialectFunction):
    """(document, key). The key is always text, the name of a member: lists have none, not even "0"."""

    inherit_cache = True
    templates: ClassVar = dict.fromkeys(("sqlite", "postgresql"), "({0} -> {1})")


class _Member(_DialectFunction):
    """(document, path of SQLite, element in PostgreSQL)."""

    inherit_cache = True
    templates: ClassVar = {"sqlite": "({0} -> {1})", "postgresql": "{2}"}


class _QuotedMember(_DialectFunction):
    """(document, keys in JSON, element in PostgreSQL)."""

    inherit_cache = True
    templates: ClassVar = {"sqlite": "json_member({0}, {1})", "postgresql": "{2}"}


class _JsonText(_DialectFunction):
    type = TEXT
    inherit_cache = True
    templates: ClassVar = {
        "sqlite": "CASE WHEN json_type({0}) = 'text' THEN json_extract({0}, '$') END",
        "postgresql": """CASE WHEN jsonb_typeof({0}) = 'string' THEN ({0} #>> '{{}}') COLLATE "C" END""",
    }


class _JsonFlag(_DialectFunction):
    type = Boolean()
    inherit_cache = True
    templates: ClassVar = {
        "sqlite": "CASE json_type({0}) WHEN 'true' THEN 1 WHEN 'false' THEN 0 END",
        "postgresql": "CASE {0} WHEN 'true'::jsonb THEN true WHEN 'false'::jsonb THEN false END",
    }


class _JsonNumber(_DialectFunction):
    type = JsonNumber()
    inherit_cache = True
    templates: ClassVar = {
        "sqlite": "json_number({0})",
        "postgresql": f"CASE WHEN jsonb_typeof({{0}}) = 'number' THEN {_EXACT} END",
    }


class _JsonScalar(_DialectFunction):
    type = TEXT
    inherit_cache = True
    templates: ClassVar = {
        "sqlite": "json_scalar({0})",
        "postgresql": f"(CASE jsonb_typeof({{0}}) WHEN 'number' THEN trim_scale({_EXACT})::text "
        """WHEN 'string' THEN {0}::text WHEN 'boolean' THEN {0}::text END) COLLATE "C\"""",
    }


class _JsonExists(_DialectFunction):
    type = Boolean()
    inherit_cache = True
    templates: ClassVar = {"sqlite": "({0} <> 'null')", "postgresql": "(jsonb_typeof({0}) <> 'null')"}


class _Position(_DialectFunction):
    type = Integer()
    inherit_cache = True
    templates: ClassVar = {"sqlite": "instr({0}, {1})", "postgresql": "strpos({0}, {1})"}


class _Folder(_DialectFunction):
    """(path)."""

    type = TEXT
    inherit_cache = True
    templates: ClassVar = {
        "sqlite": "rtrim({0}, replace({0}, '/', ''))",
        "postgresql": "regexp_replace({0}, '[^/]*$', '')",
    }


class _Bin(_DialectFunction):
    """(number, low, high, width, bins); PostgreSQL counts from 1."""

    type = Integer()
    inherit_cache = True
    templates: ClassVar = {
        "sqlite": "CAST((({0}) - {1}) / {3} AS INTEGER)",
        "postgresql": "width_bucket(CAST({0} AS double precision), CAST({1} AS double precision), "
        "CAST({2} AS double precision), {4}) - 1",
    }


class _Square(_DialectFunction):
    """(number). PostgreSQL refuses results that no float can hold, also those that are too close to 0."""

    type = Double()
    inherit_cache = True
    templates: ClassVar = {
        "sqlite": "(({0}) * ({0}))",
        "postgresql": "CASE WHEN abs({0}) < 1e-150 THEN 0 WHEN abs({0}) > 1e150 THEN 'Infinity' ELSE ({0}) * ({0}) END",
    }


def number_at(numbers: ColumnElement[Any], index: int) -> ColumnElement[Any]:
    """Return a number by index from a column of type NumberArray, NULL beyond its end."""
    return _NumberAt(numbers, literal(index))


def json_element(document: Column[str], keys: Sequence[str]) -> ColumnElement[Any]:
    """Return the value under the keys in a column of JSON text, as JSON, NULL if there is none.

    PostgreSQL uses the jsonb column that index_json maintains.
    """
    element: ColumnElement[Any] = literal_column(f"{document.table.name}.{document.name}_json")
    for key in keys:
        element = _Arrow(element, literal(key, Text()))
    if all(_PLAIN_KEY.fullmatch(key) for key in keys):
        return _Member(document, literal("$" + "".join(f'."{key}"' for key in keys)), element)
    # SQLite compares other keys with their escaped form.
    return _QuotedMember(document, literal(json.dumps(keys)), element)


def json_value(element: ColumnElement[Any], kind: str) -> ColumnElement[Any]:
    """Return JSON as a value of that kind (text, number, flag), NULL for another kind."""
    return {"number": _JsonNumber, "flag": _JsonFlag}.get(kind, _JsonText)(element)


def json_scalar(element: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return a JSON scalar as canonical text, NULL for null, lists and objects: equal values have equal text."""
    return _JsonScalar(element)


def json_exists(element: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return whether there is a value other than null; NULL may stand for false."""
    return _JsonExists(element)


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
    """Return the index, from 0, of the bin of a number among `bins` equal ranges from low to high; `bins` for high."""
    width = high / bins - low / bins
    return _Bin(number, literal(low, Double()), literal(high, Double()), literal(width, Double()), literal(bins))


def square(number: ColumnElement[Any]) -> ColumnElement[float]:
    """Return the number times itself."""
    return _Square(number)


def index_json(document: Column[str]) -> None:
    """In PostgreSQL, add a generated column with the binary form of a column of JSON text."""
    table_name, column = document.table.name, f"{document.name}_json"
    _after_create(
        document.table,
        "postgresql",
        f"ALTER TABLE {table_name} ADD COLUMN {column} jsonb GENERATED ALWAYS AS ({document.name}::jsonb) STORED",
    )


def _after_create(owner: Table, product: str, *statements: str) -> None:
    for statement in statements:
        ddl: ExecutableDDLElement = DDL(statement)  # type: ignore[no-untyped-call]  # so it is in SQLAlchemy
        event.listen(owner, "after_create", ddl.execute_if(dialect=product))
