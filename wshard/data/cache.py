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
    """Create a folder and its parents, if necessary; returns it."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def dataset_folder(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of data sets in the cache, which need not exist."""
    return get_cache_dir(cache_dir, "datasets")


def find_repository(repo_id: str, cache_dir: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the local folder of a data set of the Hugging Face Hub; None if there is none on this machine.

    Searches this cache, LeRobot's and that of the Hub's client; nothing is downloaded.
    """
    user, _, name = repo_id.partition("/")
    if not user or not name or ".." in repo_id.split("/"):
        return None
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    lerobot = Path(os.environ.get("HF_LEROBOT_HOME") or home / "lerobot")
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub") / f"datasets--{repo_id.replace('/', '--')}"
    candidates = [dataset_folder(cache_dir) / repo_id.replace("/", "--"), lerobot / repo_id]
    with contextlib.suppress(OSError):
        candidates.append(hub / "snapshots" / (hub / "refs" / "main").read_text().strip())
    return next((folder for folder in candidates if folder.is_dir() and any(folder.iterdir())), None)
