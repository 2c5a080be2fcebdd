"""Chunked episodes: the chunks are the whole, only whole chunks are listed, and a hostile manifest leads nowhere."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import pickle
import unicodedata
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from wshard import (
    Channel,
    ChunkedEpisodeReader,
    ChunkedEpisodeWriter,
    ChunkManifest,
    Episode,
    FormatError,
    Residual,
    ShardReader,
    ShardWriter,
    load,
    load_wshard,
    open_episode,
    save_wshard,
    validate_chunk_continuity,
)
from wshard.cli.files import app
from wshard.core.chunks.manifest import read_manifest, safe_name, write_manifest
from wshard.core.chunks.split import cut, join
from wshard.core.container.layout import ROLE_MANIFEST
from wshard.core.episode import file as episode_file
from wshard.core.repair.inspect import check_file
from wshard.errors import (
    ChecksumError,
    EntryNotFoundError,
    EpisodeError,
    HeaderError,
    LaneError,
    ManifestError,
    MissingFileError,
    StepError,
)
from wshard.testing import assert_same_episode, episodes, make_episode


def whole(ep: Episode) -> Episode:
    """Return the episode as one that is no chunk, and with unused residual bits that are 0: they carry nothing."""
    residuals = {}
    for name, residual in ep.residuals.items():
        bits = [byte >> place & 1 for byte in residual.data.tolist() for place in range(8)]
        clean = [sum(bits[8 * byte + place] << place for place in range(8) if 8 * byte + place < ep.length)
                 for byte in range(len(residual.data))]  # fmt: skip
        residuals[name] = Residual(residual.channel_id, residual.type, np.array(clean, np.uint8))
    return replace(ep, residuals=residuals, chunk_index=None, total_chunks=None)


def written(ep: Episode, folder: Path, size: int) -> ChunkedEpisodeReader:
    writer = ChunkedEpisodeWriter(folder, ep.id, size)
    writer.write_episode_chunked(ep)
    return ChunkedEpisodeReader(writer.finalize_manifest())


# ---- the chunks are the whole ---------------------------------------------------------------------------------------


@given(ep=episodes(max_length=12).map(whole), size=st.integers(1, 13))
def test_any_episode_comes_back_whole_from_its_chunks(tmp_path_factory, ep, size):
    reader = written(ep, tmp_path_factory.mktemp("chunks"), size)
    assert reader.num_chunks == -(-ep.length // size)
    assert reader.total_timesteps == ep.length
    assert_same_episode(reader.load(), ep)


@settings(max_examples=12)
@given(ep=episodes(max_length=12).map(whole), data=st.data())
def test_cutting_anywhere_and_joining_changes_nothing(ep, data):
    borders = sorted(data.draw(st.sets(st.integers(1, max(1, ep.length - 1)))) | {0, ep.length})
    parts = [cut(ep, start, stop) for start, stop in pairwise(borders) if start < stop <= ep.length]
    assert_same_episode(join(parts), replace(ep, timestep_range=None))


@settings(max_examples=12)
@given(ep=episodes(max_length=12).map(whole), size=st.integers(1, 13), start=st.integers(-15, 15), data=st.data())
def test_lazy_slices_are_slices_of_the_whole(tmp_path_factory, ep, size, start, data):
    folder = tmp_path_factory.mktemp("chunks")
    stop = data.draw(st.none() | st.integers(-15, 15))
    save_wshard(ep, folder / "whole.wshard")
    with written(ep, folder, size).open() as lazy, episode_file.open_wshard(folder / "whole.wshard") as file:
        assert (lazy.id, lazy.env_id, lazy.length, lazy.timebase) == (file.id, file.env_id, file.length, file.timebase)
        assert lazy.metadata == file.metadata
        for name in lazy.lanes():
            if name in file.lanes():
                expected = file.lane(name)[start:stop]
                found = lazy.lane(name, start=start, stop=stop)
                assert found.shape == expected.shape, name
                assert found.astype(expected.dtype).tobytes() == expected.tobytes(), name


def test_a_slice_reads_only_the_chunks_that_it_touches(tmp_path):
    ep = make_episode(T=50)
    reader = written(ep, tmp_path, 10)
    for number in (0, 1, 4):
        (tmp_path / f"{ep.id}_chunk_{number:04d}.wshard").write_bytes(b"destroyed")
    with reader.open() as lazy:
        state = lazy.lane("joint_pos", start=25, stop=38)
        assert np.array_equal(state, ep.observations["joint_pos"].data[25:38])
        with pytest.raises(ChecksumError, match="chunk_0001"):
            lazy.lane("joint_pos", start=19, stop=25)
        with pytest.raises(EntryNotFoundError, match="no lane 'nothing'"):
            lazy.lane("nothing", start=20, stop=21)


def test_the_lazy_episode_reports_lanes_and_rewards(tmp_path):
    ep = make_episode(T=30)
    with written(ep, tmp_path, 8).open() as lazy:
        assert lazy.lanes()["signal/joint_pos"].shape == (7,)
        assert lazy.has("reward")
        assert not lazy.has("time/ticks")
        assert lazy.total_reward() == pytest.approx(float(ep.rewards.sum(dtype=np.float64)))
        assert_same_episode(lazy.load(), ep)
    bare = Episode("bare", length=3, observations={"x": Channel.of("x", np.zeros(3))})
    with written(bare, tmp_path, 2).open() as lazy:
        assert lazy.total_reward() is None


def test_each_chunk_says_where_it_belongs(tmp_path):
    ep = replace(make_episode(T=25), blocks={"debug/log": b"text"})
    chunks = list(written(ep, tmp_path, 10).iter_chunks())
    assert [(chunk.chunk_index, chunk.total_chunks, chunk.timestep_range) for chunk in chunks] == [
        (0, 3, [0, 9]),
        (1, 3, [10, 19]),
        (2, 3, [20, 24]),
    ]
    assert [chunk.metadata for chunk in chunks] == [ep.metadata] * 3
    assert [list(chunk.blocks) for chunk in chunks] == [["debug/log"], [], []]


def test_residual_bits_of_all_dimensions_are_cut_along_time(tmp_path):
    signs = np.random.default_rng(0).integers(0, 2, (21, 3)).astype(bool)
    packed = np.packbits(signs.T, axis=1, bitorder="little").reshape(-1)
    ep = replace(make_episode(T=21), residuals={"joint_pos": Residual("joint_pos", "sign2nddiff", packed)})
    reader = written(ep, tmp_path, 10)
    middle = reader.load_chunk(1).residuals["joint_pos"].data
    assert middle.tolist() == np.packbits(signs[10:20].T, axis=1, bitorder="little").reshape(-1).tolist()
    assert_same_episode(reader.load(), ep)


@pytest.mark.parametrize("residual", [Residual("x", "delta", np.zeros(4, np.uint8)),
                                      Residual("x", "sign2nddiff", np.zeros(4, np.uint8))])  # fmt: skip
def test_a_residual_that_cannot_be_cut_is_refused_before_anything_is_written(tmp_path, residual):
    writer = ChunkedEpisodeWriter(tmp_path, "ep", 10)
    with pytest.raises(EpisodeError, match="residual 'x'"):
        writer.write_episode_chunked(replace(make_episode(T=20), residuals={"x": residual}))
    assert not list(tmp_path.iterdir())


# ---- writing --------------------------------------------------------------------------------------------------------


def test_the_documented_loop_needs_no_total(tmp_path):
    parts = [make_episode(seed=seed, T=7 + seed) for seed in range(3)]
    writer = ChunkedEpisodeWriter(str(tmp_path / "new" / "folder"), "run")
    paths = [writer.write_chunk(part) for part in parts]
    manifest = writer.finalize_manifest()
    validate_chunk_continuity(manifest)
    validate_chunk_continuity(str(manifest))
    validate_chunk_continuity(writer.manifest)
    assert [path.name for path in paths] == [f"run_chunk_{number:04d}.wshard" for number in range(3)]
    assert manifest.name == "run_manifest.wshard"
    assert all(part.chunk_index is None for part in parts)
    reader = ChunkedEpisodeReader(manifest)
    assert reader.load().length == 7 + 8 + 9
    assert reader.load().id == "run"
    assert load_wshard(paths[1]).timestep_range == [7, 14]
    assert [load_wshard(path).total_chunks for path in paths] == [3, 3, 3]
    for row in reader.load_manifest().rows():
        reader.verify_chunk(row)  # its SHA-256 as it is now


@pytest.mark.parametrize("killed_at", range(5))
def test_a_kill_while_the_total_is_written_leaves_a_whole_episode(tmp_path, monkeypatch, killed_at):
    ep = make_episode(T=30)
    parts = [cut(ep, start, start + 10) for start in (0, 10, 20)]
    writer = ChunkedEpisodeWriter(tmp_path, ep.id)
    for part in parts:
        writer.write_chunk(replace(part, chunk_index=None, timestep_range=None))
    rename, renames = Path.replace, iter(range(100))

    def dying(self: Path, target: Path) -> Path:
        if next(renames) >= killed_at:
            raise KeyboardInterrupt
        return rename(self, target)

    with monkeypatch.context() as dead, contextlib.suppress(KeyboardInterrupt):
        dead.setattr(Path, "replace", dying)
        writer.finalize_manifest()
    assert_same_episode(ChunkedEpisodeReader(tmp_path / f"{ep.id}_manifest.wshard").load(), ep)
    manifest = ChunkedEpisodeWriter(tmp_path, ep.id, resume=True).finalize_manifest()
    assert [chunk.total_chunks for chunk in ChunkedEpisodeReader(manifest).iter_chunks()] == [3, 3, 3]


def test_the_manifest_is_what_older_readers_expect(tmp_path):
    reader = written(make_episode(T=25), tmp_path, 10)
    with ShardReader(reader.manifest_path) as shard:
        assert shard.header.role == ROLE_MANIFEST
        assert shard.names() == ["meta/manifest"]
        contents = json.loads(shard.read_entry("meta/manifest"))
    assert list(contents) == ["episode_id", "env_id", "total_chunks", "total_timesteps", "chunks"]
    assert (contents["total_chunks"], contents["total_timesteps"], contents["env_id"]) == (3, 25, "Reach-v1")
    row = contents["chunks"][2]
    digest = hashlib.sha256((tmp_path / row["uri"]).read_bytes()).hexdigest()
    assert row == {
        "chunk_index": 2,
        "uri": "reach-0000_chunk_0002.wshard",
        "sha256": digest,
        "timestep_range": [20, 24],
        "length_T": 5,
        "total_chunks": 3,
    }


def test_a_chunk_is_not_written_twice(tmp_path):
    writer = ChunkedEpisodeWriter(tmp_path, "run")
    writer.write_chunk(make_episode(), 0)
    for index in (0, -1):
        with pytest.raises(ManifestError, match="not written yet"):
            writer.write_chunk(make_episode(), index)
    assert writer.manifest.total_timesteps == 20


def test_missing_chunks_are_reported_at_the_end(tmp_path):
    writer = ChunkedEpisodeWriter(tmp_path, "run", 20)
    writer.write_chunk(make_episode(), 0)
    writer.write_chunk(make_episode(), 2)
    with pytest.raises(ManifestError, match="gaps or duplicates"):
        writer.finalize_manifest()
    writer.write_chunk(make_episode(), 1)
    reader = ChunkedEpisodeReader(writer.finalize_manifest())
    assert [chunk.chunk_index for chunk in reader.iter_chunks()] == [0, 1, 2]


def test_chunks_of_chunks_and_wrong_ranges_are_refused(tmp_path):
    chunk = replace(make_episode(), chunk_index=0, total_chunks=1)
    with pytest.raises(EpisodeError, match="whole episode"):
        ChunkedEpisodeWriter(tmp_path, "run").write_episode_chunked(chunk)
    with pytest.raises(EpisodeError, match="timestep_range"):
        ChunkedEpisodeWriter(tmp_path, "run").write_chunk(replace(chunk, timestep_range=(0, 3)))
    with pytest.raises(EpisodeError, match="chunk_size_t"):
        ChunkedEpisodeWriter(tmp_path, "run", 0)
    with pytest.raises(EpisodeError, match="non-empty id"):
        ChunkedEpisodeWriter(tmp_path, "")


def test_ranges_with_the_end_after_the_last_timestep_are_understood(tmp_path):
    writer = ChunkedEpisodeWriter(tmp_path, "run")
    for start in (0, 20):
        writer.write_chunk(replace(make_episode(), timestep_range=(start, start + 20)))
    assert ChunkedEpisodeReader(writer.finalize_manifest()).load().length == 40
    manifest = ChunkManifest("golden")
    manifest.add_chunk(0, "a", "", [0, 10], 10)
    manifest.add_chunk(1, "b", "", [10, 15], 5)
    validate_chunk_continuity(manifest)


@pytest.mark.parametrize("id_", ["../evil", "a/b", "a\\b", "..", ".hidden", "-x", "ep:1", "ü", "x" * 400, "a\0b"])
def test_any_id_stays_in_the_folder(tmp_path, id_):
    folder = tmp_path / "in"
    ep = replace(make_episode(), id=id_)
    reader = written(ep, folder, 7)
    assert {path.parent for path in tmp_path.rglob("*.wshard")} == {folder}
    assert reader.load().id == id_
    assert safe_name(id_) != safe_name(id_ + "'") != safe_name(id_.replace("/", "_") + "_")


def test_plain_ids_are_their_own_names():
    assert safe_name("Reach-v1_0.7") == "Reach-v1_0.7"
    assert safe_name(safe_name("a/b")) == safe_name("a/b") != safe_name("a_b")
    for id_ in ("بيانات-2", "拾取_3", "Übung", "उठाना", "հատիկ.v2"):
        assert safe_name(id_) == id_
    assert safe_name(unicodedata.normalize("NFD", "Übung")).startswith("Übung-")


@settings(max_examples=200)
@given(st.text(min_size=1), st.text(min_size=1))
def test_names_are_safe_and_differ_as_ids_do(one, other):
    name = safe_name(one)
    assert (name == safe_name(other)) == (one == other)
    assert name == unicodedata.normalize("NFC", name)
    assert not name.startswith((".", "-"))
    assert len(name.encode()) < 120
    assert all(character in "._-" or unicodedata.category(character)[0] in "LMN" for character in name)
    if one.isalnum() and len(one.encode()) <= 100 and unicodedata.is_normalized("NFC", one):
        assert name == one


# ---- interrupted ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("killed_at", range(1, 12))
def test_a_writer_killed_at_any_publication_leaves_whole_chunks(tmp_path, monkeypatch, killed_at, replaced):
    """Every file of the writer appears by one rename: let the n-th of them not happen any more."""
    ep = make_episode(T=50)
    if replaced:
        written(make_episode(seed=1, T=30), tmp_path, 10)
        older = next(tmp_path.glob("*_manifest.wshard"))
        older.rename(tmp_path / f"{ep.id}_manifest.wshard")
    renames = 0
    rename = Path.replace

    def dying(self: Path, target: Path) -> Path:
        nonlocal renames
        renames += 1
        if renames >= killed_at:
            raise KeyboardInterrupt
        return rename(self, target)

    writer = ChunkedEpisodeWriter(tmp_path, ep.id, 10)
    with monkeypatch.context() as dead:
        dead.setattr(Path, "replace", dying)
        try:
            writer.write_episode_chunked(ep)
            writer.finalize_manifest()
        except KeyboardInterrupt:
            pass
    if (tmp_path / f"{ep.id}_manifest.wshard").exists() and not (replaced and killed_at == 1):
        reader = ChunkedEpisodeReader(tmp_path / f"{ep.id}_manifest.wshard")
        for number, chunk in enumerate(reader.iter_chunks()):
            assert np.array_equal(chunk.rewards, ep.rewards[10 * number : 10 * number + 10])
    again = ChunkedEpisodeWriter(tmp_path, ep.id, 10, resume=not (replaced and killed_at == 1))
    again.write_episode_chunked(ep)
    reader = ChunkedEpisodeReader(again.finalize_manifest())
    assert reader.load_manifest().complete
    assert_same_episode(reader.load(), ep)


def test_going_on_writes_only_what_is_missing(tmp_path):
    ep = make_episode(T=40)
    first = ChunkedEpisodeWriter(tmp_path, ep.id, 10)
    for part in range(2):
        first.write_chunk(cut(ep, 10 * part, 10 * part + 10))
    times = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*_chunk_*")}
    assert not read_manifest(tmp_path / f"{ep.id}_manifest.wshard").complete
    second = ChunkedEpisodeWriter(tmp_path, ep.id, 10, resume=True)
    assert len(second.write_episode_chunked(ep)) == 4
    assert times == {path: path.stat().st_mtime_ns for path in times}
    assert_same_episode(ChunkedEpisodeReader(second.finalize_manifest()).load(), ep)
    with pytest.raises(ManifestError, match="chunk size"):
        ChunkedEpisodeWriter(tmp_path, ep.id, 9, resume=True).write_episode_chunked(ep)


def test_going_on_with_another_episode_is_refused(tmp_path):
    writer = ChunkedEpisodeWriter(tmp_path, "one")
    writer.write_chunk(make_episode())
    (tmp_path / "one_manifest.wshard").rename(tmp_path / "two_manifest.wshard")
    with pytest.raises(ManifestError, match="expected episode 'two', found 'one'"):
        ChunkedEpisodeWriter(tmp_path, "two", resume=True)


# ---- damaged and hostile --------------------------------------------------------------------------------------------


def test_changed_chunks_are_found_before_they_are_used(tmp_path):
    ep = make_episode(T=20)
    reader = written(ep, tmp_path, 10)
    save_wshard(replace(reader.load_chunk(1), env_id="changed"), tmp_path / f"{ep.id}_chunk_0001.wshard")
    fresh = ChunkedEpisodeReader(reader.manifest_path)
    assert fresh.load_chunk(0).length == 10
    with pytest.raises(ChecksumError, match="SHA-256 mismatch"):
        fresh.load_chunk(1)
    with pytest.raises(ChecksumError, match="SHA-256 mismatch"):
        fresh.load()
    with pytest.raises(ManifestError, match="no chunk 7"):
        fresh.load_chunk(7)


@pytest.mark.parametrize("hashed", [True, False])
def test_a_chunk_that_is_not_there_is_reported_as_the_manifest_s(tmp_path, hashed):
    """By every way; the other chunks can be read."""
    manifest = written(make_episode(T=20), tmp_path, 8).manifest_path
    gone = tmp_path / "reach-0000_chunk_0001.wshard"
    gone.unlink()
    reader = ChunkedEpisodeReader(manifest, hashed=hashed)
    with open_episode(manifest, hashed=hashed) as file:
        ways = (
            reader.load, lambda: list(reader.iter_chunks()), lambda: reader.load_chunk(1), lambda: load(manifest),
            file.load, file.verify, file.lanes, lambda: file.slice(0, 5), lambda: file["gripper"],
            lambda: file.lane("gripper", start=5, stop=9), lambda: file.metadata,
        )  # fmt: skip
        for way in ways:
            with pytest.raises(ManifestError, match=f"{manifest}: expected the file {gone}, found none") as caught:
                way()
            assert isinstance(caught.value, MissingFileError)
            assert caught.value.errno == errno.ENOENT
            assert isinstance(caught.value, FileNotFoundError)
            assert caught.value.filename == str(gone)
            copied = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  (bytes of this line), as workers hand it on
            assert str(copied) == str(caught.value)
        assert len(file.lane("gripper", start=2, stop=5)) == 3
        assert reader.load_chunk(2).length == 4


def test_a_chunk_is_hashed_once(tmp_path, monkeypatch):
    reader = written(make_episode(T=20), tmp_path, 10)
    hashed = []
    digest = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda file, name: hashed.append(file.name) or digest(file, name))
    for _ in range(3):
        reader.load()
    assert len(hashed) == len(set(hashed)) == 2


def test_a_changed_manifest_is_found(tmp_path):
    reader = written(make_episode(T=20), tmp_path, 10)
    data = bytearray(reader.manifest_path.read_bytes())
    at = data.index(b'"total_timesteps": 20') + len(b'"total_timesteps": ')
    data[at : at + 2] = b"30"
    reader.manifest_path.write_bytes(data)
    with pytest.raises(ChecksumError, match="meta/manifest"):
        ChunkedEpisodeReader(reader.manifest_path).load_manifest()


OUTSIDE = [
    "../x.wshard",
    "a/../../x",
    "/etc/passwd",
    "C:x",
    "c:/x",
    "\\\\host\\x",
    "..\\x",
    "",
    ".",
    "..",
    "./",
    "a\0b",
    "\ud800",
    "a\udcff",
    "a" * 5000,
    "a/" * 2500 + "b",
    "ä" * 128,
]


@pytest.mark.parametrize("uri", OUTSIDE)
def test_a_chunk_outside_the_folder_is_refused(tmp_path, uri):
    manifest = ChunkManifest("evil")
    manifest.add_chunk(0, uri, "", [0, 9], 10)
    write_manifest(manifest, tmp_path / "m.wshard")
    with pytest.raises(ManifestError, match="uri"):
        ChunkedEpisodeReader(tmp_path / "m.wshard").load_manifest()


def test_chunks_that_are_links_out_of_the_folder_are_refused(tmp_path):
    """M-1, for chunks: what lies elsewhere is no part of an episode; a link inside the folder is followed."""
    outside, folder = tmp_path / "outside", tmp_path / "data"
    manifest = written(make_episode(0, 20), folder, 10).manifest_path
    whole = load(manifest)
    outside.mkdir()
    (chunk, other) = sorted(folder.glob("*_chunk_*"))
    chunk.rename(folder / "saved.bin")
    chunk.symlink_to("saved.bin")
    assert load(manifest) == whole
    other.rename(outside / "secret.wshard")
    other.symlink_to(outside / "secret.wshard")
    for read in (load, lambda path: list(ChunkedEpisodeReader(path, hashed=False).iter_chunks())):
        with pytest.raises(ManifestError, match="is a link that leaves the folder"):
            read(manifest)
    with pytest.raises(ManifestError, match="leaves the folder"), ChunkedEpisodeReader(manifest).open() as file:
        file.lane("signal/joint_pos")
    assert "leaves the folder" in check_file(manifest)[1][other.name]


def row(**changes: object) -> dict[str, object]:
    return {"chunk_index": 0, "uri": "a", "sha256": "", "timestep_range": [0, 9], "length_T": 10} | changes


HOSTILE = {
    "no JSON": b"{",
    "no UTF-8": b'{"episode_id": "\xff"}',
    "deep": b'{"chunks":' + b"[" * 100_000,
    "a list": b"[]",
    "a number": b"7",
    "no id": {},
    "an id that is no text": {"episode_id": 7},
    "chunks that are no list": {"episode_id": "e", "chunks": {}},
    "a chunk that is no object": {"episode_id": "e", "chunks": [7]},
    "an index that is no number": {"episode_id": "e", "chunks": [row(chunk_index="0")]},
    "a boolean index": {"episode_id": "e", "chunks": [row(chunk_index=True)]},
    "a negative index": {"episode_id": "e", "chunks": [row(chunk_index=-1)]},
    "no uri": {"episode_id": "e", "chunks": [row(uri=None)]},
    "a hash that is no text": {"episode_id": "e", "chunks": [row(sha256=5)]},
    "a negative length": {"episode_id": "e", "chunks": [row(length_T=-10)]},
    "an endless length": {"episode_id": "e", "chunks": [row(length_T=2**70)]},
    "a fractional length": {"episode_id": "e", "chunks": [row(length_T=9.5)]},
    "a range of three": {"episode_id": "e", "chunks": [row(timestep_range=[0, 1, 2])]},
    "a range of text": {"episode_id": "e", "chunks": [row(timestep_range="0-9")]},
    "a range of another length": {"episode_id": "e", "chunks": [row(timestep_range=[0, 5])]},
    "another number of chunks": {"episode_id": "e", "total_chunks": 2, "chunks": [row()]},
    "a total that is no number": {"episode_id": "e", "total_timesteps": "10", "chunks": [row()]},
    "a chunk twice": {"episode_id": "e", "total_timesteps": 20, "chunks": [row(), row()]},
}


@pytest.mark.parametrize("contents", HOSTILE.values(), ids=HOSTILE)
def test_hostile_manifests_are_refused(tmp_path, contents):
    data = contents if isinstance(contents, bytes) else json.dumps(contents).encode()
    with ShardWriter(tmp_path / "m.wshard", role=ROLE_MANIFEST) as shard:
        shard.write_entry("meta/manifest", data)
    with pytest.raises(ManifestError) as caught:
        ChunkedEpisodeReader(tmp_path / "m.wshard").load_manifest()
    assert len(str(caught.value)) < 600


@given(value=st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
                          lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
                          max_leaves=6),
       key=st.sampled_from(["chunk_index", "uri", "sha256", "timestep_range", "length_T"]))  # fmt: skip
def test_no_value_in_a_row_leads_to_another_error(value, key):
    data = json.dumps({"episode_id": "e", "total_timesteps": 10, "chunks": [row(**{key: value})]}).encode()
    try:
        validate_chunk_continuity(ChunkManifest.from_json(data))
    except ManifestError:
        return


def test_invalid_manifest_is_refused(tmp_path):
    save_wshard(make_episode(), tmp_path / "episode.wshard")
    with pytest.raises(HeaderError, match="not a manifest"):
        ChunkedEpisodeReader(tmp_path / "episode.wshard").load_manifest()
    with ShardWriter(tmp_path / "other.wshard", role=ROLE_MANIFEST) as shard:
        shard.write_entry("something", b"{}")
    with pytest.raises(ManifestError, match="meta/manifest"):
        validate_chunk_continuity(tmp_path / "other.wshard")
    (tmp_path / "short.wshard").write_bytes(b"SHRD")
    with pytest.raises(FormatError, match="too short"):
        ChunkedEpisodeReader(tmp_path / "short.wshard").load_manifest()
    with pytest.raises(FileNotFoundError):
        ChunkedEpisodeReader(tmp_path / "nothing.wshard").load_manifest()


def test_gaps_in_time_and_wrong_totals_are_found():
    manifest = ChunkManifest("run")
    validate_chunk_continuity(manifest)
    manifest.add_chunk(0, "a", "", [0, 99], 100)
    manifest.add_chunk(1, "b", "", [150, 249], 100)
    with pytest.raises(ValueError, match="Timestep gap"):
        validate_chunk_continuity(manifest)
    manifest.chunks[1]["timestep_range"] = [100, 199]
    manifest.total_timesteps = 999
    with pytest.raises(ValueError, match="total_timesteps"):
        validate_chunk_continuity(manifest)
    manifest.total_timesteps = 200
    del manifest.chunks[1]["timestep_range"]
    validate_chunk_continuity(manifest)
    manifest.chunks[1]["chunk_index"] = 0
    with pytest.raises(ValueError, match="gaps or duplicates"):
        validate_chunk_continuity(manifest)


def test_an_empty_manifest_is_not_an_episode(tmp_path):
    reader = ChunkedEpisodeReader(ChunkedEpisodeWriter(tmp_path, "none").finalize_manifest())
    assert (reader.num_chunks, list(reader.iter_chunks())) == (0, [])
    for read in (reader.load, reader.open):
        with pytest.raises(ManifestError, match="at least one chunk"):
            read()


def test_a_file_of_another_length_is_refused(tmp_path):
    save_wshard(make_episode(T=9), tmp_path / "a")
    manifest = ChunkManifest("run")
    manifest.add_chunk(0, "a", "", [0, 9], 10)
    write_manifest(manifest, tmp_path / "m.wshard")
    with pytest.raises(ManifestError, match="10 timesteps, found 9"):
        ChunkedEpisodeReader(tmp_path / "m.wshard").load()


# ---- chunks that do not fit together --------------------------------------------------------------------------------


UNFIT = {
    "another lane": (lambda ep: replace(ep, actions={}), "action/'ctrl'"),
    "another dtype": (lambda ep: replace(ep, actions={"ctrl": Channel.of("ctrl", np.zeros((20, 4)))}), "action/ctrl"),
    "another shape": (
        lambda ep: replace(ep, actions={"ctrl": Channel.of("ctrl", np.zeros((20, 3), "f4"))}),
        "action/ctrl",
    ),
    "no rewards": (lambda ep: replace(ep, rewards=None), "rewards: chunk 1 has none"),
    "an omen": (lambda ep: replace(ep, omens={"x": {"m": Channel.of("x/m", np.zeros(20))}}), "omens: chunk 1"),
    "another log": (lambda ep: replace(ep, blocks={"debug/log": b"b"}), "debug/log"),
}


@pytest.mark.parametrize(("change", "message"), UNFIT.values(), ids=UNFIT)
def test_chunks_that_do_not_fit_together_are_readable_one_by_one(tmp_path, change, message):
    first = replace(make_episode(), blocks={"debug/log": b"a"})
    writer = ChunkedEpisodeWriter(tmp_path, "run")
    writer.write_chunk(first)
    writer.write_chunk(change(replace(make_episode(seed=1), blocks={})))
    reader = ChunkedEpisodeReader(writer.finalize_manifest())
    assert len(list(reader.iter_chunks())) == 2
    with pytest.raises(LaneError, match=message):
        reader.load()


def test_a_part_without_truncations_was_not_truncated(tmp_path):
    writer = ChunkedEpisodeWriter(tmp_path, "run")
    writer.write_chunk(make_episode())
    writer.write_chunk(replace(make_episode(), truncations=np.arange(20) == 19))
    truncations = ChunkedEpisodeReader(writer.finalize_manifest()).load().truncations
    assert truncations.tolist() == [False] * 39 + [True]


def test_later_metadata_win(tmp_path):
    writer = ChunkedEpisodeWriter(tmp_path, "run")
    writer.write_chunk(replace(make_episode(), metadata={"task": "reach", "success": False}))
    writer.write_chunk(replace(make_episode(), metadata={"success": True}))
    assert ChunkedEpisodeReader(writer.finalize_manifest()).load().metadata == {"task": "reach", "success": True}


# ---- the same whether in one file or in chunks ----------------------------------------------------------------------


@given(ep=episodes(max_length=12).map(whole), size=st.integers(1, 13), data=st.data())
def test_an_open_episode_reports_the_same_in_one_file_and_in_chunks(tmp_path_factory, ep, size, data):
    folder = tmp_path_factory.mktemp("chunks")
    save_wshard(ep, folder / "whole.wshard")
    manifest = written(ep, folder, size).manifest_path
    with open_episode(folder / "whole.wshard") as one, open_episode(manifest) as many:
        for file in (one, many):
            assert list(file) == list(file.lanes())
            assert all(name in file and file[name] for name in [*file, *ep.observations])
            assert not any(name in file for name in ("zz", "meta/wshard", 0))
        for name in ("id", "env_id", "length", "timebase", "metadata"):
            assert getattr(many, name) == getattr(one, name), name
        recorded = {name: lane for name, lane in one.lanes().items() if one.has(name)}
        assert {name: lane for name, lane in many.lanes().items() if many.has(name)} == recorded
        for name, lane in recorded.items():
            assert many.lane(name).tobytes() == one.lane(name).tobytes(), name
            assert many.lane(name).dtype == lane.dtype.numpy_dtype
            assert many.stored(name).bytes == one.stored(name).bytes
        assert many.total_reward() == pytest.approx(one.total_reward(), nan_ok=True)
        start = data.draw(st.integers(0, ep.length - 1))
        stop = data.draw(st.integers(start + 1, ep.length))
        assert_same_episode(many.slice(start, stop), one.slice(start, stop))
        for name in recorded:
            stride = data.draw(st.sampled_from((1, 2, -1, -3)))
            for key in (slice(start, stop), slice(None, None, stride), start, -1, slice(0, 0)):
                found, expected = many[name][key], one[name][key]
                assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
                assert found.tobytes() == expected.tobytes(), (name, key)
            assert len(many[name]) == ep.length
        assert_same_episode(many.load(), one.load())
        assert [part.role for part in many.parts()] == ["manifest"] + ["chunk"] * (-(-ep.length // size))
        assert one.parts() == ()


def test_a_view_reads_only_the_chunks_that_it_touches(tmp_path):
    ep = make_episode(T=50)
    manifest = written(ep, tmp_path, 10).manifest_path
    with open_episode(manifest) as file:
        view, ctrl = file["joint_pos"], file.lane_view("action/ctrl", verify=True)
        with pytest.raises(EntryNotFoundError, match="no lane 'nothing'"):
            file.lane_view("nothing")
        with pytest.raises(StepError, match="expected a timestep below 50"):
            view[50]
        for number in (0, 1, 4):
            (tmp_path / f"{ep.id}_chunk_{number:04d}.wshard").write_bytes(b"destroyed")
        assert np.array_equal(view[25:38], ep.observations["joint_pos"].data[25:38])
        assert np.array_equal(ctrl[29:31, 2], ep.actions["ctrl"].data[29:31, 2])
        with pytest.raises(ChecksumError, match="chunk_0001"):
            view[19]


def test_cat_writes_lanes_of_chunks(tmp_path):
    ep = make_episode(T=20)
    manifest = written(ep, tmp_path, 6).manifest_path
    done = CliRunner().invoke(app, ["cat", str(manifest), "gripper", "--span", "4:9", "--format", "json"])
    assert json.loads(done.output)["values"] == ep.observations["gripper"].data[4:9].tolist()


def test_the_digest_is_of_the_data_and_not_of_the_place(tmp_path):
    ep = make_episode(T=25)
    digests = []
    for folder in ("here", "there"):
        writer = ChunkedEpisodeWriter(tmp_path / folder, ep.id, 10)
        writer.write_episode_chunked(ep)
        manifest = writer.finalize_manifest()
        with open_episode(manifest) as file:
            digests.append(file.digest())
    assert digests[0] == digests[1]
    changed = ep.observations["joint_pos"].data.copy()
    changed[12, 0] += 1
    other = replace(ep, observations=ep.observations | {"joint_pos": Channel.of("joint_pos", changed)})
    with open_episode(written(other, tmp_path / "other", 10).manifest_path) as file:
        assert file.digest() != digests[0]


def test_chunks_with_other_lanes_are_not_an_episode(tmp_path):
    ep = make_episode(T=20)
    writer = ChunkedEpisodeWriter(tmp_path, "run")
    writer.write_chunk(cut(ep, 0, 10))
    writer.write_chunk(replace(cut(ep, 10, 20), actions={}))
    with open_episode(writer.finalize_manifest()) as file, pytest.raises(LaneError, match="in one of chunks 0 and 1"):
        file.lanes()
    writer = ChunkedEpisodeWriter(tmp_path, "wide")
    writer.write_chunk(replace(cut(ep, 0, 10), observations={"x": Channel.of("x", np.zeros((10, 2), np.float32))}))
    writer.write_chunk(replace(cut(ep, 10, 20), observations={"x": Channel.of("x", np.zeros((10, 3), np.float32))}))
    with open_episode(writer.finalize_manifest()) as file, pytest.raises(LaneError, match=r"\[3\] in chunk 1"):
        file.lanes()


def test_hashes_are_left_out_where_digests_count(tmp_path, monkeypatch):
    manifest = written(make_episode(T=20), tmp_path, 10).manifest_path
    monkeypatch.setattr(hashlib, "file_digest", None)
    with open_episode(manifest, hashed=False) as file:
        assert file.load().length == len(file.lane("joint_pos")) == 20
        assert file.digest()
        with pytest.raises(TypeError):  # no hash without the function
            file.verify()


def test_checking_a_manifest_checks_its_chunks(tmp_path):
    manifest = written(make_episode(T=30), tmp_path, 10).manifest_path
    assert check_file(manifest) == (1, {})
    first, second, third = sorted(tmp_path.glob("*_chunk_*"))
    first.write_bytes(first.read_bytes()[:-1] + b"\x01")
    third.unlink()
    _, found = check_file(manifest)
    assert sorted(found) == [first.name, third.name]
    assert "SHA-256 mismatch" in found[first.name]
    assert f"expected the file {third}, found none" in found[third.name]
    contents = read_manifest(manifest)
    for row in contents.chunks:
        row["sha256"] = ""
    contents.chunks[0]["length_T"] = contents.chunks[2]["length_T"] = 0
    data = bytearray(second.read_bytes())
    data[-3] ^= 1
    second.write_bytes(data)
    contents.chunks = contents.chunks[1:2]
    write_manifest(contents, manifest)
    _, found = check_file(manifest)
    assert "Checksum mismatch" in found[second.name]
