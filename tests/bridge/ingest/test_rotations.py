"""Quaternions of either sign and angles in any turn are compared by what they mean, wherever they come from."""

from __future__ import annotations

import numpy as np
import pytest
from bridge_episodes import ingest, save, spaces_of

from wshard import Channel, Episode, TrajectoryRetriever

COUNT = 24
CHANNELS = [1, 2, 3, 4, 6]


def poses(number, *, steps=40):
    """Return rows of a position, a quaternion, another position, and an angle that often leaves (-pi, pi]."""
    rng = np.random.default_rng(number)
    clock = np.linspace(0, 1, steps)[:, None]
    waves = np.sin(6 * rng.uniform(0.5, 2, 6) * clock + rng.uniform(0, 6, 6))
    vectors = 0.7 * waves[:, :3] + rng.normal(scale=0.5, size=3)
    turn = np.linalg.norm(vectors, axis=1, keepdims=True)
    quaternions = np.concatenate([np.cos(turn / 2), vectors / turn * np.sin(turn / 2)], axis=1)
    return np.concatenate([waves[:, 3:4], quaternions, waves[:, 4:5], 2.5 + 1.5 * waves[:, 5:]], axis=1)


def change(rows, number):
    """Return the same with another sign of the quaternion, and the angle as sensors report it."""
    changed = rows.copy()
    changed[:, 1:5] *= np.random.default_rng(number).choice([-1, 1])
    changed[:, 6] = (rows[:, 6] + np.pi) % (2 * np.pi) - np.pi
    return changed


def record(rows, number, kinds=()):
    lane = Channel.of("state", rows.astype(np.float32), kinds=kinds)
    return Episode(id=str(number), env_id="", length=len(rows), observations={"state": lane})


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rotations")
    episodes = [record(change(poses(number), number), number) for number in range(COUNT)]
    ingest(folder / "archive", *save(folder / "data", *episodes), windows="both")
    return folder / "archive"


def rotating(archive):
    return [
        sorted({channel for one in space.rotations or () for channel in range(one.channels.start, one.channels.stop)})
        for space in spaces_of(archive)
    ]


def test_rotations_are_found_and_measured_in_their_canonical_form(archive):
    assert rotating(archive) == [CHANNELS, CHANNELS]
    statistics = spaces_of(archive)[0].statistics
    expected = np.concatenate([poses(number) for number in range(COUNT)])
    middle = np.angle(np.exp(1j * expected[:, 6]).mean())
    angles = (expected[:, 6] - middle + np.pi) % (2 * np.pi) - np.pi + middle
    np.testing.assert_allclose([statistics.mean[6], statistics.std[6]], [angles.mean(), angles.std()], rtol=1e-5)
    np.testing.assert_allclose(statistics.mean[[0, 5]], expected[:, [0, 5]].mean(axis=0), atol=1e-5)


def test_a_query_of_the_other_sign_and_turn_finds_its_episode(archive):
    with TrajectoryRetriever(archive) as retriever:
        for number in range(0, COUNT, 5):
            rows = poses(number)
            for query in (rows, -rows * [-1, 1, 1, 1, 1, -1, -1] + [0, 0, 0, 0, 0, 0, 4 * np.pi], change(rows, 99)):
                best, second = retriever.search_similar_episodes(query, 2)
                assert best.episode_id == str(number)
                assert best.score > 0.999 > second.score


def test_a_moment_of_the_other_sign_and_turn_is_found_where_it_is(archive):
    query = poses(7)[8:32] * [1, -1, -1, -1, -1, 1, 1]
    with TrajectoryRetriever(archive) as retriever:
        best = retriever.search_moments(query, 1)[0]
    assert (best.episode_id, best.span) == ("7", (8, 32))
    assert best.score > 0.999


def test_declared_numbers_are_no_rotations(tmp_path):
    rows = [change(poses(number), number) for number in range(8)]
    episodes = [record(one, number, ("7:number",)) for number, one in enumerate(rows)]
    ingest(tmp_path / "archive", *save(tmp_path / "data", *episodes))
    assert rotating(tmp_path / "archive") == [[]]


def test_a_declaration_finds_what_values_hide(tmp_path):
    still = np.repeat([[0.2, 1, 0, 0, 0, 0.1, 0.3]], 20, axis=0) + np.linspace(0, 0.1, 20)[:, None] * np.eye(7)[6]
    kinds = ("1:number", "4:quaternion", "1:number", "1:angle")
    episodes = [record(still + 0.01 * n, n, kinds) for n in range(3)]
    ingest(tmp_path / "archive", *save(tmp_path / "data", *episodes))
    assert rotating(tmp_path / "archive") == [CHANNELS]


def test_one_odd_episode_hides_no_rotation(tmp_path):
    rows = [change(poses(number), number) for number in range(COUNT)]
    rows[3][20] = 1e4
    ingest(tmp_path / "archive", *save(tmp_path / "data", *(record(one, n) for n, one in enumerate(rows))))
    assert rotating(tmp_path / "archive") == [CHANNELS]


def test_rotations_that_only_more_episodes_show_replace_the_space(tmp_path):
    still = np.full((30, 7), [0.1, 0.5, 0.5, 0.5, 0.5, 0.2, 0.3]) * np.linspace(1, 1.001, 30)[:, None]
    episodes = [record(still, n) for n in range(2)]
    ingest(tmp_path / "archive", *save(tmp_path / "data", *episodes))
    assert rotating(tmp_path / "archive") == [[]]
    more = [record(change(poses(n), n), 100 + n) for n in range(COUNT)]
    ingest(tmp_path / "archive", *save(tmp_path / "data", *more))
    assert rotating(tmp_path / "archive") == [CHANNELS]
