"""An archive that grew one episode at a time searches as well as one that was ingested at once."""

from __future__ import annotations

from functools import partial
from random import Random

import numpy as np
import pytest
from bridge_episodes import assert_complete, episode, ingest, opened_archive, save, spaces_of

from bridge.episodes.rows import read_sample
from bridge.spaces.lanes import LaneChoice
from bridge.spaces.statistics import DRIFT_LIMIT, Choice, archive_scale, families
from embedders import ArcDct, Space, WindowPlan, drift
from wshard import Channel, TrajectoryIngestor, load_wshard

TASKS, EACH = 6, 16


def quality(vectors, tasks):
    """Return leave-one-out (precision at 1, mean average precision) of unit vectors [N, E]; one's task is relevant."""
    scores = vectors.astype(float) @ vectors.T
    np.fill_diagonal(scores, -np.inf)
    order = np.argsort(-scores, axis=1)[:, :-1]
    relevant = tasks[order] == tasks[:, None]
    precision = np.cumsum(relevant, axis=1) / np.arange(1, len(tasks))
    return relevant[:, 0].mean(), ((precision * relevant).sum(axis=1) / relevant.sum(axis=1)).mean()


def quality_of(archive):
    """Return the quality of what the archive's one Space holds."""
    with opened_archive(archive) as opened:
        (row,) = opened.catalog.vectors.spaces("active")
        points = {point.episode: point.vectors for point in opened.index.scan(Space.from_json(row.definition))}
        tasks = {id_: found.env_id for id_, found in opened.catalog.episodes.rows(points).items()}
    return quality(
        np.concatenate([points[id_] for id_ in sorted(points)]), np.array([tasks[id_] for id_ in sorted(points)])
    )


def drift_of(catalog):
    (row,) = catalog.vectors.spaces("active")
    (family,) = families(catalog, Choice(ArcDct(), LaneChoice(), WindowPlan()))[0]
    scale = archive_scale(catalog, family, partial(read_sample, catalog))
    assert scale.rotations is scale.units is None
    return drift(Space.from_json(row.definition).statistics, scale.statistics)


def record(task, number):
    """Return a noisy performance; task 0 is done far away from all others, and in a small place."""
    one = episode(task, number, 25)
    noise = np.random.default_rng([task, number, 1]).normal(0, 0.7, (25, 4))
    states = one.observations["state"].data - task + noise
    return episode(
        task, number, 25, observations={"state": Channel.of("state", states * 0.01 + 50 if task == 0 else states)}
    )


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Return the files in the order in which they come: shuffled, but for some of task 0 that come first."""
    saved = save(tmp_path_factory.mktemp("data"), *(record(task, n) for task in range(TASKS) for n in range(EACH)))
    late = saved[6:]
    Random(4).shuffle(late)
    return saved[:6] + late


@pytest.mark.long
def test_it_ends_with_the_same_quality_in_one_space(tmp_path, paths):
    grown, at_once, spaces = tmp_path / "grown", tmp_path / "at-once", []
    with TrajectoryIngestor(grown, "arcdct") as ingestor, opened_archive(grown) as opened:
        catalog = opened.catalog
        for number, path in enumerate(paths):
            ingestor.ingest_episode(path, windows="whole")
            spaces.append(len(catalog.vectors.spaces()))
            assert len(catalog.vectors.spaces("active")) == 1
            if number % 4 == 0:
                assert drift_of(catalog) <= 2 * DRIFT_LIMIT  # checked when a twentieth of the archive has changed
        assert drift_of(catalog) <= DRIFT_LIMIT
    assert_complete(grown, paths)
    ingest(at_once, *paths)
    assert np.abs(np.subtract(quality_of(grown), quality_of(at_once))).max() <= 0.02
    half = len(paths) // 2
    assert spaces[half] - spaces[half // 2] <= spaces[half // 2]  # fewer and fewer per episode
    assert spaces[-1] - spaces[half] <= spaces[half] - spaces[half // 2]
    assert spaces[-1] <= len(paths) // 3


@pytest.mark.long
def test_statistics_that_were_frozen_early_would_have_cost_quality(tmp_path, paths):
    ingest(tmp_path / "archive", *paths[:6])
    (early,) = spaces_of(tmp_path / "archive")
    ingest(tmp_path / "archive", *paths)
    episodes = [load_wshard(path) for path in paths]
    vectors = ArcDct().embed([one.observations["state"].data for one in episodes], early.statistics)
    frozen = quality(vectors, np.array([one.env_id for one in episodes]))
    assert np.subtract(quality_of(tmp_path / "archive"), frozen).min() > 0.1


def test_what_a_run_writes_is_no_reason_to_measure_again(tmp_path, paths, monkeypatch):
    measured = []

    def measure(catalog, family, read, known):
        measured.append(family.windows.whole)
        return archive_scale(catalog, family, read, known)

    monkeypatch.setattr("bridge.spaces.statistics.archive_scale", measure)
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        ingestor.ingest(paths[:40], windows=["whole", "multi"])
        assert len(measured) == 1
        ingestor.ingest(paths[41:60])
        assert len(measured) == 2
