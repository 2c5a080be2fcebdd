"""MCAP files of several topics are one episode on one clock."""

from __future__ import annotations

import base64
import json
import pickle
import struct

import mcap_protobuf.writer
import numpy as np
import pytest
import zstandard
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, struct_pb2
from mcap.reader import make_reader
from mcap.writer import Writer
from topic_logs import (
    JOINTS,
    SECOND,
    START,
    jpeg,
    json_rows,
    picture,
    protobuf_type,
    robot_messages,
    write_encoded,
    write_ros2,
)

from wshard import (
    FormatError,
    TrajectoryIngestor,
    TrajectoryRetriever,
    detect_format,
    load_wshard,
    open_episode,
    save_wshard,
)
from wshard.errors import ChecksumError, CodecError, EntryNotFoundError
from wshard.formats.open import open_location
from wshard.formats.topics.source import McapSource


@pytest.fixture(scope="module")
def robot(tmp_path_factory):
    return write_ros2(tmp_path_factory.mktemp("logs") / "run_17.mcap", robot_messages())


def hold(rows, topic, clock):
    """Return of each time the latest message of a topic until then, or the first one."""
    messages = [(time, message) for time, name, _, _, message in rows if name == topic]
    return [next((m for t, m in reversed(messages) if t <= time), messages[0][1]) for time in clock]


def test_topics_of_several_rates_are_on_the_clock_of_the_camera(robot):
    rows = robot_messages()
    clock = [time for time, topic, *_ in rows if topic == "/camera/color/compressed"]
    assert detect_format(robot) == "mcap"
    with McapSource(robot) as source:
        assert source.keys() == [""]
        ep = source.load("")
    ep.validate()
    assert (ep.id, ep.length, ep.timebase.tick_hz) == ("run_17", 10, 10.0)
    assert ep.timestamps_ns.tolist() == clock
    states = hold(rows, "/joint_states", clock)
    found = ep.observations["joint_states/position"].data
    assert (found.dtype, found.tolist()) == (np.float64, [state["position"] for state in states])
    twists = hold(rows, "/cmd_vel", clock)
    assert ep.actions["cmd_vel/linear/x"].data.tolist() == [twist["linear"]["x"] for twist in twists]
    assert not any(name.startswith("cmd_vel") for name in ep.observations)
    assert ep.metadata["task"] == ep.metadata["task/data"] == "pick up the cube"
    assert ep.metadata["joint_states/name"] == JOINTS
    assert ep.metadata["clock"] == {"topic": "/camera/color/compressed", "method": "hold"}
    assert ep.metadata["topics"]["/joint_states"] == {"type": "sensor_msgs/msg/JointState", "messages": 100}


def test_other_stamps_are_lanes_of_their_own(robot):
    rows = robot_messages()
    with open_episode(robot) as episode:
        clock = episode.lane("time/timestamps_ns")
        latest = [max(t for t, topic, *_ in rows if topic == "/joint_states" and t <= time) for time in clock]
        assert episode.lane("aux/stamps_ns/joint_states").tolist() == latest
        assert episode.lane("aux/stamps_ns/joint_states/header/stamp").tolist() == latest
        assert not episode.has("aux/stamps_ns/camera/color/compressed")


def test_other_stamps_survive_a_conversion(robot, tmp_path):
    with open_episode(robot) as episode:
        stamps, loaded = episode.lane("aux/stamps_ns/joint_states"), episode.load()
        assert not episode.slice(0, 10).blocks
    save_wshard(loaded, tmp_path / "a.wshard")
    block = load_wshard(tmp_path / "a.wshard").blocks["aux/stamps_ns/joint_states"]
    assert np.frombuffer(block, "<i8").tolist() == stamps.tolist()


def test_camera_frames_are_read_on_demand(robot):
    with open_episode(robot) as episode:
        frames = episode.encoded("signal/camera/color/compressed")
        assert [bytes(frames.image(step)) for step in range(10)] == [jpeg(number) for number in range(10)]
        shown = episode.lane_view("camera/color/compressed")[4:6]
        assert np.abs(shown.astype(int) - np.stack([picture(4), picture(5)])).mean() < 4
        raw = episode.lane_view("camera/raw")[5:7]  # recorded after the clock's frame of the same time
        assert np.array_equal(raw, np.stack([picture(4), picture(5)]))


def test_without_a_camera_the_topic_of_numbers_with_most_messages_is_the_clock(tmp_path):
    path = write_ros2(tmp_path / "arm.mcap", robot_messages(cameras=False), "LZ4")
    with open_episode(path) as episode:
        assert (episode.length, episode.timebase.tick_hz) == (100, 100.0)
        assert episode.metadata["clock"]["topic"] == "/joint_states"


def test_the_clock_can_be_chosen(robot):
    joints = [time for time, topic, *_ in robot_messages() if topic == "/joint_states"]
    with open_location(robot, ";/joint_states=clock") as source, pickle.loads(pickle.dumps(source)) as again:  # noqa: S301
        for one in (source, again):
            assert one.lane("", "time/timestamps_ns").tolist() == joints
            assert one.info("").metadata["clock"] == {"topic": "/joint_states", "method": "hold"}
    with open_location(robot) as source, open_location(robot, ";20Hz=clock") as rated:
        first, *_, last = source.lane("", "time/timestamps_ns").tolist()
        stamps = rated.lane("", "time/timestamps_ns")
        assert (stamps[0], rated.info("").timebase.tick_hz) == (first, 20.0)
        assert np.diff(stamps).tolist() == [50_000_000] * (len(stamps) - 1)
        assert last - 50_000_000 < stamps[-1] <= last
        stored = [max(time for time in joints if time <= stamp) for stamp in stamps]
        assert rated.lane("", "aux/stamps_ns/joint_states").tolist() == stored
    for clock, error in (("/none", EntryNotFoundError), ("0hz", FormatError), ("1000000000Hz", FormatError)):
        with pytest.raises(error), open_location(robot, f";{clock}=clock") as source:
            source.info("")


def test_every_compression_and_no_index_give_the_same_episode(robot, tmp_path):
    with open_episode(robot) as episode:
        expected = episode.digest()
    variants = [
        {"compression": "NONE"},
        {"compression": "LZ4"},
        {"use_chunking": False},
        {"use_statistics": False},
        {"use_summary_offsets": False, "repeat_channels": False},
    ]
    for number, options in enumerate(variants):
        (tmp_path / str(number)).mkdir()
        compression = options.pop("compression", "ZSTD")
        try:
            path = write_ros2(tmp_path / str(number) / "run_17.mcap", robot_messages(), compression, **options)
        except TypeError:  # the writer of ROS 2 has no such option
            path = rewrite(robot, tmp_path / str(number) / "run_17.mcap", options)
        with open_episode(path) as episode:
            assert episode.digest() == expected


def rewrite(robot, path, options):
    """Write the messages of a file into another one with options of the plain writer."""
    with robot.open("rb") as source, path.open("wb") as target:
        writer = Writer(target, **options)
        writer.start()
        channels = {}
        for schema, channel, message in make_reader(source).iter_messages():
            if channel.id not in channels:
                number = writer.register_schema(schema.name, schema.encoding, schema.data)
                channels[channel.id] = writer.register_channel(channel.topic, channel.message_encoding, number)
            writer.add_message(channels[channel.id], message.log_time, message.data, message.publish_time)
        writer.finish()
    return path


def test_json_and_protobuf_messages_have_the_dtypes_of_their_fields(tmp_path):
    state_type, schema = protobuf_type()
    states = [state_type(q=[n, 2 * n], pose={"x": n}, ok=n > 2, count=2**63 + n, note="same") for n in range(5)]
    arm = [{"q": [n, n / 2], "grip": n, "mode": "abc"[n % 3], "seen": None, "big": 2**70} for n in range(5)]
    arm[3] |= {"t": {"sec": 3, "nsec": 4}}
    rows = json_rows("/arm", arm, 50)
    rows += [(time, "/state", one.SerializeToString()) for (time, _, _), one in zip(rows, states, strict=True)]
    topics = {"/arm": ("", "", b"", "json"), "/state": ("toy.State", "protobuf", schema, "protobuf")}
    with open_episode(write_encoded(tmp_path / "a.mcap", rows, topics)) as episode:
        lanes = {
            name: lane.dtype.value
            for name, lane in episode.lanes().items()
            if name.startswith(("signal/", "aux/text/"))
        }
        assert lanes == {
            "signal/arm/big": "f64",
            "signal/arm/grip": "i64",
            "aux/text/arm/mode": "i32",
            "signal/arm/q": "f64",
            "signal/state/count": "u64",
            "signal/state/ok": "bool",
            "signal/state/pose/x": "f32",
            "signal/state/pose/y": "f32",
            "signal/state/q": "f64",
        }
        assert episode.lane("arm/q").tolist() == [one["q"] for one in arm]
        assert episode.lane("state/count").tolist() == [2**63 + n for n in range(5)]
        assert episode.lane("state/pose/x").tolist() == [0, 1, 2, 3, 4]
        assert [episode.metadata["arm/mode"][n] for n in episode.lane("aux/text/arm/mode")] == list("abcab")
        assert episode.metadata["session"] == {"task": "wipe the table", "operator": "7"}
        assert (episode.metadata["task"], episode.metadata["state/note"]) == ("wipe the table", "same")
        assert episode.metadata["left_out"] == {"arm/t": "some messages lack it"}


def test_fields_that_fit_no_lane_are_named(tmp_path):
    messages = [{"n": n, "points": list(range(n)), "cloud": [0] * 5000, "x": 1.5 if n != 2 else None} for n in range(4)]
    path = write_encoded(tmp_path / "a.mcap", json_rows("/m", messages, 10), {"/m": ("", "", b"", "json")})
    with open_episode(path) as episode:
        assert set(episode.metadata["left_out"]) == {"m/cloud", "m/points"}
        assert np.array_equal(episode.lane("m/x"), [1.5, 1.5, np.nan, 1.5], equal_nan=True)


def test_floats_that_messages_lack_are_nan_at_any_place(tmp_path):
    lacking = [{"x": [1.5, n]} if n in (2, 3, 5) else {"n": n, "y": 0.5} for n in range(7)]
    path = write_encoded(tmp_path / "a.mcap", json_rows("/m", lacking, 10), {"/m": ("", "", b"", "json")})
    with open_episode(path) as episode:
        expected = [one.get("x", [np.nan, np.nan]) for one in lacking]
        assert np.array_equal(episode.lane("m/x"), expected, equal_nan=True)
        assert np.array_equal(episode.lane("m/y"), [one.get("y", np.nan) for one in lacking], equal_nan=True)
        assert episode.metadata["left_out"] == {"m/n": "some messages lack it"}


def test_times_in_lists_are_no_signals(tmp_path):
    messages = [
        {"t": [{"sec": n, "nsec": 5}] * 2, "tf": [{"stamp": {"sec": n, "nanosec": 7}, "x": n}]} for n in range(3)
    ]
    path = write_encoded(tmp_path / "a.mcap", json_rows("/m", messages, 10), {"/m": ("", "", b"", "json")})
    with open_episode(path) as episode:
        assert [name for name in episode if name.startswith("signal/")] == ["signal/m/tf/x"]
        assert episode.lane("aux/stamps_ns/m/t").tolist() == [[n * SECOND + 5] * 2 for n in range(3)]
        assert episode.lane("aux/stamps_ns/m/tf/stamp").tolist() == [[n * SECOND + 7] for n in range(3)]


def test_times_beyond_int64_are_the_latest(tmp_path):
    messages = [{"t": {"sec": 10**30, "nsec": 5}, "u": [{"sec": -(10**30), "nsec": 5}], "x": 1.5}] * 2
    path = write_encoded(tmp_path / "a.mcap", json_rows("/m", messages, 10), {"/m": ("", "", b"", "json")})
    with open_episode(path) as episode:
        assert episode.lane("aux/stamps_ns/m/t").tolist() == [2**63 - 1] * 2
        assert episode.lane("aux/stamps_ns/m/u").tolist() == [[-(2**63)]] * 2


def test_null_in_json_is_nan(tmp_path):
    messages = [{"q": [0.5, None, n], "big": [2**70, 1], "x": None if n == 0 else 0.5 * n} for n in range(3)]
    messages[1]["q"] = [1, 2, 3]
    path = write_encoded(tmp_path / "a.mcap", json_rows("/m", messages, 10), {"/m": ("", "", b"", "json")})
    with open_episode(path) as episode:
        expected = [[0.5, np.nan, 0], [1, 2, 3], [0.5, np.nan, 2]]
        assert np.array_equal(episode.lane("m/q"), expected, equal_nan=True)
        assert episode.lane("m/big").tolist() == [[2.0**70, 1]] * 3
        assert np.array_equal(episode.lane("m/x"), [np.nan, 0.5, 1], equal_nan=True)


def test_maps_structs_and_bytes_of_protobuf_are_lanes_or_stated(tmp_path):
    kinds = descriptor_pb2.FieldDescriptorProto
    structs = struct_pb2.DESCRIPTOR.name
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", package="m", syntax="proto3", dependency=[structs])
    message = file.message_type.add(name="M")
    entry = message.nested_type.add(name="GainsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=kinds.TYPE_DOUBLE, label=kinds.LABEL_OPTIONAL)
    repeated = {"type": kinds.TYPE_MESSAGE, "label": kinds.LABEL_REPEATED}
    message.field.add(name="gains", number=1, type_name=".m.M.GainsEntry", **repeated)
    message.field.add(name="raw", number=2, type=kinds.TYPE_BYTES, label=kinds.LABEL_REPEATED)
    single = {"type": kinds.TYPE_MESSAGE, "label": kinds.LABEL_OPTIONAL}
    message.field.add(name="about", number=3, type_name=".google.protobuf.Struct", **single)
    pool = descriptor_pool.Default()
    pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("m.M"))
    with (tmp_path / "a.mcap").open("wb") as target:
        writer = mcap_protobuf.writer.Writer(target)
        for number in range(3):
            one = made(gains={"p": number, "i": 2}, raw=[b"a"])
            one.about.update({"mass": number / 2})
            writer.write_message("/m", one, log_time=START + number)
        writer.finish()
    with open_episode(tmp_path / "a.mcap") as episode:
        assert episode.lane("m/gains/p").tolist() == [0, 1, 2]
        assert episode.lane("m/gains/i").tolist() == [2, 2, 2]
        assert episode.lane("m/about/fields/mass/number_value").tolist() == [0, 0.5, 1]
        assert episode.metadata["left_out"] == {"m/raw": "bytes"}


def foxglove_type(name, numbers, texts):
    """Return the class foxglove.NAME of fields of uint32 and of texts, with bytes data, and its schema."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package="foxglove", syntax="proto3")
    fields = (
        {"data": kinds.TYPE_BYTES}
        | dict.fromkeys(numbers, kinds.TYPE_FIXED32)
        | dict.fromkeys(texts, kinds.TYPE_STRING)
    )
    message = file.message_type.add(name=name)
    for number, (field, kind) in enumerate(fields.items(), 1):
        message.field.add(name=field, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"foxglove.{name}"))
    return made, descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


def test_cameras_in_json_and_protobuf_are_read(tmp_path):
    packed, packed_schema = foxglove_type("CompressedImage", [], ["format", "frame_id"])
    plain, plain_schema = foxglove_type("RawImage", ["width", "height", "step"], ["encoding"])
    about = {"width": 24, "height": 16, "step": 72, "encoding": "rgb8"}
    topics = {
        "/json/jpeg": ("foxglove.CompressedImage", "jsonschema", b"{}", "json"),
        "/json/raw": ("foxglove.RawImage", "jsonschema", b"{}", "json"),
        "/proto/jpeg": ("foxglove.CompressedImage", "protobuf", packed_schema, "protobuf"),
        "/proto/raw": ("foxglove.RawImage", "protobuf", plain_schema, "protobuf"),
    }
    rows = []
    for number in range(4):
        time, pixels = START + number * SECOND // 10, picture(number).tobytes()
        texts = [base64.b64encode(data).decode() for data in (jpeg(number), pixels)]
        rows.append((time, "/json/jpeg", json.dumps({"data": texts[0], "format": "jpeg"}).encode()))
        rows.append((time, "/json/raw", json.dumps(about | {"data": texts[1]}).encode()))
        rows.append((time, "/proto/jpeg", packed(data=jpeg(number), format="jpeg").SerializeToString()))
        rows.append((time, "/proto/raw", plain(data=pixels, **about).SerializeToString()))
    with open_episode(write_encoded(tmp_path / "a.mcap", rows, topics)) as episode:
        for encoding in ("json", "proto"):
            frames = episode.encoded(f"signal/{encoding}/jpeg")
            assert [bytes(frames.image(step)) for step in range(4)] == [jpeg(number) for number in range(4)]
            assert np.array_equal(episode.lane(f"{encoding}/raw"), [picture(number) for number in range(4)])


def test_topics_of_any_name_are_lanes(tmp_path):
    names = [
        "/a b/\N{GREEK SMALL LETTER ALPHA}",
        "/a/../b",
        "..",
        "/x#1",
        "/x%20",
        "a//b",
        "/back\\slash",
        "",
        "/signal/z",
    ]
    rows = [row for n, name in enumerate(names) for row in json_rows(name, [{"v": n + 0.5 * k} for k in range(3)], 10)]
    path = write_encoded(tmp_path / "a.mcap", rows, dict.fromkeys(names, ("", "", b"", "json")))
    with open_episode(path) as episode:
        save_wshard(episode.load(), tmp_path / "a.wshard")
    with open_episode(tmp_path / "a.wshard") as episode:
        for number, name in enumerate(names):
            found = episode.lane(f"signal/{name.strip('/') or 'topic'}/v")
            assert found.tolist() == [number + 0.5 * k for k in range(3)]


def test_topics_that_nothing_decodes_are_left_out_and_stated(tmp_path):
    rows = json_rows("/arm", [{"q": n} for n in range(3)], 10)
    rows += [(START, "/odd", b"\0\1"), (START, "/wrong", b"\0\1\0\0"), (START, "/loop", b"")]
    topics = {
        "/arm": ("", "", b"", "json"),
        "/odd": ("odd", "flatbuffer", b"x", "flatbuffer"),
        "/wrong": ("p/msg/T", "ros2msg", b"float64 x", "cdr"),
        "/loop": ("p/T", "ros1msg", b"T t", "ros1"),
    }
    with open_episode(write_encoded(tmp_path / "a.mcap", rows, topics)) as episode:
        assert [*episode] == ["signal/arm/q", "time/timestamps_ns"]
        assert set(episode.metadata["left_out"]) == {"/odd", "/wrong", "/loop"}
        assert "cycle" in episode.metadata["left_out"]["/loop"]


# ---- damage ---------------------------------------------------------------------------------------------------------


def test_a_file_that_ends_early_is_read_as_far_as_it_goes(robot, tmp_path):
    data = robot.read_bytes()
    path = tmp_path / "cut.mcap"
    path.write_bytes(data[: len(data) // 2])
    with open_episode(path) as episode:
        assert 2 <= episode.length < 10
        assert "unfinished" in episode.metadata
        episode.load()


def test_damaged_bytes_are_an_error_that_names_the_place(robot, tmp_path):
    data, path = bytearray(robot.read_bytes()), tmp_path / "bad.mcap"
    data[2000] ^= 1
    path.write_bytes(data)
    with pytest.raises((ChecksumError, CodecError), match=r"bad\.mcap: chunk at byte"), McapSource(path) as source:
        source.load("")


@pytest.mark.parametrize(
    "content", [b"", b"\x89MCAP0\r\n", b"\x89MCAP0\r\n" + bytes(60), b"\x89MCAP0\r\n" + b"\xff" * 99]
)
def test_files_without_messages_are_refused(tmp_path, content):
    path = tmp_path / "a.mcap"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"a\.mcap"), McapSource(path) as source:
        source.info("")


def test_random_damage_is_a_typed_error_or_an_episode(robot, tmp_path):
    data, path, rng = robot.read_bytes(), tmp_path / "bad.mcap", np.random.default_rng(1)
    for _ in range(60):
        bad = bytearray(data)
        for place in rng.integers(0, len(data), 3):
            bad[place] = rng.integers(256)
        path.write_bytes(bad)
        try:
            with McapSource(path) as source:
                source.load("").validate()
        except FormatError as error:
            assert "bad.mcap" in str(error)  # noqa: PT017  (an error is one of two right answers)


def test_a_damaged_summary_is_not_needed(robot, tmp_path):
    with open_episode(robot) as episode:
        expected = episode.digest()
    data, path = robot.read_bytes(), tmp_path / "run_17.mcap"
    with robot.open("rb") as file:
        summary = make_reader(file).get_summary()
    (first, *_), end = summary.chunk_indexes, data.rindex(struct.pack("<BQ", 2, 20))
    start = struct.unpack_from("<Q", data, end + 9)[0]
    place = data.index(struct.pack("<Q", first.chunk_start_offset), start)
    for at, value in (
        (place, 2**64 - 1),
        (start + 1, 2**40),
        (end + 9, start + 5),
    ):
        path.write_bytes(data[:at] + struct.pack("<Q", value) + data[at + 8 :])
        with open_episode(path) as episode:
            assert episode.digest() == expected


def test_a_bomb_costs_no_memory(tmp_path):
    payload = zstandard.compress(bytes(1 << 28))
    for claimed in (1 << 28, 1 << 40, 100):
        body = struct.pack("<QQQI", 0, 0, claimed, 0) + struct.pack("<I4sQ", 4, b"zstd", len(payload)) + payload
        path = tmp_path / "bomb.mcap"
        path.write_bytes(b"\x89MCAP0\r\n" + struct.pack("<BQ", 6, len(body)) + body)
        with pytest.raises(FormatError, match=r"bomb\.mcap"), McapSource(path) as source:
            source.info("")


def test_a_recording_is_ingested_searched_and_loaded_in_place(tmp_path, robot):
    with TrajectoryIngestor(tmp_path) as ingestor:
        report = ingestor.ingest([robot])
        assert (report.new, report.embedded, report.failed) == (1, 1, [])
        assert ingestor.ingest([robot]).unchanged == 1
    (hit,) = TrajectoryRetriever(tmp_path).search_similar_episodes(robot, top_k=1)
    assert hit.episode_id == "run_17"
    loaded = hit.load(channels=["joint_states/position"])
    assert loaded["joint_states/position"].shape == (10, 3)


def test_messages_of_a_second_type_of_a_topic_are_named(tmp_path):
    with (tmp_path / "a.mcap").open("wb") as file:
        writer = Writer(file)
        writer.start()
        for kind, value in (("first", 1.5), ("second", 7)):
            channel = writer.register_channel("/arm", "json", writer.register_schema(kind, "jsonschema", b"{}"))
            for step in range(3):
                message = json.dumps({"q": value + step}).encode()
                writer.add_message(channel, log_time=START + step, data=message, publish_time=START + step)
        writer.finish()
    with open_location(tmp_path / "a.mcap") as source:
        ep = source.load("")
    assert ep["arm/q"].tolist() == [1.5, 2.5, 3.5]
    assert ep.metadata["left_out"]["arm (second in json)"] == (
        "a second type of messages; those of first in json are read"
    )
