"""SCHEMA.md speaks of every table, column, key and index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sqlalchemy import UniqueConstraint

import catalog
from catalog.database.schema import metadata

TEXT = (Path(catalog.__file__).parent / "SCHEMA.md").read_text()
SECTIONS = {part.split("\n", 1)[0]: part for part in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]}


def test_every_table_has_a_section_and_no_other_is_described() -> None:
    assert set(SECTIONS) == set(metadata.tables)


@pytest.mark.parametrize("table", sorted(metadata.tables))
def test_every_column_has_a_line_in_the_order_of_the_table(table: str) -> None:
    described = re.findall(r"^\| (\w+) \|", SECTIONS[table], flags=re.MULTILINE)
    assert described == ["column", *metadata.tables[table].c.keys()]


@pytest.mark.parametrize("table", sorted(metadata.tables))
def test_every_index_and_key_of_several_columns_is_named(table: str) -> None:
    described = metadata.tables[table]
    unique = [key for key in described.constraints if isinstance(key, UniqueConstraint)]
    for key in (*described.indexes, *unique):
        columns = [column.name for column in key.columns]
        if len(columns) > 1 or key in described.indexes:
            assert f"({', '.join(columns)})" in " ".join(SECTIONS[table].split()), columns


def test_names_of_the_package_exist() -> None:
    assert sorted(catalog.__all__) == sorted(set(catalog.__all__))
    for name in catalog.__all__:
        assert getattr(catalog, name) is not None
