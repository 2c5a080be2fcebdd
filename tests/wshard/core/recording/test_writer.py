"""Recording step by step: equal to a batch save, safe against kills, second writers and wrong values."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wshard_recording import STATE, interrupted, record, write, writer

from wshard import (
    Channel,
    ChannelDef,
    DType,
    Episode,
    FormatWarning,
    Modality,
    TimebaseSpec,
    WShardStreamWriter,
    discard,
    load_wshard,
    recover,
    save_wshard,
)
from wshard.errors import CodecError, EpisodeError, LaneError, RecordingExistsError, RecordingStateError
from wshard.testing import assert_same_episode

# ---- the result ----------------------------------------------------------------------------------------------------


@given(
    steps=st.integers(1, 30),
    interval=st.integers(1, 31),
    dtypes=st.lists(st.sampled_from(list(DType)), min_size=1, max_size=4),
    compression=st.sampled_from(["none", "zstd", {"signal/*": "lz4"}]),
    truncated=st.booleans(),
    rewarded=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_stream_equals_batch_byte_for_byte(
    tmp_path_factory, *, steps, interval, dtypes, compression, truncated, rewarded, seed
):
    """J-7: for any length, flush interval, dtype and codec."""
    rng = np.random.default_rng(seed)
    path = tmp_path_factory.mktemp("stream") / "a.wshard"
    shapes = [rng.integers(0, 4, rng.integers(0, 3)).tolist() for _ in dtypes]
    names = [f"{kind.value}/{number}" for number, kind in enumerate(dtypes)]
    arrays = {
        name: rng.integers(0, 2, (steps, *shape)).astype(kind.numpy_dtype)
        for name, kind, shape in zip(names, dtypes, shapes, strict=True)
    }
    rewards, ends = rng.normal(size=steps).astype(np.float32), rng.random(steps) < 0.3
    defs = [ChannelDef(name, kind, shape) for name, kind, shape in zip(names, dtypes, shapes, strict=True)]
    with WShardStreamWriter(path, "ep", defs, compression=compression, flush_interval=interval) as recording:
        recording.begin_episode("Env-v0", TimebaseSpec(tick_hz=29.97), metadata={"a": 1})
        for t in range(steps):
            row = {name: array[t] for name, array in arrays.items()}
            reward = rewards[t] if rewarded else None
            recording.write_timestep(t, row, row, reward, ends[t], truncated=truncated and t == steps - 1)
        size = recording.end_episode(metadata={"success": True})
    batch = Episode("ep", "Env-v0", steps, TimebaseSpec(tick_hz=29.97), terminations=ends)
    batch.rewards = rewards if rewarded else None
    batch.observations = {name: Channel.of(name, array) for name, array in arrays.items()}
    batch.actions = dict(batch.observations)
    batch.metadata = {"a": 1, "success": True}
    batch.ticks = np.arange(steps)
    batch.truncations = np.arange(steps) == steps - 1 if truncated else None
    expected = io.BytesIO()
    save_wshard(batch, expected, compression)
    assert path.read_bytes() == expected.getvalue()
    assert size == len(expected.getvalue())
    assert_same_episode(load_wshard(path), batch)


def test_partial_exists_from_begin_to_end(tmp_path):
    """J-1."""
    recording = writer(tmp_path / "a.wshard")
    assert list(tmp_path.iterdir()) == []
    recording.begin_episode()
    assert [path.name for path in tmp_path.iterdir()] == ["a.wshard.partial"]
    write(recording, 0)
    assert (recording.timestep_count, recording.is_finalized) == (1, False)
    recording.end_episode()
    assert [path.name for path in tmp_path.iterdir()] == ["a.wshard"]
    assert recording.is_finalized


def test_memory_stays_constant_while_data_go_to_disk(tmp_path):
    recording = writer(tmp_path / "a.wshard", flush_interval=10)
    recording.begin_episode()
    sizes = []
    for t in range(40):
        write(recording, t)
        sizes.append(recording.partial.stat().st_size)
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 5
    recording.end_episode()


def test_recording_without_a_timestep_gives_an_empty_episode(tmp_path):
    record(tmp_path / "a.wshard", 0)
    ep = load_wshard(tmp_path / "a.wshard")
    assert ep.length == 0
    assert ep.observations["state"].data.shape == (0, 2)


def test_modality_and_channels_that_never_came(tmp_path):
    camera = ChannelDef("cam/rgb", DType.UINT8, [2, 2, 3], Modality.RGB)
    with WShardStreamWriter(tmp_path / "a.wshard", "e", [camera, STATE], action_defs=[]) as recording:
        recording.begin_episode()
        recording.write_timestep(0, {"cam/rgb": np.ones((2, 2, 3), np.uint8)}, {}, 0, done=True)
    ep = load_wshard(tmp_path / "a.wshard")
    assert list(ep.lanes()) == ["signal/cam/rgb"]
    assert ep.observations["cam/rgb"].modality is Modality.RGB


# ---- the form of the format's documents ----------------------------------------------------------------------------


def test_the_form_of_the_documents_works(tmp_path):
    """Channels as dicts, one dict of values per timestep; equal to the other form, byte for byte."""
    channels = [
        {"id": "joint_pos", "dtype": "f32", "shape": [7]},
        {"name": "action/ctrl", "dtype": "float32", "shape": [2]},
    ]
    rng = np.random.default_rng(0)
    joints, ctrl = rng.normal(size=(70, 7)).astype(np.float32), rng.normal(size=(70, 2)).astype(np.float32)
    with WShardStreamWriter(tmp_path / "a.wshard", "ep_001", channels) as w:
        w.begin_episode()
        for t in range(70):
            w.write_timestep({"joint_pos": joints[t], "ctrl": ctrl[t]}, reward=t / 2, done=t == 69)
        w.end_episode()
    defs = [ChannelDef("joint_pos", DType.FLOAT32, [7])], [ChannelDef("ctrl", DType.FLOAT32, [2])]
    with WShardStreamWriter(tmp_path / "b.wshard", "ep_001", defs[0], action_defs=defs[1]) as w:
        w.begin_episode()
        for t in range(70):
            w.write_timestep(t, {"joint_pos": joints[t]}, {"ctrl": ctrl[t]}, t / 2, t == 69)
    assert (tmp_path / "a.wshard").read_bytes() == (tmp_path / "b.wshard").read_bytes()
    ep = load_wshard(tmp_path / "a.wshard")
    np.testing.assert_array_equal(ep.observations["joint_pos"].data, joints)
    np.testing.assert_array_equal(ep.actions["ctrl"].data, ctrl)
    assert ep.terminations.tolist() == [False] * 69 + [True]


@pytest.mark.parametrize("name", ["action", "actions", "act"])
@pytest.mark.parametrize("as_defs", [False, True])
def test_an_action_is_reported_by_its_id(tmp_path, name, as_defs):
    channels = [
        {"id": "state", "dtype": np.float32, "shape": [2]},
        {"id": name, "dtype": np.dtype(">f8"), "shape": [1]},
    ]
    if as_defs:
        channels = [ChannelDef(channel["id"], channel["dtype"], channel["shape"]) for channel in channels]
    with WShardStreamWriter(tmp_path / "a.wshard", "e", channels) as w:
        w.begin_episode()
        for t in range(3):
            w.write_timestep({"state": [t, t], name: [-t]}, reward=t, done=t == 2)
    ep = load_wshard(tmp_path / "a.wshard")
    assert (list(ep.observations), list(ep.actions)) == (["state"], [name])
    assert (ep.observations["state"].dtype, ep.actions[name].dtype) == (DType.FLOAT32, DType.FLOAT64)
    assert ep.actions[name].data.tolist() == [[0], [-1], [-2]]


def test_dtypes_of_numpy_are_those_of_their_names():
    for kind in DType:
        assert DType.parse(kind.numpy_dtype.type) == (DType.UINT16 if kind.numpy_dtype == np.uint16 else kind)
    for wrong in (np.complex64, np.datetime64, np.floating, np.dtype("f4,i4"), object, float):
        with pytest.raises(LaneError, match="expected one of f64"):
            DType.parse(wrong)


def test_terminated_and_truncated_as_simulators_report_them(tmp_path):
    with writer(tmp_path / "a.wshard") as recording:
        recording.begin_episode()
        for terminated, truncated in ((False, False), (np.True_, False), (False, np.True_)):
            recording.write_timestep({"state": [1, 2], "ctrl": 3}, reward=1, terminated=terminated, truncated=truncated)
        with pytest.raises(EpisodeError, match="expected done or terminated"):
            recording.write_timestep({"state": [1, 2], "ctrl": 3}, reward=1, done=True, terminated=False)
    ep = load_wshard(tmp_path / "a.wshard")
    assert ep.terminations.tolist() == [False, True, False]
    assert ep.truncations.tolist() == [False, False, True]


def test_dict_channels_work_in_the_reference_form_too(tmp_path):
    """A channel that does not say what it is may come as observation and as action."""
    with WShardStreamWriter(tmp_path / "a.wshard", "e", [{"id": "s"}]) as w:
        w.begin_episode()
        w.write_timestep(0, {"s": np.float32(1)}, {"s": np.float32(2)}, 0, done=False)
    with WShardStreamWriter(tmp_path / "b.wshard", "e", [{"id": "s"}]) as w:
        w.begin_episode()
        w.write_timestep({"s": np.float32(1), "action/s": np.float32(2)}, reward=0, done=False)
    assert (tmp_path / "a.wshard").read_bytes() == (tmp_path / "b.wshard").read_bytes()
    assert list(load_wshard(tmp_path / "a.wshard").lanes()) == ["signal/s", "action/s"]


def test_dict_channels_carry_everything_that_a_channel_has(tmp_path):
    described = {"modality": "rgb", "semantics": "front", "sampling_rate_hz": 30.0, "content_type": "image/raw"}
    channel = {"id": "cam/rgb", "dtype": "u8", "shape": [2, 2, 3], **described}
    with WShardStreamWriter(tmp_path / "a.wshard", "e", [channel]) as w:
        w.begin_episode()
        w.write_timestep({"signal/cam/rgb": np.ones((2, 2, 3), np.uint8)}, reward=0)
    found = load_wshard(tmp_path / "a.wshard").observations["cam/rgb"]
    assert {name: getattr(found, name) for name in described} == described


def test_a_modality_that_is_none_is_reported_with_those_that_there_are(tmp_path):
    channel = {"id": "s", "modality": "smell"}
    with pytest.raises(EpisodeError, match=r"channel 's': modality: expected one of rgb, depth, .* found 'smell'"):
        WShardStreamWriter(tmp_path / "a.wshard", "e", [channel])


@pytest.mark.parametrize(
    "channel",
    [
        {},
        {"dtype": "f32"},
        {"id": "s", "dtype": "complex64"},
        {"id": "s", "units": "m"},
        {"id": "s", "unit": 5},
        {"id": "s", "names": "xyz"},
        {"id": "s", "shape": 3},
        {"id": "s", "shape": ["a"]},
        {"id": "s", "shape": [-1]},
        {"id": "s", "modality": "smell"},
        {"id": "s", "compression": "gzip"},
        {"id": "s", "compression": "lz4", "frame_steps": 4},
        {"id": "s", "frame_steps": 4},
        {"id": "s", "sampling_rate_hz": "x"},
        {"id": "s", "sampling_rate_hz": -1.0},
        {"id": "s", "sampling_rate_hz": float("inf")},
        {"id": "s", "semantics": 5},
        {"id": "s", "content_type": 7},
        "s",
        None,
    ],
)
def test_impossible_dict_channels_are_refused(tmp_path, channel):
    with pytest.raises((EpisodeError, CodecError)):
        WShardStreamWriter(tmp_path / "a.wshard", "e", [channel])


def test_wrong_timesteps_of_the_documents_form_leave_no_trace(tmp_path):
    """J-5."""
    with writer(tmp_path / "a.wshard") as recording:
        recording.begin_episode()
        recording.write_timestep({"state": [1, 2], "ctrl": 3}, reward=1)
        for values, given in (
            ({"state": [1, 2], "ctrl": 3, "x": 1}, {"reward": 1}),
            ({"state": [1, 2], "signal/state": [1, 2]}, {"reward": 1}),
            ({"state": [1, 2]}, {"reward": 1}),
            ({"state": [1, 2], "ctrl": 3}, {}),
            ({5: [1, 2], "ctrl": 3}, {"reward": 1}),
            ({"state": [1, 2], "ctrl": 3}, {"reward": 1, "actions": {"ctrl": 3}}),
        ):
            with pytest.raises(EpisodeError):
                recording.write_timestep(values, **given)
    assert load_wshard(tmp_path / "a.wshard").length == 1


@pytest.mark.parametrize(
    ("channels", "values", "absent"),
    [
        ([{"id": "s"}, {"id": "action/c"}], {"s": 1}, "action/c"),
        ([{"id": "s"}, {"id": "c"}], {"action/s": 1}, "c"),
        ([{"id": "signal/s"}, {"id": "action/s"}], {"s": 1}, "action/s"),
        ([{"id": "s"}, {"id": "c"}], {}, "s, c"),
    ],
)
def test_a_declared_channel_that_does_not_come_by_name_is_refused_at_once(tmp_path, channels, values, absent):
    """Hours later it would be missing in the file; whole timesteps go on as if nothing had happened."""
    with WShardStreamWriter(tmp_path / "a.wshard", "e", channels) as recording:
        recording.begin_episode()
        with pytest.raises(EpisodeError, match=f"timestep 0: expected every channel, {absent} missing"):
            recording.write_timestep(values, reward=0)
        recording.write_timestep(
            dict.fromkeys((block for lane in recording._channels for block in lane.blocks), 1.0), reward=0
        )
    assert load_wshard(tmp_path / "a.wshard").length == 1


@given(st.sampled_from(["none", "zstd:7", {"signal/*": "lz4"}]), st.integers(1, 20), st.integers(1, 30))
def test_codecs_and_frames_of_single_channels_equal_a_batch_save(tmp_path_factory, compression, frame_steps, steps):
    """J-7, E-30."""
    path = tmp_path_factory.mktemp("stream") / "a.wshard"
    rows = np.repeat(np.arange(steps, dtype=np.int64)[:, None], 40, axis=1)
    channels = [
        {"id": "signal/a", "dtype": "i64", "shape": [40], "compression": "zstd:2", "frame_steps": frame_steps},
        {"id": "signal/b[0]", "dtype": "i64", "shape": [40], "compression": "lz4"},
        {"id": "signal/c", "dtype": "i64", "shape": [40]},
    ]
    with WShardStreamWriter(path, "e", channels, compression=compression, flush_interval=4) as w:
        w.begin_episode()
        for t in range(steps):
            w.write_timestep(dict.fromkeys(("a", "b[0]", "c"), rows[t]), reward=0.0)
    batch = Episode("e", length=steps, rewards=np.zeros(steps, "<f4"), terminations=np.zeros(steps, bool))
    batch.observations = {name: Channel.of(name, rows) for name in ("a", "b[0]", "c")}
    batch.ticks = np.arange(steps)
    base = compression if isinstance(compression, dict) else {"*": compression}
    expected = io.BytesIO()
    codecs = base | {"signal/a": "zstd:2", "signal/b[0]": "lz4"}
    save_wshard(batch, expected, codecs, frame_steps={"signal/a": frame_steps})
    assert path.read_bytes() == expected.getvalue()


def test_frames_of_no_timesteps_are_refused(tmp_path):
    with pytest.raises(CodecError, match="frame_steps: '\\*': expected"):
        writer(tmp_path / "a.wshard", compression="zstd", frame_steps=0)


@pytest.mark.parametrize(
    "options", [{"compression": {"state": "zstd"}}, {"compression": "zstd", "frame_steps": {"a": 4}}]
)
def test_a_codec_for_a_channel_that_is_not_recorded_is_refused_at_once(tmp_path, options):
    """Not at the end, when hours have been recorded; blocks that timesteps may bring can be named."""
    with pytest.raises(CodecError, match="expected a pattern or one of signal/state, action/ctrl, reward, "):
        writer(tmp_path / "a.wshard", **options)
    named = {"signal/state": "zstd", "action/ctrl": "lz4", "reward": "zstd", "aux/truncations": "zstd"}
    record(tmp_path / "a.wshard", 5, compression=named)
    partial = interrupted(tmp_path / "b.wshard", 9)
    with pytest.raises(CodecError, match="expected a pattern or one of signal/state, action/ctrl, reward, "):
        recover(partial, **options)
    assert load_wshard(recover(partial, compression=named)).length == 8


def test_seconds_bring_a_flush_before_the_interval_does(tmp_path):
    for seconds, flushed in ((0.0, True), (3600.0, False), (None, False)):
        with writer(tmp_path / "a.wshard", flush_interval=1000, flush_seconds=seconds) as recording:
            recording.begin_episode()
            write(recording, 0)
            before = recording.partial.stat().st_size
            write(recording, 1)
            assert (recording.partial.stat().st_size > before) is flushed


# ---- wrong calls and values ----------------------------------------------------------------------------------------


def test_calls_out_of_order_are_refused(tmp_path):
    recording = writer(tmp_path / "a.wshard", max_timesteps=1)
    for call in (recording.end_episode, lambda: write(recording, 0)):
        with pytest.raises(RecordingStateError, match="begin_episode first"):
            call()
    recording.begin_episode()
    with pytest.raises(RecordingStateError, match="has begun already"):
        recording.begin_episode()
    write(recording, 0)
    with pytest.raises(RecordingStateError, match="max_timesteps of 1"):
        write(recording, 1)
    recording.end_episode()
    for call in (recording.end_episode, recording.begin_episode):
        with pytest.raises(RecordingStateError):
            call()


REFUSED = {
    "unknown channel": {"observations": {"state": [0, 0], "x": 1}},
    "missing channel": {"observations": {}},
    "missing action": {"actions": {}},
    "wrong shape": {"observations": {"state": [0, 0, 0]}},
    "ragged": {"observations": {"state": [[0], [0, 1]]}},
    "text": {"observations": {"state": ["a", "b"]}},
    "none": {"observations": {"state": None}},
    "objects": {"observations": {"state": [None, 0]}},
    "too large for f32": {"observations": {"state": [1e300, 0]}},
    "too large for i8": {"actions": {"ctrl": 128}},
    "negative too large for i8": {"actions": {"ctrl": -129}},
    "float for i8": {"actions": {"ctrl": 0.5}},
    "action of another shape": {"actions": {"ctrl": [1]}},
    "missing reward": {"reward": None},
    "reward text": {"reward": "much"},
    "reward too large": {"reward": 1e300},
    "done of many": {"done": np.array([True, False])},
    "truncated of many": {"truncated": np.array([True, False])},
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("first", [True, False])
def test_refused_timesteps_leave_no_trace(tmp_path, case, first):
    """J-5: neither as the first timestep nor later."""
    if first and case.startswith("missing"):
        return  # what the first timestep leaves out is not recorded at all
    with writer(tmp_path / "a.wshard", flush_interval=2) as recording:
        recording.begin_episode()
        for t in range(0 if first else 3):
            write(recording, t)
        with pytest.raises(EpisodeError):
            write(recording, 99, **REFUSED[case])
        for t in range(0 if first else 3, 5):
            write(recording, t)
    record(tmp_path / "b.wshard", 5)
    assert (tmp_path / "a.wshard").read_bytes() == (tmp_path / "b.wshard").read_bytes()


def test_a_recording_without_rewards_has_none(tmp_path):
    """A demonstration that nobody rewarded is no episode of reward 0, also where it has to be recovered."""
    whole, killed = tmp_path / "whole.wshard", tmp_path / "killed.wshard"
    for path in (whole, killed):
        recording = writer(path, flush_interval=2)
        recording.begin_episode()
        for t in range(5):
            write(recording, t, reward=None)
            with pytest.raises(EpisodeError, match=f"timestep {t + 1}: expected what the first timestep had: .*reward"):
                write(recording, t, reward=0.5)
        if path == whole:
            recording.end_episode()
        else:
            shutil.copy(recording.partial, tmp_path / "copy.wshard.partial")
            recording.abort()
    assert load_wshard(whole).rewards is None
    rest = load_wshard(recover(tmp_path / "copy.wshard.partial"))
    assert rest.rewards is None
    assert rest.observations["state"].data.tolist() == [[t, 2 * t] for t in range(4)]


@pytest.mark.parametrize("t", [1.5, None, "1", 2**31, -(2**31)])
def test_ticks_that_are_not_32_bit_integers_are_refused(tmp_path, t):
    with writer(tmp_path / "a.wshard") as recording:
        recording.begin_episode()
        with pytest.raises(EpisodeError, match="timestep"):
            recording.write_timestep(t, {"state": [0, 0]}, {"ctrl": 0}, 0, done=False)


def test_infinite_and_undefined_values_are_preserved(tmp_path):
    with writer(tmp_path / "a.wshard") as recording:
        recording.begin_episode()
        write(recording, 0, observations={"state": np.array([np.nan, -np.inf])}, reward=float("inf"))
    ep = load_wshard(tmp_path / "a.wshard")
    assert np.isnan(ep.observations["state"].data[0, 0])
    assert ep.observations["state"].data[0, 1] == -np.inf
    assert ep.rewards[0] == np.inf


@pytest.mark.parametrize(
    ("channels", "options"),
    [
        ([STATE, STATE], {}),
        ([ChannelDef("x", DType.INT8, [-1])], {}),
        ([ChannelDef("x", DType.INT8, [], "rgb")], {}),
        *(([STATE], {"flush_interval": value}) for value in (0, "a", 1.5, None, True)),
        *(([STATE], {"max_timesteps": value}) for value in (0, -1, "a", 1.5)),
        *(([STATE], {"flush_seconds": value}) for value in (-1, "a", float("nan"), True)),
    ],
)
def test_impossible_channels_and_options_are_refused(tmp_path, channels, options):
    """At once: a limit that is none would never be reached."""
    with pytest.raises(EpisodeError):
        WShardStreamWriter(tmp_path / "a.wshard", "e", channels, **options)


def test_options_may_be_numbers_of_numpy(tmp_path):
    options = {"flush_interval": np.int64(2), "max_timesteps": np.int32(3), "flush_seconds": np.float32(3600)}
    with writer(tmp_path / "a.wshard", **options) as recording:
        recording.begin_episode()
        for t in range(3):
            write(recording, t)
        with pytest.raises(RecordingStateError, match="max_timesteps of 3"):
            write(recording, 3)


@pytest.mark.parametrize("metadata", [{"a": object()}, {"a": float("nan")}])
def test_bad_metadata_are_refused_before_anything_is_recorded(tmp_path, metadata):
    with pytest.raises(EpisodeError):
        writer(tmp_path / "a.wshard").begin_episode(metadata=metadata)
    for id_ in ("", 5, "\ud800"):
        with pytest.raises(EpisodeError):
            WShardStreamWriter(tmp_path / "a.wshard", id_, [STATE]).begin_episode()
    assert list(tmp_path.iterdir()) == []


def test_bad_metadata_at_the_end_do_not_cost_the_recording(tmp_path):
    """J-8."""

    def recording():
        with writer(tmp_path / "a.wshard") as recording:
            recording.begin_episode(metadata={"task": "reach"})
            write(recording, 0)
            recording.end_episode(metadata={"score": float("nan")})

    with pytest.raises(EpisodeError, match="JSON"):
        recording()
    ep = load_wshard(recover(tmp_path / "a.wshard.partial"))
    assert (ep.length, ep.metadata) == (1, {"task": "reach", "recovered": True})


@pytest.mark.parametrize("name", ["ctrl", "act", "action", "actions", "control"])
def test_the_loop_of_the_format_document_records_actions(tmp_path, name):
    channels = [{"id": "state", "dtype": "f32", "shape": [3]}, {"id": name, "dtype": "f32", "shape": [2]}]
    with WShardStreamWriter(tmp_path / "a.wshard", "ep_001", channels=channels) as w:
        w.begin_episode()
        for t in range(5):
            w.write_timestep({"state": np.full(3, t), name: np.full(2, -t)}, reward=1.0, done=t == 4)
        w.end_episode()
    ep = load_wshard(tmp_path / "a.wshard")
    assert (list(ep.observations), list(ep.actions), ep.length) == (["state"], [name], 5)


def test_channels_that_may_have_been_meant_as_actions_are_named_once(tmp_path):
    channels = [{"id": "state", "shape": [1]}, {"id": "torque", "shape": [1]}]
    with WShardStreamWriter(tmp_path / "a.wshard", "e", channels) as w:
        w.begin_episode()
        with pytest.warns(FormatWarning, match=r'state, torque: recorded as observations.*"action/torque"') as caught:
            w.write_timestep({"state": [0], "torque": [0]}, reward=0.0)
        assert {one.filename for one in caught if one.category is FormatWarning} == {__file__}
        w.write_timestep({"state": [1], "torque": [1]}, reward=0.0)


def test_channels_are_given_once_by_either_name(tmp_path):
    for options in ({}, {"channel_defs": [], "channels": []}):
        with pytest.raises(EpisodeError, match="expected channel_defs, or channels by keyword"):
            WShardStreamWriter(tmp_path / "a.wshard", "e", **options)


# ---- writers in each other's way -----------------------------------------------------------------------------------


def broken_off(path, error, steps=1, **options: object):
    with writer(path, flush_interval=4, **options) as recording:
        recording.begin_episode()
        for t in range(steps):
            write(recording, t)
        raise error


def test_an_error_inside_with_leaves_nothing_where_that_is_requested(tmp_path):
    """J-8."""
    (tmp_path / "a.wshard").write_bytes(b"earlier")
    with pytest.raises(RuntimeError) as message:
        broken_off(tmp_path / "a.wshard", RuntimeError(), on_error="discard")
    assert not hasattr(message.value, "__notes__")
    assert [path.name for path in tmp_path.iterdir()] == ["a.wshard"]
    assert (tmp_path / "a.wshard").read_bytes() == b"earlier"
    with pytest.raises(EpisodeError, match="'keep' or 'discard', found 'forget'"):
        writer(tmp_path / "a.wshard", on_error="forget")


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit, ZeroDivisionError])
def test_a_program_that_is_ended_keeps_every_timestep_and_says_where(tmp_path, end):
    """J-8."""
    with pytest.raises(end) as message:
        broken_off(tmp_path / "a.wshard", end(), steps=10)
    partial = tmp_path / "a.wshard.partial"
    assert any(str(partial) in note for note in message.value.__notes__)
    recover(partial)
    record(tmp_path / "b.wshard", 10)
    saved, whole = (load_wshard(tmp_path / name) for name in ("a.wshard", "b.wshard"))
    assert saved.metadata.pop("recovered")
    assert_same_episode(saved, whole)


def test_a_program_that_is_ended_before_the_first_timestep_leaves_nothing(tmp_path):
    for end in (KeyboardInterrupt(), ValueError()):
        with pytest.raises(type(end)):
            broken_off(tmp_path / "a.wshard", end, steps=0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("overwrite", [False, True])
def test_second_writer_on_one_path_is_refused(tmp_path, overwrite):
    """J-6: the first one's recording is not harmed."""
    first = writer(tmp_path / "a.wshard", flush_interval=1)
    first.begin_episode()
    write(first, 0)
    with pytest.raises(RecordingExistsError, match="another writer is recording"):
        writer(tmp_path / "a.wshard", overwrite=overwrite).begin_episode()
    for verb in (recover, discard):
        with pytest.raises(RecordingExistsError, match="another writer is recording"):
            verb(first.partial)
    write(first, 1)
    first.end_episode()
    assert load_wshard(tmp_path / "a.wshard").length == 2


def test_second_writer_in_another_process_is_refused(tmp_path):
    first = writer(tmp_path / "a.wshard")
    first.begin_episode()
    program = (
        "import sys; from wshard.core.recording.writer import *; from wshard.types import DType\n"
        "WShardStreamWriter(sys.argv[1], 'e', [ChannelDef('s', DType.INT8)]).begin_episode()"
    )
    command = [sys.executable, "-c", program, tmp_path / "a.wshard"]
    child = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert child.returncode == 1
    assert "RecordingExistsError" in child.stderr
    first.abort()
    subprocess.run(command, check=True, timeout=60)


def test_an_interrupted_recording_is_refused_and_preserved_until_someone_decides(tmp_path):
    """J-6."""
    partial = interrupted(tmp_path / "a.wshard", 9)
    before = partial.read_bytes()
    with pytest.raises(RecordingExistsError, match=re.escape(f"recover({str(partial)!r})")):
        record(tmp_path / "a.wshard", 1)
    assert partial.read_bytes() == before
    record(tmp_path / "a.wshard", 1, overwrite=True)
    assert not partial.exists()
    assert load_wshard(tmp_path / "a.wshard").length == 1


def test_discard_removes_an_interrupted_recording(tmp_path):
    discard(interrupted(tmp_path / "a.wshard", 9))
    discard(tmp_path / "never.partial")
    assert list(tmp_path.iterdir()) == []
