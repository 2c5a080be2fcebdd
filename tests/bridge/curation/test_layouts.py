"""Stored layouts of the map: neighbours stay neighbours, equal vectors give equal layouts, changes make them stale."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from bridge.curation import layouts, project_episodes
from bridge.curation.projection import find_projection
from wshard import Channel, Episode, TrajectoryIngestor, open_archive, save_wshard
from wshard.errors import MissingExtraError, QueryError

STEPS = 40


def write(folder, numbers):
    for number in numbers:
        phase = np.linspace(0, (1, 9)[number % 2], STEPS) + 0.02 * number
        path = np.stack([np.cos(phase), np.sin(phase)], axis=1).astype(np.float32)
        episode = Episode(id=f"e{number:02d}", env_id=("a", "b")[number % 2], observations={"p": Channel.of("p", path)})
        save_wshard(episode, folder / f"{number:02d}.wshard")
    with TrajectoryIngestor(folder / "lab") as ingestor:
        assert not ingestor.ingest([folder], windows="whole").failed


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("layouts")
    write(folder, range(40))
    return folder


@pytest.mark.long
def test_a_layout_keeps_neighbours_is_stored_and_becomes_stale(folder, monkeypatch):
    pytest.importorskip("openTSNE")
    with open_archive(folder / "lab") as archive:
        assert find_projection(archive, "", space=None, method="tsne") is None
        found = project_episodes(archive, method="tsne")
        assert (found.share, found.stale, len(found.episodes)) == (None, False, 40)
        apart = np.linalg.norm(found.places[:, None] - found.places[None], axis=2)
        np.fill_diagonal(apart, np.inf)
        nearest = apart.argmin(axis=1)
        same = [row.env_id == found.episodes[at].env_id for row, at in zip(found.episodes, nearest, strict=True)]
        assert sum(same) >= 38
        monkeypatch.setattr(layouts, "_run", lambda *_: pytest.fail("computed although it is stored"))
        some = project_episodes(archive, "env:a", method="tsne")
        assert np.array_equal(some.places, found.places[[row.env_id == "a" for row in found.episodes]])
    write(folder, range(40, 42))
    with open_archive(folder / "lab") as archive:
        later = find_projection(archive, "", space=None, method="tsne")
        assert later is not None
        assert later.stale
        assert len(later.episodes) == 40
        for file in (archive.folder / "maps").iterdir():
            file.write_bytes(b"PK damaged")
        assert find_projection(archive, "", space=None, method="tsne") is None


def test_what_cannot_be_laid_out_is_refused(folder, monkeypatch):
    with open_archive(folder / "lab") as archive:
        with pytest.raises(QueryError, match="pca, tsne, umap, pacmap"):
            project_episodes(archive, method="mds")
        with monkeypatch.context() as patch:
            patch.setattr(layouts, "find_spec", lambda _: None)
            with pytest.raises(MissingExtraError, match=r"wshard\[map\]"):
                project_episodes(archive, method="umap")
        with monkeypatch.context() as patch:
            patch.setattr(layouts, "find_spec", lambda _: True)
            patch.setattr(sys, "executable", "/bin/false")
            with pytest.raises(QueryError, match="UMAP failed"):
                project_episodes(archive, method="umap")


@pytest.mark.parametrize("method", ["umap", "pacmap"])
def test_equal_vectors_give_equal_layouts(method, tmp_path):
    """Only of what is installed: both compile for many seconds, so `make install` has neither."""
    if layouts.find_spec(layouts.METHODS[method].library) is None:
        pytest.skip(f"not here: pip install 'wshard[map]' has {method}")
    write(tmp_path, range(20))
    with open_archive(tmp_path / "lab") as archive:
        first = project_episodes(archive, method=method)
        for file in (archive.folder / "maps").iterdir():
            file.unlink()
        assert np.array_equal(project_episodes(archive, method=method).places, first.places)
