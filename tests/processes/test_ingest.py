"""Ingests that are killed, interrupted, or run at once: nothing twice, nothing missing."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path
from random import Random
from threading import Event

import pytest
from bridge_episodes import (
    INGEST,
    assert_complete,
    episode,
    ingest,
    opened_archive,
    save,
    spaces_of,
    start,
    vectors_of,
)

from bridge.support import batches
from bridge.support.blas_threads import blas_threads
from bridge.support.workers import interrupts_held, workers
from embedders import WindowPlan
from wshard import TrajectoryIngestor, TrajectoryRetriever
from wshard.errors import IngestError

EPISODES = 40  # more than two transactions of a child
KILLS = int(os.environ.get("WSHARD_TORTURE", "1"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return a folder of episodes, the paths in it, and an archive of the first few, whose statistics are others."""
    folder = tmp_path_factory.mktemp("data")
    paths = save(folder / "all", *(episode(n % 5, n, 8, spread=3.0) for n in range(EPISODES)))
    begun = folder / "begun"
    ingest(begun, *(path for path in paths if path.parent.name == "task-0"))
    return folder / "all", paths, begun


def child(archive, folder, count=1):
    process = start(INGEST, archive, folder, count)
    assert process.stdout.readline() == "go\n"
    return process


def finish(processes):
    """Wait for each; where one fails or hangs, none is left running with open pipes."""
    try:
        for process in processes:
            _, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("seed", range(KILLS))
def test_killed_at_any_moment_the_next_run_finishes_the_work(tmp_path, data, seed):
    folder, paths, begun = data
    archive, random = tmp_path / "archive", Random(seed)
    if seed % 2:
        shutil.copytree(begun, archive)  # statistics will be taken anew
    victim = child(archive, folder)
    time.sleep(random.random() * 0.3)
    victim.kill()
    victim.communicate()
    report = ingest(archive, folder)
    assert report.ok
    assert report.new + report.unchanged + report.changed == EPISODES
    assert_complete(archive, paths)


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.long)])
def test_an_interrupted_run_is_resumed(tmp_path, data, count):
    folder, paths, _ = data
    archive = tmp_path / "archive"
    victim = child(archive, folder, count)
    while not victim.stdout.readline().startswith("embedding"):
        pass
    victim.send_signal(signal.SIGINT)
    _, errors = victim.communicate(timeout=60)
    assert victim.returncode in (0, 1, -signal.SIGINT, 130)
    assert errors == "" or "KeyboardInterrupt" in errors
    with opened_archive(archive) as opened:
        assert opened.catalog.query.count() == EPISODES
    assert ingest(archive, folder).ok
    assert_complete(archive, paths)


def test_two_ingests_of_one_folder_at_once(tmp_path, data):
    folder, paths, begun = data
    archive = shutil.copytree(begun, tmp_path / "archive")
    finish([start(INGEST, archive, folder, 1) for _ in range(2)])
    assert_complete(archive, paths)


def test_what_no_one_brought_is_shared_by_those_who_embed_it(tmp_path, data, monkeypatch):
    folder, paths, _ = data
    archive = tmp_path / "archive"
    ingest(archive, folder)
    monkeypatch.setattr(batches, "BATCH", 2)

    def embed(_: int) -> int:
        with TrajectoryIngestor(archive, "dct") as ingestor:
            return ingestor.ingest(folder, windows="whole").embedded

    with ThreadPoolExecutor(2) as both:
        embedded = sum(both.map(embed, range(2)))
    assert EPISODES <= embedded < 1.4 * EPISODES
    with TrajectoryRetriever(archive, "dct") as retriever:
        assert len(retriever.search_similar_episodes(paths[0], EPISODES + 1)) == EPISODES


@pytest.mark.long
def test_two_ingests_of_two_folders_with_other_statistics(tmp_path):
    one = save(tmp_path / "one", *(episode(0, n, 8) for n in range(40)))
    two = save(tmp_path / "two", *(episode(5, n, 8, spread=20.0) for n in range(40)))
    archive = tmp_path / "archive"
    finish([start(INGEST, archive, tmp_path / name, 1) for name in ("one", "two")])
    assert_complete(archive, [*one, *two])


class Overtaken:
    """Progress that does something else at the n-th report."""

    def __init__(self, moment, action) -> None:
        self.left, self.action = moment, action

    def stage(self, what, total):
        self.advance(total)

    def advance(self, count):
        self.left -= 1
        if self.left == -1:
            self.action()


MOMENTS = [*((WindowPlan(), moment) for moment in (2, 6, 0, 4)), *((WindowPlan(5, 4), moment) for moment in (1, 3, 6))]


@pytest.mark.parametrize(("windows", "moment"), MOMENTS if KILLS > 2 else MOMENTS[::4])
def test_an_ingest_that_is_overtaken_by_another_leaves_nothing_out(tmp_path, moment, windows):
    archive = tmp_path / "archive"
    first = save(tmp_path / "first", *(episode(0, n, 8) for n in range(5)))
    own = save(tmp_path / "own", *(episode(1, n, 8, spread=5.0) for n in range(9)))
    other = save(tmp_path / "other", *(episode(2, n, 8, spread=50.0) for n in range(9)))
    ingest(archive, *first, windows=windows)

    def overtake():
        assert ingest(archive, *other, windows=windows).ok
        with TrajectoryRetriever(archive) as retriever:
            find = retriever.search_similar_episodes if windows.whole else retriever.search_similar_timesteps
            assert len({hit.uid for hit in find(episode(2, 0, 8, spread=50.0), 1000)}) >= len(first) + len(other)

    watch = Overtaken(moment, overtake)
    assert ingest(archive, *own, windows=windows, progress=watch).ok
    if watch.left >= 0:
        overtake()
    with opened_archive(archive) as opened:
        assert [row.state for row in opened.catalog.vectors.spaces()][-1:] == ["active"]
        assert {row.state for row in opened.catalog.vectors.spaces()} <= {"active", "retired"}
    assert {path for _, path in vectors_of(archive)} == {str(path) for path in (*first, *own, *other)}
    assert {fingerprint for fingerprint, _ in vectors_of(archive)} == {
        space.fingerprint for space in spaces_of(archive)
    }
    assert len(spaces_of(archive)) == 1
    if windows.whole:
        assert_complete(archive, [*first, *own, *other])


@pytest.mark.long
def test_searches_beside_an_ingest_see_more_and_more(tmp_path, data):
    folder, _, begun = data
    archive = tmp_path / "archive"
    shutil.copytree(begun, archive)
    with TrajectoryRetriever(archive) as retriever:
        process, seen = child(archive, folder), 0
        while process.poll() is None:
            hits = retriever.search_similar_episodes(episode(0, 0, 8, spread=3.0), EPISODES)
            assert len(hits) >= seen
            assert hits[0].score == pytest.approx(1.0, abs=1e-6)
            seen = len(hits)
        finish([process])
        assert len(retriever.search_similar_episodes(episode(1, 1, 8, spread=3.0), 10_000)) == EPISODES


@pytest.mark.long
def test_no_worker_outlives_an_ingest_that_is_killed(tmp_path, data, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    victim = child(tmp_path / "archive", data[0], 3)
    while (line := victim.stdout.readline().split())[:1] != ["workers"] or len(line) < 3:
        pass
    victim.kill()
    victim.wait()
    victim.stdout.close()
    victim.stderr.close()
    left, deadline = [int(number) for number in line[1:]], time.monotonic() + 20
    while (left := [*filter(_alive, left)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    for number in left:
        os.kill(number, signal.SIGKILL)
    assert left == []
    assert [*scratch.iterdir()] == []


def _alive(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_worker_that_dies_is_reported():
    with workers(2) as crew, pytest.raises(IngestError, match="a worker process died"):
        list(crew.each(_die, range(500)))


def _die(_):
    if multiprocessing.parent_process() is not None:
        os._exit(3)
    time.sleep(0.05)


@pytest.mark.long
def test_nobody_waits_for_processes_that_start():
    with workers(2) as crew:
        assert {*crew.each(_own_process, range(50))} == {os.getpid()}


def _own_process(_):
    return os.getpid()


@pytest.mark.long
def test_batches_are_worked_off_in_order_by_all_hands_and_a_single_one_starts_none():
    with workers(3) as crew:
        assert list(crew.each(_who, [7])) == [(7, os.getpid())]
        assert multiprocessing.active_children() == []
        numbers, processes = [], set()
        for number, process in crew.each(_who, takewhile(lambda _: len(processes) < 3, range(10_000))):
            numbers.append(number)
            processes.add(process)
    assert numbers == list(range(len(numbers)))
    assert os.getpid() in processes
    assert len(processes) == 3


def _who(number):
    time.sleep(0.005)
    return number, os.getpid()


def test_a_ctrl_c_that_another_thread_takes_waits_until_the_processes_are_started():
    """A program's libraries run threads, and the system hands the signal to any that does not block it."""
    let_go, went_on = Event(), []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupted_while_starting():
        with interrupts_held():
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(20):  # moments in which Python looks for signals
                time.sleep(0.01)
            went_on.append(True)

    with ThreadPoolExecutor(1) as threads:
        threads.submit(let_go.wait)
        try:
            with pytest.raises(KeyboardInterrupt):
                interrupted_while_starting()
        finally:
            let_go.set()
            after = signal.signal(signal.SIGINT, before)
    assert went_on
    assert after is signal.default_int_handler


def threads_of_blas(_: object) -> set[int]:
    time.sleep(0.2)  # so that the others get some of it
    return {library.num_threads for library in blas_threads().lib_controllers}


@pytest.mark.long
@pytest.mark.parametrize("count", [1, 2])
def test_each_process_has_one_thread_of_blas(count):
    before = [library.num_threads for library in blas_threads().lib_controllers]
    assert before, "numpy's BLAS is known"
    with blas_threads().limit(limits=2), workers(count) as crew:
        assert list(crew.each(threads_of_blas, range(4 * count**3))) == [{1}] * 4 * count**3
    assert [library.num_threads for library in blas_threads().lib_controllers] == before
