"""The rate of an episode that states none is that of its clock, if that is regular."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from bridge.present.episodes import find_rate, present_details
from wshard import Channel, Episode, open_archive, save_wshard

COUNT = 90
STEADY = np.arange(COUNT) / 50
JITTERY = STEADY + np.random.default_rng(0).uniform(-0.004, 0.004, COUNT)
GAPS = STEADY + (np.arange(COUNT) > 40) * 0.5
IRREGULAR = np.cumsum(np.random.default_rng(1).exponential(0.02, COUNT))
ROWS = np.random.default_rng(2).normal(size=(COUNT, 3)).astype(np.float32)


def write_robomimic(path, times):
    with h5py.File(path, "w") as file:
        for number in range(2):
            group = file.create_group(f"data/demo_{number}")
            group.attrs["num_samples"] = COUNT
            group["actions"], group["obs/state"], group["obs/time"] = ROWS, ROWS, times


def write_groups(path, times):
    with h5py.File(path, "w") as file:
        for number in range(2):
            group = file.create_group(f"episode_{number}")
            group["action"], group["qpos"], group["time"] = ROWS, ROWS, times


def write_own(path, times, *, stamped):
    ep = Episode("e", observations={"state": Channel.of("state", ROWS)}, actions={"a": Channel.of("a", ROWS)})
    ep.length = COUNT
    if stamped:
        ep.timestamps_ns = np.rint(times * 1e9).astype(np.int64)
    else:
        ep.observations["time_s"] = Channel.of("time_s", times)
    save_wshard(ep, path)


WRITERS = {
    "robomimic.hdf5": write_robomimic,
    "groups.h5": write_groups,
    "stamped.wshard": lambda path, times: write_own(path, times, stamped=True),
    "observed.wshard": lambda path, times: write_own(path, times, stamped=False),
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_rate_of_a_regular_clock_is_that_of_the_episode(tmp_path, name):
    clocks = {"steady": STEADY, "jittery": JITTERY, "gaps": GAPS, "irregular": IRREGULAR, "still": 0 * STEADY}
    with open_archive(tmp_path / "lab", create=True) as archive:
        for clock, times in clocks.items():
            (tmp_path / clock).mkdir()
            WRITERS[name](tmp_path / clock / name, times)
        archive.ingest([tmp_path / clock / name for clock in clocks])
        rows = [*archive.catalog.episodes.rows(archive.catalog.query.ids()).values()]
        found = {
            row.path.split("/")[-2]: find_rate(about["stored_lanes"])
            for row, about in zip(rows, present_details(archive.catalog, rows), strict=True)
        }
    for clock in ("steady", "jittery", "gaps"):
        assert found[clock][0] == pytest.approx(50, rel=0.01), clock
    assert found["steady"][1] == "50 Hz"
    for clock in ("irregular", "still"):
        is_clock = name == "stamped.wshard" or (name, clock) == ("groups.h5", "irregular")
        assert found[clock] == (None, "irregular clock" if is_clock else "no rate stated"), clock
