"""Every format reads from a scheme that knows nothing but names and ranges what it reads from a local disk."""

from __future__ import annotations

import pickle

import memory_place
import numpy as np
import pytest
from memory_place import MemoryPlace, upload
from object_stores import upload as upload_object
from sink_places import COLLECTIONS, make_episode

from wshard import (
    ChunkedEpisodeWriter,
    FormatError,
    convert_location,
    detect_format,
    list_episodes,
    open_episode,
    open_sink,
    save,
)
from wshard.core.files.local import LocalPlace
from wshard.core.files.schemes import SCHEMES, place_of
from wshard.formats.open import open_location
from wshard.testing import assert_same_episode

LOCAL = {"lance", "lance_video"}
"""Formats whose libraries take nothing but paths."""


@pytest.fixture(autouse=True)
def memory(monkeypatch):
    monkeypatch.setattr(memory_place, "FILES", {})
    monkeypatch.setitem(SCHEMES, "mem", "memory_place:MemoryPlace")


@pytest.mark.parametrize("name", [*COLLECTIONS, "dreamerv3", "wshard"])
def test_a_data_set_reads_the_same_from_any_place(name, tmp_path, s3):
    place = tmp_path / COLLECTIONS.get(name, "a")
    if name not in COLLECTIONS:
        place.mkdir()
    with open_sink(place, name) as sink:
        for number in range(2):
            sink.write(make_episode(number))
    upload(place, f"mem://bucket/{place.name}")
    for uri in (f"mem://bucket/{place.name}", upload_object(s3, place, f"any place/{name}/{place.name}")):
        check_same(place, uri, name)


def check_same(place, uri, name):
    if name in LOCAL:
        with pytest.raises(FormatError, match="expected a path on a local disk"), open_location(uri, name) as far:
            far.keys()
        return
    assert detect_format(uri) == detect_format(place)
    how = None if name == "lerobot_v21" else name
    with open_location(place, how) as near, open_location(uri, how) as far, pickle.loads(pickle.dumps(far)) as again:  # noqa: S301
        keys = near.keys()
        assert far.keys() == keys == again.keys()
        assert far.missing_files(keys[0]) == []
        for key in keys:
            with far.open(key) as far_episode, near.open(key) as near_episode:
                assert_same_episode(far_episode.load(), near_episode.load())
            assert far.fingerprint(key).size == near.fingerprint(key).size
            lane = next(iter(near.info(key).lanes))
            np.testing.assert_array_equal(again.lane(key, lane, 1, 3), near.lane(key, lane, 1, 3))
    assert [str(address) for address, _ in list_episodes(uri, how)] == [f"{uri}#{key}" for key in keys]


@pytest.mark.parametrize("name", ["a.wshard", "a.npz"])
def test_one_file_reads_the_same_from_any_place(name, tmp_path):
    save(make_episode(3), tmp_path / name)
    upload(tmp_path / name, f"mem://bucket/{name}")
    with open_episode(f"mem://bucket/{name}") as far, open_episode(tmp_path / name) as near:
        assert_same_episode(far.load(), near.load())


def test_a_manifest_finds_its_chunks_in_its_own_place(tmp_path):
    writer = ChunkedEpisodeWriter(tmp_path, "e", chunk_size_t=2)
    writer.write_episode_chunked(make_episode(3))
    writer.finalize_manifest()
    upload(tmp_path, "mem://bucket")
    with open_episode("mem://bucket/e_manifest.wshard") as far:
        assert far.load().length == make_episode(3).length
        assert [str(part.place) for part in far.parts()][1:] == [
            f"mem://bucket/e_chunk_000{n}.wshard" for n in range(4)
        ]


def test_locations_of_any_place_are_converted(tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(2):
        save(make_episode(number), tmp_path / "in" / f"{number}.wshard")
    upload(tmp_path / "in", "mem://bucket/in")
    assert convert_location("mem://bucket/in", tmp_path / "out.hdf5").converted == 2
    with open_location(tmp_path / "out.hdf5") as found:
        assert len(found.keys()) == 2


def test_missing_files_are_reported_as_on_a_disk():
    for uri in ("mem://bucket/a.wshard", "mem://bucket/a.npz", "mem://bucket/a.hdf5"):
        with pytest.raises(FileNotFoundError, match=uri):
            open_episode(uri)


def test_a_local_place_is_its_path(tmp_path):
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "c.tar.gz").write_bytes(b"0123456789")
    for location in (tmp_path, str(tmp_path), tmp_path.as_uri(), LocalPlace(str(tmp_path))):
        file = place_of(location) / "a b/c.tar.gz"
        assert (str(file), file.name, file.stem, file.suffix) == (
            f"{tmp_path}/a b/c.tar.gz",
            "c.tar.gz",
            "c.tar",
            ".gz",
        )
        assert file.parent == place_of(tmp_path / "a b")
        assert file.relative_to(place_of(location)) == "a b/c.tar.gz"
        assert (file.read(2, 4), file.read(8, 99), file.read_ranges([(0, 1), (9, 10)])) == (b"23", b"89", [b"0", b"9"])
        assert [*place_of(location).walk()] == place_of(location).glob("*/*.gz") == [file]
        assert (file.exists(), file.is_file(), file.is_dir(), file.parent.is_dir()) == (True, True, False, True)


def test_places_of_other_schemes_need_four_methods():
    upload_to = {"mem://b/x/1.bin": b"one", "mem://b/x/y/2.bin": b"two"}
    memory_place.FILES.update(upload_to)
    root = place_of("mem://b")
    assert isinstance(root, MemoryPlace)
    assert {str(file): file.read(0, 9) for file in root.walk()} == upload_to
    assert root.glob("x/*.bin") == [root / "x/1.bin"]
    assert (root / "x").folders() == [root / "x/y"]
    with (root / "x/1.bin").open() as file:
        assert (file.seek(-1, 2), file.read(), file.seek(0), file.read(2)) == (2, b"e", 0, b"on")
    assert not (root / "z").exists()
