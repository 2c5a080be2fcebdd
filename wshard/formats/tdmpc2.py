"""TD-MPC2 data sets: a .pt file of tensors [episodes, steps, ...], read without executing any pickle."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.array_fields import DType
from wshard.core.episode.info import EpisodeInfo
from wshard.core.episode.lanes import REWARD
from wshard.core.episode.meta_reader import Declaration
from wshard.core.plugins import import_library
from wshard.errors import FormatError
from wshard.formats.lazy_source import LazySource
from wshard.formats.look import look_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location
    from wshard.core.types import Array
    from wshard.formats.look import LocationLook

_SUFFIXES: Final = (".pt", ".pth")
_NEEDED: Final = ("obs", "action", "reward")
_LANES: Final = {"obs": "signal/obs", "action": "action/action", "reward": REWARD}
_MAX_FINAL_VALUES: Final = 256
_ZIP: Final = b"PK\x03\x04"


class _Tensors(dict[str, Any]):
    """Replaces a TensorDict while unpickling; keeps its tensors only."""

    def __setstate__(self, state: Any) -> None:
        self.update(_tensors_of(state))


def _make_tensors(_: object, state: Any) -> _Tensors:
    return _Tensors(_tensors_of(state))


def _tensors_of(state: Any) -> dict[str, Any]:
    tensors = state.get("_tensordict") if isinstance(state, dict) else None
    if not isinstance(tensors, dict):
        raise pickle.UnpicklingError("a TensorDict without tensors")
    return tensors


_STAND_INS: Final = (
    (_Tensors, "tensordict.tensordict.TensorDict"),
    (_Tensors, "tensordict._td.TensorDict"),
    (_make_tensors, "tensordict._reductions._make_td"),
)
"""Replacements for names of tensordict in a file: nothing of that library is imported or called."""


class _OpenTensors:
    """The tensors of a file, mapped."""

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        self.tensors = tensors

    def close(self) -> None:
        """Release them."""
        self.tensors = {}


class TDMPC2Source(LazySource[int]):
    """The episodes of a file of tensors obs, action and reward [episodes, steps, ...], or of one episode [steps, ...].

    In the file, the action and reward of row t led to the observation of row t; those of row 0 are NaN. So an episode
    of L rows in the file has T = L - 1 timesteps, each with an observation and the action that followed it.
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
    def matches(location: Location | LocationLook) -> bool:
        """Return True for a zip file of PyTorch whose pickle names the three tensors."""
        look = look_at(location)
        return look.suffix in _SUFFIXES and look.head[:4] == _ZIP and all(b.encode() in look.head for b in _NEEDED)

    def _scan(self) -> Mapping[str, int]:
        obs = self._tensors()["obs"]
        if self._is_single():
            return {"": 0}
        return {str(number): number for number in range(len(obs))}

    def _files(self, ref: int) -> list[Place]:
        return [self._place]

    def _is_single(self) -> bool:
        return bool(self._tensors()["reward"].ndim == 1)

    def _describe(self, key: str, ref: int) -> EpisodeInfo:
        rows = {name: self._rows(name, ref) for name in _NEEDED}
        lanes = {
            block: Declaration(block, DType.from_numpy(rows[name].dtype), rows[name].shape[1:])
            for name, block in _LANES.items()
        }
        metadata: dict[str, Any] = {}
        if rows["obs"][-1].size <= _MAX_FINAL_VALUES:
            metadata["final_observation"] = {"obs": np.asarray(rows["obs"][-1]).tolist()}
        tensors = self._tensors()
        if "task" in tensors:
            tasks = self._rows("task", ref)
            if tasks.size and (tasks == tasks.flat[0]).all():
                metadata["task_index"] = int(tasks.flat[0])
        return EpisodeInfo(f"episode_{ref}", len(rows["obs"]) - 1, lanes, metadata=metadata)

    def _read(self, ref: int, info: EpisodeInfo, block: str, steps: slice) -> Array:
        name = next(name for name, lane in _LANES.items() if lane == block)
        first = 0 if name == "obs" else 1
        return np.array(self._rows(name, ref)[steps.start + first : steps.stop + first])

    def _rows(self, name: str, episode: int) -> Array:
        """Return the rows [L, ...] of one tensor of an episode; rewards are [L], without a last axis of size 1."""
        tensor = self._tensors()[name] if self._is_single() else self._tensors()[name][episode]
        rows: Array = tensor.numpy()
        return rows[:, 0] if name == "reward" and rows.shape[1:] == (1,) else rows

    def _tensors(self) -> Mapping[str, Any]:
        return self.open_once("tensors", lambda: _OpenTensors(self._load())).tensors

    def _load(self) -> Mapping[str, Any]:
        torch = import_library("torch", "torch")
        where = self.where_of("")
        try:
            file = self._place.path_or_file()
            with torch.serialization.safe_globals([*_STAND_INS]):
                data = torch.load(file, map_location="cpu", weights_only=True, mmap=isinstance(file, str))
        except FileNotFoundError:
            raise
        except (pickle.UnpicklingError, RuntimeError, OSError, EOFError, ValueError, KeyError, AttributeError) as error:
            raise FormatError(f"{where}: expected a file of tensors of PyTorch: {_first_line(error)}") from error
        return _check(data, torch, where)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _check(data: Any, torch: Any, where: str) -> Mapping[str, Any]:
    """Return the tensors; raises FormatError for a file without episodes."""
    missing = [name for name in _NEEDED if not isinstance(data, dict) or not isinstance(data.get(name), torch.Tensor)]
    if missing:
        raise FormatError(f"{where}: expected tensors {', '.join(_NEEDED)}, found no {', '.join(missing)}")
    batch_shape = data["reward"].shape[:2] if data["action"].ndim > 2 else data["reward"].shape[:1]
    if (
        any(data[name].shape[: len(batch_shape)] != batch_shape for name in _NEEDED)
        or 0 in batch_shape
        or batch_shape[-1] < 2
    ):
        shapes = ", ".join(f"{name} {list(data[name].shape)}" for name in _NEEDED)
        raise FormatError(f"{where}: expected [episodes, steps, ...] of two steps or more, found {shapes}")
    tensors = {name: data[name].detach() for name in _NEEDED}
    if isinstance(data.get("task"), torch.Tensor) and data["task"].shape[: len(batch_shape)] == batch_shape:
        tensors["task"] = data["task"].detach()
    return tensors
