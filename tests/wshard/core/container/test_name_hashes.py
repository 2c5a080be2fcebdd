"""Header, index and names, which no checksum covers: what damage does to them is noticed, and most of it undone.

Rules E-15 and E-16. WSHARD_MUTATIONS: set, every bit is flipped (`make fuzz`); otherwise some bits of every byte.
"""

from __future__ import annotations

import contextlib
import io
import os
import time
from itertools import product
from pathlib import Path

import pytest
from paths import GOLDEN
from typer.testing import CliRunner
from wshard_files import saved, with_blocks, with_json

from wshard import FormatError, FormatWarning, RepairReport, ShardReader, ShardWriter, load_wshard, open_wshard
from wshard import repair_file as repair
from wshard.cli.files import app
from wshard.core.container.layout import HEADER_SIZE, INDEX_ENTRY_SIZE
from wshard.core.container.metadata import ShardMetadata
from wshard.core.repair.inspect import check_file, inspect_file
from wshard.core.repair.report import Damage
from wshard.errors import EntryNotFoundError, IndexCorruptError, MetadataError
from wshard.testing import make_episode

OWN = saved(make_episode(3, 12, image_size=2), "zstd")
FOREIGN = with_blocks(OWN, {"omen/state/dreamer": b"\1\2\3", "notes.txt": b"by another program"})


EVERY_BIT = "WSHARD_MUTATIONS" in os.environ


def bits_of(place: int) -> range:
    """Return which bits of a byte are flipped: two or three, and the others in the bytes beside it."""
    return range(8) if EVERY_BIT else range(place % 3, 8, 3)


def front_of(data: bytes) -> int:
    return ShardReader(data).header.data_section_offset


def flipped(data: bytes, place: int, bit: int) -> bytes:
    changed = bytearray(data)
    changed[place] ^= 1 << bit
    return bytes(changed)


def hash_place(data: bytes, name: str) -> int:
    return HEADER_SIZE + INDEX_ENTRY_SIZE * ShardReader(data).names().index(name)


def wrong(data: bytes, places: range) -> list[tuple[int, int]]:
    """Return the flipped bits that make another episode of a file, and nobody says so."""
    whole, found = load_wshard(data), []
    for place in places:
        for bit in bits_of(place):
            try:
                if load_wshard(flipped(data, place, bit)) != whole:
                    found.append((place, bit))
            except (FormatError, EntryNotFoundError):
                pass
    return found


@pytest.mark.filterwarnings("ignore::wshard.errors.FormatWarning")  # of a hash that does not fit its name
def test_no_flipped_bit_in_front_of_the_data_changes_an_episode_silently():
    assert wrong(FOREIGN, range(front_of(FOREIGN))) == []


@pytest.mark.filterwarnings("ignore::wshard.errors.FormatWarning")  # of a block that is taken for another writer's
def test_nor_does_one_in_the_files_of_other_writers(wshard_fixtures):
    files = sorted((wshard_fixtures / "other-writers").glob("*.wshard"))
    assert len(files) > 8
    for path in [*files, *sorted(GOLDEN.glob("*.wshard"))]:
        data = path.read_bytes()
        if path.stem != "py_stream_100":  # interleaved: refused as it is
            assert wrong(data, range(8, front_of(data), 61)) == [], path.name


@pytest.mark.filterwarnings("ignore::wshard.errors.FormatWarning")  # of a hash that does not fit its name
def test_repair_gives_every_block_its_name_back(tmp_path):
    whole, renamed = load_wshard(FOREIGN), 0
    for place in range(8, front_of(FOREIGN), 1 if EVERY_BIT else 3):
        data = flipped(FOREIGN, place, place % 8)
        try:
            load_wshard(data)
        except IndexCorruptError as error:
            if "the index is damaged" not in str(error) and "the header is damaged" not in str(error):
                continue
        except FormatError:
            continue
        else:
            continue
        renamed += 1
        path, target = tmp_path / "damaged.wshard", tmp_path / f"{place}.wshard"
        path.write_bytes(data)
        report = repair(path, target)
        assert report.damage is Damage.DAMAGED
        assert not report.unrecovered
        assert any("back" in note for note in report.notes)
        assert load_wshard(target) == whole
    assert renamed > (100 if EVERY_BIT else 30)


def test_the_message_and_the_command_report_the_name(tmp_path):
    data = bytearray(OWN)
    data[data.index(b"meta/episode", HEADER_SIZE) + 5] ^= 1
    with pytest.raises(IndexCorruptError, match="'meta/dpisode': expected 'meta/episode', by its hash"):
        load_wshard(bytes(data))
    path = tmp_path / "damaged.wshard"
    path.write_bytes(data)
    result = CliRunner().invoke(app, ["verify", str(path)])
    assert result.exit_code == 1
    assert "expected 'meta/episode'" in " ".join(result.output.split())


@pytest.mark.parametrize("fewer", [1, 2, 7])
def test_entries_that_the_header_does_not_count_are_missed_and_come_back(tmp_path, fewer):
    data, count = bytearray(OWN), len(ShardReader(OWN).entries)
    data[12] = count - fewer
    with pytest.raises(IndexCorruptError, match=f"entry_count: expected {count}, the entries in the index, found"):
        open_wshard(bytes(data))
    path = tmp_path / "damaged.wshard"
    path.write_bytes(data)
    assert repair(path, in_place=True).complete
    assert load_wshard(path) == load_wshard(OWN)


def test_a_gap_of_whole_entries_after_the_index_is_reported_at_opening():
    """E-16: the last entry is not counted, and its hash is damaged too."""
    data, count = bytearray(with_blocks(OWN, {"entry/1": b"one"}, role=1)), len(ShardReader(OWN).entries) + 1
    data[12] = count - 1
    data[HEADER_SIZE + INDEX_ENTRY_SIZE * (count - 1)] ^= 1
    with pytest.warns(FormatWarning, match=f"entry_count: found {count - 1}, the index has room for 1 more"):
        ShardReader(bytes(data))


def test_a_wrong_hash_alone_does_no_harm():
    whole = load_wshard(FOREIGN)
    for name in ShardReader(FOREIGN).names():
        place = hash_place(FOREIGN, name)
        changed = FOREIGN[:place] + b"\xaa" * 8 + FOREIGN[place + 8 :]
        for damaged in (changed, flipped(FOREIGN, place, 3)):
            with pytest.warns(FormatWarning, match="one of them is damaged"):
                assert load_wshard(damaged) == whole
    every = bytearray(FOREIGN)
    for name in ShardReader(FOREIGN).names():
        place = hash_place(FOREIGN, name)
        every[place : place + 8] = bytes(8)
    assert load_wshard(bytes(every)) == whole  # some other writer's hashes


def test_names_that_were_wiped_out_are_reported_and_come_back(tmp_path):
    data = bytearray(OWN)
    start = data.index(b"signal/joint_pos", HEADER_SIZE)
    data[start : start + 16] = b"\x01" * 16
    with pytest.raises(IndexCorruptError, match="expected"):
        load_wshard(bytes(data))
    path = tmp_path / "damaged.wshard"
    path.write_bytes(data)
    report = repair(path)  # the episode declares a lane of that hash
    assert "signal/joint_pos" in report.recovered
    assert load_wshard(report.output) == load_wshard(OWN)
    start = data.index(b"meta/channels", HEADER_SIZE)
    data[start : start + 13] = b"\x02" * 13
    path.write_bytes(data)
    assert repair(path, tmp_path / "again.wshard").complete
    assert load_wshard(tmp_path / "again.wshard") == load_wshard(OWN)


def test_a_block_that_is_out_of_reach_is_reported_also_where_the_header_left_it_out(tmp_path):
    data, count = bytearray(FOREIGN), len(ShardReader(FOREIGN).entries)
    data[12] = count - 2
    data[HEADER_SIZE + INDEX_ENTRY_SIZE * (count - 1) + 16 + 5] ^= 1  # its data_offset
    path = tmp_path / "damaged.wshard"
    path.write_bytes(data)
    report = repair(path)
    assert not report.complete
    assert set(report.unrecovered) == {ShardReader(FOREIGN).names()[-1]}
    assert len(report.recovered) == count - 1


def test_a_name_comes_back_beside_an_entry_that_is_out_of_reach(tmp_path):
    data, names = bytearray(FOREIGN), ShardReader(FOREIGN).names()
    data[HEADER_SIZE + 16 + 5] ^= 1
    data[hash_place(FOREIGN, "notes.txt") + 12] ^= 1  # its length
    path = tmp_path / "damaged.wshard"
    path.write_bytes(data)
    report = repair(path)
    assert sorted(report.recovered) == sorted(names[1:])
    assert any("'notes.txt' has its name back" in note for note in report.notes)


def test_many_declared_lanes_take_no_longer_than_a_moment():
    channels = [{"id": f"{n:0200d}"} for n in range(50_000)]
    data = bytearray(with_json(FOREIGN, "meta/channels", channels=channels))
    place = hash_place(data, "notes.txt")
    data[place : place + 8] = b"\5" * 8
    begun = time.thread_time()
    with pytest.warns(FormatWarning, match="'notes.txt'"):
        open_wshard(bytes(data)).close()
    assert time.thread_time() - begun < 10


def test_many_wrong_hashes_take_no_longer_than_a_moment():
    names = [f"signal/{number:0240d}" for number in range(2000)]
    data = bytearray(with_blocks(OWN, dict.fromkeys(names, b"\0")))
    first = hash_place(data, names[0])
    for place in range(first, first + len(names) * INDEX_ENTRY_SIZE, INDEX_ENTRY_SIZE):
        data[place : place + 8] = b"\5" * 8
    begun = time.thread_time()
    with pytest.warns(FormatWarning, match="and 1999 more"):
        assert len(load_wshard(bytes(data)).blocks) == 2000
    assert time.thread_time() - begun < 10


# ---- what the hashes tell of names, and counts of the rest ---------------------------------------------------------

ARMS = {"signal/left_arm": b"\1" * 96, "signal/gripper1": b"\2" * 96, "signal/gripper2": b"\3" * 96}


def with_arms() -> bytes:
    channels = [{"id": name.partition("/")[2], "dtype": "f32", "shape": [2]} for name in ARMS]
    data = with_json(with_blocks(OWN, ARMS), "meta/channels", channels=channels)
    return with_blocks(data, {"signal/joint_pos": None, "signal/gripper": None, "signal/cam0/rgb": None})


def row(data: bytes, name: str) -> int:
    return HEADER_SIZE + INDEX_ENTRY_SIZE * ShardReader(data).names().index(name)


def exchanged(data: bytes, one: int, other: int, size: int) -> bytes:
    changed = bytearray(data)
    changed[one : one + size], changed[other : other + size] = data[other : other + size], data[one : one + size]
    return bytes(changed)


def mended(folder: Path, data: bytes) -> RepairReport:
    path = folder / "damaged.wshard"
    path.write_bytes(data)
    (folder / "damaged.repaired.wshard").unlink(missing_ok=True)
    return repair(path)


def blocks_of(report: RepairReport) -> dict[str, bytes]:
    with ShardReader(report.output) as reader:
        return {name: reader.read_entry(name) for name in reader.names()}


def test_a_name_that_leads_to_another_lane_s_is_not_believed(tmp_path):
    """R-12: the name of a lane that is damaged itself, by the place of another lane's name."""
    data = with_arms()
    changed = bytearray(data)
    left, right = row(data, "signal/left_arm"), row(data, "signal/gripper2")
    changed[left + 8 : left + 14] = data[right + 8 : right + 14]  # place and size of its name
    changed[ShardReader(data).entry("signal/gripper2").data_offset] ^= 1
    report = mended(tmp_path, bytes(changed))
    found = blocks_of(report)
    assert found["signal/left_arm"] == ARMS["signal/left_arm"]
    assert [*report.unrecovered] == ["signal/gripper2"]
    assert "signal/gripper2" not in found
    changed[left : left + 8] = b"\xaa" * 8  # nor does its hash tell
    report = mended(tmp_path, bytes(changed))
    found = blocks_of(report)
    assert not {"signal/left_arm", "signal/gripper2"} & found.keys()
    assert ARMS["signal/left_arm"] in found.values()
    assert load_wshard(report.output).observations.keys() == {"gripper1"}


def test_names_that_were_exchanged_are_refused_and_put_right(tmp_path):
    """E-15, R-11."""
    data = with_arms()
    one, other = row(data, "signal/gripper1"), row(data, "signal/gripper2")
    names = data.index(b"signal/gripper1", HEADER_SIZE), data.index(b"signal/gripper2", HEADER_SIZE)
    for swapped in (exchanged(data, one + 8, other + 8, 6), exchanged(data, *names, 15)):
        with pytest.raises(IndexCorruptError, match="'signal/gripper2': expected 'signal/gripper1'"):
            load_wshard(swapped)
        report = mended(tmp_path, swapped)
        assert report.complete
        assert load_wshard(report.output) == load_wshard(data)


@pytest.mark.parametrize("role", [1, 2])
def test_exchanged_names_of_a_container_are_reported_and_put_right(tmp_path, role):
    """R-11."""
    data = with_blocks(OWN, {"entry/1": b"one", "entry/2": b"two"}, role=role)
    swapped = exchanged(data, row(data, "entry/1") + 8, row(data, "entry/2") + 8, 6)
    path = tmp_path / "damaged.wshard"
    path.write_bytes(swapped)
    assert "'entry/1' has its name back" in check_file(path)[1]["header"]
    assert blocks_of(mended(tmp_path, swapped))["entry/1"] == b"one"


@pytest.mark.parametrize("size", [8, 300, 2000])
def test_the_only_name_of_a_container_is_reported_by_its_hash(tmp_path, size):
    """C-8, R-11: whatever bit of it is flipped, also where no other name shows how the writer hashes."""
    name = "n" * size
    file = io.BytesIO()
    with ShardWriter(file, role=1) as writer:
        writer.write_entry(name, b"data")
    data, path = file.getvalue(), tmp_path / "damaged.wshard"
    start = HEADER_SIZE + INDEX_ENTRY_SIZE
    places = [(start + at, bit) for at in (0, size // 2, size - 1) for bit in bits_of(at) if bit < 7]
    for place, bit in [*places, (HEADER_SIZE + 12, 1), (HEADER_SIZE + 8, 0)]:
        path.write_bytes(flipped(data, place, bit))
        with pytest.raises(FormatError):
            ShardReader(path)
        assert "header" in check_file(path)[1]
        assert blocks_of(mended(tmp_path, path.read_bytes())) == {name: b"data"}


@pytest.mark.filterwarnings("ignore::wshard.errors.FormatWarning")  # of the last one, where it is no subject
def test_undeclared_lanes_that_damage_hides_are_reported_and_come_back(tmp_path):
    """E-15: by two bits, or one byte, of a name that nothing but its hash tells."""
    data = with_blocks(OWN, {"residual/x": b"\1\2", "residual/state/s": b"\3\4"})
    whole = load_wshard(data)
    for name in (b"residual\0x", b"residual.y", b"resitual/x"):
        damaged = data.replace(b"residual/x", name)
        with pytest.raises(IndexCorruptError, match="expected 'residual/x', by its hash"):
            load_wshard(damaged)
        report = mended(tmp_path, damaged)
        assert report.complete
        assert load_wshard(report.output) == whole
    wiped = data.replace(b"residual/x", b"#" * 10)
    with pytest.warns(FormatWarning, match="'##########': the stored hash does not match the name"):
        load_wshard(wiped)
    path = tmp_path / "damaged.wshard"
    path.write_bytes(wiped)
    assert "'##########': its stored hash is not that of its name" in check_file(path)[1]["header"]
    report = mended(tmp_path, wiped)
    assert [*report.unrecovered] == ["##########"]
    assert [data for name, data in blocks_of(report).items() if name.startswith("unproved/")] == [b"\1\2"]
    assert check_file(Path(report.output))[1] == {}


def test_a_container_warns_of_a_name_that_its_hash_does_not_fit(tmp_path):
    """C-8: two flipped bits or more; nothing tells what it was."""
    path = tmp_path / "damaged.wshard"
    path.write_bytes(with_blocks(OWN, {"entry/1": b"one"}, role=1).replace(b"entry/1", b"e##ry/1"))
    with pytest.warns(FormatWarning, match="'e##ry/1': the stored hash does not match the name"):
        ShardReader(path)
    assert "'e##ry/1': its stored hash is not that of its name" in check_file(path)[1]["header"]


@pytest.mark.parametrize("place", [0, 3, 7])
def test_a_flipped_bit_of_a_hash_changes_nothing_and_is_reported_at_opening(wshard_fixtures, tmp_path, place):
    """C-8, C-12: not even which of two blocks of one name is meant."""
    twice = (wshard_fixtures / "other-writers/go_duplicate.shard").read_bytes()
    one = (wshard_fixtures / "safety/container/valid_long_name.shard").read_bytes()
    for data in (twice, one, with_blocks(OWN, {"entry/1": b"one"}, role=1)):
        whole, path = ShardReader(data), tmp_path / "damaged.shard"
        for number, name in enumerate(whole.names()):
            path.write_bytes(flipped(data, HEADER_SIZE + INDEX_ENTRY_SIZE * number + place, 2))
            with pytest.warns(FormatWarning, match="the stored hash does not match the name"):
                reader = ShardReader(path)
            assert [reader.read_entry(n) for n in reader.names()] == [whole.read_entry(n) for n in whole.names()]
            assert name in check_file(path)[1]["header"]


def test_two_entries_that_take_one_name_from_one_place_are_reported(wshard_fixtures, tmp_path):
    """C-12: two blocks of one name have it twice; a bit that makes one of them the other's is damage."""
    data = (wshard_fixtures / "other-writers/go_duplicate.shard").read_bytes()
    assert ShardReader(data).names() == ["a", "a"]
    entries, path = ShardReader(data).entries, tmp_path / "damaged.shard"
    changed = bytearray(data)
    changed[HEADER_SIZE + INDEX_ENTRY_SIZE + 8] = entries[0].name_offset
    path.write_bytes(changed)
    with pytest.warns(FormatWarning, match="'a': another entry has the same name offset"):
        ShardReader(path)
    assert "another entry has the same name" in check_file(path)[1]["header"]


def test_a_container_that_says_it_is_an_episode_is_reported_and_preserved(tmp_path):
    """R-11."""
    file = io.BytesIO()
    with ShardWriter(file, role=1) as writer:
        writer.write_entry("entry/1", b"one")
    report = mended(tmp_path, flipped(file.getvalue(), 5, 2))
    assert "role 5" in report.notes[0]
    assert blocks_of(report) == {"entry/1": b"one"}
    assert check_file(Path(report.output), strict=True)[1] == {}


def test_strict_checks_reports_every_bit_that_no_writer_sets(tmp_path):
    """C-13: of header and index, without harm; what is left is a value that some writer gives."""
    file = io.BytesIO()
    with ShardWriter(file, role=2) as writer:
        writer.set_metadata(ShardMetadata(tag_dictionary=("good",)))
        writer.write_entry("a", b"1" * 99, tags=["good"])
    path, silent = tmp_path / "damaged.shard", set()
    entry = range(HEADER_SIZE, HEADER_SIZE + INDEX_ENTRY_SIZE)
    for data, places in ((file.getvalue(), (*range(HEADER_SIZE), *entry)), (OWN, range(HEADER_SIZE))):
        for place, bit in product(places, range(8)):
            path.write_bytes(flipped(data, place, bit))
            if not check_file(path, strict=True)[1]:
                silent.add((place, bit))
    fields = {*((6, bit) for bit in (0, 1, 5, 6, 7)), (8, 6), (9, 0), (9, 1)}
    assert {place for place, _ in silent} == {5, 6, 8, 9, HEADER_SIZE + 14, HEADER_SIZE + 46}
    assert {one for one in silent if 5 < one[0] < HEADER_SIZE} <= fields
    assert {one for one in silent if one[0] > HEADER_SIZE} == {(HEADER_SIZE + 14, 0), (HEADER_SIZE + 46, 0)}


def test_empty_entries_prove_nothing(tmp_path):
    """R-13: sizes and checksum of an entry that were wiped out look like an empty block's."""
    for role in (5, 1):
        data = with_blocks(OWN, {"other": b"\0" * 100, "really empty": b""}, role=role)
        for name in ("signal/joint_pos", "other"):
            changed = bytearray(data)
            changed[row(data, name) + 24 : row(data, name) + 44] = bytes(20)
            report = mended(tmp_path, bytes(changed))
            assert [*report.unrecovered] == [name]
            assert blocks_of(report)["really empty"] == b""
            path = tmp_path / "damaged.wshard"
            assert repr(name) in " ".join(check_file(path)[1].values())
            if role == 1:
                with pytest.warns(FormatWarning, match=f"block '{name}': its entry says 0 bytes"):
                    ShardReader(path).close()
    changed = bytearray(data)
    changed[row(data, "meta/channels") + 24 : row(data, "meta/channels") + 44] = bytes(20)
    changed[5] = 5
    report = mended(tmp_path, bytes(changed))
    assert report.unrecovered["meta/channels"].endswith("its entry says 0 bytes, expected JSON")
    with ShardReader(report.output) as reader:
        assert reader.header.role == 0
        assert reader.read_entry("other") == b"\0" * 100


def test_a_flipped_bit_of_the_role_is_reported_and_put_right(tmp_path):
    """R-11."""
    for bit in range(8):
        data = flipped(OWN, 5, bit)
        path = tmp_path / "damaged.wshard"
        path.write_bytes(data)
        assert "role" in check_file(path)[1]["header"]
        assert load_wshard(mended(tmp_path, data).output) == load_wshard(OWN)


def test_a_role_is_put_right_also_where_a_meta_block_has_lost_its_name(tmp_path):
    """R-11: its name comes back first, by its hash."""
    damaged = flipped(OWN, 5, 1).replace(b"meta/episode", b"meta/epirode")
    report = mended(tmp_path, damaged)
    assert "the header said role 7: its blocks are those of an episode, role 5" in report.notes
    assert check_file(Path(report.output))[1] == {}
    assert load_wshard(report.output) == load_wshard(OWN)


def test_no_flipped_bit_of_the_header_brings_an_error_that_is_not_ours(tmp_path):
    """C-28, C-30: in a file that is not read whole; what is said of it is the truth."""
    ep = make_episode(1, 200, image_size=8)
    data = saved(ep)
    assert len(data) > 50_000
    path, unnoticed = tmp_path / "damaged.wshard", set()
    for place in range(48):
        for bit in bits_of(place):
            path.write_bytes(flipped(data, place, bit))
            problems = check_file(path)[1]
            assert not any("unexpected" in text for text in problems.values()), (place, bit)
            with contextlib.suppress(FormatError):
                inspect_file(path)
            with contextlib.suppress(FormatError):
                load_wshard(path)
            (tmp_path / "out.wshard").unlink(missing_ok=True)
            try:
                report = repair(path, tmp_path / "out.wshard")
            except FormatError:
                assert problems
                continue
            assert bool(problems) == (report.damage is not Damage.INTACT), (place, bit)
            if report.damage is Damage.INTACT:
                unnoticed.add(place)
            else:
                assert load_wshard(report.output) == ep
    assert unnoticed <= {6, 7, 8, 9, 24, 25}  # flags, alignment, default codec, and room behind the names: no harm


def test_a_section_whose_place_is_lost_is_found_again(tmp_path):
    """C-30, R-11."""
    path = tmp_path / "a.shard"
    with ShardWriter(path) as writer:
        writer.set_metadata(ShardMetadata(producer="a program"))
        writer.write_entry("a", b"1" * 99)
    data = path.read_bytes()
    offset = ShardReader(data).header.schema_offset
    for wrong in (0, offset + 3, 1 << 63):
        changed = bytearray(data)
        changed[32:40] = wrong.to_bytes(8, "little")
        with pytest.raises(MetadataError):
            ShardReader(bytes(changed)).read_metadata()
        report = mended(tmp_path, bytes(changed))
        assert report.complete
        with ShardReader(report.output) as reader:
            assert reader.read_metadata().producer == "a program"


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.filterwarnings("ignore::wshard.errors.FormatWarning")
def test_verify_reports_zeros_over_the_names_or_an_entry_of_a_container(tmp_path, count):
    """C-8: whatever part of the index or the names is zero, the file is reported or every block is as it was."""
    file, path = io.BytesIO(), tmp_path / "x.shard"
    with ShardWriter(file, role=1, alignment=0) as writer:
        for number in range(count):
            writer.write_entry(f"entry/{number}", bytes(range(1, 90 + number)))
    data = file.getvalue()
    truth = ShardReader(data)
    strings, front = HEADER_SIZE + count * INDEX_ENTRY_SIZE, front_of(data)
    last = strings - INDEX_ENTRY_SIZE
    starts = [HEADER_SIZE, last, last + 8, last + 12, last + 16, last + 24, last + 40, strings, strings + 3]
    for start, stop in product(starts, [last + 8, last + 14, last + 24, last + 44, strings, strings + 7, front]):
        damaged = data[:start] + bytes(max(stop - start, 0)) + data[max(start, stop) :]
        path.write_bytes(damaged)
        if not check_file(path)[1]:
            found = ShardReader(damaged)
            assert found.names() == truth.names(), (start, stop)
            assert [found.read_entry(n) for n in range(count)] == [truth.read_entry(n) for n in range(count)]
    path.write_bytes(data[:strings] + bytes(front - strings) + data[front:])
    with pytest.warns(FormatWarning, match="the stored hash does not match the name"):
        ShardReader(path)
    report = repair(path)
    assert report.unrecovered
    assert not report.complete


def test_verify_reports_a_checksum_that_is_zero_among_others(tmp_path):
    data = bytearray(with_blocks(OWN, {"entry/1": b"one", "entry/2": b"two"}, role=2))
    data[6:8] = bytes(2)  # the header need not say that there are checksums
    path = tmp_path / "x.shard"
    path.write_bytes(data)
    assert check_file(path)[1] == {}
    for name in ("entry/1", "entry/2"):
        damaged = data.copy()
        damaged[row(data, name) + 40 : row(data, name) + 44] = bytes(4)
        path.write_bytes(damaged)
        assert "no checksum covers it" in check_file(path)[1][name]
    for name in ShardReader(bytes(data)).names():
        data[row(data, name) + 40 : row(data, name) + 44] = bytes(4)
    path.write_bytes(data)  # by a writer without checksums
    assert check_file(path)[1] == {}
    assert check_file(path, strict=True)[1].keys() >= {"entry/1", "entry/2"}
