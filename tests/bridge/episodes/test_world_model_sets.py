"""World-model data sets of the original program are ingested in place, searched, and loaded from where they are."""

from __future__ import annotations

import numpy as np
import pytest
from world_model_sets import SETS, make_columns, write_hdf5, write_lance, write_lance_video

from wshard import TrajectoryIngestor, TrajectoryRetriever, open_source


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_ingested_searched_and_loaded(dataset_fixtures, tmp_path, name):
    place = dataset_fixtures / "world_model" / SETS[name]
    report = TrajectoryIngestor(tmp_path / "archive").ingest(place)
    assert (report.new, report.embedded, report.failed) == (5, 5, [])
    retriever = TrajectoryRetriever(tmp_path / "archive")
    hits = retriever.search_moments(f"{place}#3@4:20", 3)
    assert (hits[0].key, hits[0].score) == ("3", pytest.approx(1, abs=1e-3))
    with open_source(place, name) as source:
        part = hits[0].load_span(channels=["proprio", "pixels"])
        start, stop = hits[0].span
        assert np.array_equal(part["proprio"], source.lane("3", "signal/proprio", start, stop))
        assert np.array_equal(part["pixels"], source.lane("3", "signal/pixels", start, stop))
    assert TrajectoryIngestor(tmp_path / "archive").ingest(place).unchanged == 5


def test_videos_in_tables_are_ingested(tmp_path):
    write_lance_video(tmp_path / "D", make_columns((30, 20), pixels=16))
    report = TrajectoryIngestor(tmp_path / "archive").ingest(tmp_path / "D")
    assert (report.new, report.failed) == (2, [])


def test_only_what_changed_is_embedded_again(tmp_path):
    columns = make_columns((30, 20), pixels=0)
    write_lance(tmp_path / "a.lance", columns)
    write_hdf5(tmp_path / "b.h5", columns)
    ingestor = TrajectoryIngestor(tmp_path / "archive")
    assert ingestor.ingest([tmp_path / "a.lance", tmp_path / "b.h5"]).new == 4
    more = make_columns((0, 0, 25), pixels=0)
    write_lance(tmp_path / "a.lance", more, mode="append")
    ingestor = TrajectoryIngestor(tmp_path / "archive")
    report = ingestor.ingest([tmp_path / "a.lance", tmp_path / "b.h5"])
    assert (report.new, report.changed, report.unchanged) == (1, 0, 4)
