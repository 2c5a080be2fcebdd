"""Names of the Lance tables of a data set and of what their fields state, and the statements about episodes."""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

from wshard.core.plugins import import_library
from wshard.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.core.files.place import Place
    from wshard.formats.look import LocationLook

EPISODE: Final = "episode_idx"
STEP: Final = "step_idx"
SUFFIX: Final = ".lance"
VIDEOS: Final = "_videos"
EPISODES: Final = "_episodes"
SHAPE: Final = b"wshard.shape"
"""Key of a field's metadata: the shape of a row, as JSON."""

BLOCK: Final = b"wshard.block"
"""Key of a field's metadata: the block name of its lane."""

GENERATION: Final = b"wshard.generation"
"""Key of the metadata of a table and of the one of its episodes: the same for both."""


_IN_THE_LIBRARY: Final = re.compile(r",? /\S+\.rs:\d+:\d+$")  # where an error was raised


_TABLE_FILE: Final = re.compile(
    r"data/[0-9a-f-]{32,}\.(lance|blob)|_versions/(\d+\.manifest|latest_version_hint\.json)|_transactions/[^/]+\.txn"
    r"|_deletions/[\d-]+\.(arrow|bin)|_indices/[0-9a-f-]{36}/.+|_refs/(tags|branches)/.+|\.lance-reserved"
)


@contextlib.contextmanager
def translate_lance_errors(where: str) -> Iterator[None]:
    """Translate the errors of the library for a table that cannot be read to FormatError."""
    try:
        yield
    except (FormatError, ImportError, FileNotFoundError, MemoryError):
        raise
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":  # of the library's Rust
            reason = _IN_THE_LIBRARY.sub("", str(error).partition("\n")[0])
            raise FormatError(f"{where}: expected a Lance table that can be read: {reason}") from error
        raise


def is_table(look: LocationLook) -> bool:
    """Say whether a path is a Lance table of steps, not one of its side tables."""
    side = look.place.stem.endswith((VIDEOS, EPISODES))
    return look.suffix == SUFFIX and not side and "_versions" in look.names


def table_files(table: Place) -> list[str]:
    """Return the names of the files of a table below its folder, by the names that the library gives them."""
    if not (table / "_versions").is_dir():
        return []
    found = (file.relative_to(table) for file in table.walk())
    return [name for name in found if _TABLE_FILE.fullmatch(name)]


def videos_of(table: Place) -> Place:
    """Return the table of videos."""
    return side_table(table, VIDEOS)


def side_table(table: Place, kind: str) -> Place:
    """Return a side table."""
    return table.parent / f"{table.stem}{kind}{SUFFIX}"


def find_statements(table: Place, generation: bytes | None) -> Any:
    """Return the newest version of a table of episodes that belongs to a generation, None if there is none."""
    lance = import_library("lance", "lance")
    newest = lance.dataset(table.local_path()) if table.is_dir() else None
    if newest is None or (newest.schema.metadata or {}).get(GENERATION) == generation:
        return newest
    for version in sorted((one["version"] for one in newest.versions()), reverse=True):
        older = lance.dataset(table.local_path(), version=version)
        if (older.schema.metadata or {}).get(GENERATION) == generation:
            return older
    return None


def stated_shape(field: Any) -> tuple[int, ...] | None:
    """Return the shape of a row that a field states, None if it states none; raises FormatError for other JSON."""
    text = (field.metadata or {}).get(SHAPE)
    try:
        shape = None if text is None else json.loads(text)
    except ValueError:
        shape = "none"
    whole = isinstance(shape, list) and all(type(axis) is int and axis >= 0 for axis in shape)
    if shape is not None and not whole:
        raise FormatError(f"column {field.name!r}: expected the shape of a row, found {text!r}")
    return None if shape is None else tuple(shape)
