"""What cannot be saved, and files that cannot be read: refused with our own errors, short and telling."""

from __future__ import annotations

import dataclasses
import re
import reprlib

import numpy as np
import pytest
from wshard_files import saved, with_blocks, with_json

from wshard import Channel, DType, Episode, Residual, TimebaseSpec, load_wshard, open_wshard, save_wshard
from wshard.errors import (
    EpisodeError,
    HeaderError,
    IndexCorruptError,
    LaneError,
)
from wshard.testing import assert_same_episode, make_episode

# ---- values that cannot be saved -----------------------------------------------------------------------------------


def altered(**fields: object) -> Episode:
    return dataclasses.replace(make_episode(0, 4), **fields)


def lane(data: object, dtype: DType = DType.FLOAT32, shape: tuple = (), **described: object) -> dict[str, Channel]:
    return {"x": Channel("x", dtype, list(shape), data, **described)}


UNSAVABLE = {
    "no id": (altered(id=""), "non-empty id"),
    "id is no text": (altered(id=7), "expected a string"),
    "id is no Unicode": (altered(id="\ud800"), "expected Unicode text"),
    "no timesteps": (altered(length=-1), "length > 0"),
    "no lanes": (Episode("e"), "length > 0"),
    "length as text": (altered(length="4"), "length > 0, a whole number, found '4'"),
    "length as float": (altered(length=4.0), "length > 0, a whole number, found 4.0"),
    "length as truth": (altered(length=True), "length > 0, a whole number, found True"),
    "chunk as text": (altered(chunk_index="0", total_chunks=1), "chunk_index '0' out of range"),
    "too few rows": (altered(observations=lane(np.zeros(3, "f4"))), "length mismatch: expected 4"),
    "a scalar": (altered(observations=lane(np.float32(1))), "length mismatch"),
    "other shape": (altered(observations=lane(np.zeros((4, 2), "f4"))), "Shape mismatch: declared"),
    "other dtype": (altered(observations=lane(np.zeros(4))), "declared f32, but the data are float64"),
    "complex": (altered(observations=lane(np.zeros(4, "c8"))), "found complex64"),
    "objects": (altered(observations=lane(np.array([None] * 4))), "found object"),
    "times": (altered(observations=lane(np.zeros(4, "M8[ns]"))), "found datetime64"),
    "text rewards": (altered(rewards=np.array(["a"] * 4)), "dtype: expected"),
    "short rewards": (altered(rewards=np.zeros(5)), "rewards: length mismatch"),
    "object dones": (altered(terminations=np.array([None] * 4)), "done: expected booleans"),
    "float ticks": (altered(ticks=np.zeros(4)), "expected 64-bit signed integers"),
    "huge ticks": (altered(ticks=np.full(4, 2**64 - 1, np.uint64)), "expected 64-bit signed integers"),
    "chunk without total": (altered(chunk_index=0), "total_chunks required"),
    "chunk out of range": (altered(chunk_index=2, total_chunks=2), "out of range"),
    "no rate": (altered(timebase=TimebaseSpec(tick_hz=0)), "tick_hz > 0"),
    "infinite rate": (altered(timebase=TimebaseSpec(tick_hz=float("inf"))), "tick_hz > 0"),
    "metadata not JSON": (altered(metadata={"a": object()}), "expected JSON values"),
    "metadata NaN": (altered(metadata={"a": float("nan")}), "expected JSON values"),
    "metadata of one key twice": (altered(metadata={1: "a", "1": "b"}), "keys 1 and '1' of metadata are the same"),
    "a key twice within": (
        altered(metadata={"poses": [{"x": 1}, {"true": 1, True: 2}]}),
        "the keys 'true' and True of metadata.poses[1] are the same in JSON",
    ),
    "metadata too big": (altered(metadata={"a": "x" * (1 << 24)}), "expected at most 16777216 bytes"),
    "rate as text": (altered(observations=lane(np.zeros(4, "f4"), sampling_rate_hz="x")), "signal/x: sampling_rate_hz"),
    "rate of NaN": (altered(observations=lane(np.zeros(4, "f4"), sampling_rate_hz=np.nan)), "a finite number > 0"),
    "semantics no text": (
        altered(observations=lane(np.zeros(4, "f4"), semantics=5)),
        "semantics: expected text, found 5",
    ),
    "modality as text": (
        altered(observations=lane(np.zeros(4, "f4"), modality="rgb")),
        "modality: expected a Modality",
    ),
    "a list as channel": (
        altered(actions={"x": [[0.0, 0.0]] * 4}),
        "action/x: expected a channel, such as Channel.of(name, array), found [[",
    ),
    "metadata of a list": (altered(metadata=[1]), "metadata: expected a mapping, found [1]"),
    "no episode": ("a.wshard", "expected an episode, then where to save it, found 'a.wshard'"),
    "slash in omen model": (altered(omens={"a": lane(np.zeros(4, "f4")) | {"b/c": None}}), "omen model 'b/c'"),
    "residual of floats": (altered(residuals={"a": Residual("a", "t", np.zeros(1))}), "packed bits in uint8"),
    "block is meta": (altered(blocks={"meta/episode": b""}), "would be read as a lane"),
    "block is a lane": (altered(blocks={"action/new": bytes(16)}), "would be read as a lane"),
    "block is a residual": (altered(blocks={"residual/a/b": b""}), "would be read as a lane"),
}


@pytest.mark.parametrize("case", UNSAVABLE)
def test_episodes_that_would_not_come_back_are_refused(case, tmp_path):
    """E-26, E-27: and an earlier file stays."""
    ep, message = UNSAVABLE[case]
    if case == "slash in omen model":
        ep.omens["a"]["b/c"] = ep.omens["a"]["x"]
    path = tmp_path / "a.wshard"
    save_wshard(make_episode(), path)
    before = path.read_bytes()
    with pytest.raises(EpisodeError, match=re.escape(message)):
        save_wshard(ep, path)
    assert path.read_bytes() == before
    assert [child.name for child in tmp_path.iterdir()] == ["a.wshard"]


# ---- files that cannot be read -------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", [0, 2, 4, 255])
def test_other_roles_are_refused(role):
    """E-1."""
    with pytest.raises(HeaderError, match=f"Invalid W-SHARD role: expected 5 at offset 5, found {role}"):
        load_wshard(with_blocks(saved(make_episode()), {}, role))


def test_files_without_any_meta_block_are_refused():
    """E-2."""
    gone = dict.fromkeys(("meta/wshard", "meta/episode", "meta/channels"))
    with pytest.raises(LaneError, match="not an episode"):
        load_wshard(with_blocks(saved(make_episode()), gone))


def test_duplicate_blocks_are_refused():
    """E-13: which of the two is meant is unknown."""
    data = saved(make_episode())
    twice = data.replace(b"signal/gripper\0signal/joint_pos\0", b"signal/gripper\0signal/gripper\0\0\0")
    index = bytearray(twice)
    with open_wshard(data) as file:
        number = file.shard.names().index("signal/joint_pos")
    index[64 + 48 * number + 12] = len("signal/gripper")
    with pytest.raises(IndexCorruptError, match="'signal/gripper' is there twice"):
        load_wshard(bytes(index))


HUGE = 10**4000
BAD_JSON = {
    "deeply nested": ("meta/episode", b"[" * 100_000),
    "deeply nested object": ("meta/wshard", b'{"a":' * 100_000),
    "no JSON": ("meta/channels", b"{"),
    "not UTF-8": ("meta/episode", b'{"a":"\xff"}'),
    "a list": ("meta/episode", b"[]"),
    "a number": ("meta/wshard", b"1"),
    "ten thousand digits": ("meta/episode", b'{"length_T":' + b"9" * 10_000 + b"}"),
    "too long": ("meta/episode", b'{"a":"' + b"x" * (1 << 24) + b'"}'),
}
BAD_VALUES = {
    "meta/episode": [
        {"length_T": value}
        for value in (-1, 1 << 41, 1.5, "20", True, [], {}, float("nan"), float("inf"), 19, 21, HUGE)
    ]
    + [{"episode_id": value} for value in (None, 1, [], "\ud800")]
    + [{"metadata": value} for value in ([1], "x", 7)]
    + [{"synthesized": value} for value in ("reward", 7, [1], {"a": 1})]
    + [{"timestep_range": value} for value in ([1], "ab", 3, ["a", "b"], [0, [1]])]
    + [{"chunk_index": value} for value in ("1", [1], 0.5)]
    + [{"timebase": {"epoch_ns": value}} for value in ("now", 0.5, [])]
    + [{"action_spaces": value} for value in (1, [1], [{"name": 1}], {"a": 1})],
    "meta/channels": [{"channels": value} for value in (1, "x", [1], [None], [[]], {"a": 1})]
    + [{"lanes": value} for value in (1, {"a": {}}, [1])]
    + [
        {"channels": [{"id": "joint_pos"} | row]}
        for row in (
            {"dtype": "f33"},
            {"dtype": None},
            {"dtype": []},
            {"shape": 7},
            {"shape": [-1]},
            {"shape": [1.0]},
            {"shape": [True]},
            {"shape": [1 << 41]},
            {"shape": [1] * 64},
            {"shape": [6]},
            {"shape": [0]},
            {"shape": ["7"]},
            {"shape": [1 << 39, 1 << 39, 0]},
            {"id": 5},
            {"signal_block": ["x"]},
        )
    ],
}


@pytest.mark.parametrize("case", BAD_JSON)
def test_meta_blocks_that_are_not_proper_json_are_refused(case):
    """E-2."""
    block, content = BAD_JSON[case]
    with pytest.raises(ValueError, match=block) as caught:
        load_wshard(with_blocks(saved(make_episode()), {block: content}))
    assert type(caught.value).__module__ == "wshard.errors"
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("block", "change"),
    [(block, change) for block, changes in BAD_VALUES.items() for change in changes],
    ids=reprlib.repr,
)
def test_meta_values_of_a_wrong_kind_are_refused(block, change):
    """E-3 to E-8."""
    data = with_json(saved(make_episode()), block, **change)
    with pytest.raises(LaneError) as caught:
        load_wshard(data)
    assert len(str(caught.value)) < 1000


ODD_VALUES = {
    "meta/episode": [
        {"timebase": value}
        for value in (None, 1, [], {"type": []}, {"type": "x"}, {"tick_hz": "30"}, {"tick_hz": HUGE})
    ]
    + [{"timebase": {"dt_ns": value}} for value in (0, -1, HUGE, 1e-320, 1e308, float("inf"), "1", True)]
    + [{"timebase": {"tick_hz": value}} for value in (0, -1.0, 1e308, 5e-324, float("nan"), True, [])]
    + [{"length_T": 20.0}, {"env_id": None}, {"metadata": None}, {"chunk_index": None}, {"unknown key": [1]}],
    "meta/channels": [
        {"channels": [{"id": "joint_pos", "shape": [7]} | row]}
        for row in (
            {"modality": ["rgb"]},
            {"modality": "smell"},
            {"sampling_rate_hz": HUGE},
            {"sampling_rate_hz": "1"},
            {"content_type": 5},
            {"semantics": {"a": 1}},
            {"dtype": "float32"},
        )
    ],
    "meta/wshard": [{"timebase": 7}, {"version": 1}, {"format": []}, {"residual_edges": 1}],
}


@pytest.mark.parametrize(
    ("block", "change"),
    [(block, change) for block, changes in ODD_VALUES.items() for change in changes],
    ids=reprlib.repr,
)
def test_odd_meta_values_that_do_not_matter_are_read_around_and_can_be_saved_again(block, change):
    """E-3 to E-7: whatever is read can be written."""
    found = load_wshard(with_json(saved(make_episode()), block, **change))
    np.testing.assert_array_equal(found.observations["joint_pos"].data, make_episode().observations["joint_pos"].data)
    assert_same_episode(load_wshard(saved(found)), found)


def test_huge_lengths_are_refused_before_anybody_counts_on_them():
    """E-3: also where no lane could contradict."""
    empty = Episode("e", length=4, observations={"s": Channel.of("s", np.zeros((4, 0), np.float32))})
    data = with_blocks(saved(empty), dict.fromkeys(("reward", "done", "time/ticks")))
    assert load_wshard(data).length == 4
    with pytest.raises(LaneError, match="length_T says 1099511627776 timesteps, but no block has more than"):
        open_wshard(with_json(data, "meta/episode", length_T=1 << 40))


def test_a_reward_of_another_width_is_refused_with_the_reading_that_fits():
    """E-9."""
    data = with_blocks(saved(make_episode(0, 20)), {"reward": np.ones(20).tobytes()})
    with pytest.raises(LaneError, match=r"length mismatch: .* gives 40 \(the bytes would fit f64\)"):
        load_wshard(data)


def test_lanes_that_only_the_name_reports_follow_the_profile():
    """E-10, E-11."""
    data = saved(make_episode(0, 4))
    undeclared = {
        "action/gripper/extra": np.arange(4, dtype="<f4").tobytes(),  # the channel of the same name tells dtype, shape
        "omen/joint_pos/m": np.arange(28, dtype="<f4").tobytes(),
        "omen/latent_action_codebook/m": np.arange(4, dtype="<i4").tobytes(),
        "uncert/other/m/std": np.arange(8, dtype="<f4").tobytes(),
        "omen/lonely": bytes(16),
        "action/odd": bytes(17),
        "signal/raw": bytes(16),
        "aux/reward": bytes(3),
        "aux/truncations": bytes(3),
    }
    found = load_wshard(with_blocks(data, undeclared))
    shapes = {name: (lane.dtype.value, lane.shape) for name, lane in (found.actions | found.predictions()).items()}
    assert shapes == {
        "ctrl": ("f32", [4]),
        "gripper/extra": ("f32", []),
        "omen/joint_pos/m": ("f32", [7]),
        "omen/latent_action_codebook/m": ("i32", []),
        "uncert/other/m/std": ("f32", [2]),
    }
    raw = ["action/odd", "aux/reward", "aux/truncations", "omen/lonely", "signal/raw"]
    assert sorted(found.blocks) == raw
    assert_same_episode(load_wshard(saved(found)), found)
