"""Minari data sets that Minari 0.5.4 wrote, in its three storages."""

from __future__ import annotations

import io
import json
import pickle
import shutil

import h5py
import numpy as np
import pytest
from PIL import Image

from wshard import FormatError, detect_format, list_episodes, open_episode, open_source
from wshard.errors import EntryNotFoundError, MissingFileError
from wshard.formats.minari.source import MinariSource

STORAGES = ("hdf5", "arrow", "parquet")


@pytest.fixture(params=STORAGES)
def folder(request, dataset_fixtures):
    return dataset_fixtures / "other" / f"minari_{request.param}" / "toy" / f"{request.param}-v0"


@pytest.fixture
def copied(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / folder.name)


@pytest.fixture(scope="module")
def truth(dataset_fixtures):
    return dict(np.load(dataset_fixtures / "other" / "other_source.npz"))


def test_values_are_those_that_were_written(folder, truth):
    with open_source(folder, "minari") as source:
        assert source.keys() == ["0", "1"]
        for key, steps in (("0", 5), ("1", 9)):
            info, episode = source.info(key), source.load(key)
            episode.validate()
            assert (info.id, info.length, info.env_id, info.timebase.assumed) == (f"episode_{key}", steps, "", True)
            made = {name: truth[f"episode_{key}_plus1/{name}"] for name in ("state", "img", "action", "reward")}
            assert np.array_equal(episode["state"], made["state"][:steps])
            assert np.array_equal(episode["action/actions"], made["action"][:steps])
            assert episode.rewards.dtype == np.float64
            assert np.array_equal(episode.rewards, made["reward"][:steps])
            assert episode.terminations.tolist() == [False] * (steps - 1) + [True]
            assert not episode.truncations.any()
            assert episode["infos/tag"].tolist() == list(range(steps))
            assert info.metadata == {
                "seed": 100 + int(key),
                "dataset_id": f"toy/{folder.name}",
                "algorithm_name": "none",
                "final_observation": {"state": made["state"][steps].tolist(), "infos/tag": steps},
            }


def test_images_stay_the_jpeg_that_was_stored(folder, truth):
    with h5py.File(folder.parents[2] / "minari_hdf5/toy/hdf5-v0/data/main_data.hdf5") as file:
        stored = [image.tobytes() for image in file["episode_1/observations/img"][:9]]
    with open_episode(f"{folder}#1") as episode:
        assert (episode.lanes()["signal/img"].encoding, episode.stored("img").codec) == ("jpeg", "jpeg")
        frames = episode.encoded("img")
        assert [bytes(frames.image(step)) for step in range(9)] == stored
        decoded = episode["img"][3:6]
        assert np.array_equal(decoded, np.stack([np.asarray(Image.open(io.BytesIO(one))) for one in stored[3:6]]))
    assert np.abs(decoded.astype(int) - truth["episode_1_plus1/img"][3:6]).mean() < 10


def test_a_data_set_is_found_by_its_folders_and_its_file(folder):
    for place in (folder, folder / "data"):
        assert detect_format(place) == "minari"
        assert [address.key for address, _ in list_episodes(place)] == ["0", "1"]
    assert not MinariSource.matches(folder.parent)
    if folder.name == "hdf5-v0":
        file = folder / "data" / "main_data.hdf5"
        assert detect_format(file) == "minari"
        with open_episode(f"{file}#1") as episode:
            assert episode.metadata["dataset_id"] == "toy/hdf5-v0"


def test_older_data_sets_say_what_they_are_in_the_file(dataset_fixtures, tmp_path):
    path = tmp_path / "main_data.hdf5"
    shutil.copy(dataset_fixtures / "other/minari_hdf5/toy/hdf5-v0/data/main_data.hdf5", path)
    with h5py.File(path, "r+") as file:
        file.attrs["dataset_id"] = "door-human-v0"
        file.attrs["env_spec"] = json.dumps({"id": "AdroitHandDoor-v1", "kwargs": {}})
        file["episode_0/infos/success"] = np.arange(6) == 5
        file["episode_1/infos/success"] = np.zeros(10, bool)
    for place in (path, tmp_path):
        with open_source(place, detect_format(place)) as source:
            infos = [source.info(key) for key in source.keys()]  # noqa: SIM118  (a Source is no mapping)
        assert [(info.env_id, info.metadata["dataset_id"]) for info in infos] == [
            ("AdroitHandDoor-v1", "door-human-v0")
        ] * 2
        assert [info.metadata["success"] for info in infos] == [True, False]


def test_a_source_can_be_sent_and_episodes_outlive_it(folder):
    with open_source(folder, "minari") as source:
        sent, opened = pickle.dumps(source), source.open("1")
        expected = source.load("1")
    assert opened.load() == expected
    opened.close()
    with pickle.loads(sent) as again:  # noqa: S301  (our own)
        assert again.load("1") == expected
        with pytest.raises(EntryNotFoundError):
            again.info("2")


def test_a_cut_episode_is_refused_and_the_others_are_read(copied):
    if copied.name == "hdf5-v0":
        file = copied / "data" / "main_data.hdf5"
        with h5py.File(file, "r+") as opened:
            del opened["episode_0/rewards"]
            opened["episode_0/rewards"] = np.zeros(4)
    else:
        metadata = copied / "data" / "0" / "metadata.json"
        metadata.write_text(metadata.read_text().replace('"total_steps": 5', '"total_steps": 7'))
    with open_source(copied, "minari") as source:
        with pytest.raises(FormatError, match=r"#0: total_steps: expected \d rewards, found \d"):
            source.info("0")
        assert source.load("1").length == 9


def test_damage_of_the_metadata_is_named_by_its_file(dataset_fixtures, tmp_path):
    place = shutil.copytree(dataset_fixtures / "other/minari_arrow/toy/arrow-v0", tmp_path / "a-v0")
    path = place / "data/metadata.json"
    about = json.loads(path.read_text())
    path.chmod(0o644)
    path.write_text(json.dumps(about | {"action_space": about["action_space"][:-9]}))
    with (
        MinariSource(place) as source,
        pytest.raises(FormatError, match=r"metadata\.json: action_space: expected JSON"),
    ):
        source.load("0")
    (place / "data").chmod(0o755)
    path.unlink()
    with MinariSource(place) as source, pytest.raises(MissingFileError, match=r"expected the file .*metadata\.json"):
        source.keys()


def test_a_missing_episode_of_those_that_are_counted_is_an_error(copied):
    for path in (copied, *copied.rglob("*")):
        path.chmod(0o755)
    if (main := copied / "data/main_data.hdf5").exists():
        with h5py.File(main, "r+") as file:
            del file["episode_0"]
    else:
        shutil.rmtree(copied / "data/1")
    missing = "0" if main.exists() else "1"
    with MinariSource(copied) as source:
        for key in source.keys():  # noqa: SIM118  (a Source is no mapping)
            if key != missing:
                assert source.load(key).length
        with pytest.raises((FormatError, FileNotFoundError), match=r"episode_0|data/1/part-0"):
            source.load(missing)
