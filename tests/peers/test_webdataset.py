"""Every supported version of webdataset reads the shards that are written here. Run by `make peers`."""

from __future__ import annotations

import json
import os
import subprocess

import numpy as np
import pytest
from paths import ROOT

from wshard import save_wshard
from wshard.testing import make_episode
from wshard.webdataset import ShardifyOptions, shardify

VERSIONS = ("0.2.111", "1.0.2")
pytestmark = pytest.mark.skipif("WSHARD_PEERS" not in os.environ, reason="make peers installs webdataset and runs this")

READER = """
import io, json, sys
import numpy as np
from importlib.metadata import version
import webdataset
samples = list(webdataset.WebDataset(sys.argv[1:], shardshuffle=False))
keys = sorted({name for one in samples for name in one if not name.startswith("__")})
arrays = [np.load(io.BytesIO(one["lowdim.npz"])) for one in samples]
sums = [float(sum(np.abs(one[name].astype(float)).sum() for name in one.files)) for one in arrays]
print(json.dumps({"version": version("webdataset"), "count": len(samples), "keys": keys, "sums": sums}))
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_samples_are_read_with_their_keys_and_values(tmp_path, version):
    (tmp_path / "eps").mkdir()
    for seed in range(2):
        save_wshard(make_episode(seed, 40, image_size=16), tmp_path / "eps" / f"{seed}.wshard")
    report = shardify(
        [tmp_path / "eps"], tmp_path / "to", ShardifyOptions(resize_images_size=None, samples_per_shard=25)
    )
    shards = sorted((tmp_path / "to").glob("*.tar"))
    python = ROOT / ".bench" / f"venv-webdataset-{version}" / "bin" / "python"
    done = subprocess.run([python, "-c", READER, *shards], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert (found["version"], found["count"]) == (version, report.samples)
    images = {f"camera_rgb_t{index}.jpg" for index in (-1, 0)}
    assert {*found["keys"]} >= images | {"lowdim.npz", "metadata.json"}
    assert np.isfinite(found["sums"]).all()
