"""Embedders that others wrote, and that fail: one line that names embedder and episode, never a traceback."""

from __future__ import annotations

import numpy as np
import pytest
from bridge_episodes import episode, ingest, save
from typer.testing import CliRunner

from bridge.cli import app
from bridge.ingest import TrajectoryIngestor
from bridge.retrieve import TrajectoryRetriever
from embedders.base import dim_of, embed_by
from embedders.pooled import PooledCallable
from wshard.errors import EmbedderError, IngestError


def picky(mean):
    """Embed a mean over time, but fail for large ones."""
    if np.abs(mean).max() > 50:
        raise KeyError("too large for me")
    return np.concatenate([mean, [1.0]])


class Crooked:
    """An embedder that fails in a chosen way."""

    name, version, uses_statistics, metric = "crooked", 1, False, "cosine"

    def __init__(self, answer) -> None:
        self._answer = answer

    def parameters(self):
        return {}

    def dim(self, channels):
        if self._answer == "dim":
            raise RuntimeError("no idea")
        return channels

    def embed(self, windows, statistics):  # noqa: ARG002  (as the protocol has it)
        return self._answer


PICKY = PooledCallable(picky, "picky")


@pytest.fixture
def folder(tmp_path):
    broken = episode(1, 0)
    broken.observations["state"].data[3] = 1e5
    save(tmp_path / "data", episode(0, 0), broken, episode(2, 0))
    return tmp_path / "data"


def test_an_episode_on_which_an_embedder_fails_is_told_and_left_out(tmp_path, folder):
    report = ingest(tmp_path / "archive", folder, embedder=PICKY)
    assert report.embedded == 2
    (failure,) = report.failed
    assert failure.path.endswith("task-1-0.wshard")
    assert failure.error == "embedder 'picky' raised KeyError: 'too large for me'"
    with (
        TrajectoryIngestor(tmp_path / "other", PICKY) as ingestor,
        pytest.raises(IngestError, match=r"task-1-0.*picky"),
    ):
        ingestor.ingest_episode(folder / "task-1" / "task-1-0.wshard")
    with (
        TrajectoryRetriever(tmp_path / "archive", PICKY) as retriever,
        pytest.raises(EmbedderError, match="'picky' raised KeyError"),
    ):
        retriever.search_similar_episodes(np.full((5, 4), 99.0))


@pytest.mark.parametrize("answer", [None, np.zeros(3), np.zeros((9, 3)), np.array([["a", "b"]])])
def test_answers_that_are_no_rows_are_refused(answer):
    with pytest.raises(EmbedderError, match="embedder 'crooked': expected 1 rows of real numbers, found"):
        embed_by(Crooked(answer), [np.zeros((4, 2))], None)


def test_an_embedder_that_cannot_tell_its_size(tmp_path, folder, monkeypatch):
    with pytest.raises(EmbedderError, match="embedder 'crooked' raised RuntimeError: no idea"):
        dim_of(Crooked("dim"), 3)
    (tmp_path / "my_broken_embedder.py").write_text("def embed(mean):\n    return mean[99] * 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    command = ["ingest", str(folder), "-a", str(tmp_path / "archive"), "--embedder", "my_broken_embedder:embed"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 1
    assert "raised IndexError: index 99 is out of bounds" in done.stderr
    assert isinstance(done.exception, SystemExit)
