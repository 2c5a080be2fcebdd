"""Each search reads files and embeds windows once; ids name episodes; options are visible parameters."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from bridge_episodes import episode, ingest, opened_archive, save
from sqlalchemy import event

from bridge.episodes.open import OpenLocations
from bridge.search.query import examples, prepare
from embedders import BOTH
from wshard import TrajectoryRetriever
from wshard.errors import QueryError


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Return the files of an archive of whole episodes and windows; it lies beside them."""
    place = tmp_path_factory.mktemp("prepared")
    saved = save(place / "data", *(episode(task, number, 60) for task in range(4) for number in range(3)))
    ingest(place / "archive", place / "data", windows=BOTH)
    return saved


@pytest.fixture
def retriever(paths):
    with TrajectoryRetriever(paths[0].parents[2] / "archive") as opened:
        yield opened


def ids(hits):
    return [(hit.episode_id, hit.span, hit.score) for hit in hits]


SEARCHES = {
    "default": ("search_similar_episodes", {"contributions": True, "alignment": True, "diversity": 0.3}, 2),
    "plain": ("search_similar_episodes", {"plain": True}, 1),
    "timesteps": ("search_similar_timesteps", {"alignment": True}, 1),
    "moments": ("search_moments", {"per_episode": 1}, 1),
}


@pytest.mark.parametrize(("method", "options", "spaces"), SEARCHES.values(), ids=SEARCHES)
def test_windows_are_embedded_once_per_space_and_files_read_once(
    paths, retriever, monkeypatch, method, options, spaces
):
    embedded, opened = Counter(), Counter()
    embed = prepare.embed_by

    def count_windows(embedder, space, windows):
        embedded.update((space.fingerprint, window.tobytes()) for window in windows)
        return embed(embedder, space, windows)

    class CountingLocations(OpenLocations):
        def open(self, address, *, hashed=False):
            opened[str(address)] += 1
            return super().open(address, hashed=hashed)

    monkeypatch.setattr(prepare, "embed_by", count_windows)
    monkeypatch.setattr(examples, "OpenLocations", CountingLocations)
    first, like, unlike = (paths[0], 0, 40), (paths[4], 0, 40), (paths[8], 5, 40)
    hits = getattr(retriever, method)(first, 5, like=[like, (paths[0], 3, 41)], unlike=[unlike], **options)
    assert hits
    assert set(embedded.values()) == {1}
    assert len(embedded) == 4 * spaces
    assert len({fingerprint for fingerprint, _ in embedded}) == spaces
    assert opened == {str(path): 1 for path in (paths[0], paths[4], paths[8])}


def test_a_search_after_the_first_reads_no_rows_of_episodes_again(paths, retriever):
    statements = []
    engine = retriever._archive.catalog._session.database._engine
    query = episode(1, 1, 60)
    event.listen(engine, "before_cursor_execute", lambda *call: statements.append(call[2]))
    first = ids(retriever.search_similar_episodes(query, 5, plain=True))
    assert [text for text in statements if text.startswith("SELECT")] != []
    statements.clear()
    assert ids(retriever.search_similar_episodes(query, 5, plain=True)) == first
    assert [text for text in statements if text.startswith("SELECT")] == []


def test_ids_of_catalogued_episodes_are_queries(paths, retriever):
    with opened_archive(paths[0].parents[2] / "archive") as archive:
        row = archive.catalog.query.select("episode:task-2-1").rows[0]
    for search in (retriever.search_similar_episodes, retriever.search_similar_timesteps, retriever.search_moments):
        for options in ({}, {"exclude_self": True}):
            expected = ids(search((row.path, 5, 40), 5, **options))
            assert ids(search(("task-2-1", 5, 40), 5, **options)) == expected
            assert ids(search((row.uid, 5, 40), 5, **options)) == expected
    expected = ids(retriever.search_similar_episodes(row.path, 5))
    assert ids(retriever.search_similar_episodes("task-2-1", 5)) == expected
    assert ids(retriever.search_similar_episodes(like=["task-2-1"], top_k=5)) == expected


def test_an_id_of_several_episodes_names_none(tmp_path):
    save(tmp_path / "data", episode(0, 0), episode(1, 0, id="task-0-0"))
    ingest(tmp_path / "archive", tmp_path / "data")
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        with pytest.raises(QueryError, match=r"several episodes have the id 'task-0-0'; give a name, uid or file:\n.*"):
            retriever.search_similar_episodes("task-0-0")
        assert retriever.search_similar_episodes(np.asarray(episode(0, 0).observations["state"].data), 2)
