"""A LeRobot v3.0 location of any size, made from a small one: its rows again and again, moved a little each time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 200
PER_FILE = 1000


def make_set(source: Path, target: Path, episodes: int, steps: int = STEPS) -> int:
    """Write a data set of `episodes` episodes, without cameras; returns the number of rows."""
    info = json.loads((source / "meta/info.json").read_text())
    info["features"] = {name: row for name, row in info["features"].items() if row["dtype"] not in {"image", "video"}}
    info |= {"total_episodes": episodes, "total_frames": episodes * steps, "splits": {"train": f"0:{episodes}"}}
    base = pq.read_table(source / "data/chunk-000/file-000.parquet")
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for first in range(0, episodes, PER_FILE):
        path = target / info["data_path"].format(chunk_index=0, file_index=first // PER_FILE)
        path.parent.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(path, base.schema, version="2.6", compression="snappy") as writer:
            for number in range(first, min(first + PER_FILE, episodes)):
                writer.write_table(_episode(base, number, steps, rng))
                rows.append(_row(number, steps, first // PER_FILE))
    (target / "meta/episodes/chunk-000").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), target / "meta/episodes/chunk-000/file-000.parquet")
    for name in ("stats.json", "tasks.parquet"):
        (target / "meta" / name).write_bytes((source / "meta" / name).read_bytes())
    (target / "meta/info.json").write_text(json.dumps(info, indent=4))
    return episodes * steps


def _episode(base: pa.Table, number: int, steps: int, rng: np.random.Generator) -> pa.Table:
    table = base.take(np.arange(steps) % len(base))
    counted = {
        "timestamp": np.arange(steps, dtype=np.float32) / np.float32(10),
        "frame_index": np.arange(steps),
        "episode_index": np.full(steps, number),
        "index": np.arange(number * steps, (number + 1) * steps),
        "task_index": np.full(steps, number % 2),
    }
    columns = []
    for name, column, kind in zip(table.column_names, table.columns, table.schema.types, strict=True):
        if name in counted:
            columns.append(pa.array(counted[name], kind))
        elif pa.types.is_fixed_size_list(kind):  # a walk, as of joints
            walk = rng.normal(size=(steps, kind.list_size)).cumsum(axis=0).astype(np.float32)
            columns.append(pa.FixedSizeListArray.from_arrays(pa.array(walk.ravel()), kind.list_size).cast(kind))
        else:
            columns.append(column.combine_chunks())
    return pa.table(columns, schema=base.schema)


def _row(number: int, steps: int, file: int) -> dict[str, Any]:
    return {
        "episode_index": number,
        "tasks": [("reach the block", "push the T")[number % 2]],
        "length": steps,
        "data/chunk_index": 0,
        "data/file_index": file,
        "dataset_from_index": number * steps,
        "dataset_to_index": (number + 1) * steps,
        "meta/episodes/chunk_index": 0,
        "meta/episodes/file_index": 0,
    }
