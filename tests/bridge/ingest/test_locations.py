"""Episodes are ingested where they are: a DreamerV3 replay folder, JSON lines, a folder of episode files."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest
from bridge_episodes import command
from jsonl_source import announce, line_of, some_episodes, write_lines

from bridge import check_episodes
from bridge.ingest import register
from bridge.maintenance import fsck
from wshard import (
    EpisodeAddress,
    EpisodeRef,
    TrajectoryIngestor,
    TrajectoryRetriever,
    list_episodes,
    open_archive,
    open_episode,
    save_wshard,
)
from wshard.errors import UnknownSchemeError
from wshard.testing import assert_same_episode, make_episode

if TYPE_CHECKING:
    from pathlib import Path

    from wshard import Episode


class LocationContract(ABC):
    """What ingest does with episodes that are where they are; a subclass makes and changes a location of them."""

    count: ClassVar[int] = 6
    times_differ: ClassVar[bool] = True  # what one episode is written at says nothing of the others

    @abstractmethod
    def make(self, folder: Path) -> Path:
        """Write `count` episodes in a new location below the folder, and return it."""

    @abstractmethod
    def add(self, place: Path) -> None:
        """Add one episode."""

    @abstractmethod
    def change(self, place: Path) -> None:
        """Change the data of one episode."""

    @abstractmethod
    def drop(self, place: Path) -> None:
        """Remove one episode."""

    def episodes(self, place: Path) -> list[EpisodeAddress]:
        """Return where the episodes of the location are."""
        return [address for address, _ in list_episodes(place)]

    @pytest.fixture
    def place(self, tmp_path, monkeypatch):
        announce(tmp_path / "site", monkeypatch)
        (tmp_path / "data").mkdir()
        return self.make(tmp_path / "data")

    @pytest.fixture
    def archive(self, tmp_path, place):
        report = ingest(tmp_path / "archive", place)
        assert (report.new, report.embedded, report.failed, report.skipped) == (self.count, self.count, [], {})
        return tmp_path / "archive"

    @pytest.fixture
    def windowed(self, tmp_path, place):
        assert ingest(tmp_path / "archive", place, windows="both").embedded == self.count
        return tmp_path / "archive"

    def test_every_episode_is_catalogued_loaded_and_checked_by_its_address(self, archive, place):
        assert {row.address for row in rows(archive)} == set(self.episodes(place))
        for row in rows(archive)[:5]:
            with open_episode(row.address) as reader:
                assert (row.episode_id, row.length, row.digest) == (reader.id, reader.length, reader.digest())
        with TrajectoryRetriever(archive) as retriever:
            for address in self.episodes(place)[:3]:
                (best, *_) = retriever.search_similar_episodes(str(address), 3)
                assert (best.address, best.digest) == (address, row_at(archive, address).digest)
                with open_episode(address) as reader:
                    assert_same_episode(best.load(), reader.load())
                    with best.open() as file:
                        for name in file.lanes():
                            assert np.array_equal(file.lane(name), reader.lane(name))
                    part = replace(best, span=(1, 4)).load_span()
                    assert_same_episode(part, reader.slice(1, 4))
        with open_archive(archive) as opened:
            checked = check_episodes(opened, [place])
        assert {one.address for one in checked} == set(self.episodes(place))
        assert all(one.uid is not None for one in checked)

    def test_timesteps_of_an_episode_find_where_they_are_also_on_the_command_line(self, windowed, place):
        address = self.episodes(place)[1]
        with TrajectoryRetriever(windowed) as retriever:
            (best, *_) = retriever.search_moments(f"{address}@2:7", 2)
        assert (best.address, best.score) == (address, pytest.approx(1, abs=1e-3))
        assert isinstance(best, EpisodeRef)
        assert best.load_span().length == best.span[1] - best.span[0]

        def run(*arguments: str):
            return command(*arguments, "--archive", windowed, folder=place.parent)

        address = self.episodes(place)[2]
        found = run("search", str(address), "--plain", "--json")
        assert found.exit_code == 0, found.stderr
        (best, *_) = json.loads(found.stdout)["items"]
        assert (best["file_path"], best["key"], best["address"]) == (address.uri, address.key, str(address))
        assert f'"{address}"' in run("show", str(address), "--json").stdout
        moments = run("moments", f"{address}@2:7", "--top", "1")
        assert (moments.exit_code, "2:7" in moments.stdout) == (0, True)
        if address.key:
            several = run("show", str(place))
            assert (several.exit_code, f"a location of {self.count}" in several.stderr) == (1, True)
            other = run("show", f"{place}#nobody")
            assert (other.exit_code, f"{self.count} of its episodes, but no 'nobody'" in other.stderr) == (1, True)

    def test_unchanged_episodes_are_not_read(self, archive, place, monkeypatch):
        monkeypatch.setattr("bridge.ingest.register.reread", None)
        begun = time.thread_time()
        report = ingest(archive, place)
        assert (report.unchanged, report.embedded) == (self.count, 0)
        assert time.thread_time() - begun < 1

    def test_what_is_added_and_changed_is_read_alone(self, archive, place, monkeypatch):
        before = {row.address: row.digest for row in rows(archive)}
        self.add(place)
        self.change(place)
        read = []

        read_anew = register.reread

        def reading(run, found, wanted, checker):
            read.extend(found)
            return read_anew(run, found, wanted, checker)

        monkeypatch.setattr(register, "reread", reading)
        report = ingest(archive, place)
        assert (report.new, report.changed, report.unchanged, report.failed) == (1, 1, self.count - 1, [])
        after = {row.address: row.digest for row in rows(archive)}
        assert [before[address] != after[address] for address in before].count(True) == 1
        assert len(read) == (2 if self.times_differ else self.count + 1)
        assert ingest(archive, place).unchanged == self.count + 1
        assert len(read) == (2 if self.times_differ else self.count + 1)

    def test_what_is_gone_is_missing_until_it_is_pruned(self, archive, place):
        self.drop(place)
        there = set(self.episodes(place))
        report = ingest(archive, place)
        assert (report.missing, report.removed, report.failed) == (1, 0, [])
        found = check(archive)
        assert [finding.code for finding in found.findings] == ["missing"]
        (gone,) = {row.address for row in rows(archive)} - there
        assert found.findings[0].where == str(gone)
        with TrajectoryRetriever(archive) as retriever:
            assert gone not in {
                hit.address for hit in retriever.search_similar_episodes(str(min(there, key=str)), 2000)
            }
        assert ingest(archive, place, prune=True).removed == 1
        assert {row.address for row in rows(archive)} == there
        assert check(archive).ok

    def test_a_location_that_moves_takes_its_annotations_along(self, archive, place):
        tags = {row.digest: row.uid for row in rows(archive)}
        with open_archive(archive) as opened:
            opened.catalog.annotations.tag(opened.catalog.query.ids(), "own")
        there = place.parent / "elsewhere"
        there.mkdir()
        moved = place.rename(there / f"renamed{place.suffix}")
        report = ingest(archive, moved)
        assert (report.moved, report.new, report.embedded, report.failed) == (self.count, 0, 0, [])
        assert {row.address for row in rows(archive)} == set(self.episodes(moved))
        assert {row.digest: row.uid for row in rows(archive)} == tags
        assert all(row.tags == ("own",) for row in rows(archive))

    def test_fsck_finds_a_location_that_moved_and_repairs_the_archive(self, tmp_path, place):
        archive = tmp_path / "above"  # whose folder is searched for what moved
        ingest(archive, place.parent)
        assert check(archive, data=True).ok
        moved = place.rename(place.parent / f"renamed{place.suffix}")
        found = check(archive)
        assert {finding.code for finding in found.findings} == {"moved"}
        with open_archive(archive) as opened:
            assert fsck.repair_archive(opened).ok
        assert {row.address for row in rows(archive)} == set(self.episodes(moved))
        self.change(moved)
        assert [finding.code for finding in check(archive).findings] == ["changed"]
        with open_archive(archive) as opened:
            assert fsck.repair_archive(opened, data=True).ok

    def test_a_location_that_is_gone_is_pruned_as_a_whole(self, archive, place):
        shutil.rmtree(place) if place.is_dir() else place.unlink()
        assert ingest(archive, place, prune=True).removed == self.count
        assert rows(archive) == []

    def test_a_folder_above_is_ingested_with_it(self, tmp_path, place):
        report = ingest(tmp_path / "other", place.parent)
        assert (report.new, report.failed, report.skipped) == (self.count, [], {})
        assert {row.address for row in rows(tmp_path / "other")} == set(self.episodes(place))

    def test_several_processes_read_it(self, tmp_path, place):
        assert ingest(tmp_path / "other", place, workers_count=2).new == self.count
        assert check(tmp_path / "other").ok

    def test_what_comes_while_watching_is_ingested(self, archive, place):
        stop, seen = threading.Event(), []
        late = threading.Timer(90, stop.set)
        late.start()
        adding = threading.Timer(1.0, self.add, [place])
        adding.start()
        with TrajectoryIngestor(archive) as ingestor:
            for report in ingestor.watch(place.parent, windows="whole", stop=stop):
                seen.append(report)
                if sum(one.new for one in seen):
                    stop.set()
        late.cancel()
        assert (sum(one.new for one in seen), [one.failed for one in seen]) == (1, [[]] * len(seen))
        assert {row.address for row in rows(archive)} == set(self.episodes(place))


class TestReplayFolder(LocationContract):
    """A DreamerV3 replay folder: two streams, episodes across files."""

    def make(self, folder: Path) -> Path:
        place = folder / "replay"
        place.mkdir()
        # Of the first stream the second episode goes on in the next file, of the second one each is a file.
        write_replay(place, "AAA", "BBB", seed=1, steps=24, begins=(0, 10))
        write_replay(place, "BBB", "0", seed=2, steps=24, begins=(6, 15))
        write_replay(place, "CCC", "DDD", seed=3, steps=12, begins=(0,))
        write_replay(place, "DDD", "0", seed=4, steps=12, begins=(0,))
        return place

    def add(self, place: Path) -> None:
        write_replay(place, "EEE", "0", seed=5, steps=14, begins=(0,))

    def change(self, place: Path) -> None:
        write_replay(place, "DDD", "0", seed=6, steps=12, begins=(0,))

    def drop(self, place: Path) -> None:
        (found,) = place.glob("*F000000-DDD-*")
        found.unlink()


class TestJsonLines(LocationContract):
    """A file of many episodes, in a format that an entry point announces."""

    count = 12
    times_differ = False

    def make(self, folder: Path) -> Path:
        return write_lines(folder / "runs.jsonl", some_episodes(self.count))

    def add(self, place: Path) -> None:
        write_lines(place, [replace(make_episode(5000, T=8), id="line-later")])

    def change(self, place: Path) -> None:
        self._edit(place, 7, replace(make_episode(6000, T=9), id="line-0007"))

    def drop(self, place: Path) -> None:
        self._edit(place, 8, None)

    def _edit(self, place: Path, number: int, ep: Episode | None) -> None:
        status, lines = place.stat(), place.read_text().splitlines(keepends=True)
        lines[number : number + 1] = [] if ep is None else [f"{line_of(ep)}\n"]
        place.write_text("".join(lines))
        os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))


class TestEpisodeFiles(LocationContract):
    """A folder of this project's own files: many locations of one episode each."""

    def make(self, folder: Path) -> Path:
        place = folder / "runs"
        place.mkdir()
        for number in range(self.count):
            save_wshard(replace(make_episode(number, T=12), id=f"run-{number}"), place / f"{number}.wshard")
        return place

    def add(self, place: Path) -> None:
        save_wshard(replace(make_episode(50, T=12), id="later"), place / "later.wshard")

    def change(self, place: Path) -> None:
        save_wshard(replace(make_episode(60, T=13), id="run-1"), place / "1.wshard")

    def drop(self, place: Path) -> None:
        (place / "2.wshard").unlink()

    def episodes(self, place: Path) -> list[EpisodeAddress]:
        return [EpisodeAddress(str(path)) for path in sorted(place.glob("*.wshard"))]


def test_hundreds_of_episodes_in_one_file_are_taken_in_and_one_of_them_changes(tmp_path, monkeypatch):
    announce(tmp_path / "site", monkeypatch)
    lines, archive = TestJsonLines(), tmp_path / "archive"
    place = write_lines(tmp_path / "runs.jsonl", some_episodes(300))
    assert ingest(archive, place).embedded == 300
    lines.change(place)
    report = ingest(archive, place)
    assert (report.changed, report.embedded, report.unchanged, report.failed) == (1, 1, 299, [])
    with TrajectoryRetriever(archive) as retriever:
        (best, *_) = retriever.search_similar_episodes(f"{place}#line-0267", 3)
    assert best.episode_id == "line-0267"


def test_a_location_that_is_damaged_beyond_recognition_is_reported(tmp_path, dataset_fixtures):
    folder = tmp_path / "sets"
    folder.mkdir()
    place = shutil.copy(dataset_fixtures / "other" / "d4rl.hdf5", folder / "d4rl.hdf5")
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        assert ingestor.ingest(folder).new == 2
        place.write_bytes(b"\0" * 512 + place.read_bytes()[512:])
        report = ingestor.ingest(folder, prune=True)
        assert [(one.path, one.key) for one in report.failed] == [(str(place), "")]
        assert "expected an HDF5 file, found another" in report.failed[0].error
        assert (report.removed, report.missing) == (0, 0)
        assert len(ingestor.ingest(place).failed) == 1


def test_uris_are_ingested_and_searched_as_the_paths_that_they_lead_to(tmp_path):
    """What the catalog holds is the path, so that an episode is the same however it was named."""
    (tmp_path / "da ta").mkdir()
    for seed in range(2):
        save_wshard(replace(make_episode(seed), id=f"e{seed}"), tmp_path / "da ta" / f"e{seed}.wshard")
    folder = tmp_path / "da ta"
    for place in (folder.as_uri(), (folder / "e0.wshard").as_uri(), folder):
        assert command("ingest", place, "--archive", "lab", folder=tmp_path).exit_code == 0
    assert [row.path for row in rows(tmp_path / "lab")] == [str(folder / f"e{seed}.wshard") for seed in range(2)]
    query = f"{(folder / 'e1.wshard').as_uri()}@2:9"
    found = json.loads(command("search", query, "--archive", "lab", "--json", folder=tmp_path).stdout)
    assert found["items"][0]["episode_id"] == "e1"
    with TrajectoryIngestor(tmp_path / "lab") as ingestor, pytest.raises(UnknownSchemeError, match="nfs9://"):
        ingestor.ingest("nfs9://bucket/a")


def write_replay(place: Path, uuid: str, successor: str, *, seed: int, steps: int, begins: tuple[int, ...]) -> None:
    """Write a replay file in which episodes begin at these rows."""
    for before in place.glob(f"*F000000-{uuid}-*"):
        before.unlink()
    rng = np.random.default_rng(seed)
    first = np.isin(np.arange(steps), begins)
    arrays = {
        "image": rng.integers(0, 256, (steps, 8, 8, 3), np.uint8),
        "state": rng.normal(size=(steps, 3)).cumsum(axis=0).astype(np.float32),
        "action": rng.normal(size=(steps, 2)).astype(np.float32),
        "reward": rng.normal(size=steps).astype(np.float32),
        "is_first": first,
        "is_last": np.append(first[1:], True),
        "is_terminal": np.zeros(steps, np.bool_),
    }
    np.savez_compressed(place / f"20250101T00000{seed}F000000-{uuid}-{successor}-{steps}.npz", **arrays)


def ingest(archive: Path, place: Path, **options: Any):
    """Ingest a location, by default one vector per episode."""
    with TrajectoryIngestor(archive) as ingestor:
        return ingestor.ingest(place, **{"windows": "whole", **options})


def check(archive: Path, **options: Any):
    """Return what fsck finds."""
    with open_archive(archive) as opened:
        return fsck.check_archive(opened, **options)


def rows(archive: Path):
    """Return the catalogued episodes."""
    with open_archive(archive) as opened:
        return list(opened.catalog.episodes.rows(opened.catalog.query.ids()).values())


def row_at(archive: Path, address: EpisodeAddress):
    """Return the catalogued episode at an address."""
    return next(row for row in rows(archive) if row.address == address)
