"""HDF5 files that lead elsewhere, or say more than they hold."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zlib

import h5py
import numpy as np
import pytest
from hdf5_files import write_robomimic

from wshard import FormatError, WShardError, detect_format, open_source
from wshard.core.files.schemes import place_of
from wshard.errors import LimitError, MissingExtraError, UnsupportedFormatError
from wshard.formats.hdf5.attribute_lists import find_values
from wshard.formats.hdf5.nodes import open_hdf5
from wshard.formats.hdf5.robomimic import RobomimicSource
from wshard.formats.hdf5.values import read_attribute


def _external_link(demo, folder):
    demo["obs/x"] = h5py.ExternalLink("secret.hdf5", "/data/demo_0/actions")


def _soft_loop(demo, folder):
    demo["obs/x"] = h5py.SoftLink("/data/demo_0/obs/x")


def _soft_link_out(demo, folder):
    demo["obs/x"] = h5py.SoftLink("/data/demo_3/actions")


def _soft_link_out_by_dots(demo, folder):
    demo["obs/x"] = h5py.SoftLink("/./data/demo_3/./actions")


def _cycle(demo, folder):
    demo["obs/x"] = demo["obs"]


def _group_twice(demo, folder):
    demo["obs/x"] = demo.parent["demo_3"]
    demo["obs/y"] = demo.parent["demo_3"]


def _virtual(demo, folder):
    layout = h5py.VirtualLayout(shape=(4, 7), dtype="f8")
    layout[:] = h5py.VirtualSource(folder / "secret.hdf5", "data/demo_0/actions", shape=(4, 7))
    demo.create_virtual_dataset("obs/x", layout)


def _external_storage(demo, folder):
    demo.create_dataset("obs/x", (4, 8), "u1", external=[(os.fspath(folder / "secret.hdf5"), 0, 32)])


def _deep(demo, folder):
    demo["/".join(["obs", *"abcdefghijklmnop"])] = np.zeros(4)


HOSTILE = {
    _external_link: (FormatError, "'x': expected data, found a link to 'secret.hdf5', which is not followed"),
    _soft_loop: (FormatError, "'x': expected data, found a link to '/data/demo_0/obs/x'"),
    _soft_link_out: (FormatError, "found a link to '/data/demo_3/actions'"),
    _soft_link_out_by_dots: (FormatError, "found a link to '/./data/demo_3/./actions'"),
    _cycle: (FormatError, "expected a tree of groups"),
    _group_twice: (FormatError, "expected a tree of groups"),
    _virtual: (FormatError, "'obs/x': expected data, found a reference to those of other files"),
    _external_storage: (FormatError, "'obs/x': expected data, found a reference to those of other files"),
    _deep: (LimitError, "at most 12 deep"),
}


@pytest.fixture
def path(tmp_path):
    write_robomimic(tmp_path / "secret.hdf5", {"demo_0": 4})
    write_robomimic(tmp_path / "demos.hdf5", {"demo_0": 4, "demo_3": 7})
    return tmp_path / "demos.hdf5"


@pytest.mark.parametrize("spoil", HOSTILE, ids=lambda spoil: spoil.__name__)
def test_nothing_leads_out_of_an_episode(path, tmp_path, spoil):
    with h5py.File(path, "r+") as file:
        spoil(file["data/demo_0"], tmp_path)
    error, message = HOSTILE[spoil]
    with open_source(path, "robomimic") as source:
        with pytest.raises(error, match=message) as caught:
            source.info("demo_0")
        assert "demos.hdf5#demo_0" in str(caught.value)
        assert source.load("demo_3").length == 7


def test_a_dataset_without_data_is_passed_over(path):
    with h5py.File(path, "r+") as file:
        del file["data/demo_0/dones"]
        for name in ("dones", "obs/nothing"):
            file["data/demo_0"][name] = h5py.Empty("f4")
    with open_source(path, "robomimic") as source:
        assert source.load("demo_0").length == 4
        assert not any("nothing" in lane for lane in source.info("demo_0").lanes)


ALIASES = {  # links of an episode to what it has under its own name, and to nothing
    "a dataset": ("obs/again", "/data/demo_0/actions"),
    "relative, before its target": ("a_first", "./actions"),
    "a group": ("latest", "/data/demo_0/obs"),
    "the episode": ("obs/up", "/data/demo_0"),
    "nothing": ("obs/gone", "/data/demo_9/obs"),
    "of nothing of a dataset": ("obs/gone", "/data/demo_0/actions/x"),
}


@pytest.mark.parametrize("alias", ALIASES)
def test_a_second_name_of_what_an_episode_has_changes_nothing(path, alias):
    with open_source(path, "robomimic") as source:
        expected = source.load("demo_0")
    with h5py.File(path, "r+") as file:
        name, target = ALIASES[alias]
        file["data/demo_0"][name] = h5py.SoftLink(target)
    with open_source(path, "robomimic") as source:
        found = source.load("demo_0")
    assert found.observations.keys() == expected.observations.keys()
    assert found.actions.keys() == expected.actions.keys()


def test_a_group_that_is_a_link_is_not_followed(path):
    with h5py.File(path, "r+") as file:
        file["data/demo_7"] = h5py.ExternalLink("secret.hdf5", "/data/demo_0")
        file["data/demo_8"] = h5py.SoftLink("/data/demo_8")
    with RobomimicSource(path) as source:
        for key in ("demo_7", "demo_8"):
            with pytest.raises(FormatError, match="which is not followed"):
                source.info(key)


def test_a_file_whose_data_are_elsewhere_is_not_detected(tmp_path, path):
    with h5py.File(tmp_path / "link.hdf5", "w") as file:
        file["data"] = h5py.ExternalLink("demos.hdf5", "/data")
    assert detect_format(tmp_path / "link.hdf5") in ("hdf5", "robomimic")
    with pytest.raises(FormatError, match="which is not followed"):
        RobomimicSource(tmp_path / "link.hdf5").keys()


def test_sizes_beyond_what_is_stored_are_refused(path):
    with h5py.File(path, "r+") as file:
        demo = file["data/demo_0"]
        del demo["actions"], demo["rewards"], demo.attrs["num_samples"]
        demo.create_dataset("actions", (1 << 40, 7), "f4", chunks=(1 << 10, 7), compression="gzip")
        other = file["data/demo_3"]
        del other["rewards"]
        other.create_dataset("rewards", (7, 1 << 28), "f8", chunks=(1, 1 << 28), compression="gzip")
    with RobomimicSource(path) as source:
        with pytest.raises(LimitError, match=r"'actions': .* bytes: out of bounds for 0 stored ones"):
            source.info("demo_0")
        with pytest.raises(
            LimitError, match="'rewards': expected chunks of at most 1073741824 bytes, found 2147483648"
        ):
            source.info("demo_3")


def test_filters_that_are_not_installed_are_named(path):
    with h5py.File(path, "r+") as file:
        settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        settings.set_chunk((4,))
        settings.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, ())
        space, name = h5py.h5s.create_simple((4,)), b"data/demo_0/obs/x"
        h5py.h5d.create(file.id, name, h5py.h5t.IEEE_F64LE, space, settings)
    with RobomimicSource(path) as source:
        with pytest.raises(UnsupportedFormatError, match=r"'obs/x': compressed by filter 32015 .* not installed"):
            source.info("demo_0")
        assert source.load("demo_3").length == 7


def test_objects_and_references_are_never_decoded(path):
    with h5py.File(path, "r+") as file:
        demo = file["data/demo_0"]
        demo["obs/ref"] = np.array([demo.ref] * 4, dtype=h5py.ref_dtype)
        demo["obs/pickle"] = np.array([b"cos\nsystem\n(S'touch /tmp/x'\ntR."] * 4, dtype=np.void)
        lists = demo.create_dataset("obs/list", (4,), h5py.vlen_dtype(np.float64))
        lists[0] = np.arange(3.0)
    with RobomimicSource(path) as source:
        info = source.info("demo_0")
    assert {*info.metadata["left_out"]} == {"obs/ref", "obs/pickle", "obs/list"}


@pytest.mark.parametrize("part", [0.02, 0.999])
def test_cut_files_are_format_errors(path, part):
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * part)])
    with RobomimicSource(path) as source, pytest.raises(FormatError, match=r"demos\.hdf5"):
        [source.load(key) for key in source.keys()]  # noqa: SIM118  (a Source is no mapping)


def test_flipped_bytes_are_errors_of_ours_or_other_values(path):
    whole = path.read_bytes()
    rng = np.random.default_rng(5)
    outcomes = set()
    for _ in range(60):
        data = bytearray(whole)
        for place in rng.integers(0, len(data) // 4, 12):
            data[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        try:
            with RobomimicSource(path) as source:
                outcomes |= {source.load(key).length for key in source.keys()}  # noqa: SIM118  (as above)
        except WShardError as error:
            outcomes.add(type(error).__name__)
    assert "FormatError" in outcomes


def test_pipes_and_folders_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.hdf5")
    with pytest.raises(FormatError, match="a named pipe"):
        RobomimicSource(tmp_path / "pipe.hdf5").keys()
    with pytest.raises(IsADirectoryError):
        RobomimicSource(tmp_path).keys()


def test_without_the_library_files_are_known_and_the_error_names_the_extra(path, monkeypatch, dataset_fixtures):
    monkeypatch.setitem(sys.modules, "h5py", None)
    minari = dataset_fixtures / "other" / "minari_hdf5" / "toy" / "hdf5-v0"
    for place, name in ((path, "robomimic"), (minari, "minari"), (minari / "data" / "main_data.hdf5", "minari")):
        assert detect_format(place) == name
        with pytest.raises(MissingExtraError, match=r"wshard\[hdf5\]"):
            open_source(place, name).keys()
    assert detect_format(dataset_fixtures / "world_model" / "main.h5") not in ("minari", "robomimic", "d4rl")


@pytest.mark.parametrize("size", [0, 1 << 60])
def test_heaps_in_which_the_library_would_go_round_in_circles_are_refused(path, size):
    data = bytearray(path.read_bytes())
    heap = data.index(b"GCOL\1\0\0\0")  # with env_args: what is behind its first object becomes free space of that size
    first = heap + 16
    behind = first + 16 + -(-int.from_bytes(data[first + 8 : first + 16], "little") // 8) * 8
    data[behind : behind + 16] = bytes(8) + size.to_bytes(8, "little")
    data[heap + 5] = 255  # one of the bytes that mean nothing
    path.write_bytes(data)
    with pytest.raises(FormatError, match=rf"demos\.hdf5.*byte {behind}: {size} bytes do not fit a heap of \d+"):
        RobomimicSource(path).info("demo_0")


def test_lists_in_attributes_are_not_read(path):
    with h5py.File(path, "r+") as file:
        lists = np.empty(1, object)
        lists[0] = np.arange(3, dtype=np.uint8)
        file["data"].attrs.create("env_args", lists, dtype=h5py.vlen_dtype(np.uint8))
        file["data/demo_0"].attrs.create("goal", lists, dtype=h5py.vlen_dtype(np.uint8))
    with RobomimicSource(path) as source:
        assert source.info("demo_0").env_id == ""
        assert "goal" not in source.info("demo_0").metadata


@pytest.mark.parametrize("chunks", [None, (2,)])
def test_texts_that_claim_to_be_longer_than_the_file_are_refused(path, chunks):
    with h5py.File(path, "r+") as file:
        texts = file["data/demo_0"].create_dataset("language", (4,), h5py.string_dtype(), chunks=chunks)
        texts[:] = ["reach", "push", "push", "lift"]
        file.flush()
        places = []
        texts.id.chunk_iter(lambda chunk: places.append(chunk.byte_offset)) if chunks else None
        place = max(places) if chunks else texts.id.get_offset()
    with path.open("r+b") as file:
        file.seek(place)
        file.write(b"\xff\xff\xff\xf0")
    with RobomimicSource(path) as source:
        with pytest.raises(FormatError, match=r"'language': expected lists that fit a file of \d+ bytes"):
            source.info("demo_0")
        assert source.load("demo_3").length == 7


@pytest.mark.parametrize("count", [0, 3, 30, 300])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_texts_of_attributes_are_found_where_the_library_finds_them(tmp_path, libver, count):
    path = tmp_path / "a.hdf5"
    wanted = {f"text {number}": "x" * (number * 7 % 50) for number in range(count)} | {"last": "the end"}
    with h5py.File(path, "w", libver=libver, userblock_size=512) as file:
        group = file.create_group("group", track_order=count == 30)
        for name, text in wanted.items():
            group.attrs[name] = text
            group.attrs[f"{name} number"] = np.arange(len(name) % 3)
        group.attrs["several"] = np.array(["a", "bcd"], h5py.string_dtype())
    with path.open("rb") as raw, open_hdf5(place_of(path), "a") as file:
        header = h5py.h5o.get_info(file["group"].id).addr

        def find_lengths(name, size):
            found = find_values(lambda at, count: os.pread(raw.fileno(), count, 512 + at), header, name, size)
            return [np.frombuffer(rows, "<u4")[::4].tolist() for rows in found]

        assert {name: read_attribute(file["group"], name) for name in wanted} == wanted
        assert all([len(text)] in find_lengths(name.encode(), 16) for name, text in wanted.items())
        assert find_lengths(b"several", 32) == [[1, 3]]
        assert find_lengths(b"text", 16) == []


def test_texts_of_attributes_that_claim_to_be_longer_than_the_file_are_refused(path):
    with h5py.File(path, "r+") as file:
        file["data/demo_0"].attrs["motto"] = "m" * 1234
    data, length = path.read_bytes(), (1234).to_bytes(4, "little")
    heaps = {found.start().to_bytes(8, "little") for found in re.finditer(b"GCOL", data)}
    (place,) = (at for at in range(len(data)) if data[at : at + 4] == length and data[at + 4 : at + 12] in heaps)
    path.write_bytes(data[:place] + b"\xff\xff\xff\xf0" + data[place + 4 :])
    with RobomimicSource(path) as source:
        with pytest.raises(
            FormatError, match=r"'motto': expected lists that fit a file of \d+ bytes, found 4043309055"
        ):
            source.info("demo_0")
        assert source.load("demo_3").length == 7


@pytest.mark.parametrize("filters", [{"compression": "gzip", "shuffle": True}, {"compression": "lzf"}])
def test_compressed_texts_that_claim_to_be_longer_than_the_file_are_refused(path, filters):
    def write(name, filters):
        texts = file["data/demo_0"].create_dataset(name, (4,), h5py.string_dtype(), chunks=(2,), **filters)
        texts[:] = ["reach", "push", "push", "lift"]
        return texts

    with h5py.File(path, "r+") as file:
        write("language", filters)
    with RobomimicSource(path) as source:
        assert "language" in source.info("demo_0").metadata  # while it is whole
    with h5py.File(path, "r+") as file:
        lists = write("plain", {}).id
        file.flush()
        chunks = []
        lists.chunk_iter(chunks.append)
        rows = bytearray(path.read_bytes()[chunks[1].byte_offset :][: chunks[1].size])
        rows[:4] = b"\xff\xff\xff\xf0"
        twin = file["data/demo_0"].create_dataset("twin", (2,), "V16", chunks=(2,), **filters | {"shuffle": False})
        twin[:] = np.frombuffer(bytes(rows), "V16")
        _, data = twin.id.read_direct_chunk((0,))
        mask = 1 if "shuffle" in filters else 0  # which the library applies to no lists
        file["data/demo_0/language"].id.write_direct_chunk((2,), data, mask)
        del file["data/demo_0/twin"]
    with RobomimicSource(path) as source:
        with pytest.raises(FormatError, match=r"'language': expected lists that fit a file of \d+ bytes"):
            source.info("demo_0")
        assert source.load("demo_3").length == 7


@pytest.mark.long
def test_chunks_that_expand_to_more_than_they_hold_are_refused(path):
    inflated = zlib.compressobj(9)
    data = b"".join([*(inflated.compress(bytes(1 << 20)) for _ in range(300)), inflated.flush()])
    with h5py.File(path, "r+") as file:
        demo = file["data/demo_0"]
        del demo["rewards"]
        rewards = demo.create_dataset("rewards", (4,), "f8", chunks=(4,), compression="gzip")
        rewards.id.write_direct_chunk((0,), data)
        twice = file["data/demo_3"].create_dataset("obs/twice", (7,), "f8", chunks=(7,), compression="gzip").id
        settings = twice.get_create_plist()
        settings.set_deflate(1)
        space = h5py.h5s.create_simple((7,))
        h5py.h5d.create(file.id, b"data/demo_3/obs/more", h5py.h5t.IEEE_F64LE, space, settings)
    with RobomimicSource(path) as source:
        with pytest.raises(FormatError, match=r"demos\.hdf5.*: byte \d+: \d+ bytes expand to more than a chunk of"):
            source.load("demo_0")
        with pytest.raises(UnsupportedFormatError, match="expected deflate as the last filter"):
            source.info("demo_3")


def test_chunks_without_room_for_their_checksum_are_refused(path):
    with h5py.File(path, "r+") as file:
        demo = file["data/demo_0"]
        del demo["rewards"]
        rewards = demo.create_dataset("rewards", (4,), "f8", chunks=(4,), fletcher32=True)
        rewards[:] = np.arange(4.0)
    data = path.read_bytes()
    key = (36).to_bytes(4, "little") + bytes(4) + bytes(8)  # of the only chunk: 36 bytes, all filters, at the start
    assert data.count(key) == 1
    path.write_bytes(data.replace(key, (3).to_bytes(4, "little") + key[4:]))
    with (
        RobomimicSource(path) as source,
        pytest.raises(FormatError, match="'rewards': expected a checksum in"),
    ):
        source.info("demo_0")


LEFT_OPEN = """
import ctypes, sys
import numpy as np
from wshard.data import HDF5Writer
from wshard.formats.base import open_source
with HDF5Writer(sys.argv[1]) as writer:
    writer.write_episode({"x": np.zeros((30, 2), np.float32)})
episode = open_source(sys.argv[1], "hdf5").open("0")
episode.load()
writer = HDF5Writer(sys.argv[2])
writer.__enter__()
writer.write_episode({"x": np.zeros((30, 2), np.float32)})
for referenced in (episode, writer):  # as workers of torch keep theirs
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(referenced))
"""


def test_a_process_may_end_with_open_files(tmp_path):
    run = [sys.executable, "-W", "error", "-c", LEFT_OPEN, str(tmp_path / "a.h5"), str(tmp_path / "b.h5")]
    ended = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


BROKEN = """
import gc, sys
from wshard.core.files.schemes import place_of
from wshard.errors import FormatError
from wshard.formats.hdf5.nodes import open_hdf5
gc.disable()
try:
    open_hdf5(place_of(sys.argv[1]))
except FormatError as error:
    cause = error.__cause__
    cause.itself = cause  # a cycle, as a report may be part of one
gc.freeze()  # as the command does at its end
"""


def test_a_process_ends_well_after_a_file_that_cannot_be_opened(tmp_path):
    (tmp_path / "a.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(50))
    run = [sys.executable, "-W", "error", "-c", BROKEN, str(tmp_path / "a.h5")]
    ended = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
