"""Episodes with parts that not every format holds, and what of an episode a format changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard import Channel, DType, Episode, EpisodeAddress, MemoryReader, TimebaseSpec
from wshard.core.episode.info import EpisodeInfo
from wshard.core.episode.lanes import DONE, REWARD, TICKS, TIMESTAMPS, TRUNCATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

STEPS: Final = 4
_ENDS: Final = np.arange(STEPS) == STEPS - 1
_ROWS: Final = np.arange(STEPS * 6, dtype=np.float32).reshape(STEPS, 6) / 7
_BF16: Final = np.array([0x3F80, 0x4000, 0x4040, 0x4080], np.uint16)
_POSITIONS: Final = np.array([0, 0, 1, 1], "<i4").tobytes()

PARTS: Final[Mapping[str, dict[str, Any]]] = {
    "plain": {},
    "scalar": {"observations": {"height": _ROWS[:, 0], "open": np.arange(STEPS) % 2 == 0}},
    "dtypes": {
        "observations": {f"n_{code}": _ROWS[:, :2].astype(code) for code in ("i1", "u2", "u4", "i8", "u8", "f2")}
    },
    "axes": {"observations": {"grid": _ROWS.reshape(STEPS, 2, 3), "deep": _ROWS.reshape(STEPS, 1, 2, 1, 3)}},
    "wide": {"observations": {"mask": np.arange(STEPS * 300).reshape(STEPS, 300)}},
    "bf16": {"observations": {"half": Channel("half", DType.BFLOAT16, [1], _BF16[:, None])}},
    "names": {"observations": {"a/b": _ROWS[:, :2], "a.b": _ROWS[:, 2:], "über": _ROWS[:, :1], "x y": _ROWS}},
    "long name": {"observations": {"n" * 300: _ROWS[:, :2]}},
    "long camera name": {"observations": {"ü" * 140: np.zeros((STEPS, 8, 8, 3), np.uint8)}},
    "reserved": {"observations": {"discount": _ROWS[:, 0], "index": _ROWS, "states": _ROWS, "infos/a": _ROWS}},
    "flags": {"observations": {"is_first": _ENDS, "done": _ENDS, "terminated": _ENDS, "stepid": _ROWS}},
    "image": {
        "observations": {"rgb": np.zeros((STEPS, 8, 8, 3), np.uint8), "gray": np.ones((STEPS, 8, 8, 1), np.uint8)}
    },
    "depth": {"observations": {"depth": np.ones((STEPS, 4, 4), np.uint16)}},
    "arm": {"actions": {"arm": _ROWS[:, :2]}},
    "dotted": {"actions": {"left/arm": _ROWS[:, :2], "right.arm": _ROWS}},
    "two actions": {"actions": {"action": _ROWS, "gripper": _ROWS[:, 0]}},
    "ctrl": {"actions": {"ctrl": _ROWS}},
    "actions": {"actions": {"actions": _ROWS}},
    "act": {"actions": {"act": _ROWS, "act_disc": np.arange(STEPS)}},
    "no action": {"actions": {}},
    "reward": {"rewards": np.arange(STEPS) / 3},
    "reward f4": {"rewards": (np.arange(STEPS) / 3).astype(np.float32)},
    "terminated": {"terminations": _ENDS},
    "never": {"terminations": np.zeros(STEPS, bool)},
    "early": {"terminations": np.arange(STEPS) == 1},
    "truncated": {"truncations": _ENDS},
    "not truncated": {"truncations": np.zeros(STEPS, bool), "terminations": _ENDS},
    "both": {"truncations": _ENDS, "terminations": np.zeros(STEPS, bool)},
    "times": {"timestamps_ns": np.arange(STEPS) * 7 + 10**18},
    "ticks": {"ticks": np.arange(STEPS) * 2},
    "rate": {"timebase": TimebaseSpec(tick_hz=12.5)},
    "epoch": {"timebase": TimebaseSpec(tick_hz=10.0, epoch_ns=10**18)},
    "env": {"env_id": "Lift-v1"},
    "texts": {"metadata": {"task": ["a", "b"]}, "blocks": {"aux/text/task": _POSITIONS}},
    "other texts": {"metadata": {"plan": ["a", "b"]}, "blocks": {"aux/text/plan": _POSITIONS}},
    "prediction": {"omens": {"state": {"m": Channel.of("state", _ROWS)}}},
    "uncertainty": {"uncerts": {"state/m/std": Channel.of("state/m/std", _ROWS[:, 0])}},
    "metadata is_first": {"metadata": {"is_first": [True, False, True, False]}},
    **{
        f"metadata {number}": {"metadata": value}
        for number, value in enumerate(
            (
                {"task": "push"},
                {"task": ["a", "b"]},
                {"task": ["a"]},
                {"task": []},
                {"task": 3},
                {"task": ""},
                {"success": True},
                {"labels": ["x", "y"]},
                {"labels": [1, 2], "n": None, "o": {}, "nested": {"a": [1, {"b": None}]}},
                {"text": "a\0b", "": "unnamed", "a/b": "slash", "über": "ü"},
                {"whole": 3, "large": 2**70, "real": 1.5, "flag": False, "list": [[1], [2, 3]]},
                {"num_samples": 7, "language_instruction": "own", "env_args": {"a": 1}, "model_file": "<x/>"},
                {"id": 5, "seed": 3, "options": {"a": 1}, "total_steps": 9, "dataset_id": "d", "algorithm_name": "x"},
                {
                    "final_observation": {"state": [1.0] * 6},
                    "filter_keys": ["a"],
                    "left_out": ["q"],
                    "problem_info": {},
                },
            )
        )
    },
}
"""Parts of an episode by name; `make_odd` adds them to a plain one."""


def make_odd(*names: str) -> Episode:
    """Return an episode of some parts, with one observation and, if no part has others, one action."""
    parts: dict[str, Any] = {"observations": {}, "metadata": {}, "blocks": {}}
    for name in names:
        for field, value in PARTS[name].items():
            parts[field] = parts[field] | value if field in ("observations", "metadata", "blocks") else value
    parts["observations"] = {"state": _ROWS} | parts["observations"]
    return Episode("one", length=STEPS, **{"actions": {"action": _ROWS[:, :3]}} | parts)


def describe(ep: Episode) -> EpisodeInfo:
    """Return what a conversion tells a Sink of an episode."""
    return EpisodeInfo.of(MemoryReader(ep, EpisodeAddress("memory")))


def facts(ep: Episode) -> dict[str, Any]:
    """Return the parts of an episode by the names that losses have, as values that can be compared."""
    lanes: dict[str, Any] = {
        block: (channel.dtype.value, tuple(channel.shape), channel.data.tobytes())
        for block, channel in (ep.lanes() | ep.predictions()).items()
    }
    steps = {REWARD: ep.rewards, DONE: ep.terminations, TRUNCATIONS: ep.truncations}
    steps |= {TIMESTAMPS: ep.timestamps_ns, TICKS: ep.ticks}
    lanes |= {block: np.asarray(values).tolist() for block, values in steps.items() if values is not None}
    lanes |= {block: bytes(data) for block, data in ep.blocks.items()}
    about: dict[str, Any] = {} if ep.timebase.assumed else {"timebase": (ep.timebase.tick_hz, ep.timebase.epoch_ns)}
    about |= {"env_id": ep.env_id} if ep.env_id else {}
    return lanes | about | {f"metadata {key!r}": json.dumps(_plain(value)) for key, value in ep.metadata.items()}


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def unnamed_changes(before: Episode, after: Episode, losses: Iterable[str]) -> list[str]:
    """Return the parts that differ and that no loss names; metadata that a format adds of its own are no difference."""
    was, found = facts(before), facts(after)
    changed = {part for part in was if was[part] != found.get(part)}
    changed |= {part for part in found.keys() - was.keys() if not part.startswith("metadata ")}
    named = {loss.partition(": ")[0] for loss in losses}
    named |= {loss.rpartition(" becomes ")[2] for loss in losses}
    return sorted(changed - named)
