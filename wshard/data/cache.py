"""Where data sets of this user lie."""

from __future__ import annotations

import os
from pathlib import Path


def get_cache_dir(override_root: str | os.PathLike[str] | None = None, sub_folder: str | None = None) -> Path:
    """Return the folder of the cache: the given one, else $STABLEWM_HOME, else ~/.stable_worldmodel."""
    root = override_root or os.environ.get("STABLEWM_HOME") or Path.home() / ".stable_worldmodel"
    return Path(root, sub_folder) if sub_folder else Path(root)


def ensure_dir_exists(path: str | os.PathLike[str]) -> Path:
    """Make a folder, and those above it, if it is not there; returns it."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def dataset_folder(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of data sets in the cache; it need not be there."""
    return get_cache_dir(cache_dir, "datasets")
