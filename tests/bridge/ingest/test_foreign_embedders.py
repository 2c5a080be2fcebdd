"""Embedders that others wrote, and that fail: one line that names embedder and episode, never a traceback."""

from __future__ import annotations

import re

import numpy as np
import pytest
from bridge_episodes import episode, ingest, save
from command_line import app
from typer.testing import CliRunner

from bridge.testing.brute_force import make_space
from embedders import PooledCallable
from embedders.base import dim_of, embed_by
from wshard import TrajectoryIngestor, TrajectoryRetriever
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

    def embed(self, windows, statistics):
        return self._answer


PICKY = PooledCallable(picky, "picky")


@pytest.fixture
def folder(tmp_path):
    broken = episode(1, 0)
    broken.observations["state"].data[3] = 1e5
    save(tmp_path / "data", episode(0, 0), broken, episode(2, 0))
    return tmp_path / "data"


def test_an_episode_on_which_an_embedder_fails_is_reported_and_left_out(tmp_path, folder):
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


@pytest.mark.parametrize(
    "answer", [None, np.zeros(3), np.zeros((9, 3)), np.zeros((1, 2)), np.zeros((0, 3)), np.array([["a", "b", "c"]])]
)
def test_answers_that_are_not_rows_are_refused(answer):
    with pytest.raises(EmbedderError, match=r"embedder 'crooked': expected real numbers \(1, 3\), found"):
        embed_by(Crooked(answer), make_space("crooked", 3), [np.zeros((4, 2))])


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
@pytest.mark.parametrize(
    "wrong", [np.nan, -np.inf, 1e39, np.float16(np.inf), np.float16(np.nan), np.float32(-np.inf), np.longdouble(1e39)]
)
def test_numbers_that_no_index_takes_are_refused(metric, wrong):
    message = (
        rf"embedder 'crooked': expected finite numbers.*{re.escape(f'{wrong}')} at place 2 of the vector of window 1"
    )
    with pytest.raises(EmbedderError, match=message):
        embed_by(
            Crooked(np.array([[1.0, 0, 0], [0, 1.0, wrong]], getattr(wrong, "dtype", None))),
            make_space("c", 3, metric),
            [np.zeros((4, 2))] * 2,
        )


def test_rows_compared_by_the_cosine_become_unit_rows_and_those_that_are_keep_their_bits():
    unit = np.array([0.6, 0.0, 0.8], np.float32)
    given = np.stack([unit, 5 * unit, 0 * unit, 1e30 * unit]).astype(np.float32)
    windows = [np.zeros((4, 2))] * 4
    found = embed_by(Crooked(given), make_space("crooked", 3), windows)
    assert found.dtype == np.float32
    assert found[0].tobytes() == unit.tobytes()
    np.testing.assert_allclose(found, [unit, unit, [0, 0, 1], unit], atol=1e-6)
    assert embed_by(Crooked(given), make_space("crooked", 3, "l2"), windows).tobytes() == given.tobytes()
    assert given[1, 0] == np.float32(5) * unit[0]
    for dtype in (np.float16, np.longdouble, np.int8):
        few = embed_by(Crooked(np.array([[3, 0, 4]], dtype)), make_space("crooked", 3), windows[:1])
        np.testing.assert_allclose(few, [unit], atol=1e-6)


def means(windows, columns):
    return np.stack([np.concatenate([window.mean(axis=0), columns]) for window in windows]).astype(np.float32)


def test_an_embedder_that_breaks_its_word_writes_nothing_and_can_be_repaired(tmp_path, folder):
    class Wide(Crooked):
        def embed(self, windows, statistics):
            return means(windows, self._answer)

    broken, archive = Wide([1.0]), tmp_path / "archive"
    report = ingest(archive, folder, embedder=broken)
    assert (report.embedded, len(report.failed)) == (0, 3)
    assert {one.error for one in report.failed} == {
        "embedder 'crooked': expected real numbers (1, 4), found float32 (1, 5)"
    }
    assert ingest(archive, folder, embedder=Wide([])).embedded == 3
    with TrajectoryRetriever(archive, Wide([])) as retriever:
        hits = retriever.search_similar_episodes(folder / "task-1" / "task-1-0.wshard", 1, plain=True)
        assert [hit.episode_id for hit in hits] == ["task-1-0"]


def test_an_embedder_that_cannot_report_its_size(tmp_path, folder, monkeypatch):
    with pytest.raises(EmbedderError, match="embedder 'crooked' raised RuntimeError: no idea"):
        dim_of(Crooked("dim"), 3)
    (tmp_path / "my_broken_embedder.py").write_text("def embed(mean):\n    return mean[99] * 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    command = ["ingest", str(folder), "-a", str(tmp_path / "archive"), "--embedder", "my_broken_embedder:embed"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 1
    assert "raised IndexError: index 99 is out of bounds" in done.stderr
    assert isinstance(done.exception, SystemExit)
