"""Whole archives copied between databases."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from command_line import app
from sqlalchemy import create_engine, select
from sqlalchemy.pool import NullPool
from typer.testing import CliRunner

from catalog import Catalog, EmbeddingRow
from catalog.database.schema import metadata
from catalog.maintenance import copy
from catalog.testing.contract import make_record
from wshard.errors import CatalogExistsError

if TYPE_CHECKING:
    from databases import Server

_OWN_TABLES = {"migration", "archive", "root", "scan", "index_copy", "synced"}


def make(path: Path, episodes: int = 20) -> None:
    with Catalog.open(path, create=True) as catalog:
        records = [make_record(n) for n in range(episodes)]
        ids = [done.id for done in catalog.episodes.register(records)]
        space = catalog.vectors.add_space("fingerprint", "family", "{}")
        written = [EmbeddingRow(ids[n], one.digest, 1, bytes([n % 256]) * 64) for n, one in enumerate(records)]
        catalog.vectors.write(space.id, written)
        notes = catalog.annotations
        notes.tag([ids[0]], "good")
        notes.add_note([ids[1]], "pick up the cube", who="ann")
        notes.review([ids[2]], "accepted", who="ann")
        notes.undo_review([ids[2]], who="bob")
        notes.set_scores("grasp", {ids[3]: 0.1})
        notes.add_lineage([ids[3]], "edited", "other")
        catalog.collections.save_snapshot("some", "tag:good")
        catalog.collections.save_query("live", "score.grasp:0..")


def rows(place: Path | str) -> dict[str, list[Any]]:
    """Return every row of every table that a copy must have, roots as numbers left out."""
    engine = create_engine(f"sqlite:///{place}" if isinstance(place, Path) else place, poolclass=NullPool)
    with engine.connect() as connection:
        return {
            table.name: connection.execute(
                select(*(column for column in table.columns if column.name != "root_id")).order_by(*table.primary_key)
            ).all()
            for table in metadata.sorted_tables
            if table.name not in _OWN_TABLES
        }


def test_copies_have_everything_in_both_directions(tmp_path: Path, server: Server) -> None:
    one, there, back = tmp_path / "one" / "catalog.db", server.empty(), tmp_path / "two" / "catalog.db"
    make(one, episodes=600)
    with Catalog.open(one) as catalog:
        ids = catalog.query.ids()
        before, addresses = rows(one), [row.address for row in catalog.episodes.rows(ids).values()]
        counts = catalog.copy_to(there)
        with pytest.raises(CatalogExistsError, match=r"expected no tables at .*test_\d+.*, found some"):
            catalog.copy_to(there)
        with pytest.raises(CatalogExistsError, match="found a file: name another folder"):
            catalog.copy_to(one)
    assert counts == {name: len(found) for name, found in before.items()}
    with Catalog.open(there) as catalog:
        catalog.copy_to(back)
    for place in (there, back):
        assert rows(place) == before
        with Catalog.open(place) as catalog:
            assert [row.address for row in catalog.episodes.rows(ids).values()] == addresses
            assert catalog.query.count("tag:good") == 1
            assert catalog.query.count('"pick up"') == 1
            assert catalog.maintenance.check(full=True) == []
            (new,) = catalog.episodes.register([make_record(9999)])
            assert new.id > max(ids)
            catalog.annotations.add_note([new.id], "after the copy", who="bob")
            catalog.collections.save_snapshot("later", "tag:good")


def test_inner_paths_follow_the_data_not_the_copy(tmp_path: Path) -> None:
    one, two = tmp_path / "one" / "catalog.db", tmp_path / "one" / "inner" / "catalog.db"
    with Catalog.open(one, create=True) as catalog:
        for folder in ("inner", "outer"):
            catalog.episodes.add_root(str(tmp_path / "one" / folder))
            catalog.episodes.register(
                [make_record(len(folder + "x"), path=str(tmp_path / "one" / folder / "a.wshard"))]
            )
        before = [str(row.address) for row in catalog.query.select().rows]
        catalog.copy_to(two)
    with Catalog.open(two) as catalog:
        assert [str(row.address) for row in catalog.query.select().rows] == before


def test_nothing_remains_of_a_copy_that_was_interrupted(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, there = tmp_path / "one" / "catalog.db", server.empty()
    make(one)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with Catalog.open(one) as catalog:
        monkeypatch.setattr(copy, "_continue_numbers", stop)
        with pytest.raises(KeyboardInterrupt):
            catalog.copy_to(there)
        monkeypatch.undo()
        counts = catalog.copy_to(there)
        assert counts["episode"] == 20
        monkeypatch.setattr(copy, "_copy_roots", stop)
        with pytest.raises(KeyboardInterrupt):
            catalog.copy_to(tmp_path / "new" / "two" / "catalog.db")
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_the_command_copies_to_a_folder(tmp_path: Path) -> None:
    make(tmp_path / "one" / "catalog.db")
    words = ["archive", "copy", str(tmp_path / "one"), str(tmp_path / "two")]
    result = CliRunner().invoke(app, words)
    assert result.output == f"{tmp_path / 'two'}: 20 episodes, 113 rows\n"
    again = CliRunner().invoke(app, words)
    assert (again.exit_code, "name another folder" in again.output) == (1, True)
    with sqlite3.connect(tmp_path / "two" / "catalog.db") as raw:
        assert raw.execute("SELECT count(*) FROM tag").fetchone() == (1,)
    raw.close()
