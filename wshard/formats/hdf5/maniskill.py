"""ManiSkill: an HDF5 file with one group per trajectory, and a JSON file that describes them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from wshard.core.episode.lanes import DONE, REWARD, TRUNCATIONS
from wshard.core.episode.meta_reader import stated_clock
from wshard.core.episode.natural_order import sort_naturally
from wshard.core.files.file_object import OpenFilePlace
from wshard.errors import FormatError
from wshard.formats.hdf5.lane_table import LaneTable
from wshard.formats.hdf5.nodes import expect_dataset, expect_group, translate_errors
from wshard.formats.hdf5.source import Hdf5Source
from wshard.formats.hdf5.values import read_attributes, read_object
from wshard.formats.hdf5.walk import walk_datasets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.files.place import Place
    from wshard.core.types import TimebaseSpec
    from wshard.formats.hdf5.lane_table import ColumnInfo

_PREFIX: Final = "traj_"
_STEP_LANES: Final = {"rewards": REWARD, "terminated": DONE, "truncated": TRUNCATIONS}
_OLD_DONE: Final = "dones"  # ManiSkill 2 has these, and no terminated
_SUCCESS: Final = "success"
_METADATA: Final = ("success", "fail", "episode_seed", "control_mode", "elapsed_steps", "reset_kwargs")


class ManiskillSource(Hdf5Source[str]):
    """The trajectories of a file by their names: "traj_0", "traj_1", ..."""

    kind = "maniskill"
    meaning: ClassVar = (
        ("obs/NAME, env_states/NAME", "signal/NAME, signal/env_states/NAME"),
        ("obs, env_states that are not groups", "signal/obs, signal/env_states"),
        ("the last of n + 1 observations", "metadata final_observation, up to 256 numbers; frames: left out"),
        ("actions", "action/actions"),
        ("rewards, terminated, truncated", "reward, done, aux/truncations; in older files dones: done"),
        ("success, fail and other rows", "signal/NAME"),
        (
            "env_info.env_id of the JSON file",
            "the environment; env_kwargs.sim_config.control_freq: the rate, if stated",
        ),
        ("episodes[].success, else whether success is ever true", "metadata success"),
        ("episodes[].episode_seed, control_mode, ...", "metadata"),
        ("action alignment", "actions at t follow the obs at t"),
    )

    def _scan(self) -> Mapping[str, str]:
        with translate_errors(self.where_of("")):
            names = [name for name in self._open(self._place) if name.startswith(_PREFIX)]
        return {name: name for name in sort_naturally(names)}

    def _files(self, ref: str) -> list[Place]:
        return [self._place, *([] if self._json_file is None else [self._json_file])]

    def _columns(self, key: str, ref: str, file: Any) -> ColumnInfo:
        where = self.where_of(key)
        group = expect_group(file, ref, where)
        table = LaneTable(len(expect_dataset(group, "actions", where)), where, root=ref)
        success_column = None
        step_lanes = _STEP_LANES if "terminated" in group else _STEP_LANES | {_OLD_DONE: DONE}
        for path, dataset in walk_datasets(group, where):
            table.add(step_lanes.get(path) or _block(path), path, dataset)
            success_column = dataset if path == _SUCCESS else success_column
        env, episodes = self._json_metadata
        episode = episodes.get(ref.removeprefix(_PREFIX), {})
        if success_column is not None and _SUCCESS not in episode:
            table.metadata[_SUCCESS] = bool(np.any(np.asarray(success_column[:])))
        table.metadata.update(read_attributes(group))
        table.metadata.update({name: episode[name] for name in _METADATA if name in episode})
        return table.info(key, env_id=str(env.get("env_id") or ""), timebase=_timebase(env))

    @cached_property
    def _json_file(self) -> Place | None:
        """The JSON file, None if there is none."""
        if isinstance(self._place, OpenFilePlace):
            return None
        place = self._place.parent / f"{self._place.stem}.json"
        return place if place.exists() else None

    @cached_property
    def _json_metadata(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The JSON file's description of the environment, and those of the episodes by their number as text."""
        contents = {} if self._json_file is None else read_object(self._json_file)
        env, episodes = contents.get("env_info", {}), contents.get("episodes", [])
        if not isinstance(env, dict) or not isinstance(episodes, list):
            raise FormatError(f"{self._json_file}: expected an object env_info and a list episodes")
        return env, {str(row.get("episode_id", "")): row for row in episodes if isinstance(row, dict)}


def _block(path: str) -> str:
    """Return the lane of a dataset."""
    top, _, rest = path.partition("/")
    if top == "actions":
        return f"action/{rest or top}"
    return f"signal/{rest if top == 'obs' and rest else path}"


def _timebase(env: Mapping[str, Any]) -> TimebaseSpec:
    settings = env.get("env_kwargs")
    simulation = settings.get("sim_config") if isinstance(settings, dict) else None
    return stated_clock(simulation.get("control_freq") if isinstance(simulation, dict) else None)
