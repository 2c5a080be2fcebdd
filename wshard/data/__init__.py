"""Training data: clips, goals, replay, scalers and writers, over episodes of any format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wshard.lazy import importer

if TYPE_CHECKING:
    from wshard.data.cache import ensure_dir_exists, get_cache_dir
    from wshard.data.compose import ConcatDataset, MergeDataset
    from wshard.data.dataset import ClipBatch, Dataset, collate
    from wshard.data.goals import GoalDataset
    from wshard.data.loader import ClipLoader
    from wshard.data.readers import (
        FolderDataset,
        HDF5Dataset,
        ImageDataset,
        LanceDataset,
        VideoDataset,
    )
    from wshard.data.replay import ReplayBuffer, classic_filter
    from wshard.data.sampler import ClipSampler
    from wshard.data.scalers import (
        IdentityScaler,
        PercentileScaler,
        ZScoreScaler,
        column_normalizer,
        get_scaler,
    )
    from wshard.data.source_dataset import SourceDataset
    from wshard.data.spans import SpanDataset, select_episodes, split_episodes
    from wshard.data.windows import WindowDataset

__all__ = [
    "ClipBatch",
    "ClipLoader",
    "ClipSampler",
    "ConcatDataset",
    "Dataset",
    "FolderDataset",
    "GoalDataset",
    "HDF5Dataset",
    "IdentityScaler",
    "ImageDataset",
    "LanceDataset",
    "MergeDataset",
    "PercentileScaler",
    "ReplayBuffer",
    "SourceDataset",
    "SpanDataset",
    "VideoDataset",
    "WindowDataset",
    "ZScoreScaler",
    "classic_filter",
    "collate",
    "column_normalizer",
    "ensure_dir_exists",
    "get_cache_dir",
    "get_scaler",
    "select_episodes",
    "split_episodes",
]

__getattr__ = importer(
    "wshard.data",
    {
        "ClipBatch": "wshard.data.dataset",
        "ClipLoader": "wshard.data.loader",
        "ClipSampler": "wshard.data.sampler",
        "ConcatDataset": "wshard.data.compose",
        "Dataset": "wshard.data.dataset",
        "FolderDataset": "wshard.data.readers",
        "GoalDataset": "wshard.data.goals",
        "HDF5Dataset": "wshard.data.readers",
        "IdentityScaler": "wshard.data.scalers",
        "ImageDataset": "wshard.data.readers",
        "LanceDataset": "wshard.data.readers",
        "MergeDataset": "wshard.data.compose",
        "PercentileScaler": "wshard.data.scalers",
        "ReplayBuffer": "wshard.data.replay",
        "SourceDataset": "wshard.data.source_dataset",
        "SpanDataset": "wshard.data.spans",
        "VideoDataset": "wshard.data.readers",
        "WindowDataset": "wshard.data.windows",
        "ZScoreScaler": "wshard.data.scalers",
        "classic_filter": "wshard.data.replay",
        "collate": "wshard.data.dataset",
        "column_normalizer": "wshard.data.scalers",
        "ensure_dir_exists": "wshard.data.cache",
        "get_cache_dir": "wshard.data.cache",
        "get_scaler": "wshard.data.scalers",
        "select_episodes": "wshard.data.spans",
        "split_episodes": "wshard.data.spans",
    },
)
