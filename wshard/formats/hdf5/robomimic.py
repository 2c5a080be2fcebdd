"""robomimic and formats of its layout (LIBERO, MimicGen, robocasa): an HDF5 file with one group per demonstration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from wshard.core.episode.lanes import DONE, REWARD
from wshard.core.episode.meta_reader import stated_clock
from wshard.core.episode.natural_order import sort_naturally
from wshard.errors import FormatError
from wshard.formats.hdf5.lane_table import LaneTable
from wshard.formats.hdf5.nodes import child, expect_dataset, expect_group, translate_errors
from wshard.formats.hdf5.source import Hdf5Source
from wshard.formats.hdf5.values import (
    WSHARD_ID,
    json_attribute,
    read_attribute,
    read_attributes,
    read_long_texts,
    text_attribute,
)
from wshard.formats.hdf5.walk import walk_datasets

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from wshard.core.types import TimebaseSpec
    from wshard.formats.hdf5.lane_table import ColumnInfo

ENV_ARGS: Final = "env_args"
_ENV_INFO: Final = "env_info"
FILTERS: Final = "filters"
STEP_LANES: Final = {"rewards": REWARD, "dones": DONE}
NEXT: Final = "next_obs/"
MODEL: Final = "model_file"
TEXT_BLOCKS: Final = "aux/attributes/"
"""Prefix of the blocks of a loaded episode with long texts of attributes, such as the XML of a simulation."""

_INSTRUCTION: Final = "language_instruction"
_JSON_ATTRIBUTES: Final = ("problem_info", "ep_meta")


class RobomimicSource(Hdf5Source[str]):
    """The demonstrations of a file by their names: "demo_0", "demo_1", ... in numerical order."""

    kind = "robomimic"
    meaning: ClassVar = (
        ("data/DEMO/obs/KEY", "signal/KEY"),
        ("data/DEMO/next_obs/KEY", "its last row: metadata final_observation; the others are obs one step later"),
        ("data/DEMO/actions or action, actions_abs, action_dict/KEY", "action/NAME"),
        ("data/DEMO/rewards", "reward"),
        ("data/DEMO/dones", "done (not 0)"),
        ("data/DEMO/states and other datasets with a row a timestep", "signal/states, signal/NAME"),
        ("datasets of texts", "metadata NAME; if they differ, a list, and aux/text/NAME: positions in it"),
        (
            "attributes of data/DEMO",
            "metadata; model_file and texts of over 4,096 characters: blocks aux/attributes/NAME",
        ),
        ("mask/FILTER", "metadata filters: the names of those that list the demonstration"),
        ("attribute env_args of data", "metadata env_args; env_name: the environment, as env in files of robosuite"),
        ("language_instruction, problem_info, ep_meta.lang", "metadata task"),
        ("env_args.env_kwargs.control_freq, env_info.control_freq", "the rate; otherwise unknown (30 Hz, assumed)"),
        ("action alignment", "actions at t follow the obs at t"),
    )

    def _scan(self) -> Mapping[str, str]:
        where = self.where_of("")
        with translate_errors(where):
            names = sort_naturally(expect_group(self._open(self._place), "data", where))
        return {name: f"data/{name}" for name in names}

    def _find(self, key: str) -> str:
        """Return the path of a key's group; does not list all demonstrations of a large file for a few of them."""
        if "_episodes" not in vars(self) and key not in ("", ".", "..") and "/" not in key:
            where = self.where_of(key)
            with translate_errors(where):
                if child(expect_group(self._open(self._place), "data", where), key, where) is not None:
                    return f"data/{key}"
        return super()._find(key)

    def _columns(self, key: str, ref: str, file: Any) -> ColumnInfo:
        where = self.where_of(key)
        group, file_attributes = expect_group(file, ref, where), self._file_attributes(file)
        actions = "action" if "action" in group and "actions" not in group else "actions"
        table = LaneTable(len(expect_dataset(group, actions, where)), where, root=ref)
        _check_length(group, table)
        names_beside_obs = frozenset(group)
        for path, dataset in walk_datasets(group, where):
            if path.startswith(NEXT):
                table.add_final(path.removeprefix(NEXT), dataset, table.length - 1)
            else:
                table.add(_block(path, names_beside_obs), path, dataset)
        attributes = read_attributes(group, without=(MODEL,))
        attributes.pop("num_samples", None)
        own_id = attributes.pop(WSHARD_ID, None)
        details = {name: json_attribute(group, name, where) for name in _JSON_ATTRIBUTES}
        table.metadata.update(attributes | {name: value for name, value in details.items() if name in attributes})
        table.metadata.update(_file_metadata(file_attributes, details, attributes, key))
        env_args, env_info = (
            file_attributes[ENV_ARGS],
            file_attributes[_ENV_INFO],
        )  # robosuite's own files have env_info
        name = env_args.get("env_name") or file_attributes["env"] or env_info.get("env_name") or ""
        return table.info(
            str(own_id or key), env_id=str(name), timebase=_timebase(env_args or {"env_kwargs": env_info})
        )

    def _extra_blocks(self, ref: str) -> dict[str, bytes]:
        where = self.where_of("")
        with translate_errors(where):
            texts = read_long_texts(expect_group(self._open(self._place), ref, where), (MODEL,))
        return {f"{TEXT_BLOCKS}{name}": text.encode(errors="surrogateescape") for name, text in texts.items()}

    def _file_attributes(self, file: Any) -> dict[str, Any]:
        """Return what the file states about all demonstrations."""
        cache = self._cache("file")
        if not cache:
            where = self.where_of("")
            data = expect_group(file, "data", where)
            for name in (ENV_ARGS, "problem_info", _ENV_INFO):
                cache[name] = json_attribute(data, name, where)
            cache["env"] = text_attribute(data, "env")
            cache[_INSTRUCTION] = text_attribute(data, _INSTRUCTION)
            cache[FILTERS] = _read_filters(file, where)
        return dict(cache)


def _block(path: str, names_beside_obs: AbstractSet[str]) -> str:
    """Return the lane of a dataset of a demonstration; observations named like a node beside "obs" keep that prefix."""
    if path in STEP_LANES:
        return STEP_LANES[path]
    if path in ("action", "actions") or path.startswith(("actions_", "action_")):
        return f"action/{path}"
    name = path.removeprefix("obs/")
    return f"signal/{path if name.partition('/')[0] in names_beside_obs else name}"


def _check_length(group: Any, table: LaneTable) -> None:
    stated = read_attribute(group, "num_samples")
    if stated is not None and int(stated) != table.length:
        raise FormatError(f"{table.where}: num_samples: expected {int(stated)} actions, found {table.length}")


def _read_filters(file: Any, where: str) -> dict[str, list[str]]:
    """Return the names of the filters that list each demonstration."""
    filters_by_demo: dict[str, list[str]] = {}
    masks = child(file, "mask", where)
    for name, dataset in walk_datasets(masks, where) if hasattr(masks, "keys") else ():
        for demo in np.asarray(dataset[()]).ravel().tolist():
            filters_by_demo.setdefault(
                demo.decode(errors="replace") if isinstance(demo, bytes) else str(demo), []
            ).append(name)
    return filters_by_demo


def _file_metadata(
    file_attributes: Mapping[str, Any], details: Mapping[str, Any], attributes: Mapping[str, Any], key: str
) -> dict[str, Any]:
    env_args = file_attributes[ENV_ARGS]
    problem = details["problem_info"] or file_attributes["problem_info"]
    candidates = (
        attributes.get(_INSTRUCTION),
        details["ep_meta"].get("lang"),
        file_attributes[_INSTRUCTION],
        problem.get(_INSTRUCTION),
        env_args.get(_INSTRUCTION),
        env_args.get("env_lang"),
    )
    texts = ["".join(candidate) if isinstance(candidate, list) else candidate for candidate in candidates]
    task = next((text.strip('"') for text in texts if isinstance(text, str) and text), None)  # LIBERO quotes it
    values = {
        "task": task,
        FILTERS: file_attributes[FILTERS].get(key),
        ENV_ARGS: env_args,
        "problem_info": file_attributes["problem_info"],
    }
    return {name: value for name, value in values.items() if value}


def _timebase(env_args: Mapping[str, Any]) -> TimebaseSpec:
    settings = env_args.get("env_kwargs")
    return stated_clock(settings.get("control_freq") if isinstance(settings, dict) else None)
