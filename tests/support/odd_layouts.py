"""Files of odd layouts, made by chance: names, containers, where episodes are, order of axes, padding, one row more."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.random import Generator

OBSERVATIONS = ("obs", "state", "observations", "qpos", "joint_pos", "x", "ee_pose", "features", "Robot State")
ACTIONS = ("action", "actions", "act", "ctrl", "cmd", "u", "control_command", "a")
REWARDS = ("reward", "rew", "r", "rewards")
DONES = ("done", "dones", "is_last", "episode_end")
EPISODES = ("episode", "episode_id", "traj", "run", "demo_id", "ep_idx", "trial")
GROUPS = ("demo_", "episode", "run-", "traj_", "trial", "rec_", "", "segment_")
LENGTHS = ("lengths", "ep_len", "seq_len", "episode_lengths", "n_steps")
STOPS = ("ends", "episode_ends", "indices", "offsets", "stops")
TIMES = ("t", "time", "timestamp", "stamp")
UNITS = (("", 1.0), ("", 1e9), ("", 1e6), ("_ms", 1e3), ("", 1e3))
FLAT = (
    "done", "terminal and timeout", "first", "column", "mixed column", "lengths", "stops", "splits", "fence", "starts",
    "inclusive", "bounds", "clock", "counter", "nothing", "unnamed lengths",
)  # fmt: skip
IN_COLUMNS = ("done", "terminal and timeout", "first", "column", "mixed column", "clock", "counter", "nothing")


@dataclass
class OddLayout:
    """What was written: the arrays of each episode by name, and how (in words)."""

    path: Path
    how: str
    episodes: list[dict[str, Any]] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)  # of each episode, where those of all are together
    rate: float = 0.0
    names: dict[str, str] = field(default_factory=dict)  # {"action": ..., "observation": ..., "reward": ...}


def write_odd_layout(folder: Path, seed: int) -> OddLayout:
    """Write a file by chance."""
    rng = np.random.default_rng(seed)
    container = str(rng.choice(["npz", "h5", "groups", "csv", "parquet", "jsonl", "batch", "batch", "npz", "h5"]))
    names = {
        "observation": str(rng.choice(OBSERVATIONS)),
        "action": str(rng.choice(ACTIONS)),
        "reward": str(rng.choice(REWARDS)),
        "second": str(rng.choice(["force", "z", "gripper", "y"])),
    }
    count = int(rng.integers(1, 6))
    lengths = [int(rng.integers(2, 10)) for _ in range(count)]
    if rng.random() < 0.3:
        lengths = [lengths[0]] * count
    odd = OddLayout(folder, "", names=names)
    more = int(rng.random() < 0.3 and container in ("npz", "h5", "groups", "batch"))
    widths = {name: int(rng.integers(1, 6)) for name in ("observation", "action", "second")}
    for length in lengths:
        episode = {name: rng.normal(size=(length, width)) for name, width in widths.items()}
        episode["observation"] = rng.normal(size=(length + more, widths["observation"]))
        episode["reward"] = rng.normal(size=length)
        odd.episodes.append(episode)
    if rng.random() < 0.4:
        for episode in odd.episodes:
            del episode["reward"]
    writer = {"groups": _write_groups, "batch": _write_batch}.get(container)
    if writer is not None:
        writer(odd, rng)
    elif container in ("csv", "parquet", "jsonl"):
        _write_rows(odd, rng, container)
    else:
        arrays, odd.how = _flat(odd, rng)
        _write_arrays(odd, arrays, container, rng)
    odd.how = f"{container}: {odd.how}, {count} of {lengths}, {more} more"
    return odd


# ---- rows of all episodes -------------------------------------------------------------------------------------------


def _flat(odd: OddLayout, rng: Generator, *, is_table: bool = False) -> tuple[dict[str, Any], str]:
    style = str(rng.choice(IN_COLUMNS if is_table else FLAT))
    lengths = np.array([len(episode["action"]) for episode in odd.episodes])
    more = len(odd.episodes[0]["observation"]) - lengths[0]
    style = "column" if style == "mixed column" and more else style
    joined = {name: np.concatenate([episode[name] for episode in odd.episodes]) for name in odd.episodes[0]}
    stops = np.cumsum(lengths)
    odd.rows = [np.arange(stop - length, stop) for stop, length in zip(stops, lengths, strict=True)]
    joined |= _places(style, lengths, rng)
    if style == "mixed column":
        order = rng.permutation(lengths.sum())
        joined = {name: values[order] for name, values in joined.items()}
        odd.rows = [np.flatnonzero(np.isin(order, rows)) for rows in odd.rows]
        odd.episodes = [{name: joined[name][rows] for name in odd.episodes[0]} for rows in odd.rows]
    if style == "nothing":
        odd.rows = [np.arange(lengths.sum())]
        odd.episodes = [{name: joined[name] for name in odd.episodes[0]}]
        if more:
            odd.episodes[0]["observation"] = joined["observation"] = joined["observation"][: lengths.sum() + 1]
    joined = {odd.names.get(name, name): values for name, values in joined.items()}
    if rng.random() < 0.4 and style not in ("clock", "mixed column"):
        unit, scale = UNITS[int(rng.integers(0, len(UNITS)))]
        begin = float(rng.choice([0, 1.7e9])) if scale >= 1e6 else 0.0
        times = (begin + 0.02 * np.arange(lengths.sum())) * scale
        joined[f"clock{unit}"], odd.rate = times.astype(np.int64) if scale > 1 else times, 50.0
    if is_table:
        return joined, style
    if rng.random() < 0.3:
        joined["mean"] = rng.normal(size=int(rng.integers(1, 5)))
    if rng.random() < 0.3:
        joined["success"] = rng.random(len(lengths)) < 0.5
    return joined, style


def _places(style: str, lengths: Any, rng: Generator) -> dict[str, Any]:
    """Return the arrays that say where episodes are."""
    total, stops = int(lengths.sum()), np.cumsum(lengths)
    rows, starts = np.arange(total), np.append(0, stops[:-1])
    last = np.isin(rows, stops - 1)
    flag_type = rng.choice([np.bool_, np.uint8, np.float32])
    inside = np.concatenate([np.arange(length) for length in lengths])
    if style == "terminal and timeout":
        is_cut = np.isin(rows, stops[rng.random(len(stops)) < 0.5] - 1)
        return {"terminals": (last & ~is_cut).astype(flag_type), "timeouts": is_cut.astype(flag_type)}
    if style == "bounds":
        return {"start": starts, "end": stops}
    by_style = {
        "done": (DONES, last.astype(flag_type)),
        "first": (("is_first", "episode_starts", "reset"), np.isin(rows, starts).astype(flag_type)),
        "column": (EPISODES, np.repeat(rng.permutation(len(lengths)) * 3, lengths)),
        "mixed column": (EPISODES, np.repeat(np.arange(len(lengths)), lengths)),
        "lengths": (LENGTHS, lengths),
        "unnamed lengths": (("info", "b"), lengths),
        "stops": (STOPS, stops),
        "splits": (STOPS, stops[:-1]),
        "fence": (STOPS, np.append(0, stops)),
        "starts": (("starts", "episode_start_index"), starts),
        "inclusive": (STOPS, stops - 1),
        "clock": (TIMES, inside * 0.02),
        "counter": (("step", "frame_index", "k"), inside),
    }
    if style not in by_style:
        return {}
    names, values = by_style[style]
    return {str(rng.choice(names)): values}


def _write_arrays(odd: OddLayout, arrays: dict[str, Any], container: str, rng: Generator) -> None:
    order = [str(name) for name in rng.permutation([*arrays])]
    if container == "npz":
        odd.path /= "odd.npz"
        np.savez(odd.path, **{name: arrays[name] for name in order})
        return
    group = str(rng.choice(["", "data/", "log/all/"]))
    odd.path /= "odd.h5"
    with h5py.File(odd.path, "w", track_order=True) as file:
        for name in order:
            file[f"{group}{name}"] = arrays[name]


def _write_groups(odd: OddLayout, rng: Generator) -> None:
    root, stem = str(rng.choice(["", "data/"])), str(rng.choice(GROUPS))
    first = int(rng.integers(0, 2))
    odd.path /= "odd.h5"
    odd.how = f"groups {root}{stem}N"
    with h5py.File(odd.path, "w") as file:
        for number, episode in enumerate(odd.episodes, first):
            for name, values in episode.items():
                file[f"{root}{stem}{number}/{odd.names[name]}"] = values


def _write_batch(odd: OddLayout, rng: Generator) -> None:
    longest = max(len(episode["action"]) for episode in odd.episodes) + int(rng.integers(0, 2))
    axis, fill = int(rng.integers(0, 2)), float(rng.choice([0, np.nan, 7.5]))
    lengths = np.array([len(episode["action"]) for episode in odd.episodes])
    more = len(odd.episodes[0]["observation"]) - lengths[0]
    arrays = {}
    for name in odd.episodes[0]:
        extra = more if name == "observation" else 0
        shape = (len(lengths), longest + extra, *odd.episodes[0][name].shape[1:])
        batch = np.full(shape, fill)
        for number, episode in enumerate(odd.episodes):
            batch[number, : len(episode[name])] = episode[name]
        arrays[odd.names[name]] = batch if axis == 0 else batch.swapaxes(0, 1)
    style = str(rng.choice(["lengths", "mask", "nothing", "done"]))
    steps = np.arange(longest)
    if style == "lengths":
        arrays[str(rng.choice(LENGTHS))] = lengths
    elif style != "nothing":
        flags = steps < lengths[:, None] if style == "mask" else steps == lengths[:, None] - 1
        arrays["mask" if style == "mask" else "done"] = flags if axis == 0 else flags.T
    odd.path /= "odd.npz"
    odd.how = f"axis {axis}, {style}, filled with {fill}"
    np.savez(odd.path, **arrays)


# ---- tables ---------------------------------------------------------------------------------------------------------


def _write_rows(odd: OddLayout, rng: Generator, container: str) -> None:
    arrays, odd.how = _flat(odd, rng, is_table=True)
    columns: dict[str, Any] = {}
    for name, values in arrays.items():
        wide = values if values.ndim == 2 else values[:, None]
        numbered = values.ndim == 2
        columns |= {f"{name}{f'_{at}' * numbered}": wide[:, at] for at in range(wide.shape[1])}
    order = [str(name) for name in rng.permutation([*columns])]
    odd.path /= f"odd.{container}"
    if container == "jsonl":
        rows = [{name: columns[name][row].item() for name in order} for row in range(len(columns[order[0]]))]
        odd.path.write_text("\n".join(map(json.dumps, rows)))
    else:
        table = pa.table({name: columns[name] for name in order})
        write = pyarrow.csv.write_csv if container == "csv" else pyarrow.parquet.write_table
        write(table, odd.path)
    of_action = [name for name in order if name.startswith(f"{odd.names['action']}_")]
    of_state = [name for name in order if name.startswith((f"{odd.names['observation']}_", f"{odd.names['second']}_"))]
    lanes = {"action": _stacked(columns, of_action), "observation": _stacked(columns, of_state)}
    if "reward" in odd.episodes[0]:
        lanes["reward"] = arrays[odd.names["reward"]]
    odd.episodes = [{name: values[rows] for name, values in lanes.items()} for rows in odd.rows]
    odd.names = {**odd.names, "action": "actions", "observation": "state"}


def _stacked(columns: dict[str, Any], names: list[str]) -> Any:
    return np.stack([columns[name] for name in names], axis=1)
