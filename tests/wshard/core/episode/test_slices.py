"""Time slices: the right values, only from the bytes that are needed, each checked by what covers it."""

from __future__ import annotations

import io
import json
import struct
from functools import partial

import numpy as np
import pytest
import wshard_plain
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from paths import GOLDEN
from wshard_files import with_blocks

from wshard import Channel, Episode, FormatError, ShardReader, load_wshard, open_wshard, save_wshard
from wshard.core.container.codec_plan import CodecPlan
from wshard.core.container.seekable_zstd import SeekTable, read_table
from wshard.core.episode import lane_view
from wshard.errors import ChecksumError, CodecError, EntryNotFoundError, StepError
from wshard.testing import assert_same_episode, episodes, make_episode


def saved(ep: Episode, compression: object = "zstd", frame_steps: object = None) -> bytes:
    file = io.BytesIO()
    save_wshard(ep, file, compression, frame_steps=frame_steps)
    return file.getvalue()


def steady(steps: int = 50) -> Episode:
    """Return an episode whose lanes compress well and whose every timestep is different."""
    ep = make_episode(3, steps)
    lane = np.repeat(np.arange(steps * 8).reshape(steps, 8), 20, axis=1).astype(np.int32)
    ep.observations["steady"] = Channel.of("steady", lane)
    ep.observations["flags"] = Channel.of("flags", np.arange(steps) % 2 == 1)
    return ep


def table_of(shard: ShardReader, name: str) -> SeekTable:
    entry = shard.entry(name)
    return read_table(partial(shard.stored, name), entry.disk_size, entry.orig_size)


# ---- frames --------------------------------------------------------------------------------------------------------


@given(episodes(max_length=12), st.sampled_from(["zstd", {"signal/*": "zstd:7", "*": "lz4"}]), st.integers(1, 13))
def test_frames_change_no_value_and_no_rule_of_the_container(ep, compression, frame_steps):
    """C-50, C-51: whatever the lanes hold, both readers give what was saved."""
    data = saved(ep, compression, frame_steps)
    assert_same_episode(ep, load_wshard(data))
    wshard_plain.read_strict(data)
    assert saved(load_wshard(data), compression, frame_steps) == data


@pytest.mark.parametrize("frame_steps", [1, 7, 16, 49])
def test_framed_lane_follows_the_seekable_format(frame_steps):
    """C-51, C-52, E-30: judged by a second reader, and by a plain zstd decoder that knows no seek table."""
    data = saved(steady(), {"signal/steady": "zstd:9"}, {"signal/steady": frame_steps})
    shard = ShardReader(data)
    stored = shard.stored("signal/steady")
    count, descriptor, magic = struct.unpack("<IBI", stored[-9:])
    assert (count, descriptor, magic) == (-(-50 // frame_steps), 0x80, 0x8F92EAB1)
    expected = steady().observations["steady"].data.tobytes()
    decoder = zstandard.ZstdDecompressor().stream_reader(bytes(stored), read_across_frames=True)
    assert decoder.read() == expected
    assert wshard_plain.read_strict(data)[1]["signal/steady"]["data"] == expected
    rows = {row["id"]: row for row in json.loads(shard.read_entry("meta/channels"))["channels"]}
    assert rows["steady"]["frame_steps"] == frame_steps
    assert not any("frame_steps" in row for name, row in rows.items() if name != "steady")


def test_lane_of_one_frame_has_no_table_and_raw_lanes_have_no_frames():
    """C-51, C-54: a block that one frame holds is an ordinary one; noise is stored raw."""
    ep = steady()
    ep.observations["noise"] = Channel.of("noise", np.random.default_rng(0).integers(0, 256, (50, 99), np.uint8))
    plain, framed = saved(ep, "zstd"), saved(ep, "zstd", 50)
    for name in ("signal/steady", "signal/noise", "reward"):
        assert ShardReader(plain).stored(name) == ShardReader(framed).stored(name)
    assert ShardReader(saved(ep, "zstd", 5)).codec("signal/noise") == 0
    assert ShardReader(saved(ep, "zstd", 5)).stored("reward") == ShardReader(plain).stored("reward")


def test_golden_frames_are_found_by_their_table():
    """C-53: the file was packed by hand."""
    shard = ShardReader(GOLDEN / "frames.wshard")
    table = table_of(shard, "signal/beat")
    assert table.decoded.tolist() == [0, 400, 800, 1100]
    with open_wshard(GOLDEN / "frames.wshard") as file:
        assert file["beat"][3:9].tolist() == [[7] * 100] + [[9] * 100] * 4 + [[11] * 100]
        assert file.description.declared["signal/beat"].frame_steps == 4


@pytest.mark.parametrize(
    ("compression", "frame_steps"),
    [
        ("zstd", -1),
        ("zstd", 0),
        ("zstd", {"*": 0}),
        ("zstd", 1.5),
        ("zstd", "4"),
        ("zstd", {"signal/a": 1.5}),
        ("zstd", {"signal/a": True}),
        ("lz4", {"signal/a": 4}),
        ({"signal/a": "none", "*": "zstd"}, {"signal/a": 4}),
    ],
)
def test_impossible_frames_are_refused(compression, frame_steps):
    with pytest.raises(CodecError, match="frame_steps"):
        CodecPlan.of(compression, None, frame_steps)


@pytest.mark.parametrize(
    ("compression", "frame_steps", "message"),
    [
        ({"joint_pos": "zstd"}, None, "compression: 'joint_pos'"),
        ({"signal/joint_pos": "zstd", "meta/episode": "zstd"}, None, "compression: 'meta/episode'"),
        ("zstd", {"joint_pos": 4}, "frame_steps: 'joint_pos'"),
        ({"*": "zstd"}, {"signal/joint_pos": 4, "signal/rgb": 4}, "frame_steps: 'signal/rgb'"),
    ],
)
def test_a_codec_or_frames_for_a_block_that_is_not_there_are_refused(tmp_path, compression, frame_steps, message):
    """What was named would be stored raw without a word. A pattern may match nothing: lanes differ among episodes."""
    with pytest.raises(CodecError, match=f"{message}: expected a pattern or one of signal/joint_pos, signal/gripper, "):
        save_wshard(make_episode(), tmp_path / "a.wshard", compression, frame_steps=frame_steps)
    assert list(tmp_path.iterdir()) == []
    save_wshard(
        make_episode(), tmp_path / "a.wshard", {"signal/joint_pos": "zstd", "signal/rgb*": "zstd", "reward": "lz4"}
    )


def test_frames_by_pattern_are_for_lanes_that_zstd_compresses():
    plan = CodecPlan.of({"signal/*": "zstd", "*": "lz4"}, None, {"signal/rgb": 8, "*": 16})
    assert [plan.frame_steps(name) for name in ("signal/rgb", "signal/x", "action/x")] == [8, 16, 0]


def frame(data: bytes, *, sized: bool = True) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=sized).compress(data)


SKIPPED = struct.pack("<II", 0x184D2A50, 5) + b"notes"
A, B = bytes(range(100)) * 3, b"b" * 500
FOREIGN = {
    "no table": frame(A) + frame(B),
    "no sizes": frame(A, sized=False) + frame(B, sized=False),
    "skippable between and behind": frame(A) + SKIPPED + frame(B) + SKIPPED,
    "skippable first": SKIPPED + frame(A) + frame(B),
    "empty frames": frame(b"") + frame(A) + frame(b"") + frame(B) + frame(b""),
    "a table of nothing": frame(A) + frame(B) + struct.pack("<IIIBI", 0x184D2A5E, 9, 0, 0x80, 0x8F92EAB1),
}
WRONG = {
    "one frame short": frame(A),
    "one frame more": frame(A) + frame(B) + frame(b"x"),
    "torn": (frame(A) + frame(B))[:-3],
    "trailing garbage": frame(A) + frame(B)[:-1] + b"garbage",
    "first too large": frame(A + B + b"x") + frame(B),
}


def packed(stored: bytes) -> bytes:
    """Return a container with one zstd block of these stored bytes, whose index says what A + B is."""
    data = with_blocks(saved(steady(), "none"), {"x": A + B})
    entry = ShardReader(data).entry("x")
    number = ShardReader(data).names().index("x")
    out = bytearray(data[: entry.data_offset] + stored)
    struct.pack_into("<HQQ", out, 64 + 48 * number + 14, 3, entry.data_offset, len(stored))
    struct.pack_into("<Q", out, 40, len(out))
    return bytes(out)


@pytest.mark.parametrize("case", FOREIGN)
def test_blocks_of_several_frames_of_any_writer_are_read_whole(case):
    """C-50."""
    assert ShardReader(packed(FOREIGN[case])).read_entry("x") == A + B


@pytest.mark.parametrize("case", WRONG)
def test_frames_that_do_not_make_the_block_are_refused(case):
    """C-10, C-50."""
    with pytest.raises(FormatError):
        ShardReader(packed(WRONG[case])).read_entry("x")


def test_frames_that_would_decode_to_gigabytes_are_refused_without_being_decoded():
    """C-10: many small frames are as bounded as one large one."""
    bomb = frame(bytes(1 << 20)) * 3000
    with pytest.raises(FormatError):
        ShardReader(packed(bomb)).read_entry("x")


# ---- damaged frames ------------------------------------------------------------------------------------------------


def damaged(data: bytes, offset: int) -> bytes:
    entry = ShardReader(data).entry("signal/steady")
    out = bytearray(data)
    out[entry.data_offset + offset % entry.disk_size] ^= 1
    return bytes(out)


@pytest.mark.parametrize("seed", range(40))
def test_one_damaged_bit_never_gives_a_wrong_slice(seed):
    """C-52, C-53: hit anywhere in frames and table."""
    data, truth = saved(steady(), "zstd", 4), steady().observations["steady"].data
    size = ShardReader(data).entry("signal/steady").disk_size
    with open_wshard(damaged(data, seed * size // 40)) as file:
        for start in range(0, 50, 4):
            try:
                found = file["steady"][start : start + 3]
            except FormatError:
                continue
            np.testing.assert_array_equal(found, truth[start : start + 3])


def test_damage_in_one_frame_costs_only_that_frame():
    data = saved(steady(), "zstd", 10)
    table = table_of(ShardReader(data), "signal/steady")
    with open_wshard(damaged(data, int(table.stored[2]) + 30)) as file:
        truth = steady().observations["steady"].data
        np.testing.assert_array_equal(file["steady"][:20], truth[:20])
        np.testing.assert_array_equal(file["steady"][30:], truth[30:])
        for read in (lambda: file["steady"][20], lambda: file.lane("steady"), lambda: np.asarray(file["steady"])):
            with pytest.raises(FormatError):
                read()


def test_swapped_frames_are_noticed_by_their_checks():
    """C-52: the frames are whole, but not those that the table means."""
    data = saved(steady(), "zstd", 25)
    stored, table = ShardReader(data).stored("signal/steady"), table_of(ShardReader(data), "signal/steady")
    checks = bytearray(data)
    foot = ShardReader(data).entry("signal/steady").data_offset + len(stored) - 9
    checks[foot - 4 : foot], checks[foot - 16 : foot - 12] = data[foot - 16 : foot - 12], data[foot - 4 : foot]
    assert len(table.checks) == 2
    with open_wshard(bytes(checks)) as file, pytest.raises(ChecksumError, match="frame 0"):
        _ = file["steady"][0]


# ---- lanes as arrays -----------------------------------------------------------------------------------------------

KINDS = [("none", None), ("lz4", None), ("zstd", None), ("zstd", 1), ("zstd", 7), ("zstd", 64)]
spans = st.slices(50) | st.integers(-50, 49)


@given(st.sampled_from(KINDS), st.lists(spans, min_size=1, max_size=4), st.booleans())
def test_lane_views_index_like_arrays(kind, keys, verify):
    """E-31, E-32."""
    with open_wshard(saved(steady(), *kind)) as file:
        for name in ("steady", "joint_pos", "gripper", "flags", "action/ctrl", "reward"):
            view, array = file.lane_view(name, verify=verify), file.lane(name)
            assert (view.shape, view.dtype, len(view), view.ndim) == (array.shape, array.dtype, 50, array.ndim)
            for key in keys:
                found = view[key]
                np.testing.assert_array_equal(found, array[key])
                assert found.dtype == array.dtype
                assert found.shape == array[key].shape
            np.testing.assert_array_equal(np.asarray(view), array)


def test_lane_views_take_further_indices_and_numpy_functions():
    with open_wshard(saved(steady(), "zstd", 8)) as file:
        view, array = file["steady"], steady().observations["steady"].data
        np.testing.assert_array_equal(view[3:9, 4], array[3:9, 4])
        np.testing.assert_array_equal(view[3, 4:6], array[3, 4:6])
        np.testing.assert_array_equal(list(view), list(array))
        assert np.mean(view) == array.mean()
        assert np.asarray(view, np.float64).dtype == np.float64
        assert repr(view) == "LaneView('signal/steady', i32 [50, 160])"
        assert repr(file) == f"<EpisodeFile {file.where!r}>"
        assert file["steady"] is view
        for key in ([1, 2], 1.5, None, "a", array > 3, ..., (..., 1)):
            with pytest.raises(StepError):
                _ = view[key]
        for step in (50, -51):
            with pytest.raises(IndexError, match="below 50"):
                _ = view[step]
        with pytest.raises(EntryNotFoundError, match="no lane"):
            _ = file["nothing"]


def test_slices_are_read_only():
    for kind in KINDS:
        with open_wshard(saved(steady(), *kind)) as file, pytest.raises(ValueError, match="read-only"):
            file["steady"][2:4][0] = 1


def test_lane_of_zero_size_has_its_shape():
    ep = make_episode(0, 5)
    ep.observations["empty"] = Channel.of("empty", np.zeros((5, 0, 3), np.float32))
    with open_wshard(saved(ep, "none")) as file:
        assert file["empty"][1:4].shape == (3, 0, 3)
        assert file["empty"][2].shape == (0, 3)


def test_slices_of_an_uncompressed_lane_are_checked_on_request_and_whole_lanes_always():
    """E-31."""
    data = damaged(saved(steady(), "none"), 0)
    with open_wshard(data) as file:
        truth = steady().observations["steady"].data
        np.testing.assert_array_equal(file["steady"][1:], truth[1:])
        assert file["steady"][0, 0] != truth[0, 0]
        for read in (
            lambda: file.lane_view("steady", verify=True)[1:],
            lambda: np.asarray(file["steady"]),
            lambda: file["steady"][:],
        ):
            with pytest.raises(ChecksumError):
                read()


def test_framed_slices_decode_the_frames_they_touch_and_no_other(monkeypatch):
    """E-32, and neighbouring timesteps of one frame decode it once."""
    decoded = []
    data, read = saved(steady(), "zstd", 8), lane_view.read_frame
    with open_wshard(data) as file:
        monkeypatch.setattr(lane_view, "read_frame", lambda *args: (decoded.append(args[2]), read(*args))[1])
        monkeypatch.setattr(ShardReader, "block", lambda *_: pytest.fail("the whole block was decoded"))
        file["steady"][16:24]
        assert decoded == [2]
        file["steady"][23]
        assert decoded == [2]
        file["steady"][23:25]
        assert decoded == [2, 3]
        file["steady"][0:50:49]
        assert decoded == [2, 3, 0, 6]


# ---- slices as episodes --------------------------------------------------------------------------------------------


@given(episodes(), st.data(), st.sampled_from([("none", None), ("zstd", 2), ("lz4", None)]))
def test_slice_is_the_episode_of_these_timesteps(ep, data, kind):
    """E-33."""
    start = data.draw(st.integers(0, ep.length - 1))
    stop = data.draw(st.integers(start + 1, ep.length))
    with open_wshard(saved(ep, *kind)) as file:
        part = file.slice(start, stop)
    expected = load_wshard(saved(ep))
    first = 0 if expected.timestep_range is None else expected.timestep_range[0]
    for channel in (expected.lanes() | expected.predictions()).values():
        channel.data = channel.data[start:stop]
    for name in ("rewards", "terminations", "truncations", "ticks", "timestamps_ns"):
        whole = getattr(expected, name)
        setattr(expected, name, None if whole is None else whole[start:stop])
    expected.residuals, expected.blocks = {}, {}
    expected.chunk_index = expected.total_chunks = None
    expected.length, expected.timestep_range = stop - start, (first + start, first + stop - 1)
    assert_same_episode(part, expected)
    part.validate()


def test_slice_takes_a_channel_filter_and_refuses_what_is_not_there():
    with open_wshard(saved(steady(), "none")) as file:
        part = file.slice(10, 20, ["steady"])
        assert list(part.lanes()) == ["signal/steady"]
        np.testing.assert_array_equal(part.rewards, steady().rewards[10:20])
        for start, stop in ((-1, 5), (5, 5), (6, 5), (40, 51)):
            with pytest.raises(StepError, match="0 <= start < stop <= 50"):
                file.slice(start, stop)
        with pytest.raises(EntryNotFoundError):
            file.slice(0, 1, ["nothing"])
