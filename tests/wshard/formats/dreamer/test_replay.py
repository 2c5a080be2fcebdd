"""DreamerV3 files: both ways without loss, episodes across files, and archives that want to do harm."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import struct
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wshard import (
    Channel,
    ChunkedEpisodeReader,
    ChunkedEpisodeWriter,
    DType,
    Episode,
    Format,
    FormatError,
    MemoryReader,
    convert,
    load,
    load_dreamer,
    load_wshard,
    open_sink,
    save_dreamer,
    save_wshard,
)
from wshard.core.episode.info import EpisodeInfo
from wshard.errors import EntryNotFoundError, EpisodeError, LaneError, LimitError
from wshard.formats import npz
from wshard.formats.dreamer.replay import DreamerSource
from wshard.formats.npz import read_npz, write_npz
from wshard.testing import make_episode


def replay(steps: int = 12, *, ends: tuple[int, ...] = (4,)) -> dict[str, np.ndarray]:
    """Return the arrays of a replay file in which episodes end after the steps `ends`, the last one beyond the file."""
    rng = np.random.default_rng(steps)
    last = np.isin(np.arange(steps), ends)
    return {
        "image": rng.integers(0, 256, (steps, 8, 8, 3), np.uint8),
        "reward": rng.normal(size=steps).astype(np.float32),
        "action": rng.normal(size=(steps, 2)).astype(np.float32),
        "is_first": np.concatenate([[True], last[:-1]]),
        "is_last": last,
        "is_terminal": last & (np.arange(steps) % 2 == 0),
        "stepid": rng.integers(0, 256, (steps, 20), np.uint8),
    }


ODD = {
    "discount": np.linspace(0, 1, 12, dtype=np.float32),
    "done": np.zeros(12, np.bool_),
    "log_speed": np.arange(12.0),
    "table": np.arange(100),
    "intrinsics": np.eye(3),
    "scale": np.array(2.5),
    "instruction": np.array(["pick", "ä"] * 6),
    "date": np.array(["2025-01-01"] * 12, "M8[D]"),
    "wave": np.zeros((12, 2), np.complex64),
    "nothing": np.zeros((0, 4), np.int8),
}


def stored(arrays: dict[str, np.ndarray], path: Path) -> Path:
    np.savez_compressed(path, **arrays)
    return path


def assert_holds(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with np.load(path, allow_pickle=False) as found:
        assert set(found) >= set(arrays)
        for key, array in arrays.items():
            assert found[key].dtype == array.dtype, key
            assert found[key].shape == array.shape, key
            assert found[key].tobytes() == array.tobytes(), key


# ---- both ways ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arrays", [replay(), replay() | ODD, replay(ends=(4, 11)), replay(ends=())])
def test_a_file_comes_back_from_an_episode_file_with_every_key(tmp_path, arrays):
    ep = load_dreamer(stored(arrays, tmp_path / "in.npz"))
    save_dreamer(ep, tmp_path / "direct.npz")
    save_wshard(ep, tmp_path / "ep.wshard", "zstd")
    save_dreamer(load_wshard(tmp_path / "ep.wshard"), tmp_path / "out.npz")
    for name in ("direct.npz", "out.npz"):
        assert_holds(tmp_path / name, arrays)
        with np.load(tmp_path / name) as found:
            assert set(found) == set(arrays)


def test_keys_become_parts_of_the_episode(tmp_path):
    arrays = (
        replay()
        | ODD
        | {"state": np.arange(12, dtype=np.float32), "act_disc": np.arange(12), "depth": np.ones((12, 4))}
    )
    ep = load_dreamer(stored(arrays, tmp_path / "20250101T000000F000000-Abc-0000-12.npz"))
    assert (ep.id, ep.length, ep.source_format) == ("Abc", 12, Format.DREAMER_V3)
    assert list(ep.observations) == ["image", "state", "depth"]
    assert list(ep.actions) == ["action", "act_disc"]
    assert ep.observations["image"].shape == [8, 8, 3]
    assert np.array_equal(ep.rewards, arrays["reward"])
    assert np.array_equal(ep.terminations, arrays["is_terminal"])
    assert np.array_equal(ep.truncations, arrays["is_last"])
    assert np.array_equal(ep.metadata["is_first"], arrays["is_first"])
    assert np.array_equal(ep.metadata["stepid"], arrays["stepid"])
    assert set(ep.blocks) == {f"aux/npz/{key}.npy" for key in ODD}
    ep.observations["image"].data[0] = 7  # what was loaded is the caller's own


def test_without_is_terminal_the_last_step_is_the_end(tmp_path):
    arrays = {key: array for key, array in replay().items() if key != "is_terminal"}
    ep = load_dreamer(stored(arrays, tmp_path / "x.npz"))
    assert np.array_equal(ep.terminations, arrays["is_last"])
    assert ep.truncations is None
    assert load_dreamer(stored({"obs": np.zeros(3)}, tmp_path / "y.npz")).terminations is None


def test_names_and_file_objects(tmp_path):
    data = stored(replay(), tmp_path / "my-run.npz").read_bytes()
    assert load_dreamer(tmp_path / "my-run.npz").id == "my-run"
    assert load_dreamer(str(tmp_path / "my-run.npz"), uuid="given").id == "given"
    assert load_dreamer(io.BytesIO(data)).id == "unknown"
    out = io.BytesIO()
    save_dreamer(load_dreamer(io.BytesIO(data)), out)
    out.seek(0)
    assert load_dreamer(out, "again").length == 12
    save_dreamer(make_episode(), tmp_path / "without suffix")
    assert (tmp_path / "without suffix.npz").exists()


@given(
    ends=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=9),
    terminations=st.booleans(),
    truncations=st.booleans(),
)
def test_ends_of_an_episode_by_a_literal_loop(ends, terminations, truncations):
    ep = Episode("e", length=len(ends), observations={"obs": Channel.of("obs", np.zeros(len(ends)))})
    ep.terminations = np.array([end for end, _ in ends]) if terminations else None
    ep.truncations = np.array([end for _, end in ends]) if truncations else None
    file = io.BytesIO()
    save_dreamer(ep, file)
    found = np.load(io.BytesIO(file.getvalue()))
    ended = [(term and terminations) or (trunc and truncations) for term, trunc in ends]
    assert found["is_first"].tolist() == [True, *ended[:-1]]
    assert found["is_last"].tolist() == [*ended[:-1], True]
    assert ("is_terminal" in found) == terminations


def test_channels_of_one_name_are_refused_instead_of_overwritten():
    ep = make_episode()
    for observations in ({"ctrl": ep.actions["ctrl"]}, {"reward": ep.actions["ctrl"]}, {"is_last": ep.actions["ctrl"]}):
        with pytest.raises(EpisodeError, match="two arrays of one name"):
            save_dreamer(replace(ep, observations=observations), io.BytesIO())


def test_what_an_npz_cannot_hold_is_refused(tmp_path):
    lane = Channel("b", DType.BFLOAT16, [], np.zeros(20, np.uint16))
    with pytest.raises(EpisodeError, match="bf16"):
        save_dreamer(replace(make_episode(), observations={"b": lane}), tmp_path / "x.npz")
    with pytest.raises(EpisodeError, match="cannot hold object"):
        write_npz({"o": np.array([{}])}, tmp_path / "x.npz")
    assert not list(tmp_path.iterdir())


def test_metadata_of_other_timesteps_are_not_the_flags(tmp_path):
    ep = load_dreamer(stored(replay(), tmp_path / "in.npz"))
    writer = ChunkedEpisodeWriter(tmp_path, "chunks", 5)
    writer.write_episode_chunked(ep)
    part = ChunkedEpisodeReader(writer.finalize_manifest()).load_chunk(1)
    save_dreamer(part, tmp_path / "part.npz")
    with np.load(tmp_path / "part.npz") as found:
        assert found["is_first"].tolist() == [True, False, False, False, False]
        assert "stepid" not in found
    for wrong in ([[1], [1, 2]], "text", [300.5] * 12, [[300] * 20] * 12, None):
        save_dreamer(replace(ep, metadata={"stepid": wrong, "is_first": wrong}), tmp_path / "wrong.npz")
        with np.load(tmp_path / "wrong.npz") as found:
            assert "stepid" not in found


# ---- folders --------------------------------------------------------------------------------------------------------


def test_episodes_across_files_of_other_programs(dataset_fixtures):
    folder = dataset_fixtures / "other"
    expected = json.loads((folder / "expected.json").read_text())
    with np.load(folder / "other_source.npz") as truth, DreamerSource(folder / "dreamerv3_replay") as source:
        assert len(source.keys()) == expected["datasets"]["dreamerv3_replay"]["episodes"]
        for number, key in enumerate(source.keys()):
            ep = source.load(key)
            assert ep.length == expected["lengths"][number]
            assert ep.observations["image"].data.tobytes() == truth[f"episode_{number}/img"].tobytes()
            assert ep.actions["action"].data.tobytes() == truth[f"episode_{number}/action"].tobytes()
            assert ep.rewards.tobytes() == truth[f"episode_{number}/reward"].tobytes()
            assert ep.terminations.tolist() == [False] * (ep.length - 1) + [number == 1]
            assert ep.metadata["stepid"].shape == (ep.length, 20)
    for file in (folder / "dreamerv3_replay").iterdir():
        assert load_dreamer(file).length == int(file.stem.split("-")[-1])


def test_a_file_of_other_programs_that_tears_episodes_is_refused_alone(dataset_fixtures, tmp_path):
    folder = dataset_fixtures / "other" / "dreamerv3_replay"
    first, second = sorted(folder.iterdir())
    for path, message in ((first, f"goes on in {second.name}"), (second, f"begins in {first.name}")):
        for read in (load, lambda path: convert(path, tmp_path / "out.wshard")):
            with pytest.raises(FormatError, match=message):
                read(path)
    assert not list(tmp_path.iterdir())


def name(time: int, uuid: str, successor: str, steps: int) -> str:
    return f"20250101T00000{time}F000000-{uuid}-{successor}-{steps}.npz"


def parts(lengths: list[int], *, first: set[int]) -> list[dict[str, np.ndarray]]:
    """Return consecutive files of one stream of rows 0, 1, 2, ... where the rows `first` begin episodes."""
    rows = np.arange(sum(lengths))
    flags = np.isin(rows, list(first))
    borders = np.cumsum(lengths)[:-1]
    return [{"obs": o, "is_first": f} for o, f in zip(np.split(rows, borders), np.split(flags, borders), strict=True)]


@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=5), data=st.data())
def test_a_stream_is_cut_at_first_steps_only(tmp_path_factory, lengths, data):
    folder, total = tmp_path_factory.mktemp("replay"), sum(lengths)
    first = data.draw(st.sets(st.integers(0, total - 1)))
    for number, part in enumerate(parts(lengths, first=first)):
        stored(part, folder / name(number, f"u{number}", f"u{number + 1}", lengths[number]))
    episodes: list[list[int]] = []
    for row in range(total):
        if row in first or not episodes:
            episodes.append([])
        episodes[-1].append(row)
    source = DreamerSource(folder)
    assert [source.load(key).observations["obs"].data.tolist() for key in list(source.keys())] == episodes


@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=5), data=st.data())
def test_keys_stay_while_files_arrive_and_only_the_last_episode_grows(tmp_path_factory, lengths, data):
    folder, total = tmp_path_factory.mktemp("replay"), sum(lengths)
    first = data.draw(st.sets(st.integers(0, total - 1)))
    before: dict[str, object] = {}
    for number, part in enumerate(parts(lengths, first=first)):
        stored(part, folder / name(number, f"u{number}", f"u{number + 1}", lengths[number]))
        source = DreamerSource(folder)
        keys = source.keys()
        assert keys[: len(before)] == list(before)
        now = {key: source.fingerprint(key) for key in keys}
        assert all(now[key] == before[key] for key in list(before)[:-1])
        if before and part["is_first"][0]:
            assert now[keys[len(before) - 1]] == before[keys[len(before) - 1]]
        elif before:
            assert now[keys[len(before) - 1]].size > before[keys[len(before) - 1]].size
        before = now
        for key in keys:  # one by one, without a look at the others
            alone = DreamerSource(folder)
            assert alone.fingerprint(key) == now[key]
            with alone.open(key) as file:
                assert (file.id, file.length) == (key, source.load(key).length)
            assert "_episodes" not in vars(alone)


def test_one_episode_is_opened_without_a_look_at_other_files(tmp_path):
    one, two = parts([3, 3], first={0, 2})
    stored(one, tmp_path / name(0, "a", "b", 3))
    stored(two, tmp_path / name(1, "b", "c", 3))
    (tmp_path / name(2, "z", "none", 3)).write_bytes(b"no archive")
    source = DreamerSource(tmp_path)
    assert source.load("a-2").observations["obs"].data.tolist() == [2, 3, 4, 5]
    assert source.open("a").length == 2
    for wrong in ("b", "a-1", "a-9", "a-x", "q", ""):
        with pytest.raises((EntryNotFoundError, FormatError)):
            source.load(wrong)
    (tmp_path / name(2, "z", "none", 3)).unlink()
    with pytest.raises(EntryNotFoundError, match="no episode 'b'; it has a, a-2"):
        DreamerSource(tmp_path).load("b")


@pytest.mark.parametrize("damaged", range(4))
def test_a_damaged_file_costs_the_episodes_with_rows_in_it_alone(tmp_path, damaged):
    """Episodes of the rows 0 to 1, 2 to 4 (in two files), 5 to 8 (is_last in the file before), 9 to 11; one alone."""
    for number, part in enumerate(parts([3, 2, 4, 3], first={0, 2, 5, 9})):
        part["is_last"] = np.isin(part["obs"], [1, 4, 8, 11])
        stored(part, tmp_path / name(number, f"u{number}", f"u{number + 1}", len(part["obs"])))
    shutil.copy(stored(replay(ends=()), tmp_path / "z.npz"), tmp_path / "a.npz")
    for path in (next(tmp_path.glob(f"*-u{damaged}-u*")), tmp_path / "a.npz"):
        os.truncate(path, 100)
    assert DreamerSource.matches(tmp_path)
    source, failed = DreamerSource(tmp_path), {}
    for key in source.keys():  # noqa: SIM118  (a Source is no mapping)
        try:
            source.load(key)
        except FormatError as error:
            failed[key] = str(error)
    lost = {0: {"u0"}, 1: {"u0-2"}, 2: {"u2"}, 3: {"u3"}}[damaged]
    assert set(failed) == lost | {"a"}
    assert all("expected numpy arrays" in text for text in failed.values())
    assert set(source.keys()) == {"u0", "u2", "u3", "a", "z"} | ({"u0-2"} if damaged else set())


def test_two_episodes_of_one_key_are_refused(tmp_path):
    (whole,) = parts([4], first={0, 2})
    stored(whole, tmp_path / "a.npz")
    stored(whole, tmp_path / "a-2.npz")
    with pytest.raises(FormatError, match="expected one episode 'a-2', found two"):
        DreamerSource(tmp_path).keys()


@settings(max_examples=12)
@given(steps=st.integers(1, 12), data=st.data())
def test_a_file_is_cut_at_first_steps_as_a_folder_is(tmp_path_factory, steps, data):
    folder = tmp_path_factory.mktemp("one")
    (arrays,) = parts([steps], first=data.draw(st.sets(st.integers(0, steps - 1))))
    path = stored(arrays, folder / name(0, "a", "gone", steps))
    in_folder, alone = DreamerSource(folder), DreamerSource(path)
    found = [alone.load(key) for key in list(alone.keys())]
    assert [ep.id for ep in found] == in_folder.keys()
    for ep, key in zip(found, in_folder.keys(), strict=True):
        assert ep.observations["obs"].data.tolist() == in_folder.load(key).observations["obs"].data.tolist()
    assert DreamerSource(io.BytesIO(path.read_bytes())).keys() == [
        key.replace("a", "unknown") if len(found) > 1 else "" for key in list(in_folder.keys())
    ]
    if len(found) > 1:
        with pytest.raises(FormatError, match=f"expected one episode, found {len(found)}"):
            load(path)
    else:
        assert load(path).length == load_dreamer(path).length == steps


def test_streams_follow_successors_and_not_time(tmp_path):
    one, two = parts([3, 3], first={0})
    stored(two, tmp_path / name(0, "b", "gone", 3))
    stored(one, tmp_path / name(1, "a", "b", 3))
    stored({key: array[:1] for key, array in one.items()}, tmp_path / name(1, "a", "b", 1))  # saved early, then whole
    for uuid, successor in (("x", "y"), ("y", "x")):  # a ring
        stored(one, tmp_path / name(2, uuid, successor, 3))
    source = DreamerSource(tmp_path)
    assert source.keys() == ["a", "x", "y"]
    assert source.load("a").observations["obs"].data.tolist() == [0, 1, 2, 3, 4, 5]


def test_files_without_flags_and_arrays_without_time(tmp_path):
    stored({"obs": np.arange(4), "intrinsics": np.eye(3)}, tmp_path / "plain.npz")
    ep = DreamerSource(tmp_path).load("plain")
    assert ep.length == 4
    assert list(ep.blocks) == ["aux/npz/intrinsics.npy"]


def test_files_that_do_not_fit_together_are_reported(tmp_path):
    one, two = parts([3, 3], first={0})
    stored(one, tmp_path / name(0, "a", "b", 3))
    for changed, message in (({"more": np.zeros((3, 2))}, "more"), ({"obs": np.zeros(3)}, "obs")):
        stored(two | changed, tmp_path / name(1, "b", "c", 3))
        with pytest.raises(LaneError, match=message):
            DreamerSource(tmp_path).load("a")
    stored({"obs": np.zeros(3), "is_first": np.zeros((3, 1))}, tmp_path / name(1, "b", "c", 3))
    with pytest.raises(LaneError, match="is_first"):
        DreamerSource(tmp_path).load("a")
    stored({"obs": np.zeros(2), "is_first": np.zeros(3)}, tmp_path / name(1, "b", "c", 3))
    with pytest.raises(LaneError, match="length mismatch"):
        DreamerSource(tmp_path).load("a")


# ---- hostile --------------------------------------------------------------------------------------------------------


class Bomb:
    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (Path("exploded"),))


def npy(header: object, data: bytes = b"", *, version: bytes = b"\1\0") -> bytes:
    text = header if isinstance(header, bytes) else str(header).encode()
    length = struct.pack("<I" if version == b"\2\0" else "<H", len(text))
    return b"\x93NUMPY" + version + length + text + data


def header(descr: object = "<f4", shape: object = (2,), *, fortran: bool = False) -> dict[str, object]:
    return {"descr": descr, "fortran_order": fortran, "shape": shape}


HOSTILE = {
    "no magic": b"NOTNUMPY" + bytes(64),
    "empty": b"",
    "cut in the length": b"\x93NUMPY\1\0\4",
    "version 3": npy(header(), bytes(8), version=b"\3\0"),
    "header of another size": npy(header(), bytes(8))[:20],
    "header that is no dict": npy([1, 2]),
    "header without shape": npy({"descr": "<f4", "fortran_order": False}),
    "header that calls": npy(b"__import__('os').system('true')"),
    "header that nests": npy(b"(" * 9_000),
    "header that negates": npy(b"-" * 9_000 + b"1"),
    "objects": npy(header("|O", (1,)), pickle.dumps([Bomb()])),
    "a field of objects": npy(header([("a", "|O")], (1,)), pickle.dumps([Bomb()])),
    "fields": npy(header([("a", "<f4")], (2,)), bytes(8)),
    "odd dtype": npy(header("<f3"), bytes(6)),
    "no dtype": npy(header("float; import os"), bytes(8)),
    "dtype that is no text": npy(header(7), bytes(8)),
    "huge item": npy(header("|V99999999999"), bytes(8)),
    "negative axis": npy(header(shape=(-2,)), bytes(8)),
    "negative axes": npy(header(shape=(-2, -1)), bytes(8)),
    "boolean axis": npy(header(shape=(True, 2)), bytes(8)),
    "shape that is a list": npy(header(shape=[2]), bytes(8)),
    "100 axes": npy(header(shape=(1,) * 100), bytes(4)),
    "overflowing shape": npy(header(shape=(2**33, 2**33, 2**33)), bytes(8)),
    "huge beside nothing": npy(header(shape=(0, 2**62, 2**62))),
    "too little data": npy(header(), bytes(7)),
    "too much data": npy(header(), bytes(9)),
}


@pytest.mark.parametrize("member", HOSTILE.values(), ids=HOSTILE)
def test_hostile_arrays_are_refused(tmp_path, monkeypatch, member):
    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile("x.npz", "w") as archive:
        archive.writestr("obs.npy", member)
    with pytest.raises(FormatError, match=r"x\.npz"):
        load_dreamer("x.npz")
    assert not Path("exploded").exists()


def test_pickles_are_not_loaded_even_if_numpy_wrote_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", obs=np.zeros((3, 2)), info=np.array([Bomb()] * 3))
    with pytest.raises(FormatError, match="never loaded"):
        load_dreamer("x.npz")
    Path("y.npz").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(FormatError):
        load_dreamer("y.npz")
    assert not Path("exploded").exists()


def measured(path: Path) -> int:
    """Return the peak of bytes allocated while the file is refused."""
    tracemalloc.start()
    try:
        with pytest.raises(LimitError):
            load_dreamer(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_real_bomb_is_refused_before_it_unfolds(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "MAX_MEMBER_SIZE", 1 << 24)
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("obs.npy", npy(header("|u1", (1 << 25,)), bytes(1 << 25)))
    assert measured(tmp_path / "x.npz") < 1 << 20


def test_many_arrays_below_the_limit_are_a_bomb_too(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "MAX_TOTAL_SIZE", 1 << 22)
    stored({f"k{number}": np.zeros((1 << 19,), np.uint8) for number in range(9)}, tmp_path / "x.npz")
    assert measured(tmp_path / "x.npz") < 1 << 20
    monkeypatch.setattr(npz, "MAX_MEMBERS", 8)
    with pytest.raises(LimitError, match="at most 8"):
        read_npz(tmp_path / "x.npz")


def test_a_huge_header_is_refused_before_it_is_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("obs.npy", npy(b" " * (1 << 25), version=b"\2\0"))
    assert measured(tmp_path / "x.npz") < 1 << 20


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_member_that_claims_more_than_its_bytes_can_hold_is_refused(tmp_path, method):
    data = npy(header("|u1", (1 << 28,)), bytes(64))
    with zipfile.ZipFile(tmp_path / "x.npz", "w", method) as archive:
        archive.writestr("obs.npy", data)
    raw = (tmp_path / "x.npz").read_bytes()
    claimed = struct.pack("<I", len(data) + (1 << 28))
    (tmp_path / "x.npz").write_bytes(raw.replace(struct.pack("<I", len(data)), claimed))
    assert measured(tmp_path / "x.npz") < 1 << 20


def test_odd_archives_are_refused(tmp_path):
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("obs.npy", npy(header(), bytes(8)))
    with pytest.raises(FormatError, match="plain or deflated"):
        load_dreamer(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", b"text")
    with pytest.raises(FormatError, match=r"ends in \.npy"):
        load_dreamer(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("obs.npy", npy(header(), bytes(8)))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("obs.npy", npy(header(), bytes(8)))
    with pytest.raises(FormatError, match="twice"):
        load_dreamer(path)
    path.write_bytes(b"PK\3\4 and then nothing")
    with pytest.raises(FormatError, match="expected numpy arrays"):
        load_dreamer(path)
    with zipfile.ZipFile(path, "w"):
        pass
    with pytest.raises(FormatError, match="at least one timestep"):
        load_dreamer(path)
    with pytest.raises(FileNotFoundError):
        load_dreamer(tmp_path / "nothing.npz")


def test_lengths_that_differ_are_reported(tmp_path):
    with pytest.raises(LaneError, match="length mismatch: expected 6 timesteps, found 5"):
        load_dreamer(stored({"obs": np.zeros((6, 2)), "action": np.zeros((5, 2))}, tmp_path / "x.npz"))
    with pytest.raises(LaneError, match="'reward'"):
        load_dreamer(stored({"obs": np.zeros((6, 2)), "reward": np.array(1.0)}, tmp_path / "x.npz"))


@given(data=st.data())
def test_a_damaged_archive_is_refused_or_still_right(tmp_path_factory, data):
    """Whatever byte is changed, the result is a FormatError or the arrays themselves: zip has a checksum of its own."""
    arrays = {"obs": np.arange(12, dtype=np.float32).reshape(4, 3), "reward": np.arange(4, dtype=np.float32)}
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    raw = bytearray(file.getvalue())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = read_npz(io.BytesIO(raw[: data.draw(st.sampled_from([len(raw), len(raw) // 2]))]))
    except FormatError:
        return
    for key, array in found.items():
        if key in arrays:
            assert array.tobytes() == arrays[key].tobytes()


def test_saved_blocks_are_parsed_with_the_same_care(tmp_path):
    ep = replace(make_episode(), blocks={"aux/npz/x.npy": HOSTILE["objects"]})
    with pytest.raises(FormatError, match="never loaded"):
        save_dreamer(ep, tmp_path / "x.npz")
    assert not list(tmp_path.iterdir())


def test_what_a_replay_file_cannot_store_is_stated(tmp_path):
    ep = replace(make_episode(0), env_id="arm", metadata={"task": "push", "is_first": [True] + [False] * 19})
    with open_sink(tmp_path / "a.npz", "dreamerv3") as sink:
        losses = sink.losses(EpisodeInfo.of(MemoryReader(ep, "e")))
    wanted = {
        "timebase: no place for a rate",
        "env_id: no place for an environment",
        "metadata 'task': no place for it",
    }
    assert wanted <= {*losses}
    assert not any("is_first" in loss for loss in losses)
