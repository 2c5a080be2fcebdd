"""What searches derive from all vectors is stored, and follows the archive."""

from __future__ import annotations

import numpy as np
import pytest
from bridge_episodes import episode, ingest, save, spaces_of

from bridge.index.derived_numbers import FILE
from bridge.search.ranking import stored_vectors
from bridge.search.ranking.query_vector import QueryVector
from bridge.search.ranking.stored_vectors import StoredVectors
from embedders import embedder_of
from embedders.base import blocks_of
from wshard import open_archive


@pytest.fixture
def place(tmp_path):
    make(tmp_path, range(40))
    return tmp_path


def make(folder, numbers):
    """Save and ingest episodes."""
    ingest(
        folder / "archive", *save(folder / "data", *(episode(number % 4, number, 40 + number) for number in numbers))
    )


def derive(folder):
    """Return what a new process derives: weights of blocks, what windows count, and how near a query is in general."""
    (space,) = spaces_of(folder / "archive")
    with open_archive(folder / "archive") as archive:
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


def test_searches_read_what_the_ingest_measured(place, measured):
    first = derive(place)
    assert measured == []
    file_of(place).unlink()
    assert (derive(place), measured) == (first, [40])
    assert (derive(place), measured) == (first, [40])


def test_a_damaged_file_is_computed_again(place, measured):
    first, path = derive(place), file_of(place)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert (derive(place), measured) == (first, [40])
    assert path.read_bytes() == whole


def test_what_a_killed_process_left_is_found(place):
    first, path = derive(place), file_of(place)
    left = path.rename(path.with_name(f".{FILE}.0123abcd.tmp"))
    assert derive(place) == first
    (space,) = spaces_of(place / "archive")
    with open_archive(place / "archive") as archive:
        assert archive.index.leftovers([space.fingerprint]) == [left]
        archive.index.drop(space)
    assert not path.exists()
    assert derive(place) == first


def test_what_is_stored_is_measured_again_when_many_episodes_are_new(place, measured):
    first = derive(place)
    make(place, range(40, 43))
    assert (derive(place), measured) == (first, [])
    make(place, range(43, 90))
    assert measured == [90]
    assert derive(place)[0] != first[0]
    make(place, range(90))
    assert measured == [90]


def test_nothing_is_stored_for_what_another_process_changed_meanwhile(place, monkeypatch):
    file_of(place).unlink()
    measure = stored_vectors.measure_weights

    def interrupt(sample, sizes):
        make(place, [50])
        return measure(sample, sizes)

    monkeypatch.setattr(stored_vectors, "measure_weights", interrupt)
    (space,) = spaces_of(place / "archive")
    with open_archive(place / "archive") as archive:
        assert len(StoredVectors(archive).weights(space, blocks_of(embedder_of(space), space)).values) == space.dim
    assert [*(place / "archive" / "index").rglob(FILE)] == []
