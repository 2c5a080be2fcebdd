"""TD-MPC2 data sets: a .pt file of tensors [episodes, steps, ...], read without executing any pickle."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.array_fields import DType
from wshard.episode.info import EpisodeInfo
from wshard.episode.lanes import REWARD
from wshard.episode.meta_reader import Declaration
from wshard.errors import FormatError
from wshard.formats.lazy_source import LazySource
from wshard.formats.look import LocationLook
from wshard.plugins import import_library

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.formats.base import Location
    from wshard.types import Array

_SUFFIXES: Final = (".pt", ".pth")
_NEEDED: Final = ("obs", "action", "reward")
_LANES: Final = {"obs": "signal/obs", "action": "action/action", "reward": REWARD}
_SMALL: Final = 256
_ZIP: Final = b"PK\x03\x04"


class _Tensors(dict[str, Any]):
    """Stands for a TensorDict, of which only the tensors are taken."""

    def __setstate__(self, state: Any) -> None:
        self.update(_tensors_of(state))


def _make_tensors(_: object, state: Any) -> _Tensors:
    return _Tensors(_tensors_of(state))


def _tensors_of(state: Any) -> dict[str, Any]:
    found = state.get("_tensordict") if isinstance(state, dict) else None
    if not isinstance(found, dict):
        raise pickle.UnpicklingError("a TensorDict without tensors")
    return found


_STAND_INS: Final = (
    (_Tensors, "tensordict.tensordict.TensorDict"),
    (_Tensors, "tensordict._td.TensorDict"),
    (_make_tensors, "tensordict._reductions._make_td"),
)
"""What the names of tensordict in a file are taken for: nothing of that library is imported or called."""


class _OpenTensors:
    """The tensors of a file, mapped."""

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        self.tensors = tensors

    def close(self) -> None:
        """Let go of them."""
        self.tensors = {}


class TDMPC2Source(LazySource[int]):
    """The episodes of a file of tensors obs, action and reward [episodes, steps, ...], or of one episode [steps, ...].

    In the file, row t has the observation that action and reward of row t led to; those of the first row are NaN. So an
    episode of the file's L rows has T = L - 1 timesteps, of which each has the action that answered its observation.
    Only tensors are read: anything else in the file is refused.
    """

    meaning = (
        (
            "obs",
            "signal/obs: rows 0 to L - 2; of at most 256 numbers, the last row is metadata final_observation",
        ),
        ("action", "action/action: rows 1 to L - 1, since row t has the action that led to obs t"),
        ("reward", "reward: rows 1 to L - 1"),
        ("task", "metadata task_index, where it is the same in all rows"),
        ("clock", "not stated: assumed"),
    )

    @staticmethod
    def matches(location: Location) -> bool:
        """Say whether a path is a zip file of PyTorch whose pickle names the three tensors."""
        look = location if isinstance(location, LocationLook) else LocationLook(os.fspath(location))  # type: ignore[arg-type]
        return look.suffix in _SUFFIXES and look.head[:4] == _ZIP and all(b.encode() in look.head for b in _NEEDED)

    def _scan(self) -> Mapping[str, int]:
        obs = self._tensors()["obs"]
        if self._is_one():
            return {"": 0}
        return {str(number): number for number in range(len(obs))}

    def _files(self, found: int) -> list[Location]:
        return [self._location]

    def _is_one(self) -> bool:
        return bool(self._tensors()["reward"].ndim == 1)

    def _describe(self, key: str, found: int) -> EpisodeInfo:
        rows = {name: self._rows(name, found) for name in _NEEDED}
        lanes = {
            block: Declaration(block, DType.from_numpy(rows[name].dtype), rows[name].shape[1:])
            for name, block in _LANES.items()
        }
        metadata: dict[str, Any] = {}
        if rows["obs"][-1].size <= _SMALL:
            metadata["final_observation"] = {"obs": np.asarray(rows["obs"][-1]).tolist()}
        tensors = self._tensors()
        if "task" in tensors:
            tasks = self._rows("task", found)
            if tasks.size and (tasks == tasks.flat[0]).all():
                metadata["task_index"] = int(tasks.flat[0])
        return EpisodeInfo(f"episode_{found}", len(rows["obs"]) - 1, lanes, metadata=metadata)

    def _read(self, found: int, info: EpisodeInfo, block: str, steps: slice) -> Array:
        name = next(name for name, lane in _LANES.items() if lane == block)
        first = 0 if name == "obs" else 1
        return np.array(self._rows(name, found)[steps.start + first : steps.stop + first])

    def _rows(self, name: str, episode: int) -> Array:
        """Return the rows [L, ...] of one tensor of an episode; rewards without a last axis of one."""
        tensor = self._tensors()[name] if self._is_one() else self._tensors()[name][episode]
        rows: Array = tensor.numpy()
        return rows[:, 0] if name == "reward" and rows.shape[1:] == (1,) else rows

    def _tensors(self) -> Mapping[str, Any]:
        return self.open_once("tensors", lambda: _OpenTensors(self._load())).tensors

    def _load(self) -> Mapping[str, Any]:
        torch = import_library("torch", "torch")
        where = self.where_of("")
        path = os.fspath(self._location) if isinstance(self._location, (str, os.PathLike)) else None
        try:
            with torch.serialization.safe_globals([*_STAND_INS]):
                found = torch.load(path or self._location, map_location="cpu", weights_only=True, mmap=path is not None)
        except FileNotFoundError:
            raise
        except (pickle.UnpicklingError, RuntimeError, OSError, EOFError, ValueError, KeyError, AttributeError) as error:
            raise FormatError(f"{where}: expected a file of tensors of PyTorch: {_first_line(error)}") from error
        return _check(found, torch, where)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _check(found: Any, torch: Any, where: str) -> Mapping[str, Any]:
    """Return the tensors; raises FormatError for a file without episodes."""
    names = [name for name in _NEEDED if not isinstance(found, dict) or not isinstance(found.get(name), torch.Tensor)]
    if names:
        raise FormatError(f"{where}: expected tensors {', '.join(_NEEDED)}, found no {', '.join(names)}")
    lead = found["reward"].shape[:2] if found["action"].ndim > 2 else found["reward"].shape[:1]
    if any(found[name].shape[: len(lead)] != lead for name in _NEEDED) or 0 in lead or lead[-1] < 2:
        shapes = ", ".join(f"{name} {list(found[name].shape)}" for name in _NEEDED)
        raise FormatError(f"{where}: expected [episodes, steps, ...] of two steps or more, found {shapes}")
    tensors = {name: found[name].detach() for name in _NEEDED}
    if isinstance(found.get("task"), torch.Tensor) and found["task"].shape[: len(lead)] == lead:
        tensors["task"] = found["task"].detach()
    return tensors
