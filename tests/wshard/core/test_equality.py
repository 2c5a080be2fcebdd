"""Episodes, channels and residuals compare by their values, arrays and NaN included."""

from __future__ import annotations

import io
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from wshard import (
    Channel,
    ChunkedEpisodeReader,
    ChunkedEpisodeWriter,
    DType,
    Episode,
    Format,
    Residual,
    TimebaseSpec,
    list_episodes,
    load_wshard,
    open_sink,
    save_wshard,
)
from wshard.testing import episodes, make_episode


@given(episodes())
def test_any_episode_equals_its_copy_and_what_was_saved_of_it(ep):
    file = io.BytesIO()
    save_wshard(ep, file)
    assert ep == ep.clone()
    assert load_wshard(file.getvalue()) == ep
    assert ep == ep  # noqa: PLR0124  (what raised)


def test_a_nan_that_signals_is_equal_without_a_warning():
    bits = np.array([0x7F81, 1], np.uint16)
    lane, again = (Channel("s", DType.BFLOAT16, [], bits.view(DType.BFLOAT16.numpy_dtype)) for _ in range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lane == again


def with_lane(**changes: object) -> Episode:
    ep = make_episode()
    ep.observations["gripper"] = replace(ep.observations["gripper"], **changes)
    return ep


def other_values() -> Episode:
    ep = make_episode().clone()
    ep.observations["gripper"].data[3] += 1
    return ep


OTHERS = {
    "id": replace(make_episode(), id="b"),
    "timebase": replace(make_episode(), timebase=TimebaseSpec(tick_hz=1)),
    "rewards": replace(make_episode(), rewards=np.zeros(20)),
    "no rewards": replace(make_episode(), rewards=None),
    "metadata": replace(make_episode(), metadata={"a": [1]}),
    "nothing of the lanes": Episode(make_episode().id, length=20),
    "a lane's values": other_values(),
    "a lane's semantics": with_lane(semantics="mm"),
    "a lane's dtype": with_lane(dtype=DType.FLOAT64),
    "a lane's shape": with_lane(data=np.zeros(20)[:, None]),
    "residuals": replace(make_episode(), residuals={"gripper": Residual("gripper", "t", np.zeros(3, np.uint8))}),
    "blocks": replace(make_episode(), blocks={"debug/log": b"x"}),
    "another type": make_episode().observations["gripper"],
    "nothing": None,
}


@pytest.mark.parametrize("case", OTHERS)
def test_one_value_makes_the_difference(case):
    assert make_episode() != OTHERS[case]
    assert OTHERS[case] != make_episode()


def test_not_a_number_equals_itself_and_dtypes_are_those_that_channels_declare():
    holes = np.array([1, np.nan, np.inf], np.float32)
    assert Channel.of("a", holes) == Channel.of("a", holes.copy())
    assert Channel.of("a", holes) != Channel.of("a", holes.astype(np.float64))
    assert Channel.of("a", holes) == Channel.of("a", holes.astype(">f4"))
    assert Channel("a", "bool", [], ["x", None]) == Channel("a", "bool", [], ["x", None])
    assert Channel("a", "bool", [], ["x", None]) != Channel("a", "bool", [], [1.0, 2.0])
    assert Episode("e", metadata={"a": [{"b": holes}]}) == Episode("e", metadata={"a": [{"b": holes.copy()}]})
    assert Episode("e", metadata={"a": [holes]}) != Episode("e", metadata={"a": [None]})
    assert Episode("e", ticks=np.arange(3)) == Episode("e", ticks=np.arange(3, dtype=np.int32))


def test_values_can_be_found_in_lists_and_have_no_hash():
    all_of = [make_episode(0), make_episode(1)]
    assert all_of.index(make_episode(1)) == 1
    assert make_episode(2) not in all_of
    for value in (make_episode(), make_episode().observations["gripper"], Residual("a", "t", b"x")):
        with pytest.raises(TypeError, match="unhashable"):
            hash(value)


def test_where_an_episode_came_from_makes_no_difference(tmp_path):
    """docs/formats.md: load() of chunks gives an equal one back."""
    ep = make_episode()
    writer = ChunkedEpisodeWriter(tmp_path, ep.id, 7)
    writer.write_episode_chunked(ep)
    found = ChunkedEpisodeReader(writer.finalize_manifest()).load()
    assert (found, found.source_format) == (ep, Format.WSHARD)


def test_listed_episodes_equal_a_list_of_them(tmp_path):
    with open_sink(tmp_path / "all.h5", "hdf5") as sink:
        for number in range(3):
            sink.write(make_episode(number, T=5))
    first, second = list_episodes(tmp_path / "all.h5"), list_episodes(tmp_path / "all.h5")
    assert len(first) == 3
    assert first == second == [*first] == first[:]
    assert first != [*first][:2]
    assert first != [*reversed(first)]
    assert first != "e0"


def test_arrays_of_all_lanes_become_channels(tmp_path):
    rows = np.arange(12, dtype=np.float32).reshape(6, 2)
    lanes = {"observations": {"state": rows}, "actions": {"ctrl": rows}, "uncerts": {"state/model/std": rows}}
    one = Episode("e", omens={"state": {"model": rows}}, **lanes)
    save_wshard(one, tmp_path / "e.wshard")
    assert load_wshard(tmp_path / "e.wshard").predictions() == one.predictions()
    assert {*one} == {"signal/state", "action/ctrl", "omen/state/model", "uncert/state/model/std"}
    assert all(np.array_equal(one[name], rows) and name in one for name in one)
    assert "state" in one
