"""Images from files to hits: which lane is taken, how it is chosen, and what is left out."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from bridge_episodes import vectors_of

from embedders import BOTH, Frames, Space, WindowPlan
from embedders.image import frames
from embedders.image.frames import shrink
from wshard import Catalog, Channel, TrajectoryIngestor, TrajectoryRetriever, load_wshard, save_wshard
from wshard.errors import ChecksumError, NoLaneError, QueryError
from wshard.testing import make_episode


@pytest.fixture
def folder(tmp_path):
    """Provide four episodes with a vector lane and a camera."""
    (tmp_path / "episodes").mkdir()
    for seed in range(4):
        episode = make_episode(seed, T=20 + seed, image_size=24)
        save_wshard(episode, tmp_path / "episodes" / f"ep-{seed}.wshard", compression=("none", "zstd")[seed % 2])
    return tmp_path


def ingest(folder, embedder="frames", *, lanes=None, windows=None, workers=1, archive="archive"):
    with TrajectoryIngestor(folder / archive, embedder, lanes=lanes) as ingestor:
        return ingestor.ingest(folder / "episodes", windows=windows or WindowPlan(), workers_count=workers)


def spaces(folder):
    with Catalog.open(folder / "archive" / "catalog.db") as catalog:
        return [Space.from_json(row.definition) for row in catalog.vectors.spaces("active")]


def test_images_are_found_by_episode_by_array_by_lane_and_by_moment(folder):
    assert ingest(folder).ok
    assert ingest(folder, windows=WindowPlan(8, 4)).ok
    (lane,) = spaces(folder)[0].lanes
    assert (lane.name, lane.shape) == ("signal/camera/rgb", (24, 24, 3))
    assert spaces(folder)[0].statistics is None
    episode = load_wshard(folder / "episodes" / "ep-2.wshard")
    images = episode.observations["camera/rgb"].data
    with TrajectoryRetriever(folder / "archive") as retriever:
        for query in (
            episode,
            images,
            {"camera/rgb": images},
            {"signal/camera/rgb": episode.observations["camera/rgb"]},
        ):
            hits = retriever.search_similar_episodes(query)
            assert hits[0].episode_id == "reach-0002"
            assert hits[0].score == pytest.approx(1.0, abs=1e-6)
            assert hits[1].score < 0.99
        moment = retriever.search_similar_timesteps(images[4:12], 1)[0]
        assert (moment.episode_id, moment.span) == ("reach-0002", (4, 12))
        assert len(retriever.search_similar_episodes(images[3])) == 4
        with pytest.raises(QueryError, match="fits none"):
            retriever.search_similar_episodes(images[:, :20])


def test_the_default_embedder_leaves_images_out_and_frames_take_no_others(folder):
    assert ingest(folder, "arcdct").ok
    assert ingest(folder).ok
    lanes = [[lane.name for lane in space.lanes] for space in spaces(folder)]
    assert sorted(lanes) == [["signal/camera/rgb"], ["signal/gripper", "signal/joint_pos"]]
    with TrajectoryRetriever(folder / "archive", "frames") as retriever:
        assert len(retriever.search_similar_episodes(load_wshard(folder / "episodes" / "ep-0.wshard"))) == 4


@pytest.mark.parametrize("embedder", ["arcdct", "frames"])
def test_a_query_from_a_file_decodes_images_only_where_images_are_embedded(folder, embedder):
    assert ingest(folder, embedder).ok
    path = folder / "episodes" / "ep-2.wshard"
    images = load_wshard(path).observations["camera/rgb"].data.tobytes()
    content = bytearray(path.read_bytes())
    content[content.index(images)] ^= 1
    path.write_bytes(content)
    with TrajectoryRetriever(folder / "archive") as retriever:
        (hit,) = (
            hit
            for hit in retriever.search_similar_episodes(folder / "episodes" / "ep-0.wshard")
            if hit.episode_id == "reach-0002"
        )
        for query in (path, (path, 2, 8), hit):
            with pytest.raises(ChecksumError) if embedder == "frames" else nullcontext():
                assert len(retriever.search_similar_episodes(query)) == 4
        with hit.open() as file:
            assert file["joint_pos"][2:5].shape == (3, 7)
            with pytest.raises(ChecksumError):
                file.lane("camera/rgb")


def test_an_image_lane_needs_an_embedder_of_frames_and_says_so(folder):
    with (
        TrajectoryIngestor(folder / "archive", lanes=["camera/rgb"]) as ingestor,
        pytest.raises(NoLaneError, match=r"signal/camera/rgb as a number or a vector.*embedder 'frames'"),
    ):
        ingestor.ingest_episode(folder / "episodes" / "ep-0.wshard")
    with (
        TrajectoryIngestor(folder / "archive", "frames", lanes=["joint_pos"]) as ingestor,
        pytest.raises(NoLaneError, match="signal/joint_pos as one lane of images"),
    ):
        ingestor.ingest_episode(folder / "episodes" / "ep-0.wshard")


def test_of_two_cameras_one_must_be_named(folder):
    for seed in range(4):
        episode = make_episode(seed, T=20, image_size=24)
        depth = np.random.default_rng(seed).random((20, 16, 18)).astype(np.float32)
        episode.observations["depth"] = Channel.of("depth", depth)
        save_wshard(episode, folder / "episodes" / f"ep-{seed}.wshard")
    report = ingest(folder)
    assert len(report.unembedded) == 4
    assert "where there are several, name one" in report.unembedded[0].error
    assert ingest(folder, lanes=["depth"]).ok
    assert [space.lanes[0].name for space in spaces(folder)] == ["signal/depth"]
    with TrajectoryRetriever(folder / "archive") as retriever:
        query = load_wshard(folder / "episodes" / "ep-3.wshard")
        assert retriever.search_similar_episodes(query)[0].episode_id == "reach-0003"


def test_small_matrices_are_not_images(folder):
    for path in (folder / "episodes").iterdir():
        path.unlink()
    save_wshard(make_episode(0, image_size=12), folder / "episodes" / "tiny.wshard")
    report = ingest(folder)
    assert [Path(failure.path).name for failure in report.unembedded] == ["tiny.wshard"]


def test_an_image_with_nan_is_left_out_and_reported(folder):
    episode = make_episode(7, T=20)
    depth = np.ones((20, 16, 16), np.float32)
    depth[3, 2, 1] = np.nan
    episode.observations["camera/rgb"] = Channel.of("camera/rgb", depth)
    save_wshard(episode, folder / "episodes" / "nan.wshard")
    report = ingest(folder)
    assert report.embedded == 4
    assert [(Path(failure.path).name, "timestep 3, channel 33" in failure.error) for failure in report.failed] == [
        ("nan.wshard", True)
    ]


def test_the_catalog_keeps_no_statistics_of_images(folder):
    ingest(folder)
    with Catalog.open(folder / "archive" / "catalog.db") as catalog:
        (layout,) = catalog.query.layouts()
        assert list(catalog.query.spreads([layout.id], "signal/camera/rgb")) == []
        assert len(list(catalog.query.spreads([layout.id], "signal/joint_pos"))) == 4


def assert_same_vectors(found, expected):
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[key], expected[key]) for key in expected)


def test_each_frame_is_shrunk_once_for_all_windows_of_all_sizes(folder, monkeypatch):
    for plan in BOTH:
        ingest(folder, windows=plan, archive="apart")
    shrunk = []
    monkeypatch.setattr(frames, "shrink", lambda *given: shrunk.append(1) or shrink(*given))
    assert ingest(folder, windows="both").embedded == 4
    assert len(shrunk) == 20 + 21 + 22 + 23
    together = vectors_of(folder / "archive")
    assert len(together) == 8
    assert_same_vectors(together, vectors_of(folder / "apart"))


def test_one_pass_over_episodes_that_lack_one_of_two_plans_and_that_lack_both(folder):
    plans = [WindowPlan(), WindowPlan(8, 4)]
    ingest(folder, windows=plans)
    away = [folder / "episodes" / name for name in ("ep-0.wshard", "ep-3.wshard")]
    for path, windows in zip(away, plans, strict=True):
        path.rename(folder / path.name)
        ingest(folder, windows=windows, archive="apart")
    for path in away:
        (folder / path.name).rename(path)
    ingest(folder, windows=plans, archive="apart")
    assert_same_vectors(vectors_of(folder / "apart"), vectors_of(folder / "archive"))


def test_worker_processes_and_parameters(folder):
    ingest(folder, Frames(colour=False, in_time=True), workers=2)
    assert spaces(folder)[0].parameters["colour"] is False
    with TrajectoryRetriever(folder / "archive") as retriever:
        query = load_wshard(folder / "episodes" / "ep-1.wshard")
        assert retriever.search_similar_episodes(query)[0].episode_id == "reach-0001"
