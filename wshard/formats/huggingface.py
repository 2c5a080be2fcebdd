"""Episodes in data set repositories of the Hugging Face Hub, and as rows of its `datasets` library.

Files of a split lie in SPLIT/episodes/ID.wshard, SPLIT/metadata.json and README.md. The extra "hub" brings the client,
imported when an adapter is made.
"""

from __future__ import annotations

import json
import os
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Protocol

from wshard.core.chunks.manifest import safe_name
from wshard.core.container.codec import CompressionType
from wshard.core.episode.file import load_wshard, save_wshard
from wshard.core.keywords import check_options
from wshard.core.plugins import import_library
from wshard.errors import EpisodeError, FormatError, HubError, MissingExtraError
from wshard.formats.table_rows import columns_of, episodes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from wshard.core.container.codec_plan import Compression
    from wshard.core.types import Episode

    Progress = Callable[[int, int], None]

HF_AVAILABLE: Final = find_spec("huggingface_hub") is not None
"""True if the client can be imported; finding out imports nothing."""

_REPO_TYPE: Final = "dataset"
_SUFFIX: Final = ".wshard"
_README: Final = "README.md"
_URL: Final = "https://huggingface.co/datasets"


class HubClient(Protocol):
    """What the adapter uses of huggingface_hub.HfApi."""

    def create_repo(self, repo_id: str, *, repo_type: str, private: bool, exist_ok: bool) -> object:
        """Create a repository if it does not exist."""

    def upload_folder(self, *, repo_id: str, repo_type: str, folder_path: str, commit_message: str) -> object:
        """Commit all files of a folder under their relative paths; other files of the repository stay."""

    def list_repo_files(self, repo_id: str, *, repo_type: str) -> list[str]:
        """Return the paths of all files."""

    def hf_hub_download(self, repo_id: str, filename: str, *, repo_type: str, cache_dir: str | None) -> str:
        """Download a file, unless the cache has it, and return its local path."""


class HuggingFaceAdapter:
    """Upload episodes to, and download them from, repositories of the Hub.

    token: defaults to the variable HF_TOKEN, else to the client's own log-in. cache_dir: defaults to the client's.
    client: defaults to huggingface_hub.HfApi. Raises MissingExtraError without it; every failure of the Hub is a
    HubError (an OSError).
    """

    def __init__(
        self, token: str | None = None, cache_dir: str | None = None, *, client: HubClient | None = None
    ) -> None:
        self.token = token or os.environ.get("HF_TOKEN")
        self.cache_dir = cache_dir
        self.api: HubClient = client or _client(self.token)

    def upload_episodes(  # noqa: PLR0913, PLR0917  (the signature of the format's reference package)
        self,
        episodes: Sequence[Episode],
        repo_id: str,
        env_id: str | None = None,
        split: str = "train",
        compression: Compression = CompressionType.ZSTD,
        private: bool = False,  # noqa: FBT001, FBT002  (as above)
        commit_message: str | None = None,
        batch_size: int = 100,
        progress_callback: Progress | None = None,
    ) -> str:
        """Upload episodes in commits of batch_size files and return the repository's URL, creating the repository.

        The last commit has metadata.json of these episodes and, where the repository has none, a README.md. Running it
        again after an interruption uploads the same files. progress_callback(done, total) is called per episode.
        Raises EpisodeError for no episodes or two of one id.
        """
        paths = [_path(split, ep.id) for ep in episodes]
        if not episodes or len(set(paths)) != len(paths) or batch_size < 1:
            duplicates = sorted(ep.id for ep, path in zip(episodes, paths, strict=True) if paths.count(path) > 1)
            raise EpisodeError(
                f"upload: expected episodes of different ids in batches of at least 1, found {len(episodes)}, "
                f"of one id: {duplicates[:5]}, batch_size {batch_size}"
            )
        message = commit_message or f"Upload {len(episodes)} episodes ({split})"
        self._call("create_repo", repo_id, repo_type=_REPO_TYPE, private=private, exist_ok=True)
        for start in range(0, len(episodes), batch_size):
            with tempfile.TemporaryDirectory() as folder:
                for number, ep in enumerate(episodes[start : start + batch_size], start):
                    _write(ep, Path(folder, paths[number]), compression)
                    if progress_callback is not None:
                        progress_callback(number + 1, len(episodes))
                if start + batch_size >= len(episodes):
                    self._describe(Path(folder), repo_id, split, _summary(episodes, env_id, split, compression))
                self._commit(repo_id, folder, message)
        return f"{_URL}/{repo_id}"

    def _describe(self, folder: Path, repo_id: str, split: str, summary: Mapping[str, Any]) -> None:
        metadata_path = Path(folder, split, "metadata.json")
        metadata_path.write_text(json.dumps(summary, indent=2), encoding="utf-8")
        if _README not in self._files(repo_id):
            (folder / _README).write_text(_readme(repo_id, summary), encoding="utf-8")

    def upload_episode(
        self,
        episode: Episode,
        repo_id: str,
        split: str = "train",
        compression: Compression = CompressionType.ZSTD,
        commit_message: str | None = None,
    ) -> str:
        """Upload one episode to an existing repository and return its URL."""
        path = _path(split, episode.id)
        with tempfile.TemporaryDirectory() as folder:
            _write(episode, Path(folder, path), compression)
            self._commit(repo_id, folder, commit_message or f"Upload episode {episode.id}")
        return f"{_URL}/{repo_id}/blob/main/{path}"

    def download_episodes(
        self,
        repo_id: str,
        split: str = "train",
        episode_ids: Sequence[str] | None = None,
        max_episodes: int | None = None,
        progress_callback: Progress | None = None,
    ) -> list[Episode]:
        """Download the episodes of a split, or those of the ids, at most max_episodes; no other file is fetched.

        Raises HubError if the split or an id does not exist.
        """
        names = self.list_episodes(repo_id, split)
        if not names:
            raise HubError(f"{repo_id}: expected episodes below {split}/episodes, found none")
        requested = names if not episode_ids else [safe_name(id_) for id_ in episode_ids]
        missing = sorted(set(requested) - set(names))
        if missing:
            raise HubError(f"{repo_id}: no episode {missing[0]!r} in split {split!r}, it has {len(names)} others")
        selected = requested[:max_episodes] if max_episodes else requested
        episodes = []
        for number, name in enumerate(selected, 1):
            episodes.append(load_wshard(self._download(repo_id, _path(split, name))))
            if progress_callback is not None:
                progress_callback(number, len(selected))
        return episodes

    def download_episode(self, repo_id: str, episode_id: str, split: str = "train") -> Episode:
        """Download one episode; raises HubError if it does not exist."""
        return load_wshard(self._download(repo_id, _path(split, episode_id)))

    def list_episodes(self, repo_id: str, split: str = "train") -> list[str]:
        """Return the sorted ids of a split's episodes; for ids that are not valid file names, their plain form."""
        folder = PurePosixPath(_split(split), "episodes")
        paths = [PurePosixPath(file) for file in self._files(repo_id)]
        return sorted(path.stem for path in paths if path.parent == folder and path.suffix == _SUFFIX)

    def get_metadata(self, repo_id: str, split: str = "train") -> dict[str, Any]:
        """Return the metadata.json of a split; raises HubError if it is missing, FormatError if it is not an object."""
        path = Path(self._download(repo_id, f"{_split(split)}/metadata.json"))
        try:
            value = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{path}: expected JSON: {error}") from error
        if not isinstance(value, dict):
            raise FormatError(f"{path}: expected a JSON object, found {type(value).__name__}")
        return value

    def to_hf_dataset(self, episodes: Sequence[Episode], flatten: bool = True) -> Any:  # noqa: FBT001, FBT002  (as above)
        """Return a datasets.Dataset with a row per timestep, or per episode; raises MissingExtraError without it.

        Columns: episode_id, timestep, obs_NAME, action_NAME, reward, terminated, truncated; per episode: episode_id,
        env_id, length, obs_NAME, action_NAME, rewards, terminations, truncations.
        """
        columns = columns_of(episodes, flat=flatten)
        try:
            return import_module("datasets").Dataset.from_dict(columns)
        except ImportError as error:
            raise MissingExtraError(f"expected to import datasets: {error}: pip install datasets") from error

    def from_hf_dataset(
        self,
        dataset: Iterable[Mapping[str, Any]],
        episode_column: str = "episode_id",
        flatten: bool = True,  # noqa: FBT001, FBT002  (as above)
    ) -> list[Episode]:
        """Return the episodes of a data set of to_hf_dataset's columns, or of any rows that have them."""
        return episodes_of(dataset, episode_column, flat=flatten)

    # ---- the client ------------------------------------------------------------------------------------------------

    def _files(self, repo_id: str) -> list[str]:
        return list(self._call("list_repo_files", repo_id, repo_type=_REPO_TYPE))

    def _commit(self, repo_id: str, folder: str, message: str) -> None:
        self._call("upload_folder", repo_id=repo_id, repo_type=_REPO_TYPE, folder_path=folder, commit_message=message)

    def _download(self, repo_id: str, path: str) -> str:
        return str(self._call("hf_hub_download", repo_id, path, repo_type=_REPO_TYPE, cache_dir=self.cache_dir))

    def _call(self, method: str, *args: str, **options: Any) -> Any:
        """Call a method of the client and translate its errors; the only place that calls the client."""
        try:
            return getattr(self.api, method)(*args, **options)
        # Depending on its version, the errors are those of requests, httpx or its own, without a common base class.
        except Exception as error:
            subject = " ".join([*args, str(options.get("repo_id", ""))]).strip()
            raise HubError(f"Hugging Face Hub: {method} {subject}: {error}") from error


def upload_to_hub(episodes: Sequence[Episode], repo_id: str, token: str | None = None, **kwargs: Any) -> str:
    """Upload episodes; kwargs are those of HuggingFaceAdapter.upload_episodes. Returns the repository's URL."""
    check_options(upload_to_hub, kwargs, HuggingFaceAdapter.upload_episodes)
    return HuggingFaceAdapter(token).upload_episodes(episodes, repo_id, **kwargs)


def download_from_hub(repo_id: str, token: str | None = None, **kwargs: Any) -> list[Episode]:
    """Download episodes; kwargs are those of HuggingFaceAdapter.download_episodes."""
    check_options(download_from_hub, kwargs, HuggingFaceAdapter.download_episodes)
    return HuggingFaceAdapter(token).download_episodes(repo_id, **kwargs)


def _client(token: str | None) -> HubClient:
    client: HubClient = import_library("huggingface_hub", "hub").HfApi(token=token)
    return client


def _split(split: str) -> str:
    if safe_name(split) != split:
        raise HubError(f"split: expected a plain name such as 'train', found {split!r}")
    return split


def _path(split: str, episode_id: str) -> str:
    return f"{_split(split)}/episodes/{safe_name(episode_id)}{_SUFFIX}"


def _write(ep: Episode, path: Path, compression: Compression) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    save_wshard(ep, path, compression)


def _summary(episodes: Sequence[Episode], env_id: str | None, split: str, compression: Compression) -> dict[str, Any]:
    first = episodes[0]
    return {
        "format": "wshard",
        "format_version": "0.1",
        "env_id": env_id or first.env_id or "unknown",
        "split": split,
        "num_episodes": len(episodes),
        "compression": str(compression),
        "total_timesteps": sum(ep.length for ep in episodes),
        "observation_keys": list(first.observations),
        "action_keys": list(first.actions),
        "has_rewards": first.rewards is not None,
    }


def _readme(repo_id: str, summary: Mapping[str, Any]) -> str:
    return f"""---
tags:
- wshard
- reinforcement-learning
---

# {summary["env_id"]}

{summary["num_episodes"]} episodes, {summary["total_timesteps"]} timesteps, in WShard files.

```python
from wshard import download_from_hub

episodes = download_from_hub({repo_id!r}, split={summary["split"]!r})
```
"""
