"""RLDS data sets by the protobuf library, google-crc32c and array_record: nothing of it is shared with the reader."""

from __future__ import annotations

import io
import json
import struct
import zlib
from typing import TYPE_CHECKING, Any

import google_crc32c
import numpy as np
from array_record.python.array_record_module import ArrayRecordWriter
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from PIL import Image

if TYPE_CHECKING:
    from pathlib import Path

CLASS = "tensorflow_datasets.core.features"


def example_class() -> type[Any]:
    """Return tf.train.Example, as TensorFlow declares it."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="tensorflow", syntax="proto3")
    lists = {"BytesList": kinds.TYPE_BYTES, "FloatList": kinds.TYPE_FLOAT, "Int64List": kinds.TYPE_INT64}
    for name, kind in lists.items():
        file.message_type.add(name=name).field.add(name="value", number=1, type=kind, label=kinds.LABEL_REPEATED)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (name, field) in enumerate(zip(lists, ("bytes_list", "float_list", "int64_list"), strict=True), 1):
        feature.field.add(
            name=field,
            number=number,
            type=kinds.TYPE_MESSAGE,
            type_name=f".tensorflow.{name}",
            label=kinds.LABEL_OPTIONAL,
            oneof_index=0,
        )
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    about = {"type": kinds.TYPE_MESSAGE, "label": kinds.LABEL_OPTIONAL}
    entry.field.add(name="value", number=2, type_name=".tensorflow.Feature", **about)
    features.field.add(
        name="feature",
        number=1,
        type=kinds.TYPE_MESSAGE,
        type_name=".tensorflow.Features.FeatureEntry",
        label=kinds.LABEL_REPEATED,
    )
    file.message_type.add(name="Example").field.add(
        name="features", number=1, type_name=".tensorflow.Features", **about
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.Example"))


EXAMPLE = example_class()


def encode(features: dict[str, Any]) -> bytes:
    """Return an Example: arrays of floats, of whole numbers, lists of bytes or of text."""
    example = EXAMPLE()
    for name, values in features.items():
        feature = example.features.feature[name]
        if isinstance(values, list):
            feature.bytes_list.value.extend(one.encode() if isinstance(one, str) else one for one in values)
        elif np.asarray(values).dtype.kind == "f":
            feature.float_list.value.extend(np.asarray(values).ravel().tolist())
        else:
            feature.int64_list.value.extend(np.asarray(values).astype(np.int64).ravel().tolist())
    return bytes(example.SerializeToString(deterministic=True))


def decode(record: bytes) -> dict[str, Any]:
    """Return the features of an Example."""
    example = EXAMPLE.FromString(record)
    found = {}
    for name, feature in example.features.feature.items():
        kind = feature.WhichOneof("kind")
        found[name] = list(getattr(feature, kind).value) if kind else []
    return found


def masked(data: bytes) -> int:
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32


def tfrecord(records: list[bytes]) -> bytes:
    parts = []
    for record in records:
        length = struct.pack("<Q", len(record))
        parts += [length, struct.pack("<I", masked(length)), record, struct.pack("<I", masked(record))]
    return b"".join(parts)


def read_tfrecord(path: Path) -> list[bytes]:
    """Return the records of a file, after comparing all checksums."""
    data, place, found = path.read_bytes(), 0, []
    while place < len(data):
        length, crc = struct.unpack_from("<QI", data, place)
        assert masked(data[place : place + 8]) == crc
        record = data[place + 12 : place + 12 + length]
        assert masked(record) == struct.unpack_from("<I", data, place + 12 + length)[0]
        found.append(record)
        place += 16 + length
    return found


# ---- features.json -------------------------------------------------------------------------------------------------


def tensor(dtype: str, *shape: int, encoding: str = "none") -> dict[str, Any]:
    sizes = {"dimensions": [str(size) for size in shape]} if shape else {}
    return {
        "pythonClassName": f"{CLASS}.tensor_feature.Tensor",
        "tensor": {"shape": sizes, "dtype": dtype} | {"encoding": encoding},
    }


def image(encoding: str, *shape: int, dtype: str = "uint8") -> dict[str, Any]:
    about = {"shape": {"dimensions": [str(size) for size in shape]}, "dtype": dtype, "encodingFormat": encoding}
    return {"pythonClassName": f"{CLASS}.image_feature.Image", "image": about}


def text() -> dict[str, Any]:
    return {"pythonClassName": f"{CLASS}.text_feature.Text", "text": {}}


def group(**members: Any) -> dict[str, Any]:
    return {"pythonClassName": f"{CLASS}.features_dict.FeaturesDict", "featuresDict": {"features": members}}


def steps(**members: Any) -> dict[str, Any]:
    sequence = {"feature": group(**members), "length": "-1"}
    return {"pythonClassName": f"{CLASS}.dataset_feature.Dataset", "sequence": sequence}


FLAGS = {name: tensor("bool") for name in ("is_first", "is_last", "is_terminal")}
TREE = group(
    steps=steps(
        observation=group(
            image=image("jpeg", 12, 16, 3),
            wrist=image("png", 8, 8, 3),
            depth=image("png", 8, 8, 1, dtype="uint16"),
            state=tensor("float32", 3),
            gripper=group(width=tensor("float64"), code=tensor("uint8", 2)),
            text=text(),
        ),
        action=tensor("float32", 2, 2),
        reward=tensor("float32"),
        discount=tensor("float32"),
        language_instruction=text(),
        raw=tensor("float64", 2, encoding="bytes"),
        packed=tensor("int16", 3, encoding="zlib"),
        ragged=tensor("int64", -1),
        uneven=tensor("int64", -1),
        blank=image("jpeg", 4, 4, 3),
        label={"pythonClassName": f"{CLASS}.class_label_feature.ClassLabel", "classLabel": {"numClasses": "4"}},
        **FLAGS,
    ),
    episode_metadata=group(
        file_path=text(), success=tensor("bool"), episode_id=tensor("int64"), gain=tensor("float32", 2)
    ),
)


def picture(number: int, shape: tuple[int, ...], kind: str, dtype: Any = np.uint8) -> bytes:
    pixels = np.full(shape, 10 * number, dtype)
    pixels[0] = number
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def steps_of(number: int) -> dict[str, Any]:
    """Return the values of an episode of 4 + number steps, as they are before they are put into an Example."""
    count, rng = 4 + number, np.random.default_rng(number)
    raw = rng.standard_normal((count, 2))
    ends = np.arange(count) == count - 1
    return {
        "observation/image": [picture(n, (12, 16, 3), "JPEG") for n in range(count)],
        "observation/wrist": [picture(n, (8, 8, 3), "PNG") for n in range(count)],
        "observation/depth": [picture(300 + n, (8, 8), "PNG", np.uint16) for n in range(count)],
        "observation/state": rng.standard_normal((count, 3)).astype(np.float32),
        "observation/gripper/width": rng.standard_normal(count).astype(np.float32),
        "observation/gripper/code": rng.integers(0, 256, (count, 2)),
        "observation/text": ["near" if n < 2 else "far" for n in range(count)],
        "action": rng.standard_normal((count, 2, 2)).astype(np.float32),
        "reward": rng.standard_normal(count).astype(np.float32),
        "discount": np.ones(count, np.float32),
        "language_instruction": ["pick up the can"] * count,
        "raw": [row.tobytes() for row in raw],
        "label": rng.integers(0, 4, count),
        "blank": [b""] * count,
        "is_first": np.arange(count) == 0,
        "is_last": ends,
        "is_terminal": ends & (number % 2 == 0),
    }


def record_of(number: int) -> bytes:
    """Return the Example of an episode."""
    features = {f"steps/{name}": values for name, values in steps_of(number).items()}
    count = 4 + number
    packed = [zlib.compress(np.array([n, -n, 5], "<i2").tobytes()) for n in range(count)]
    ragged = {"ragged_flat_values": np.arange(2 * count), "ragged_row_lengths_0": np.full(count, 2)}
    sizes = np.arange(count) % 3
    uneven = {"ragged_flat_values": np.arange(sizes.sum()), "ragged_row_lengths_0": sizes}
    features |= {"steps/packed": packed}
    features |= {f"steps/ragged/{name}": values for name, values in ragged.items()}
    features |= {f"steps/uneven/{name}": values for name, values in uneven.items()}
    about = {
        "file_path": [f"/data/{number}.h5"],
        "success": np.array([number % 2]),
        "episode_id": np.array([70 + number]),
    }
    about |= {"gain": np.array([1.5, np.nan], np.float32)}
    return encode(features | {f"episode_metadata/{name}": values for name, values in about.items()})


def write_rlds(
    folder: Path, splits: dict[str, list[list[bytes]]], tree: Any = TREE, file_format: str = "tfrecord"
) -> Path:
    """Write a data set; splits: the records of each shard."""
    folder.mkdir(parents=True)
    rows = []
    for split, shards in splits.items():
        for number, records in enumerate(shards):
            path = folder / f"toy-{split}.{file_format}-{number:05d}-of-{len(shards):05d}"
            if file_format == "tfrecord":
                path.write_bytes(tfrecord(records))
            else:
                writer = ArrayRecordWriter(str(path), "group_size:1")
                for record in records:
                    writer.write(record)
                writer.close()
        lengths = [str(len(records)) for records in shards]
        template = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
        rows.append({"name": split, "shardLengths": lengths, "numBytes": "1", "filepathTemplate": template})
    info = {"name": "toy", "version": "1.0.0", "fileFormat": file_format, "splits": rows}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    (folder / "features.json").write_text(json.dumps(tree))
    return folder
