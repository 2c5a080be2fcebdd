"""The contents of dataset_info.json: the splits of a data set and their shards."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wshard.core.files.listed import place_of_data
from wshard.core.messages import shown
from wshard.errors import FormatError, LimitError, UnsupportedFormatError
from wshard.formats.hdf5.values import read_object

if TYPE_CHECKING:
    from wshard.core.files.place import Place

INFO: Final = "dataset_info.json"
TFRECORD, ARRAY_RECORD = "tfrecord", "array_record"
TEMPLATE: Final = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
DEFAULT_VERSION: Final = "1.0.0"
MAX_JSON: Final = 1 << 26
_MAX_EPISODES: Final = 1 << 26
_MAX_UNPROVEN: Final = 1 << 18  # episodes of files that are missing, or smaller than as many bytes
_FIELD: Final = re.compile(r"\{(\w+)\}")
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+")


class RecordPlace(NamedTuple):
    """The location of an episode: its split and number in it, its shard, and its number in the shard."""

    split: str
    number: int
    shard: Place
    record: int


@dataclass(frozen=True)
class SplitShards:
    """A split: its name and the number of episodes of each shard; `template` names the files."""

    name: str
    lengths: tuple[int, ...]
    template: str = TEMPLATE

    def file(self, dataset: str, file_format: str, shard: int) -> str:
        """Return the name of a shard's file; raises FormatError for a template with other fields."""
        index, count = f"{shard:05d}", f"{len(self.lengths):05d}"
        values = {"DATASET": dataset, "SPLIT": self.name, "FILEFORMAT": file_format, "SHARD_INDEX": index}
        values |= {"NUM_SHARDS": count, "SHARD_X_OF_Y": f"{index}-of-{count}"}
        try:
            return _FIELD.sub(lambda field: values[field[1]], self.template)
        except KeyError as error:
            raise FormatError(f"filepathTemplate: expected the fields {', '.join(values)}, found {error}") from None


@dataclass(frozen=True)
class RLDSInfo:
    """A data set by its dataset_info.json."""

    name: str
    version: str
    file_format: str
    splits: tuple[SplitShards, ...]

    def locations(self, folder: Place) -> dict[str, RecordPlace]:
        """Return the location of each episode by its key: "train/17"."""
        places_by_key, unproven = {}, 0
        for split in self.splits:
            number = 0
            for shard, length in enumerate(split.lengths):
                name = split.file(self.name, self.file_format, shard)
                file = place_of_data(folder, name, str(folder / INFO))
                unproven += max(length - _size_of(file), 0)  # a record takes at least a byte
                if unproven > _MAX_UNPROVEN:
                    raise FormatError(
                        f"{folder / INFO}: split {shown(split.name)}: expected shardLengths that fit the files, "
                        f"found {length} episodes in {file}"
                    )
                for record in range(length):
                    places_by_key[f"{split.name}/{number}"] = RecordPlace(split.name, number, file, record)
                    number += 1
        return places_by_key


def read_dataset_info(folder: Place) -> RLDSInfo:
    """Read dataset_info.json; raises FormatError, UnsupportedFormatError for other files than TFRecord, ArrayRecord."""
    path = folder / INFO
    contents = read_object(path, MAX_JSON)
    file_format = contents.get("fileFormat", TFRECORD)
    if file_format not in {TFRECORD, ARRAY_RECORD}:
        raise UnsupportedFormatError(
            f"{path}: expected fileFormat {TFRECORD} or {ARRAY_RECORD}, found {shown(file_format)}"
        )
    rows = contents.get("splits")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise FormatError(f"{path}: expected a list of splits, found {shown(rows)}")
    splits = tuple(_split(row, path) for row in rows)
    if sum(sum(split.lengths) for split in splits) > _MAX_EPISODES:
        raise LimitError(f"{path}: expected at most {_MAX_EPISODES} episodes, found more")
    return RLDSInfo(str(contents.get("name") or ""), str(contents.get("version") or ""), file_format, splits)


def _split(row: dict[str, Any], path: Place) -> SplitShards:
    lengths: Any = row.get("shardLengths", [] if str(row.get("numBytes") or 0) == "0" else None)
    template = row.get("filepathTemplate") or TEMPLATE
    try:
        counts = tuple(int(str(length)) for length in lengths)
    except (TypeError, ValueError):
        counts = (-1,)
    if min(counts, default=0) < 0 or not isinstance(template, str):
        raise FormatError(f"{path}: split {shown(row.get('name'))}: expected shardLengths, found {shown(lengths)}")
    return SplitShards(str(row.get("name") or ""), counts, template)


def _size_of(file: Place) -> int:
    """Return the bytes of a shard, 0 for a missing one."""
    try:
        return file.status().size
    except FileNotFoundError:
        return 0


def describe_dataset(info: RLDSInfo, sizes: dict[str, int]) -> dict[str, Any]:
    """Return the contents of dataset_info.json; sizes: bytes of each split."""
    splits = [
        {
            "filepathTemplate": split.template,
            "name": split.name,
            "numBytes": str(sizes[split.name]),
            "shardLengths": [str(length) for length in split.lengths],
        }
        for split in info.splits
    ]
    contents = {"citation": "", "description": "", "fileFormat": info.file_format, "name": info.name}
    return contents | {"releaseNotes": {}, "splits": splits, "version": info.version or DEFAULT_VERSION}


def name_of_folder(folder: Place) -> tuple[str, str]:
    """Return name and version of a data set in NAME/VERSION, or in NAME."""
    has_version = _VERSION.fullmatch(folder.name) is not None
    name = re.sub(r"\W+", "_", (folder.parent if has_version else folder).name).strip("_").lower()
    return name or "episodes", folder.name if has_version else DEFAULT_VERSION
