"""Ingest: what a run takes in, leaves alone and finds again; lanes, embedders and windows."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from bridge_episodes import (
    assert_complete,
    counts,
    episode,
    episodes_by_path,
    files,
    ingest,
    opened_archive,
    rewrite,
    save,
    shifted,
    spaces_of,
    vectors_of,
)
from command_line import app
from typer.testing import CliRunner

import bridge.ingest.fill
import bridge.ingest.stages
import bridge.support.batches
import bridge.support.episode_cache
from embedders import PooledCallable, WindowPlan
from wshard import Channel, TimebaseSpec, TrajectoryIngestor, TrajectoryRetriever, open_wshard, save_wshard
from wshard.errors import (
    EmbedderError,
    IngestError,
    QueryError,
    UnknownEmbedderError,
)
from wshard.testing import make_episode


@pytest.fixture
def archive(tmp_path):
    return tmp_path / "archive"


@pytest.fixture
def folder(tmp_path):
    """Return a folder with twelve episodes of three tasks."""
    save(tmp_path / "data", *(episode(task, number) for task in range(3) for number in range(4)))
    return tmp_path / "data"


# ---- again, changed, gone, moved ------------------------------------------------------------------------------------


def test_the_first_run_takes_everything_in(archive, folder):
    report = ingest(archive, folder)
    assert counts(report) == {"new": 12, "embedded": 12}
    assert report.ok
    assert_complete(archive, files(folder))
    row = episodes_by_path(archive)[files(folder)[1]]
    assert (row.episode_id, row.env_id, row.length, row.success) == ("task-0-1", "task-0", 30, False)
    assert row.total_reward == 30.0
    assert row.metadata == {"number": 1, "success": False}


def test_a_second_run_changes_nothing(archive, folder):
    ingest(archive, folder)
    before = vectors_of(archive)
    with opened_archive(archive) as opened:
        clock = opened.catalog.clock()
    assert counts(ingest(archive, folder, files(folder)[0])) == {"unchanged": 12}
    with opened_archive(archive) as opened:
        assert opened.catalog.clock() == clock
    assert vectors_of(archive).keys() == before.keys()


def test_a_touched_file_is_read_and_found_unchanged(archive, folder):
    ingest(archive, folder)
    os.utime(files(folder)[0], (1, 1))
    assert counts(ingest(archive, folder)) == {"unchanged": 12}
    assert_complete(archive, files(folder))


def test_only_the_changed_file_is_embedded_again_and_its_old_vector_is_gone(archive, folder):
    ingest(archive, folder)
    path, before = files(folder)[5], vectors_of(archive)
    uid = episodes_by_path(archive)[path].uid
    rewrite(path, episode(1, 77, id="task-1-1"))
    assert counts(ingest(archive, folder)) == {"changed": 1, "unchanged": 11, "embedded": 1}
    assert_complete(archive, files(folder))
    after = vectors_of(archive)
    assert [key[1] for key in after if not np.array_equal(after[key], before[key])] == [str(path)]
    assert episodes_by_path(archive)[path].uid == uid
    with TrajectoryRetriever(archive) as retriever:
        assert retriever.search_similar_episodes(episode(1, 1), 1)[0].score < 0.99999


def test_deleted_files_stay_catalogued_until_they_are_pruned(archive, folder, tmp_path):
    elsewhere = save(tmp_path / "elsewhere", episode(5, 0))
    ingest(archive, folder, tmp_path / "elsewhere")
    everything = files(folder)
    elsewhere[0].unlink()
    for path in everything[:3]:
        path.unlink()
    nested = files(folder)[-1].parent
    assert counts(ingest(archive, folder, nested)) == {"unchanged": 9, "missing": 3}  # each counts once
    assert counts(ingest(archive, nested)) == {"unchanged": 4}
    assert len(episodes_by_path(archive)) == 13
    assert counts(ingest(archive, folder, prune=True), "embedded") == {"unchanged": 9, "removed": 3}
    assert set(episodes_by_path(archive)) == {*everything[3:], elsewhere[0]}
    ingest(archive, tmp_path / "elsewhere", prune=True)
    assert_complete(archive, everything[3:])
    for path in everything[3:]:
        path.unlink()
    assert counts(ingest(archive, folder, prune=True)) == {"removed": 9}
    assert episodes_by_path(archive) == {}


def test_episodes_whose_files_are_gone_do_not_block_others(archive, folder):
    ingest(archive, folder)
    files(folder)[0].unlink()
    late = save(folder, *(episode(7, number, spread=30.0) for number in range(4)))
    report = ingest(archive, *late)  # the statistics move: all are embedded anew but the one that is gone
    assert report.ok
    assert report.embedded == 4 + 11
    assert len(spaces_of(archive)) == 1
    with TrajectoryRetriever(archive) as retriever:
        assert len(retriever.search_similar_episodes(episode(0, 0), 100)) == 15


def test_a_moved_file_keeps_its_uid_tags_and_vector(archive, folder):
    ingest(archive, folder)
    before, vectors = episodes_by_path(archive), vectors_of(archive)
    with opened_archive(archive) as opened:
        opened.catalog.annotations.tag([row.id for row in before.values()], "saved")
    moved = folder.parent / "moved"
    (folder / "task-1").rename(moved)
    assert counts(ingest(archive, folder, moved)) == {"unchanged": 8, "moved": 4}
    after = episodes_by_path(archive)
    for path in files(moved):
        old = folder / "task-1" / path.name
        assert (after[path].uid, after[path].id) == (before[old].uid, before[old].id)
        assert after[path].tags == ("saved",)
        assert np.array_equal(
            *(v[k] for v in (vectors, vectors_of(archive)) for k in v if Path(k[1]).name == path.name)
        )
    assert_complete(archive, [*files(folder), *files(moved)])


def test_a_moved_file_whose_name_another_episode_took_keeps_its_annotations(archive, folder, monkeypatch):
    monkeypatch.setattr("bridge.support.batches.BATCH", 1)  # so that neither meets the other by luck
    ingest(archive, folder)
    path = files(folder)[0]
    before = episodes_by_path(archive)[path]
    with opened_archive(archive) as opened:
        opened.catalog.annotations.review([before.id], "accepted")
    moved = path.rename(path.with_name("z.wshard"))  # behind the other in every order of names
    save_wshard(episode(7), path)
    assert counts(ingest(archive, folder), "embedded") == {"unchanged": 11, "moved": 1, "new": 1}
    after = episodes_by_path(archive)
    assert (after[moved].uid, after[path].uid == before.uid) == (before.uid, False)
    with opened_archive(archive) as opened:
        assert opened.catalog.query.ids("review:accepted") == [after[moved].id]
    assert_complete(archive, files(folder))


def renamed(paths, order):
    """Give the files one another's names: order has the number of the file that each name gets, None for a new one."""
    for path in paths:
        path.rename(path.with_suffix(".aside"))
    for path, number in zip(paths, order, strict=True):
        if number is None:
            save_wshard(episode(7), path)
        else:
            paths[number].with_suffix(".aside").rename(path)


@pytest.mark.parametrize(("order", "batch"), [("40123", 256), ("24n01", 1)])
def test_renumbered_files_keep_its_annotations_of_their_episodes(archive, folder, monkeypatch, order, batch):
    monkeypatch.setattr("bridge.support.batches.BATCH", batch)
    paths, numbers = files(folder)[:5], [None if name == "n" else int(name) for name in order]
    for number, path in enumerate(paths):
        os.utime(path, (number, number))  # so that none looks like another: they are of one size
    ingest(archive, folder)
    before = [episodes_by_path(archive)[path] for path in paths]
    with opened_archive(archive) as opened:
        for row in before:
            opened.catalog.annotations.tag([row.id], row.episode_id)
    renamed(paths, numbers)
    report = ingest(archive, folder)
    after = episodes_by_path(archive)
    for path, number in zip(paths, numbers, strict=True):
        now = after.pop(path)
        assert now.tags == (() if number is None else (before[number].episode_id,))
        assert number is None or now.uid == before[number].uid
    moved = sum(number not in (None, place) for place, number in enumerate(numbers))
    assert (report.moved, report.changed, report.new) == (moved, 0, numbers.count(None))
    gone = {*range(5)} - {*numbers}
    assert [(one.path, one.before) for one in report.replaced] == [(str(paths[k]), before[k].episode_id) for k in gone]
    assert [row.tags for path, row in after.items() if not path.exists()] == [(before[k].episode_id,) for k in gone]
    again = ingest(archive, folder)
    assert (again.unchanged, again.missing, again.replaced) == (12, len(gone), [])
    ingest(archive, folder, prune=True)
    assert_complete(archive, files(folder))


def test_what_lost_its_file_is_not_pruned_by_the_run_that_finds_so(archive, folder):
    ingest(archive, folder)
    first, *_, last = files(folder)
    with opened_archive(archive) as opened:
        opened.catalog.annotations.tag([episodes_by_path(archive)[first].id], "good")
    moved = first.rename(last.with_name("z.wshard"))
    save_wshard(episode(7), first)
    report = ingest(archive, first.parent, prune=True)
    assert (report.new, report.missing, report.removed) == (1, 1, 0)
    ingest(archive, folder)
    assert episodes_by_path(archive)[moved].tags == ("good",)


def test_an_episode_whose_file_another_one_took_is_found_again(archive, folder):
    ingest(archive, folder)
    first, second = files(folder)[:2]
    before = episodes_by_path(archive)
    with opened_archive(archive) as opened:
        opened.catalog.annotations.add_note([before[second].id], "spilled")
    saved = second.rename(folder.parent / "saved.wshard")
    first.rename(second)
    (message,) = ingest(archive, folder).replaced
    assert (message.path, message.before, message.now) == (
        str(second),
        before[second].episode_id,
        before[first].episode_id,
    )
    with TrajectoryRetriever(archive) as retriever:
        assert len(retriever.search_similar_episodes(episode(0, 0), 100)) == 11
    assert counts(ingest(archive, saved), "embedded") == {"moved": 1}
    after = episodes_by_path(archive)
    assert (after[second].uid, after[saved].uid) == (before[first].uid, before[second].uid)
    assert_complete(archive, [*files(folder), saved])


def test_another_episode_in_a_file_of_which_nothing_was_stated_is_what_became_of_it(archive, folder):
    ingest(archive, folder)
    path = files(folder)[0]
    before = episodes_by_path(archive)[path]
    rewrite(path, episode(7))
    assert counts(ingest(archive, folder), "embedded") == {"unchanged": 11, "changed": 1}
    after = episodes_by_path(archive)[path]
    assert (after.uid, after.episode_id) == (before.uid, episode(7).id)


def test_a_file_that_was_edited_beside_its_copy_keeps_its_annotations(archive, folder):
    ingest(archive, folder)
    path = files(folder)[0]
    before = episodes_by_path(archive)[path]
    shutil.copy(path, path.with_name("z.wshard"))
    rewrite(path, episode(0, 0, metadata={"operator": "ann"}))
    assert counts(ingest(archive, folder), "embedded") == {"unchanged": 11, "changed": 1, "new": 1}
    assert episodes_by_path(archive)[path].uid == before.uid


def test_copies_of_one_file_are_two_episodes(archive, folder):
    path = files(folder)[0]
    shutil.copy(path, path.with_name("copy.wshard"))
    ingest(archive, folder)
    shutil.copy(path, path.with_name("later.wshard"))
    assert counts(ingest(archive, folder), "embedded") == {"new": 1, "unchanged": 13}
    assert_complete(archive, files(folder))
    with TrajectoryRetriever(archive) as retriever:
        hits = retriever.search_similar_episodes(episode(0, 0), 3)
    assert [round(hit.score, 6) for hit in hits] == [1.0, 1.0, 1.0]
    assert {Path(hit.file_path).name for hit in hits} == {path.name, "copy.wshard", "later.wshard"}


def test_a_misspelt_prune_removes_nothing(archive, folder):
    ingest(archive, folder)
    files(folder)[0].unlink()
    with pytest.raises(IngestError, match="expected True, False or 'cautiously', found 'cautious'"):
        ingest(archive, folder, prune="cautious")
    assert ingest(archive, folder).missing == 1


def test_a_link_whose_file_is_gone_is_named_and_costs_no_vectors(archive, folder, tmp_path):
    links, disk = tmp_path / "links", tmp_path / "disk"
    links.mkdir()
    disk.mkdir()
    (links / "link.wshard").symlink_to(files(folder)[0].rename(disk / "one.wshard"))
    assert ingest(archive, links).embedded
    disk.rename(tmp_path / "unplugged")
    (links / "arrays.npz").symlink_to(disk / "arrays.npz")
    failures = ingest(archive, links).failed
    assert [failure.path for failure in failures] == [str(links / "arrays.npz"), str(links / "link.wshard")]
    assert failures[1].error == f"a link to {disk / 'one.wshard'}, where no file is"
    (links / "arrays.npz").unlink()
    (tmp_path / "unplugged").rename(disk)
    again = ingest(archive, links)
    assert (again.unchanged, again.embedded, again.failed) == (1, 0, [])


def test_a_link_and_its_file_are_one_episode(archive, folder, tmp_path):
    links = tmp_path / "links"
    links.mkdir()
    (links / "link.wshard").symlink_to(files(folder)[0])
    ingest(archive, links)
    assert counts(ingest(archive, folder), "embedded") == {"new": 11, "unchanged": 1}
    with TrajectoryIngestor(archive) as ingestor:
        assert ingestor.ingest_episode(links / "link.wshard", windows="whole") == ingestor.ingest_episode(
            files(folder)[0], windows="whole"
        )
    assert_complete(archive, files(folder))


# ---- lanes and embedders --------------------------------------------------------------------------------------------


def test_a_run_embeds_first_what_it_brought(archive, folder, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(
            bridge.ingest.stages, "fill", lambda *_: None
        )  # a run that was killed before it embedded anything
        ingest(archive, folder)
    taken, really = [], bridge.ingest.fill.embed_episodes
    monkeypatch.setattr(
        bridge.ingest.fill, "embed_episodes", lambda jobs, some: taken.append(some) or really(jobs, some)
    )
    save(tmp_path / "more", *(episode(5, number) for number in range(3)))
    assert counts(ingest(archive, tmp_path / "more")) == {"new": 3, "embedded": 15}
    assert [Path(one.row.path) for some in taken for one in some] == [*files(tmp_path / "more"), *files(folder)]


def test_a_search_while_the_first_ingest_is_unfinished_says_so(archive, folder, monkeypatch):
    def stopped(jobs, some):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(bridge.ingest.fill, "embed_episodes", stopped)
        with pytest.raises(KeyboardInterrupt):
            ingest(archive, folder)
    output = (
        r"run `wshard ingest`\nstill being built \(an ingest is running or was interrupted; run it again\):\n.*state"
    )
    with TrajectoryRetriever(archive) as retriever:
        with pytest.raises(QueryError, match=output):
            retriever.search_similar_episodes(episode(1, 0))
        ingest(archive, folder)
        assert retriever.search_similar_episodes(episode(1, 0), 1)[0].episode_id == "task-1-0"


def test_one_timestep_is_enough(archive, tmp_path):
    paths = save(tmp_path, episode(0, 0, 1), episode(1, 0, 1))
    assert ingest(archive, tmp_path).ok
    assert_complete(archive, paths)
    with TrajectoryRetriever(archive) as retriever:
        assert retriever.search_similar_episodes(episode(1, 0, 1), 1)[0].episode_id == "task-1-0"


def test_episodes_of_other_lanes_live_in_other_spaces(archive, folder):
    save(folder, make_episode(1), make_episode(2), make_episode(3, image_size=16))
    ingest(archive, folder)
    lanes = {tuple((lane.name, lane.shape) for lane in space.lanes) for space in spaces_of(archive)}
    assert lanes == {(("signal/state", (4,)),), (("signal/gripper", ()), ("signal/joint_pos", (7,)))}
    assert_complete(archive, files(folder))


def test_lanes_that_are_not_embedded_do_not_part_episodes(archive, folder):
    extra = Channel.of("extra", np.full((30, 2), np.nan, np.float32))
    odd = episode(4, 4)
    odd.observations["extra"] = extra
    save(folder, odd)
    assert ingest(archive, folder, lanes=["state"]).ok
    (space,) = spaces_of(archive)
    assert [lane.name for lane in space.lanes] == ["signal/state"]
    assert len(vectors_of(archive)) == 13


def test_known_files_that_lack_the_lanes_requested_are_reported(archive, folder):
    save(folder, make_episode(1))
    assert ingest(archive, folder).ok
    report = ingest(archive, folder, lanes=["joint_pos"])
    assert len(report.failed) == 12
    assert report.embedded == 1
    assert "expected signal/joint_pos, found lanes: " in report.failed[0].error
    report = ingest(archive, folder, lanes=["typo"])
    assert len(report.failed) == 13
    assert len(spaces_of(archive)) == 3


def test_lanes_that_turn_out_to_hold_no_numbers_are_left_out_or_reported_if_named(archive, folder):
    for number in (1, 2):
        odd = episode(4, number)
        odd.observations["extra"] = Channel.of("extra", np.full((30, 2), (np.nan, 1.0)[number - 1], np.float32))
        save(folder, odd)
    assert ingest(archive, folder, lanes=["state"]).ok
    assert ingest(archive, folder).unembedded == []
    report = ingest(archive, folder / "task-4", lanes=["state", "extra"])
    assert [Path(failure.path).stem for failure in report.unembedded] == ["task-4-1"]
    assert "'signal/extra': expected finite float32-sized numbers in at least 90%" in report.unembedded[0].error
    assert "found nan at timestep 0, channel 0" in report.unembedded[0].error


@pytest.mark.parametrize(
    ("embedder", "name"),
    [
        ("stats", "stats"),
        ("mean", "mean"),
        ("bridge_episodes:shifted", "bridge_episodes:shifted"),
        (PooledCallable(shifted, "own", 3), "own"),
        (PooledCallable(lambda mean: mean[:2] + 1, name="shifted"), "shifted"),
    ],
)
def test_embedders_are_given_by_name_in_person_or_as_a_function(archive, folder, embedder, name):
    assert ingest(archive, folder, embedder=embedder).ok
    (space,) = spaces_of(archive)
    assert space.embedder == name
    with TrajectoryRetriever(archive, embedder) as retriever:
        hit = retriever.search_similar_episodes(episode(2, 3), 1)[0]
    assert hit.score == pytest.approx(1.0, abs=1e-6)


def test_an_unknown_embedder_is_refused(archive):
    with pytest.raises(UnknownEmbedderError, match="arcdct"):
        TrajectoryIngestor(archive, "arkdct")
    assert not archive.exists()


def test_two_workers_make_the_vectors_that_one_makes(tmp_path, folder):
    one, two = tmp_path / "one", tmp_path / "two"
    assert ingest(one, folder, workers_count=1).ok
    assert counts(ingest(two, folder, workers_count=2)) == {"new": 12, "embedded": 12}
    found, other = vectors_of(one), vectors_of(two)
    assert found.keys() == other.keys()
    assert all(np.array_equal(found[key], other[key]) for key in found)
    with pytest.raises(EmbedderError, match="can be sent to another process"):
        ingest(two, folder, embedder=PooledCallable(lambda mean: mean, name="same"), workers_count=2)


def test_a_file_that_goes_before_it_is_embedded_is_not_a_failure(archive, folder, monkeypatch):
    first, real = files(folder)[0], bridge.ingest.fill.embed_episodes

    def late(jobs, lacking):
        first.unlink(missing_ok=True)
        return real(jobs, lacking)

    monkeypatch.setattr(bridge.ingest.fill, "embed_episodes", late)
    monkeypatch.setattr(bridge.support.episode_cache, "MOST_BYTES", 0)
    report = ingest(archive, folder)
    assert counts(report) == {"new": 12, "embedded": 11}
    assert report.ok


def test_what_others_brought_is_embedded_once_batch_by_batch(archive, folder, monkeypatch):
    ingest(archive, folder)
    with opened_archive(archive) as opened:
        ids = opened.catalog.query.ids()
        opened.catalog.episodes.withdraw(ids)
    seen, real = [], bridge.ingest.fill.embed_episodes

    def embed(jobs, lacking):
        seen.append([one.row.id for one in lacking])
        return real(jobs, lacking)

    monkeypatch.setattr(bridge.ingest.fill, "embed_episodes", embed)
    monkeypatch.setattr(bridge.support.batches, "BATCH", 5)
    assert counts(ingest(archive, folder)) == {"unchanged": 12, "embedded": 12}
    assert sorted(seen) == [ids[:5], ids[5:10], ids[10:]]


# ---- windows --------------------------------------------------------------------------------------------------------


def test_windows_are_embedded_for_the_episodes_that_were_requested(archive, folder):
    path = files(folder)[0]
    with TrajectoryIngestor(archive) as ingestor:
        ids = ingestor.ingest_timesteps(path, 8, 5)
        uid = ingestor.ingest_episode(path, windows="whole")
        assert ids == [f"{uid}:{a}-{b}" for a, b in [(0, 8), (5, 13), (10, 18), (15, 23), (20, 28), (22, 30)]]
        assert ingestor.ingest_timesteps(path, 8, 5) == ids
        assert ingestor.ingest_timesteps(path, 100, 50) == [f"{uid}:0-30"]
        ingestor.ingest(folder, windows="whole")
        for plan in (WindowPlan(8, 5), WindowPlan(100, 50)):
            (space,) = [space for space in spaces_of(archive) if space.windows == plan]
            stored = {key[1]: len(found) for key, found in vectors_of(archive).items() if key[0] == space.fingerprint}
            assert stored == {str(path): len(plan.spans(30))}
        ingestor.ingest(folder, windows=WindowPlan(8, 5))
    with TrajectoryRetriever(archive) as retriever:
        assert len(retriever.search_similar_timesteps(episode(0, 0, 8), 1000, window_size=8)) == 12 * 6


def test_a_refit_keeps_the_windows_of_episodes_that_were_not_requested_again(archive, folder):
    paths = files(folder)
    for start in range(0, 12, 4):
        ingest(archive, *paths[start : start + 4], windows=WindowPlan(8, 5))
    late = save(folder, *(episode(7, number, spread=30.0) for number in range(6)))
    assert ingest(archive, *late, windows=WindowPlan(8, 5)).embedded > 6
    (space,) = spaces_of(archive)
    assert {key[1] for key in vectors_of(archive)} == {str(path) for path in files(folder)}
    assert {key[0] for key in vectors_of(archive)} == {space.fingerprint}


def test_a_lambda_without_a_name_is_refused(archive):
    with pytest.raises(EmbedderError, match="give it a name"):
        TrajectoryIngestor(archive, lambda mean: mean)
    assert not archive.exists()


def test_a_folder_that_cannot_be_read_is_reported(archive, folder, monkeypatch):
    real = os.scandir

    def scandir(place):
        if str(place).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(place))
        return real(place)

    (folder / "locked").mkdir()
    monkeypatch.setattr(os, "scandir", scandir)
    with TrajectoryIngestor(archive) as ingestor:
        report = ingestor.ingest(folder, windows="whole")
    assert report.new == 12
    assert [(failure.path.rpartition("/")[2], failure.error) for failure in report.failed] == [
        ("locked", "Permission denied")
    ]


def test_the_catalog_knows_how_the_lanes_are_in_their_file(archive, tmp_path):
    one = episode(T=400, timebase=TimebaseSpec(tick_hz=20.0))
    for lane in (one.observations["state"], one.actions["ctrl"]):
        lane.data = lane.data.round()  # so that compressing pays
    one.observations["state"].sampling_rate_hz = 5.0
    path = tmp_path / "one.wshard"
    save_wshard(one, path, {"signal/state": "zstd:3", "action/ctrl": "lz4", "*": "none"})
    ingest(archive, path)
    with opened_archive(archive) as opened, open_wshard(path) as file:
        (lanes,) = (facts.lanes for facts in opened.catalog.query.facts(opened.catalog.query.ids()).values())
        assert {name: lane.rate for name, lane in lanes.items() if name != "signal/state"} == dict.fromkeys(
            set(lanes) - {"signal/state"}, 20.0
        )
        assert lanes["signal/state"].rate == 5.0
        found = {name: lane.storage.codec for name, lane in lanes.items()}
        assert found == dict.fromkeys(lanes, "none") | {"signal/state": "zstd", "action/ctrl": "lz4"}
        for name, lane in lanes.items():
            assert lane.storage.bytes == file.lane(name).nbytes
            assert lane.storage.stored == len(file.shard.stored(name))
        assert lanes["signal/state"].storage.stored < lanes["signal/state"].storage.bytes
        assert opened.catalog.query.count("lane.signal/state.codec:zstd lane.action/ctrl.rate:20") == 1


def test_invalid_episode_in_a_folder_is_reported_by_suffix(tmp_path):
    folder = tmp_path / "episodes"
    (folder / "raw").mkdir(parents=True)
    save(folder, episode(0, 0))
    for name in ("a.csv", "raw/b.csv", "raw/c.mp4", "README", ".hidden", "x.wshard.partial", "x.wshard.bak"):
        (folder / name).write_bytes(b"")
    with TrajectoryIngestor(folder / "archive") as ingestor:  # its own files are nobody's data
        report = ingestor.ingest(folder, windows="whole")
        assert dict(report.skipped) == {"": 1, ".mp4": 1}
        assert [path.removeprefix(f"{folder}/") for path in report.unread] == ["a.csv", "raw/b.csv"]
        assert report.ok
        assert ingestor.ingest(folder, windows="whole").skipped == report.skipped
    arguments = ["ingest", str(folder), "--archive", str(folder / "archive")]
    output = CliRunner().invoke(app, arguments)
    assert "b.csv: expected a table: Empty CSV file" in output.stderr
    assert "skipped: 1 without suffix, 1 .mp4: unrecognized format; `wshard formats`" in output.stderr
    assert json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)["skipped"][".mp4"] == 1


def test_a_location_whose_only_episode_failed_is_not_counted_as_read(tmp_path):
    (tmp_path / "20260101T000000-a-b-50.npz").write_bytes(b"no archive")
    arguments = ["ingest", str(tmp_path / "20260101T000000-a-b-50.npz"), "--archive", str(tmp_path / "archive")]
    output = CliRunner().invoke(app, arguments)
    assert "failed: " in output.stderr
    assert "read as" not in output.stderr


def test_tables_that_need_a_library_are_named_once(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.csv", None)
    save(tmp_path, episode(0, 0))
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("time,q\n0.0,1\n0.1,2\n")
    output = CliRunner().invoke(app, ["ingest", str(tmp_path), "--archive", str(tmp_path / "archive")])
    assert output.stderr.count("wshard[parquet]") == 1
    assert f"not read: {tmp_path}/a.csv, {tmp_path}/b.csv: " in output.stderr
    assert "no known layout" not in output.stderr
