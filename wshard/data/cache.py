"""Where the user's data sets are stored."""

from __future__ import annotations

import contextlib
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


def find_repository(repo_id: str, cache_dir: str | os.PathLike[str] | None = None) -> Path | None:
    """Return where a data set of the Hugging Face Hub is on this machine; None if it is not here.

    It is looked for where this cache, LeRobot and the Hub's own client put it; nothing is downloaded.
    """
    user, _, name = repo_id.partition("/")
    if not user or not name or ".." in repo_id.split("/"):
        return None
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    lerobot = Path(os.environ.get("HF_LEROBOT_HOME") or home / "lerobot")
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub") / f"datasets--{repo_id.replace('/', '--')}"
    places = [dataset_folder(cache_dir) / repo_id.replace("/", "--"), lerobot / repo_id]
    with contextlib.suppress(OSError):
        places.append(hub / "snapshots" / (hub / "refs" / "main").read_text().strip())
    return next((place for place in places if place.is_dir() and any(place.iterdir())), None)
