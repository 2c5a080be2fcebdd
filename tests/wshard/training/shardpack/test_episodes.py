"""ShardPacks of episodes keep the contracts of Sources and Sinks, and are ingested, searched and converted in place."""

from __future__ import annotations

import io
import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from bridge.cli.main import command
from wshard import (
    Channel,
    Episode,
    FormatError,
    TrajectoryIngestor,
    TrajectoryRetriever,
    detect_format,
    list_episodes,
    load_wshard,
    open_episode,
    open_wshard,
    save_wshard,
)
from wshard.errors import ChecksumError, EpisodeError, RecordingExistsError
from wshard.formats.contract import EpisodeReaderContract, SinkContract, SourceContract
from wshard.shardpack import NewEntry, ShardPackReader, ShardPackWriter
from wshard.testing import assert_same_episode, make_episode
from wshard.training.shardpack.episodes import ShardPackSink, ShardPackSource

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, episodes: list[Episode], compression="none", mode="append") -> list[str]:
    with ShardPackSink(path, compression=compression, mode=mode) as sink:
        return [sink.write(ep) for ep in episodes]


def write_all(sink: ShardPackSink, episodes: list[Episode]) -> None:
    for ep in episodes:
        sink.write(ep)


def some(count: int) -> dict[str, Episode]:
    return {f"run/{seed}": replace(make_episode(seed), id=f"run/{seed}") for seed in range(count)}


class TestShardPackSource(SourceContract):
    def make(self, tmp_path: Path):
        expected = some(3)
        write(tmp_path / "a.shardpack", list(expected.values()))
        return ShardPackSource(tmp_path / "a.shardpack"), expected


class TestCompressedEntries(SourceContract):
    def make(self, tmp_path: Path):
        expected = some(3)
        with ShardPackWriter(tmp_path / "a.shardpack", compression="zstd", key_table=False) as writer:
            for key, ep in expected.items():
                save_wshard(ep, file := io.BytesIO())
                files = [NewEntry("note.txt", b"beside"), NewEntry("0.wshard", file.getvalue())]
                writer.write_record(key, files)
        return ShardPackSource(tmp_path / "a.shardpack"), expected


class TestShardPackReader(EpisodeReaderContract):
    def open_reader(self, ep: Episode, folder: Path):
        write(folder / "a.shardpack", [ep], "zstd")
        return ShardPackSource(folder / "a.shardpack").open(ep.id)


class TestShardPackSink(SinkContract):
    suffix = ".shardpack"

    def open_sink(self, location: Path):
        return ShardPackSink(location)

    def open_source(self, location: Path):
        return ShardPackSource(location)

    def test_a_file_takes_one_episode(self, tmp_path: Path):
        """It takes many, of any id that a key can be."""
        episodes = [replace(make_episode(seed), id=id_) for seed, id_ in enumerate(["plain", "a/b", "../up", "a_b"])]
        place = tmp_path / "a.shardpack"
        with self.open_sink(place) as sink:
            assert [sink.write(ep) for ep in episodes] == [ep.id for ep in episodes]
            assert not place.exists()
            with pytest.raises(EpisodeError, match="no episode 'plain' there yet"):
                sink.write(episodes[0])
            with pytest.raises(EpisodeError, match="control"):
                sink.write(replace(make_episode(), id="a\nb"))
        with self.open_source(place) as source:
            assert list(source.keys()) == [ep.id for ep in episodes]
            for ep in episodes:
                assert_same_episode(source.load(ep.id), ep)

    def test_a_folder_takes_many_episodes_of_any_id(self, tmp_path: Path):
        """A folder is no ShardPack."""
        with pytest.raises(FormatError, match="path of a ShardPack file"):
            self.open_sink(tmp_path)
        with pytest.raises(IsADirectoryError):
            self.open_source(tmp_path)

    test_of_writers_that_add_an_id_at_one_moment_one_wins_and_the_others_name_it = None  # it is no folder


def test_modes_append_replace_or_refuse(tmp_path):
    path, episodes = tmp_path / "a.shardpack", list(some(4).values())
    write(path, episodes[:2])
    write(path, episodes[2:3])
    assert list(ShardPackSource(path).keys()) == ["run/0", "run/1", "run/2"]
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        write(path, episodes[3:], mode="error")
    with pytest.raises(KeyError), ShardPackSink(path, mode="overwrite") as sink:
        sink.write({}["no episode"])
    with pytest.raises(EpisodeError), ShardPackSink(path, mode="overwrite") as sink:
        write_all(sink, [episodes[3], episodes[3]])
    assert path.read_bytes() == before
    write(path, episodes[3:], mode="overwrite")
    assert list(ShardPackSource(path).keys()) == ["run/3"]
    assert [one.name for one in tmp_path.iterdir()] == ["a.shardpack"]
    with ShardPackSink(path) as one, ShardPackSink(path) as other:
        one.write(episodes[0])
        with pytest.raises(RecordingExistsError, match="active"):
            other.write(episodes[1])


def test_lanes_are_read_lazily_and_digests_are_those_of_files(tmp_path):
    frames = np.random.default_rng(0).integers(0, 255, (400, 64, 64, 3), np.uint8)  # 4.9 MB
    ep = replace(make_episode(T=400), id="big")
    ep.observations["rgb"] = Channel.of("rgb", frames)
    write(tmp_path / "a.shardpack", [ep, *some(2).values()])
    save_wshard(ep, tmp_path / "big.wshard")
    with ShardPackSource(tmp_path / "a.shardpack") as source:
        tracemalloc.start()
        with source.open("big") as reader:
            rows = reader["rgb"][100:102]
            assert tracemalloc.get_traced_memory()[1] < 1_000_000
            tracemalloc.stop()
            assert np.array_equal(rows, frames[100:102])
            assert reader.where == f"{tmp_path / 'a.shardpack'}#big"
            assert not reader.lane("rgb").flags.writeable
            with open_wshard(tmp_path / "big.wshard") as file:
                assert reader.digest() == file.digest()


def test_a_damaged_lane_is_named_and_other_episodes_are_read(tmp_path):
    path, episodes = tmp_path / "a.shardpack", some(3)
    write(path, list(episodes.values()))
    data = bytearray(path.read_bytes())
    with ShardPackReader(path) as pack:
        start, _ = pack.span(1)
    lane = episodes["run/1"].observations["joint_pos"].data.tobytes()
    data[data.index(lane, start) + 5] ^= 1
    path.write_bytes(data)
    with ShardPackSource(path) as source:
        with pytest.raises(ChecksumError, match=r"a\.shardpack#run/1.*joint_pos"):
            source.load("run/1")
        with source.open("run/1") as reader, pytest.raises(ChecksumError):
            reader.verify()
        assert_same_episode(source.load("run/2"), episodes["run/2"])


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("place", [0, 9, 20])  # of the size of the record, its magic and its key
def test_a_damaged_record_stops_no_other_episode(tmp_path, number, place):
    write(tmp_path / "a.shardpack", list(some(3).values()))
    with TrajectoryIngestor(tmp_path / "archive", limits=None) as ingestor:
        assert ingestor.ingest([tmp_path], windows="whole").new == 3
        with ShardPackReader(tmp_path / "a.shardpack") as pack:
            start, _ = pack.span(number)
        data = bytearray((tmp_path / "a.shardpack").read_bytes())
        data[start + place] ^= 1
        (tmp_path / "a.shardpack").write_bytes(data)
        report = ingestor.ingest([tmp_path], windows="whole", prune=True)
        assert [failure.key for failure in report.failed] == [f"record {number}"]
        assert (report.removed, report.skipped) == (0, {})
    source = ShardPackSource(tmp_path / "a.shardpack")
    assert [source.load(f"run/{other}").length for other in {0, 1, 2} - {number}] == [20, 20]
    for key in (f"run/{number}", f"record {number}"):
        with pytest.raises(FormatError, match=rf"a\.shardpack: record {number}"):
            source.open(key)


def test_only_packs_of_episodes_are_locations(tmp_path):
    write(tmp_path / "a.shardpack", list(some(1).values()))
    write(tmp_path / "renamed.bin", list(some(1).values()))
    with ShardPackWriter(tmp_path / "images.shardpack") as writer:
        writer.write_record("k", {"a.jpg": b""})
    names = ("a.shardpack", "renamed.bin", "images.shardpack", "none.shardpack")
    assert [ShardPackSource.matches(tmp_path / name) for name in names] == [True, True, False, False]
    assert detect_format(tmp_path / "a.shardpack") == "shardpack"
    with pytest.raises(FormatError, match=r"record 0 \('k'\): expected an entry"):
        ShardPackSource(tmp_path / "images.shardpack").open("k")
    assert len(list_episodes(tmp_path / "a.shardpack")) == 1
    with open_episode(f"{tmp_path / 'a.shardpack'}#run/0") as episode:
        assert episode.id == "run/0"


def run(*words: object) -> None:
    with pytest.raises(SystemExit) as done:
        command()(list(map(str, words)), prog_name="wshard")
    assert not done.value.code


def test_episodes_are_converted_packed_and_ingested_in_place(tmp_path, capsys):
    folder = tmp_path / "files"
    folder.mkdir()
    for key, ep in some(6).items():
        save_wshard(ep, folder / f"{key[-1]}.wshard")
    run("convert", folder, tmp_path / "all.shardpack", "--from", "wshard")
    run("pack", folder, "--to", tmp_path / "packed.shardpack")
    run("convert", tmp_path / "packed.shardpack", tmp_path / "back", "--to", "wshard")
    back = sorted((tmp_path / "back").iterdir())
    assert_same_episode(load_wshard(back[3]), some(4)["run/3"])
    assert len(back) == 6
    with ShardPackSource(tmp_path / "all.shardpack") as source:
        assert list(source.keys()) == list(some(6))
    with ShardPackSource(tmp_path / "packed.shardpack") as source:
        assert list(source.keys()) == [str(number) for number in range(6)]
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        assert not ingestor.ingest([tmp_path / "all.shardpack"]).failed
    retriever = TrajectoryRetriever(tmp_path / "archive")
    hits = retriever.search_similar_episodes(f"{tmp_path / 'all.shardpack'}#run/3", top_k=2)
    assert hits[0].episode_id == "run/3"
    assert_same_episode(hits[0].load(), some(4)["run/3"])
    capsys.readouterr()
