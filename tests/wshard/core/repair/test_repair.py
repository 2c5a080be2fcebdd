"""Repair: interleaved streams come back bit for bit, damaged files lose what they say and nothing else."""

from __future__ import annotations

import json
import os
import random
import struct
from pathlib import Path

import numpy as np
import pytest
import wshard_plain
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner
from wshard_files import saved
from wshard_older_stream import OlderStream

from wshard import FormatError, FormatWarning, ShardReader, ShardWriter, load_wshard, open_wshard, save_wshard
from wshard import repair_file as repair
from wshard.cli.files import app
from wshard.core.container.layout import HEADER_SIZE, INDEX_ENTRY_SIZE
from wshard.core.container.metadata import ShardMetadata
from wshard.core.repair import salvage
from wshard.core.repair.report import Damage
from wshard.errors import HeaderError, OverlapError, RecordingExistsError, RepairError
from wshard.testing import assert_same_episode, make_episode

RUNNER = CliRunner()
CHANNELS = [("state", "f32", [3]), ("camera/rgb", "u8", [4, 4, 3]), ("ctrl", "f64", [])]


def run(*arguments: object):
    return RUNNER.invoke(app, [str(argument) for argument in arguments])


def recorded(
    length: int, flush_interval: int = 64, missing: range = range(0), *, compressed: bool = False
) -> tuple[bytes, dict[str, np.ndarray]]:
    """Return a stream of the older writer and what was given to it; `missing` steps lack the camera."""
    rng = np.random.default_rng(length)
    lanes = {
        "signal/state": rng.normal(size=(length, 3)).astype("<f4"),
        "signal/camera/rgb": rng.integers(0, 256, (length, 4, 4, 3), np.uint8),
        "action/ctrl": rng.normal(size=length),
        "reward": rng.normal(size=length).astype("<f4"),
        "done": np.arange(length) == length - 1,
        "time/ticks": np.arange(length, dtype="<i4"),
    }
    stream = OlderStream(CHANNELS, flush_interval)
    for t in range(length):
        signals = {"state": lanes["signal/state"][t].tobytes()}
        if t not in missing:
            signals["camera/rgb"] = lanes["signal/camera/rgb"][t].tobytes()
        actions = {"ctrl": lanes["action/ctrl"][t].tobytes()}
        stream.step(t, signals, actions, float(lanes["reward"][t]), int(lanes["done"][t]))
    return stream.end(compressed=compressed), lanes


def written(folder: Path, data: bytes, name: str = "a.wshard") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


# ---- interleaved streams -------------------------------------------------------------------------------------------


def test_the_imitation_writes_what_the_reference_wrote(wshard_fixtures):
    """What follows means something only if the imitated writer is the real one: same bytes for the same recording."""
    folder = wshard_fixtures / "other-writers"
    for length in (40, 100):
        with np.load(folder / f"py_stream_{length}_content.npz", allow_pickle=False) as content:
            lanes = dict(content)
        stream = OlderStream([("state", "f32", [2]), ("ctrl", "f32", [1])])
        for t in range(length):
            given = ({"state": lanes["signal/state"][t].tobytes()}, {"ctrl": lanes["action/ctrl"][t].tobytes()})
            stream.step(int(lanes["time/ticks"][t]), *given, float(lanes["reward"][t]), int(lanes["done"][t]))
        own, theirs = stream.end(), (folder / f"py_stream_{length}.wshard").read_bytes()
        first = own.index(b'{"format"')
        assert own[448:first] == theirs[448:first], "names and interleaved rows"
        rows = [struct.unpack_from("<QQQ", data, 64 + 48 * 3 + 16) for data in (own, theirs)]
        assert rows[0][1:] != (0, 0)
        for number in (0, 1, 5, 6, 7):
            places = [struct.unpack_from("<QIHHQQQI", data, 64 + 48 * number) for data in (own, theirs)]
            assert places[0] == places[1]


def test_the_reference_s_interleaved_stream_is_restored_exactly(wshard_fixtures, tmp_path):
    """R-1 to R-6."""
    folder = wshard_fixtures / "other-writers"
    path = written(tmp_path, (folder / "py_stream_100.wshard").read_bytes())
    with pytest.raises(OverlapError, match="`wshard repair`"):
        load_wshard(path)
    report = repair(path)
    assert (report.damage, report.complete) == (Damage.INTERLEAVED, True)
    assert report.output == str(tmp_path / "a.repaired.wshard")
    with (
        np.load(folder / "py_stream_100_content.npz", allow_pickle=False) as content,
        open_wshard(report.output) as file,
    ):
        for name in content.files:
            np.testing.assert_array_equal(file.lane(name), content[name], err_msg=name)
            assert file.lane(name).dtype == content[name].dtype or name == "done"
        assert sorted(name for name in file.lanes()) == sorted(content.files)


@pytest.mark.parametrize(("length", "flush_interval"), [(65, 64), (100, 64), (500, 64), (7, 1), (64, 5), (129, 128)])
def test_imitated_streams_are_restored_exactly(length, flush_interval, tmp_path):
    """R-1 to R-6, and the result follows every rule of the strict writer."""
    data, lanes = recorded(length, flush_interval)
    path = written(tmp_path, data)
    with pytest.raises(OverlapError):
        load_wshard(path)
    report = repair(path)
    assert (report.damage, report.unrecovered) == (Damage.INTERLEAVED, {})
    wshard_plain.read_strict(Path(report.output).read_bytes())
    ep = load_wshard(report.output)
    assert (ep.id, ep.env_id, ep.length, ep.timebase.tick_hz) == ("older", "Env", length, 30.0)
    for name, channel in ep.lanes().items():
        np.testing.assert_array_equal(channel.data, lanes[name], err_msg=name)
        assert channel.data.dtype == lanes[name].dtype
    np.testing.assert_array_equal(ep.rewards, lanes["reward"])
    np.testing.assert_array_equal(ep.terminations, lanes["done"])
    np.testing.assert_array_equal(ep.ticks, lanes["time/ticks"])
    assert path.read_bytes() == data


def test_a_damaged_stream_of_one_flush_loses_only_the_damaged_lane(tmp_path):
    """R-9: its blocks follow each other without a gap, which interleaved ones never do."""
    data, lanes = recorded(64)
    bad = bytearray(data)
    bad[ShardReader(data).entry("reward").data_offset] ^= 1
    report = repair(written(tmp_path, bytes(bad)))
    assert list(report.unrecovered) == ["reward"]
    np.testing.assert_array_equal(load_wshard(report.output).actions["ctrl"].data, lanes["action/ctrl"])


def test_a_damaged_interleaved_stream_keeps_no_lane(tmp_path):
    """R-9: index entries are damaged so that nothing overlaps any more; the checksum of a mixed lane is right."""
    stream = OlderStream([("s", "i8", [])], 2)
    for t in range(3):
        stream.step(t, {"s": bytes([t])}, {}, 0.0, 0)
    data = bytearray(stream.end())
    for number, entry in enumerate(ShardReader(bytes(data), damaged=True).entries):
        if entry.name in ("signal/s", "reward", "done"):
            struct.pack_into("<Q", data, 64 + 48 * number + 16, len(data))
    with pytest.raises(RepairError, match="damage hides whether its rows are mixed"):
        repair(written(tmp_path, bytes(data)))


def test_interleaved_streams_with_compressed_meta_blocks_are_restored_too(tmp_path):
    """R-1, C-11: that writer's checksums of compressed meta blocks are those of the stored bytes."""
    data, lanes = recorded(200, compressed=True)
    with pytest.warns(FormatWarning, match="checksum is that of the compressed bytes"):
        report = repair(written(tmp_path, data))
    assert report.damage is Damage.INTERLEAVED
    found = load_wshard(report.output)
    np.testing.assert_array_equal(found.observations["camera/rgb"].data, lanes["signal/camera/rgb"])
    np.testing.assert_array_equal(found.actions["ctrl"].data, lanes["action/ctrl"])


@pytest.mark.parametrize(("length", "proved"), [(65, 64), (100, 64), (500, 320)])
def test_rows_that_no_checksum_covers_are_reported(length, proved, tmp_path):
    """R-7: checksums of that writer are of contiguous bytes, which end before the last flushes."""
    data = recorded(length)[0]
    entries = [entry for entry in ShardReader(data, damaged=True).entries if not entry.name.startswith("meta/")]
    start = min(entry.data_offset for entry in entries)
    covered = max(entry.data_offset + entry.disk_size for entry in entries)
    assert proved == (covered - start) // (64 * (12 + 48 + 8 + 4 + 1 + 4)) * 64
    message = f"no checksum covers the rows from timestep {proved} on: that writer left none"
    assert repair(written(tmp_path, data)).notes == (message,)


def test_streams_of_one_flush_are_intact(tmp_path):
    data, lanes = recorded(64)
    report = repair(written(tmp_path, data))
    assert (report.damage, report.output) == (Damage.INTACT, None)
    assert [child.name for child in tmp_path.iterdir()] == ["a.wshard"]
    np.testing.assert_array_equal(load_wshard(data).actions["ctrl"].data, lanes["action/ctrl"])


@pytest.mark.parametrize(
    "missing", [range(10, 11), range(64), range(64, 128), range(99, 100), range(0, 100, 2), range(0, 100, 4)]
)
def test_streams_that_lack_a_channel_in_some_steps_are_refused(missing, tmp_path):
    """R-3, R-4: values are never guessed."""
    path = written(tmp_path, recorded(100, missing=missing)[0])
    with pytest.raises(RepairError, match=r"a channel was missing in some steps|does not begin after whole rows"):
        repair(path)
    assert [child.name for child in tmp_path.iterdir()] == ["a.wshard"]


def test_ticks_of_an_unusual_program_are_reported(tmp_path):
    stream = OlderStream([("s", "i8", [])], 2)
    for t in (5, 5, 9):
        stream.step(t, {"s": bytes([t])}, {}, 0.0, 0)
    report = repair(written(tmp_path, stream.end()))
    assert report.notes[:1] == ("time/ticks does not count 0, 1, 2, ...: it has the values of the recording program",)
    assert load_wshard(report.output).ticks.tolist() == [5, 5, 9]
    assert load_wshard(report.output).observations["s"].data.tolist() == [5, 5, 9]


def resealed(data: bytes, number: int, **fields: int) -> bytes:
    """Return the file with other numbers in an index entry and a checksum that fits the bytes as they then lie."""
    place, changed = 64 + 48 * number, bytearray(data)
    offset, disk, orig = struct.unpack_from("<QQQ", data, place + 16)
    offset, size = fields.get("offset", offset), fields.get("size", disk)
    crc = wshard_plain.crc32c(data[offset : offset + size])
    struct.pack_into("<QQQI", changed, place + 16, offset, size, size if size != disk else orig, crc)
    return bytes(changed)


def test_streams_whose_numbers_do_not_add_up_are_refused(tmp_path):
    """R-2 to R-6: each with right checksums, so that only the arithmetic can tell."""
    data, _ = recorded(100)
    entries = [ShardReader(data, damaged=True).entry(number) for number in range(9)]
    number = {entry.name: place for place, entry in enumerate(entries)}
    ticks, done = entries[number["time/ticks"]], entries[number["done"]]
    wrong = {
        "rows that end elsewhere": resealed(data, number["reward"], size=800),
        "a lane that begins elsewhere": resealed(data, number["time/ticks"], offset=ticks.data_offset + 4),
        "no whole rows": resealed(data, number["time/ticks"], size=399),
        "done of other values": resealed(data, number["done"], offset=done.data_offset - 64),
    }
    for name, bad in wrong.items():
        with pytest.raises(RepairError):
            repair(written(tmp_path, bad), tmp_path / f"{name}.wshard")
    assert [child.name for child in tmp_path.iterdir()] == ["a.wshard"]


@given(st.data())
def test_no_damage_to_a_stream_brings_back_wrong_values(tmp_path_factory, data):
    """R-1, R-7: a lane comes back exactly or not at all, except where the report says that no checksum covers it."""
    folder = tmp_path_factory.mktemp("stream")
    original, lanes = recorded(100)
    bad = bytearray(original)
    place = data.draw(st.integers(0, len(bad) - 1) | st.integers(64, 64 + 48 * 9))
    kind = data.draw(st.sampled_from(["flip", "cut", "zero"]))
    if kind == "cut":
        bad = bad[:place]
    else:
        bad[place] = bad[place] ^ 1 << data.draw(st.integers(0, 7)) if kind == "flip" else 0
    if bad == original:
        return
    try:
        report = repair(written(folder, bytes(bad)))
    except FormatError:
        return
    if report.output is None:  # the index says that there are no blocks
        return
    with ShardReader(report.output) as file:
        for name in set(lanes) & set(file.names()):
            found = np.frombuffer(file.read_entry(name), lanes[name].dtype).reshape(lanes[name].shape)
            proved = int(report.notes[-1].split("timestep ")[1].split()[0]) if report.damage == "interleaved" else 100
            np.testing.assert_array_equal(found[:proved], lanes[name][:proved], err_msg=f"{name}, {kind} at {place}")


# ---- other damage --------------------------------------------------------------------------------------------------


def damaged(data: bytes, block: str) -> bytes:
    entry, changed = ShardReader(data).entry(block), bytearray(data)
    changed[entry.data_offset + entry.disk_size // 2] ^= 1
    return bytes(changed)


def saved_blocks(path: str) -> dict[str, bytes]:
    with ShardReader(path) as reader:
        return {name: reader.read_entry(name) for name in reader.names()}


@pytest.mark.parametrize("codec", ["none", "zstd", "lz4"])
def test_blocks_with_right_checksums_are_saved_and_the_others_are_reported(codec, tmp_path):
    """R-8, R-9."""
    ep = make_episode(1, 50, image_size=4)
    good = saved(ep, codec)
    path = written(tmp_path, damaged(damaged(good, "signal/gripper"), "action/ctrl"))
    report = repair(path)
    assert report.damage is Damage.DAMAGED
    assert sorted(report.unrecovered) == ["action/ctrl", "signal/gripper"]
    truth = saved_blocks(written(tmp_path, good, "good.wshard"))
    assert saved_blocks(report.output) == {name: data for name, data in truth.items() if name not in report.unrecovered}
    assert sorted(report.recovered) == sorted(set(truth) - set(report.unrecovered))
    found = load_wshard(report.output)
    np.testing.assert_array_equal(found.observations["joint_pos"].data, ep.observations["joint_pos"].data)
    assert "ctrl" not in found.actions
    with ShardReader(report.output) as reader:
        assert sorted(reader.read_metadata().extra["repaired"]["lost"]) == sorted(report.unrecovered)
        flags = {entry.name: entry.flags for entry in reader.entries}
    assert flags == {entry.name: entry.flags for entry in ShardReader(good).entries if entry.name in flags}


def test_cut_files_give_back_what_is_in_front_of_the_cut(tmp_path):
    """R-8: no single cut gives anything but true blocks."""
    good = saved(make_episode(2, 30))
    truth = {name: ShardReader(good).read_entry(name) for name in ShardReader(good).names()}
    entries, saved_some = ShardReader(good).entries, 0
    for cut in range(0, len(good), 97):
        path = written(tmp_path, good[:cut])
        whole = sorted(entry.name for entry in entries if entry.data_offset + entry.disk_size <= cut)
        output = tmp_path / f"{cut}.wshard"
        if cut <= entries[0].data_offset:
            with pytest.raises(FormatError):
                repair(path, output)
            continue
        if not set(whole) - {"meta/wshard", "meta/episode", "meta/channels"}:
            with pytest.raises(RepairError, match="no data block is intact"):
                repair(path, output)
            continue
        report = repair(path, output)
        assert saved_blocks(report.output) == {name: truth[name] for name in whole}
        assert f"the file should have {len(good)} bytes and has {cut}" in report.notes
        assert set(report.unrecovered) == set(truth) - set(whole)
        saved_some += 1
    assert saved_some > 10


def test_a_wrong_total_size_and_trailing_bytes_lose_nothing(tmp_path):
    ep = make_episode(4)
    for data in (saved(ep) + b"trailing", _with_total(saved(ep), 7), _with_total(saved(ep), 2**63)):
        path = written(tmp_path, data)
        with pytest.raises(HeaderError, match="`wshard repair` saves"):
            load_wshard(path)
        report = repair(path, tmp_path / "out.wshard")
        assert report.complete
        assert_same_episode(load_wshard(report.output), ep)
        Path(report.output).unlink()


def _with_total(data: bytes, total: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into("<Q", changed, 40, total)
    return bytes(changed)


def test_metadata_tags_types_and_role_survive(tmp_path):
    path = tmp_path / "a.shard"
    with ShardWriter(path, 2, alignment=16) as writer:
        writer.set_metadata(ShardMetadata(producer="me", tag_dictionary=["x", "y"]))
        writer.write_entry("a", b"1" * 100, tags=["y"], content_type=5)
        writer.write_entry("b", b"2" * 100)
    path.write_bytes(damaged(path.read_bytes(), "b"))
    report = repair(path)
    with ShardReader(report.output) as reader:
        assert (reader.header.role, reader.header.alignment) == (2, 16)
        assert reader.list_with_tag("y") == ["a"]
        assert reader.entry("a").content_type == 5
        assert reader.read_metadata().producer == "me"


def test_blocks_without_a_checksum_are_saved_and_named(tmp_path):
    changed = bytearray(damaged(saved(make_episode(0)), "action/ctrl"))
    struct.pack_into("<H", changed, 6, 0)
    number = ShardReader(bytes(changed)).names().index("reward")
    struct.pack_into("<I", changed, 64 + 48 * number + 40, 0)
    report = repair(written(tmp_path, bytes(changed)))
    assert report.unchecked == ("reward",)


def test_blocks_that_share_bytes_are_both_lost(tmp_path):
    """R-9: two right checksums over the same bytes prove nothing."""
    path = tmp_path / "a.shard"
    with ShardWriter(path) as writer:
        for name in "abc":
            writer.write_entry(name, name.encode() * 100)
    data = path.read_bytes()
    offset = ShardReader(data).entry("a").data_offset
    path.write_bytes(resealed(data, 1, offset=offset + 50, size=60))
    with pytest.raises(OverlapError):
        ShardReader(path)
    report = repair(path)
    assert (report.recovered, sorted(report.unrecovered)) == (("c",), ["a", "b"])
    assert report.unrecovered["a"] == "block 'a': it shares bytes with 'b'"


def test_a_name_that_its_hash_does_not_fit_is_not_believed(tmp_path):
    """R-11, R-12: what damage made look like another block's name is given back, or is no proof."""
    path = tmp_path / "a.shard"
    with ShardWriter(path) as writer:
        for name in "abc":
            writer.write_entry(name, name.encode() * 100)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"a\0b\0c\0", b"a\0a\0c\0"))
    report = repair(path)
    assert saved_blocks(report.output) == {name: name.encode() * 100 for name in "abc"}
    assert report.complete
    Path(report.output).unlink()
    changed = bytearray(data.replace(b"a\0b\0c\0", b"a\0a\0c\0"))
    changed[64 + 48 : 64 + 56] = bytes(8)  # nor does the hash tell any more
    path.write_bytes(changed)
    report = repair(path)
    assert saved_blocks(report.output) == {"a": b"a" * 100, "c": b"c" * 100, "unproved/1": b"b" * 100}
    why = "block 'a': another entry has this name by its hash; its bytes are kept as 'unproved/1'"
    assert report.unrecovered == {"entry 1": why}


def test_the_later_of_two_blocks_of_one_name_is_saved(wshard_fixtures, tmp_path):
    """C-12: and none where that one is damaged."""
    good = (wshard_fixtures / "other-writers" / "go_duplicate.shard").read_bytes()
    names = ShardReader(good).names()
    (twice,) = {name for name in names if names.count(name) > 1}
    path = written(tmp_path, good + b"!", "a.shard")
    report = repair(path)
    assert saved_blocks(report.output)[twice] == ShardReader(good).read_entry(twice)
    assert len(report.unrecovered) == 1
    path.write_bytes(damaged(good, twice))
    try:
        report = repair(path, tmp_path / "b.shard")
    except RepairError:
        return  # there was nothing else
    assert twice not in report.recovered


def test_random_damage_never_gives_a_block_that_no_one_wrote(tmp_path):
    """R-8."""
    rng = random.Random(5)
    good = saved(make_episode(3, 40), "zstd")
    truth = {ShardReader(good).read_entry(name) for name in ShardReader(good).names()}
    repaired = 0
    for number in range(300):
        bad = bytearray(good)
        for _ in range(rng.randrange(1, 6)):
            bad[rng.randrange(700 if rng.random() < 0.5 else len(bad))] ^= 1 << rng.randrange(8)
        bad = bad[: rng.randrange(len(bad))] if rng.random() < 0.2 else bad
        path = written(tmp_path, bytes(bad))
        try:
            report = repair(path, tmp_path / f"{number}.wshard")
        except FormatError:
            continue
        if report.output:
            assert set(saved_blocks(report.output).values()) <= truth | {b""}
            repaired += 1
    assert repaired > 50


# ---- where the repaired file goes ----------------------------------------------------------------------------------


def test_nothing_is_overwritten(tmp_path):
    """R-10."""
    path = written(tmp_path, saved(make_episode()) + b"!")
    for busy in (tmp_path / "a.repaired.wshard", path):
        busy.touch()
        with pytest.raises(RecordingExistsError, match="exists already"):
            repair(path, None if busy != path else path)
    (tmp_path / "a.wshard.bak").touch()
    with pytest.raises(RecordingExistsError):
        repair(path, in_place=True)


def test_in_place_keeps_the_damaged_file_under_another_name(tmp_path):
    """R-10."""
    damaged_bytes = saved(make_episode()) + b"!"
    path = written(tmp_path, damaged_bytes)
    report = repair(path, in_place=True)
    assert (report.output, report.backup) == (str(path), str(tmp_path / "a.wshard.bak"))
    assert (tmp_path / "a.wshard.bak").read_bytes() == damaged_bytes
    assert_same_episode(load_wshard(path), make_episode())
    assert sorted(child.name for child in tmp_path.iterdir()) == ["a.wshard", "a.wshard.bak"]


def test_in_place_works_where_files_cannot_have_two_names(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError(1, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    damaged_bytes = saved(make_episode()) + b"!"
    path = written(tmp_path, damaged_bytes)
    repair(path, in_place=True)
    assert (tmp_path / "a.wshard.bak").read_bytes() == damaged_bytes
    assert load_wshard(path).length == 20


def test_a_repair_that_fails_leaves_the_folder_unchanged(tmp_path, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    damaged_bytes = saved(make_episode()) + b"!"
    path = written(tmp_path, damaged_bytes)
    monkeypatch.setattr(salvage.ShardStreamWriter, "finalize", full)
    for options in ({}, {"in_place": True}):
        with pytest.raises(OSError, match="No space left"):
            repair(path, **options)
    assert [child.name for child in tmp_path.iterdir()] == ["a.wshard"]
    assert path.read_bytes() == damaged_bytes


def test_a_meta_block_with_the_content_of_another_is_not_believed(tmp_path):
    """R-14: names, hashes and checksums agree where damage exchanged the places that two index entries name."""
    data = bytearray(saved(make_episode()))
    reader = ShardReader(bytes(data))
    names = reader.names()
    places = {name: HEADER_SIZE + INDEX_ENTRY_SIZE * number for number, name in enumerate(names)}
    spans = [slice(places[name] + 16, places[name] + 44) for name in ("meta/episode", "meta/channels")]
    data[spans[0]], data[spans[1]] = data[spans[1]], data[spans[0]]  # data_offset, disk_size, orig_size, checksum
    written(tmp_path, bytes(data))
    report = repair(tmp_path / "a.wshard", tmp_path / "out.wshard")
    assert {"meta/episode", "meta/channels"} <= report.unrecovered.keys()
    with ShardReader(tmp_path / "out.wshard") as repaired:
        assert not {"meta/episode", "meta/channels"} & set(repaired.names())


def test_links_are_followed_and_stay_links(tmp_path):
    (tmp_path / "real").mkdir()
    path = written(tmp_path / "real", saved(make_episode()) + b"!")
    (tmp_path / "link.wshard").symlink_to(path)
    repair(tmp_path / "link.wshard", in_place=True)
    assert (tmp_path / "link.wshard").is_symlink()
    assert load_wshard(path).length == 20


# ---- on the command line -------------------------------------------------------------------------------------------


def test_verify_names_the_repair_and_repair_reports_what_it_did(tmp_path):
    path = written(tmp_path, recorded(100)[0], "it's a.wshard")
    output = run("verify", path)
    assert output.exit_code == 1
    command = output.stdout.splitlines()[-1].strip().removeprefix("try: ")
    assert command == f"wshard repair '{tmp_path}/it'\"'\"'s a.wshard'"
    done = run("repair", path)
    assert done.exit_code == 0
    note, _, rest = done.stdout.partition("\n")
    assert note.startswith("note       no checksum covers the rows from timestep 64 on")
    assert rest == f"repaired   {tmp_path}/it's a.repaired.wshard  (an interleaved stream, restored exactly)\n"
    assert run("verify", tmp_path / "it's a.repaired.wshard").exit_code == 0
    assert run("repair", tmp_path / "it's a.repaired.wshard").stdout.endswith("nothing to repair\n")


def test_losses_are_exit_code_1_and_reported_line_by_line_or_as_json(tmp_path):
    path = written(tmp_path, damaged(saved(make_episode()), "reward")[:-5])
    output = run("repair", path, "-o", tmp_path / "b.wshard")
    assert output.exit_code == 1
    assert output.stdout.startswith("LOST       'reward': block 'reward': Checksum mismatch")
    assert "LOST       'time/ticks'" in output.stdout
    assert "note       the file should have" in output.stdout
    assert output.stdout.endswith(f"repaired   {tmp_path / 'b.wshard'}  (7 block(s) recovered, 2 lost)\n")
    report = json.loads(run("repair", path, "--in-place", "--json").stdout)
    assert (report["damage"], report["output"], sorted(report["unrecovered"])) == (
        "damaged",
        str(path),
        ["reward", "time/ticks"],
    )
    assert report["backup"] == f"{path}.bak"


def test_files_that_cannot_be_repaired_are_one_line_and_not_offered(tmp_path):
    path = written(tmp_path, b"SHRD nothing of the kind")
    output = run("repair", path)
    assert (output.exit_code, output.stdout) == (1, "")
    assert output.stderr.count("\n") == 1
    assert "wshard repair" not in run("verify", path).stdout
    assert json.loads(run("verify", path, "--json").stdout)["items"][0]["repair"] is None
    assert run("repair", path, "-o", tmp_path / "x", "--in-place").exit_code == 2


def test_intact_files_are_left_alone_anyone_who_wrote_them(wshard_fixtures, tmp_path):
    count = 0
    for path in sorted((wshard_fixtures / "other-writers").glob("*.*shard")):
        if path.name == "py_stream_100.wshard":
            continue
        report = repair(path, tmp_path / "out.wshard")
        assert (report.damage, report.output) == (Damage.INTACT, None), path.name
        count += 1
    assert count >= 12
    save_wshard(make_episode(), tmp_path / "own.wshard", "zstd")
    assert repair(tmp_path / "own.wshard").damage is Damage.INTACT
