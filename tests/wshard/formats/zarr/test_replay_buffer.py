"""Replay buffers in zarr are read in place, also in a .zip, and written as Diffusion Policy has them."""

from __future__ import annotations

import json
import os
import pickle
import struct
import warnings
import zipfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from random_lanes import lane_rows, make_lane

from wshard import (
    Channel,
    DType,
    Episode,
    FormatError,
    FormatWarning,
    TimebaseSpec,
    TrajectoryIngestor,
    TrajectoryRetriever,
    detect_format,
    load_wshard,
    open_episode,
    open_sink,
    save_wshard,
)
from wshard.core.episode.info import EpisodeInfo
from wshard.errors import CodecError, EpisodeError, LimitError, MissingExtraError
from wshard.formats.contract import SourceContract
from wshard.formats.zarr.source import ReplayBufferSource
from wshard.media import ImageFrames, encode_image

ENDS = [5, 12, 20]
STORED = [kind for kind in DType if kind is not DType.BFLOAT16]


def arrays():
    rng = np.random.default_rng(0)
    return {
        "img": rng.integers(0, 255, (20, 6, 8, 3)).astype(np.float32),
        "camera0_rgb": rng.integers(0, 255, (20, 4, 4, 3), np.uint8),
        "state": rng.standard_normal((20, 5)).astype(np.float32),
        "action": rng.standard_normal((20, 2)).astype(np.float32),
        "reward": rng.standard_normal((20, 1)),
        "done": np.isin(np.arange(20), np.array(ENDS) - 1).astype(np.int64),
        "n_contacts": rng.integers(0, 9, (20, 1), np.int32),
    }


def write(path, version=2, data=None, ends=ENDS):
    """Write a replay buffer as the zarr library does."""
    if data is None and ends is ENDS:
        for name, content in usual_files(version).items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
        return path
    return write_store(path, version, arrays() if data is None else data, ends)


@cache
def usual_files(version):
    """Return the files of the usual buffer, which the library takes most of a second to write."""
    with TemporaryDirectory() as folder:
        root = write_store(Path(folder), version, arrays(), ENDS)
        return {file.relative_to(root): file.read_bytes() for file in root.rglob("*") if file.is_file()}


def write_store(path, version, data, ends):
    root = zarr.open_group(path, mode="w", zarr_format=version)
    for name, values in data.items():
        rows = 1 if values.ndim > 2 else 4
        array = root.create_array(
            f"data/{name}", shape=values.shape, chunks=(rows, *values.shape[1:]), dtype=values.dtype
        )
        array[:] = values
    for name, values in (("episode_ends", np.array(ends, np.int64)), ("quality", np.arange(len(ends)) / 2)):
        array = root.create_array(f"meta/{name}", shape=values.shape, chunks=(len(values),), dtype=values.dtype)
        array[:] = values
    return path


def pack(folder, path):
    """Put a store into a .zip without compression, as UMI does."""
    with zipfile.ZipFile(path, "w") as file:
        for place, _, names in sorted(os.walk(folder)):
            for name in names:
                whole = os.path.join(place, name)  # noqa: PTH118  (os.walk gives texts)
                file.write(whole, os.path.relpath(whole, folder))
    return path


def expected():
    found, start = {}, 0
    for number, stop in enumerate(ENDS):
        rows = {name: values[start:stop] for name, values in arrays().items()}
        action, reward, done = rows.pop("action"), rows.pop("reward"), rows.pop("done")
        found[str(number)] = Episode(
            f"episode_{number}",
            "",
            stop - start,
            observations={name: Channel.of(name, values) for name, values in rows.items()},
            actions={"action": action},
            rewards=reward[:, 0],
            terminations=done != 0,
            metadata={"quality": number / 2},
        )
        start = stop
    return found


class TestZarrV2(SourceContract):
    def make(self, tmp_path):
        return ReplayBufferSource(write(tmp_path / "a.zarr")), expected()


class TestZarrV3(SourceContract):
    def make(self, tmp_path):
        return ReplayBufferSource(write(tmp_path / "a.zarr", 3)), expected()


class TestZarrZip(SourceContract):
    def make(self, tmp_path):
        return ReplayBufferSource(pack(write(tmp_path / "a.zarr"), tmp_path / "a.zarr.zip")), expected()


def test_locations_are_known_by_their_content(tmp_path):
    folder = write(tmp_path / "buffer")
    assert detect_format(folder) == detect_format(pack(folder, tmp_path / "b.zip")) == "zarr"
    assert detect_format(write(tmp_path / "three", 3)) == "zarr"
    zarr.open_group(tmp_path / "other.zarr", mode="w").create_array("data/x", shape=(3,), dtype="f4")
    assert detect_format(tmp_path / "other.zarr") != "zarr" or not (tmp_path / "other.zarr" / "meta").exists()


def test_buffers_are_ingested_searched_and_loaded_in_place(tmp_path):
    place = write(tmp_path / "push.zarr")
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        report = ingestor.ingest([place])
        assert (report.new, report.embedded, report.failed) == (3, 3, [])
        assert ingestor.ingest([place]).unchanged == 3
    hit = TrajectoryRetriever(tmp_path / "archive").search_similar_episodes(f"{place}#1", top_k=1)[0]
    assert (hit.episode_id, hit.key) == ("episode_1", "1")
    assert np.array_equal(hit.load(channels=["state"])["state"], arrays()["state"][5:12])
    with open_episode(f"{place}#2") as episode:
        assert np.array_equal(episode.lane_view("img")[2:4], arrays()["img"][14:16])


def fingerprints(place):
    with ReplayBufferSource(place) as source:
        return [source.fingerprint(key) for key in "012"]


def test_a_changed_episode_changes_alone(tmp_path):
    ends, data = [8, 16, 20], arrays()
    place = write(tmp_path / "a.zarr", ends=ends)
    packed = pack(place, tmp_path / "a.zip")
    old = [fingerprints(one) for one in (place, packed)]
    more = {name: np.concatenate([values, values[:4]]) for name, values in data.items()}
    more["state"][9] += 1
    second = write(tmp_path / "b.zarr", data=more, ends=[*ends, 24])
    for path in sorted(second.rglob("*")):  # unchanged files keep their time
        old_path = place / path.relative_to(second)
        if path.is_file() and old_path.is_file() and path.read_bytes() == old_path.read_bytes():
            os.utime(path, ns=(old_path.stat().st_mtime_ns,) * 2)
    new = [fingerprints(one) for one in (second, pack(second, tmp_path / "b.zip"))]
    for one, other in zip(old, new, strict=True):
        assert [left == right for left, right in zip(one, other, strict=True)] == [True, False, True]


# ---- what is damaged, missing or hostile ---------------------------------------------------------------------------


def change(path, values):
    about = json.loads(path.read_text())
    path.write_text(json.dumps(about | values))


def test_a_codec_that_is_not_installed_is_an_error_of_its_lane_alone(tmp_path):
    place = write(tmp_path / "umi.zarr")
    change(place / "data/camera0_rgb/.zarray", {"compressor": {"id": "imagecodecs_jpegxl", "level": 99}})
    with ReplayBufferSource(place) as source:
        assert "imagecodecs" in source.info("0").metadata["left_out"]["camera0_rgb"]
        assert source.lane("0", "signal/state").shape == (5, 5)
        with pytest.raises(MissingExtraError, match=r"data/camera0_rgb: expected the codecs imagecodecs_jpegxl"):
            source.lane("0", "signal/camera0_rgb")
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        assert ingestor.ingest([place]).embedded == 3


@pytest.mark.parametrize(
    "about",
    [
        {"filters": [{"id": "pickle"}], "dtype": "|O"},
        {"filters": [{"id": "pickle", "protocol": 5}]},
        {"compressor": {"id": "Pickle"}},
    ],
)
@pytest.mark.parametrize("name", ["data/state", "meta/episode_ends"])
def test_pickles_are_never_executed(tmp_path, name, about):
    class Bomb:
        def __reduce__(self) -> tuple[object, ...]:
            return (os.mkdir, (str(tmp_path / "executed"),))

    place = write(tmp_path / "a.zarr")
    change(place / name / ".zarray", about)
    for chunk in (place / name).glob("[0-9]*"):
        chunk.write_bytes(pickle.dumps(Bomb()))
    with ReplayBufferSource(place) as source:
        if name == "data/state":
            assert "pickles" in source.info("0").metadata["left_out"]["state"]
            source.load("0")
        else:
            with pytest.raises(FormatError, match="pickles"):
                source.keys()
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("place", "value", "damaged", "text"),
    [
        (3, 4, {2, 3, 4}, "expected ascending ends, found 6, 4"),
        (3, -1, {2, 3, 4}, "expected ascending ends, found 6, -1"),
        (3, 2**62, {3, 4, 5}, f"expected ascending ends, found {2**62}, 10"),
        (9, 2**62, {9}, f"expected ends up to 20 rows, found {2**62}"),
    ],
)
def test_a_wrong_end_costs_the_episodes_beside_it_alone(tmp_path, place, value, damaged, text):
    ends = [*range(2, 21, 2)]
    ends[place] = value
    folder = write(tmp_path / "a.zarr", ends=ends)
    with TrajectoryIngestor(tmp_path / "archive", limits=None) as ingestor:
        report = ingestor.ingest([folder], windows="whole")
    assert ({failure.key for failure in report.failed}, report.new) == ({*map(str, damaged)}, 10 - len(damaged))
    assert all(f"meta/episode_ends: episode {one.key}: {text}" in one.error for one in report.failed)
    with ReplayBufferSource(folder) as source:
        lanes = [{*source.info(str(number)).lanes} for number in {*range(10)} - damaged]
    assert "signal/state" in lanes[0]
    assert all(one == lanes[0] for one in lanes)


def test_damaged_files_are_typed_errors_and_others_are_read(tmp_path):
    place = write(tmp_path / "a.zarr")
    (place / "data/state/0.0").write_bytes(b"no chunk of blosc")
    with ReplayBufferSource(place) as source:
        with pytest.raises(FormatError, match=r"data/state/0\.0: cannot be read"):
            source.load("0")
        assert source.load("2").length == 8
    bad = {"data/img/.zarray": "{", "data/action/.zarray": '{"zarr_format": 2}', "data/done/.zarray": "[" * 99_999}
    for name, text in bad.items():
        (place / name).write_text(text)
    change(place / "data/n_contacts/.zarray", {"chunks": [1 << 40, 1]})
    change(place / "data/camera0_rgb/.zarray", {"shape": [3, 4, 4, 3]})
    with pytest.raises(FormatError), ReplayBufferSource(place) as source:
        source.info("2")
    for name in bad:
        (place / name).unlink()
    (place / "data/state/.zattrs").write_text("{")
    with pytest.raises(FormatError, match=r"data/state/\.zattrs: expected JSON"), ReplayBufferSource(place) as source:
        source.info("2")
    (place / "data/state/.zattrs").write_text("{}")
    with ReplayBufferSource(place) as source:
        assert set(source.info("2").metadata["left_out"]) == {"n_contacts", "camera0_rgb"}
        assert set(source.info("2").lanes) == {"signal/state", "reward"}
        assert source.load("2").length == 8


def test_random_damage_of_a_zip_is_a_typed_error_or_an_episode(tmp_path):
    data = pack(write(tmp_path / "a.zarr"), tmp_path / "a.zarr.zip").read_bytes()
    path, rng = tmp_path / "bad.zarr.zip", np.random.default_rng(0)
    for number in range(40):
        bad = bytearray(data[: rng.integers(1, len(data))] if number % 8 == 0 else data)
        for place in rng.integers(0, len(bad), 6).tolist():
            bad[place] = rng.integers(256)
        path.write_bytes(bad)
        try:
            with ReplayBufferSource(path) as source, warnings.catch_warnings(action="ignore", category=FormatWarning):
                source.load("0").validate()
        except FormatError as error:
            assert "bad.zarr.zip" in str(error)  # noqa: PT017  (an error is one of two right answers)


def test_a_chunk_without_a_file_is_a_warning_or_an_error(tmp_path):
    write(tmp_path / "a.zarr")
    (tmp_path / "a.zarr" / "data" / "state" / "2.0").unlink()
    with ReplayBufferSource(tmp_path / "a.zarr") as source:
        source.lane("0", "signal/state")
        with pytest.warns(FormatWarning, match=r"data/state: rows 5 to 11: expected .* chunk 2\.0, found none"):
            assert not source.lane("1", "signal/state")[3:].any()
    put(tmp_path / "b.zarr", [plain(0), replace(plain(1), rewards=np.zeros(7, np.float32))])
    (tmp_path / "b.zarr" / "data" / "reward" / "0").unlink()
    with (
        ReplayBufferSource(tmp_path / "b.zarr") as source,
        pytest.raises(FormatError, match=r"data/reward: .* chunk 0"),
    ):
        source.lane("1", "reward")


def test_a_zip_bomb_costs_no_memory(tmp_path):
    path = tmp_path / "bomb.zarr.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("meta/episode_ends/.zarray", b" " * (1 << 25))
    with pytest.raises(LimitError), ReplayBufferSource(path) as source:
        source.keys()
    data = bytearray(path.read_bytes())
    place = data.rindex(b"PK\x01\x02") + 24
    data[place : place + 4] = struct.pack("<I", 0xFFFFFFF0)
    path.write_bytes(data)
    with pytest.raises(LimitError, match="members"), ReplayBufferSource(path) as source:
        source.keys()


# ---- writing -------------------------------------------------------------------------------------------------------


def plain(seed, length=7):
    rng = np.random.default_rng(seed)
    return Episode(
        f"one-{seed}",
        "arm",
        length,
        timebase=TimebaseSpec(tick_hz=12.5),
        observations={
            "robot/state": rng.standard_normal((length, 3)),
            "rgb": rng.integers(0, 255, (length, 4, 6, 3), np.uint8),
        },
        actions={"action": rng.standard_normal((length, 2)).astype(np.float32)},
        rewards=rng.standard_normal(length).astype(np.float32),
        terminations=np.arange(length) == length - 1,
        metadata={"task": "stack", "operator": {"name": "x"}},
    )


def put(folder, episodes, mode="append"):
    with open_sink(folder, "zarr", mode=mode) as sink:
        return [sink.write(one) for one in episodes]


def test_the_zarr_library_finds_what_diffusion_policy_reads(tmp_path):
    assert put(tmp_path / "a.zarr", [plain(0), plain(1, 4)]) == ["0", "1"]
    root = zarr.open(tmp_path / "a.zarr", mode="r")
    assert root.metadata.zarr_format == 2
    assert root["meta"]["episode_ends"][:].tolist() == [7, 11]
    assert root["meta"]["episode_ends"].dtype == np.int64
    assert {name: array.dtype.name for name, array in root["data"].arrays()} == {
        "action": "float32",
        "robot.state": "float64",
        "rgb": "uint8",
        "reward": "float32",
        "done": "bool",
    }
    assert all(array.shape[0] == 11 for _, array in root["data"].arrays())
    assert np.array_equal(root["data"]["action"][7:], plain(1, 4)["action/action"])
    assert detect_format(tmp_path / "a.zarr") == "zarr"


def test_episodes_are_added_whole_or_not_at_all(tmp_path):
    place = tmp_path / "a.zarr"
    put(place, [plain(0)])
    (place / "note.txt").write_text("own")
    assert put(place, [plain(1), plain(2)]) == ["1", "2"]
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    for wrong in (plain(1), replace(plain(5), rewards=None), replace(plain(5), metadata={"x": object()})):
        with pytest.raises(EpisodeError):
            put(place, [plain(4), wrong])
        assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before
    with open_sink(place, "zarr") as sink:
        assert sink.has("one-2")
        with pytest.raises(EpisodeError, match="expected float64"):
            sink.write(replace(plain(6), observations={**plain(6).observations, "robot/state": np.zeros((7, 2))}))
        sink.write(plain(7, 3))
    with ReplayBufferSource(place) as source:
        found = [source.load(key) for key in source.keys()]  # noqa: SIM118  (a Source is no mapping)
    assert found == [plain(0), plain(1), plain(2), plain(7, 3)]
    with pytest.raises(FileExistsError):
        put(place, [plain(3)], "error")
    assert put(place, [plain(4)], "overwrite") == ["0"]
    assert (place / "note.txt").read_text() == "own"
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]
    with pytest.raises(CodecError):
        open_sink(place, "zarr", compression="zstd")


class BrokenFrames(ImageFrames):
    """Frames whose last images cannot be read."""

    def decode(self, start, stop):
        if stop > 70:
            raise EpisodeError("broken")
        return super().decode(start, stop)


@pytest.mark.parametrize("rows", [7, 64, 1000])
def test_rows_are_written_by_whole_chunks_without_those_of_refused_episodes(tmp_path, monkeypatch, rows):
    monkeypatch.setattr("wshard.formats.zarr.sink._MAX_ROWS", rows)
    rng, there = np.random.default_rng(rows), []
    image = encode_image(np.zeros((2, 2, 3), np.uint8), "png")

    def make(length, frames):
        camera = Channel.of("rgb", frames("png", [image] * length))
        lanes = {"a": rng.normal(size=(length, 2)).astype(np.float32), "rgb": camera, "z": rng.normal(size=length)}
        return Episode(f"{len(there)}-{length}", observations=lanes, actions={"u": lanes["z"]})

    for lengths in ((3, 90, 64), (1, 130), (5,)):  # the second and third go on with what is there
        with open_sink(tmp_path / "buffer", "zarr") as sink:
            for length in lengths:
                there.append(make(length, ImageFrames))
                sink.write(there[-1])
                with pytest.raises(EpisodeError, match="broken"):
                    sink.write(make(80, BrokenFrames))
    with ReplayBufferSource(tmp_path / "buffer") as source:
        assert len(source.keys()) == len(there)
        for key, ep in zip(source.keys(), there, strict=True):
            found = source.load(key)
            assert found.length == ep.length
            for name in ("a", "z"):
                assert np.array_equal(found.observations[name].data, ep.observations[name].data)
    state = zarr.open_group(tmp_path / "buffer", mode="r")["data/a"]
    assert state.shape == (sum(ep.length for ep in there), 2)
    assert len(list((tmp_path / "buffer" / "data" / "a").glob("[0-9]*"))) == -(-state.shape[0] // rows)


def test_equal_episodes_give_equal_bytes_and_frames_are_decoded(tmp_path):
    images = [encode_image(np.full((8, 8, 3), n, np.uint8), "png") for n in range(70)]
    ep = Episode("a", "", 70, observations={"cam": ImageFrames("png", images)}, actions={"ctrl": np.zeros((70, 1))})
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        put(tmp_path / name / "x.zarr", [ep])
    one, two = (
        {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in (tmp_path / name).rglob("*")
            if path.is_file()
        }
        for name in "ab"
    )
    assert one == two
    with open_episode(f"{tmp_path / 'a' / 'x.zarr'}#0") as episode:
        assert episode.lane("cam")[:, 0, 0, 0].tolist() == list(range(70))
        assert episode.timebase.assumed
    save_wshard(ep, tmp_path / "e.wshard")
    with open_episode(tmp_path / "e.wshard") as episode, open_sink(tmp_path / "n.zarr", "zarr") as sink:
        assert sink.losses(EpisodeInfo.of(episode)) == ["signal/cam: frames are stored decoded"]


LANES = lane_rows(
    ["state", "observation.pose", "a/b", "reward", "action", "done"], STORED, [(), (1,), (3,), (2, 3), (4, 4, 3)]
)


@settings(max_examples=6)
@given(LANES, LANES, st.tuples(st.integers(1, 9), st.sampled_from([None, np.float32, np.float64]), st.booleans()))
def test_lanes_survive_the_way_to_a_buffer_and_back(tmp_path_factory, seen, done, about):
    length, reward, ends = about
    folder = tmp_path_factory.mktemp("set")
    episode = Episode(
        "one",
        "arm",
        length,
        timebase=TimebaseSpec(tick_hz=12.3, epoch_ns=5),
        observations={name: make_lane(name, length, row) for name, row in seen.items()},
        actions={name: make_lane(name, length, row) for name, row in done.items()},
        rewards=None if reward is None else np.arange(length, dtype=reward) / 3,
        terminations=np.arange(length) % 2 == 1 if ends else None,
        truncations=np.arange(length) % 3 == 1 if ends else None,
        timestamps_ns=np.arange(length) * 10**17 if ends else None,
        metadata={"task": "stack", "n": 1},
    )
    save_wshard(episode, folder / "a.wshard")
    put(folder / "set.zarr", [load_wshard(folder / "a.wshard")])
    with ReplayBufferSource(folder / "set.zarr") as source:
        found = source.load("0")
    save_wshard(found, folder / "b.wshard")
    assert load_wshard(folder / "b.wshard") == load_wshard(folder / "a.wshard")
