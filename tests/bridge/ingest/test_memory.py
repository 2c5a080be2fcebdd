"""What an ingest keeps in memory of each episode does not grow to objects: bytes of two sizes are compared."""

from __future__ import annotations

import gc
import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest

from bridge.episodes.found import ChosenEpisodes, DiscoveredEpisodes, FoundFiles
from bridge.graph.nearest import find_near, find_nearest
from bridge.index.embedded.tail import CountedTail
from bridge.support.blas_threads import one_blas_thread
from bridge.support.id_set import IdSet
from catalog.vectors.records import LedgerEntry
from wshard.core.episode.protocol import Fingerprint
from wshard.core.files.listing import KeyPage, Listing, ObjectStatus
from wshard.formats.lerobot.dataset_info import DatasetInfo
from wshard.formats.lerobot.episode_table import EpisodeColumns, EpisodeTable
from wshard.formats.open import LocationEpisodes

if TYPE_CHECKING:
    from collections.abc import Callable

FEW, MANY = 200, 1_200


def peak_of(work: Callable[[], object]) -> int:
    """Return the most bytes that were allocated at once, what is returned included."""
    tracemalloc.start()
    try:
        result = work()
        return tracemalloc.get_traced_memory()[1] + 0 * id(result)
    finally:
        tracemalloc.stop()


def list_all(count: int) -> object:
    listed = LocationEpisodes("/data/arm", "lerobot")
    for number in range(count):
        listed.add(str(number), Fingerprint(1_000_000 + number, 1_700_000_000_000_000_000 + number))
    found = DiscoveredEpisodes(FoundFiles(), [listed])
    return ChosenEpisodes(found, np.arange(count)), IdSet(range(1, count + 1))


def list_keys(count: int) -> object:
    status = ObjectStatus(1_000_000, f'"{0:032x}"', 1_700_000_000)
    objects = [(f"episode_{number:07d}.wshard", status) for number in range(count)]
    listing = Listing(iter(KeyPage([], objects[start : start + 1000]) for start in range(0, count, 1000)))
    listing.read()
    return listing


def find_files(count: int) -> DiscoveredEpisodes:
    files = FoundFiles()
    for number in range(count):
        files.add(f"s3://lab/demo/episode_{number:07d}.wshard", "", Fingerprint(1_000_000, number))
    files.leave_out([])
    return DiscoveredEpisodes(files)


def table_of(count: int) -> EpisodeTable:
    info = DatasetInfo((3, 0), 10.0, "arm", {}, "data/file-{file_index:03d}.parquet", "", 1000, count)
    rows = np.arange(count)
    columns = EpisodeColumns(rows, np.full(count, 20), 0 * rows, rows // 1000, 20 * rows, [("lift",)] * count)
    return EpisodeTable(info, columns, "/data/arm")


def follow_all(count: int) -> CountedTail:
    tail, vectors = CountedTail(4), np.ones((3, 4), np.float32).tobytes()
    for first in range(0, count, 100):
        tail.take([LedgerEntry(number + 1, number + 7, 3, vectors) for number in range(first, first + 100)])
    return tail


STAYING = [(list_all, 45), (list_keys, 115), (find_files, 75), (table_of, 30), (follow_all, 36)]


@pytest.mark.parametrize(("work", "most"), STAYING)
def test_what_stays_of_an_episode_is_columns(work: Callable[[int], object], most: int) -> None:
    few, many = (min(bytes_of(work, count) for _ in range(2)) for count in (FEW, MANY))
    assert (many - few) / (MANY - FEW) < most


def bytes_of(work: Callable[[int], object], count: int) -> int:
    """Return the bytes that stay, with those of imports, caches and other threads meanwhile."""
    gc.freeze()  # what other tests left need not be searched each time
    tracemalloc.start()
    try:
        made = work(count)
        gc.collect()  # also the free lists of Python
        return tracemalloc.get_traced_memory()[0] + 0 * id(made)
    finally:
        tracemalloc.stop()


@one_blas_thread()
@pytest.mark.parametrize("parts", [1, 40])
def test_ranked_places_take_less_than_the_cosines(parts: int) -> None:
    vectors = np.random.default_rng(0).normal(size=(8_200 * min(parts, 4), 16)).astype(np.float32)
    cosines = 4 * 400 * 8_200
    peak = peak_of(lambda: find_near(vectors[:400], 10, np.split(vectors, parts), np.arange(400)))
    assert peak < 1.6 * cosines


def test_neighbours_in_parts_are_those_in_the_whole() -> None:
    vectors = np.random.default_rng(0).normal(size=(900, 16))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    whole = find_nearest(vectors[500:600], 7, among=vectors, owners=(np.arange(500, 600), np.arange(900)))
    places, apart = find_near(vectors[500:600], 7, np.split(vectors, [300, 550]), np.arange(500, 600))
    np.testing.assert_array_equal(places, whole.rows)
    np.testing.assert_allclose(apart, whole.distances**2 / 2, atol=1e-6)
