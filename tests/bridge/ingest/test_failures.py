"""Ingest: what is left out and why, while everything else goes in."""

from __future__ import annotations

import os
import pickle
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bridge_episodes import (
    CHANNELS,
    assert_complete,
    command,
    counts,
    episode,
    episodes_by_path,
    files,
    ingest,
    rewrite,
    save,
    spaces_of,
    vectors_of,
)
from command_line import app
from typer.testing import CliRunner

import bridge.episodes.open
import bridge.episodes.read
import bridge.support.batches
import bridge.support.episode_cache
from bridge import check_episodes
from embedders import PooledCallable
from wshard import (
    Channel,
    DType,
    EpisodeAddress,
    FormatError,
    TrajectoryIngestor,
    TrajectoryRetriever,
    open_wshard,
    save_wshard,
)
from wshard.core.container.codec_plan import CodecPlan
from wshard.core.episode.encode import describe
from wshard.core.episode.store import store
from wshard.errors import HeaderError, IngestError, NoLaneError, NotEmbeddedWarning, SourceNotFoundError
from wshard.testing import make_episode


@pytest.fixture
def archive(tmp_path):
    return tmp_path / "archive"


@pytest.fixture
def folder(tmp_path):
    """Return a folder with twelve episodes of three tasks."""
    save(tmp_path / "data", *(episode(task, number) for task in range(3) for number in range(4)))
    return tmp_path / "data"


def test_wrong_paths_are_refused_before_anything_is_written(archive, folder, tmp_path):
    (tmp_path / "empty" / ".hidden").mkdir(parents=True)
    save(tmp_path / "empty" / ".hidden", episode())
    with TrajectoryIngestor(archive) as ingestor:
        with pytest.raises(SourceNotFoundError, match=r"no such file or folder: .*nowhere"):
            ingestor.ingest([tmp_path / "nowhere", tmp_path / "empty"])
        with pytest.raises(SourceNotFoundError, match=r"no episodes in .*empty: expected files that end in .wshard"):
            ingestor.ingest([tmp_path / "empty", tmp_path / "empty"])
        with pytest.raises(FileNotFoundError):
            ingestor.ingest_episode(tmp_path / "nowhere.wshard")
        with pytest.raises(IngestError, match="expected one episode file, found a folder"):
            ingestor.ingest_episode(folder)
    assert episodes_by_path(archive) == {}


def test_a_folder_without_episodes_does_not_stop_the_others(archive, folder, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("no format")
    with TrajectoryIngestor(archive) as ingestor:
        report = ingestor.ingest([tmp_path / "empty", folder])
    (failure,) = report.failed
    assert (report.new, failure.path) == (12, str(tmp_path / "empty"))
    assert "expected files that end in .wshard" in failure.error
    result = CliRunner().invoke(app, ["ingest", str(tmp_path / "empty"), str(folder), "--archive", str(tmp_path / "b")])
    assert result.exit_code == 1
    assert "12 new" in result.stdout
    assert "1 failed" in result.stdout
    with TrajectoryIngestor(archive) as ingestor:
        checked = check_episodes(ingestor._archive, [tmp_path / "empty", folder])
    assert [one.path for one in checked if any(found.check == "integrity" for found in one.findings)] == [failure.path]
    assert len(checked) == 13


@pytest.mark.parametrize("prune", [False, True])
def test_a_wrong_path_does_not_stop_the_others(archive, folder, prune):
    with TrajectoryIngestor(archive) as ingestor:
        report = ingestor.ingest(["typo", folder, "s3-typo://bucket/x"], prune=prune)
    assert report.new == 12
    assert [one.path.rpartition("/")[2] for one in report.failed] == (["x", "typo"] if prune else ["typo", "x"])
    assert any(one.error.startswith("no such file or folder") for one in report.failed)


def test_the_error_of_one_episode_is_the_one_that_reading_it_raised(archive, tmp_path, monkeypatch):
    save(tmp_path, episode(9, 9))
    (path,) = files(tmp_path)
    path.write_bytes(path.read_bytes()[:-10])
    opened, really = [], bridge.episodes.open.open_episode

    def opening(address, *, hashed):
        opened.append(str(address))
        return really(address, hashed=hashed)

    monkeypatch.setattr(bridge.episodes.open, "open_episode", opening)
    with TrajectoryIngestor(archive) as ingestor, pytest.raises(HeaderError, match=r"total file size .* says"):
        ingestor.ingest_episode(path)
    assert opened == [str(path)]


def with_value(value, step=7, lane="state"):
    broken = episode(9, 9)
    data = broken.observations[lane].data.astype(getattr(value, "dtype", np.float64))
    data[step, 2] = data[step + 1 : step + 9] = value  # too many values to bridge them
    return episode(9, 9, observations={lane: Channel.of(lane, data)})


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -1e300, np.float16(np.inf), np.float32(np.nan)])
def test_a_number_that_is_not_finite_is_reported_with_lane_and_timestep_and_gets_no_vector(archive, folder, value):
    ingest(archive, folder)
    (path,) = save(folder, with_value(value))
    message = (
        rf"task-9-9.*catalogued, not embedded: lane 'signal/state'.*{re.escape(str(value))} at timestep 7, channel 2"
    )
    with TrajectoryIngestor(archive) as ingestor, pytest.warns(NotEmbeddedWarning, match=message):
        ingestor.ingest_episode(path)
    assert path in episodes_by_path(archive)
    assert str(path) not in {known for _, known in vectors_of(archive)}
    assert ingest(archive, folder).failed == []


def test_windows_that_got_no_vectors_have_no_ids(archive, folder):
    (path,) = save(folder, with_value(np.nan))
    ingest(archive, folder)
    for _ in range(2):
        with TrajectoryIngestor(archive) as ingestor, pytest.warns(NotEmbeddedWarning, match="not embedded"):
            assert ingestor.ingest_timesteps(path, 8, 4) == []


def test_an_episode_without_observation_vectors_is_catalogued_with_what_it_has(archive, tmp_path):
    image = Channel.of("camera", np.zeros((30, 16, 16, 3), np.uint8))
    (path,) = save(tmp_path, episode(observations={"camera": image}))
    message = r"no observation lane to embed.*signal/camera u8\[16, 16, 3\]"
    with TrajectoryIngestor(archive) as ingestor, pytest.warns(NotEmbeddedWarning, match=message):
        ingestor.ingest_episode(path)
    assert list(episodes_by_path(archive)) == [path]
    assert spaces_of(archive) == []
    with TrajectoryIngestor(archive, lanes=["action/ctrl"]) as ingestor:
        ingestor.ingest_episode(path)
    assert spaces_of(archive)[0].channels == 2


def test_a_lane_of_bf16_is_not_embedded_and_the_refusal_says_so(archive, tmp_path):
    state = Channel("state", DType.BFLOAT16, [3], np.zeros((30, 3), np.uint16))
    (path,) = save(tmp_path, episode(observations={"state": state}))
    with (
        TrajectoryIngestor(archive) as ingestor,
        pytest.warns(NotEmbeddedWarning, match=r"none.*state bf16\[3\]"),
    ):
        ingestor.ingest_episode(path)


def test_an_episode_without_the_lanes_that_were_named_is_refused(archive, tmp_path):
    (path,) = save(tmp_path, episode())
    for named, message in (
        ("typo", "signal/typo"),
        ("omen/state/dreamer", "omen/state/dreamer"),
        ("action/x", "action/x"),
    ):
        with (
            TrajectoryIngestor(archive, lanes=[named]) as ingestor,
            pytest.raises(NoLaneError, match=f"expected {message}, found"),
        ):
            ingestor.ingest_episode(path)
    assert episodes_by_path(archive) == {}


def test_broken_files_are_reported_and_do_not_block_others(archive, folder, tmp_path):
    good, whole = files(folder), files(folder)[0].read_bytes()
    with open_wshard(good[0]) as file:
        place = file.shard.entry("signal/state").data_offset
    broken = {
        "nothing.wshard": b"",
        "text.wshard": b"this is no episode at all, only text that is longer than any header would be",
        "half.wshard": whole[: len(whole) // 2],
        "flipped.wshard": whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :],
    }
    for name, data in broken.items():
        (folder / name).write_bytes(data)
    os.mkfifo(folder / "pipe.wshard")
    (folder / "dangling.wshard").symlink_to(tmp_path / "nowhere")
    report = ingest(archive, folder)
    assert counts(report) == {"new": 12, "embedded": 12}
    assert not report.ok
    message = {Path(failure.path).name: failure.error for failure in report.failed}
    assert message.keys() == {*broken, "pipe.wshard", "dangling.wshard"}
    assert "expected a regular file" in message["pipe.wshard"]
    assert "nowhere, where no file is" in message["dangling.wshard"]
    assert_complete(archive, good)
    with TrajectoryIngestor(archive) as ingestor:
        for name in broken:
            with pytest.raises(FormatError, match=name):
                ingestor.ingest_episode(folder / name)
    assert_complete(archive, good)


def test_a_file_that_becomes_broken_is_not_a_hit_any_more_until_it_is_repaired(archive, folder):
    ingest(archive, folder)
    path = files(folder)[3]
    whole, times = path.read_bytes(), path.stat().st_mtime_ns
    path.write_bytes(whole[:100])
    for _ in range(2):
        report = ingest(archive, folder)
        assert [Path(failure.path) for failure in report.failed] == [path]
        with TrajectoryRetriever(archive) as retriever:
            hits = retriever.search_similar_episodes(episode(0, 3), 100)
        assert len(hits) == 11
        assert path not in {Path(hit.file_path) for hit in hits}
    path.write_bytes(whole)
    os.utime(path, ns=(times, times))
    assert counts(ingest(archive, folder)) == {"unchanged": 12, "embedded": 1}
    assert_complete(archive, files(folder))


def test_an_episode_that_the_embedder_cannot_take_does_not_block_others(archive, folder):
    def picky(mean):
        return mean if mean[0] < 1.0 else mean[:1]

    report = ingest(archive, folder, embedder=PooledCallable(picky, "picky"))
    left_out = {Path(failure.path).parent.name for failure in report.failed}
    assert 0 < len(report.failed) == 12 - report.embedded < 12
    assert "task-2" in left_out
    assert all("answers of size 4, found 1" in failure.error for failure in report.failed)
    with TrajectoryRetriever(archive, PooledCallable(picky, "picky")) as retriever:
        assert len(retriever.search_similar_episodes(np.zeros(CHANNELS) + 0.1, 100)) == report.embedded


class _At:
    """Progress that does something when a stage begins."""

    def __init__(self, stage, action) -> None:
        self.awaited, self.action = stage, action

    def stage(self, what, total):
        if what == self.awaited and total:
            self.awaited = None
            self.action()

    def advance(self, count):
        return


def test_a_file_that_changes_or_goes_while_it_is_ingested_gets_no_wrong_vector(archive, folder, monkeypatch):
    monkeypatch.setattr(bridge.support.episode_cache, "MOST_BYTES", 0)  # each is read again to be embedded
    first, second, *others = files(folder)

    def disturb():
        rewrite(first, episode(0, 50, id="task-0-0"))
        second.unlink()

    report = ingest(archive, folder, progress=_At("embedding", disturb))
    assert [Path(failure.path) for failure in report.failed] == [first]
    assert "changed while it was being ingested: run the command again" in report.failed[0].error
    assert {path for _, path in vectors_of(archive)} == set(map(str, others))
    assert ingest(archive, folder, prune=True).ok
    assert_complete(archive, files(folder))
    report = ingest(archive.parent / "other", folder, progress=_At("reading", others[-1].unlink))
    assert [failure.error for failure in report.failed] == ["no such file"]
    assert_complete(archive.parent / "other", files(folder))


def test_a_name_that_no_catalog_can_hold_is_reported(archive, folder):
    bad = os.fsencode(files(folder)[0].parent) + b"/not-\xff-text.wshard"
    shutil.copy(os.fsencode(files(folder)[0]), bad)
    for expected in ({"new": 12, "embedded": 12}, {"unchanged": 12}):
        report = ingest(archive, folder)
        assert counts(report) == expected
        assert [os.fsencode(failure.path) for failure in report.failed] == [bad]


def test_an_episode_without_timesteps_is_refused(archive, tmp_path):
    empty = replace(episode(), length=0, observations={}, actions={}, rewards=None)
    path = tmp_path / "empty.wshard"
    store(path, *describe(empty), CodecPlan.of("none"))
    with TrajectoryIngestor(archive) as ingestor, pytest.raises(IngestError, match="expected at least one timestep"):
        ingestor.ingest_episode(path)
    assert episodes_by_path(archive) == {}


def test_a_flipped_bit_of_the_header_does_not_block_others(archive, folder):
    """The place of the JSON section lies far behind any file, and all blocks are whole."""
    path = files(folder)[3]
    save_wshard(make_episode(1, 200, image_size=8), path)
    data = bytearray(path.read_bytes())
    data[39] ^= 0x80
    path.write_bytes(data)
    assert len(data) > 50_000  # small files are read whole
    assert counts(ingest(archive, folder)) == {"new": 12, "embedded": 12}


def test_an_error_that_no_one_expected_is_one_file_s_and_says_so(archive, folder, monkeypatch):
    first, second, third, *others = map(str, files(folder))
    opened, real = bridge.episodes.open.open_episode, bridge.episodes.read.summarise

    def failing(address, **options: object):
        if str(address) == first:
            raise OverflowError("Python int too large to convert to C long")
        return opened(address, **options)

    def summarise(numbers, **options: object):
        if any(one.lanes["signal/state"].sum() == odd for one in numbers):
            raise ZeroDivisionError
        return real(numbers, **options)

    with open_wshard(second) as file:
        odd = file.lane("state").sum()
    monkeypatch.setattr(bridge.episodes.open, "open_episode", failing)
    monkeypatch.setattr(bridge.episodes.read, "summarise", summarise)
    report = ingest(archive, folder)
    assert counts(report) == {"new": 10, "embedded": 10}
    message = {failure.path: failure.error for failure in report.failed}
    assert list(message) == [first, second]
    assert re.fullmatch(r"unexpected OverflowError \(test_\w+.py, line \d+\): Python int too large.*", message[first])
    assert re.fullmatch(r"unexpected ZeroDivisionError \(.*\): no message", message[second])
    assert {path for _, path in vectors_of(archive)} == {third, *others}
    monkeypatch.undo()

    def failing_later(address, *, hashed):  # where vectors are made: chunks were hashed when the episode was read
        return (opened if hashed else failing)(address, hashed=hashed)

    monkeypatch.setattr(bridge.episodes.open, "open_episode", failing_later)
    monkeypatch.setattr(bridge.support.episode_cache, "MOST_BYTES", 0)
    report = ingest(archive.parent / "other", folder)
    assert (counts(report), [failure.path for failure in report.failed]) == ({"new": 12, "embedded": 11}, [first])

    def interrupted(path, **options: object):
        raise KeyboardInterrupt

    monkeypatch.setattr(bridge.episodes.open, "open_episode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ingest(archive.parent / "third", folder)


def test_an_interrupted_command_says_what_stays_and_how_to_resume(archive, folder, monkeypatch):
    opened, moments = bridge.episodes.open.open_episode, iter(())

    def interrupted(path, **options: object):
        if next(moments):
            raise KeyboardInterrupt
        return opened(path, **options)

    monkeypatch.setattr(bridge.episodes.open, "open_episode", interrupted)
    for before, left in ((3, "the archive has no episodes yet"), (8, "the archive has 8 episodes, which stay")):
        moments = iter([False] * before + [True])
        done = command("ingest", folder, "-a", archive, folder=folder.parent)
        assert done.exit_code == 130
        assert done.stderr.splitlines()[-1] == f"interrupted: {left}; run the same command again to resume"
    monkeypatch.undo()
    assert "4 new" in command("ingest", folder, "-a", archive, folder=folder.parent).stdout


def greedy(mean):
    if mean[0] > 1.0:
        raise MemoryError
    return mean


@pytest.mark.parametrize("workers", [1, 2])
def test_an_episode_for_which_the_memory_is_too_small_does_not_block_others(archive, folder, workers, monkeypatch):
    monkeypatch.setattr(bridge.support.batches, "BATCH", 4)
    report = ingest(archive, folder, embedder=PooledCallable(greedy, "greedy"), workers_count=workers)
    assert 0 < len(report.failed) == 12 - report.embedded < 12
    assert all(failure.error.startswith("unexpected MemoryError") for failure in report.failed)


def test_a_failure_that_came_from_another_process_may_hold_any_error():
    class Crooked(Exception):  # noqa: N818  (nobody's, and not to be sent anywhere)
        def __init__(self, one: str, two: str) -> None:
            super().__init__(one + two)

    failure = bridge.episodes.read.Failure.of(Crooked("a", "b"), EpisodeAddress("x.wshard"))
    assert pickle.loads(pickle.dumps(failure)) == failure  # noqa: S301
    assert failure.error == "unexpected Crooked: ab"
