"""The metadata.yaml of a ROS 2 bag: which files it has, and in which storage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from wshard.core.files.listed import name_missing_file, place_of_data
from wshard.core.messages import shown
from wshard.core.plugins import import_library
from wshard.errors import FormatError, LimitError, UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.files.place import Place

NAME: Final = "metadata.yaml"
STORAGES: Final = ("mcap", "sqlite3")
_MAX_TEXT: Final = 1 << 22
_ROOT: Final = "rosbag2_bagfile_information"


@dataclass(frozen=True)
class BagMetadata:
    """What a bag says of itself. storage: of STORAGES; compressed: each message by zstd; packed: each file."""

    storage: str
    files: tuple[Place, ...]
    distribution: str = ""
    notes: Mapping[str, Any] = field(default_factory=dict)
    compressed: bool = False
    packed: bool = False


def read_bag_metadata(folder: Place) -> BagMetadata:
    """Read metadata.yaml; raises FormatError, MissingFileError, UnsupportedFormatError."""
    where = folder / NAME
    about = _mapping(_read_yaml(where), _ROOT, where)
    storage = about.get("storage_identifier")
    if storage not in STORAGES:
        raise UnsupportedFormatError(f"{where}: expected storage {' or '.join(STORAGES)}, found {shown(storage)}")
    compression = str(about.get("compression_mode") or ""), str(about.get("compression_format") or "")
    mode, method = (one.lower() for one in compression)
    if any(compression) and (mode not in ("message", "file") or method != "zstd"):
        raise UnsupportedFormatError(
            f"{where}: expected no compression, or that of messages or files by zstd, found compression_mode "
            f"{shown(compression[0])}, compression_format {shown(compression[1])}: `ros2 bag convert` "
            "writes one without"
        )
    names = about.get("relative_file_paths")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise FormatError(f"{where}: expected a list of files in relative_file_paths, found {shown(names)}")
    files: dict[Place, None] = {}
    for name in names:
        file = place_of_data(folder, name, str(where))
        with name_missing_file(where, file):
            file.status()
        if file in files:
            raise FormatError(f"{where}: expected each file once in relative_file_paths, found {shown(name)} again")
        files[file] = None
    custom = about.get("custom_data")
    notes = {"custom_data": {str(key): str(value) for key, value in custom.items()}} if isinstance(custom, dict) else {}
    return BagMetadata(
        str(storage), tuple(files), str(about.get("ros_distro") or ""), notes, mode == "message", mode == "file"
    )


def _read_yaml(place: Place) -> object:
    """Read a file of plain values; a document that refers to itself or repeats parts by aliases is refused."""
    yaml = import_library("yaml", "mcap")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C is many times faster
    data = place.read(0, _MAX_TEXT + 1)
    if len(data) > _MAX_TEXT:
        raise LimitError(f"{place}: expected at most {_MAX_TEXT} bytes, found more")
    try:
        text = data.decode()
        if "*" in text and any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=loader)):
            raise LimitError(f"{place}: expected plain values, found an alias, which can expand without limit")
        return yaml.load(text, loader)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{place}: expected YAML: {error}") from error


def _mapping(value: object, key: str, where: Place) -> dict[str, Any]:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, dict):
        raise FormatError(f"{where}: expected a mapping {key}, found {shown(found)}")
    return found
