"""Texts of a ShardPack: keys, names and content types of entries, and the paths KEY.NAME of files and tar members."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from wshard.core.messages import shown
from wshard.errors import FormatError
from wshard.training.shardpack.layout import MAX_KEY_SIZE, MAX_NAME_SIZE, MAX_TYPE_SIZE

DEFAULT_TYPE: Final = "application/octet-stream"
EPISODE_TYPE: Final = "application/x-wshard"
_CACHE_SIZE: Final = 1024  # names and content types: at most 4 MB
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f\\]|(?:^|/)\.{0,2}(?:/|$)")
_TYPES: Final = {
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "png": "image/png",
    "json": "application/json",
    "msgpack": "application/msgpack",
    "npy": "application/x-npy",
    "npz": "application/x-npz",
    "txt": "text/plain",
    "mp4": "video/mp4",
    "wshard": EPISODE_TYPE,
}


def decode_text(data: bytes, where: str) -> str:
    """Decode a key; raises FormatError for invalid UTF-8, and for control characters."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"{where}: expected UTF-8: {error}") from None
    if _CONTROL.search(text):
        raise FormatError(f"{where}: expected no control characters, found {shown(text)}")
    return text


def decode_name(data: bytes) -> str:
    """Decode the name of an entry; raises FormatError unless it is a relative path inside its record."""
    name = decode_text(data, "name")
    check_path(name, "name")
    return name


@lru_cache(_CACHE_SIZE)
def decode_texts(data: bytes, name_size: int) -> tuple[str, str]:
    """Return name and content type, which are adjacent in `data`; raises FormatError. Cached, as files have few."""
    return decode_name(data[:name_size]), decode_text(data[name_size:], "content type")


def encode_key(key: str, where: str) -> bytes:
    """Encode a key for writing; raises FormatError."""
    data = _encode(key, f"{where}: key", MAX_KEY_SIZE, 1)
    decode_text(data, f"{where}: key")
    return data


def encode_name(name: str, where: str) -> bytes:
    """Encode an entry's name for writing; raises FormatError."""
    data = _encode(name, f"{where}: name", MAX_NAME_SIZE, 1)
    try:
        decode_name(data)
    except FormatError as error:
        raise FormatError(f"{where}: {error}") from None
    return data


def encode_type(content_type: str, where: str) -> bytes:
    """Encode a content type for writing; raises FormatError."""
    data = _encode(content_type, f"{where}: content type", MAX_TYPE_SIZE, 0)
    decode_text(data, f"{where}: content type")
    return data


def _encode(text: str, where: str, max_size: int, min_size: int) -> bytes:
    try:
        data = text.encode()
    except (UnicodeEncodeError, AttributeError):
        raise FormatError(f"{where}: expected Unicode text, found {shown(text)}") from None
    if not min_size <= len(data) <= max_size:
        raise FormatError(f"{where}: expected {min_size} to {max_size} bytes, found {len(data)}")
    return data


def check_path(path: str, where: str) -> None:
    """Raise FormatError unless it is a relative path inside a folder."""
    if _UNSAFE.search(path):
        raise FormatError(f'{where}: expected a relative path without ".", ".." and "\\", found {shown(path)}')


def guess_type(name: str) -> str:
    """Return the content type for a name's extension, "" for an unknown one."""
    return _TYPES.get(name.rpartition(".")[2].lower(), "")


def split_member(path: str, where: str) -> tuple[str, str]:
    """Return key and entry name of a file or tar member: split at the first dot of its last part.

    Raises FormatError for a file without an extension.
    """
    folder, slash, last = path.rpartition("/")
    stem, dot, name = last.partition(".")
    if not (stem and dot and name):
        raise FormatError(f"{where}: expected a file name KEY.NAME with a dot, found {shown(path)}")
    return f"{folder}{slash}{stem}", name


def member_name(key: str, name: str, where: str) -> str:
    """Return the tar member name of an entry; raises FormatError for a key that could not be recovered from it."""
    last = key.rpartition("/")[2]
    if "." in last or not last or _UNSAFE.search(key):
        raise FormatError(
            f'{where}: key {shown(key)}: expected a relative path whose last part has no dot, or "{key}.{name}" '
            f"would be read as another key"
        )
    return f"{key}.{name}"
