"""From an archive with cameras to hits, by the command line; and what cannot be trained on."""

from __future__ import annotations

import json

import numpy as np
import pytest
from bridge_episodes import command

from bridge.training.train_encoder import Lesson
from bridge.training.train_frames import train_frame_embedder
from embedders.neural.frame_training import FrameTraining
from embedders.neural.learned_frames import LearnedFrames
from wshard import Channel, Episode, TrajectoryRetriever, save_wshard
from wshard.errors import EmbedderError, QueryError

pytest.importorskip("torch", reason="torch is not installed: pip install 'wshard[torch]'")

FAST = FrameTraining(steps=1, batch=8)


def film(number, sizes=((24, 32),)):
    """Return an episode whose cameras, of these sizes, see a wall of its own."""
    rng = np.random.default_rng(number)
    seen = [rng.integers(0, 256, (1, *size, 3), np.uint8).repeat(20, axis=0) for size in sizes]
    return Episode(
        f"ep-{number}", "wall", 20, observations={f"cam{k}": Channel.of(f"cam{k}", one) for k, one in enumerate(seen)}
    )


@pytest.fixture
def home(tmp_path):
    """Make an archive of four episodes of cameras of several sizes, one of a single camera, one without any."""
    (tmp_path / "data").mkdir()
    for number in range(4):
        save_wshard(film(number, ((24, 32), (40, 16 + 8 * number))), tmp_path / "data" / f"{number}.wshard")
    save_wshard(film(4), tmp_path / "data" / "4.wshard")
    blind = Episode("blind", "wall", 5, observations={"state": Channel.of("state", np.eye(5, 2))})
    save_wshard(blind, tmp_path / "data" / "blind.wshard")
    assert command("ingest", "data", folder=tmp_path).exit_code == 0
    return tmp_path


def test_from_an_archive_to_hits_by_the_command_line(home):
    printed = command("train-embedder", "seen.wshard-model", "--frames", "--steps", "1", "--json", folder=home)
    assert printed.exit_code == 0, printed.output
    assert {"episodes": 5, "frames": 180, "cameras": 2, "left_out": []}.items() <= json.loads(printed.stdout).items()
    cam = ("--embedder", "seen.wshard-model", "--lanes", "cam0")
    ingested = command("ingest", "data", *cam, "--windows", "whole", folder=home)
    assert "5 embedded" in ingested.output
    with TrajectoryRetriever(home / ".wshard", LearnedFrames(home / "seen.wshard-model"), lanes="cam0") as retriever:
        best = retriever.search_similar_episodes(film(2), 1)[0]
        assert (best.episode_id, round(best.score, 3)) == ("ep-2", 1.0)
        (seen,) = retriever.search_similar_episodes(image="ep-3#cam0@7", top_k=1)
        assert (seen.episode_id, round(seen.score, 3)) == ("ep-3", 1.0)
    # Those of the ingest serve the picture, and beside them is what checks of cameras read.
    assert len([*(home / ".wshard" / "features").iterdir()]) == 2


def test_one_camera_is_warned_of(home):
    printed = command("train-embedder", "seen.wshard-model", "--frames", "--steps", "1", "--lanes", "cam0", folder=home)
    assert "one camera: " in printed.output
    assert "use --embedder seen.wshard-model" in printed.output


def test_what_cannot_be_trained_on_is_refused_and_nothing_is_written(home):
    out = home / "seen.wshard-model"
    for lesson, error in (
        (Lesson(["state"]), pytest.raises(QueryError, match="a camera of state")),
        (Lesson(where="episode_id:blind"), pytest.raises(QueryError, match="episodes with a camera")),
        (Lesson(where="episode_id:ep-4"), pytest.raises(EmbedderError, match="found 1 with 20")),
    ):
        with error:
            train_frame_embedder(home / ".wshard", out, lesson, training=FAST)
    out.write_text("a thesis")
    with pytest.raises(FileExistsError, match="a trained embedder"):
        train_frame_embedder(home / ".wshard", out, training=FAST)
    assert out.read_text() == "a thesis"
    refused = command("train-embedder", "a.shard", "--frames", "--windows", "multi", folder=home)
    assert refused.exit_code == 2


def test_an_interrupted_training_writes_nothing(home):
    class Interrupted:
        def stage(self, what, total):
            if what == "training":
                raise KeyboardInterrupt

        def advance(self, count):
            pass

    with pytest.raises(KeyboardInterrupt):
        train_frame_embedder(home / ".wshard", home / "seen.wshard-model", training=FAST, progress=Interrupted())
    assert not [*home.glob("seen*")]


def test_an_episode_that_is_gone_is_left_out(home):
    (home / "data" / "1.wshard").unlink()
    report = train_frame_embedder(home / ".wshard", home / "seen.wshard-model", training=FAST)
    assert (report.episodes, report.cameras) == (4, 2)
    assert [failure.path.rpartition("/")[2] for failure in report.left_out] == ["1.wshard"]
