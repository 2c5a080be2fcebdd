"""Which lanes of an episode are embedded: chosen by name, or by one stated rule.

Knows: lane names, dtypes and shapes. Does not know: values, files, embedders.

The rule, where no lanes are named: every observation lane (signal/...) that is a number or a vector of at most 256
numbers per timestep, by name. Named lanes may be any such: actions, "reward", predictions ("omen/state/dreamer") and
uncertainties ("uncert/state") too. Images and other tensors are left out; episodes whose chosen lanes differ in name or
shape live in different Spaces.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from embedders.space import LaneSpec
from wshard.errors import NoLaneError

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from catalog.records import LaneDefinition

MAX_CHANNELS: Final = 256
_SUMMARISED: Final = ("signal/", "action/", "omen/", "uncert/")
_NO_NUMBERS: Final = frozenset({"bf16"})  # numpy has no arithmetic for it without another package


def is_vector(lane: LaneDefinition) -> bool:
    """Say whether a lane is a number or a small vector per timestep: what can be summarised and embedded."""
    size = math.prod(lane.shape)
    return len(lane.shape) <= 1 and 1 <= size <= MAX_CHANNELS and lane.dtype not in _NO_NUMBERS


def choose_lanes(
    lanes: Iterable[LaneDefinition], wanted: Sequence[str] | None, where: str = "episode"
) -> tuple[LaneSpec, ...]:
    """Return the lanes to embed, in the order in which they are wanted; those of the rule by name.

    wanted: ids ("state") or block names ("action/ctrl"), all of which must be there; None = the rule of this module.
    Raises NoLaneError listing what the episode has.
    """
    known = {lane.name: lane for lane in lanes}
    if wanted is None:
        names = sorted(name for name, lane in known.items() if name.startswith("signal/") and is_vector(lane))
    else:
        names = [block_name(name, known) for name in wanted]
    missing = [name for name in names if name not in known or not is_vector(known[name])]
    if missing or not names:
        told = ", ".join(f"{lane.name} {lane.dtype}{list(lane.shape)}" for lane in known.values()) or "none"
        asked = "a number or a vector of at most 256 numbers per timestep" if wanted is None else ", ".join(missing)
        raise NoLaneError(f"{where}: no observation lane to embed: expected {asked}, found lanes: {told}")
    return tuple(LaneSpec(name, tuple(known[name].shape)) for name in dict.fromkeys(names))


def block_name(name: str, known: Container[str]) -> str:
    """Return the block that a lane's name means: one that is `known` itself, else the observation of that id."""
    return name if name in known else f"signal/{name}"


def is_summarised(lane: LaneDefinition) -> bool:
    """Say whether the catalog keeps the moments of a lane, so that it may be embedded at any time later."""
    return is_vector(lane) and (lane.name == "reward" or lane.name.startswith(_SUMMARISED))
