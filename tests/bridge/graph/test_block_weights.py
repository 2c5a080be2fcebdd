"""Descriptors are weighed by how well they group the archive, and searches follow the weights exactly."""

from __future__ import annotations

import numpy as np
import pytest
from bridge_episodes import spaces_of

from bridge.graph.block_weights import BlockWeights, measure_weights
from embedders.registry import default_embedder
from wshard import Channel, Episode, TrajectoryIngestor, TrajectoryRetriever, save_wshard

SIZES = (6, 4, 5)


def make_vectors(seed, *, grouped, count=160):
    """Return vectors of three unit blocks; in `grouped` of them episodes come in groups of sixteen."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 10
    parts = []
    for number, size in enumerate(SIZES):
        part = rng.normal(size=(count, size))
        if number in grouped:
            part = rng.normal(size=(10, size))[labels] + 0.2 * part
        parts.append(part / np.linalg.norm(part, axis=1, keepdims=True))
    return (np.concatenate(parts, axis=1) / np.sqrt(3)).astype(np.float32)


def weigh(sample, sizes):
    return BlockWeights.of(measure_weights(sample, sizes), sizes)


@pytest.mark.parametrize("grouped", [0, 1, 2])
def test_the_descriptor_that_forms_groups_counts_most(grouped):
    weights = weigh(make_vectors(grouped, grouped={grouped}), SIZES)
    each = [block[0] for block in np.split(weights.values, np.cumsum(SIZES)[:-1])]
    assert int(np.argmax(each)) == grouped
    assert sorted(each)[1] < 0.05 * max(each)
    assert (weights.windows == 1.0) == (grouped == 0)


def test_few_episodes_and_single_descriptors_are_not_weighed():
    vectors = make_vectors(0, grouped={0})
    for weights in (weigh(vectors[:31], SIZES), weigh(vectors, (15,))):
        assert (weights.values, weights.windows) == (None, 1.0)


def test_the_search_vector_ranks_as_the_weighed_cosine_and_scores_itself_with_1():
    vectors = make_vectors(4, grouped={1})
    weights = weigh(vectors, SIZES)
    for query in (vectors[3], (vectors[3] + vectors[8]) / np.linalg.norm(vectors[3] + vectors[8])):
        searched, top = weights.weigh(query)
        roots = np.sqrt(weights.values)
        rows, own = vectors * roots, query * roots
        wanted = rows @ own / np.linalg.norm(rows, axis=1) / np.linalg.norm(own)
        np.testing.assert_allclose(vectors @ searched / top, wanted, atol=1e-6)
        np.testing.assert_allclose(weights.cosines(vectors, query), wanted, atol=1e-6)


def test_an_archive_of_cycles_is_searched_by_which_joint_moves_first(tmp_path):
    """Phase, pace and height are drawn anew for each episode: only which channel leads tells the three gaits apart."""
    rng = np.random.default_rng(5)
    lags = rng.uniform(0, 2 * np.pi, (3, 4))
    rows = {}
    for number in range(48):
        steps = int(rng.integers(80, 120))
        swing = rng.uniform(0.2, 0.4) * np.arange(steps) + rng.uniform(0, 2 * np.pi)
        gait = np.sin(swing[:, None] + lags[number % 3]) + rng.normal(0, 0.5, 4) + rng.normal(0, 0.1, (steps, 4))
        rows[str(number)] = gait.astype(np.float32)
        lane = Channel.of("state", rows[str(number)])
        save_wshard(Episode(str(number), "gait", steps, observations={"state": lane}), tmp_path / f"{number}.wshard")
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        assert ingestor.ingest(tmp_path, windows="whole").ok
    (space,) = spaces_of(tmp_path / "archive")
    vectors = default_embedder(space.windows).embed(list(rows.values()), space.scaling)
    weights = weigh(vectors, default_embedder(space.windows).blocks(4))
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        for number in range(0, 48, 7):
            hits = retriever.search_similar_episodes(rows[str(number)], 48, plain=True)
            cosines = dict(zip(rows, weights.cosines(vectors, vectors[number]), strict=True))
            assert {hit.episode_id: hit.score for hit in hits} == pytest.approx(cosines, abs=1e-5)
            assert (hits[0].episode_id, hits[0].score, hits.exact) == (str(number), 1.0, True)
            assert {int(hit.episode_id) % 3 for hit in hits[:12]} == {number % 3}
