"""Training data: clips, goals, replay, scalers and writers, over episodes of any format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wshard.lazy import importer

if TYPE_CHECKING:
    from wshard.container.draft import WRITE_MODES
    from wshard.data.batch import ClipBatch, collate
    from wshard.data.cache import ensure_dir_exists, get_cache_dir
    from wshard.data.conversion import convert, merge
    from wshard.data.dataset import Dataset
    from wshard.data.derived.compose import ConcatDataset, MergeDataset
    from wshard.data.derived.goals import GoalDataset
    from wshard.data.derived.spans import SpanDataset, select_episodes, split_episodes
    from wshard.data.derived.windows import WindowDataset
    from wshard.data.lerobot import LeRobotAdapter
    from wshard.data.load import load_dataset
    from wshard.data.loader import ClipLoader
    from wshard.data.readers import (
        FolderDataset,
        HDF5Dataset,
        ImageDataset,
        LanceDataset,
        LanceVideoDataset,
        VideoDataset,
    )
    from wshard.data.registry import (
        FORMATS,
        Writer,
        detect_format,
        get_format,
        list_formats,
        register_format,
    )
    from wshard.data.registry import (
        DatasetFormat as Format,
    )
    from wshard.data.replay import ReplayBuffer, classic_filter
    from wshard.data.sampler import ClipSampler
    from wshard.data.scalers import (
        IdentityScaler,
        PercentileScaler,
        WrapTorchTransform,
        ZScoreScaler,
        column_normalizer,
        get_scaler,
    )
    from wshard.data.source_dataset import SourceDataset
    from wshard.data.writers import (
        EPISODE_DATA_KEY,
        FolderWriter,
        HDF5Writer,
        LanceVideoWriter,
        LanceWriter,
        VideoWriter,
        split_episode_data,
        validate_write_mode,
    )

__all__ = [
    "EPISODE_DATA_KEY",
    "FORMATS",
    "WRITE_MODES",
    "ClipBatch",
    "ClipLoader",
    "ClipSampler",
    "ConcatDataset",
    "Dataset",
    "FolderDataset",
    "FolderWriter",
    "Format",
    "GoalDataset",
    "HDF5Dataset",
    "HDF5Writer",
    "IdentityScaler",
    "ImageDataset",
    "LanceDataset",
    "LanceVideoDataset",
    "LanceVideoWriter",
    "LanceWriter",
    "LeRobotAdapter",
    "MergeDataset",
    "PercentileScaler",
    "ReplayBuffer",
    "SourceDataset",
    "SpanDataset",
    "VideoDataset",
    "VideoWriter",
    "WindowDataset",
    "WrapTorchTransform",
    "Writer",
    "ZScoreScaler",
    "classic_filter",
    "collate",
    "column_normalizer",
    "convert",
    "detect_format",
    "ensure_dir_exists",
    "get_cache_dir",
    "get_format",
    "get_scaler",
    "list_formats",
    "load_dataset",
    "merge",
    "register_format",
    "select_episodes",
    "split_episode_data",
    "split_episodes",
    "validate_write_mode",
]

__getattr__ = importer(
    "wshard.data",
    {
        "ClipBatch": "wshard.data.batch",
        "ClipLoader": "wshard.data.loader",
        "ClipSampler": "wshard.data.sampler",
        "ConcatDataset": "wshard.data.derived.compose",
        "Dataset": "wshard.data.dataset",
        "EPISODE_DATA_KEY": "wshard.data.writers",
        "FORMATS": "wshard.data.registry",
        "FolderDataset": "wshard.data.readers",
        "FolderWriter": "wshard.data.writers",
        "Format": "wshard.data.registry:DatasetFormat",
        "GoalDataset": "wshard.data.derived.goals",
        "HDF5Dataset": "wshard.data.readers",
        "HDF5Writer": "wshard.data.writers",
        "IdentityScaler": "wshard.data.scalers",
        "ImageDataset": "wshard.data.readers",
        "LanceDataset": "wshard.data.readers",
        "LanceVideoDataset": "wshard.data.readers",
        "LanceVideoWriter": "wshard.data.writers",
        "LanceWriter": "wshard.data.writers",
        "LeRobotAdapter": "wshard.data.lerobot",
        "MergeDataset": "wshard.data.derived.compose",
        "PercentileScaler": "wshard.data.scalers",
        "ReplayBuffer": "wshard.data.replay",
        "SourceDataset": "wshard.data.source_dataset",
        "SpanDataset": "wshard.data.derived.spans",
        "VideoDataset": "wshard.data.readers",
        "VideoWriter": "wshard.data.writers",
        "WRITE_MODES": "wshard.container.draft",
        "WindowDataset": "wshard.data.derived.windows",
        "WrapTorchTransform": "wshard.data.scalers",
        "Writer": "wshard.data.registry",
        "ZScoreScaler": "wshard.data.scalers",
        "classic_filter": "wshard.data.replay",
        "collate": "wshard.data.batch",
        "column_normalizer": "wshard.data.scalers",
        "convert": "wshard.data.conversion",
        "detect_format": "wshard.data.registry",
        "ensure_dir_exists": "wshard.data.cache",
        "get_cache_dir": "wshard.data.cache",
        "get_format": "wshard.data.registry",
        "get_scaler": "wshard.data.scalers",
        "list_formats": "wshard.data.registry",
        "load_dataset": "wshard.data.load",
        "merge": "wshard.data.conversion",
        "register_format": "wshard.data.registry",
        "select_episodes": "wshard.data.derived.spans",
        "split_episode_data": "wshard.data.writers",
        "split_episodes": "wshard.data.derived.spans",
        "validate_write_mode": "wshard.data.writers",
    },
)


def __dir__() -> list[str]:
    """Return the names above, also those that were not used yet."""
    return sorted(__all__)
