"""Every damage that fsck knows, really made: it is found, reported, and mended where that loses nothing."""

# ruff: noqa: ANN002, ANN003 -- as in tests, whose helpers these are
from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from pathlib import Path

import numpy as np
import pytest
from bridge_episodes import (
    assert_complete,
    copies,
    episode,
    episodes_by_path,
    files,
    ingest,
    opened_archive,
    rewrite,
    save,
    spaces_of,
)
from command_line import app
from databases import SQLITE_ALONE, SQLITE_FIRST
from robot_files import ROBOT_FILES
from topic_logs import robot_messages, write_ros2
from typer.testing import CliRunner

import bridge.ingest.stages
from bridge.maintenance.findings import ADVICE
from embedders import WindowPlan
from wshard import (
    Channel,
    Episode,
    EpisodeAddress,
    ShardReader,
    TrajectoryIngestor,
    TrajectoryRetriever,
    WShardStreamWriter,
    open_archive,
    save_wshard,
)
from wshard import check_archive as check
from wshard import repair_archive as repair
from wshard.core.episode.protocol import read_as
from wshard.errors import CatalogWriteError, VectorsDamagedError
from wshard.formats.lane_map import encode_lane_map

REMEMBERED = "digest, count, checksum, vectors"
HOURS_AGO = time.time() - 7200


@pytest.fixture
def folder(tmp_path):
    save(tmp_path / "data", *(episode(task, number, 12) for task in range(3) for number in range(4)))
    return tmp_path / "data"


@pytest.fixture
def archive(place, folder):
    """Return an archive of twelve episodes, of which people have said something."""
    ingest(place, folder)
    with opened_archive(place) as opened:
        ids = opened.catalog.query.ids()
        opened.catalog.annotations.tag(ids, "good")
        opened.catalog.annotations.add_note(ids, "a note", who="ann")
        opened.catalog.annotations.review(ids, "accepted", who="ann")
    return place


def codes(archive, **options):
    with open_archive(archive) as opened:
        return sorted(finding.code for finding in check(opened, **options).findings)


def mended(archive, **options):
    with open_archive(archive) as opened:
        found = repair(opened, **options)
    return sorted(finding.code for finding in found.findings)


def said(archive):
    """Return how many episodes still have what people said of them."""
    with opened_archive(archive) as opened:
        return opened.catalog.query.count('tag:good review:accepted "a note"')


def sql(archive, *statements):
    with opened_archive(archive) as opened, opened.catalog._session.write() as connection:
        for statement in statements:
            assert connection.exec_driver_sql(statement).rowcount


def flip(path, lane="signal/state"):
    """Change one byte of a lane."""
    with ShardReader(path) as reader:
        place = next(entry.data_offset for entry in reader.entries if entry.name == lane)
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[place + 5] ^= 0x10
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@SQLITE_FIRST
def test_nothing_is_wrong_with_a_fresh_archive(archive, folder):
    with open_archive(archive) as opened:
        found = check(opened, data=True)
        assert found.ok
        assert found.episodes == 12
        assert repair(opened, data=True).done == ()
        assert check(opened, data=True, workers_count=2).ok


@SQLITE_ALONE
def test_a_missing_file_is_reported_and_nothing_stated_of_it_is_forgotten(archive, folder):
    files(folder)[0].unlink()
    assert codes(archive) == ["missing"]
    assert mended(archive) == ["missing"]
    assert said(archive) == 12


@SQLITE_FIRST
def test_a_moved_file_is_found_again(archive, folder):
    paths = files(folder)
    (folder / "elsewhere").mkdir()
    paths[0].rename(folder / "elsewhere" / "other.wshard")
    shutil.copy(paths[1], folder / "elsewhere" / "copy.wshard")  # its original is still there
    assert codes(archive) == ["moved"]
    assert mended(archive) == []
    assert codes(archive) == []
    assert said(archive) == 12
    assert_complete(archive, [folder / "elsewhere" / "other.wshard", *paths[1:]])


@SQLITE_ALONE
def test_a_moved_file_is_found_where_another_episode_took_its_name(archive, folder):
    path = files(folder)[0]
    before = episodes_by_path(archive)[path].uid
    moved = path.rename(path.with_name("z.wshard"))
    save_wshard(episode(7), path)
    assert codes(archive) == ["moved"]
    assert mended(archive) == []
    assert episodes_by_path(archive)[moved].uid == before
    assert said(archive) == 12


@SQLITE_ALONE
def test_a_file_that_is_gone_is_not_confused_with_a_catalogued_copy(archive, folder):
    paths = files(folder)
    shutil.copy(paths[0], folder / "copy.wshard")
    ingest(archive, folder)
    paths[0].unlink()
    assert codes(archive) == ["missing"]


@SQLITE_ALONE
def test_a_touched_file_is_noted(archive, folder):
    os.utime(files(folder)[0])
    assert codes(archive) == ["touched"]
    assert mended(archive) == []
    assert codes(archive) == []


@SQLITE_FIRST
@pytest.mark.parametrize("secretly", [False, True])
def test_a_changed_file_is_read_and_embedded_again(archive, folder, secretly):
    path = files(folder)[0]
    before = path.stat()
    rewrite(path, episode(0, 99, 12, id="task-0-0"))
    if secretly:  # as copying tools do that keep times
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert codes(archive) == ["changed"]
    assert mended(archive) == []
    assert codes(archive, data=True) == []
    assert said(archive) == 12
    assert_complete(archive, files(folder))


@SQLITE_ALONE
def test_renumbered_files_are_repaired_at_once(archive, folder):
    paths, before = files(folder)[:4], episodes_by_path(archive)
    for path in reversed(paths):  # each takes the name behind it
        path.rename(paths[paths.index(path) + 1] if path != paths[-1] else path.with_name("z.wshard"))
    with open_archive(archive) as opened:
        assert repair(opened).ok
    after = episodes_by_path(archive)
    moved = dict(zip(paths, [*paths[1:], paths[-1].with_name("z.wshard")], strict=True))
    assert {after[new].uid for new in moved.values()} == {before[old].uid for old in paths}
    assert all(after[new].uid == before[old].uid for old, new in moved.items())


@SQLITE_ALONE
def test_a_damaged_block_is_found_by_reading_the_data(archive, folder):
    flip(files(folder)[0])
    assert codes(archive) == []
    assert codes(archive, data=True) == ["corrupt"]
    assert mended(archive, data=True) == ["corrupt"]
    assert said(archive) == 12


@SQLITE_ALONE
@pytest.mark.parametrize("damage", [b"", b"nothing of ours" * 20])
def test_a_destroyed_file_is_found_without(archive, folder, damage):
    files(folder)[0].write_bytes(damage)
    assert codes(archive) == ["corrupt"]
    assert mended(archive) == ["corrupt"]
    assert said(archive) == 12


def test_a_recording_of_another_format_is_read_as_what_it_is(tmp_path):
    log = write_ros2(tmp_path / "run.mcap", robot_messages(cameras=False))
    bag = tmp_path / "bag"
    bag.mkdir()
    shutil.copy(log, bag / "run.mcap")
    about = "rosbag2_bagfile_information: {storage_identifier: mcap, relative_file_paths: [run.mcap]}"
    (bag / "metadata.yaml").write_text(about)
    ingest(tmp_path / "logs", log, bag)
    assert codes(tmp_path / "logs", data=True) == []
    (bag / "metadata.yaml").rename(tmp_path / "aside")
    with open_archive(tmp_path / "logs") as opened:
        assert [(one.code, one.message) for one in check(opened).findings] == [
            ("missing", "no such file: metadata.yaml")
        ]
    report = ingest(tmp_path / "logs", bag)
    assert (report.moved, report.new, codes(tmp_path / "logs", data=True)) == (1, 0, [])
    (tmp_path / "aside").rename(bag / "metadata.yaml")
    damaged = bytearray(log.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    log.write_bytes(damaged)
    assert codes(tmp_path / "logs", data=True) == ["corrupt"]


@pytest.mark.parametrize("lane_map", ["", encode_lane_map({"observation.state": "state"})])
def test_a_missing_video_is_named_by_its_place_in_the_location(tmp_path, dataset_fixtures, lane_map):
    place = shutil.copytree(dataset_fixtures / "lerobot" / "lerobot_v3_video_h264", tmp_path / "set")
    ingest(tmp_path / "clips", EpisodeAddress(str(place), read_as=read_as("", lane_map)))
    video = next((place / "videos" / "observation.images.top").rglob("*.mp4"))
    video.write_bytes(video.read_bytes()[:3000])
    with open_archive(tmp_path / "clips") as opened:
        opening = {(one.code, one.message.endswith("--data reads all")) for one in check(opened).findings}
        assert (opening, "corrupt" in {one.code for one in check(opened, data=True).findings}) == (
            {("touched", True)},
            True,
        )
    video.unlink()
    ingest(tmp_path / "clips", place)  # reads the episodes again, and finds the same data
    message = f"no such file: {video.relative_to(place)}"
    with open_archive(tmp_path / "clips") as opened:
        for data in (False, True):
            found = check(opened, data=data).findings
            assert {(one.code, one.message) for one in found} == {("incomplete", message)}
    assert set(mended(tmp_path / "clips")) == {"incomplete"}


def test_a_missing_video_of_a_single_episode_is_named(tmp_path):
    place, _ = ROBOT_FILES["droid"](tmp_path / "set")
    ingest(tmp_path / "clips", place)
    (place.parent / "recordings" / "MP4" / "18026681.mp4").unlink()
    with open_archive(tmp_path / "clips") as opened:
        (found,) = check(opened).findings
    assert (found.code, found.message) == ("incomplete", "no such file: 18026681.mp4")


@SQLITE_FIRST
def test_vectors_that_belong_to_nothing_are_dropped(archive, folder):
    sql(
        archive,
        "INSERT INTO embedding SELECT seq+1000, space_id, 777, digest, count, checksum, vectors FROM embedding LIMIT 1",
    )
    assert codes(archive) == ["orphaned"]
    assert mended(archive) == []
    assert_complete(archive, files(folder))


@SQLITE_FIRST
def test_vectors_of_other_data_are_made_again(archive, folder):
    sql(archive, "UPDATE embedding SET digest = 'other' WHERE seq = (SELECT min(seq) FROM embedding)")
    assert codes(archive) == ["stale"]
    assert mended(archive) == []
    assert_complete(archive, files(folder))


def test_torn_vectors_are_made_again(archive, folder):
    sql(archive, "UPDATE embedding SET vectors = substr(vectors, 5) WHERE seq = (SELECT min(seq) FROM embedding)")
    assert codes(archive) == ["torn"]
    with (
        TrajectoryRetriever(archive) as retriever,
        pytest.raises(VectorsDamagedError, match=r"the vectors of episode \d+ .*expected CRC32C"),
    ):
        retriever.search_similar_episodes(files(folder)[0])
    assert mended(archive) == []
    assert_complete(archive, files(folder))


@SQLITE_FIRST
def test_vectors_of_a_retired_space_are_dropped(archive, folder):
    sql(
        archive,
        "INSERT INTO space SELECT id+1, 'f', 'family', 'retired', definition, 0 FROM space",
        f"INSERT INTO embedding SELECT seq+1000, space_id+1, episode_row, {REMEMBERED} FROM embedding LIMIT 3",
    )
    assert codes(archive) == ["retired"]
    assert mended(archive) == []
    assert_complete(archive, files(folder))


@SQLITE_FIRST
def test_episodes_without_vectors_are_embedded(archive, folder):
    with opened_archive(archive) as opened:
        opened.catalog.episodes.withdraw(opened.catalog.query.ids()[:3])
    assert codes(archive) == ["unembedded"]
    assert mended(archive) == []
    assert_complete(archive, files(folder))


@SQLITE_FIRST
def test_a_space_that_no_one_finished_is_finished(archive, folder):
    sql(archive, "UPDATE space SET state = 'building'")
    assert "unembedded" in codes(archive)
    assert mended(archive) == []
    assert_complete(archive, files(folder))


@SQLITE_FIRST
def test_an_ingest_that_ended_before_its_first_space_is_reported_until_it_is_done_again(place, folder, monkeypatch):
    def full(*_args, **_options):
        raise CatalogWriteError("the disk is full")

    save(folder, Episode("pictures", "env", 3, observations={"rgb": Channel.of("rgb", np.zeros((3, 20, 20, 3), "u1"))}))
    change = Channel.of("state", np.full((12, 4), np.nan, "f4"))
    save(folder, Episode("nan", "env", 12, observations={"state": change}))
    monkeypatch.setattr(bridge.ingest.stages, "fill", full)
    with pytest.raises(CatalogWriteError):
        ingest(place, folder)
    monkeypatch.undo()
    for find in (check, repair):
        with open_archive(place) as opened:
            assert opened.catalog.vectors.spaces() == []
            found = find(opened)
            (finding,) = found.findings
            assert finding.code == "unembedded"
            assert finding.message.startswith("12 episodes without vectors: ")  # as many as can have some
    assert any("run the same wshard ingest as before" in line for line in found.done)
    ingest(place, folder)
    assert codes(place) == []


@SQLITE_ALONE
def test_a_row_that_points_nowhere_is_damage_of_the_database(archive):
    with sqlite3.connect(archive / "catalog.db") as raw:
        raw.execute("INSERT INTO tag VALUES ('lost', 4711)")
    raw.close()
    assert codes(archive) == ["database"]
    assert mended(archive) == ["database"]


@SQLITE_ALONE
def test_a_damaged_database_is_reported_as_such(archive):
    path = archive / "catalog.db"
    with sqlite3.connect(path) as raw:
        (page,) = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = 'review'").fetchone()
        (size,) = raw.execute("PRAGMA page_size").fetchone()
    raw.close()
    data = bytearray(path.read_bytes())
    data[(page - 1) * size : page * size] = bytes(range(256)) * (size // 256)
    path.write_bytes(data)
    assert set(codes(archive)) == {"database"}
    assert set(mended(archive)) == {"database"}


COPIED = ("vectors.f32", "points.i64", "header.json", "CURRENT", "sketches.f32", "sizes.i64")


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("sqlite", "vectors.f32"),
        *(pytest.param("sqlite", name, marks=pytest.mark.long) for name in COPIED[1:]),
        pytest.param("postgresql", "vectors.f32", marks=pytest.mark.long),
    ],
    indirect=["product"],
)
def test_a_damaged_copy_for_searching_is_made_again(archive, folder, name):
    path = next(path for path in copies(archive) if path.name == name)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x01
    path.write_bytes(data)
    assert codes(archive, data=True) == ["index"]
    assert mended(archive, data=True) == []
    assert codes(archive, data=True) == []
    assert_complete(archive, files(folder))


@SQLITE_ALONE
def test_what_interrupted_processes_left_is_removed_from_the_archive_and_reported_elsewhere(archive, folder):
    home = next(path for path in copies(archive) if path.name == "CURRENT").parent
    own, retired = home.parent.parent.parent, home.with_name("0" * 64)
    ours = [
        own / ".catalog.db.0123abcd.tmp",
        own / f".catalog.db.{'0123abcd' * 4}-wal",
        retired / "CURRENT",
        home / "building-0123456789ab" / "vectors.f32",
        home / ".CURRENT.0123abcd.tmp",
    ]
    theirs = [
        folder / ".x.wshard.0123abcd.tmp",
        own / "my.tmp",
        own / ".my.0123abcd.tmp",
        own / ".catalog.db.own",
        folder / "my.partial",
    ]
    killed = folder / ".x.wshard.89abcdef.tmp"
    ours.append(killed)
    for path in (*ours, *theirs):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(100) if path == killed else b"?")
    assert codes(archive) == []  # somebody may be writing them
    for path in (*ours, *theirs, retired, home / "building-0123456789ab"):
        os.utime(path, (HOURS_AGO, HOURS_AGO))
    assert codes(archive) == ["abandoned"] * 2 + ["leftover"] * 5
    assert mended(archive) == ["abandoned"]
    assert [path.exists() for path in ours] == [False] * 6
    assert [path.exists() for path in theirs] == [True] * 5


@SQLITE_ALONE
def test_a_killed_recording_is_reported(archive, folder):
    writer = WShardStreamWriter(folder / "new.wshard", "new", [{"id": "state", "dtype": "f32", "shape": [2]}])
    writer.begin_episode()
    assert codes(archive) == []
    os.utime(folder / "new.wshard.partial", (HOURS_AGO, HOURS_AGO))
    assert codes(archive) == ["unfinished"]
    assert mended(archive) == ["unfinished"]
    assert (folder / "new.wshard.partial").exists()
    writer.abort()


@SQLITE_ALONE
def test_a_folder_that_cannot_be_read_is_reported(archive, folder, monkeypatch):
    real = os.scandir

    def refuse(path):
        if str(path).endswith("task-1"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert codes(archive) == ["unreadable"]


@SQLITE_ALONE
def test_after_an_update_of_the_embedder_what_fsck_advises_leaves_nothing_to_find(archive, folder, monkeypatch):
    monkeypatch.setattr("embedders.trajectory.blocks.Blocks.version", 99)
    assert codes(archive) == ["outdated"]
    save(folder, episode(5, 0, 12))
    ingest(archive, folder)
    assert codes(archive) == mended(archive) == ["outdated"]  # and not also: an episode that nothing can embed there
    (old,) = (space.fingerprint for space in spaces_of(archive) if space.embedder == "blocks" and space.version != 99)
    CliRunner().invoke(app, ["index", "drop", old[:12], "--yes", "--archive", str(archive)], catch_exceptions=False)
    assert codes(archive) == []


WINDOWED = {"windows": [WindowPlan(), WindowPlan(5, 3)]}
CHOICES = ({"embedder": "stats"}, {"lanes": ["action/ctrl", "state"]}, {"lanes": {"state": 3, "action/ctrl": 0.7}})


@pytest.mark.parametrize(
    ("product", "options"),
    [*(("sqlite", options) for options in (*CHOICES, WINDOWED)), ("postgresql", WINDOWED)],
    indirect=["product"],
    ids=str,
)
def test_mending_embeds_as_it_was_embedded_before(place, folder, options):
    archive = place
    ingest(archive, folder, **options)
    before = [(space.family, space.fingerprint) for space in spaces_of(archive)]
    rewrite(files(folder)[0], episode(0, 99, 12, id="task-0-0"))
    assert mended(archive) == []
    assert [(space.family, space.fingerprint) for space in spaces_of(archive)] == before
    with opened_archive(archive) as opened:
        assert [len(opened.catalog.vectors.embedded(row.id)) for row in opened.catalog.vectors.spaces()] == [12] * len(
            before
        )


def test_two_kinds_of_episodes_keep_to_their_spaces(tmp_path, folder):
    archive = tmp_path / "archive"
    save(folder, *(episode(7, number, 12, lanes=("state", "touch")) for number in range(3)))
    ingest(archive, folder)
    assert len(spaces_of(archive)) == 2
    rewrite(files(folder)[0], episode(0, 99, 12, id="task-0-0"))
    rewrite(files(folder)[-1], episode(7, 98, 12, id="task-7-2", lanes=("state", "touch")))
    assert codes(archive) == ["changed", "changed"]
    assert mended(archive) == []
    assert_complete(archive, files(folder))


@SQLITE_ALONE
def test_a_changed_file_that_cannot_be_embedded_is_left_out_and_reported(archive, folder):
    broken = episode(0, 99, 12, id="task-0-0")
    broken.observations["state"].data[3:9] = np.nan
    rewrite(files(folder)[0], broken)
    with open_archive(archive) as opened:
        found = repair(opened)
        assert check(opened).ok  # it cannot have a vector: a flag says so, and nothing is left to mend
    assert found.ok
    assert "nan" in found.report.unembedded[0].error
    assert said(archive) == 12


def test_the_command_reports_and_repairs(archive, folder):
    run = CliRunner().invoke
    files(folder)[0].unlink()
    os.utime(files(folder)[1])
    printed = run(app, ["fsck", "-a", str(archive)])
    assert printed.exit_code == 1
    assert "missing" in printed.output
    assert "touched" in printed.output
    assert "wshard ingest FOLDER --prune" in printed.stderr
    printed = run(app, ["fsck", "-a", str(archive), "--repair", "--json"])
    assert printed.exit_code == 1
    about = json.loads(printed.stdout)
    assert about["episodes"] == 12
    assert [(one["code"], Path(one["where"]).suffix) for one in about["items"]] == [("missing", ".wshard")]
    assert about["items"][0]["advice"] == ADVICE["missing"]
    with TrajectoryIngestor(archive) as ingestor:
        ingestor.ingest(folder, prune=True)
    printed = run(app, ["fsck", "-a", str(archive), "--data"])
    assert printed.exit_code == 0
    assert "11 episodes checked: no problems found" in printed.stdout
    assert run(app, ["fsck", "-a", str(folder / "none")]).exit_code == 1
    assert run(app, ["fsck", "--unknown"]).exit_code == 2
