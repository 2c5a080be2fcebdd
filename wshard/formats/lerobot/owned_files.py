"""The files that a LeRobot data set consists of: those of its metadata, and those that its paths and features name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from wshard.errors import FormatError
from wshard.formats.lerobot.dataset_info import DEFAULT_PATHS, INFO, read_json
from wshard.formats.lerobot.layout_v3 import STATS_V3
from wshard.formats.lerobot.layout_v21 import STATS_V2
from wshard.formats.lerobot.read_meta import EPISODES_V2, EPISODES_V3, ORIGINS, TASKS_V2, TASKS_V3

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wshard.files.place import Place

_META: Final = (INFO, EPISODES_V2, TASKS_V2, TASKS_V3, STATS_V2, STATS_V3, ORIGINS)
_EPISODES: Final = f"{EPISODES_V3}/chunk-{{chunk_index:03d}}/file-{{file_index:03d}}.parquet"
_IMAGES: Final = "images/{video_key}/episode_{episode_index:06d}/frame_{frame_index:06d}.png"
_FIELD: Final = re.compile(r"\{(\w+)[^}]*\}")


def list_owned(folder: Place) -> list[str]:
    """Return the names of the files of a data set below its folder, none of a folder without meta/info.json."""
    if not (folder / INFO).is_file():
        return []
    try:
        info: dict[str, Any] = read_json(folder / INFO)
    except FormatError:  # it can be replaced nevertheless
        info = {}
    features = info.get("features")
    stated = [info[name] for name in ("data_path", "video_path") if isinstance(info.get(name), str)]
    templates = {_EPISODES, _IMAGES, *DEFAULT_PATHS[2], *DEFAULT_PATHS[3], *stated}
    patterns = [_pattern(template, features if isinstance(features, dict) else ()) for template in templates]
    names = [name for name in _META if (folder / name).exists()]
    for top in ("meta", "data", "videos", "images"):
        found = (file.relative_to(folder) for file in (folder / top).walk()) if (folder / top).is_dir() else ()
        names += [name for name in found if name not in names and any(one.fullmatch(name) for one in patterns)]
    return names


def _pattern(template: str, features: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of the names that a template gives; raises no error for an odd template."""
    keys = "|".join(map(re.escape, features)) or r"[^/]+"
    parts = _FIELD.split(template)
    fields = [f"(?:{keys})" if name == "video_key" else r"\d+" for name in parts[1::2]]
    return re.compile("".join(map("".join, zip(map(re.escape, parts[::2]), [*fields, ""], strict=True))))
