"""The files beside the shards: manifest.jsonl, stats.json, preprocessing_config.yaml, processing_metadata.json."""

from __future__ import annotations

import json
import platform
import re
import socket
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wshard.training.webdataset.options import ShardifyOptions

MANIFEST: Final = "manifest.jsonl"
STATISTICS: Final = "stats.json"
CONFIG: Final = "preprocessing_config.yaml"
PROCESSING: Final = "processing_metadata.json"

_UNQUOTED: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_YAML_KEYWORDS: Final = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))
_NOT_IN_CONFIG: Final = ("jpeg_quality", "use_depth", "stats_stride", "stats_reservoir_size", "camera_name_map")


def is_own_file(name: str) -> bool:
    """Return True for the name of a file that an export writes into its folder."""
    config_names = (MANIFEST, STATISTICS, CONFIG, PROCESSING)
    return name in config_names or re.fullmatch(r"shard_\d{6,}\.tar", name) is not None


def write_config(folder: Path, options: ShardifyOptions, cameras: Sequence[str], output_dir: str) -> None:
    """Write preprocessing_config.yaml."""
    config = {name: value for name, value in options.config(output_dir).items() if name not in _NOT_IN_CONFIG}
    config |= {
        "camera_names": list(cameras),
        "compute_statistics": True,
        "image_format": "jpg",
        "validation_episodes_path": None,
    }
    text = "".join(f"{name}:{_yaml(config[name])}\n" for name in sorted(config))
    (folder / CONFIG).write_text(text, encoding="utf-8")


def write_manifest(folder: Path, counts: Sequence[int]) -> None:
    """Write manifest.jsonl: a line for each shard."""
    rows = [{"shard": f"shard_{number:06d}", "num_sequences": count} for number, count in enumerate(counts)]
    (folder / MANIFEST).write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def write_statistics(folder: Path, statistics: Mapping[str, Any]) -> None:
    """Write stats.json."""
    (folder / STATISTICS).write_text(json.dumps(statistics))


def write_processing(
    folder: Path, config: Mapping[str, Any], episodes: Sequence[str], processing: Mapping[str, Any], additions: Any
) -> None:
    """Write processing_metadata.json; additions: values that the original does not write."""
    metadata = {
        "metadata_version": "1.0",
        "created_at": datetime.now().isoformat(timespec="seconds"),  # noqa: DTZ005  (local time, as the original)
        "source_data": {"episode_dirs": list(episodes), "num_episodes": len(episodes)},
        "config": dict(config),
        "environment": {
            "python_version": sys.version,
            "platform": platform.platform(),
            "hostname": socket.gethostname(),
        },
        "processing": dict(processing),
        "wshard": additions,
    }
    (folder / PROCESSING).write_text(json.dumps(metadata, indent=2))


def _yaml(value: Any) -> str:
    if isinstance(value, list):
        return "".join(f"\n- {_scalar(item)}" for item in value) if value else " []"
    return f" {_scalar(value)}"


def _scalar(value: Any) -> str:
    """Return a value as YAML: JSON is valid YAML, and plain words need no quotes."""
    is_plain = isinstance(value, str) and _UNQUOTED.fullmatch(value) and value.lower() not in _YAML_KEYWORDS
    return str(value) if is_plain else json.dumps(value, ensure_ascii=False)
