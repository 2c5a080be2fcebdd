"""A LeRobot folder is catalogued, searched and loaded where it lies."""

from __future__ import annotations

import json

import numpy as np

from bridge import TrajectoryIngestor, TrajectoryRetriever
from wshard import Episode, open_archive
from wshard.formats.base import open_sink


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
