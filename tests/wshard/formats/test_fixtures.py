"""Data sets that other programs wrote: none lies there untested, and all are ingested, searched and loaded in place."""

from __future__ import annotations

import numpy as np
import pytest
from paths import ROOT

from wshard import TrajectoryIngestor, TrajectoryRetriever
from wshard.formats.open import open_location


def test_every_data_set_is_named_by_a_test(dataset_fixtures):
    text = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    sets = [path.relative_to(dataset_fixtures) for path in dataset_fixtures.glob("*/*")]
    assert len(sets) >= 24
    assert [str(path) for path in sets if path.name not in text] == []


SETS = {
    "lerobot/lerobot_v21_image": 3,
    "lerobot/lerobot_v3_video_h264": 3,
    "other/d4rl.hdf5": 2,
    "other/dreamerv3_replay": 2,
    "other/minari_arrow/toy/arrow-v0": 2,
    "other/minari_hdf5/toy/hdf5-v0": 2,
    "other/minari_parquet/toy/parquet-v0": 2,
    "rosbag2/mcap_cdr_test": 1,
    "rosbag2/mcap_talker": 1,
    "rosbag2/sqlite3_cdr_test": 1,
    "rosbag2/sqlite3_talker": 1,
    "world_model/main.h5": 5,
    "world_model/main.lance": 5,
    "world_model/main_folder": 5,
    "world_model/main_video": 5,
}
"""How many episodes each has; g1_lerobot_v21 has a test of its own. The messages of wbag are texts, which are not
embedded, and observations of the replay are images, so its actions are."""


@pytest.fixture(scope="module")
def archive(dataset_fixtures, tmp_path_factory):
    folder = tmp_path_factory.mktemp("archive")
    texts = ("rosbag2/mcap_wbag", "rosbag2/sqlite3_wbag")
    with TrajectoryIngestor(folder) as ingestor:
        report = ingestor.ingest([dataset_fixtures / place for place in (*SETS, *texts)])
    assert (report.new, report.embedded, report.failed) == (sum(SETS.values()) + 2, sum(SETS.values()) - 2, [])
    with TrajectoryIngestor(folder, lanes=["action/action", "reward"]) as ingestor:
        assert ingestor.ingest([dataset_fixtures / "other/dreamerv3_replay"]).unchanged == 2
    return folder


@pytest.fixture(scope="module")
def retriever(archive):
    with TrajectoryRetriever(archive) as opened:
        yield opened


@pytest.mark.parametrize("place", SETS)
def test_they_are_searched_and_loaded_in_place(dataset_fixtures, retriever, place):
    location = (dataset_fixtures / place).resolve()
    with open_location(location) as source:
        key = source.keys()[-1]
        hits = retriever.search_similar_episodes(f"{location}#{key}" if key else str(location), top_k=5)
        (hit,) = (
            one
            for one in hits
            if (one.file_path, one.key) == (str(location), key)  # some sets have equal episodes
        )
        wanted = source.load(key)
        found = hit.load()
        assert (found.id, found.length, [*found.lanes()]) == (wanted.id, wanted.length, [*wanted.lanes()])
        assert all(np.array_equal(found.lanes()[block].data, lane.data) for block, lane in wanted.lanes().items())
        name, lane = next(iter(wanted.observations.items()))
        for moment in retriever.search_moments(f"{location}#{key}@0:{min(wanted.length, 12)}", 3):
            if (moment.file_path, moment.key) == (str(location), key):
                assert np.array_equal(moment.load_span(channels=[name])[name], lane.data[slice(*moment.span)])
