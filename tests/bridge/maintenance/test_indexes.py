"""Looking after indexes: what is there, making a copy anew, taking a Space away."""

from __future__ import annotations

import json

import pytest
from command_line import app
from index_folders import home_of
from typer.testing import CliRunner

from bridge.index.embedded.index import EmbeddedIndex
from bridge.maintenance import indexes
from bridge.testing.brute_force import Shelf, make_space, unit_vectors
from bridge.testing.index_contract import check, top
from catalog.location import place_of
from embedders import Blocks
from wshard import Archive, Catalog, TrajectoryIngestor, TrajectoryRetriever, save_wshard
from wshard.errors import EntryNotFoundError, QueryError, SpaceMismatchError
from wshard.testing import make_episode

SPACE = make_space()


@pytest.fixture
def archive(tmp_path):
    """Give an archive of 30 episodes with 3 windows each, of which an index writes a copy from the 10th vector on."""
    with (
        Catalog.open(tmp_path / "catalog.db", create=True) as catalog,
        EmbeddedIndex(catalog, tmp_path / "index", tail_rows=10, lists_rows=50) as index,
    ):
        shelf = Shelf(catalog, index)
        shelf.put(SPACE, {id_: unit_vectors(3, id_) for id_ in shelf.register(30)})
        yield Archive(place_of(tmp_path), catalog, index)


def copies(folder, space=SPACE):
    return sorted(path for path in home_of(folder, space).glob("*") if path.is_dir())


def test_rebuild_writes_a_copy_although_nothing_is_new(archive):
    archive.index.close()
    for _ in range(2):
        before = copies(archive.folder)
        (state,) = indexes.rebuild(archive)
        assert state.ok
        (after,) = copies(archive.folder)
        assert after not in before
        assert (after / "inverted_lists").is_dir()


def test_rebuild_replaces_a_damaged_copy(archive):
    archive.index.close()
    (home,) = copies(archive.folder)
    (home / "header.json").write_text("{}")
    indexes.rebuild(archive)
    (home,) = copies(archive.folder)
    assert json.loads((home / "header.json").read_text())["header"]["vectors"] == 90


def test_holdings_report_what_the_ledger_has(archive):
    (one,) = indexes.list_spaces(archive)
    assert (one.space, one.state, one.episodes, one.vectors, one.size) == (SPACE, "building", 30, 90, 90 * 6 * 4)


@pytest.mark.parametrize("name", ["", "0", SPACE.fingerprint + "0"])
def test_a_name_that_is_not_a_ones_finds_nothing(archive, name):
    with pytest.raises(EntryNotFoundError, match=f"\\({SPACE.fingerprint[:12]}\\), found '{name}'"):
        indexes.find(archive, name)
    assert indexes.find(archive, SPACE.fingerprint[:6]).space == SPACE


def test_a_name_that_two_spaces_share_finds_nothing(archive):
    one, two = [make_space(f"{number}") for number in range(100) if make_space(f"{number}").fingerprint[0] == "a"][:2]
    shelf = Shelf(archive.catalog, archive.index)
    for space in (one, two):
        shelf.put(space, {})
    with pytest.raises(EntryNotFoundError, match="found 'a'"):
        indexes.find(archive, "a")


def test_a_dropped_space_is_gone_and_others_stay(archive):
    other = make_space("other")
    shelf = Shelf(archive.catalog, archive.index)
    shelf.put(other, {id_: unit_vectors(4, id_) for id_ in archive.catalog.query.ids()})
    indexes.rebuild(archive)
    with EmbeddedIndex(archive.catalog, archive.folder / "index") as reader:
        reader.count(SPACE)
        indexes.drop(archive, SPACE)
        for index in (archive.index, reader):
            with pytest.raises(SpaceMismatchError):
                index.search(SPACE, unit_vectors(1)[0], top(1))
        assert reader.count(other) == 120
    assert copies(archive.folder) == []
    assert copies(archive.folder, other) != []
    assert [one.space for one in indexes.list_spaces(archive)] == [other]
    check(shelf, other, unit_vectors(1)[0], top(5))


def test_a_dropped_space_can_be_filled_again(archive):
    archive.index.close()
    indexes.drop(archive, SPACE)
    shelf = Shelf(archive.catalog, archive.index)
    ids = archive.catalog.query.ids()
    shelf.put(SPACE, {id_: unit_vectors(3, 1000 + id_) for id_ in ids[:20]})
    check(shelf, SPACE, unit_vectors(1)[0], top(100, distinct=False))
    with EmbeddedIndex(archive.catalog, archive.folder / "index") as again:
        check(Shelf(archive.catalog, again, stored=shelf.stored), SPACE, unit_vectors(1)[0], top(100, distinct=False))


def test_the_verbs(tmp_path):
    episodes, archive = tmp_path / "episodes", tmp_path / "archive"
    episodes.mkdir()
    for seed in range(4):
        save_wshard(make_episode(seed, T=20), episodes / f"{seed}.wshard")
    with TrajectoryIngestor(archive) as ingestor:
        ingestor.ingest(episodes, windows="whole")

    def run(*arguments: str):
        return CliRunner().invoke(app, ["index", *arguments, "--archive", str(archive)])

    (listed,) = json.loads(run("spaces", "--json").stdout)["items"]
    assert (listed["state"], listed["embedder"], listed["metric"]) == ("active", f"blocks {Blocks.version}", "cosine")
    assert (listed["episodes"], listed["vectors"], listed["bytes"]) == (4, 4, 16 * listed["dim"])
    assert listed["rates"] == [20.0] * len(listed["lanes"])
    header, row = run("spaces").stdout.splitlines()
    assert header.split()[:3] == ["space", "embedder", "lanes"]
    assert row.split()[:2] == [listed["space"][:12], "blocks"]
    assert run("rebuild").exit_code == 0

    requested = run("drop", listed["space"][:8])
    assert (requested.exit_code, "use --yes" in requested.stderr) == (1, True)
    assert len(json.loads(run("spaces", "--json").stdout)["items"]) == 1
    done = run("drop", listed["space"][:8], "--yes")
    assert (done.exit_code, done.stdout.split()[:3]) == (0, ["removed", "4", "vectors"])
    assert json.loads(run("spaces", "--json").stdout)["items"] == []
    assert run("drop", listed["space"][:8], "--yes").exit_code == 1
    with (
        TrajectoryRetriever(archive) as retriever,
        pytest.raises(QueryError, match="this archive has no embeddings yet"),
    ):
        retriever.search_similar_episodes(make_episode(1, T=20))
    with TrajectoryIngestor(archive) as ingestor:
        assert ingestor.ingest(episodes, windows="whole").embedded == 4


@pytest.mark.parametrize("arguments", [["audit", "--index", "x"], ["rebuild", "--index", "x"], ["copy", "--to", "x"]])
def test_an_index_that_is_not_a_url_is_refused(archive, arguments):
    done = CliRunner().invoke(app, ["index", *arguments, "--archive", str(archive.folder)])
    assert done.exit_code == 2
    assert "expected the URL of an index such as http://host:8080, found 'x'" in done.stderr
