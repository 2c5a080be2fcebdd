"""The seam to other formats: every Source and Sink keeps its contract, and the contracts bite."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from hdf5_files import write_robomimic
from paths import ROOT

from wshard import (
    ChunkedEpisodeReader,
    ChunkedEpisodeWriter,
    Episode,
    EpisodeFile,
    Format,
    FormatError,
    MemoryReader,
    TimebaseSpec,
    convert,
    detect_format,
    load,
    open_sink,
    open_source,
    save,
    save_dreamer,
    save_wshard,
)
from wshard.errors import (
    ClosedError,
    CodecError,
    EntryNotFoundError,
    EpisodeError,
    LayoutError,
    MissingExtraError,
    UnsupportedFormatError,
)
from wshard.formats.contract import EpisodeReaderContract, SinkContract, SourceContract
from wshard.formats.detect import detect_format_bytes
from wshard.formats.dreamer.replay import DreamerSink, DreamerSource
from wshard.formats.open import list_episodes
from wshard.formats.table import FORMATS
from wshard.formats.wshard import WShardSink, WShardSource
from wshard.testing import assert_same_episode, make_episode


def as_replay(ep: Episode) -> Episode:
    """Return what a replay file says of an episode without truncations: parts differ by name and shape."""
    last = ep.terminations.copy()
    last[-1] = True
    first = [True, *last[:-1].tolist()]
    return replace(
        ep, env_id="", timebase=TimebaseSpec(), metadata={"is_first": first}, truncations=last,
        blocks={"aux/npz/gripper.npy": Npy(ep.observations["gripper"].data)},
        observations={"joint_pos": ep.observations["joint_pos"], "ctrl": ep.actions["ctrl"]},
        actions={},
    )  # fmt: skip


class Npy:
    """The contents of some .npy file of an array."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, bytes) and np.array_equal(np.load(io.BytesIO(other)), self.array)

    __hash__ = None


class TestWShardFile(SourceContract):
    def make(self, tmp_path: Path):
        save_wshard(make_episode(), tmp_path / "e.wshard")
        return WShardSource(tmp_path / "e.wshard"), {"": make_episode()}


class TestWShardManifest(SourceContract):
    def make(self, tmp_path: Path):
        writer = ChunkedEpisodeWriter(tmp_path, "reach-0000", 7)
        writer.write_episode_chunked(make_episode())
        return WShardSource(writer.finalize_manifest()), {"": make_episode()}


class TestWShardFolder(SourceContract):
    def make(self, tmp_path: Path):
        (tmp_path / "sub").mkdir()
        save_wshard(make_episode(1), tmp_path / "b.wshard")
        save_wshard(make_episode(2), tmp_path / "a.shard")
        (tmp_path / "notes.txt").write_text("no episode")
        writer = ChunkedEpisodeWriter(tmp_path / "sub", "reach-0000", 7)
        writer.write_episode_chunked(make_episode())
        writer.finalize_manifest()
        expected = {"a.shard": make_episode(2), "b.wshard": make_episode(1)}
        return WShardSource(tmp_path), expected | {"sub/reach-0000_manifest.wshard": make_episode()}


class TestDreamerFile(SourceContract):
    def make(self, tmp_path: Path):
        save_dreamer(make_episode(), tmp_path / "e.npz")
        return DreamerSource(tmp_path / "e.npz"), {"": replace(as_replay(make_episode()), id="e")}


class TestDreamerFolder(SourceContract):
    def make(self, tmp_path: Path):
        for seed, name in enumerate("ab"):
            save_dreamer(make_episode(seed), tmp_path / f"{name}.npz")
        expected = {name: replace(as_replay(make_episode(seed)), id=name) for seed, name in enumerate("ab")}
        return DreamerSource(tmp_path), expected


class TestWShardSink(SinkContract):
    suffix = ".wshard"

    def open_sink(self, location: Path):
        return WShardSink(location)

    def open_source(self, location: Path):
        return WShardSource(location)


class TestDreamerSink(SinkContract):
    suffix = ".npz"

    def open_sink(self, location: Path):
        return DreamerSink(location)

    def open_source(self, location: Path):
        return DreamerSource(location)

    def expect(self, ep: Episode) -> Episode:
        return as_replay(ep)


class TestEpisodeFile(EpisodeReaderContract):
    def open_reader(self, ep: Episode, folder: Path):
        save_wshard(ep, folder / "e.wshard", {"signal/*": "zstd"})
        return EpisodeFile(folder / "e.wshard")


class TestChunkedEpisodeFile(EpisodeReaderContract):
    def open_reader(self, ep: Episode, folder: Path):
        writer = ChunkedEpisodeWriter(folder, ep.id, 7)
        writer.write_episode_chunked(ep)
        return ChunkedEpisodeReader(writer.finalize_manifest()).open()


class TestMemoryReader(EpisodeReaderContract):
    def open_reader(self, ep: Episode, folder: Path):
        return MemoryReader(ep, str(folder))


class TestDreamerReader(EpisodeReaderContract):
    def open_reader(self, ep: Episode, folder: Path):
        save_dreamer(ep, folder / f"{ep.id}.npz")
        return DreamerSource(folder).open(ep.id)

    def expect(self, ep: Episode) -> Episode:
        return as_replay(ep)


# ---- broken doubles: the contracts bite ------------------------------------------------------------------------------


class Forgetful(WShardSource):
    def load(self, key):
        return replace(super().load(key), rewards=None)


class Guessing(WShardSource):
    def load(self, key):
        return super().load(key if key in self.keys() else self.keys()[0])


class Shuffling(WShardSource):
    def keys(self):
        self._episodes = dict(reversed(self._episodes.items()))
        return super().keys()


class Draining(WShardSource):
    def load(self, key):
        ep = super().load(key)
        self._episodes = {other: place for other, place in self._episodes.items() if other != key}
        return ep


class Shredding(WShardSource):
    """Its arrays are of no use once it is closed."""

    _last = None

    def load(self, key):
        self._last = super().load(key)
        self._last.rewards = self._last.rewards.copy()
        return self._last

    def close(self):
        if self._last is not None:
            self._last.rewards[:] = 0


class Unending(WShardSource):
    """Its lanes go on to the end."""

    def lane(self, key, name, start=0, stop=None):
        return super().lane(key, name, start)


class Undated(WShardSource):
    """Its fingerprint is another one each time."""

    _calls = 0

    def fingerprint(self, key):
        self._calls += 1
        return replace(super().fingerprint(key), mtime_ns=self._calls)


class Leaving(WShardSource):
    """What it opened is closed with it."""

    def open(self, key):
        self._reader = super().open(key)
        return self._reader

    def close(self):
        if "_reader" in vars(self):
            self._reader.close()


class Rooted(WShardSource):
    """It cannot be sent to another process."""

    def __getstate__(self) -> dict[str, object]:
        raise AssertionError("not this one")


class Sloppy(MemoryReader):
    """Cuts one timestep too many, rounds, forgets, and stays open."""

    def __init__(self, ep, where) -> None:
        super().__init__(ep, where)
        self._known = super().lanes()

    @property
    def env_id(self):
        return "?"

    def lanes(self):
        return dict(list(self._known.items())[1:])

    def slice(self, start, stop, channels=None):
        return super().slice(max(start, 0), min(stop + 1, self.length), channels)

    def total_reward(self):
        return 0.0

    def digest(self):
        return self.id

    def verify(self):
        raise AssertionError("never")

    def close(self):
        """Stay open."""


SOURCE_TESTS = [name for name in vars(SourceContract) if name.startswith("test_")]
SOURCE_DOUBLES = [Forgetful, Guessing, Shuffling, Draining, Shredding, Unending, Undated, Leaving, Rooted]
READER_TESTS = [name for name in vars(EpisodeReaderContract) if name.startswith("test_")]
SINK_TESTS = [name for name in dir(SinkContract) if name.startswith("test_")]


def failures(contract: object, names: list[str], folder: Path) -> set[str]:
    found = set()
    for name in names:
        (folder / name).mkdir()
        try:
            getattr(contract, name)(folder / name)
        except (AssertionError, ClosedError, EntryNotFoundError, OSError, pytest.fail.Exception):
            found.add(name)
    return found


@pytest.mark.long
def test_the_source_contract_finds_each_broken_source_and_each_of_its_tests_finds_one(tmp_path):
    found: dict[str, set[str]] = {}
    for double in SOURCE_DOUBLES:

        class Broken(TestWShardFolder):
            double_class = double

            def make(self, tmp_path: Path):
                _, expected = super().make(tmp_path)
                return self.double_class(tmp_path), expected

        (tmp_path / double.__name__).mkdir()
        found[double.__name__] = failures(Broken(), SOURCE_TESTS, tmp_path / double.__name__)
    assert all(found.values()), found
    assert set().union(*found.values()) == set(SOURCE_TESTS)


def test_each_reader_test_finds_a_sloppy_reader(tmp_path):
    class Broken(EpisodeReaderContract):
        def open_reader(self, ep: Episode, folder: Path):
            return Sloppy(ep, str(folder))

    assert failures(Broken(), READER_TESTS, tmp_path) == set(READER_TESTS)


class Careless(WShardSink):
    """Takes any number of episodes, writes in place, and names files after ids as they are."""

    def write(self, ep):
        place = Path(self._location)
        path = place / f"{ep.id}.wshard" if place.is_dir() else place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        save_wshard(replace(ep, metadata=ep.metadata | {"at": np.random.default_rng().random()}), path)
        return "" if path == place else path.name


def test_each_sink_test_finds_a_careless_sink(tmp_path):
    class Broken(TestWShardSink):
        def open_sink(self, location: Path):
            return Careless(location)

    assert failures(Broken(), SINK_TESTS, tmp_path) == set(SINK_TESTS)


# ---- the table -------------------------------------------------------------------------------------------------------


OF_FILES = ("wshard", "dreamerv3")
"""Formats of a file an episode, which file objects can be, too."""


@pytest.mark.parametrize("name", [name for name, entry in FORMATS.items() if entry.source])
@pytest.mark.parametrize("place", ["nowhere", "nowhere/a.wshard"])
def test_a_place_that_is_not_there_has_no_episodes(tmp_path, name, place):
    with pytest.raises(FileNotFoundError, match=f"{tmp_path / place}'"):
        open_source(tmp_path / place, name)
    with pytest.raises(FileNotFoundError, match=f"{tmp_path / place}'"):
        load(tmp_path / place, name)


@pytest.mark.parametrize("name", OF_FILES)
def test_a_folder_without_episode_files_has_no_episodes(tmp_path, name):
    with open_source(tmp_path, name) as source:
        assert source.keys() == []


def test_every_format_has_a_row():
    assert {format_.value for format_ in Format if format_} <= {*FORMATS}
    for name in OF_FILES:
        with open_sink(io.BytesIO(), name) as sink:
            assert sink.write(make_episode()) == ""


def test_other_packages_formats_are_named_by_their_place(tmp_path):
    save_wshard(make_episode(), tmp_path / "x.bin")
    ep = load(tmp_path / "x.bin", "wshard.formats.wshard:WShardSource")
    assert_same_episode(ep, make_episode())
    with pytest.raises(MissingExtraError, match="install"):
        open_source(tmp_path, "no_such_package:Source")
    for name, message in (
        ("wshard.types:NoSuchThing", "'NoSuchThing' in module"),
        (":x", "'package.module:attribute'"),
    ):
        with pytest.raises(FormatError, match=message):
            open_source(tmp_path, name)


@pytest.mark.parametrize("name", [name for name, entry in FORMATS.items() if not entry.sink])
def test_formats_that_are_not_written_say_so(tmp_path, name):
    with pytest.raises(UnsupportedFormatError, match=f"format '{name}' is read, but not written"):
        save(make_episode(), tmp_path / "x", name)
    assert not list(tmp_path.iterdir())


# ---- load, save, convert ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.wshard", "wshard"), ("a.SHARD", "wshard"), ("a.npz", "dreamerv3"), ("t-u-s-8.npz", "dreamerv3"),
     ("a.pt", "tdmpc2"), ("a.pth", "tdmpc2"), ("a.hdf5", "minari"), ("a.h5", "minari"), ("a.txt", ""), ("a", "")],
)  # fmt: skip
def test_suffixes_report_the_format(tmp_path, name, expected):
    assert detect_format(tmp_path / name) == expected
    assert detect_format(str(tmp_path / name)) == expected


def test_first_bytes_report_the_format_of_other_names(tmp_path):
    for number, (magic, expected) in enumerate(
        {b"SHRD": "wshard", b"PK\3\4": "dreamerv3", b"abcd": "", b"SH": "", b"": ""}.items()
    ):
        path = tmp_path / str(number)
        path.write_bytes(magic and magic + b"more" * (len(magic) == 4))
        assert detect_format(path) == expected
        assert detect_format_bytes(path.read_bytes()) == expected
    assert detect_format(tmp_path) == Format.UNKNOWN
    assert detect_format_bytes(b"\x89HDF") == Format.MINARI  # as the reference has it; a whole file says more


def test_hdf5_files_of_other_programs_are_called_by_their_names(dataset_fixtures, tmp_path):
    minari = dataset_fixtures / "other" / "minari_hdf5" / "toy" / "hdf5-v0" / "data" / "main_data.hdf5"
    robomimic = tmp_path / "demo.hdf5"
    write_robomimic(robomimic, {"demo_0": 3})
    (tmp_path / "suffix").write_bytes(minari.read_bytes())
    for path, expected in (
        (minari, "minari"),
        (tmp_path / "suffix", "minari"),
        (robomimic, "robomimic"),
        (dataset_fixtures / "other" / "d4rl.hdf5", "d4rl"),
    ):
        assert detect_format(path) == expected
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["values"] = [1, 2, 3]
    assert detect_format(tmp_path / "other.h5") == "other_arrays"
    with pytest.raises(LayoutError, match=r"expected a file of a known format .*: `wshard layout guess .*other\.h5`"):
        load(tmp_path / "other.h5")
    with pytest.raises(FormatError, match="expected ep_len and ep_offset, found values"):
        list_episodes(tmp_path / "other.h5", "hdf5")


def test_files_are_loaded_by_their_first_bytes(tmp_path):
    for format_ in OF_FILES:
        file = io.BytesIO(b"before")
        file.seek(0, io.SEEK_END)
        save(make_episode(), file, format_)
        content = io.BytesIO(file.getvalue()[6:])
        assert load(content).source_format == format_
    file = io.BytesIO()
    save(make_episode(), file)
    assert file.getvalue()[:4] == b"SHRD"


def test_unknown_formats_are_value_errors(tmp_path):
    for call in (
        lambda: load(tmp_path / "a.txt"),
        lambda: load(io.BytesIO(b"what is this")),
        lambda: load(tmp_path / "a.npz", "nosuch"),
        lambda: save(make_episode(), tmp_path / "a.txt"),
        lambda: save(make_episode(), tmp_path / "a.npz", Format.UNKNOWN),
    ):
        with pytest.raises(ValueError, match=r"[Ff]ormat") as caught:
            call()
        assert isinstance(caught.value, FormatError)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "a.npz")


def test_a_location_of_several_episodes_is_not_one(tmp_path):
    for seed in range(2):
        save_wshard(make_episode(seed), tmp_path / f"{seed}.wshard")
    with pytest.raises(FormatError, match="expected one episode, found 2"):
        load(tmp_path, "wshard")


def test_converting_both_ways_and_compressing(tmp_path):
    ep = make_episode(T=400)
    save(ep, tmp_path / "a.wshard", compression={"signal/*": "zstd:19"})
    plain = tmp_path / "b.wshard"
    returned = convert(tmp_path / "a.wshard", plain)
    assert_same_episode(returned, ep)
    assert plain.stat().st_size > (tmp_path / "a.wshard").stat().st_size
    convert(plain, tmp_path / "c.npz")
    convert(tmp_path / "c.npz", tmp_path / "d", output_format=Format.WSHARD)
    assert np.array_equal(load(tmp_path / "d").observations["ctrl"].data, ep.actions["ctrl"].data)
    with pytest.raises(CodecError, match="compression"):
        convert(plain, tmp_path / "e.npz", compression="zstd")
    assert not (tmp_path / "e.npz").exists()


def test_a_folder_of_a_sink_must_be_there(tmp_path):
    with open_sink(tmp_path / "missing" / "x.wshard", "wshard") as sink, pytest.raises(FileNotFoundError):
        sink.write(make_episode())
    with open_sink(tmp_path / "x.wshard", "wshard") as sink, pytest.raises(EpisodeError):
        sink.write(Episode(""))


def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "formats.md").read_text()
    examples = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, "docs/formats.md", "exec"), names)  # noqa: S102  (it is our own page)
    assert len(examples) >= 4
