"""Which files a search for moments looks at."""

from __future__ import annotations

import os

import numpy as np
import pytest

from bridge.search.moments import lane_rows
from wshard import Channel, Episode, TrajectoryIngestor, TrajectoryRetriever
from wshard.formats.base import open_sink

pytest.importorskip("pyarrow")


def walk(number):
    rows = np.random.default_rng(number).normal(size=(40, 3)).cumsum(axis=0).astype(np.float32)
    lanes = {"state": Channel.of("state", rows)}
    actions = {"ctrl": Channel.of("ctrl", rows[:, :2])}
    return Episode(str(number), "walk", 40, observations=lanes, actions=actions)


def test_a_location_of_several_is_opened_once_for_its_hits_and_no_data_is_read(tmp_path, monkeypatch):
    place = tmp_path / "set"
    walks = [walk(number) for number in range(30)]
    with open_sink(place, "lerobot") as sink:
        for episode in walks:
            sink.write(episode)
    with TrajectoryIngestor(tmp_path / "lab") as ingestor:
        ingestor.ingest(place, windows="12:4")
    queries = [{"state": one.observations["state"].data[9:25]} for one in walks[:3]]
    calls, read = [], []
    look, load = os.stat, lane_rows.read_lanes

    def count(path, *, dir_fd=None, follow_symlinks=True):
        calls.append(path) if str(place) in str(path) else None
        return look(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(os, "stat", count)
    monkeypatch.setattr(lane_rows, "read_lanes", lambda *parts: read.append(parts) or load(*parts))
    with TrajectoryRetriever(tmp_path / "lab") as retriever:
        retriever.search_moments(queries[0], 8)  # stores the timesteps, unless the ingest did
        read.clear()
        for query in queries:
            calls.clear()
            found = retriever.search_moments(query, 8)
            assert len(found) == 8
            assert 0 < len(calls) <= 1 + 10  # all hits are of one file
        assert not read
        (file,) = place.rglob("data/**/*.parquet")
        os.utime(file, ns=(0, file.stat().st_mtime_ns + 10**9))
        again = retriever.search_moments(queries[-1], 8)
        assert [*again] == [*found]  # as what is read of the file
        assert len(read) == len({hit.uid for hit in found})
        file.unlink()
        assert not retriever.search_moments(queries[-1], 8)
