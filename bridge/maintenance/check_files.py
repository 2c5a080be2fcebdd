"""Whether the catalogued files are there, and what they were; what lies about that nobody has finished.

Runs in worker processes.
"""

from __future__ import annotations

import os
import re
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bridge.episodes.discover import is_episode, walk
from bridge.episodes.files import are_unchanged
from bridge.episodes.read import Failure, told
from bridge.index.embedded import disk_copy
from bridge.maintenance.findings import Finding
from catalog.location import DATABASE
from wshard.chunks.manifest import MANIFEST_SUFFIX
from wshard.container.atomic_write import TEMPORARY
from wshard.errors import WShardError
from wshard.open import open_episode
from wshard.repair.inspect import check_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from bridge.archive import Archive
    from catalog.records import Asset, EpisodeRow

ABANDONED_S: Final = 3600.0  # a younger file may still be written to
_DRAFT: Final = re.compile(rf"\.{re.escape(DATABASE)}\.([0-9a-f]{{32}}|[0-9a-f]{{8}}\.tmp)(-wal|-shm|-journal)?")
_PARTIAL: Final = ".partial"
_TOLD: Final = 3  # damaged blocks that are named


def check_files(rows: Sequence[tuple[EpisodeRow, tuple[Asset, ...]]], *, data: bool) -> list[Finding]:
    """Compare catalogued episodes with their files; data: every block with its checksum, which reads all of it."""
    return [found for row, files in rows if (found := _check(row, files, data=data)) is not None]


def _check(row: EpisodeRow, files: Sequence[Asset], *, data: bool) -> Finding | None:
    try:
        code, text = _compare(row, files, data=data)
    except FileNotFoundError as error:
        code, text = "missing", _missing(error, row.path)
    except WShardError as error:
        code, text = "corrupt", told(error, row.path)
    except OSError as error:
        code, text = "unreadable", told(error, row.path)
    except Exception as error:  # noqa: BLE001  (one file must not end the check of the others)
        code, text = "corrupt", told(error, row.path)
    return Finding(code, row.path, text, row.id) if code else None


def _missing(error: FileNotFoundError, path: str) -> str:
    name = error.filename
    return "no such file" if name is None or Path(name) == Path(path) else f"no such file: {Path(name).name}"


def _compare(row: EpisodeRow, files: Sequence[Asset], *, data: bool) -> tuple[str, str]:
    """Return what is wrong and in words, ("", "") for nothing."""
    for path in (file.path for file in files):
        mode = os.stat(path).st_mode  # noqa: PTH116  (as locate() names files)
        if not stat.S_ISREG(mode):  # opening a pipe would wait for ever
            return "missing", f"expected a file, found {stat.filemode(mode)}"
    with open_episode(row.path, hashed=False) as file:
        digest = file.digest()
    # A chunk that is another one than its manifest lists can be no newer version of the episode.
    looked = data or (digest != row.digest and len(files) > 1)
    _, damaged = check_file(Path(row.path)) if looked else (0, {})
    if damaged:
        named = "; ".join(text.removeprefix(f"{row.path}: ") for text in [*damaged.values()][:_TOLD])
        return "corrupt", f"{len(damaged)} damaged parts ({', '.join([*damaged][:_TOLD])}): {named}"
    if digest != row.digest:
        return "changed", "the data is not what was ingested"
    if not are_unchanged(files):
        return "touched", "another time than in the catalog, the same data"
    return "", ""


def look_around(folders: Iterable[str], lost: Sequence[EpisodeRow]) -> tuple[dict[str, list[str]], list[Finding]]:
    """Return which files below the folders have the data of lost episodes, by digest, and what is unfinished there."""
    sizes, digests = {row.size for row in lost}, {row.digest for row in lost}
    found: dict[str, list[str]] = {}
    left: list[Finding] = []
    unreadable: list[Failure] = []
    for folder in folders:
        for place, names in walk(folder, unreadable):
            for path in (f"{place}/{name}" for name in names if is_episode(name)) if lost else ():
                if (digest := _digest_of(path, sizes)) in digests:
                    found.setdefault(digest, []).append(path)
            left += _unfinished(place, names)
    left += [
        Finding("unreadable", failure.path, failure.error) for failure in unreadable if Path(failure.path).exists()
    ]
    return found, left


def _digest_of(path: str, sizes: Collection[int]) -> str:
    """Return the digest of a file that has one of these sizes, "" for another or none."""
    try:
        # What is known of an episode of several files is the size of all.
        if os.stat(path).st_size not in sizes and not path.endswith(MANIFEST_SUFFIX):  # noqa: PTH116  (as above)
            return ""
        with open_episode(path, hashed=False) as file:
            return file.digest()
    except Exception:  # noqa: BLE001  (if it is catalogued, that is told already)
        return ""  # if it is catalogued, that is told already


def _unfinished(place: str, names: Iterable[str]) -> Iterator[Finding]:
    for name in names:
        path = f"{place}/{name}"
        if name.endswith(_PARTIAL) and is_episode(name.removesuffix(_PARTIAL)) and is_abandoned(path):
            yield Finding("unfinished", path, "a recording that nobody has written to for an hour")
        elif TEMPORARY.fullmatch(name) and is_abandoned(path):
            yield Finding("abandoned", path, "a file whose writing was interrupted")


def leftovers(archive: Archive, living: Iterable[str]) -> list[Finding]:
    """Return what interrupted processes left in the archive's own folder; living: fingerprints of Spaces in use."""
    index, archive_id, kept = archive.place.index, archive.catalog.archive_id, set(living)
    paths = [path for path in _children(archive.folder) if _DRAFT.fullmatch(path.name)]
    paths += disk_copy.find_retired(index, archive_id, kept)
    for fingerprint in sorted(kept):
        paths += disk_copy.find_leftovers(disk_copy.find_folder(index, archive_id, fingerprint))
    told_ = "what an interrupted process or a Space that is no more left here"
    return [Finding("leftover", path.as_posix(), told_) for path in paths if is_abandoned(path)]


def is_abandoned(path: str | Path) -> bool:
    """Say whether nobody has written to the file or folder for an hour."""
    try:
        return time.time() - Path(path).stat().st_mtime > ABANDONED_S
    except OSError:
        return False


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
