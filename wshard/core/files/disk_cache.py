"""Blocks of objects on disk, shared by the processes of a user: a file each, which anybody may remove at any time."""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING, Final, NamedTuple

import xxhash

from wshard.core.arguments import parse_size
from wshard.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CACHE_VARIABLE: Final = "WSHARD_CACHE"
SIZE_VARIABLE: Final = "WSHARD_CACHE_SIZE"
MARKER: Final = "blocks-of-objects.txt"
"""Without a file of this name nothing in a folder is written or removed, unless the folder is empty."""

_ABOUT: Final = "Blocks of objects that wshard has read. They can be removed at any time: `wshard cache --clear`.\n"
_DEFAULT_LIMIT: Final = 10**10
_SHARDS: Final = 64  # folders, each of which holds its share of the limit: one of them is looked through, not all
_LOOK_EVERY: Final = 16  # blocks written to a folder between two looks at its size, on average
_CHECKSUM: Final = 16  # bytes before those of a block
_HOUR: Final = 3600.0  # a block that is used gets the time of its use at most once in so long
_OURS: Final = re.compile(r"[0-9a-f]{32}(\.[0-9]+-[0-9]+)?")  # a block, or one that is being written

Object = tuple[str, str, int]
"""URL, version, size."""


class CacheSize(NamedTuple):
    """What the cache holds."""

    blocks: int
    size: int


class _Block(NamedTuple):
    used: float
    size: int
    path: Path


def cache_folder() -> Path:
    """Return the folder of what can be made again: $WSHARD_CACHE, else wshard in $XDG_CACHE_HOME or ~/.cache."""
    if folder := os.environ.get(CACHE_VARIABLE):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wshard"


def objects_folder() -> Path:
    """Return the folder of the blocks, which need not exist."""
    return cache_folder() / "objects"


def limit_of_cache() -> int:
    """Return how many bytes blocks may take: $WSHARD_CACHE_SIZE, else 10 GB or a tenth of the free disk, if less."""
    given = os.environ.get(SIZE_VARIABLE, "").strip()
    if not given:
        return _default_limit(objects_folder())
    size = parse_size(given)
    if size is None:
        raise FormatError(f"{SIZE_VARIABLE}: expected a size such as 20GB or 500MB, or 0 for no cache, found {given!r}")
    return size


@lru_cache(maxsize=8)
def _default_limit(folder: Path) -> int:
    for place in (folder, *folder.parents):
        with suppress(OSError):
            return min(_DEFAULT_LIMIT, disk_usage(place).free // 10)
    return 0


def read_block(of: Object, number: int) -> bytes | None:
    """Return a block, None if it is not there as it was written."""
    key = _key_of(of, number)
    try:
        with _path_of(objects_folder(), key).open("rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            text = file.read(status.st_size)
            if text[:_CHECKSUM] != _checksum(key, text[_CHECKSUM:]):
                return None
            if status.st_mtime + _HOUR < time.time():
                with suppress(OSError):
                    os.utime(file.fileno())
    except (OSError, RuntimeError):  # a user without a home folder
        return None
    return text[_CHECKSUM:]


def write_blocks(of: Object, blocks: Mapping[int, bytes]) -> None:
    """Keep blocks as far as limit, disk and rights allow; others are removed to make room, least recently used first.

    Only versions that are strong etags are kept: others, such as times of seconds, do not promise the same bytes.
    """
    with suppress(OSError, RuntimeError):  # no right to write, disk full, no home: what is not kept is fetched again
        limit, folder = limit_of_cache() // _SHARDS, objects_folder()
        if not blocks or not of[1].startswith('"') or limit < max(map(len, blocks.values())) + _CHECKSUM:
            return
        for number, block in blocks.items():
            key = _key_of(of, number)
            path = _path_of(folder, key)
            try:
                _write(path, _checksum(key, block) + block)
            except FileNotFoundError:
                if not _make_folder(folder):
                    return
                path.parent.mkdir(exist_ok=True)
                _write(path, _checksum(key, block) + block)
            if key[0] % _LOOK_EVERY == 0:
                _make_room(path.parent, limit)


def size_of_cache() -> CacheSize:
    """Return how many blocks there are, and their bytes."""
    sizes = [block.size for shard in _shards(objects_folder()) for block in _blocks(shard)]
    return CacheSize(len(sizes), sum(sizes))


def clear_cache() -> CacheSize:
    """Remove all blocks, and the folder if nothing else is in it; return what was removed."""
    folder = objects_folder()
    removed = CacheSize(0, 0)
    for shard in _shards(folder):
        for block in _blocks(shard):
            with suppress(FileNotFoundError):
                block.path.unlink()
                removed = CacheSize(removed.blocks + 1, removed.size + block.size)
        with suppress(OSError):  # another process has written to it
            shard.rmdir()
    if _is_ours(folder) and [*folder.iterdir()] == [folder / MARKER]:
        with suppress(OSError):
            (folder / MARKER).unlink()
            folder.rmdir()
    return removed


def _write(path: Path, text: bytes) -> None:
    """Make a file appear whole. What a crash leaves of it differs from its checksum."""
    draft = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        draft.write_bytes(text)
        draft.replace(path)
    except FileNotFoundError:
        raise
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise


def _make_room(shard: Path, limit: int) -> None:
    found = sorted(_blocks(shard))
    excess = sum(block.size for block in found) - limit
    for block in found:
        if excess <= -(limit // 10):
            return
        with suppress(FileNotFoundError):
            block.path.unlink()
        excess -= block.size


def _make_folder(folder: Path) -> bool:
    """Make a folder that only its user may read; return False if what is there is not ours."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_ours(folder):
        if any(folder.iterdir()):
            return _is_ours(folder)  # another process may have made it just now
        (folder / MARKER).write_text(_ABOUT)
    return True


def _is_ours(folder: Path) -> bool:
    return (folder / MARKER).is_file()


def _shards(folder: Path) -> list[Path]:
    """Return the folders of blocks; links are not followed."""
    if not _is_ours(folder):
        return []
    shards = [folder / f"{number:02x}" for number in range(_SHARDS)]
    return [shard for shard in shards if shard.is_dir() and not shard.is_symlink()]


def _blocks(shard: Path) -> Iterator[_Block]:
    with suppress(FileNotFoundError), os.scandir(shard) as entries:
        for entry in entries:
            if _OURS.fullmatch(entry.name):
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        yield _Block(status.st_mtime, status.st_size, Path(entry.path))


def _key_of(of: Object, number: int) -> bytes:
    """Return a digest of what a block is; that of another endpoint, which has the same URLs, is another block."""
    endpoints = (os.environ.get(name, "") for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
    return xxhash.xxh3_128_digest("\0".join((*map(str, of), str(number), *endpoints)).encode("utf-8", "surrogatepass"))


def _path_of(folder: Path, key: bytes) -> Path:
    return folder / f"{key[-1] % _SHARDS:02x}" / key.hex()


def _checksum(key: bytes, block: bytes) -> bytes:
    hashed = xxhash.xxh3_128(key)
    hashed.update(block)
    return hashed.digest()
