"""What searches derive from all vectors is stored beside the search copy, and follows the archive."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest
from bridge_episodes import episode, ingest, save, spaces_of

from bridge.index.derived_numbers import FILE
from bridge.index.embedded.index import EmbeddedIndex
from bridge.search.ranking import stored_vectors
from bridge.search.ranking.query_vector import QueryVector
from bridge.search.ranking.stored_vectors import StoredVectors
from catalog.location import place_of
from catalog.open import open_place
from embedders import embedder_of
from embedders.base import blocks_of
from wshard import Archive, TrajectoryRetriever


@pytest.fixture
def place(tmp_path):
    make(tmp_path, range(40))
    with opened(tmp_path) as archive:
        archive.index.upsert(*spaces_of(tmp_path / "archive"), [])
    return tmp_path


def make(folder, numbers):
    """Save episodes, ingest them, and return their paths."""
    paths = save(folder / "data", *(episode(number % 4, number, 40 + number) for number in numbers))
    ingest(folder / "archive", *paths)
    return paths


@contextmanager
def opened(folder):
    """Open an archive whose index writes a copy of however few vectors."""
    found = place_of(folder / "archive")
    catalog = open_place(found)
    with Archive(found, catalog, EmbeddedIndex(catalog, found.index, tail_rows=0)) as archive:
        yield archive


def derive(folder):
    """Return what a new process derives: weights of blocks, what windows count, and how near a query is in general."""
    (space,) = spaces_of(folder / "archive")
    with opened(folder) as archive:
        stored = StoredVectors(archive)
        weights = stored.weights(space, blocks_of(embedder_of(space), space))
        none = np.zeros((0, space.dim), np.float32)
        query = QueryVector(space, np.eye(space.dim, dtype=np.float32)[0], none, weights)
        return weights.values.tobytes(), weights.windows, stored.background(query)


def file_of(folder):
    (path,) = (folder / "archive" / "index").rglob(FILE)
    return path


@pytest.fixture
def measured(monkeypatch):
    """Return the sizes of the samples that are measured from now on, in order."""
    sizes = []
    measure = stored_vectors.measure_weights

    def count(sample, blocks):
        sizes.append(len(sample))
        return measure(sample, blocks)

    monkeypatch.setattr(stored_vectors, "measure_weights", count)
    return sizes


def test_a_second_process_reads_what_the_first_one_computed(place, measured):
    first = derive(place)
    assert (derive(place), measured) == (first, [40])
    file_of(place).unlink()
    assert (derive(place), measured) == (first, [40, 40])


def test_a_damaged_file_is_computed_again(place, measured):
    first, path = derive(place), file_of(place)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert (derive(place), measured) == (first, [40, 40])
    assert path.read_bytes() == whole


def test_a_new_copy_removes_what_a_killed_process_left_beside_the_older_one(place):
    first, home = derive(place), file_of(place).parent
    file_of(place).rename(home / f".{FILE}.0123abcd.tmp")
    assert derive(place) == first
    with opened(place) as archive:
        archive.index.rebuild(*spaces_of(place / "archive"))
    assert not home.exists()
    assert derive(place) == first


def test_what_is_stored_follows_the_archive(place, measured):
    found = [derive(place)]
    make(place, range(40, 43))
    found.append(derive(place))
    make(place, [43])
    found.append(derive(place))
    assert measured == [40, 43, 44]
    assert all(before[0] != after[0] for before, after in pairwise(found))
    file_of(place).unlink()
    assert derive(place) == found[-1]


def test_nothing_is_stored_for_what_another_process_changed_meanwhile(place, monkeypatch):
    measure = stored_vectors.measure_weights

    def interrupt(sample, sizes):
        make(place, [50])
        return measure(sample, sizes)

    monkeypatch.setattr(stored_vectors, "measure_weights", interrupt)
    (space,) = spaces_of(place / "archive")
    with opened(place) as archive:
        assert len(StoredVectors(archive).weights(space, blocks_of(embedder_of(space), space)).values) == space.dim
    assert [*(place / "archive" / "index").rglob(FILE)] == []


def test_an_archive_without_a_search_copy_has_no_such_file(tmp_path):
    paths = make(tmp_path, range(40))
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        assert len(retriever.search_similar_episodes(paths[0])) == 10
    assert [*(tmp_path / "archive").rglob(FILE)] == []
