"""Data sets whose frames are encoded become episode files that hold the same bytes."""

from __future__ import annotations

import pytest

from wshard import ShardReader, load_wshard, open_source
from wshard.core.episode.encoded_lane import StoredImages
from wshard.core.episode.protocol import read_as
from wshard.training.conversion.jobs import list_jobs
from wshard.training.conversion.run import Conversion
from wshard.training.conversion.target import ConversionTarget


@pytest.mark.parametrize("name", ["folder", "video"])
def test_converting_keeps_the_bytes_of_frames(dataset_fixtures, tmp_path, name):
    location = dataset_fixtures / "world_model" / f"main_{name}"
    (tmp_path / "out").mkdir()
    jobs = list_jobs([location], read_as(name))
    with Conversion(ConversionTarget.of(tmp_path / "out", "wshard"), jobs) as conversion:
        converted = {job.span.address.key: length for job, length in conversion.run()}
    assert list(converted.values()) == [7, 13, 22, 31, 40]
    files = sorted((tmp_path / "out").iterdir())
    with open_source(location, name) as source:
        for number, (key, path) in enumerate(zip(source.keys(), files, strict=True)):
            with ShardReader(path) as reader:
                block = reader.read_entry("signal/pixels")
            pixels = location / "pixels"
            if name == "video":
                assert block == (pixels / f"ep_{number}.mp4").read_bytes()
            else:
                steps = converted[key]
                images = StoredImages(lambda start, stop, data=block: data[start:stop], len(block), steps, "block")
                assert list(images) == [(pixels / f"ep_{number}_step_{t}.jpeg").read_bytes() for t in range(steps)]
            loaded, found = source.load(key), load_wshard(path)
            assert loaded.observations["pixels"].encoded is not None
            assert found.observations["pixels"] == loaded.observations["pixels"]
            assert (found["pixels"] == source.lane(key, "signal/pixels")).all()
