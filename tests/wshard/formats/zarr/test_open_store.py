"""Stores of which the metadata disagree, and chunks that expand beyond what the metadata say."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import zarr

from wshard.formats.zarr.source import ReplayBufferSource


def write(path, state, version=2, how=None):
    """Write a buffer of one episode with the zarr library."""
    root = zarr.open_group(path, mode="w", zarr_format=version)
    for name, values in (("data/state", state), ("meta/episode_ends", np.array([len(state)]))):
        options = (how or {}) if name == "data/state" else {}
        array = root.create_array(name, shape=values.shape, chunks=values.shape, dtype=values.dtype, **options)
        array[:] = values
    return path


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("change", ["dtype", "grown"])
def test_stale_consolidated_metadata_are_not_read(tmp_path, version, change):
    state = np.arange(80).reshape(20, 4)
    path = write(tmp_path / "a.zarr", state.astype(np.float32), version)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the library: version 3 does not define consolidated metadata
        zarr.consolidate_metadata(path)
    stale = (path / (".zmetadata" if version == 2 else "zarr.json")).read_bytes()
    new = state.astype(np.int32) if change == "dtype" else np.concatenate([state, state + 80]).astype(np.float32)
    write(path, new, version)
    (path / (".zmetadata" if version == 2 else "zarr.json")).write_bytes(stale)
    with ReplayBufferSource(path) as source:
        loaded = source.load("0")
    assert loaded.observations["state"].data.dtype == new.dtype
    assert np.array_equal(loaded.observations["state"].data, new)


def test_metadata_of_two_versions_that_disagree_are_refused(tmp_path):
    path = write(tmp_path / "a.zarr", np.zeros((20, 4), np.float32), 3)
    other = {"zarr_format": 2, "shape": [20, 4], "chunks": [20, 4], "dtype": "<i4", "compressor": None,
             "fill_value": 0, "order": "C", "filters": None}  # fmt: skip
    (path / "data/state/.zarray").write_text(json.dumps(other))
    with warnings.catch_warnings(), ReplayBufferSource(path) as source:
        warnings.simplefilter("ignore")  # of the library
        assert "metadata of two versions" in source.info("0").metadata["left_out"]["state"]


@pytest.mark.parametrize("name", ["data/state/0.0", "data/state/.zarray", "meta/episode_ends/.zarray"])
def test_a_source_is_current_until_its_files_change(tmp_path, name):
    path = write(tmp_path / "a.zarr", np.arange(80, dtype=np.float32).reshape(20, 4))
    with ReplayBufferSource(path) as source:
        source.fingerprint("0")
        assert source.is_current("0")
        (path / name).write_bytes((path / name).read_bytes() + b" ")
        assert not source.is_current("0")
