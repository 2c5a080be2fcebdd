"""Fields take every form that their documentation promises, for type checkers, too: `make types` reads this file."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

import numpy as np
import pytest

from wshard import Channel, DType, Episode, Residual

if TYPE_CHECKING:
    from numpy.typing import NDArray

ARRAY: NDArray[np.float32] = np.zeros((4, 3), np.float32)
LANE = Channel("state", "float32", (3,), ARRAY, names=["x", "y", "z"], kinds=["3:number"])


def test_the_fields_of_a_channel_give_one_form() -> None:
    assert_type(LANE.dtype, DType)
    assert_type(LANE.shape, list[int])
    assert_type(LANE.names, tuple[str, ...])
    assert Channel("state", np.float32, range(3, 4), ARRAY, names=iter("xyz"), kinds=("3:number",)) == LANE
    assert isinstance(Residual("state", "sign2nddiff", b"\1").data, np.ndarray)


def test_the_fields_of_an_episode_give_one_form() -> None:
    frames: dict[str, Channel] = {"state": LANE}
    arrays: dict[str, NDArray[np.float32]] = {"state": ARRAY}
    ep = Episode("a", observations={"state": LANE, "more": ARRAY}, actions=arrays, uncerts=frames)
    ep.omens = {"state": arrays}
    ep.timestep_range, ep.ticks, ep.rewards = range(2), [0, 1, 2, 3], [0.0, 1, 2, 3]
    assert_type(ep.observations, dict[str, Channel])
    assert_type(ep.omens, dict[str, dict[str, Channel]])
    assert_type(ep.timestep_range, list[int] | None)
    assert [lane.shape for lane in (*ep.lanes().values(), *ep.predictions().values())] == [[3]] * 5
    assert (ep.timestep_range, type(ep.ticks), type(ep.rewards).__name__) == ([0, 1], np.ndarray, "StepArray")


def test_episodes_share_no_lanes() -> None:
    one, other = Episode("a"), Episode("b")
    one.observations["state"] = LANE
    assert other.observations == {} == other.omens


def test_a_field_without_a_default_is_required() -> None:
    with pytest.raises(TypeError, match="dtype"):
        Channel("state")  # type checkers take the field for one with a default
