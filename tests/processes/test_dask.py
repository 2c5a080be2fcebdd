"""Ingest on a real Dask cluster: what one process makes, also when workers or the scheduler are lost.

WSHARD_KILLS: at how many random moments something is killed (`make torture`: 20).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from random import Random
from threading import Timer

import numpy as np
import pytest
from bridge_episodes import episode, save, vectors_of
from dask_cluster import client_of, running_scheduler, running_worker, say_who, square_all

from bridge.support.dask_workers import connect
from bridge.support.workers import workers
from wshard import TrajectoryIngestor
from wshard.errors import IngestError

EPISODES = 600  # three tasks
KILLS = int(os.environ.get("WSHARD_KILLS", "1"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Return the address of a cluster of two workers."""
    folder = tmp_path_factory.mktemp("cluster")
    with running_scheduler(folder) as (_, address), running_worker(folder, address, count=2):
        yield f"dask://{address}"


def test_a_cluster_makes_the_archive_that_one_process_makes(cluster, tmp_path):
    folder = tmp_path / "episodes"
    save(folder, *(episode(n % 5, n, 8, spread=3.0) for n in range(100)))
    (folder / "broken.wshard").write_bytes(b"SHRD" + bytes(100))
    made = []
    for name, how in (("alone", {}), ("shared", {"executor": cluster})):
        with TrajectoryIngestor(tmp_path / name) as ingestor:
            report = ingestor.ingest(folder, windows="both", **how)
        assert (report.new, report.embedded, len(report.failed)) == (100, 100, 1)
        made.append(vectors_of(tmp_path / name))
    assert made[0].keys() == made[1].keys()
    assert all(np.array_equal(rows, made[1][key]) for key, rows in made[0].items())


def test_the_tasks_of_a_killed_worker_are_done_again(cluster):
    batches = [[number] for number in range(10)]
    with workers(1, cluster) as pool:
        results = pool.each(say_who, iter(batches))
        seen = [next(results)]
        os.kill(seen[0][1], signal.SIGKILL)
        seen += results
    assert [numbers for numbers, _ in seen] == batches
    assert len({process for _, process in seen}) > 1


def test_what_ends_every_worker_is_isolated_and_the_rest_goes_on(cluster):
    batches = [range(start, start + 2) for start in range(10, 18, 2)]
    with workers(1, cluster) as pool:
        results = [*pool.each(square_all, batches, lambda number: [-number])]
    assert [one for some in results for one in some] == [-13 if number == 13 else number**2 for number in range(10, 18)]


def test_workers_of_another_version_or_without_the_files_are_refused(cluster, tmp_path, monkeypatch):
    opened = os.open(tmp_path, os.O_RDONLY)
    own = f"/proc/self/fd/{os.dup2(opened, 177)}"  # a folder that no other process has
    with (
        pytest.raises(IngestError, match=r"tcp://.*expected /proc/self/fd/177 to be there"),
        workers(1, cluster, [own]),
    ):
        pass
    os.close(177)
    os.close(opened)
    monkeypatch.setattr("bridge.support.dask_workers.__version__", "99")
    with pytest.raises(IngestError, match=r"tcp://.*expected wshard 99 as here, found"), workers(1, cluster):
        pass


def test_wrong_addresses_clusters_without_workers_and_lost_schedulers_are_said(tmp_path):
    with pytest.raises(IngestError, match=r"expected 'processes' or dask://HOST:PORT, found 'ray://x'"):
        workers(1, "ray://x").__enter__()
    with running_scheduler(tmp_path) as (scheduler, address):
        with pytest.raises(IngestError, match="expected workers, found none"):
            workers(1, f"dask://{address}").__enter__()
        with running_worker(tmp_path, address), workers(1, f"dask://{address}") as pool:
            results = pool.each(say_who, ([number] for number in range(100)))
            next(results)
            os.killpg(scheduler.pid, signal.SIGKILL)
            with pytest.raises(IngestError, match="does not answer any more; committed work is safe"):
                list(results)


def test_waiting_for_a_scheduler_or_for_workers_is_said(tmp_path, monkeypatch, caplog):
    with pytest.raises(IngestError, match="expected the scheduler of a Dask cluster"):
        connect("dask://127.0.0.1:1", IngestError, 3)
    assert "waiting for dask://127.0.0.1:1: no answer yet of its scheduler" in caplog.text
    monkeypatch.setattr("bridge.support.dask_workers._POLL", 0.1)
    monkeypatch.setattr("bridge.support.dask_workers._WORKERLESS", 1.0)
    with running_scheduler(tmp_path) as (_, address), ExitStack() as started:
        started.enter_context(running_worker(tmp_path, address))
        with workers(1, f"dask://{address}") as pool:
            results = pool.each(say_who, ([number] for number in range(100)))
            next(results)
            started.close()
            with pytest.raises(IngestError, match="no worker for 1 s"):
                list(results)
    assert caplog.text.count("no worker; waiting for one up to 1 s") == 1


def test_a_stopped_worker_is_said_before_it_answers(tmp_path, caplog):
    with running_scheduler(tmp_path) as (_, address), running_worker(tmp_path, address):
        with client_of(address) as client:
            worker = client.submit(os.getpid, pure=False).result()
        os.kill(worker, signal.SIGSTOP)
        going_on = Timer(4, os.kill, (worker, signal.SIGCONT))
        going_on.start()
        with workers(1, f"dask://{address}") as pool:
            assert [*pool.each(square_all, [[3]])] == [[9]]
        going_on.join()
    assert f"waiting for dask://{address}: no answer yet of all workers" in caplog.text


class Cluster(ExitStack):
    """A scheduler and two workers of its own."""

    def __init__(self, folder) -> None:
        super().__init__()
        folder.mkdir()
        self.scheduler, self.address = self.enter_context(running_scheduler(folder))
        self.enter_context(running_worker(folder, self.address, count=2))

    def worker(self):
        with client_of(self.address) as client:
            return client.submit(os.getpid, pure=False).result()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return a folder of episodes, the vectors that one process makes of them, and the seconds that a cluster takes."""
    folder = tmp_path_factory.mktemp("data")
    save(folder / "episodes", *(episode(n % 5, n, 8, spread=3.0) for n in range(EPISODES)))
    with TrajectoryIngestor(folder / "alone") as ingestor:
        assert ingestor.ingest(folder / "episodes").embedded == EPISODES
    with Cluster(folder / "cluster") as cluster:
        started = time.monotonic()
        process = start_ingest(folder / "episodes", folder / "shared", cluster.address)
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        seconds = time.monotonic() - started
    return folder / "episodes", vectors_of(folder / "alone"), seconds


def start_ingest(folder, archive, address):
    command = [
        sys.executable,
        "-m",
        "wshard",
        "ingest",
        folder,
        "--archive",
        archive,
        "--executor",
        f"dask://{address}",
    ]
    return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(KILLS))
def test_the_same_command_finishes_what_a_kill_at_any_moment_left(tmp_path, data, seed):
    folder, expected, seconds = data
    archive, random = tmp_path / "archive", Random(seed)
    victim = ("worker", "scheduler", "command")[seed % 3]
    with Cluster(tmp_path / "first") as cluster:
        worker = cluster.worker()
        process = start_ingest(folder, archive, cluster.address)
        time.sleep(random.random() * seconds)
        match victim:
            case "worker":
                os.kill(worker, signal.SIGKILL)
            case "scheduler":
                os.killpg(cluster.scheduler.pid, signal.SIGKILL)
            case "command":
                process.kill()
        _, errors = process.communicate(timeout=120)
        match victim:
            case "worker":
                assert process.returncode == 0, errors
            case "scheduler":
                assert process.returncode == 0 or "scheduler" in errors, errors
                assert "Traceback" not in errors
    with Cluster(tmp_path / "second") as cluster:
        process = start_ingest(folder, archive, cluster.address)
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    made = vectors_of(archive)
    assert made.keys() == expected.keys()
    assert all(np.array_equal(rows, made[key]) for key, rows in expected.items())
