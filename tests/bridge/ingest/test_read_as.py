"""How locations are read is stored in the archive: the format that was named, and the names of lanes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from jsonl_source import JsonlSource, announce, write_lines

from bridge.spaces.map_command import state_map_commands
from wshard import (
    Episode,
    EpisodeAddress,
    FormatError,
    TrajectoryIngestor,
    TrajectoryRetriever,
    check_archive,
    open_archive,
    open_episode,
    save_wshard,
)
from wshard.core.episode.protocol import read_as
from wshard.errors import ClosedError, EntryNotFoundError, IngestError
from wshard.formats.lane_map import encode_lane_map, parse_lane_map
from wshard.testing import make_episode


@pytest.fixture
def lines(tmp_path, monkeypatch):
    announce(tmp_path / "site", monkeypatch)
    return write_lines(tmp_path / "many.jsonl", (make_episode(number) for number in range(3)))


def rows(ingestor):
    return ingestor._archive.catalog.query.select("").rows


def test_rows_say_of_which_format_a_location_is(tmp_path, lines):
    save_wshard(make_episode(9), tmp_path / "one.wshard")
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        assert ingestor.ingest([lines, tmp_path / "one.wshard"]).new == 4
        found = ingestor._archive.catalog.query.select("format:jsonl").rows
        assert {row.key for row in found} == {make_episode(number).id for number in range(3)}
        assert {row.address.read_as for row in rows(ingestor)} == {"", "jsonl"}


def test_a_lane_map_is_remembered_and_hits_load_by_it(tmp_path, lines):
    renamed = encode_lane_map(["joint_pos=robot/state"])
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        assert ingestor.ingest(EpisodeAddress(str(lines), read_as=read_as("", renamed))).new == 3
        assert {row.lane_map for row in rows(ingestor)} == {renamed}
        assert {row.format for row in rows(ingestor)} == {"jsonl"}
        write_lines(lines, [make_episode(7)])
        report = ingestor.ingest(lines)
        assert (report.new, report.failed) == (1, [])
        assert {row.lane_map for row in rows(ingestor)} == {renamed}
        assert ingestor.ingest(lines).unchanged == 4
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        hit = retriever.search_similar_episodes(f"{lines}#{make_episode(7).id}", top_k=1)[0]
        assert hit.episode_id == make_episode(7).id
        part = hit.load_span(["robot/state"])
        assert np.array_equal(part["robot/state"], make_episode(7)["joint_pos"])


def test_fsck_reads_a_location_in_the_format_that_was_named(tmp_path, lines):
    other = lines.rename(tmp_path / "many.txt")
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        assert ingestor.ingest(EpisodeAddress(str(other), read_as=read_as("jsonl"))).new == 3
        assert check_archive(ingestor._archive).findings == ()


def test_another_map_changes_the_episodes(tmp_path, lines):
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        ingestor.ingest(lines)
        how = read_as("jsonl", encode_lane_map({"joint_pos": "x"}))
        assert ingestor.ingest(EpisodeAddress(str(lines), read_as=how)).changed == 3
        assert "signal/x" in [
            lane.name for layout in ingestor._archive.catalog.query.layouts() for lane in layout.lanes
        ]


def test_one_episode_of_a_location_is_ingested_by_its_address(tmp_path, lines):
    key = make_episode(1).id
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        uid = ingestor.ingest_episode(f"{lines}#{key}")
        assert [(row.uid, row.key) for row in rows(ingestor)] == [(uid, key)]
        with pytest.raises(IngestError, match="expected an episode of this key"):
            ingestor.ingest_episode(f"{lines}#nobody")
        save_wshard(make_episode(1), tmp_path / "one.wshard")
        with pytest.raises(EntryNotFoundError, match=r"one\.wshard: no episode 'k': .* one episode without a key"):
            ingestor.ingest(f"{tmp_path / 'one.wshard'}#k")
        assert ingestor.ingest(lines).new == 2


def test_what_a_map_cannot_rename_is_refused(lines):
    def open_as(*pairs: str):
        how = read_as("", encode_lane_map(pairs))
        return open_episode(EpisodeAddress(str(lines), make_episode(0).id, how))

    with pytest.raises(EntryNotFoundError, match="no lane 'nothing' to rename; it has signal/"):
        open_as("nothing=x")
    with pytest.raises(FormatError, match="expected OLD=NEW"):
        open_as("joint_pos")
    for pairs in (["joint_pos=x", "gripper=x"], ["joint_pos=gripper"]):
        with pytest.raises(FormatError, match="two lanes the same name"):
            open_as(*pairs)
    with pytest.raises(EntryNotFoundError, match="no lane 'q' or 'qpos' to rename; it has signal/"):
        open_as("qpos=x", "q=x")
    with open_as("qpos=x", "joint_pos=x") as episode:
        assert np.array_equal(episode["x"], make_episode(0)["joint_pos"])


def test_a_command_renames_all_that_a_map_gave_one_name(tmp_path):
    for name in ("q", "qpos"):
        rows = np.random.default_rng(len(name)).normal(size=(30, 2))
        save_wshard(Episode(name, observations={name: rows}), tmp_path / f"{name}.wshard")
    with open_archive(tmp_path / "archive", create=True) as archive:
        assert archive.ingest([*tmp_path.glob("*.wshard")], lane_map={"q": "state", "qpos": "state"}).new == 2
        (layout,) = archive.catalog.query.layouts()
        command = state_map_commands(archive.catalog, {layout.id: {"signal/state": "state_2"}})
    assert "--map q=state_2 --map qpos=state_2" in command


def test_any_names_survive_as_text():
    pairs = {"a;b": "c=d", "ünï": "x y", "obs/state": "state"}
    assert parse_lane_map(encode_lane_map(pairs)) == pairs
    assert json.loads(json.dumps(encode_lane_map(pairs))).isascii()


def test_an_episode_with_renamed_lanes_is_opened_once(lines, monkeypatch):
    """Whatever is read of it, and it is closed with the reader."""
    opened = []
    real = JsonlSource.open
    monkeypatch.setattr(JsonlSource, "open", lambda self, key: opened.append(real(self, key)) or opened[-1])
    how = read_as("jsonl", encode_lane_map({"joint_pos": "state"}))
    with open_episode(EpisodeAddress(str(lines), make_episode(0).id, how)) as episode:
        assert np.array_equal(episode["state"][2:5], make_episode(0)["joint_pos"][2:5])
        assert np.array_equal(episode.load()["gripper"], make_episode(0)["gripper"])
        assert len(opened) == 1
    with pytest.raises(ClosedError):
        opened[0].load()


def test_a_map_stays_with_a_file_of_this_project_until_it_is_taken_back(tmp_path, lines):
    own = tmp_path / "one.wshard"
    save_wshard(make_episode(9), own)
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        assert ingestor.ingest([own, lines], lane_map={"joint_pos": "arm"}).new == 4
        save_wshard(make_episode(9, T=33), own)  # changed
        assert ingestor.ingest([own, lines]).changed == 1
        assert {row.lane_map for row in rows(ingestor)} == {"joint_pos=arm"}
        assert ingestor.ingest([own, lines], lane_map={}).changed == 4
        assert {row.lane_map for row in rows(ingestor)} == {""}
        assert ingestor.ingest([own, lines], lane_map={}).unchanged == 4
        assert {row.format for row in rows(ingestor)} == {"jsonl", "wshard"}
