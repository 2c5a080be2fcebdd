"""Exports of Raiden's folders are those that the original program wrote of them."""

from __future__ import annotations

import io
import json
import tarfile

import numpy as np
import pytest
import yaml
from PIL import Image
from webdataset_tars import read_samples

from wshard.webdataset import ShardifyOptions, shardify

RUNS = {
    "r1_bimanual_stride3_depth": (
        "pick_cube",
        ShardifyOptions(resize_images_size=None, use_depth=True, samples_per_shard=10),
        (41, 36, [10, 10, 10, 10, 1]),
    ),
    "r2_cli_defaults_max1": (
        "open_drawer#0000",
        ShardifyOptions(stats_stride=10, max_episodes_to_process=1),
        (4, 12, [4]),
    ),
}


@pytest.fixture(scope="module", params=list(RUNS))
def run(request, raiden_folder, webdataset_fixtures, tmp_path_factory):
    """Return what the original wrote, what is written here, and the report."""
    place, options, _ = RUNS[request.param]
    to = tmp_path_factory.mktemp("export") / "shards"
    report = shardify([raiden_folder / place], to, options)
    return webdataset_fixtures / "out" / request.param / "shards", to, report, request.param


def test_counts_are_those_of_the_original(run):
    original, to, report, name = run
    samples, padding, shards = RUNS[name][2]
    assert (report.samples, report.shards) == (samples, shards)
    assert report.left_out == {"padding": padding, "still": 0, "nan": 0, "incomplete": 0}
    assert sorted(path.name for path in to.iterdir()) == sorted(path.name for path in original.iterdir())
    assert (to / "manifest.jsonl").read_bytes() == (original / "manifest.jsonl").read_bytes()


def test_every_sample_is_that_of_the_original(run):
    theirs, ours = read_samples(run[0]), read_samples(run[1])
    assert ours.keys() == theirs.keys()
    for place, expected in theirs.items():
        found = ours[place]
        assert list(found) == list(expected)
        for name in expected:
            if name.endswith(".depth.png"):
                pixels = [np.asarray(Image.open(io.BytesIO(one[name]))) for one in (found, expected)]
                assert pixels[0].dtype == pixels[1].dtype == np.uint16
                assert np.array_equal(*pixels)
            elif name == "lowdim.npz":
                compare_lowdim(found[name], expected[name])
            elif name == "metadata.json":
                id_ = f"{found['key']}_{place[0]}_t{place[1]:04d}"
                assert found[name] == expected[name] | {"sample_id": id_}
                assert list(found[name]) == list(expected[name])
            elif name != "key":
                assert found[name] == expected[name], name


def compare_lowdim(found, expected):
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        if name.endswith("_relative"):
            assert np.abs(found[name] - array).max() <= 2e-6, name
        else:
            assert found[name].tobytes() == array.tobytes(), name


def test_tar_headers_are_those_of_the_original(run):
    headers = []
    for folder in run[:2]:
        with tarfile.open(folder / "shard_000000.tar") as tar:
            headers.append(
                {(m.mode, m.mtime, m.uid, m.gid, m.uname, m.gname, m.type, bool(m.pax_headers)) for m in tar}
            )
        assert (folder / "shard_000000.tar").stat().st_size % 10_240 == 0
    assert headers[0] == headers[1]


def test_configuration_is_that_of_the_original(run):
    original, to, _, _ = run
    theirs, ours = ((folder / "preprocessing_config.yaml").read_text() for folder in (original, to))
    assert ours.replace(f"output_dir: {to}\n", "") == "".join(
        f"{line}\n" for line in theirs.splitlines() if not line.startswith("output_dir")
    )
    assert yaml.safe_load(ours)["output_dir"] == str(to)
    theirs, ours = (json.loads((folder / "processing_metadata.json").read_text()) for folder in (original, to))
    assert list(ours)[:-1] == list(theirs)
    assert list(ours["config"]) == list(theirs["config"])
    assert ours["config"] == theirs["config"] | {"output_dir": str(to)}
    assert list(ours["processing"]) == list(theirs["processing"])
    assert ours["processing"] | {"elapsed_seconds": 0} == theirs["processing"] | {"elapsed_seconds": 0}
    ends = [
        sorted(path.split("processed/")[1] for path in one["source_data"]["episode_dirs"]) for one in (ours, theirs)
    ]
    assert ends[0] == ends[1]
    assert ours["source_data"]["num_episodes"] == theirs["source_data"]["num_episodes"]


def test_statistics_are_those_of_the_original_and_of_the_samples(run):
    theirs, ours = (json.loads((folder / "stats.json").read_text()) for folder in run[:2])
    assert list(ours) == list(theirs)
    samples = [one["lowdim.npz"] for one in read_samples(run[1]).values()]
    for name, expected in theirs.items():
        assert list(ours[name]) == list(expected)
        for statistic, values in expected.items():
            assert np.allclose(ours[name][statistic], values, rtol=0, atol=2e-6), (name, statistic)
        values = np.stack([one[name] for one in samples]).astype(np.float64)
        assert np.allclose(ours[name]["std"], values.reshape(-1, values.shape[-1]).std(axis=0, ddof=1), atol=1e-9)
        assert np.allclose(ours[name]["std_per_timestep"], values.std(axis=0, ddof=1), atol=1e-9)
        assert np.allclose(ours[name]["percentile_2"], np.percentile(values, 2, axis=(0, 1)), atol=2e-6)
