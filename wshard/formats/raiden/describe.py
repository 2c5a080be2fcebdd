"""What `metadata.json` and the texts of the first timestep say of a Raiden episode."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

from wshard.container.open_file import open_file
from wshard.errors import FormatError, LimitError, MissingFileError
from wshard.types import TimebaseSpec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_MOST_METADATA: Final = 1 << 22
_KEPT: Final = ("control", "labels", "cameras", "info")


def clock_of(about: Mapping[str, Any]) -> TimebaseSpec:
    """Return the clock that `framerate` tells."""
    rate = about.get("framerate")
    known = isinstance(rate, int | float) and not isinstance(rate, bool) and math.isfinite(rate) and rate > 0
    return TimebaseSpec(tick_hz=float(rate)) if known and rate else TimebaseSpec()


def read_metadata(path: Path) -> dict[str, Any]:
    """Return the JSON of an episode; raises FormatError, MissingFileError."""
    try:
        with open_file(path) as file:
            text = file.read(_MOST_METADATA + 1)
        if len(text) > _MOST_METADATA:
            raise LimitError(f"{path}: expected at most {_MOST_METADATA} bytes")
        about = json.loads(text)
    except FileNotFoundError:
        raise MissingFileError.at(path, f"{path}: expected the metadata of an episode, found no file") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{path}: expected JSON: {error}") from None
    if not isinstance(about, dict):
        raise FormatError(f"{path}: expected a JSON object, found {type(about).__name__}")
    return about


def describe_task(about: Mapping[str, Any], texts: Mapping[str, str], found: Path) -> dict[str, Any]:
    """Return the metadata of an episode; texts: those of its first timestep."""
    metadata = {name: about[name] for name in _KEPT if name in about}
    language = about.get("language")
    name = texts.get("language_task") or (language.get("task") if isinstance(language, dict) else "")
    name = name if isinstance(name, str) and name else found.parent.name
    prompt = texts.get("language_prompt")
    return metadata | {"task": prompt if isinstance(prompt, str) and prompt else name, "task_name": name}
