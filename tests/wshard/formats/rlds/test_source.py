"""RLDS data sets of other writers are read with the values that went into them."""

from __future__ import annotations

import io
import pickle
import struct

import numpy as np
import pytest
from PIL import Image
from rlds_sets import encode, group, image, record_of, steps, steps_of, tensor, tfrecord, write_rlds

from wshard import (
    Channel,
    DType,
    Episode,
    FormatError,
    TrajectoryIngestor,
    TrajectoryRetriever,
    detect_format,
    open_episode,
)
from wshard.errors import ChecksumError, LimitError, MissingFileError, UnsupportedFormatError
from wshard.formats.contract import SourceContract
from wshard.formats.rlds.source import RLDSSource

FORMATS = ("tfrecord", "array_record")
SPLITS = {"train": [[0, 1], [2]], "val": [[3]]}


def write(folder, file_format="tfrecord", splits=SPLITS):
    records = {name: [[record_of(n) for n in shard] for shard in shards] for name, shards in splits.items()}
    return write_rlds(folder / "toy" / "1.0.0", records, file_format=file_format)


def pixels(images):
    found = np.stack([np.asarray(Image.open(io.BytesIO(one))) for one in images])
    return found if found.ndim == 4 else found[..., None]


def expected_episode(number, id_):
    values = steps_of(number)
    count = 4 + number
    lanes = {name: pixels(values[f"observation/{name}"]) for name in ("image", "wrist", "depth")}
    lanes |= {"state": values["observation/state"], "gripper/code": values["observation/gripper/code"].astype(np.uint8)}
    lanes |= {"gripper/width": values["observation/gripper/width"].astype(np.float64)}
    lanes |= {"discount": values["discount"]}
    lanes |= {"raw": np.stack([np.frombuffer(row) for row in values["raw"]]), "label": values["label"]}
    lanes |= {"packed": np.array([[n, -n, 5] for n in range(count)], np.int16)}
    lanes |= {"ragged": np.arange(2 * count).reshape(-1, 2)}
    return Episode(
        id_,
        "",
        count,
        observations={name: Channel.of(name, values) for name, values in lanes.items()},
        actions={"action": values["action"]},
        rewards=values["reward"],
        terminations=values["is_terminal"],
        truncations=values["is_last"] & ~values["is_terminal"],
        metadata={
            "dataset": "toy",
            "file_path": f"/data/{number}.h5",
            "success": bool(number % 2),
            "episode_id": 70 + number,
            "gain": [1.5, None],
            "text": ["near", "far"],
            "language_instruction": "pick up the can",
            "task": "pick up the can",
            "left_out": {
                "uneven": "its size differs from step to step",
                "blank": "expected a JPEG or PNG, found 0 bytes of neither",
            },
        },
        blocks={"aux/text/text": np.array([0, 0] + [1] * (count - 2), "<i4").tobytes()},
    )


EPISODES = {f"train/{n}": expected_episode(n, f"train_{n:06d}") for n in range(3)}
EPISODES |= {"val/0": expected_episode(3, "val_000000")}


class TestTFRecordSource(SourceContract):
    def make(self, tmp_path):
        return RLDSSource(write(tmp_path)), EPISODES


class TestArrayRecordSource(SourceContract):
    def make(self, tmp_path):
        return RLDSSource(write(tmp_path, "array_record")), EPISODES


@pytest.fixture(scope="module", params=FORMATS)
def folder(request, tmp_path_factory):
    return write(tmp_path_factory.mktemp("rlds"), request.param)


def test_steps_and_frames_are_read_in_part(folder):
    assert detect_format(folder) == "rlds"
    with open_episode(f"{folder}#train/2") as episode:
        expected = EPISODES["train/2"]
        for block, channel in expected.lanes().items():
            assert np.array_equal(episode.lane_view(block)[2:4], channel.data[2:4]), block
        frames = episode.encoded("image")
        assert [bytes(frames.image(step)) for step in range(6)] == steps_of(2)["observation/image"]
        assert episode.lanes()["signal/depth"].dtype is DType.UINT16


def test_a_description_reads_no_frames(tmp_path):
    place = write(tmp_path)
    path = place / "toy-train.tfrecord-00001-of-00002"
    data = bytearray(path.read_bytes())
    data[data.rindex(b"\xff\xd9")] ^= 1  # the end of the last JPEG
    path.write_bytes(data)
    with RLDSSource(place) as source:
        assert source.info("train/2").length == 6
        with pytest.raises(ChecksumError, match=r"toy-train\.tfrecord-00001-of-00002: record 0: the checksum"):
            source.lane("train/2", "signal/state")
        assert source.load("train/1").length == 5


def test_data_sets_are_ingested_searched_and_loaded_in_place(folder, tmp_path):
    with TrajectoryIngestor(tmp_path) as ingestor:
        report = ingestor.ingest([folder.parent])
        assert (report.new, report.embedded, report.failed) == (4, 4, [])
        assert ingestor.ingest([folder.parent]).unchanged == 4
    hit = TrajectoryRetriever(tmp_path).search_similar_episodes(f"{folder}#train/1", top_k=1)[0]
    assert (hit.episode_id, hit.key) == ("train_000001", "train/1")
    assert np.array_equal(hit.load(channels=["state"])["state"], steps_of(1)["observation/state"])
    (found,) = TrajectoryRetriever(tmp_path).search_similar_episodes(text="pick up the can", top_k=1)
    assert found.key in EPISODES


def test_it_is_pickled_by_its_place(folder):
    with RLDSSource(folder) as source:
        expected = source.load("val/0")
    with pickle.loads(pickle.dumps(source)) as again:  # noqa: S301  (our own)
        assert again.load("val/0") == expected


def test_numbers_that_are_not_packed_are_read(tmp_path):
    def sized(number, data):
        return bytes([number << 3 | 2, len(data)]) + data

    floats = b"".join(b"\x0d" + struct.pack("<f", value) for value in (1.5, -2))
    ints = b"\x08\x01\x08\xac\x02"
    entries = [sized(1, sized(1, b"steps/a") + sized(2, sized(2, floats)))]
    entries += [sized(1, sized(1, b"steps/b") + sized(2, sized(3, ints)))]
    tree = group(steps=steps(a=tensor("float32"), b=tensor("int32")))
    place = write_rlds(tmp_path / "x", {"train": [[sized(1, b"".join(entries))]]}, tree)
    with open_episode(f"{place}#train/0") as episode:
        assert episode.lane("a").tolist() == [1.5, -2]
        assert episode.lane("b").tolist() == [1, 300]


def test_observations_come_before_other_features_of_a_name(tmp_path):
    tree = group(steps=steps(state=tensor("int64"), observation=group(state=tensor("int64"))))
    record = encode({"steps/state": np.arange(2), "steps/observation/state": np.array([5, 6])})
    place = write_rlds(tmp_path / "x", {"train": [[record]]}, tree)
    with open_episode(f"{place}#train/0") as episode:
        assert episode.lane("state").tolist() == [5, 6]
        assert episode.lane("steps/state").tolist() == [0, 1]


# ---- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "change", "error"),
    [
        ("dataset_info.json", lambda text: text[:-5], FormatError),
        ("dataset_info.json", lambda text: text.replace('"tfrecord"', '"riegeli"'), UnsupportedFormatError),
        ("dataset_info.json", lambda text: text.replace("{DATASET}", "../../{DATASET}"), FormatError),
        ("dataset_info.json", lambda text: text.replace("{DATASET}", "{HOME}"), FormatError),
        ("dataset_info.json", lambda text: text.replace('["2", "1"]', '["99999999999", "1"]'), LimitError),
        ("dataset_info.json", lambda text: text.replace('["2", "1"]', '"2"'), FormatError),
        ("dataset_info.json", lambda text: text.replace("shardLengths", "shardLength"), FormatError),
        ("features.json", lambda text: text.replace("steps", "stairs"), FormatError),
        ("features.json", lambda _: "[" * 100_000, FormatError),
    ],
)
def test_wrong_descriptions_are_typed_errors(tmp_path, name, change, error):
    place = write(tmp_path)
    text = (place / name).read_text()
    (place / name).write_text(change(text))
    assert (place / name).read_text() != text
    with pytest.raises(error), RLDSSource(place) as source:
        [source.info(key) for key in source.keys()]  # noqa: SIM118  (a Source is no mapping)


def test_one_bad_shard_stops_no_other(tmp_path):
    place = write(tmp_path)
    shard = place / "toy-train.tfrecord-00000-of-00002"
    data = shard.read_bytes()
    with RLDSSource(place) as source:
        shard.write_bytes(data[:-9])
        with pytest.raises(FormatError, match=r"00000-of-00002: record 1 at byte \d+: expected \d+ bytes"):
            source.info("train/1")
        assert source.load("train/0").length == 4  # before the damage
        shard.unlink()
        with pytest.raises(MissingFileError):
            RLDSSource(place).info("train/0")
        shard.write_bytes(b"\0" * 11 + data[11:])
        with pytest.raises(ChecksumError, match="record 0 at byte 0: the checksum of its length"):
            RLDSSource(place).info("train/0")
        assert source.load("train/2").length == 6
        (place / "toy-val.tfrecord-00000-of-00001").write_bytes(b"")
        with pytest.raises(FormatError, match="expected 1 records or more, found 0"):
            source.load("val/0")


@pytest.mark.parametrize(("number", "size", "damaged"), [(3, 1, {3}), (5, 1, {5}), (0, 8, {0}), (3, 40, {3, 4, 5})])
def test_a_damaged_length_is_that_of_one_record_where_checksums_prove_the_next(tmp_path, number, size, damaged):
    """Also where the data behind it are damaged, the records before it are read."""
    place = write(tmp_path, splits={"train": [[*range(6)]]})
    path = place / "toy-train.tfrecord-00000-of-00001"
    data, start = bytearray(path.read_bytes()), 0
    for _ in range(number):
        start += 16 + struct.unpack_from("<Q", data, start)[0]
    data[start : start + size] = bytes(one ^ 1 for one in data[start : start + size])
    path.write_bytes(data)
    with RLDSSource(place) as source:
        for other in range(6):
            if other not in damaged:
                assert source.load(f"train/{other}").length == 4 + other
                continue
            with pytest.raises(ChecksumError, match=f"record {number} at byte {start}: the checksum of its length"):
                source.info(f"train/{other}")


@pytest.mark.parametrize("file_format", FORMATS)
def test_random_damage_is_a_typed_error_or_an_episode(tmp_path, file_format):
    place, rng = write(tmp_path, file_format, {"train": [[0]]}), np.random.default_rng(0)
    path = next(place.glob("toy-train*"))
    data = path.read_bytes()
    used = len(data.rstrip(b"\0"))
    for number in range(60):
        bad = bytearray(data[: rng.integers(1, used)] if number % 5 == 0 else data)
        for spot in rng.integers(0, min(used, len(bad)), 3).tolist():
            bad[spot] = rng.integers(256)
        path.write_bytes(bad)
        try:
            with RLDSSource(place) as source:
                source.load("train/0").validate()
        except FormatError as error:
            assert "toy" in str(error)  # noqa: PT017  (an error is one of two right answers)


def test_damage_after_a_right_checksum_is_a_typed_error(tmp_path):
    place, rng = write(tmp_path, splits={"train": [[0]]}), np.random.default_rng(0)
    path, record = next(place.glob("toy-train*")), record_of(0)
    for _ in range(100):
        bad = bytearray(record)
        for spot in rng.integers(0, len(bad), 4).tolist():
            bad[spot] = rng.integers(256)
        path.write_bytes(tfrecord([bytes(bad)]))
        try:
            with RLDSSource(place) as source:
                source.load("train/0").validate()
        except FormatError as error:
            assert "toy" in str(error)  # noqa: PT017  (an error is one of two right answers)


@pytest.mark.parametrize(
    ("member", "values"),
    [
        (tensor("float64", 1 << 20, 1 << 20), np.zeros(3)),
        (tensor("float64", 4, encoding="zlib"), [b"x\x9c" + bytes(99)] * 3),
        (
            image("png", 1 << 20, 1 << 20, 3),
            [b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBB", 13, b"IHDR", 1 << 20, 1 << 20, 8, 2)] * 3,
        ),
    ],
)
def test_bombs_cost_no_memory(tmp_path, member, values):
    tree = group(steps=steps(bomb=member, ok=tensor("int64"), is_first=tensor("bool")))
    record = encode({"steps/bomb": values, "steps/ok": np.arange(3), "steps/is_first": np.array([1, 0, 0])})
    place = write_rlds(tmp_path / "x", {"train": [[record]]}, tree)
    with RLDSSource(place) as source:
        assert source.lane("train/0", "signal/ok").tolist() == [0, 1, 2]
        if "signal/bomb" in source.info("train/0").lanes:
            with pytest.raises(FormatError):
                source.lane("train/0", "signal/bomb")


def test_shards_that_cannot_hold_their_episodes_are_refused(tmp_path):
    place = write(tmp_path)
    text = (place / "dataset_info.json").read_text()
    (place / "dataset_info.json").write_text(text.replace('["2", "1"]', '["67108000", "1"]'))
    with pytest.raises(FormatError, match=r"expected shardLengths that fit the files, found 67108000 episodes in "):
        RLDSSource(place).keys()


def test_shards_may_be_links_out_of_the_folder(tmp_path):
    place = write(tmp_path)
    with RLDSSource(place) as source:
        expected = {key: source.load(key) for key in source.keys()}  # noqa: SIM118  (a Source is no mapping)
    for number, shard in enumerate(sorted(place.glob("*tfrecord*"))):
        shard.rename(tmp_path / f"blob-{number}")
        shard.symlink_to(tmp_path / f"blob-{number}")
    with RLDSSource(place) as source:
        assert {key: source.load(key) for key in expected} == expected
    shard.unlink()
    shard.symlink_to("/dev/zero")
    with pytest.raises(FormatError, match="a character device"), RLDSSource(place) as source:
        source.load([*expected][-1])
