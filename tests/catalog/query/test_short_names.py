"""Ids of foreign sets are positions: short names tell their episodes apart, and name them again."""

from __future__ import annotations

import numpy as np
import pytest
from bridge_episodes import command, episode, save

from bridge import TrajectoryIngestor, open_archive
from wshard import Channel, Episode, save_wshard
from wshard.errors import EntryNotFoundError, QueryError
from wshard.formats.base import open_sink


def arm(number):
    rng = np.random.default_rng(number)
    lanes = {"state": Channel.of("state", rng.standard_normal((20, 3)))}
    task = {"task": f"push {number}"} if number % 2 else {}
    return Episode(
        f"episode_{number % 2:06d}",
        "arm",
        observations=lanes,
        actions={"action": Channel.of("action", rng.random((20, 2)))},
        metadata=task,
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Return a folder with two LeRobot sets of two episodes each, and files, and an archive of them."""
    folder = tmp_path_factory.mktemp("home")
    for at, name in enumerate(("pusht", "deep/aloha", "deep/er/aloha")):
        (folder / "sets" / name).parent.mkdir(parents=True, exist_ok=True)
        with open_sink(folder / "sets" / name, "lerobot") as sink:
            sink.write(arm(2 * at))
            sink.write(arm(2 * at + 1))
    for at, name in enumerate(("a/e1", "b/e1", "b/other")):
        (folder / "sets" / name).parent.mkdir(exist_ok=True)
        ep = Episode("e1", observations={"state": np.full((9, 3), float(at))})
        save_wshard(ep, folder / "sets" / f"{name}.wshard")
    save_wshard(Episode("only", observations={"state": np.ones((9, 3))}), folder / "sets" / "only.wshard")
    with TrajectoryIngestor(folder / ".wshard") as ingestor:
        assert ingestor.ingest(folder / "sets").ok
    return folder


def test_every_name_is_unique_and_names_its_episode(home):
    with open_archive(home / ".wshard") as archive:
        catalog = archive.catalog
        rows = catalog.query.select(limit=100).rows
        names = catalog.query.short_names(rows)
        assert len({*names}) == len(rows) == 10
        assert {"only", "pusht/episode_000000", "deep/aloha/episode_000001", "er/aloha/episode_000001"} <= {*names}
        assert {"a/e1", "b/e1", "other.wshard/e1"} <= {*names}
        for row, name in zip(rows, names, strict=True):
            found = catalog.episodes.named(name)
            assert found is not None
            assert found.uid == row.uid


def test_an_ambiguous_name_is_refused_with_those_that_are_not(home):
    with open_archive(home / ".wshard") as archive:
        for name in ("episode_000000", "aloha/episode_000000", "e1"):
            with pytest.raises(QueryError, match="several episodes have the id") as refused:
                archive.catalog.episodes.named(name)
            for line in str(refused.value).splitlines()[1:]:
                assert archive.catalog.episodes.named(line.split()[0]) is not None
        for name in ("sets/never", "never/e1", "/e1", "e1/"):
            assert archive.catalog.episodes.named(name) is None


def test_lists_show_names_and_tasks(home):
    listed = command("ls", folder=home).stdout
    assert "pusht/episode_000000" in listed
    assert "push 1" in listed
    assert listed.splitlines()[0].split()[:3] == ["episode", "env", "task"]
    found = command("search", "pusht/episode_000001", "-k", "20", folder=home)
    assert found.exit_code == 0, found.stderr
    assert "aloha/episode_000001" in found.stdout
    assert "several episodes have the id" in command("search", "episode_000001", folder=home).stderr
    assert "er/aloha/episode_000000" in command("ls", "--columns", "name,env", folder=home).stdout
    assert "meta.task" in command("facets", folder=home).stdout


def test_lists_without_tasks_have_no_column_of_tasks(tmp_path):
    save(tmp_path / "data", episode(0, 0, metadata={}))
    assert command("ingest", "data", folder=tmp_path).exit_code == 0
    assert "task" not in command("ls", folder=tmp_path).stdout.splitlines()[0].split()
    assert "meta.task" not in command("facets", folder=tmp_path).stdout


def test_assumed_clocks_are_marked(home, tmp_path):
    save(tmp_path / "data", episode(0, 0))
    assert command("ingest", "data", folder=tmp_path).exit_code == 0
    (listed,) = (tmp_path / "data").rglob("*.wshard")
    assert "30 Hz is assumed" in command("show", listed, folder=tmp_path).stdout
    assert "assumed" not in command("show", "pusht/episode_000001", folder=home).stdout


def test_nothing_is_named_by_a_name_of_nothing(home):
    with open_archive(home / ".wshard") as archive, pytest.raises(EntryNotFoundError):
        archive.search("never/e1")
