"""Cameras of a layout: videos, images, and columns of paths, equal to what PyAV and Pillow decode."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import av
import h5py
import memory_place
import numpy as np
import pytest
from PIL import Image
from robot_files import ROBOT_FILES

from wshard import Channel, Episode, load_wshard, save_wshard
from wshard.core.files.schemes import SCHEMES
from wshard.core.media import ImageFrames, VideoFrames, encode_image, encode_video
from wshard.errors import FormatError, LayoutError, ManifestError, MissingFileError
from wshard.formats.contract import SourceContract
from wshard.formats.layouts.named import layout_reference
from wshard.formats.layouts.source import LayoutSource

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LENGTH = 6
HEAD = 'layout = 1\ncontainer = "hdf5"\n'
ARRAYS = '[arrays]\nq = "observation/state"\nu = "action/ctrl"\n'


def _pixels(seed: int, count: int = LENGTH) -> Any:
    return np.random.default_rng(seed).integers(0, 255, (count, 16, 32, 3), np.uint8)


def _write(folder: Path, text: str, **attributes: Any) -> str:
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    with h5py.File(folder / "a.h5", "w") as file:
        file["q"], file["u"] = rng.normal(size=(LENGTH, 3)), rng.normal(size=(LENGTH, 2))
        file.attrs.update(attributes)
    (folder / "runs.toml").write_text(f"{HEAD}{text}{ARRAYS}")
    return layout_reference(folder / "runs.toml")


def _source(folder: Path, text: str, **attributes: Any) -> LayoutSource:
    how = _write(folder, text, **attributes)
    return LayoutSource(folder / "a.h5", how)


def _video(path: Path, seed: int, count: int = LENGTH) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    encode_video(_pixels(seed, count), path, fps=10)


def _images(folder: Path, name: str, seed: int, count: int = LENGTH) -> list[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    images = [encode_image(pixels) for pixels in _pixels(seed, count)]
    for number, image in enumerate(images):
        (folder / name.format(number)).write_bytes(image)
    return images


def _expected(folder: Path, cameras: Mapping[str, Any], **metadata: Any) -> Episode:
    rng = np.random.default_rng(0)
    arrays = {"state": rng.normal(size=(LENGTH, 3))}, {"ctrl": rng.normal(size=(LENGTH, 2))}
    lanes = [{name: Channel.of(name, values) for name, values in group.items()} for group in arrays]
    frames = {name: Channel.of(name, values) for name, values in cameras.items()}
    return Episode("a", "", LENGTH, metadata=metadata, observations=lanes[0] | frames, actions=lanes[1])


class TestCameras(SourceContract):
    """A video whose name an attribute states, and images by a path with wildcards, which are in natural order."""

    def make(self, tmp_path: Path) -> tuple[LayoutSource, Mapping[str, Episode]]:
        _video(tmp_path / "videos" / "7.mp4", 1, LENGTH + 1)
        images = _images(tmp_path / "images", "front_{}.jpg", 2)
        (tmp_path / "images" / "front_5.jpg").rename(tmp_path / "images" / "front_10.jpg")
        text = '[cameras]\n"observation/wrist" = "videos/{@serial}.mp4"\n"observation/front" = "images/front_*.jpg"\n'
        cameras = {
            "wrist": VideoFrames(tmp_path / "videos" / "7.mp4", count=LENGTH),
            "front": ImageFrames("jpeg", images),
        }
        return _source(tmp_path, text, serial=7), {"": _expected(tmp_path, cameras, serial=7)}


class TestListedImages(SourceContract):
    """A JSON document with the path of an image in each row, as Unitree's programs write it."""

    def make(self, tmp_path: Path) -> tuple[LayoutSource, Mapping[str, Episode]]:
        images = _images(tmp_path / "colors", "{:06d}.png", 3)
        expected = _expected(tmp_path, {"color": ImageFrames("jpeg", images)})
        lanes = expected.lanes()
        rows = [
            {"q": q, "u": u, "color": f"colors/{number:06d}.png"}
            for number, (q, u) in enumerate(
                zip(lanes["signal/state"].data.tolist(), lanes["action/ctrl"].data.tolist(), strict=True)
            )
        ]
        (tmp_path / "a.json").write_text(json.dumps(rows))
        text = HEAD.replace("hdf5", "json") + ARRAYS + 'color = {is = "observation", files = true}\n'
        (tmp_path / "runs.toml").write_text(text)
        return LayoutSource(tmp_path / "a.json", layout_reference(tmp_path / "runs.toml")), {"": expected}


def test_frames_are_those_that_other_readers_decode(tmp_path: Path) -> None:
    source, _ = TestCameras().make(tmp_path)
    with av.open(str(tmp_path / "videos" / "7.mp4")) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert np.array_equal(source.lane("", "signal/wrist", 2, 5), frames[2:5])
    last = np.asarray(Image.open(tmp_path / "images" / "front_10.jpg"))
    assert np.abs(source.lane("", "signal/front")[-1].astype(int) - last).max() <= 2  # of two JPEG decoders


def test_a_star_in_the_name_is_a_camera_of_each_text(tmp_path: Path) -> None:
    for number, name in enumerate(("left", "right")):
        _video(tmp_path / f"{name}_color.mp4", number)
        _images(tmp_path / name, "{}.jpg", number)
    text = '[cameras]\n"observation/*" = "*_color.mp4"\n"observation/images/*" = "*/*.jpg"\n'
    with _source(tmp_path, text) as source:
        cameras = ["signal/images/left", "signal/images/right", "signal/left", "signal/right"]
        assert sorted(name for name, lane in source.info("").lanes.items() if lane.encoding) == cameras
        assert not np.array_equal(source.lane("", "signal/left"), source.lane("", "signal/right"))


def test_a_table_has_images_of_each_of_its_episodes(tmp_path: Path) -> None:
    rows = ["run,x,u", *(f"{run},{step},{step}" for run in ("a", "b[1]") for step in range(LENGTH))]
    (tmp_path / "runs.csv").write_text("\n".join(rows))
    images = {run: _images(tmp_path / "runs" / run, "{}.jpg", seed) for seed, run in enumerate(("a", "b[1]"))}
    (tmp_path / "own.toml").write_text(
        'layout = 1\ncontainer = "table"\n[episodes]\nby = "column"\narray = "run"\n'
        '[cameras]\n"observation/front" = "{file}/{episode}/*.jpg"\n[arrays]\nu = "action"\nrun = "skip"\n'
    )
    with LayoutSource(tmp_path / "runs.csv", layout_reference(tmp_path / "own.toml")) as source:
        for run, encoded in images.items():
            frames = source.encoded(run, "signal/front")
            assert isinstance(frames, ImageFrames)
            assert [bytes(frames.image(step)) for step in range(LENGTH)] == encoded
        assert source.fingerprint("a") != source.fingerprint("b[1]")


def test_videos_alone_are_episodes(tmp_path: Path) -> None:
    for number, name in enumerate(("a", "b 1")):
        _video(tmp_path / f"{name}.mp4", number, LENGTH + number)
    with LayoutSource(tmp_path, "layout:video") as source:
        assert source.keys() == ["a", "b 1"]
        info = source.info("b 1")
        assert (info.id, info.length, info.timebase.tick_hz) == ("b 1", LENGTH + 1, 10)
        assert np.array_equal(source.lane("b 1", "time/timestamps_ns"), np.arange(LENGTH + 1) * 100_000_000)
        with av.open(str(tmp_path / "b 1.mp4")) as container:
            frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
        assert np.array_equal(source.lane("b 1", "signal/frames"), frames)


def test_cameras_are_read_at_places_of_other_schemes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_place, "FILES", {})
    monkeypatch.setitem(SCHEMES, "mem", "memory_place:MemoryPlace")
    path, (stated,) = ROBOT_FILES["agibot"](tmp_path)
    memory_place.upload(tmp_path, "mem://lab")
    with (
        LayoutSource(f"mem://lab/{path.relative_to(tmp_path)}", "layout:agibot") as remote,
        LayoutSource(path, "layout:agibot") as local,
    ):
        assert remote.info("").id == stated.id
        assert remote.missing_files("") == []
        for camera in stated.cameras:
            assert np.array_equal(remote.lane("", camera), local.lane("", camera))


@pytest.mark.parametrize("count", [LENGTH - 1, LENGTH + 2])
@pytest.mark.parametrize("kind", ["video", "images"])
def test_another_number_of_frames_is_refused_with_both(tmp_path: Path, kind: str, count: int) -> None:
    path = "front.mp4" if kind == "video" else "front/*.jpg"
    if kind == "video":
        _video(tmp_path / "front.mp4", 1, count)
    else:
        _images(tmp_path / "front", "{}.jpg", 1, count)
    with _source(tmp_path, f'[cameras]\n"observation/front" = "{path}"\n') as source:  # noqa: SIM117
        with pytest.raises(FormatError, match=f"front: expected {LENGTH} frames, .* found {count}"):
            source.info("")


def test_missing_files_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    text = '[cameras]\n"observation/front" = "front.mp4"\n"observation/side" = "{serial}.mp4"\n'
    with _source(tmp_path, text) as source:
        assert source.missing_files("") == [str(tmp_path / "front.mp4")]
        assert source.info("").metadata["left_out"] == {
            "observation/front": f"{tmp_path / 'front.mp4'}: no such file",
            "observation/side": "no 'serial' is stated",
        }
        before = source.fingerprint("")
    _video(tmp_path / "front.mp4", 1)
    with LayoutSource(tmp_path / "a.h5", layout_reference(tmp_path / "runs.toml")) as source:
        assert source.fingerprint("") != before
        assert "signal/front" in source.info("").lanes


def test_a_missing_image_is_named(tmp_path: Path) -> None:
    source, _ = TestListedImages().make(tmp_path)
    with source:
        before = source.fingerprint("")
        (tmp_path / "colors" / "000003.png").unlink()
        assert source.missing_files("") == [str(tmp_path / "colors" / "000003.png")]
        with pytest.raises(MissingFileError, match=r"000003\.png"):
            source.lane("", "signal/color")
    encoded = encode_image(_pixels(9)[0])
    (tmp_path / "colors" / "000005.png").write_bytes(encoded + bytes(1))
    with LayoutSource(tmp_path / "a.json", layout_reference(tmp_path / "runs.toml")) as again:
        assert again.fingerprint("") != before


@pytest.mark.parametrize("name", ["../b", "/etc/passwd", "x/../../b", "b\0"])
def test_names_of_the_data_stay_in_the_folder(tmp_path: Path, name: str) -> None:
    _video(tmp_path / "b.mp4", 1)
    text = '[cameras]\n"observation/front" = "{serial}.mp4"\n'
    if "\0" not in name:  # no attribute of HDF5 holds it
        with (
            _source(tmp_path / "set", text, serial=name) as source,
            pytest.raises(ManifestError, match="in the folder"),
        ):
            source.info("")
    (tmp_path / "set").mkdir(exist_ok=True)
    source, _ = TestListedImages().make(tmp_path / "set")
    document = json.loads((tmp_path / "set" / "a.json").read_text())
    document[0]["color"] = name
    (tmp_path / "set" / "a.json").write_text(json.dumps(document))
    with source, pytest.raises(ManifestError, match=r"color.*row 0.*in the folder"):
        source.info("")


def test_a_json_file_states_metadata_names_of_videos_and_the_id(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "0007"
    _video(tmp_path / "videos" / "run" / "0007.mp4", 1)
    rows = [{"n": "0006", "what": "push"}, {"n": "0007", "what": "pull", "ok": True}]
    folder.mkdir(parents=True)
    (tmp_path / "run" / "about.json").write_text(json.dumps(rows))
    text = (
        'id = "{folder2}_{folder}"\n[details]\nfile = "../about.json"\nrow = {n = "{folder}"}\n'
        '[cameras]\n"observation/front" = "../../videos/{folder2}/{n}.mp4"\n'
    )
    how = _write(folder, text)
    (folder / "runs.toml").write_text((folder / "runs.toml").read_text() + '"@what" = "task"\n"@ok" = "success"\n')
    with LayoutSource(folder / "a.h5", how) as source:
        info = source.info("")
        assert info.id == "run_0007"
        assert info.metadata["task"] == "pull"
        assert info.metadata["success"] is True
        assert info.lanes["signal/front"].encoding == "mp4"


def test_converted_cameras_keep_their_bytes(tmp_path: Path) -> None:
    source, _ = TestCameras().make(tmp_path)
    with source:
        save_wshard(source.load(""), tmp_path / "a.wshard")
    saved = load_wshard(tmp_path / "a.wshard")
    front = saved.observations["front"].encoded
    assert isinstance(front, ImageFrames)
    assert bytes(front.image(5)) == (tmp_path / "images" / "front_10.jpg").read_bytes()
    assert isinstance(saved.observations["wrist"].encoded, VideoFrames)


def test_a_wrong_description_of_files_is_refused(tmp_path: Path) -> None:
    for text, message in {
        "[cameras]\nfront = 'a.mp4'": "expected one of observation",
        "[details]\nfolder = 'a'": "unknown key 'folder'",
        "[details]\nfile = 'a'\nrow = {n = 1}": "row: n: expected a text",
        "id = 7": "id: expected a text",
    }.items():
        (tmp_path / "runs.toml").write_text(f"{HEAD}{text}\n")
        with pytest.raises(LayoutError, match=message):
            layout_reference(tmp_path / "runs.toml")
