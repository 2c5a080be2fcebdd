"""Exports of any format: contents, order, what is left out, what stays on the disk, and what consumers need."""

from __future__ import annotations

import gc
import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import webdataset
import yaml
from PIL import Image
from webdataset_tars import read_samples

from wshard import Episode, save_wshard
from wshard.errors import DatasetError, NoClipsError
from wshard.media import encode_image
from wshard.webdataset import ShardifyOptions, shardify

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = ShardifyOptions(resize_images_size=None, future_lowdim_steps=3, stride=1, max_padding_right=0)


def make(number: int, steps: int = 20) -> Episode:
    rng = np.random.default_rng(number)
    lanes = {"state.xyz": rng.normal(size=(steps, 3)), "front": rng.integers(0, 256, (steps, 24, 32, 3), np.uint8)}
    lanes |= {"depth": rng.integers(0, 5000, (steps, 24, 32), np.uint16)}
    actions = {"ctrl": rng.normal(size=(steps, 2)).astype(np.float32)}
    return Episode(f"ep-{number}", "", steps, observations=lanes, actions=actions, metadata={"task": "reach up \u2192"})


@pytest.fixture
def episodes(tmp_path):
    folder = tmp_path / "episodes"
    folder.mkdir()
    for number in range(3):
        save_wshard(make(number), folder / f"ep-{number}.wshard", encode={"signal/front": "jpeg"})
    return folder


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "processing_metadata.json"}


def test_fields_and_stored_images_of_any_format(episodes, tmp_path):
    report = shardify([episodes], tmp_path / "to", PLAIN)
    assert (report.samples, report.episodes, report.left_out["padding"]) == (51, 3, 9)
    samples = read_samples(tmp_path / "to")
    for (name, anchor), sample in samples.items():
        ep = make(int(name[-1]))
        steps = np.clip(anchor + np.arange(-1, 4), 0, 19)
        lowdim = sample["lowdim.npz"]
        assert set(lowdim) == {"action", "state.xyz", "past_mask", "future_mask"}
        assert np.array_equal(lowdim["action"], ep.actions["ctrl"].data[steps])
        assert np.array_equal(lowdim["state.xyz"], ep["state.xyz"][steps].astype(np.float32))
        assert sample["front_t0.jpg"] == encode_image(ep["front"][anchor], "jpeg")  # as it is stored
        assert sample["front_t-1.jpg"] == encode_image(ep["front"][max(anchor - 1, 0)], "jpeg")
        assert sample["language_instructions.json"] == {"original": ["reach up \u2192"]}
    assert len(samples) == 51


def test_lanes_without_numbers_are_no_fields(tmp_path):
    lanes = {"x": np.zeros((20, 2), np.float32), "none": np.zeros((20, 0), np.float32)}
    save_wshard(Episode("e", "", 20, observations=lanes), tmp_path / "e.wshard")
    shardify([tmp_path / "e.wshard"], tmp_path / "to", PLAIN)
    assert {*next(iter(read_samples(tmp_path / "to").values()))["lowdim.npz"]} == {"x", "past_mask", "future_mask"}


def test_named_fields_depth_and_options(episodes, tmp_path):
    options = replace(PLAIN, use_depth=True, resize_images_size=(12, 16), resize_depth=True, window_timesteps=True)
    fields = ["xy=state.xyz[0:2]", "cam=front", "cam=depth", "act=ctrl"]
    shardify([episodes], tmp_path / "to", replace(options, masks="padding"), fields=fields)
    for (name, anchor), sample in read_samples(tmp_path / "to").items():
        ep = make(int(name[-1]))
        lowdim, about = sample["lowdim.npz"], sample["metadata.json"]
        assert set(lowdim) == {"xy", "act", "past_mask", "future_mask"}
        assert np.array_equal(lowdim["xy"], ep["state.xyz"][about["window_timesteps"], :2].astype(np.float32))
        depth = np.asarray(Image.open(io.BytesIO(sample["cam_t0.depth.png"])))
        assert np.array_equal(depth, ep["depth"][anchor, ::2, ::2])
        assert Image.open(io.BytesIO(sample["cam_t0.jpg"])).size == (16, 12)
        assert lowdim["future_mask"].tolist() == [False, *[True] * 4]
        assert lowdim["past_mask"].tolist() == [anchor > 0, *[False] * 4]
    for wrong in ("x", "x=none", "x=state.xyz[2:9]", "a=front", "past_mask=ctrl"):
        with pytest.raises(DatasetError):
            shardify([episodes], tmp_path / "no", PLAIN, fields=[wrong, "a=ctrl"])
    assert not (tmp_path / "no").exists()


def test_equal_seeds_give_equal_bytes_for_any_number_of_threads(episodes, tmp_path):
    for name, changes in {"a": {}, "b": {"num_workers": 3}, "c": {"seed": 1}}.items():
        shardify([episodes], tmp_path / name, replace(PLAIN, samples_per_shard=20, **changes))
    a, b, c = (files_of(tmp_path / name) for name in "abc")
    config = "preprocessing_config.yaml"
    assert {name: data for name, data in a.items() if name != config} == {k: v for k, v in b.items() if k != config}
    assert a["shard_000000.tar"] != c["shard_000000.tar"]
    first, other = read_samples(tmp_path / "a"), read_samples(tmp_path / "c")
    assert {place: one["key"] for place, one in first.items()} == {place: one["key"] for place, one in other.items()}
    assert len({one["key"] for one in first.values()}) == 51


def test_overwriting_leaves_no_old_shard_and_no_foreign_file_goes(episodes, tmp_path):
    to = tmp_path / "to"
    shardify([episodes], to, replace(PLAIN, samples_per_shard=5))
    assert len(list(to.glob("*.tar"))) == 11
    (to / "notes.txt").write_text("own")
    with pytest.raises(FileExistsError):
        shardify([episodes], to, PLAIN)
    shardify([episodes], to, PLAIN, mode="overwrite")
    names = {"shard_000000.tar", "manifest.jsonl", "stats.json", "preprocessing_config.yaml"}
    assert {path.name for path in to.iterdir()} == names | {"processing_metadata.json", "notes.txt"}
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_nan_stillness_and_episodes_that_are_too_short(raiden_folder, tmp_path):
    place = raiden_folder / "edge_nan"
    with pytest.raises(DatasetError, match="robot__actual__poses__left::yam__xyz: expected numbers"):
        shardify([place], tmp_path / "to")
    assert not (tmp_path / "to").exists()
    report = shardify([place], tmp_path / "some", ShardifyOptions(fail_on_nan=False))
    assert (report.samples + report.left_out["nan"], report.left_out["nan"] > 0) == (4, True)
    still = ShardifyOptions(resize_images_size=None, filter_still_samples=True, still_threshold=1e9)
    with pytest.raises(NoClipsError, match="28 for still"):
        shardify([f"{raiden_folder / 'pick_cube'}#0000"], tmp_path / "to", still)
    assert [path.name for path in tmp_path.iterdir()] == ["some"]


def test_samples_without_an_image_are_left_out_or_incomplete(raiden_folder, tmp_path):
    options = ShardifyOptions(resize_images_size=None)
    report = shardify([raiden_folder / "open_drawer"], tmp_path / "without", options)
    assert (report.samples, report.left_out["incomplete"]) == (21, 2)
    report = shardify([raiden_folder / "open_drawer"], tmp_path / "with", replace(options, keep_incomplete=True))
    names = [len([name for name in one if name.endswith(".jpg")]) for one in read_samples(tmp_path / "with").values()]
    assert (report.samples, sorted(names)[:3]) == (23, [3, 3, 4])


def test_an_episode_that_cannot_be_read_is_reported(episodes, tmp_path):
    path = episodes / "ep-1.wshard"
    path.write_bytes(path.read_bytes()[:3000])
    report = shardify([episodes / f"ep-{number}.wshard" for number in range(3)], tmp_path / "to", PLAIN)
    assert [job.span.address.uri for job, _ in report.failed] == [str(path)]
    assert (report.samples, report.episodes) == (34, 2)


@pytest.mark.long
def test_single_arms_and_tasks_together(raiden_folder, tmp_path):
    shardify([raiden_folder / "open_drawer", raiden_folder / "pick_cube"], tmp_path / "to")
    ids = {place[0] for place in read_samples(tmp_path / "to")}
    assert {"open_drawer-0000", "pick_cube-0000"} <= ids
    counts = json.loads((tmp_path / "to" / "stats.json").read_text())
    left, right = (counts[f"robot__action__poses__{side}::yam__xyz"]["count"] for side in ("left", "right"))
    assert (left, right) == (62, 41)


@pytest.fixture(scope="module")
def shards(raiden_folder, tmp_path_factory):
    to = tmp_path_factory.mktemp("consumer") / "shards"
    shardify([raiden_folder / "pick_cube"], to, ShardifyOptions(resize_images_size=(48, 64), samples_per_shard=16))
    return to


def test_the_rules_of_the_consumer(shards):
    """What vla_foundry needs of a folder."""
    rows = [json.loads(line) for line in (shards / "manifest.jsonl").read_text().splitlines()]
    assert all((shards / f"{row['shard']}.tar").is_file() and row["num_sequences"] > 0 for row in rows)
    config = yaml.safe_load((shards / "preprocessing_config.yaml").read_text())
    statistics = json.loads((shards / "stats.json").read_text())
    wanted = [f"{name}_t{index}.jpg" for index in config["image_indices"] for name in config["camera_names"]]
    length = config["past_lowdim_steps"] + 1 + config["future_lowdim_steps"]
    for sample in read_samples(shards).values():
        assert [name for name in sample if name.endswith(".jpg")] == wanted
        assert sample["metadata.json"]["anchor_relative_idx"] == config["past_lowdim_steps"]
        lowdim = sample["lowdim.npz"]
        assert lowdim["past_mask"].shape == lowdim["future_mask"].shape == (length,)
        for name in (name for name in lowdim if name.startswith("robot__")):
            for suffix in ("", "_per_timestep"):
                shape = lowdim[name].shape if suffix else lowdim[name].shape[1:]
                for statistic in ("mean", "std", "min", "max", *(f"percentile_{rank}" for rank in (1, 5, 95, 99))):
                    assert np.shape(statistics[name][f"{statistic}{suffix}"]) == shape


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_webdataset_reads_them(shards):
    urls = [str(path) for path in sorted(shards.glob("*.tar"))]
    samples = list(webdataset.WebDataset(urls, shardshuffle=False))
    counts = [json.loads(line)["num_sequences"] for line in (shards / "manifest.jsonl").read_text().splitlines()]
    assert len(samples) == sum(counts) == 41
    suffixes = {name for name in samples[0] if not name.startswith("__")}
    images = {f"{camera}_t{index}.jpg" for camera in ("scene_camera", "left_wrist_camera") for index in (-1, 0)}
    assert suffixes == images | {"lowdim.npz", "metadata.json", "language_instructions.json"}
    gc.collect()  # it leaves its files to the collector
