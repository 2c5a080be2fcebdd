"""The folder of an encoder: its settings, its weights and their digest; what could run code is refused."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from pathlib import Path

_SAFETENSORS: Final = "safetensors"
_PICKLES: Final = frozenset({".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".h5", ".msgpack"})
_READ: Final = frozenset({".safetensors", ".onnx", ".json", ".txt"})
"""Suffixes of what is read, and therefore in the digest."""

_LARGEST_TEXT: Final = 1 << 26  # bytes of a JSON file: tokenizers have up to 35 MB


class ModelFolder:
    """The files of a folder, and of its folder `onnx`, which other programs wrote.

    Raises EmbedderError for what is no folder, and for one whose settings name code of their own.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_dir():
            found = "a file" if path.exists() else "no such folder"
            raise EmbedderError(f"{path}: expected the folder of an encoder, found {found}; nothing is downloaded")
        for name in ("config.json", "preprocessor_config.json", "processor_config.json", "tokenizer_config.json"):
            if "auto_map" in self.read_json(name):
                raise EmbedderError(
                    f"{path / name}: expected settings alone, found auto_map: code of a folder is not run"
                )

    @cached_property
    def files(self) -> dict[str, Path]:
        """The files that are read, by their names relative to the folder, in the order of names."""
        found = [
            one for one in (*self.path.iterdir(), *self.path.glob("onnx/*")) if one.suffix in _READ and one.is_file()
        ]
        return {one.relative_to(self.path).as_posix(): one for one in sorted(found)}

    @cached_property
    def weights(self) -> list[str]:
        """The names of the files of safetensors. Raises EmbedderError if there are none."""
        if names := [name for name in self.files if name.endswith(f".{_SAFETENSORS}") and "/" not in name]:
            return names
        pickles = sorted(one.name for one in self.path.iterdir() if one.suffix in _PICKLES)
        refused = f"{', '.join(pickles[:3])}, which may run code when read" if pickles else "none"
        raise EmbedderError(f"{self.path}: expected weights as *.safetensors or *.onnx, found {refused}")

    @cached_property
    def sha256(self) -> str:
        """The sha256 of names and contents of all files that are read, in hex."""
        digest = hashlib.sha256()
        for name, file in self.files.items():
            try:
                with file.open("rb") as opened:
                    digest.update(f"{name}\n{hashlib.file_digest(opened, 'sha256').hexdigest()}\n".encode())
            except OSError as error:
                raise EmbedderError(f"{file}: expected a file that can be read: {error.strerror}") from error
        return digest.hexdigest()

    def read_json(self, name: str) -> dict[str, Any]:
        """Return the object in a JSON file, empty if there is no such file. Raises EmbedderError for anything else."""
        file = self.path / name
        if not file.is_file():
            return {}
        try:
            if file.stat().st_size > _LARGEST_TEXT:
                raise EmbedderError(f"{file}: expected settings of at most {_LARGEST_TEXT} bytes, found more")
            found = json.loads(file.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise EmbedderError(f"{file}: expected JSON: {error}") from error
        if not isinstance(found, dict):
            raise EmbedderError(f"{file}: expected a JSON object, found {type(found).__name__}")
        return found

    def read_text(self, name: str) -> str | None:
        """Return the text of a file, None if there is no such file."""
        file = self.path / name
        try:
            return file.read_text("utf-8") if file.is_file() else None
        except (OSError, ValueError) as error:
            raise EmbedderError(f"{file}: expected text: {error}") from error
