"""Choose the lanes of an episode to embed, by name or by a default rule.

By default these are all observation lanes (signal/...) with a number, or a vector or matrix of at most 1024 numbers per
timestep, of any dtype but bf16; the cells of a grid world are a matrix, too. An embedder of frames gets one image lane:
the named one, or the only observation lane that holds images with sides of at least 16 pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from embedders.image.frames import is_image
from embedders.lanes import LaneSpec
from embedders.numeric import check_number
from wshard.core.messages import shown
from wshard.errors import EmbedderError, NoLaneError

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from catalog.catalog import Catalog
    from catalog.records import LaneDefinition, Layout

MAX_CHANNELS: Final = 1024
MIN_SIDE: Final = 16
_VECTOR: Final = (
    f"a number or a vector or matrix of at most {MAX_CHANNELS} numbers per timestep (cameras: embedder 'frames'; "
    "bf16: none)"
)
_PICTURE: Final = "one lane of images of at least 16 x 16 pixels, not bf16 (where there are several, name one)"
_SUMMARISED: Final = ("signal/", "action/", "omen/", "uncert/")
_NO_NUMBERS: Final = frozenset({"bf16"})  # numpy has no arithmetic for it without another package


def is_vector(lane: LaneDefinition) -> bool:
    """Say whether a lane is a number or a small vector or matrix per timestep: what can be summarised and embedded."""
    return has_numbers(lane.shape, lane.dtype) and 1 <= math.prod(lane.shape) <= MAX_CHANNELS


def has_numbers(shape: Sequence[int], dtype: str) -> bool:
    """Say whether a lane has a number, a vector or a matrix per timestep: no image, not of bf16.

    Bytes are an image in any order of axes if two have MIN_SIDE or more, else numbers, as cells of a grid world are.
    """
    is_image = len(shape) > 1 and (_has_images(shape) or (dtype == "u8" and sorted(shape)[-2] >= MIN_SIDE))
    return not is_image and dtype not in _NO_NUMBERS


def is_picture(lane: LaneDefinition) -> bool:
    """Say whether a lane holds images that an embedder of frames can take."""
    return _has_images(lane.shape) and lane.dtype not in _NO_NUMBERS


def _has_images(shape: Sequence[int]) -> bool:
    return is_image(shape) and min(shape[:2]) >= MIN_SIDE


@dataclass(frozen=True)
class LaneChoice:
    """Which lanes to embed: names None = the default rule of this module. frames: the embedder takes images.

    names: ids ("state") or block names ("action/ctrl"), all of which must exist. weights: those of the lanes by the
    same names, None = equal weights for all channels.
    """

    names: tuple[str, ...] | None = None
    weights: Mapping[str, float] | None = None
    frames: bool = False

    @staticmethod
    def of(lanes: str | Sequence[str] | Mapping[str, float] | None, *, frames: bool = False) -> LaneChoice:
        """Return the choice that people write: one name, several, or names with weights."""
        named = named_lanes(lanes)
        return LaneChoice(None if named is None else tuple(named), named if isinstance(named, dict) else None, frames)


def named_lanes(lanes: str | Iterable[str] | Mapping[str, float] | None) -> list[str] | dict[str, float] | None:
    """Return the names of lanes that people write, one or several, or names with weights; None for no choice.

    Raises EmbedderError for anything else.
    """
    if lanes is None:
        return None
    listed = [lanes] if isinstance(lanes, str) or not isinstance(lanes, Iterable) else list(lanes)
    if not all(isinstance(name, str) for name in listed):
        raise EmbedderError(f"lanes: expected the name of a lane, several, or names with weights, found {shown(lanes)}")
    return dict(lanes) if isinstance(lanes, Mapping) else listed


def choose_lanes(lanes: Iterable[LaneDefinition], choice: LaneChoice, where: str = "episode") -> tuple[LaneSpec, ...]:
    """Return the lanes to embed, in the order in which they are named; those of the rule by name.

    Raises NoLaneError listing what the episode has.
    """
    known = {lane.name: lane for lane in lanes}
    fits = is_picture if choice.frames else is_vector
    if choice.names is None:
        names = sorted(name for name, lane in known.items() if name.startswith("signal/") and fits(lane))
    else:
        names = [*dict.fromkeys(block_name(name, known) for name in choice.names)]
    absent = [name for name in names if name not in known]
    unfit = [name for name in names if name in known and not fits(known[name])]
    if absent or unfit or not names or (choice.frames and len(names) > 1):
        shown = ", ".join(f"{lane.name} {lane.dtype}{list(lane.shape)}" for lane in known.values()) or "none"
        what = _PICTURE if choice.frames else _VECTOR
        wanted = ", ".join(absent) or "".join(f"{name} as " for name in unfit[:1]) + what
        raise NoLaneError(f"{where}: no observation lane to embed: expected {wanted}, found lanes: {shown}")
    return tuple(_spec(name, tuple(known[name].shape), is_flat=not choice.frames) for name in names)


def _spec(name: str, shape: tuple[int, ...], *, is_flat: bool) -> LaneSpec:
    """Return the lane; flat: a matrix is compared as the vector of its numbers, row by row."""
    return LaneSpec(name, (math.prod(shape),) if is_flat and len(shape) > 1 else shape)


def chosen_lanes(layout: Layout) -> tuple[LaneSpec, ...]:
    """Return the lanes of a layout that are compared by default, none where there is none."""
    try:
        return choose_lanes(layout.lanes, LaneChoice())
    except NoLaneError:
        return ()


def has_lanes(layout: Layout, lanes: Iterable[LaneSpec]) -> bool:
    """Say whether episodes of the layout have these lanes, or such as are read as them."""
    shapes = {lane.name: tuple(lane.shape) for lane in layout.lanes}
    return all(lane.name in shapes and lane.takes(shapes[lane.name]) for lane in lanes)


def layouts_with(catalog: Catalog, lanes: Iterable[LaneSpec]) -> list[int]:
    """Return the ids of the layouts of episodes that have these lanes."""
    wanted = tuple(lanes)
    return [layout.id for layout in catalog.query.layouts() if has_lanes(layout, wanted)]


def block_name(name: str, known: Container[str]) -> str:
    """Return the block that a lane's name means: one that is `known` itself, else the observation of that id.

    Where neither is known, a name that begins as blocks do is one of a block.
    """
    observation = f"signal/{name}"
    return name if name in known or (name.startswith(_SUMMARISED) and observation not in known) else observation


def is_summarised(lane: LaneDefinition) -> bool:
    """Return True if the catalog stores the moments of a lane, so that it can be embedded later."""
    return is_vector(lane) and (lane.name == "reward" or lane.name.startswith(_SUMMARISED))


def weights_in(weights: Mapping[str, float] | None, lanes: Sequence[LaneSpec]) -> tuple[float, ...] | None:
    """Return the weights of the lanes, in their order, scaled to the sum 1: equal ratios make equal Spaces.

    `weights` names every one of the lanes. Raises EmbedderError for a weight that is not a number > 0.
    """
    if weights is None:
        return None
    names = {lane.name for lane in lanes}
    by_block = {block_name(name, names): check_number(weight, "weights of lanes") for name, weight in weights.items()}
    ordered = [by_block[lane.name] for lane in lanes]
    if min(ordered) <= 0:
        raise EmbedderError(f"weights of lanes: expected numbers > 0, found {by_block}")
    total = math.fsum(ordered)
    if abs(total - 1) < 2**-50:  # already scaled: scaling again could change the last bit, and thereby the Space
        return tuple(ordered)
    return tuple(weight / total for weight in ordered)
