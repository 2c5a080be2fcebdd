"""ALOHA and ACT episodes, with raw images and with JPEG."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest
from hdf5_files import write_aloha
from PIL import Image

from wshard import FormatError, TrajectoryIngestor, TrajectoryRetriever, detect_format, open_episode
from wshard.formats.contract import SourceContract
from wshard.formats.hdf5.aloha import AlohaSource

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wshard import Episode


class TestAlohaFile(SourceContract):
    def make(self, tmp_path: Path) -> tuple[AlohaSource, Mapping[str, Episode]]:
        expected = {"": write_aloha(tmp_path / "episode_7.hdf5", 5)}
        return AlohaSource(tmp_path / "episode_7.hdf5"), expected


class TestAlohaFolder(SourceContract):
    def make(self, tmp_path: Path) -> tuple[AlohaSource, Mapping[str, Episode]]:
        (tmp_path / "notes.txt").write_text("no episode")
        expected = {f"episode_{n}": write_aloha(tmp_path / f"episode_{n}.hdf5", 3 + n) for n in (0, 2, 10)}
        return AlohaSource(tmp_path), expected


def _jpegs(count):
    rng, images = np.random.default_rng(1), []
    for size in range(count):
        file = io.BytesIO()
        noise = rng.integers(0, 256, (3 + 2 * size, 8, 3), np.uint8)  # of different lengths
        Image.fromarray(noise).resize((16, 12)).save(file, "JPEG")
        images.append(file.getvalue())
    return images


def _padded(images, file):
    """As ACT has it: zeros behind each image, and its length in compress_len."""
    longest = max(map(len, images))
    file["compress_len"] = np.array([[len(image) for image in images]], np.float32)
    file.attrs["compress"] = True
    rows = [np.frombuffer(image.ljust(longest, b"\0"), np.uint8) for image in images]
    file["observations/images/top"] = np.stack(rows)


def _fixed(images, file):
    file["observations/images/top"] = np.array(images, dtype=f"S{max(map(len, images))}")


def _ragged(images, file):
    dataset = file.create_dataset("observations/images/top", (len(images),), h5py.vlen_dtype(np.uint8))
    for row, image in enumerate(images):
        dataset[row] = np.frombuffer(image, np.uint8)


@pytest.mark.parametrize("store", [_padded, _fixed, _ragged])
def test_compressed_images_are_read_as_they_were_encoded(tmp_path, store):
    path, images = tmp_path / "episode_0.hdf5", _jpegs(6)
    assert len(set(map(len, images))) > 1
    write_aloha(path, 6)
    with h5py.File(path, "r+") as file:
        del file["observations/images/top"]
        store(images, file)
    with open_episode(path) as episode:
        lane = episode.lanes()["signal/images/top"]
        assert (lane.encoding, lane.shape) == ("jpeg", (12, 16, 3))
        frames = episode.encoded("images/top")
        assert [bytes(frames.image(step)) for step in range(6)] == images
        pixels = np.stack([np.asarray(Image.open(io.BytesIO(image))) for image in images])
        assert np.array_equal(episode["images/top"][2:5], pixels[2:5])
        assert np.array_equal(episode.load().observations["images/top"].data, pixels)
        assert "signal/compress_len" not in episode
        assert "left_out" not in episode.metadata
        one = episode.digest()
    with h5py.File(path, "r+") as file:
        file["observations/images/top"][0] = file["observations/images/top"][1]
    with open_episode(path) as episode:
        assert episode.digest() != one


def test_one_damaged_image_is_named_and_the_others_are_read(tmp_path):
    path, images = tmp_path / "episode_0.hdf5", _jpegs(4)
    write_aloha(path, 4)
    with h5py.File(path, "r+") as file:
        del file["observations/images/top"]
        _padded([images[0], images[1], b"\xff\xd8\xff", images[3]], file)
    with open_episode(path) as episode:
        assert episode["images/top"][3:4].shape == (1, 12, 16, 3)
        with pytest.raises(FormatError, match=r"episode_0\.hdf5.*step 2"):
            episode.lane("images/top")


def test_a_task_is_found_where_files_have_it(tmp_path):
    for number, (name, value) in enumerate(
        [("language_raw", np.array([b"fold it"])), ("language_instruction", b"fold it"), (None, "fold it")]
    ):
        path = tmp_path / f"episode_{number}.hdf5"
        write_aloha(path, 5)
        with h5py.File(path, "r+") as file:
            if name is None:
                file.attrs["task"] = value
            else:
                file[name] = value
            file["base_action"] = np.zeros((5, 2))
        with open_episode(path) as episode:
            assert episode.metadata["task"] == "fold it"
            assert episode.has("action/base_action")


def test_ingest_of_a_folder_finds_all_files(tmp_path):
    folder = tmp_path / "sim_transfer_cube"
    folder.mkdir()
    for number in range(4):
        write_aloha(folder / f"episode_{number}.hdf5", 20)
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        report = ingestor.ingest([folder])
    assert (report.new, report.failed) == (4, [])
    query = folder / "episode_2.hdf5"
    assert detect_format(query) == "aloha"
    found = TrajectoryRetriever(tmp_path / "archive").search_similar_episodes(query, top_k=4)
    assert {ref.episode_id for ref in found} == {f"episode_{number}" for number in range(4)}
    assert all(ref.load().length == 20 for ref in found)
