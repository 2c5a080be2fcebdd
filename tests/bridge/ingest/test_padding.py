"""Padding at the end of episodes sets no scale, has no clock, and is no reason to leave an episode out."""

from __future__ import annotations

import numpy as np
import pytest
from bridge_episodes import command

from embedders.space import Space
from wshard import open_archive

LENGTH = 60


def write(folder, pad):
    """Write ten files of about 40 timesteps, padded to 60: by zeros, the last row, NaN; with "", as they are."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for number in range(10):
        count = int(rng.integers(35, 45))
        arrays = {
            "state": rng.normal(size=(count, 4)).cumsum(0) * 0.1 + [9, 0, 0, -5],
            "action": rng.normal(size=(count, 2)),
            "time": np.arange(count) * 0.05,
        }
        ends = {"0": np.zeros_like, "last": lambda rows: rows, "nan": lambda rows: np.full_like(rows, np.nan)}
        padded = {
            name: np.concatenate([rows, *[ends[pad](rows[-1:])] * (LENGTH - count)]) if pad else rows
            for name, rows in arrays.items()
        }
        np.savez(folder / f"{number}.npz", **padded)


def scale(archive):
    spaces = [Space.from_json(row.definition) for row in archive.catalog.vectors.spaces("active")]
    (found,) = [space.statistics for space in spaces if space.windows.whole]
    return found.std


@pytest.mark.parametrize("pad", ["0", "last", "nan"])
def test_padding_is_reported_and_counts_nowhere(tmp_path, pad):
    for name, how in (("plain", ""), ("padded", pad)):
        write(tmp_path / name, how)
        done = command("ingest", name, "--archive", f"of-{name}", folder=tmp_path)
        assert "10 new, 10 embedded" in done.stdout, done.output
        assert ("padding at the end in 10 episodes (all channels)" in done.stderr) == (name == "padded")
    with open_archive(tmp_path / "of-plain") as plain, open_archive(tmp_path / "of-padded") as padded:
        assert np.allclose(scale(plain), scale(padded), rtol=0.1)
        assert padded.where("flag:clock") == []
        assert {row.length for row in padded.catalog.query.select("").rows} == {LENGTH}
        nearest = {hit.episode_id for hit in plain.search("3", 4)}
        assert len(nearest & {hit.episode_id for hit in padded.search("3", 4)}) >= 3
