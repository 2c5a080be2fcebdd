"""Where the user's data sets are stored, and how those of the Hugging Face Hub get there."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path
from typing import Any, Final

from wshard.core.plugins import import_library
from wshard.errors import SourceNotFoundError

_REPOSITORY: Final = re.compile(r"[\w.-]+/[\w.-]+")
_SUFFIXES: Final = (".lance", ".h5", ".hdf5")
_TYPE: Final = "dataset"


def get_cache_dir(override_root: str | os.PathLike[str] | None = None, sub_folder: str | None = None) -> Path:
    """Return the folder of the cache, created if missing: the given, else $STABLEWM_HOME, else ~/.stable_worldmodel."""
    return ensure_dir_exists(_cache_folder(override_root, sub_folder))


def _cache_folder(override_root: str | os.PathLike[str] | None, sub_folder: str | None) -> Path:
    root = override_root or os.environ.get("STABLEWM_HOME") or Path.home() / ".stable_worldmodel"
    return Path(root, sub_folder) if sub_folder else Path(root)


def ensure_dir_exists(path: str | os.PathLike[str]) -> Path:
    """Create a folder and its parents, if necessary; returns it."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def dataset_folder(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of data sets in the cache, which need not exist."""
    return _cache_folder(cache_dir, "datasets")


def find_repository(repo_id: str, cache_dir: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the local folder of a data set of the Hugging Face Hub; None if there is none on this machine.

    Searches this cache, LeRobot's and that of the Hub's client.
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


def may_be_repository(name: str) -> bool:
    """Return whether a name that is no path may be that of a repository: USER/NAME, where USER is no folder here."""
    return (
        _REPOSITORY.fullmatch(name) is not None
        and name[0] not in ".~"
        and not name.endswith(_SUFFIXES)
        and not Path(name).parent.exists()
    )


def download_repository(repo_id: str, cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Download a data set of the Hugging Face Hub to this cache; returns its folder.

    If the repository has Lance tables or HDF5 files at its top, the first table, else the first file, and otherwise
    everything. An interrupted download is continued by the next one. The Hub's client reads $HF_TOKEN and $HF_ENDPOINT;
    with $HF_HUB_OFFLINE nothing is downloaded. Raises SourceNotFoundError, MissingExtraError.
    """
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        raise SourceNotFoundError(f"{repo_id}: expected it in a cache of this machine, as HF_HUB_OFFLINE is set")
    client: Any = import_library("huggingface_hub", "hub").HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None)
    folder = dataset_folder(cache_dir) / repo_id.replace("/", "--")
    partial = folder.with_name(f"{folder.name}.part")
    try:
        wanted = _choose_files(client.list_repo_files(repo_id, repo_type=_TYPE))
        client.snapshot_download(repo_id, repo_type=_TYPE, local_dir=partial, allow_patterns=wanted)
    # Depending on its version, the errors are those of requests, httpx or its own, without a common base class.
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise SourceNotFoundError(f"{repo_id}: expected a data set of the Hugging Face Hub: {reason}") from error
    shutil.rmtree(partial / ".cache", ignore_errors=True)  # what the client notes about files
    partial.replace(folder)
    return folder


def _choose_files(names: list[str]) -> list[str] | None:
    """Return the pattern of the files to download, None for all."""
    tops = sorted({name.split("/")[0] for name in names})
    tables = [f"{top}/*" for top in tops if top.endswith(".lance")]
    return [*tables, *(top for top in tops if top.endswith(_SUFFIXES[1:]))][:1] or None
