"""A real recording whose videos are mostly missing is ingested, checked and searched in place."""

from __future__ import annotations

import time

import numpy as np
import pyarrow.parquet as pq

from bridge import TrajectoryIngestor, TrajectoryRetriever
from catalog import Catalog
from embedders.windows import WindowPlan


def test_a_humanoid_is_searched_where_it_was_recorded(dataset_fixtures, tmp_path):
    folder = dataset_fixtures / "real" / "g1_lerobot_v21"
    begun = time.process_time()
    with TrajectoryIngestor(tmp_path) as ingestor:
        report = ingestor.ingest([folder], windows=WindowPlan(32, 16))
        assert (report.new, report.embedded, report.failed, report.unembedded) == (100, 100, [], [])
        assert time.process_time() - begun < 10
        again = ingestor.ingest([folder], windows=WindowPlan(32, 16))
        assert (again.unchanged, again.embedded) == (100, 0)
    assert report.flagged <= 10  # a fine recording: few are unusual among their like
    with Catalog.open(tmp_path / "catalog.db") as catalog:
        assert catalog.query.count("length:500..") == 2
    with TrajectoryRetriever(tmp_path) as retriever:
        first, *others = retriever.search_moments(f"{folder}#17@20:60", top_k=4)
    assert (first.key, first.span) == ("17", (20, 60))
    table = pq.read_table(folder / "data" / "chunk-000" / f"episode_{int(others[0].key):06d}.parquet")
    states = np.stack(table["observation.state"].to_pylist())
    start, stop = others[0].span
    assert np.array_equal(others[0].load_span(["observation.state"])["observation.state"], states[start:stop])
