"""Samples of WebDataset tars, read by tarfile alone."""

from __future__ import annotations

import io
import json
import tarfile
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path


def read_samples(folder: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the samples of a folder of shards by episode and anchor: their members by name, in order.

    Arrays and JSON are parsed; images are bytes. "key": the part of the names that all members share.
    """
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for path in sorted(folder.glob("*.tar")):
        for members in _groups(path):
            about = members["metadata.json"]
            found[about["episode_id"], about["anchor_timestep"]] = members
    return found


def _groups(path: Path) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = []
    with tarfile.open(path) as tar:
        for member in tar:
            key, _, name = member.name.partition(".")
            if not groups or groups[-1]["key"] != key:
                groups.append({"key": key})
            file = tar.extractfile(member)
            data = b"" if file is None else file.read()
            groups[-1][name] = _parse(name, data)
    return groups


def _parse(name: str, data: bytes) -> Any:
    if name.endswith(".json"):
        return json.loads(data)
    if name.endswith(".npz"):
        with np.load(io.BytesIO(data)) as arrays:
            return {key: arrays[key] for key in arrays}
    return data
