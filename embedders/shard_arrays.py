"""Named float32 arrays in a Shard file, beside what they are: how trained embedders are stored."""

from __future__ import annotations

import hashlib
import json
import math
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.container.reader import ShardReader
from wshard.core.container.writer import ShardWriter
from wshard.errors import EmbedderError, WShardError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    About = Mapping[str, int]
    Sizes = Mapping[str, tuple[int, ...]]

_ABOUT: Final = "about"


def digest_arrays(about: About, arrays: Mapping[str, Floats]) -> str:
    """Return the sha256 of arrays, in their order, and what they are, in hex: it does not depend on a path."""
    digest = hashlib.sha256(_encode(about))
    for array in arrays.values():
        digest.update(array.astype("<f4").tobytes())
    return digest.hexdigest()


def save_arrays(path: str | os.PathLike[str], about: About, arrays: Mapping[str, Floats]) -> None:
    """Write arrays to a Shard file atomically. Raises OSError."""
    with ShardWriter(path) as shard:
        shard.write_entry(_ABOUT, _encode(about))
        for name, array in arrays.items():
            shard.write_entry(name, array.astype("<f4").tobytes())


def holds_arrays(file: IO[bytes]) -> bool:
    """Say whether an open file is one that `save_arrays` wrote."""
    try:
        with ShardReader(file) as shard:
            return _ABOUT in shard
    except WShardError:
        return False


def read_about(path: str | os.PathLike[str], what: str) -> Mapping[str, Any]:
    """Read what the arrays are. Raises EmbedderError, naming the file and `what` was expected, for anything else."""
    about, _ = load_arrays(path, what, lambda _: {})
    if not isinstance(about, dict):
        raise EmbedderError(f"{path}: expected {what}, found another file")
    return about


def load_arrays(
    path: str | os.PathLike[str], what: str, sizes_of: Callable[[Any], Sizes]
) -> tuple[Any, dict[str, Floats]]:
    """Read what `save_arrays` wrote: what the arrays are, and the arrays.

    sizes_of: takes what they are, not checked yet, and returns their shapes in order. Raises EmbedderError, naming the
    file and `what` was expected, for anything else.
    """
    try:
        with ShardReader(path) as shard:
            about = json.loads(bytes(shard.read_entry(_ABOUT)))
            return about, {name: _read(shard, name, size) for name, size in sizes_of(about).items()}
    except (WShardError, OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise EmbedderError(f"{path}: expected {what}: {error}") from error


def _read(shard: ShardReader, name: str, size: tuple[int, ...]) -> Floats:
    array = np.frombuffer(shard.read_entry(name), "<f4")
    if array.size != math.prod(size) or not np.isfinite(array).all():
        raise EmbedderError(f"{name}: expected {math.prod(size)} finite weights, found {array.size}")
    return array.reshape(size).astype(np.float32)


def _encode(about: About) -> bytes:
    return json.dumps(about, sort_keys=True).encode()
