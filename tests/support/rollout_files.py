"""Files in the shapes that programs of reinforcement learning write, with their names, dtypes and rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True)
class Rollout:
    """An episode: observations [T + 1, 3], actions [T, 2], rewards [T], and how it ended."""

    obs: Any
    actions: Any
    rewards: Any
    terminated: bool = False
    truncated: bool = False

    @property
    def length(self) -> int:
        """The number of timesteps."""
        return len(self.rewards)

    def flags(self, name: str) -> Any:
        """Return flags [T] of an end, "terminated" or "truncated"."""
        return np.arange(self.length) == (self.length - 1 if getattr(self, name) else -1)


def make_rollouts() -> list[Rollout]:
    """Return three episodes: one ends in a terminal state, the others at a limit."""
    rng = np.random.default_rng(0)
    lengths = (4, 7, 5)
    return [
        Rollout(
            rng.normal(size=(length + 1, 3)).astype(np.float32),
            rng.normal(size=(length, 2)).astype(np.float32),
            rng.normal(size=length).astype(np.float32),
            terminated=number == 0,
            truncated=number > 0,
        )
        for number, length in enumerate(lengths)
    ]


@dataclass(frozen=True)
class ProgramFile:
    """How to write rollouts as a program does, and what of them is read: lanes, and the name of final observations."""

    write: Callable[[Path, list[Rollout]], Path]
    obs: str
    action: str
    final: str = ""
    done: str = "done"
    truncated: str = "aux/truncations"
    last: str = ""
    reward: str = "reward"


def _joined(rollouts: list[Rollout]) -> dict[str, Any]:
    """Return the rows of all episodes."""
    return {
        "obs": np.concatenate([one.obs[:-1] for one in rollouts]),
        "next": np.concatenate([one.obs[1:] for one in rollouts]),
        "actions": np.concatenate([one.actions for one in rollouts]),
        "rewards": np.concatenate([one.rewards for one in rollouts]),
        "terminated": np.concatenate([one.flags("terminated") for one in rollouts]),
        "truncated": np.concatenate([one.flags("truncated") for one in rollouts]),
        "ends": np.concatenate([np.arange(one.length) == one.length - 1 for one in rollouts]),
        "starts": np.concatenate([np.arange(one.length) == 0 for one in rollouts]),
        "number": np.concatenate([np.full(one.length, number) for number, one in enumerate(rollouts)]),
    }


def _rows_with_first(rollouts: list[Rollout]) -> list[dict[str, Any]]:
    """Return the rows of each episode where the first has an observation only, and actions led to theirs."""
    return [
        {
            "observation": one.obs,
            "action": np.concatenate([np.zeros((1, 2), np.float32), one.actions]),
            "reward": np.concatenate([np.zeros(1, np.float32), one.rewards]),
            "discount": np.append(np.ones(one.length), not one.terminated).astype(np.float32),
            "step_type": np.array([0, *[1] * (one.length - 1), 2], np.float64),
        }
        for one in rollouts
    ]


def _stable_baselines(folder: Path, rollouts: list[Rollout]) -> Path:
    rows = _joined(rollouts)
    returns = np.array([one.rewards.sum() for one in rollouts])
    np.savez(
        folder / "expert.npz",
        actions=rows["actions"],
        obs=rows["obs"],
        rewards=rows["rewards"],
        episode_returns=returns,
        episode_starts=rows["starts"],
    )
    return folder / "expert.npz"


def _imitation_npz(folder: Path, rollouts: list[Rollout]) -> Path:
    rows = _joined(rollouts)
    np.savez_compressed(
        folder / "rollout.npz",
        obs=np.concatenate([one.obs for one in rollouts]),
        acts=rows["actions"],
        infos=np.array([{"step": row} for row in range(len(rows["rewards"]))], object),
        terminal=np.array([one.terminated for one in rollouts]),
        rews=rows["rewards"],
        indices=np.cumsum([one.length for one in rollouts[:-1]]),
    )
    return folder / "rollout.npz"


def _trajectory_table(rollouts: list[Rollout]) -> pa.Table:
    columns = {
        "obs": pa.array([one.obs.tolist() for one in rollouts], pa.list_(pa.list_(pa.float32()))),
        "acts": pa.array([one.actions.tolist() for one in rollouts], pa.list_(pa.list_(pa.float32()))),
        "infos": pa.array([["{}"] * one.length for one in rollouts]),
        "terminal": pa.array([one.terminated for one in rollouts]),
        "rews": pa.array([one.rewards.tolist() for one in rollouts], pa.list_(pa.float32())),
    }
    return pa.table(columns)


def _imitation(folder: Path, rollouts: list[Rollout]) -> Path:
    path, table = folder / "data-00000-of-00001.arrow", _trajectory_table(rollouts)
    with pa.OSFile(str(path), "w") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": path.name}]}))
    return path


def _d3rlpy(folder: Path, rollouts: list[Rollout]) -> Path:
    with h5py.File(folder / "a.h5", "w") as file:
        file["columns"] = ["observations", "actions", "rewards", "terminated"]
        file["num_episodes"] = len(rollouts)
        for number, one in enumerate(rollouts):
            file[f"observations_{number}"] = one.obs[:-1]
            file[f"actions_{number}"] = one.actions
            file[f"rewards_{number}"] = one.rewards[:, None]
            file[f"terminated_{number}"] = one.terminated
        file["version"] = "2.1"
    return folder / "a.h5"


def _d3rlpy_1(folder: Path, rollouts: list[Rollout]) -> Path:
    rows = _joined(rollouts)
    with h5py.File(folder / "a.h5", "w") as file:
        file["observations"], file["actions"], file["rewards"] = rows["obs"], rows["actions"], rows["rewards"]
        file["terminals"], file["episode_terminals"] = rows["terminated"] * 1.0, rows["ends"] * 1.0
        file["discrete_action"], file["version"] = False, "1.0"
    return folder / "a.h5"


def write_tianshou(path: Path, rollouts: list[Rollout], *, first: int = 0, unused: int = 0) -> Path:
    """Write a replay buffer of Tianshou whose oldest row is `first`, and with rows that are not used."""
    rows = _joined(rollouts)
    names = {"obs": "obs", "act": "actions", "rew": "rewards", "terminated": "terminated", "truncated": "truncated"}
    names |= {"done": "ends", "obs_next": "next"}
    count = len(rows["rewards"])
    with h5py.File(path, "w") as file:
        for name, source in names.items():
            padded = np.concatenate([rows[source], np.zeros((unused, *rows[source].shape[1:]), rows[source].dtype)])
            file[f"_meta/{name}"] = np.roll(padded, first, axis=0)
            file[f"_meta/{name}"].attrs["__data_type__"] = "ndarray"
        file.create_group("_meta/info")
        file["_meta"].attrs["__data_type__"] = "Batch"
        file["_indices"] = np.arange(count + unused)
        file["_random_state"] = np.frombuffer(b"a pickle", np.int8)
        file["last_index"] = np.array([(first + count - 1) % (count + unused)])
        file.create_group("options").attrs["stack_num"] = 1
        file.attrs["_size"], file.attrs["maxsize"], file.attrs["stack_num"] = count, count + unused, 1
    return path


def write_torchrl(folder: Path, rollouts: list[Rollout], *, first: int = 0, has_numbers: bool = False) -> Path:
    """Write a replay buffer of TorchRL whose oldest row is `first`; has_numbers: those of trajectories."""
    rows = _joined(rollouts)
    groups = {
        "": {"observation": rows["obs"], "action": rows["actions"], "index": np.arange(len(rows["rewards"]))},
        "next": {
            "observation": rows["next"],
            "reward": rows["rewards"][:, None],
            "done": rows["ends"][:, None],
            "terminated": rows["terminated"][:, None],
            "truncated": rows["truncated"][:, None],
        },
    }
    groups |= {"collector": {"traj_ids": rows["number"]}} if has_numbers else {}
    for group, arrays in groups.items():
        (folder / "storage" / group).mkdir(parents=True, exist_ok=True)
        facts: dict[str, Any] = {"shape": [len(rows["rewards"])], "device": "cpu", "_format_version": 1}
        for name, values in arrays.items():
            dtype = f"torch.{values.dtype.name}"
            facts[name] = {"device": "cpu", "shape": [*values.shape], "dtype": dtype, "is_nested": False}
            np.roll(values, first, axis=0).tofile(folder / "storage" / group / f"{name}.memmap")
        facts |= {other: {"type": "TensorDict"} for other in groups if other and not group}
        (folder / "storage" / group / "meta.json").write_text(json.dumps(facts))
    (folder / "storage/storage_metadata.json").write_text(json.dumps({"metadata": {}, "len": len(rows["rewards"])}))
    (folder / "writer").mkdir()
    (folder / "writer/metadata.json").write_text(json.dumps({"cursor": first, "write_count": 99}))
    (folder / "buffer_metadata.json").write_text(json.dumps({"batch_size": 4}))
    return folder


def _torchrl(folder: Path, rollouts: list[Rollout]) -> Path:
    return write_torchrl(folder, rollouts)


def _torchrl_collector(folder: Path, rollouts: list[Rollout]) -> Path:
    return write_torchrl(folder, rollouts, has_numbers=True)


def sample_batch(rollouts: list[Rollout], first: int = 0) -> dict[str, Any]:
    """Return a line that RLlib writes for episodes; first: the id of the first one."""
    rows = _joined(rollouts)
    count = len(rows["rewards"])
    batch = {
        "obs": rows["obs"], "new_obs": rows["next"], "actions": rows["actions"], "rewards": rows["rewards"],
        "terminateds": rows["terminated"], "truncateds": rows["truncated"], "eps_id": rows["number"] + first,
        "unroll_id": np.zeros(count, np.int64), "agent_index": np.zeros(count, np.int64), "t": np.arange(count),
    }  # fmt: skip
    listed = {name: values.tolist() for name, values in batch.items()}
    return {"type": "SampleBatch", **listed, "infos": [{"a": 1}] * count}


def _rllib_json(folder: Path, rollouts: list[Rollout]) -> Path:
    path = folder / "output-2026-01-01_00-00-00_worker-0_0.json"
    lines = [sample_batch(rollouts[:1]), sample_batch(rollouts[1:], first=1)]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def _rllib_table(folder: Path, rollouts: list[Rollout]) -> Path:
    rows = _joined(rollouts)
    count = len(rows["rewards"])
    columns = {
        "eps_id": [str(number) for number in rows["number"]], "agent_id": pa.nulls(count),
        "module_id": pa.nulls(count), "obs": rows["obs"].tolist(), "actions": rows["actions"].tolist(),
        "rewards": rows["rewards"], "new_obs": rows["next"].tolist(), "terminateds": rows["terminated"],
        "truncateds": rows["truncated"],
    }  # fmt: skip
    pa.parquet.write_table(pa.table(columns), folder / "a.parquet")
    return folder / "a.parquet"


def _d4rl_npz(folder: Path, rollouts: list[Rollout]) -> Path:
    rows = _joined(rollouts)
    np.savez(
        folder / "a.npz",
        observations=rows["obs"],
        actions=rows["actions"],
        rewards=rows["rewards"],
        terminals=rows["terminated"],
        timeouts=rows["truncated"],
        next_observations=rows["next"],
    )
    return folder / "a.npz"


def _gym_npz(folder: Path, rollouts: list[Rollout]) -> Path:
    rows = _joined(rollouts)
    np.savez(folder / "a.npz", states=rows["obs"], actions=rows["actions"], rewards=rows["rewards"], dones=rows["ends"])
    return folder / "a.npz"


def _vd4rl(folder: Path, rollouts: list[Rollout]) -> Path:
    episodes = _rows_with_first(rollouts)
    with h5py.File(folder / "data.hdf5", "w") as file:
        for name in episodes[0]:
            rows = np.concatenate([episode[name] for episode in episodes])
            file.create_dataset(name, data=rows, compression="gzip")
    return folder / "data.hdf5"


def _dreamer(folder: Path, rollouts: list[Rollout]) -> Path:
    for number, episode in enumerate(_rows_with_first(rollouts)):
        episode["vector"] = episode.pop("observation")
        del episode["step_type"]
        np.savez_compressed(folder / f"20200101T00000{number}-{number:032x}-{len(episode['reward'])}.npz", **episode)
    return folder


def _dreamer_2(folder: Path, rollouts: list[Rollout]) -> Path:
    for number, (episode, rollout) in enumerate(zip(_rows_with_first(rollouts), rollouts, strict=True)):
        rows = len(episode["reward"])
        np.savez_compressed(
            folder / f"20210101T00000{number}-{number:032x}-{rows}.npz",
            vector=episode["observation"],
            action=episode["action"],
            reward=episode["reward"],
            is_first=np.arange(rows) == 0,
            is_last=np.arange(rows) == rows - 1,
            is_terminal=np.append(False, rollout.flags("terminated")),
        )
    return folder


FILES = {
    "sb3-expert": ProgramFile(_stable_baselines, "signal/obs", "action/actions", done="", truncated=""),
    "imitation-npz": ProgramFile(_imitation_npz, "signal/obs", "action/acts", "obs", truncated=""),
    "imitation": ProgramFile(_imitation, "signal/obs", "action/acts", "obs", truncated=""),
    "d3rlpy": ProgramFile(_d3rlpy, "signal/observations", "action/actions", truncated=""),
    "d3rlpy-v1": ProgramFile(_d3rlpy_1, "signal/observations", "action/actions", truncated=""),
    "tianshou": ProgramFile(
        lambda folder, rollouts: write_tianshou(folder / "a.hdf5", rollouts, unused=3),
        "signal/obs",
        "action/act",
        "obs",
    ),
    "torchrl": ProgramFile(_torchrl, "signal/observation", "action/action", "observation"),
    "torchrl-collector": ProgramFile(_torchrl_collector, "signal/observation", "action/action", "observation"),
    "rllib-json": ProgramFile(_rllib_json, "signal/obs", "action/actions", "obs"),
    "rllib-table": ProgramFile(_rllib_table, "signal/obs", "action/actions", "obs"),
    "d4rl-npz": ProgramFile(_d4rl_npz, "signal/observations", "action/actions", "observations"),
    "gym-npz": ProgramFile(_gym_npz, "signal/states", "action/actions", done="", truncated="", last="done"),
    "vd4rl": ProgramFile(
        _vd4rl, "signal/observation", "action/action", "observation", truncated="", last="aux/truncations"
    ),
    "dreamer-npz": ProgramFile(_dreamer, "signal/vector", "action/action", "vector", truncated=""),
    "dreamer-v2": ProgramFile(
        _dreamer_2, "signal/vector", "action/action", "vector", truncated="", last="aux/truncations"
    ),
}
"""By the name of the layout."""


def write_monitor(folder: Path, _rollouts: list[Rollout]) -> Path:
    """Write the log of Monitor in stable-baselines, which has a row for each episode."""
    path = folder / "run.monitor.csv"
    path.write_text('#{"t_start": 1795877281.8, "env_id": "CartPole-v1"}\nr,l,t\n11.0,11,0.012983\n9.0,9,0.02\n')
    return path


def write_agents(folder: Path, rollouts: list[Rollout]) -> Path:
    """Write a MultiAgentBatch of RLlib."""
    path = folder / "output.json"
    batch = {"type": "MultiAgentBatch", "count": 1, "policy_batches": {"p": sample_batch(rollouts)}}
    path.write_text(f"{json.dumps(batch)}\n")
    return path


REFUSED = {"monitor": write_monitor, "rllib-agents": write_agents}
"""Files that layouts recognise in order to say what they are."""
