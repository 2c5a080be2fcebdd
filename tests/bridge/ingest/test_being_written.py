"""HDF5 files that another program has open for writing wait for the next ingest, beside others."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from bridge_episodes import episode, save
from hdf5_files import write_aloha, write_maniskill, write_robomimic
from world_model_sets import make_columns, write_hdf5

from bridge.episodes.read import Failure
from bridge.ingest.report import IngestReport
from bridge.ingest.watch import Arrivals
from wshard import TrajectoryIngestor, load, open_archive


def write_rows(path):
    """Write a file of arrays that no format knows."""
    with h5py.File(path, "w") as file:
        file["pose"], file["command"] = np.random.default_rng(3).random((2, 30, 4))


def begin(path):
    """Write nothing: all that the library has not yet written itself is missing."""


WRITERS = {
    "robomimic": lambda path: write_robomimic(path, {"demo_0": 12, "demo_1": 12}),
    "maniskill": lambda path: write_maniskill(path, {"traj_0": 12, "traj_1": 12}),
    "aloha": lambda path: write_aloha(path, 12),
    "columns": lambda path: write_hdf5(path, make_columns()),
    "rows": write_rows,
    "nothing": begin,
}


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_that_is_open_for_writing_waits_for_the_next_ingest(tmp_path, kind, monkeypatch):
    path = tmp_path / "data" / "a.h5"
    save(tmp_path / "data", episode(0, 0, 20))
    WRITERS[kind](path)
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        with h5py.File(path, "a") as file:  # which locks it
            file.attrs["more"] = 1
            report = ingestor.ingest(tmp_path / "data")
            assert (report.new, [failure.path for failure in report.failed]) == (1, [str(path)])
            assert "another program writes to it" in report.failed[0].error
            with pytest.raises(BlockingIOError, match=r"another program writes to it.*a\.h5"):
                load(path)
            if kind == "nothing":
                return
            file.flush()
            monkeypatch.setenv("HDF5_USE_FILE_LOCKING", "FALSE")
            assert ingestor.ingest(tmp_path / "data").new > 0
            monkeypatch.undo()
        assert ingestor.ingest(tmp_path / "data").failed == []


def test_episodes_of_a_file_that_is_open_for_writing_stay_as_they_were(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    write_aloha(data / "a.hdf5", 20)
    write_aloha(data / "b.hdf5", 20)
    with open_archive(tmp_path / "archive", create=True) as lab:
        lab.ingest(data)
        query = lab.episode("b").load()
        with h5py.File(data / "a.hdf5", "a") as file:
            file["more"] = np.arange(5)
            file.flush()
            for prune in (False, True):
                report = lab.ingest(data, prune=prune)
                assert (report.unchanged, len(report.failed), report.removed) == (1, 1, 0)
            assert (len(lab.search(query, 5)), len(lab.where("flag:*"))) == (2, 0)
            found = lab.moments(query, 5)
            assert ({hit.episode_id for hit in found}, found.missing) == ({"b"}, 1)
        assert lab.ingest(data).changed == 1
        assert {hit.episode_id for hit in lab.moments(query, 5)} == {"a", "b"}


def test_watching_tries_a_file_again_that_was_being_written(tmp_path):
    path = tmp_path / "a.h5"
    write_rows(path)
    arrivals = Arrivals()
    for error, waits in ((OSError(5, "broken"), False), (BlockingIOError(11, "another program writes to it"), True)):
        arrivals.refused.clear()
        arrivals.note(str(path))
        arrivals.finish([str(path)], IngestReport(failed=[Failure(str(path), "failed", cause=error)]))
        arrivals.note(str(path))
        assert (str(path) in arrivals.waiting) is waits
