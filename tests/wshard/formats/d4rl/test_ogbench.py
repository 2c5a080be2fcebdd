"""OGBench files, plain and compressed."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from wshard import FormatError, detect_format, open_episode, open_source
from wshard.errors import LimitError
from wshard.formats.d4rl.ogbench import OgbenchSource


def rows_of(*lengths: int):
    """Return the arrays of episodes with so many rows, as OGBench has them."""
    count, rng = sum(lengths), np.random.default_rng(0)
    return {
        "observations": rng.standard_normal((count, 5)).astype(np.float32),
        "actions": rng.standard_normal((count, 2)).astype(np.float32),
        "terminals": np.isin(np.arange(count), np.cumsum(lengths) - 1).astype(np.float32),
        "qpos": rng.standard_normal((count, 3)),
        "pixels": rng.integers(0, 256, (count, 20, 20, 3), np.uint8),
    }


@pytest.fixture(params=[np.savez, np.savez_compressed], ids=["plain", "compressed"])
def save(request):
    return request.param


def test_an_episode_has_a_row_more_than_actions(tmp_path, save):
    path, rows = tmp_path / "antmaze-large-navigate-v0-val.npz", rows_of(4, 7)
    save(path, **rows)
    assert detect_format(path) == "ogbench"
    with open_source(path, "ogbench") as source:
        assert source.keys() == ["0", "1"]
        for key, begin, steps in (("1", 4, 6), ("0", 0, 3)):  # back to front
            info, episode = source.info(key), source.load(key)
            episode.validate()
            assert (info.id, info.length) == (f"episode_{key}", steps)
            for name in ("observations", "qpos", "pixels"):
                assert np.array_equal(episode[name], rows[name][begin : begin + steps])
            assert np.array_equal(episode["action/actions"], rows["actions"][begin : begin + steps])
            assert episode.terminations.tolist() == [False] * (steps - 1) + [True]
            assert info.metadata == {
                "split": "val",
                "final_observation": {name: rows[name][begin + steps].tolist() for name in ("observations", "qpos")},
            }
        assert np.array_equal(source.lane("1", "signal/observations", 2, 5), rows["observations"][6:9])
        sent, opened = pickle.dumps(source), source.open("1")
    assert np.array_equal(opened.lane("qpos"), rows["qpos"][4:10])
    opened.close()
    with pickle.loads(sent) as again:  # noqa: S301  (our own)
        assert again.load("0").length == 3


def test_rows_after_the_last_end_are_an_episode(tmp_path, save):
    rows = rows_of(4, 5)
    rows["terminals"][8] = 0
    save(tmp_path / "a.npz", **rows)
    with OgbenchSource(tmp_path / "a.npz") as source:
        assert source.info("1").metadata["unfinished"] is True
        assert "split" not in source.info("1").metadata
        assert source.load("1").terminations.tolist() == [False] * 4


def test_a_large_file_is_not_read_as_a_whole(tmp_path):
    """A column that would be 2 GiB: only what is needed is decompressed."""
    rows = rows_of(4, 5)
    rows["observations"] = np.zeros((9, 1 << 20), np.float32)
    np.savez_compressed(tmp_path / "a.npz", **rows)
    with open_episode(f"{tmp_path}/a.npz#0") as episode:
        assert episode["observations"][0:1].shape == (1, 1 << 20)


def test_hostile_files_are_refused(tmp_path):
    rows = rows_of(4, 5)
    path = tmp_path / "a.npz"
    np.savez(path, **rows | {"extra": np.array([{}] * 9, dtype=object)})
    with OgbenchSource(path) as source, pytest.raises(FormatError, match="objects, which are never loaded"):
        source.info("0")
    np.savez(path, **rows | {"observations": rows["observations"][:5]})
    with OgbenchSource(path) as source, pytest.raises(FormatError, match="'observations': expected 9 rows"):
        source.info("0")
    np.savez_compressed(path, **rows | {"qpos": np.asfortranarray(rows["qpos"])})
    with OgbenchSource(path) as source, pytest.raises(FormatError, match="Fortran order"):
        source.info("0")
    np.savez_compressed(path, **rows)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FormatError, match=r"a\.npz"):
        OgbenchSource(path).keys()
    place = whole.index(b"observations.npy") + 400  # in the compressed values
    path.write_bytes(whole[:place] + bytes(64) + whole[place + 64 :])
    with OgbenchSource(path) as source, pytest.raises((FormatError, LimitError), match=r"a\.npz"):
        source.load("1")
