"""robomimic files as a Sink: an HDF5 file with one group per demonstration."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.episode.lanes import DONE, EXACT_REWARD, REWARD
from wshard.core.episode.natural_order import sort_naturally
from wshard.core.episode.step_texts import TASK
from wshard.errors import EpisodeError, FormatError
from wshard.formats.draft_sink import advise_on_rate, list_losses
from wshard.formats.hdf5.lane_table import FINAL, LEFT_OUT
from wshard.formats.hdf5.nodes import child, expect_group
from wshard.formats.hdf5.robomimic import ENV_ARGS, FILTERS, MODEL, NEXT, TEXT_BLOCKS, RobomimicSource
from wshard.formats.hdf5.sink import Hdf5Sink, list_metadata_losses, put_array, put_attributes
from wshard.formats.hdf5.values import MAX_NUMBERS, json_attribute

if TYPE_CHECKING:
    from collections.abc import Container, Mapping
    from pathlib import Path

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.types import Array, Channel, Episode

_DATA: Final = "data"
_MASK: Final = "mask"
_DEMO: Final = re.compile(r"demo_(\d+)")
_PROBLEM: Final = "problem_info"
_MAIN: Final = ("actions", "action")
_ACTION_PREFIXES: Final = ("actions_", "action_")
_STEPS: Final = (REWARD, EXACT_REWARD, DONE)
_INSTRUCTION: Final = "language_instruction"
_STEP_COUNT: Final = "num_samples"
_RATE: Final = "control_freq"
_STORED_OTHERWISE: Final = (FINAL, LEFT_OUT, FILTERS, ENV_ARGS, _PROBLEM, _STEP_COUNT)


class RobomimicSink(Hdf5Sink):
    """Writes many episodes to one file; those whose ids are not demo_N get the next number.

    The file has one environment: env_args of all episodes are the same.
    """

    cannot_hold = (
        "predictions, uncertainties, residuals, and blocks of other programs except texts",
        "truncations and times of timesteps",
        "metadata that no HDF5 attribute can hold",
        "bf16, which becomes float32",
        "episodes of other environments than the first one has",
    )
    one_environment = True
    content = "robomimic file"
    in_folder = False

    def _has_episodes(self) -> bool:
        return self._target.exists()

    @classmethod
    def owned(cls, location: Path) -> list[str]:
        """Return [""] for a robomimic file."""
        return [""] if RobomimicSource.matches(location) else []

    def _begin(self, draft: Path, *, continues: bool) -> None:
        self._open(draft)

    def _episodes(self) -> Any:
        file = self._file
        if len(file) and _DATA not in file:
            raise FormatError(f"{self._where}: expected a robomimic file with a group 'data', found {', '.join(file)}")
        return expect_group(file, _DATA, self._where) if len(file) else file.create_group(_DATA)

    def _name(self, ep: Episode, episodes: Any) -> str:
        if _DEMO.fullmatch(ep.id) and ep.id not in episodes:
            return ep.id
        numbers = [int(match[1]) for name in episodes if (match := _DEMO.fullmatch(name))]
        return f"demo_{max(numbers, default=-1) + 1}"

    def _fill(self, ep: Episode, group: Any) -> None:
        self._check_environment(ep, self._file[_DATA])
        main = main_action(ep.actions)
        for name, channel in ep.actions.items():
            put_array(group, _action_path(name, main), channel.data)
        final = ep.metadata.get(FINAL)
        for name, channel in ep.observations.items():
            path = name if name == "states" or name.startswith("obs/") else f"obs/{name}"
            values = channel.data
            put_array(group, path, values)
            is_large = values[0].size > MAX_NUMBERS  # for which metadata have no final observation
            if isinstance(final, dict) and path != "states" and (name in final or is_large):
                put_array(group, NEXT + path.removeprefix("obs/"), follow(values, final.get(name))[1:])
        if ep.rewards is not None:
            put_array(group, "rewards", np.asarray(ep.rewards))
        if ep.terminations is not None:
            put_array(group, "dones", np.asarray(ep.terminations).astype(np.int64))
        group.attrs[_STEP_COUNT] = ep.length
        put_attributes(group, _attributes(ep.metadata))
        for block, text in ep.blocks.items():
            if block.startswith(TEXT_BLOCKS):
                group.attrs[block.removeprefix(TEXT_BLOCKS)] = bytes(text).decode(errors="surrogateescape")
        self._add_filters(ep, group)
        self._put_environment(ep, self._file[_DATA])

    def _put_environment(self, ep: Episode, data: Any) -> None:
        """Write the environment of the first episode."""
        if ENV_ARGS not in data.attrs:
            data.attrs[ENV_ARGS] = json.dumps(environment_of(ep), indent=4)
            if isinstance(ep.metadata.get(_PROBLEM), dict):
                data.attrs[_PROBLEM] = json.dumps(ep.metadata[_PROBLEM])

    def _check_environment(self, ep: Episode, data: Any) -> None:
        """Raise EpisodeError if the environment of an episode is not that of the first."""
        env_args = environment_of(ep)
        if ENV_ARGS not in data.attrs:
            return
        existing = json_attribute(data, ENV_ARGS, self._where)
        if existing != env_args:
            expected, found = _settings(existing), _settings(env_args)
            differ = (name for name in (*expected, *found) if expected.get(name) != found.get(name))
            name = next(differ, "env_kwargs")
            advice = advise_on_rate(ep.timebase) if name == _RATE else ""
            raise EpisodeError(
                f"{self._where}: episode {ep.id!r}: expected the env_args of the file, "
                f"{name} = {expected.get(name)!r}, found {found.get(name)!r}; write it to another file{advice}"
            )

    def _add_filters(self, ep: Episode, group: Any) -> None:
        file, name = self._file, group.name.rpartition("/")[2]
        for filter_name in ep.metadata.get(FILTERS) or ():
            masks = file.create_group(_MASK) if _MASK not in file else expect_group(file, _MASK, self._where)
            mask = child(masks, filter_name, self._where)
            demos = [] if mask is None else [demo.decode() for demo in mask[()].tolist()]
            if mask is not None:
                del masks[filter_name]
            put_array(masks, filter_name, np.array(sort_naturally([*demos, name]), dtype="S"))

    def _finish(self, draft: Path) -> None:
        data = self._file[_DATA]
        data.attrs["total"] = sum(int(data[name].attrs.get("num_samples", 0)) for name in data)
        self._close_file()

    def shared_rate(self, info: EpisodeInfo) -> float | None:
        """Return the rate, which env_args state for all episodes."""
        return None if info.timebase.assumed else info.timebase.tick_hz

    def shared_settings(self, info: EpisodeInfo) -> dict[str, Any]:
        """Return the environment and its settings but for the rate, as the file has one env_args."""
        args = environment_of(info)
        settings = args.pop("env_kwargs", None)
        fields = {f"{ENV_ARGS}.{name}": value for name, value in args.items()}
        inner = settings if isinstance(settings, dict) else {}
        fields |= {f"{ENV_ARGS}.env_kwargs.{name}": value for name, value in inner.items() if name != _RATE}
        return {"env": fields.pop(f"{ENV_ARGS}.env_name", "")} | {f"meta.{name}": fields[name] for name in fields}

    def losses(self, info: EpisodeInfo) -> list[str]:
        """Return what the format cannot store of an episode."""
        losses = list_losses(info, _STEPS, "dataset")
        actions = [block.removeprefix("action/") for block in info.lanes if block.startswith("action/")]
        main = _named_main(actions) or next(iter(actions), "")
        paths = {name: _action_path(name, main) for name in actions}
        losses += [f"action/{name}: becomes action/{path}" for name, path in paths.items() if path != name]
        if info.timebase.epoch_ns:
            losses.append("timebase: no place for the time of the first timestep")
        stated = info.metadata
        attributes, problem = _attributes(stated), stated.get(_PROBLEM)
        readable = {_STEP_COUNT: info.length, ENV_ARGS: environment_of(info), _PROBLEM: problem or None}
        readable |= {_INSTRUCTION: attributes.get(_INSTRUCTION), LEFT_OUT: None}
        changed = [name for name, value in readable.items() if name in stated and stated[name] != value]
        losses += [f"metadata {MODEL!r}: becomes {TEXT_BLOCKS}{MODEL}"] if MODEL in stated else []
        changed += [] if problem is None or isinstance(problem, dict) else [_PROBLEM]
        return [
            *losses,
            *(f"metadata {name!r}: no place for it" for name in changed),
            *list_metadata_losses(attributes, (_INSTRUCTION,)),
        ]


def _attributes(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata that are attributes of a demonstration; a task is the instruction, as LIBERO names it."""
    values = {name: value for name, value in metadata.items() if name not in _STORED_OTHERWISE}
    task = values.get(TASK)
    if isinstance(task, str) and task and task.strip('"') == task:
        values[_INSTRUCTION] = values.pop(TASK)
    return values


def _action_path(name: str, main: str) -> str:
    """Return the dataset of a lane of actions."""
    return "actions" if name == main else name if name.startswith(_ACTION_PREFIXES) else f"action_dict/{name}"


def _named_main(actions: Container[str]) -> str:
    """Return the lane of actions that is the main one by its name, "" for none."""
    return next((name for name in _MAIN if name in actions), "")


def main_action(actions: dict[str, Channel]) -> str:
    """Return the lane to store as `actions` of a demonstration; raises EpisodeError if the choice is ambiguous."""
    main = _named_main(actions)
    if not main and len(actions) != 1:
        found = ", ".join(f"action/{name}" for name in actions) or "none"
        raise EpisodeError(f"robomimic: expected a lane action/actions, or one lane of actions, found {found}")
    return main or next(iter(actions))


def environment_of(ep: Episode | EpisodeInfo) -> dict[str, Any]:
    """Return the env_args in the metadata of an episode, completed by its environment and rate."""
    stated_args = ep.metadata.get(ENV_ARGS)
    args = dict(stated_args) if isinstance(stated_args, dict) else {"env_name": ep.env_id, "env_kwargs": {}}
    args["env_name"] = ep.env_id or args.get("env_name", "")
    if not ep.timebase.assumed:
        settings = args.get("env_kwargs")
        stated = dict(settings) if isinstance(settings, dict) else {}
        rate = ep.timebase.tick_hz
        args["env_kwargs"] = stated | ({} if stated.get(_RATE) == rate else {_RATE: float(rate)})
    return args


def _settings(env_args: dict[str, Any]) -> dict[str, Any]:
    """Return env_args and the settings within env_kwargs by name."""
    settings = env_args.get("env_kwargs")
    return {**env_args, **settings, "env_kwargs": None} if isinstance(settings, dict) else env_args


def follow(values: Array, final: Any) -> Array:
    """Return the rows of a lane and the final one; if that is unknown, the last row is repeated."""
    try:
        last = np.asarray(final, dtype=np.float64 if values.dtype.kind == "f" else values.dtype)
    except (TypeError, ValueError, OverflowError):
        last = values[-1]
    if final is None or last.shape != values.shape[1:]:
        last = values[-1]
    return np.concatenate([values, last[None].astype(values.dtype)])
