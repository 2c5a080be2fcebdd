"""Which files are episodes: the given files, and every episode file below the given folders."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bridge.episodes.files import locate, without_chunks
from bridge.episodes.read import Failure
from catalog.location import DATABASE
from wshard.errors import IngestError, SourceNotFoundError
from wshard.formats.base import OWN_DATA
from wshard.messages import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SUFFIX: Final = ".wshard"


@dataclass(frozen=True)
class Sources:
    """What was asked for: all files in order, the folders among the arguments, and folders that cannot be read.

    skipped: how many files of the folders are no episodes, by suffix, the most first.
    """

    files: tuple[str, ...]
    folders: tuple[str, ...]
    unreadable: tuple[Failure, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)


def listed_paths(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str | os.PathLike[str]]:
    """Return the paths that are meant by one or by several. Raises IngestError for what is none."""
    several: Any = paths
    one = isinstance(several, str | bytes | os.PathLike) or not isinstance(several, Iterable)
    listed = [several] if one else list(several)
    for path in listed:
        if not isinstance(path, str | os.PathLike):
            raise IngestError(f"expected files and folders by their paths, found {shown(path)}")
    return listed


def discover(paths: Sequence[str | os.PathLike[str]], *, may_be_gone: bool = False) -> Sources:
    """Find the episode files that the paths name; folders are searched recursively, hidden names are skipped.

    A manifest stands for the chunks that it lists: these are left out, also where they are named. Any other file that
    is named itself is taken whatever its suffix. Raises SourceNotFoundError for a path that is not there and for a
    folder without episode files; may_be_gone: what is not there counts as a folder without any.
    """
    files: dict[str, None] = {}
    folders: list[str] = []
    unreadable: list[Failure] = []
    skipped: Counter[str] = Counter()
    for name in paths:
        path = Path(name)
        if not os.fspath(name):  # which Path takes for the current folder
            raise SourceNotFoundError("expected a file or folder, found an empty text")
        if path.is_dir():
            found = _below(path, unreadable, skipped)
            if not found and not unreadable and not may_be_gone:
                raise _empty(path)
            folders.append(locate(path))
            files |= dict.fromkeys(found)
        elif path.exists():
            files[locate(path)] = None
        elif may_be_gone:
            folders.append(locate(path))
        else:
            raise _not_there(path)
    return Sources(tuple(without_chunks(list(files))), tuple(folders), tuple(unreadable), dict(skipped.most_common()))


def expect_episodes(paths: Sequence[Path]) -> None:
    """Raise SourceNotFoundError as `discover` does; looks no further than the first episode below each folder."""
    for path in paths:
        if not path.is_dir():
            if not path.exists():
                raise _not_there(path)
            continue
        unreadable: list[Failure] = []
        if not any(is_episode(name) for _, names in walk(path, unreadable) for name in names) and not unreadable:
            raise _empty(path)


def _not_there(path: Path) -> SourceNotFoundError:
    return SourceNotFoundError(f"no such file or folder: {path}")


def _empty(path: Path) -> SourceNotFoundError:
    return SourceNotFoundError(f"no episodes in {path}: expected files that end in {SUFFIX}; {OWN_DATA}")


def _below(folder: Path, unreadable: list[Failure], skipped: Counter[str]) -> list[str]:
    found: list[str] = []
    archives: list[str] = []
    for place, files in walk(folder, unreadable):
        archives += [f"{place}/"] if DATABASE in files else []
        if not f"{place}/".startswith(tuple(archives)):
            skipped.update(os.path.splitext(name)[1].lower() for name in files if _is_foreign(name))  # noqa: PTH122
        named = [f"{place}/{name}" for name in files if is_episode(name)]
        found += [locate(path) if os.path.islink(path) else path for path in named]  # noqa: PTH114  (a million times)
    return found


def walk(folder: str | os.PathLike[str], unreadable: list[Failure]) -> Iterator[tuple[str, list[str]]]:
    """Yield (real path of a folder, names of its files) for the folder and those below; hidden folders are skipped.

    Links to folders are followed, each folder once, wherever it is linked from. Notes what cannot be read.
    """

    def note(error: OSError) -> None:
        unreadable.append(Failure(str(error.filename), error.strerror or str(error)))

    seen: set[str] = set()
    for place, names, files in os.walk(folder, onerror=note, followlinks=True):
        real = locate(place)
        if real in seen:
            names.clear()
            continue
        seen.add(real)
        names[:] = sorted(name for name in names if not name.startswith("."))
        yield real, sorted(files)


def _is_foreign(name: str) -> bool:
    """Say whether a file is neither an episode nor what belongs to one: a recording, a backup."""
    return SUFFIX not in name and not name.startswith(".")


def is_episode(name: str) -> bool:
    """Say whether a file of this name in a folder is taken for an episode."""
    return name.endswith(SUFFIX) and not name.startswith(".")
