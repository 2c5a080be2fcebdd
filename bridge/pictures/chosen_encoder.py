"""The encoder that describes an archive's cameras: the archive has its fingerprint, this machine knows its folder.

An archive never decides which file is loaded: the folder must have been named on this machine before.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bridge.pictures.features import STRIDE
from wshard.core.container.atomic_write import publish
from wshard.core.files.disk_cache import cache_folder
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from embedders.encoders.local_encoder import LocalEncoder

_FILE: Final = Path("features") / "encoder.json"
_PLACES: Final = "encoders"
_ADVICE: Final = "name its folder: `wshard ingest PATHS --encoder FOLDER`, or --embedder encoder:FOLDER"


def choose_encoder(archive_folder: Path, encoder: LocalEncoder, stride: float = STRIDE) -> None:
    """Describe the archive's cameras by this encoder from now on, a frame every so many seconds. Raises OSError."""
    about = {"fingerprint": encoder.fingerprint, "name": encoder.path.name, "stride": stride}
    _write(_place_of(encoder.fingerprint), {"folder": encoder.place})
    _write(archive_folder / _FILE, about)


def read_chosen(archive_folder: Path, known: LocalEncoder | None) -> LocalEncoder | None:
    """Return the encoder that was chosen, None if none was. known: one that is open, which may be it.

    Raises EmbedderError if its folder is not known on this machine, or has other files by now.
    """
    if (fingerprint := read_fingerprint(archive_folder)) is None:
        return None
    if known is not None and known.fingerprint == fingerprint:
        return known
    from embedders.encoders.local_encoder import LocalEncoder

    folder, name = _read(_place_of(fingerprint)).get("folder"), _read(archive_folder / _FILE).get("name")
    if not isinstance(folder, str):
        raise EmbedderError(f"the cameras are described by the encoder {name!r}, not found on this machine: {_ADVICE}")
    encoder = LocalEncoder(folder)
    if encoder.fingerprint != fingerprint:
        raise EmbedderError(f"{folder}: expected the encoder that described the cameras, found other files: {_ADVICE}")
    return encoder


def read_fingerprint(archive_folder: Path) -> str | None:
    """Return the fingerprint of the encoder that was chosen, None if none was."""
    fingerprint = _read(archive_folder / _FILE).get("fingerprint")
    return fingerprint if isinstance(fingerprint, str) else None


def read_stride(archive_folder: Path) -> float:
    """Return the seconds from one described frame to the next that were chosen with the encoder, else STRIDE."""
    stride = _read(archive_folder / _FILE).get("stride")
    return float(stride) if isinstance(stride, int | float) and stride >= 0 else STRIDE


def _place_of(fingerprint: str) -> Path:
    return cache_folder() / _PLACES / f"{hashlib.sha256(fingerprint.encode()).hexdigest()[:16]}.json"


def _write(path: Path, about: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with publish(path) as file:
        file.write(json.dumps(about).encode())


def _read(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file, empty for a file that is missing or damaged."""
    with suppress(OSError, ValueError, RecursionError):
        if isinstance(found := json.loads(path.read_bytes()), dict):
            return found
    return {}
