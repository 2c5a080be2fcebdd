"""Recordings of topics, written by the libraries of their formats."""

from __future__ import annotations

import functools
import io
import json
from typing import TYPE_CHECKING, Any

import mcap_ros2.writer
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from mcap.writer import CompressionType, Writer
from PIL import Image
from rosbags.rosbag1 import Writer as BagWriter
from rosbags.typesys import Stores, get_typestore

if TYPE_CHECKING:
    from pathlib import Path

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
JOINTS = ["shoulder", "elbow", "wrist"]

HEADER = "\n".join(
    [
        "=" * 80,
        "MSG: std_msgs/Header",
        "builtin_interfaces/Time stamp",
        "string frame_id",
        "=" * 80,
        "MSG: builtin_interfaces/Time",
        "int32 sec",
        "uint32 nanosec",
    ]
)
JOINT_STATE = (
    f"std_msgs/Header header\nstring[] name\nfloat64[] position\nfloat64[] velocity\nfloat64[] effort\n{HEADER}\n"
)
TWIST = f"Vector3  linear\nVector3  angular\n{'=' * 80}\nMSG: geometry_msgs/Vector3\nfloat64 x\nfloat64 y\nfloat64 z\n"
COMPRESSED = f"std_msgs/Header header\nstring format\nuint8[] data\n{HEADER}\n"
IMAGE = (
    "std_msgs/Header header\nuint32 height\nuint32 width\nstring encoding\nuint8 is_bigendian\nuint32 step\n"
    f"uint8[] data\n{HEADER}\n"
)


def stamp(time: int) -> dict[str, int]:
    return {"sec": time // SECOND, "nanosec": time % SECOND}


def header(time: int) -> dict[str, Any]:
    return {"stamp": stamp(time), "frame_id": "base"}


def picture(number: int) -> np.ndarray[Any, Any]:
    """Return an image that says which one it is."""
    pixels = np.zeros((16, 24, 3), np.uint8)
    pixels[:, : number + 1] = (200, 40, 10 * number)
    return pixels


def jpeg(number: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(picture(number)).save(file, "JPEG", quality=95)
    return file.getvalue()


def robot_messages(*, cameras: bool = True) -> list[tuple[int, str, str, str, dict[str, Any]]]:
    """Return time, topic, type, definition and message of one second: arm 100 Hz, commands 20 Hz, cameras 10 Hz."""
    rows: list[tuple[int, str, str, str, dict[str, Any]]] = []
    rng = np.random.default_rng(0)
    for number in range(100):
        time = START + number * SECOND // 100
        position, velocity = rng.standard_normal(3).tolist(), rng.standard_normal(3).tolist()
        state = {"header": header(time), "name": JOINTS, "position": position, "velocity": velocity, "effort": []}
        rows.append((time, "/joint_states", "sensor_msgs/msg/JointState", JOINT_STATE, state))
    for number in range(20):
        time = START + 7_000_000 + number * SECOND // 20
        x, y, z = rng.standard_normal(3).tolist()
        twist = {"linear": {"x": x, "y": y, "z": 0.0}, "angular": {"x": 0.0, "y": 0.0, "z": z}}
        rows.append((time, "/cmd_vel", "geometry_msgs/msg/Twist", TWIST, twist))
    for number in range(10 if cameras else 0):
        time = START + 3_000_000 + number * SECOND // 10
        message = {"header": header(time), "format": "jpeg", "data": jpeg(number)}
        rows.append((time, "/camera/color/compressed", "sensor_msgs/msg/CompressedImage", COMPRESSED, message))
        padded = np.pad(picture(number)[:, :, ::-1].reshape(16, -1), [(0, 0), (0, 8)])
        about = {"height": 16, "width": 24, "encoding": "bgr8", "is_bigendian": 0, "step": 80}
        raw = {"header": header(time), **about, "data": padded.tobytes()}
        rows.append((time + 1, "/camera/raw", "sensor_msgs/msg/Image", IMAGE, raw))
    text = {"data": "pick up the cube"}
    rows.append((START, "/task", "std_msgs/msg/String", "string data", text))
    return sorted(rows, key=lambda row: row[0])


def write_ros2(
    path: Path, rows: list[tuple[int, str, str, str, dict[str, Any]]], compression: str = "ZSTD", **options: Any
) -> Path:
    """Write an MCAP file of ROS 2 messages in small chunks."""
    with path.open("wb") as file:
        writer = mcap_ros2.writer.Writer(file, chunk_size=4096, compression=CompressionType[compression], **options)
        definitions = {kind: text for _, _, kind, text, _ in rows}
        schemas = {kind: writer.register_msgdef(kind, text) for kind, text in definitions.items()}
        for number, (time, topic, kind, _, message) in enumerate(rows):
            writer.write_message(topic, schemas[kind], message, log_time=time, publish_time=time, sequence=number)
        writer.finish()
    return path


def write_encoded(
    path: Path, rows: list[tuple[int, str, bytes]], topics: dict[str, tuple[str, str, bytes, str]], **options: Any
) -> Path:
    """Write an MCAP file of encoded messages. topics: type, encoding of the schema, schema, and that of messages."""
    with path.open("wb") as file:
        writer = Writer(file, chunk_size=4096, **options)
        writer.start()
        channels = {}
        for topic, (kind, schema_encoding, schema, encoding) in topics.items():
            number = writer.register_schema(kind, schema_encoding, schema) if schema_encoding else 0
            channels[topic] = writer.register_channel(topic, encoding, number)
        writer.add_metadata("session", {"task": "wipe the table", "operator": "7"})
        for time, topic, data in rows:
            writer.add_message(channels[topic], log_time=time, data=data, publish_time=time)
        writer.finish()
    return path


def json_rows(topic: str, messages: list[Any], hz: int) -> list[tuple[int, str, bytes]]:
    return [(START + n * SECOND // hz, topic, json.dumps(message).encode()) for n, message in enumerate(messages)]


def protobuf_type() -> tuple[type[Any], bytes]:
    """Return the class toy.State {double q[]; Pose {float x, y}; bool ok; uint64 count; string note} and its schema."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="toy.proto", package="toy", syntax="proto3")
    pose = file.message_type.add(name="Pose")
    state = file.message_type.add(name="State")
    for number, name in enumerate(("x", "y"), 1):
        pose.field.add(name=name, number=number, type=kinds.TYPE_FLOAT, label=kinds.LABEL_OPTIONAL)
    state.field.add(name="q", number=1, type=kinds.TYPE_DOUBLE, label=kinds.LABEL_REPEATED)
    state.field.add(name="pose", number=2, type=kinds.TYPE_MESSAGE, type_name=".toy.Pose", label=kinds.LABEL_OPTIONAL)
    state.field.add(name="ok", number=3, type=kinds.TYPE_BOOL, label=kinds.LABEL_OPTIONAL)
    state.field.add(name="count", number=4, type=kinds.TYPE_UINT64, label=kinds.LABEL_OPTIONAL)
    state.field.add(name="note", number=5, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("toy.State"))
    return made, descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


@functools.cache
def _open_stores() -> tuple[Any, Any]:
    return get_typestore(Stores.ROS1_NOETIC), get_typestore(Stores.ROS2_HUMBLE)


def write_rosbag1(
    path: Path, rows: list[tuple[int, str, str, str, dict[str, Any]]], compression: str = "", chunk_size: int = 4096
) -> Path:
    """Write a ROS 1 bag; a topic has a connection for each type."""
    ros1, ros2 = _open_stores()
    definitions = {kind: text for _, _, kind, text, _ in rows}
    encode = {kind: mcap_ros2.writer.serialize_dynamic(kind, text)[kind] for kind, text in definitions.items()}
    writer = BagWriter(path)
    writer.chunk_threshold = chunk_size
    if compression:
        writer.set_compression(BagWriter.CompressionFormat[compression])
    with writer:
        connections = {
            (topic, kind): writer.add_connection(topic, kind, typestore=ros1)
            for topic, kind in dict.fromkeys((topic, kind) for _, topic, kind, _, _ in rows)
        }
        for time, topic, kind, _, message in rows:
            writer.write(connections[topic, kind], time, bytes(ros2.cdr_to_ros1(encode[kind](message), kind)))
    return path
