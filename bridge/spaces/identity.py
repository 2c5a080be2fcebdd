"""Identity and description of a Space and of the embedder that made it."""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import numpy as np

from embedders.space import Space
from embedders.standardise import IGNORED_STD
from wshard.core.messages import plural

if TYPE_CHECKING:
    from embedders.base import Embedder
    from embedders.canonical_json import JSON
    from embedders.lanes import LaneSpec
    from embedders.space import Space

_LISTED: Final = 5  # lanes that are named
_REASONS: Final = ((True, "name"), (False, "scale"))
_WHY: Final = {
    True: "the others have their names",
    False: "the others have their scale and order, as no channel has a name; if they mean something else, ingest the "
    "files with --map, which gives the lane another name",
}


def describe_lanes(space: Space) -> str:
    """Return the lanes of a Space in words."""
    unknown = [None] * len(space.lanes)
    lanes = [
        f"{lane.name}{list(lane.shape)}{_of_wider(lane)}"
        + ("" if weight is None else f"={weight:.3g}")
        + ("" if rate is None else f" at {rate:.4g} Hz")
        for lane, weight, rate in zip(space.lanes, space.weights or unknown, space.rates or unknown, strict=True)
    ]
    lanes[_LISTED:] = [f"{len(lanes) - _LISTED} more lanes"] if len(lanes) > _LISTED + 1 else lanes[_LISTED:]
    found = Counter("quaternion" if len(one.reference) > 1 else "angle" for one in space.rotations or ())
    counters = 0 if space.statistics is None else np.count_nonzero(space.statistics.std >= IGNORED_STD)
    found |= {"counter": int(counters)} if counters else {}
    channels = ", ".join(plural(count, what) for what, count in ({"channel": space.channels} | found).items())
    units = "".join(f", {one}" for one in space.units or ())
    return f"{', '.join(lanes)} ({channels}{units})"


def _of_wider(lane: LaneSpec) -> str:
    """Return " of [8] by name" where wider lanes are read as this one."""
    by_reason = {reason: [pick.width for pick in lane.picks if pick.named is named] for named, reason in _REASONS}
    listed = [f"{', '.join(map(str, widths))} by {reason}" for reason, widths in by_reason.items() if widths]
    return f" of {' and '.join(listed)}" if listed else ""


def describe_picks(space: Space) -> list[str]:
    """Return a line for each lane of other channels that the Space reads: which it leaves out, and why the others."""
    return [
        f"{lane.name} has {plural(pick.width, 'channel')} in some episodes, {lane.channels} in others: "
        f"all are compared but {_listed({*range(pick.width)} - {*pick.channels})} of the {pick.width}; "
        f"{_WHY[pick.named]}"
        for lane in space.lanes
        for pick in lane.picks
    ]


def describe_scales(space: Space) -> list[str]:
    """Return a line for each unit and source in which some episodes give a lane."""
    edges = [*accumulate((lane.channels for lane in space.lanes), initial=0)]
    owners = [space.lanes[bisect(edges, one.channels[0]) - 1] for one in space.units or ()]
    return [
        f"{lane.name}: {str(one).replace('of them', f'of {lane.channels} channels')}; compared in the scale of most"
        for lane, one in zip(owners, space.units or (), strict=True)
    ]


def _listed(channels: set[int]) -> str:
    if len(channels) > _LISTED:
        return f"{len(channels)} channels"
    return ("channel " if len(channels) == 1 else "channels ") + ", ".join(map(str, sorted(channels)))


def describe(space: Space) -> str:
    """Return one line that identifies a Space."""
    rows = f"{describe_lanes(space)}, {space.windows}"
    of_what = "task descriptions" if space.of_text else rows
    version = "" if space.version == 1 else f" version {space.version}"
    text = f"{space.embedder}{version} over {of_what}"
    return f"{text}, Space {space.fingerprint[:12]}"


def identity(embedder: Embedder) -> tuple[str, int, dict[str, JSON]]:
    """Return the identity of an embedder."""
    return embedder.name, embedder.version, dict(embedder.parameters())


def maker_of(space: Space) -> tuple[str, int, dict[str, JSON]]:
    """Return the identity of the embedder that made a Space."""
    return space.embedder, space.version, dict(space.parameters)


def newest(spaces: list[Space]) -> list[Space]:
    """Leave out what a newer version of the same embedder has replaced; spaces: oldest first.

    A version that changed vectors of many channels alone has the same number, and theirs have another size.
    """

    def replaced(space: Space, other: Space, *, is_later: bool) -> bool:
        resized = is_later and maker_of(other) == maker_of(space) and other.dim != space.dim
        alike = ("embedder", "lanes", "weights", "windows")
        is_newer = other.version > space.version or resized
        return is_newer and all(getattr(other, name) == getattr(space, name) for name in alike)

    return [
        space
        for place, space in enumerate(spaces)
        if not any(replaced(space, other, is_later=at > place) for at, other in enumerate(spaces))
    ]
