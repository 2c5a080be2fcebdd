"""ROS 1 bags give what the package rosbags, which wrote them, reads from them; damaged ones are typed errors."""

from __future__ import annotations

import bz2
import pickle
import struct

import lz4.frame
import numpy as np
import pytest
from mcap.writer import Writer as McapWriter
from rosbags.rosbag1 import Reader, Writer
from rosbags.typesys import Stores, get_typestore
from topic_logs import SECOND, START, jpeg, picture, robot_messages, write_rosbag1

from wshard import FormatError, TrajectoryIngestor, detect_format, open_episode
from wshard.errors import LimitError, UnsupportedFormatError
from wshard.formats.contract import SourceContract
from wshard.formats.topics.source import Rosbag1Source
from wshard.testing import assert_same_episode

VERSION = b"#ROSBAG V2.0\n"
U32 = struct.Struct("<I")


@pytest.fixture(scope="module")
def robot(tmp_path_factory):
    return write_rosbag1(tmp_path_factory.mktemp("bags") / "run_17.bag", robot_messages())


def decoded(path):
    """Return time and message of each topic, by the other reader."""
    store, found = get_typestore(Stores.ROS1_NOETIC), {}
    with Reader(path) as reader:
        for connection, time, data in reader.messages():
            message = store.deserialize_ros1(data, connection.msgtype)
            found.setdefault(connection.topic, []).append((time, message))
    return found


@pytest.mark.parametrize("compression", ["", "BZ2", "LZ4"])
def test_values_clock_and_frames_are_those_that_another_reader_finds(tmp_path, compression):
    path = write_rosbag1(tmp_path / "run_17.bag", robot_messages(), compression)
    expected = decoded(path)
    clock = [time for time, _ in expected["/camera/color/compressed"]]
    assert detect_format(path) == "rosbag1"
    with open_episode(path) as episode:
        assert (episode.id, episode.length, episode.timebase.tick_hz) == ("run_17", 10, 10.0)
        assert episode.lane("time/timestamps_ns").tolist() == clock
        states = [[m for t, m in expected["/joint_states"] if t <= time][-1] for time in clock]
        assert np.array_equal(episode.lane("joint_states/position"), [state.position for state in states])
        stamps = [state.header.stamp.sec * SECOND + state.header.stamp.nanosec for state in states]
        assert episode.lane("aux/stamps_ns/joint_states/header/stamp").tolist() == stamps
        first = expected["/cmd_vel"][0][1]
        twists = [([m for t, m in expected["/cmd_vel"] if t <= time] or [first])[-1] for time in clock]
        assert episode.lane("action/cmd_vel/angular/z").tolist() == [twist.angular.z for twist in twists]
        frames = episode.encoded("signal/camera/color/compressed")
        assert [bytes(frames.image(step)) for step in range(10)] == [jpeg(number) for number in range(10)]
        assert np.array_equal(episode.lane_view("camera/raw")[5:7], np.stack([picture(4), picture(5)]))
        assert episode.metadata["task"] == "pick up the cube"
        assert episode.metadata["topics"]["/joint_states"] == {"type": "sensor_msgs/JointState", "messages": 100}
        assert "unfinished" not in episode.metadata
        assert not any(name.endswith("seq") for name in episode)


def test_the_same_messages_in_mcap_are_the_same_episode(robot, tmp_path):
    with Reader(robot) as reader, (tmp_path / "run_17.mcap").open("wb") as file:
        writer = McapWriter(file)
        writer.start()
        channels = {}
        for one in reader.connections:
            kind = one.msgtype.replace("/msg/", "/")
            schema = writer.register_schema(kind, "ros1msg", one.msgdef.data.encode())
            channels[one.id] = writer.register_channel(one.topic, "ros1", schema, metadata={"md5sum": one.digest})
        for one, time, data in reader.messages():
            writer.add_message(channels[one.id], log_time=time, data=bytes(data), publish_time=time)
        writer.finish()
    with open_episode(tmp_path / "run_17.mcap") as episode, open_episode(robot) as expected:
        assert_same_episode(episode.load(), expected.load())
        assert episode.digest() == expected.digest()


def test_times_after_2038_and_messages_out_of_order_are_read(tmp_path):
    rows = [row for row in robot_messages(cameras=False) if row[1] == "/cmd_vel"]
    late = [(time + (3_000_000_000 * SECOND - START), *rest) for time, *rest in rows]
    path = write_rosbag1(
        tmp_path / "a.bag", [late[n] for n in np.random.default_rng(0).permutation(len(late))], "", 300
    )
    with open_episode(path) as episode:
        assert episode.lane("time/timestamps_ns").tolist() == [time for time, *_ in late]
        assert episode.lane("action/cmd_vel/linear/x").tolist() == [message["linear"]["x"] for *_, message in late]


def test_several_publishers_of_a_topic_are_one_and_other_types_are_named(tmp_path):
    store = get_typestore(Stores.ROS1_NOETIC)
    text, md5 = store.generate_msgdef("std_msgs/msg/Float64")
    with Writer(tmp_path / "a.bag") as writer:
        about = {"msgtype": "std_msgs/msg/Float64", "md5sum": md5}
        python = writer.add_connection("/x", msgdef=text, callerid="/a", **about)
        other = writer.add_connection("/x", msgdef=f"# of C++, in \N{DEGREE SIGN}\n{text}", callerid="/b", **about)
        names = writer.add_connection("/x", "std_msgs/msg/String", typestore=store)
        for number in range(6):
            writer.write((python, other)[number % 2], START + number, struct.pack("<d", number))
            writer.write(names, START + number, b"\1\0\0\0a")
    with open_episode(tmp_path / "a.bag") as episode:
        assert episode.lane("x/data").tolist() == [0, 1, 2, 3, 4, 5]
        reason = "a second type of messages; those of std_msgs/Float64 in ros1 are read"
        assert episode.metadata["left_out"] == {"x (std_msgs/String in ros1)": reason}


class TestRosbag1Contract(SourceContract):
    def make(self, tmp_path):
        path = write_rosbag1(tmp_path / "run_17.bag", robot_messages(), "LZ4")
        (tmp_path / "plain").mkdir()
        with Rosbag1Source(write_rosbag1(tmp_path / "plain" / "run_17.bag", robot_messages())) as other:
            return Rosbag1Source(path), {"": other.load("")}


def test_each_bag_of_a_folder_is_an_episode_and_a_bad_one_stops_no_other(tmp_path):
    for name in ("a.bag", "b.bag", "bad.bag"):
        write_rosbag1(tmp_path / name, robot_messages(cameras=False), "BZ2")
    data = bytearray((tmp_path / "bad.bag").read_bytes())
    data[4200:4400] = bytes(200)
    (tmp_path / "bad.bag").write_bytes(data)
    (tmp_path / "old.bag").write_bytes(b"#ROSBAG V1.2\n" + bytes(99))
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        report = ingestor.ingest([tmp_path])
    assert (report.new, report.embedded) == (2, 2)
    old, bad = sorted(report.failed, key=lambda one: one.path, reverse=True)
    assert bad.path.endswith("bad.bag")
    assert "chunk at byte 4109: expected data in bz2" in bad.error
    assert "`rosbag filter OLD.bag NEW.bag True`" in old.error


# ---- recordings that were not finished ------------------------------------------------------------------------------


def records(data):
    """Return offset, header and data of each record."""
    found, offset = [], len(VERSION)
    while offset < len(data):
        (size,) = U32.unpack_from(data, offset)
        (length,) = U32.unpack_from(data, offset + 4 + size)
        end = offset + 8 + size + length
        found.append((offset, data[offset + 4 : offset + 4 + size], data[end - length : end]))
        offset = end
    return found


def opcode(header):
    return header[header.index(b"op=") + 3]


def unindexed(data):
    """Return a bag as a killed recorder leaves it: no position of an index, nothing behind the last chunk's index."""
    end = next(offset for offset, header, _ in records(data) if opcode(header) == 7)
    return bytearray(data[:end].replace(b"index_pos=" + U32.pack(end) + bytes(4), b"index_pos=" + bytes(8), 1))


@pytest.mark.parametrize("compression", ["", "BZ2", "LZ4"])
def test_a_bag_without_index_or_connections_at_its_end_is_read(tmp_path, compression):
    path = write_rosbag1(tmp_path / "a.bag", robot_messages(), compression)
    with open_episode(path) as episode:
        expected = episode.load()
    data = unindexed(path.read_bytes())
    (tmp_path / "cut").mkdir()
    cut = tmp_path / "cut" / "a.bag.active"
    cut.write_bytes(data)
    assert detect_format(cut) == "rosbag1"
    cut = cut.rename(tmp_path / "cut" / "a.bag")
    with open_episode(cut) as episode:
        assert "unfinished" in episode.metadata
        found = episode.load()
    del found.metadata["unfinished"]
    assert_same_episode(found, expected)


def test_the_chunk_that_was_being_written_is_read_if_it_is_not_compressed(tmp_path):
    path = write_rosbag1(tmp_path / "a.bag", robot_messages(cameras=False))
    data = path.read_bytes()
    chunks = [offset for offset, header, _ in records(data) if opcode(header) == 5]
    with open_episode(path) as episode:
        expected = episode.lane("time/timestamps_ns")
    (tmp_path / "a").mkdir()
    for compression, least in ((b"none", 0), (b"lz4", 1)):
        header = data[chunks[-1] + 4 :][: U32.unpack_from(data, chunks[-1])[0]]
        size = b"size=" + header[header.index(b"size=") + 5 :][:4]
        empty = header.replace(size, b"size=" + bytes(4))
        length = U32.pack(len(b"compression=") + len(compression))
        empty = empty.replace(U32.pack(16) + b"compression=none", length + b"compression=" + compression)
        body = next(body for offset, _, body in records(data) if offset == chunks[-1])
        body = body if compression == b"none" else lz4.frame.compress(body)
        bad = unindexed(data)[: chunks[-1]] + U32.pack(len(empty)) + empty + U32.pack(0) + body[: -5 * least or None]
        (tmp_path / "a" / "a.bag").write_bytes(bad)
        with open_episode(tmp_path / "a" / "a.bag") as episode:
            stamps = episode.lane("time/timestamps_ns")
            assert "unfinished" in episode.metadata
        assert stamps.tolist() == expected[: len(stamps)].tolist()
        assert (len(stamps) == len(expected)) == (not least)


def test_indexes_that_are_missing_or_disagree_are_made_from_the_chunks(robot, tmp_path):
    with open_episode(robot) as episode:
        expected = episode.load()
    data = robot.read_bytes()
    for change in (
        lambda header: header.replace(b"ver=\1", b"ver=\2"),  # of another version
        lambda header: header.replace(b"op=\4", b"op=\x63"),  # an unknown record
        lambda header: header.replace(b"op=\4", b"op=\x63" if b"conn=\0" in header else b"op=\4"),  # of one connection
    ):
        new = bytearray(data[: len(VERSION)])
        for _, header, body in records(data):
            changed = change(header) if opcode(header) == 4 else header
            new += U32.pack(len(changed)) + changed + U32.pack(len(body)) + body
        (tmp_path / "run_17.bag").write_bytes(new)
        with open_episode(tmp_path / "run_17.bag") as episode:
            found = episode.load()
        assert_same_episode(found, expected)


# ---- hostile files --------------------------------------------------------------------------------------------------


def field(name, value):
    return U32.pack(len(name) + 1 + len(value)) + name + b"=" + value


def record(op, data, fields):
    header = field(b"op", bytes([op])) + b"".join(field(name.encode(), value) for name, value in fields.items())
    return U32.pack(len(header)) + header + U32.pack(len(data)) + data


def bag(parts, more=()):
    counts = {"index_pos": bytes(8), "conn_count": U32.pack(1), "chunk_count": U32.pack(1)}
    return VERSION + record(3, b" " * 4000, counts | dict(more)) + b"".join(parts)


def chunk(data, size, compression=b"none"):
    return record(5, data, {"compression": compression, "size": U32.pack(size)})


def index(data):
    return record(4, data, {"ver": U32.pack(1), "conn": U32.pack(0), "count": U32.pack(1)})


def connection(data):
    return record(7, data, {"conn": U32.pack(0), "topic": b"/x"})


def floats(definition):
    named = field(b"topic", b"/x") + field(b"type", b"std_msgs/Float64") + field(b"md5sum", b"0")
    return connection(named + field(b"message_definition", definition))


CONNECTION = floats(b"float64 data")


def message(number, conn=0):
    return record(2, struct.pack("<d", number), {"conn": U32.pack(conn), "time": struct.pack("<II", 5, number)})


def test_definitions_with_comments_in_latin_1_are_read(tmp_path):
    (tmp_path / "a.bag").write_bytes(bag([floats(b"float64 data # \xb0C"), message(3)]))
    with open_episode(tmp_path / "a.bag") as episode:
        assert episode.lane("x/data").tolist() == [3]


def test_a_bag_after_the_published_layout_is_read(tmp_path):
    content = CONNECTION + b"".join(map(message, range(4)))
    for number, part in enumerate((chunk(content, len(content)), content)):  # in a chunk, and without one
        (tmp_path / f"{number}.bag").write_bytes(bag([part]))
        with open_episode(tmp_path / f"{number}.bag") as episode:
            assert episode.lane("x/data").tolist() == [0, 1, 2, 3]
            assert episode.lane("time/timestamps_ns").tolist() == [5 * SECOND + n for n in range(4)]


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ([], FormatError),
        ([chunk(bz2.compress(bytes(1 << 24)), 100, b"bz2")], FormatError),
        ([chunk(lz4.frame.compress(bytes(1 << 24)), 100, b"lz4")], FormatError),
        ([chunk(bz2.compress(bytes(1 << 24)), (1 << 32) - 1, b"bz2")], LimitError),
        ([chunk(b"no", 100, b"bz2")], FormatError),
        ([chunk(b"no", 100, b"lz4")], FormatError),
        ([chunk(b"no", 2, b"xz")], FormatError),
        ([chunk(b"no", 2)], FormatError),
        ([message(0)], FormatError),
        ([index(bytes(12))], FormatError),
        ([connection(b"no")], FormatError),
        ([CONNECTION, chunk(b"", 0), index(bytes(12))], FormatError),
        ([CONNECTION, chunk(CONNECTION, len(CONNECTION)), index(bytes(12))], FormatError),
        ([CONNECTION, chunk(b"", 0), index(bytes(5))], FormatError),
        ([connection(field(b"topic", b"/x") + b"".join(field(b"%d" % n, b"") for n in range(1 << 16)))], FormatError),
        ([b"\xff" * 99], FormatError),
    ],
)
def test_hostile_bags_are_typed_errors_that_name_the_file(tmp_path, parts, error):
    (tmp_path / "a.bag").write_bytes(bag(parts))
    with pytest.raises(error, match=r"a\.bag"), Rosbag1Source(tmp_path / "a.bag") as source:
        source.load("")


def test_what_is_not_supported_says_what_to_type(tmp_path):
    (tmp_path / "a.bag").write_bytes(bag([], {"encryptor": b"rosbag/AesCbcEncryptor"}))
    with pytest.raises(UnsupportedFormatError, match="rosbag decrypt"), Rosbag1Source(tmp_path / "a.bag") as source:
        source.info("")


def test_random_damage_is_a_typed_error_or_an_episode(robot, tmp_path):
    data, path, rng = robot.read_bytes(), tmp_path / "bad.bag", np.random.default_rng(1)
    for number in range(60):
        bad = bytearray(data) if number % 3 else bytearray(data[: rng.integers(len(data))])
        for place in rng.integers(0, len(bad), 3 if number % 3 else 0):
            bad[place] = rng.integers(256)
        path.write_bytes(bad)
        try:
            with Rosbag1Source(path) as source:
                source.load("").validate()
        except FormatError as error:
            assert "bad.bag" in str(error)  # noqa: PT017  (an error is one of two right answers)


def test_it_is_pickled_by_its_place(robot):
    with Rosbag1Source(robot) as source, pickle.loads(pickle.dumps(source)) as again:  # noqa: S301  (our own)
        assert_same_episode(again.load(""), source.load(""))
