"""Archives describe, check and search episodes with encoded cameras without decoding a frame that is not embedded."""

from __future__ import annotations

import numpy as np
import pytest
from bridge_episodes import episode
from command_line import app
from typer.testing import CliRunner

from wshard import Catalog, Channel, TrajectoryRetriever, load_wshard, save_wshard
from wshard.media import ImageFrames, VideoFrames


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "episodes").mkdir()
    for number, encode in enumerate(["jpeg", "png", "mp4"]):
        pixels = np.random.default_rng(number).integers(0, 256, (30, 16, 24, 3), dtype=np.uint8)
        ep = episode(number, number)
        ep.observations["rgb"] = Channel.of("rgb", pixels)
        save_wshard(ep, tmp_path / "episodes" / f"{encode}.wshard", encode=encode)
    return tmp_path / "episodes"


def test_no_frame_is_decoded_unless_it_is_embedded(folder, tmp_path, monkeypatch):
    archive = tmp_path / "archive"
    with monkeypatch.context() as patched:
        for kind in (ImageFrames, VideoFrames):
            patched.setattr(kind, "decode_into", lambda *_: pytest.fail("decoded a frame"))
        run("ingest", folder, "--archive", archive)
        assert "nothing found that is certain" in run("check", "--archive", archive)
        assert "no problems found" in run("fsck", "--data", "--archive", archive)
        assert "jpeg" in run("search", folder / "jpeg.wshard", "--archive", archive, "--top", 1)
        with TrajectoryRetriever(archive) as retriever:
            assert retriever.search_similar_episodes(load_wshard(folder / "png.wshard"))[0].episode_id == "task-1-1"
            span = (folder / "mp4.wshard", 3, 20)
            assert retriever.search_similar_timesteps(span)[0].episode_id == "task-2-2"
        assert "u8[16, 24, 3], mp4, 34,560 bytes" in run("show", folder / "mp4.wshard", "--archive", archive)
        assert "30x16x24x3  jpeg" in run("inspect", folder / "jpeg.wshard")
        assert "3 of 3 files OK" in run("verify", folder)
    frames = tmp_path / "frames"
    run("ingest", folder, "--archive", frames, "--embedder", "frames")
    with Catalog.open(frames / "catalog.db") as catalog:
        assert all("signal/rgb" in str(space.definition) for space in catalog.vectors.spaces("active"))
