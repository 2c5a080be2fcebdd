"""A LeRobot folder is catalogued, searched and loaded where it lies."""

from __future__ import annotations

import json

import numpy as np
import pytest
from command_line import app
from typer.testing import CliRunner

from wshard import Episode, TimebaseSpec, TrajectoryIngestor, TrajectoryRetriever, open_archive, open_sink
from wshard.errors import MissingFileError
from wshard.media import VideoFrames, encode_video


def test_episodes_are_ingested_searched_and_loaded_in_place(dataset_fixtures, tmp_path):
    folder = dataset_fixtures / "lerobot" / "lerobot_v3_video_h264"
    with TrajectoryIngestor(tmp_path) as ingestor:
        report = ingestor.ingest([folder])
        assert (report.new, report.embedded, report.failed) == (3, 3, [])
        assert ingestor.ingest([folder]).unchanged == 3
    retriever = TrajectoryRetriever(tmp_path)
    (hit,) = retriever.search_similar_episodes(f"{folder}#1", top_k=1)
    assert (hit.episode_id, hit.key, hit.metadata["env_id"]) == ("episode_000001", "1", "toy")
    truth = np.load(folder.parent / "lerobot_source.npz")["episode_1/observation.state"]
    assert np.array_equal(hit.load(channels=["observation.state"])["observation.state"], truth)
    (found,) = retriever.search_similar_episodes(text="push the T", top_k=1)
    assert found.key == "1"


def test_texts_and_tasks_of_timesteps_are_no_observations(tmp_path):
    about = {"task": ["reach", "push"], "phase": ["near", "far"]}
    blocks = {f"aux/text/{name}": np.array([0, 0, 1, 1], "<i4").tobytes() for name in about}
    state = {"observation.state": np.arange(4, dtype=np.float32)}
    with open_sink(tmp_path / "set", "lerobot") as sink:
        sink.write(Episode("a", length=4, observations=state, metadata=about, blocks=blocks))
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        assert ingestor.ingest([tmp_path / "set"]).embedded == 1
    with open_archive(tmp_path / "archive") as archive:
        lanes = [json.loads(space.definition)["lanes"] for space in archive.catalog.vectors.spaces()]
    assert lanes == [[{"name": "signal/observation.state", "shape": []}]] * 2


def test_an_episode_without_its_video_is_searched_by_its_other_lanes(tmp_path):
    rng = np.random.default_rng(0)
    with open_sink(tmp_path / "set", "lerobot_v21") as sink:
        for name in "abc":
            frames = rng.integers(0, 255, (12, 32, 48, 3), np.uint8)
            encode_video(frames, tmp_path / f"{name}.mp4", fps=10)
            film = VideoFrames(tmp_path / f"{name}.mp4", count=12, frame_shape=frames.shape[1:])
            state = rng.normal(size=(12, 2)).cumsum(axis=0).astype(np.float32)
            seen = {"observation.state": state, "observation.images.top": film}
            sink.write(Episode(name, length=12, timebase=TimebaseSpec(tick_hz=10.0), observations=seen))
    next((tmp_path / "set").glob("videos/**/episode_000001.mp4")).unlink()
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        assert ingestor.ingest([tmp_path / "set"]).embedded == 3
    with TrajectoryIngestor(tmp_path / "archive", "frames") as ingestor:
        assert ingestor.ingest([tmp_path / "set"]).embedded == 2
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        for search in (retriever.search_similar_episodes, retriever.search_moments):
            found = {}
            for name in "ab":
                hits = search(name, 1)
                assert (hits[0].episode_id, hits[0].score) == (name, pytest.approx(1))
                found[name] = {lane.name for space in hits.answered.spaces for lane in space.lanes}
            assert found == {"a": {*found["b"], "signal/observation.images.top"}, "b": {"signal/observation.state"}}
            hits = search("a", 1, like=["b"])
            assert {lane.name for space in hits.answered.spaces for lane in space.lanes} == found["b"]
    with TrajectoryRetriever(tmp_path / "archive", "frames") as retriever, pytest.raises(MissingFileError, match="mp4"):
        retriever.search_similar_episodes("b")


@pytest.mark.parametrize(("target", "known"), [("lerobot_v21", [True, False]), ("lerobot", [False, False])])
def test_stored_sizes_of_frames_are_known_of_a_video_of_one_episode_that_is_there(tmp_path, target, known):
    frames = np.random.default_rng(0).integers(0, 255, (6, 32, 48, 3), np.uint8)
    encode_video(frames, tmp_path / "a.mp4", fps=10)
    seen = {
        "observation.state": np.arange(6, dtype=np.float32),
        "observation.images.top": VideoFrames(tmp_path / "a.mp4", count=6, frame_shape=frames.shape[1:]),
    }
    with open_sink(tmp_path / "set", target) as sink:
        for name in "ab":
            sink.write(Episode(name, length=6, timebase=TimebaseSpec(tick_hz=10.0), observations=seen))
    for missing in (tmp_path / "set").glob("videos/**/episode_000001.mp4"):
        missing.unlink()
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        assert ingestor.ingest([tmp_path / "set"]).new == 2
    with open_archive(tmp_path / "archive") as archive:
        facts = archive.catalog.query.facts(archive.catalog.query.ids(""), parts={"lanes"}).values()
        found = [one.lanes["signal/observation.images.top"].storage for one in facts]
        assert [one.stored is not None for one in found] == known
        assert [(one.codec, one.bytes) for one in found] == [("mp4", frames.nbytes)] * 2
        assert archive.catalog.query.count("lane.signal/observation.images.top.stored:>0") == sum(known)
    shown = CliRunner().invoke(app, ["show", "b", "--archive", str(tmp_path / "archive")]).stdout
    assert f"mp4, {frames.nbytes:,} bytes\n" in "\n".join(line.rstrip() for line in shown.splitlines())
