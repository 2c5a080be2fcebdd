"""Annotations survive a new archive of the same episodes: found by digest, then by path; nothing is lost silently."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from command_line import app
from databases import SQLITE_FIRST
from typer.testing import CliRunner

from catalog import Catalog
from catalog.testing.contract import make_record
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RECORDS = [make_record(number, metadata={"task": "pick"}) for number in range(6)]


@pytest.fixture
def text(tmp_path: Path) -> str:
    """Return the annotations of six episodes."""
    with Catalog.open(tmp_path / "old.db", create=True) as catalog:
        catalog.episodes.register(RECORDS)
        said = catalog.annotations
        said.tag([1, 2], "good")
        said.tag([1], "ünïcode %")
        said.add_note([1, 1, 3], "slips", who="ann")
        said.remove_note(said.add_note([2], "wrong")[0].id)
        said.review([1, 2], "accepted", who="ann")
        said.review([1], "rejected", who="bob")
        said.undo_review([1], who="bob")
        said.set_scores("quality", {1: 0.25, 4: 1.0})
        catalog.collections.save_snapshot("train", "tag:good", who="ann")
        catalog.collections.save_query("again", "collection:train length:>0", who="ann")
        catalog.collections.save_query("a query of queries", "collection:again")
        return said.export_json()


@pytest.fixture
def fresh(location: Path | str) -> Iterator[Catalog]:
    with Catalog.open(location, create=True) as opened:
        yield opened


def said_of(catalog: Catalog, number: int) -> tuple[object, ...]:
    """Return everything that was said of an episode, without ids."""
    facts, row = catalog.query.facts([number])[number], catalog.episodes.rows([number])[number]
    audit = [(one.state, one.who, one.at, one.undoes is not None) for one in catalog.annotations.audit([number])]
    return row.tags, [(one.text, one.who, one.at) for one in facts.notes], audit, dict(facts.scores)


def test_a_fresh_archive_gets_everything_that_was_stated(text: str, fresh: Catalog, tmp_path: Path) -> None:
    # Other ids, other folders, and so other uids, but the same data.
    moved = [replace(record, path=record.path.replace("/data", "/elsewhere")) for record in reversed(RECORDS)]
    done = fresh.episodes.register(moved)
    report = fresh.annotations.import_json(text)
    assert (report.matched, report.unmatched, report.skipped) == (4, (), ())
    with Catalog.open(tmp_path / "old.db") as old:
        for number, one in zip(range(6, 0, -1), done, strict=True):
            assert said_of(fresh, one.id) == said_of(old, number)
        for name in ("train", "again", "a query of queries"):
            spans = [
                sorted((p.digest, p.start, p.stop, p.weight) for p in c.collections.picks(name)) for c in (old, fresh)
            ]
            assert spans[0] == spans[1] != []
        assert [(one.name, one.query, one.who) for one in fresh.collections.all()] == [
            (one.name, one.query, one.who) for one in old.collections.all()
        ]
    assert fresh.query.ids("slips") == fresh.query.ids("note:slips") != []
    assert fresh.query.ids("review:accepted") == sorted(one.id for one in done[-2:])
    clock = fresh.clock()
    again = fresh.annotations.import_json(text)
    assert (again.matched, again.added, fresh.clock()) == (4, 0, clock)
    assert json.loads(fresh.annotations.export_json())["collections"][0]["query"] == "collection:again"


@SQLITE_FIRST
def test_changed_data_is_found_by_its_path_without_scores(text: str, fresh: Catalog) -> None:
    fresh.episodes.register([replace(RECORDS[0], digest="changed"), *RECORDS[1:3]])
    report = fresh.annotations.import_json(text)
    assert report.matched == 3
    assert [name for _, name in report.unmatched] == [RECORDS[3].episode_id]
    assert [one.split(":")[0] for one in report.skipped if one.startswith("scores")] == [
        f"scores of {json.loads(text)['episodes'][0]['path']}"
    ]
    # The snapshot picked data that is gone, and so did what asks for it.
    assert [one.split(":")[0] for one in report.skipped if one.startswith("coll")] == [
        "collection train",
        "collection a query of queries",
        "collection again",
    ]
    assert fresh.collections.all() == []
    assert fresh.episodes.rows([1])[1].tags == ("good", "ünïcode %")


@SQLITE_FIRST
def test_what_is_there_stays(text: str, fresh: Catalog) -> None:
    fresh.episodes.register(RECORDS)
    fresh.annotations.set_scores("quality", {1: 0.75})
    fresh.collections.save_query("train", "length:>1")
    report = fresh.annotations.import_json(text)
    assert dict(fresh.query.facts([1])[1].scores) == {"quality": 0.75}
    assert [one.query for one in fresh.collections.all() if one.name == "train"] == ["length:>1"]
    assert [one.split(":")[0] for one in report.skipped] == ["collection train"]
    (note,) = fresh.query.facts([3])[3].notes
    fresh.annotations.remove_note(note.id)
    assert fresh.annotations.import_json(text).added == 0
    assert fresh.query.facts([3])[3].notes == ()


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "[]",
        "{}",
        '{"version": 2}',
        '{"version": 1}',
        '{"version": 1, "episodes": [3], "collections": []}',
        "\ud800",
    ],
)
@SQLITE_FIRST
def test_other_text_is_refused(fresh: Catalog, wrong: str) -> None:
    with pytest.raises(FilterError, match="expected annotations"):
        fresh.annotations.import_json(wrong)


@SQLITE_FIRST
def test_a_document_that_breaks_off_adds_nothing(text: str, fresh: Catalog) -> None:
    fresh.episodes.register(RECORDS)
    document = json.loads(text)
    document["episodes"][-1]["tags"] = [""]
    with pytest.raises(FilterError, match="a tag"):
        fresh.annotations.import_json(json.dumps(document))
    assert fresh.episodes.rows([1])[1].tags == ()


def test_verbs_write_and_read_the_file(text: str, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder, records in ((old, RECORDS), (new, RECORDS[1:])):
        folder.mkdir()
        with Catalog.open(folder / "catalog.db", create=True) as catalog:
            catalog.episodes.register(records)
    with Catalog.open(old / "catalog.db") as catalog:
        catalog.annotations.import_json(text)
    file = tmp_path / "said.json"

    def run(*words: str) -> tuple[int, str]:
        found = CliRunner().invoke(app, list(words))
        return found.exit_code, found.output

    for _ in range(2):
        assert run("annotations", "export", str(file), "--archive", str(old))[0] == 0
    other = file.with_name("episode.wshard")
    other.write_bytes(b"SHRD")
    code, output = run("annotations", "export", str(other), "--archive", str(old))
    assert (code, output) == (1, f"error: {other}: expected an unused path or an earlier export, found another file\n")
    assert other.read_bytes() == b"SHRD"
    with Catalog.open(old / "catalog.db") as catalog:
        assert file.read_text() == catalog.annotations.export_json()
    code, output = run("annotations", "import", str(file), "--archive", str(new), "--json")
    assert code == 1
    assert [one["episode_id"] for one in json.loads(output)["unmatched"]] == [RECORDS[0].episode_id]
    code, output = run("annotations", "import", str(file), "--archive", str(old))
    assert (code, output) == (0, "0 annotations added to 4 episodes\n")
    file.write_text('{"episodes": []}')
    code, output = run("annotations", "import", str(file), "--archive", str(old))
    expected = "expected annotations as `wshard annotations export` writes them, found other JSON"
    assert (code, output) == (2, f"error: {file}: {expected}\n")


@SQLITE_FIRST
def test_collections_that_are_there_already_are_not_reported(text: str, fresh: Catalog) -> None:
    fresh.episodes.register(RECORDS)
    assert fresh.annotations.import_json(text).skipped == ()
    fresh.episodes.register([replace(RECORDS[0], digest="changed")])  # the snapshot keeps what it picked
    assert [one for one in fresh.annotations.import_json(text).skipped if one.startswith("coll")] == []
