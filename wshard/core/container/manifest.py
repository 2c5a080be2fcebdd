"""Manifests of containers (role 4): the files of a data set, opened only after they were verified.

References must not lead out of the manifest's folder.
"""

from __future__ import annotations

import hashlib
import os
import reprlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wshard.core.container.layout import ROLE_MANIFEST, ROLE_SAMPLE, ROLE_WSHARD
from wshard.core.container.metadata import PROFILE_MANIFEST, ManifestFileRef, ManifestProfile, ShardMetadata
from wshard.core.container.reader import ShardReader
from wshard.core.container.writer import ShardWriter
from wshard.core.files.listed import name_missing_file, place_inside
from wshard.core.files.local import LocalPlace
from wshard.core.files.regular import map_file, open_file
from wshard.errors import ChecksumError, FormatError, HeaderError, ManifestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_ROLES: Final = {"manifest": ROLE_MANIFEST, "sample": ROLE_SAMPLE, "wshard": ROLE_WSHARD}
_SHA256_DIGITS: Final = 64


@dataclass(frozen=True)
class FileManifest:
    """A data set of several files; references are checked when they are opened."""

    path: Path
    files: tuple[ManifestFileRef, ...]
    partitions: Mapping[str, Any] = field(default_factory=dict)
    require_sha256: bool = True

    def locate(self, reference: ManifestFileRef) -> Path:
        """Return the path of a referenced file; raises ManifestError if it is outside the folder."""
        return inside(self.path.parent, reference.uri, str(self.path))

    def open(self, reference: ManifestFileRef) -> ShardReader:
        """Open a file after its SHA-256, role and number of blocks proved right.

        Raises ChecksumError, ManifestError, FormatError, MissingFileError.
        """
        path, where = self.locate(reference), f"{self.path}: {reference.uri!r}"
        _check_keys(reference, where)
        with name_missing_file(self.path, path):
            data = _mapped(path)
        self._check_hash(reference, data, where)
        reader = ShardReader(data)  # the very bytes that were hashed, whatever becomes of the path
        reader.where = str(path)
        role = _ROLES.get(reference.role, reader.header.role)
        if reader.header.role != role:
            raise HeaderError(f"{where}: expected role {role} ({reference.role}), found {reader.header.role}")
        if reference.entry_count and len(reader) != reference.entry_count:
            raise ManifestError(f"{where}: expected {reference.entry_count} blocks, found {len(reader)}")
        return reader

    def _check_hash(self, reference: ManifestFileRef, data: memoryview, where: str) -> None:
        if not reference.sha256 and not self.require_sha256:
            return
        if len(reference.sha256) != _SHA256_DIGITS:
            raise ManifestError(f"{where}: sha256: expected 64 hex digits, found {reference.sha256!r}")
        digest = hashlib.sha256(data).hexdigest()
        if digest != reference.sha256.lower():
            raise ChecksumError(f"{where}: SHA-256 mismatch: expected {reference.sha256}, found {digest}")

    def find(self, key: str) -> list[ManifestFileRef]:
        """Return the references whose range of keys contains a key; numeric keys are compared as numbers."""
        return [file for file in self.files if _sort_key(file.start_key) <= _sort_key(key) <= _sort_key(file.end_key)]

    def verify(self) -> Iterator[tuple[ManifestFileRef, FormatError | OSError | None]]:
        """Check every file with all its blocks: yields the reference and None, or the first error."""
        for reference in self.files:
            try:
                with self.open(reference) as reader:
                    error: FormatError | OSError | None = next(
                        (problem for _, problem in reader.verify() if problem), None
                    )
            except (FormatError, OSError) as raised:
                error = raised
            yield reference, error


def open_manifest(path: str | os.PathLike[str], *, require_sha256: bool = True) -> FileManifest:
    """Read a manifest; the files that it lists are not opened yet.

    require_sha256: refuse entries without one. Raises HeaderError for another role, ManifestError.

    Examples:
        >>> write_manifest("one.shard", ["episodes/circle-02.wshard"])
        >>> [file.uri for file in open_manifest("one.shard").files]
        ['episodes/circle-02.wshard']
    """
    with ShardReader(path) as reader:
        role, metadata = reader.header.role, reader.read_metadata()
    if role != ROLE_MANIFEST:
        raise HeaderError(f"{path}: role: expected {ROLE_MANIFEST} (a manifest) at offset 5, found {role}")
    if metadata is None or metadata.manifest is None:
        raise ManifestError(f"{path}: expected a JSON section with the key manifest; a chunked episode has none")
    return FileManifest(Path(path), tuple(metadata.manifest.files), metadata.manifest.partitions, require_sha256)


def write_manifest(
    path: str | os.PathLike[str],
    files: Iterable[str | os.PathLike[str] | ManifestFileRef],
    *,
    partitions: Mapping[str, Any] | None = None,
) -> None:
    """Write a manifest of files in its folder, with the SHA-256, role and number of blocks of each.

    Pass a ManifestFileRef to add a range of keys; fields that it leaves empty are filled in. partitions: named groups.
    Raises ManifestError for a file outside the folder, FormatError for a file that is not a container.

    Examples:
        >>> name = "episodes/circle-02.wshard"
        >>> write_manifest("all.shard", [name], partitions={"train": [name]})
    """
    references = [
        file if isinstance(file, ManifestFileRef) else ManifestFileRef(uri=_uri(path, file)) for file in files
    ]
    profile = ManifestProfile([_complete(Path(path), reference) for reference in references], dict(partitions or {}))
    with ShardWriter(path, ROLE_MANIFEST) as writer:
        writer.set_metadata(ShardMetadata(profile=PROFILE_MANIFEST, manifest=profile))


def inside(folder: Path, uri: str, where: str) -> Path:
    """Return the path of a reference inside a folder; raises ManifestError for one that leaves it, by name or link."""
    parts = uri.split("/")
    if not uri or ":" in parts[0] or "\\" in uri or "\0" in uri or any(part in ("", ".", "..") for part in parts):
        raise ManifestError(f"{where}: uri: expected a relative path inside the folder, found {reprlib.repr(uri)}")
    return Path(place_inside(LocalPlace(str(folder)), uri, where).local_path()).resolve()


def _uri(manifest: str | os.PathLike[str], file: str | os.PathLike[str]) -> str:
    root = Path(manifest).resolve().parent
    path = Path(file).resolve()
    if not path.is_relative_to(root):
        raise ManifestError(f"{os.fspath(manifest)}: expected files inside {root}, found {path}")
    return path.relative_to(root).as_posix()


def _complete(manifest: Path, reference: ManifestFileRef) -> ManifestFileRef:
    where = f"{manifest}: {reference.uri!r}"
    _check_keys(reference, where)
    data = _mapped(inside(manifest.parent, reference.uri, str(manifest)))
    with ShardReader(data) as reader:
        role = next((name for name, number in _ROLES.items() if number == reader.header.role), "")
        count = len(reader)
    return ManifestFileRef(
        reference.uri,
        reference.sha256 or hashlib.sha256(data).hexdigest(),
        reference.role or role,
        reference.profile,
        reference.start_key,
        reference.end_key,
        reference.entry_count or count,
        reference.unknown,
    )


def _mapped(path: Path) -> memoryview:
    with open_file(path) as file:
        if not os.fstat(file.fileno()).st_size:
            return memoryview(b"")
        return map_file(file.fileno(), path)


def _check_keys(reference: ManifestFileRef, where: str) -> None:
    if reference.entry_count < 0:
        raise ManifestError(f"{where}: entry_count: expected 0 or more, found {reference.entry_count}")
    if reference.end_key and _sort_key(reference.start_key) > _sort_key(reference.end_key):
        raise ManifestError(
            f"{where}: expected start_key <= end_key, found {reference.start_key!r} and {reference.end_key!r}"
        )


def _sort_key(key: str) -> tuple[int, str]:
    """Return what keys are compared by: those of digits are numbers, without leading zeros and shorter ones first."""
    digits = key.lstrip("0") or "0"
    return (len(digits), digits) if key.isascii() and key.isdigit() else (0, key)
