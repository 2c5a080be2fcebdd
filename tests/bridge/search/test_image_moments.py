"""Moments of images: a span of frames is found at another speed and brightness, with its bounds."""

from __future__ import annotations

import numpy as np
import pytest

from bridge.pictures.features import FeatureFiles
from bridge.search.moments.frame_scale import measure_frame_scale
from embedders import Space, WindowPlan
from embedders.image.sketches import ENCODER
from wshard import Channel, Episode, TrajectoryIngestor, TrajectoryRetriever, open_archive, save_wshard

STEPS, HEIGHT, WIDTH = 90, 24, 32
PLAN = WindowPlan(scales=(16, 24, 36))


def camera(number, *, still=False):
    """Return uint8 [90, 24, 32, 3]: a spot that wanders before a wall of its own, from turn to turn elsewhere."""
    rng = np.random.default_rng(number)
    wall = rng.integers(60, 120, (HEIGHT, WIDTH)) // 8 * 8
    turns = rng.uniform(0.15, 0.85, (9, 2))
    path = np.stack([np.interp(np.linspace(0, 8, STEPS), np.arange(9), axis) for axis in turns.T], axis=1)
    path = np.tile(path[:1], (STEPS, 1)) if still else path
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    apart = (y - path[:, 0, None, None] * HEIGHT) ** 2 + (x - path[:, 1, None, None] * WIDTH) ** 2
    return np.repeat((wall + 130 * np.exp(-apart / 18)).astype(np.uint8)[..., None], 3, axis=-1)


def archive_of(folder, images):
    for number, seen in enumerate(images):
        channel = Channel.of("cam", seen)
        save_wshard(
            Episode(f"ep-{number}", "wall", len(seen), observations={"cam": channel}), folder / f"{number}.wshard"
        )
    with TrajectoryIngestor(folder / "archive", "frames") as ingestor:
        assert ingestor.ingest(folder, windows=PLAN).ok
    return folder / "archive"


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return archive_of(tmp_path_factory.mktemp("seen"), [camera(number) for number in range(6)])


def overlap(found, wanted):
    both = max(0, min(found[1], wanted[1]) - max(found[0], wanted[0]))
    return both / (max(found[1], wanted[1]) - min(found[0], wanted[0]))


def test_a_span_itself_comes_first_with_score_1_and_exact_bounds(archive):
    with TrajectoryRetriever(archive) as retriever:
        for number, span in ((0, (11, 47)), (3, (50, 70)), (5, (0, 90))):
            requested = camera(number)[slice(*span)]
            for query in (requested, {"cam": requested}, (archive.parent / f"{number}.wshard", *span)):
                best, *others = retriever.search_moments(query, 3)
                assert (best.episode_id, best.span, best.score) == (f"ep-{number}", span, 1.0)
                assert best.alignment == tuple((step, span[0] + step) for step in range(span[1] - span[0]))
                assert best.lane_scores == {"signal/cam": 1.0}
                assert all(hit.score < 0.9 for hit in others)


@pytest.mark.parametrize("number", [0, 3, *(pytest.param(number, marks=pytest.mark.long) for number in (1, 2, 4, 5))])
def test_a_span_at_another_speed_in_another_light_is_found_where_it_is(archive, number):
    rng = np.random.default_rng(100 + number)
    start = int(rng.integers(0, 50))
    paces = np.interp(np.linspace(0, 3, 60), np.arange(4), rng.uniform(0.5, 2, 4)).cumsum()
    steps = start + np.rint((paces - paces[0]) / (paces[-1] - paces[0]) * 35).astype(int)
    requested = np.clip(camera(number)[steps] * 0.6 + 30 + rng.normal(0, 4, (60, HEIGHT, WIDTH, 3)), 0, 255).astype(
        np.uint8
    )
    with TrajectoryRetriever(archive) as retriever:
        best, *others = retriever.search_moments(requested, 4)
        windows = retriever.search_moments(requested, 4, refine=False)
    assert best.episode_id == f"ep-{number}"
    assert overlap(best.span, (start, start + 36)) >= 0.85
    assert best.score > 1.2 * max(hit.score for hit in others)
    # The root mean square along the path, of all that a frame is described by.
    assert all(hit.lane_scores["signal/cam"] < 0.6 for hit in others)
    assert all(hit.alignment == () for hit in windows)


def test_scenes_in_which_nothing_moves_are_found_too(tmp_path):
    archive = archive_of(tmp_path, [camera(number, still=True) for number in range(3)])
    with TrajectoryRetriever(archive) as retriever:
        hits = retriever.search_moments(camera(1, still=True)[:20], 3, per_episode=1)
    assert (hits[0].episode_id, hits[0].score) == ("ep-1", 1.0)


def test_files_that_are_gone_neither_scale_nor_match(tmp_path):
    archive = archive_of(tmp_path, [camera(number) for number in range(4)])
    (tmp_path / "2.wshard").unlink()
    with TrajectoryRetriever(archive) as retriever:
        hits = retriever.search_moments(camera(2)[10:40], 2)
        assert len(hits) == 2
        assert hits.missing >= 1
    for path in tmp_path.glob("*.wshard"):
        path.unlink()
    with TrajectoryRetriever(archive) as retriever:
        assert list(retriever.search_moments(camera(2)[10:40], 2)) == []


def test_searches_read_stored_features_and_no_pixels(tmp_path):
    archive = archive_of(tmp_path, [camera(number) for number in range(3)])
    before = {path: path.stat().st_mtime_ns for path in (archive / "features").glob("*/*.bin")}
    assert len(before) == 6  # features, and what checks measure
    with TrajectoryRetriever(archive) as retriever:
        hits = retriever.search_moments(camera(1)[10:40], 3, per_episode=1)
        assert (hits[0].episode_id, hits[0].span, hits[0].score) == ("ep-1", (10, 40), 1.0)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    for path in before:
        path.unlink()
    with TrajectoryRetriever(archive) as retriever:  # what is not stored is described once
        again = retriever.search_moments(camera(1)[10:40], 3, per_episode=1)
    assert [(hit.span, hit.score) for hit in again] == [(hit.span, hit.score) for hit in hits]
    assert {*(archive / "features").glob("*/*.bin")} == {*before}


@pytest.mark.long
def test_a_flickering_and_a_still_episode_set_no_scale(tmp_path):
    images, deviations = [camera(number) for number in range(5)], []
    flicker = camera(5)
    flicker[::2] = 255
    for name, added in (("usual", [camera(5)]), ("odd", [flicker, camera(6, still=True)])):
        (tmp_path / name).mkdir()
        with open_archive(archive_of(tmp_path / name, [*images, *added])) as archive:
            (row,) = archive.catalog.vectors.spaces()
            stored = FeatureFiles(archive.folder, ENCODER)
            deviations.append(measure_frame_scale(archive.catalog, Space.from_json(row.definition), stored).std[0])
    assert deviations[1] == pytest.approx(deviations[0], rel=0.1)
