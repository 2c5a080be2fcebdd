"""Messages of ROS 1 and ROS 2 are decoded as the libraries of both do it."""

from __future__ import annotations

import io
import sys

import mcap_ros1.decoder
import mcap_ros2.writer
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcap.records import Schema
from mcap.writer import Writer
from mcap_ros1._vendor import genpy
from topic_logs import HEADER, SECOND, START

from wshard import FormatError, open_episode
from wshard.formats.topics.ros_message import RosMessages

FIELDS = """
# a comment
uint8 MODE=3
string NAME=a = b # not a comment
bool flag
int8 small
float32 ratio
string name
uint16[] counts
float64[3] fixed
int64 big
Point[] points
Point[2] pair
string[] labels
Time when
uint8[] blob
Header header
"""
POINT = f"{'=' * 80}\nMSG: toy/Point\nbyte kind\nfloat64 x\n"
ROS2 = FIELDS.replace("Time when", "builtin_interfaces/Time when").replace("Header header", "std_msgs/Header header")
ROS1 = FIELDS.replace("Time when", "time when")
ROS1_HEADER = f"{'=' * 80}\nMSG: std_msgs/Header\nuint32 seq\ntime stamp\nstring frame_id\n"

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9)
POINTS = st.fixed_dictionaries({"kind": st.integers(0, 127), "x": st.floats(width=64, allow_nan=False)})
MESSAGES = st.fixed_dictionaries(
    {
        "flag": st.booleans(),
        "small": st.integers(-128, 127),
        "ratio": st.floats(width=32, allow_nan=False),
        "name": TEXTS,
        "counts": st.lists(st.integers(0, 65535), max_size=4),
        "fixed": st.lists(st.floats(allow_nan=False), min_size=3, max_size=3),
        "big": st.integers(-(2**63), 2**63 - 1),
        "points": st.lists(POINTS, max_size=3),
        "pair": st.lists(POINTS, min_size=2, max_size=2),
        "labels": st.lists(TEXTS, max_size=3),
        "when": st.integers(0, 2**31 * SECOND - 1),
        "blob": st.binary(max_size=5),
        "frame": TEXTS,
    }
)


def plain(message):
    """Return a decoded message as the drawn one."""
    found = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in message.items()}
    header = found.pop("header")
    points = {name: [{**one} for one in found[name]] for name in ("points", "pair")}
    return found | points | {"blob": bytes(found["blob"]), "frame": header["frame_id"]}


@given(MESSAGES)
def test_cdr_is_read_as_the_library_of_ros2_writes_it(message):
    times = {"sec": message["when"] // SECOND, "nanosec": message["when"] % SECOND}
    given_ = message | {"when": times, "header": {"stamp": times, "frame_id": message["frame"]}}
    text = f"{ROS2}{POINT}{HEADER}\n"
    data = mcap_ros2.writer.serialize_dynamic("toy/msg/T", text)["toy/msg/T"](given_)
    messages = RosMessages("toy/msg/T", text, ros1=False)
    assert plain(messages.decode(data)) == message
    with pytest.raises(FormatError):
        messages.decode(data[: len(data) // 2])


@pytest.fixture(scope="module")
def ros1_type():
    """Return a class of the library for ROS 1, which imports code that it writes."""
    before = list(sys.path)
    schema = Schema(1, f"{ROS1}{POINT}{ROS1_HEADER}".encode(), "ros1msg", "toy/T")
    factory = mcap_ros1.decoder.DecoderFactory()
    factory.decoder_for("ros1", schema)
    yield factory._types[1]
    sys.path[:] = before


def ros1_bytes(made, message):
    one = made()
    for name, value in message.items():
        if name == "when":
            one.when = genpy.Time(value // SECOND, value % SECOND)
        elif name == "frame":
            one.header.frame_id = value
        elif name in {"points", "pair"}:
            point = type(one.pair[0])
            setattr(one, name, [point(**item) for item in value])
        else:
            setattr(one, name, value)
    file = io.BytesIO()
    one.serialize(file)
    return file.getvalue()


def test_ros1_is_read_as_its_library_writes_it(ros1_type):
    text = f"{ROS1}{POINT}{ROS1_HEADER}"

    @given(MESSAGES)
    def check(message):
        messages = RosMessages("toy/T", text, ros1=True)
        data = ros1_bytes(ros1_type, message)
        assert plain(messages.decode(data)) == message
        with pytest.raises(FormatError):
            messages.decode(data + b"x")

    check()


def test_an_mcap_file_of_ros1_messages_is_an_episode(ros1_type, tmp_path):
    text = f"{ROS1}{POINT}{ROS1_HEADER}".encode()
    pair = [{"kind": 1, "x": 0.5}, {"kind": 2, "x": 1.5}]
    message = {"flag": True, "small": 1, "ratio": 1, "name": "a", "counts": [1, 2], "fixed": [1, 2, 3], "big": 5}
    message |= {"points": [], "pair": pair, "labels": ["u"], "when": START, "blob": b"", "frame": "base"}
    with (tmp_path / "a.mcap").open("wb") as file:
        writer = Writer(file)
        writer.start(profile="ros1")
        channel = writer.register_channel("/t", "ros1", writer.register_schema("toy/T", "ros1msg", text))
        for number in range(4):
            data = ros1_bytes(ros1_type, message | {"small": number, "when": START + number})
            writer.add_message(channel, log_time=START + number * SECOND, data=data, publish_time=0)
        writer.finish()
    with open_episode(tmp_path / "a.mcap") as episode:
        assert episode.lane("t/small").tolist() == [0, 1, 2, 3]
        assert episode.lane("t/pair/x").tolist() == [[0.5, 1.5]] * 4
        assert episode.lane("aux/stamps_ns/t/when").tolist() == [START + number for number in range(4)]
        assert episode.metadata["t/labels"] == ["u"]


@pytest.mark.parametrize(
    "text",
    [
        "T t",
        "int32",
        "__import__('os') x",
        "Other o",
        f"int32 x\n{'=' * 80}\nint32 y",
        "\n".join([*(f"T{n + 1}[1000000] t\n{'=' * 80}\nMSG: p/T{n + 1}" for n in range(40)), "int8 x"]),
    ],
)
def test_hostile_definitions_are_refused(text):
    with pytest.raises(FormatError):
        RosMessages("p/T", text, ros1=True)


def test_lengths_that_a_message_does_not_have_cost_nothing():
    deep = "\n".join([*(f"T{n + 1}[100000] t\n{'=' * 80}\nMSG: p/T{n + 1}" for n in range(6)), "# empty"])
    for text in ("float64[4000000000] x", "string[4000000000] x", deep):
        with pytest.raises(FormatError):
            RosMessages("p/T", text, ros1=True).decode(b"\xff" * 8)
    with pytest.raises(FormatError):
        RosMessages("p/T", "uint8[] x", ros1=False).decode(b"\0\1\0\0\xff\xff\xff\xff")
