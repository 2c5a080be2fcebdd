"""Episodes in mm and in m are compared as if all were in the unit of most; counters and padding change nothing."""

from __future__ import annotations

import numpy as np
import pytest
from bridge_episodes import episode, ingest, save, spaces_of

from bridge.spaces.identity import describe_lanes
from embedders.units import share_rows
from wshard import Channel, TrajectoryRetriever

MIXED = {2, 3, 8, 11, 13, 17, 21}


def scaled(number, ratio):
    one = episode(number % 4, number)
    return episode(
        number % 4, number, observations={"state": Channel.of("state", one.observations["state"].data * ratio)}
    )


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    folder = tmp_path_factory.mktemp("units")
    for name, ratio in (("tidy", 1), ("mixed", 1000)):
        episodes = [scaled(number, np.float32(ratio if number in MIXED else 1)) for number in range(24)]
        ingest(folder / name, *save(folder / f"{name}-data", *episodes), windows="both")
    return folder


def test_the_scale_is_that_of_an_archive_in_one_unit(archives):
    for mixed, tidy in zip(spaces_of(archives / "mixed"), spaces_of(archives / "tidy"), strict=True):
        assert tidy.units is None
        assert mixed.units[0].ratio == 1000
        np.testing.assert_allclose(mixed.statistics.mean, tidy.statistics.mean, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(mixed.statistics.std, tidy.statistics.std, rtol=1e-5)
        assert "(4 channels, 4 of them in two units: x 1000, m and mm?)" in describe_lanes(mixed)


def test_searches_find_what_they_find_in_one_unit(archives):
    found = {}
    for name in ("tidy", "mixed"):
        with TrajectoryRetriever(archives / name) as retriever:
            for number in (0, 8, 13):
                hits = retriever.search_similar_episodes(scaled(number, 1).observations["state"].data, 24)
                found[name, number] = {hit.episode_id: hit.score for hit in hits}
    for number in (0, 8, 13):
        assert found["mixed", number] == pytest.approx(found["tidy", number], abs=1e-4)


def test_episodes_are_reported_by_the_space_that_compares_them_at_last(tmp_path):
    for part, ratio, numbers in (("a", 1, range(8)), ("b", 1000, range(8, 12))):
        save(tmp_path / part, *(scaled(number, np.float32(ratio)) for number in numbers))
        report = ingest(tmp_path / "archive", tmp_path / part, windows="whole")
    assert [*report.spaces.values()] == [12]
    assert "in two units" in next(iter(report.spaces))


def test_a_query_may_be_in_either_unit(archives):
    rows = scaled(5, 1).observations["state"].data
    with TrajectoryRetriever(archives / "mixed") as retriever:
        for query in (rows, rows * 1000):
            assert retriever.search_similar_episodes(query, 1)[0].episode_id == "task-1-5"
        best = retriever.search_moments(scaled(8, 1).observations["state"].data[5:25], 1)[0]
    assert (best.episode_id, best.span) == ("task-0-8", (5, 25))


def test_episodes_of_a_second_robot_are_found_by_the_query_of_the_first(tmp_path):
    def of(number, *, second):
        rows = np.sin(np.linspace(0, 4, 40)[:, None] * [1, 2, 3] + number % 5) * (1 + number % 5)
        rows = rows + 0.05 * np.random.default_rng(number).normal(size=rows.shape)
        return (3 * rows + 2 if second else rows).astype(np.float32)

    episodes = [
        episode(
            0, number, 40, id=str(number), observations={"state": Channel.of("state", of(number, second=number < 20))}
        )
        for number in range(50)
    ]
    ingest(tmp_path / "archive", *save(tmp_path / "data", *episodes))
    (space,) = spaces_of(tmp_path / "archive")
    assert "(3 channels, 3 of them from two sources: x 3)" in describe_lanes(space)
    everything = np.concatenate([of(number, second=False) for number in range(50)])
    np.testing.assert_allclose(space.statistics.std, everything.std(axis=0), rtol=0.02)
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        for second in (False, True):
            hits = retriever.search_similar_episodes(of(7, second=second), 10)
            assert {int(hit.episode_id) % 5 for hit in hits} == {2}


def test_a_named_robot_has_its_own_scale_where_sizes_vary_freely(tmp_path):
    def of(number):
        generator = np.random.default_rng(number)
        rows = np.sin(np.linspace(0, 4, 40)[:, None] * [1, 2, 3] + number % 5) * np.exp(generator.normal())
        second = number % 2
        channel = Channel.of("state", (rows * [1, 3][second] + 9 * second).astype(np.float32))
        metadata = {"robot": {"name": ["a", "b"][second]}}
        return episode(0, number, 40, id=str(number), observations={"state": channel}, metadata=metadata)

    report = ingest(tmp_path / "archive", *save(tmp_path / "data", *map(of, range(59))))
    (line,) = report.picked
    assert line.startswith("signal/state: 3 of 3 channels from two sources: x ")
    assert line.endswith(" (meta.robot.name b); compared in the scale of most")
    (space,) = spaces_of(tmp_path / "archive")
    assert "(meta.robot.name b)" in describe_lanes(space)
    converted = [
        share_rows(space.units, of(number)["state"], {"meta.robot.name": "ab"[number % 2]}) for number in range(59)
    ]
    np.testing.assert_allclose(space.statistics.std, np.concatenate(converted).std(axis=0), rtol=1e-5)
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        for query in (of(7), of(8), "7", "8"):
            hits = retriever.search_similar_episodes(query, 10)
            assert len({int(hit.episode_id) % 2 for hit in hits}) == 2
            assert {int(hit.episode_id) % 5 for hit in hits} == {int(hits[0].episode_id) % 5}
            assert hits[0].score == pytest.approx(1, abs=1e-5)


def test_counters_and_padding_change_no_score(tmp_path):
    def of(number, start, padding):
        one = episode(number % 4, number)
        lanes = {"steps": np.arange(start, start + one.length, dtype=np.float64)[:, None]}
        lanes |= {name: channel.data for name, channel in one.observations.items()}
        lanes = {name: np.pad(rows, ((0, padding), (0, 0))) for name, rows in lanes.items()}
        channels = {name: Channel.of(name, rows) for name, rows in lanes.items()}
        return episode(number % 4, number, one.length + padding, observations=channels, actions={}, rewards=None)

    episodes = [of(number, 100 * number, 12 * (number % 3 == 1)) for number in range(24)]
    ingest(tmp_path / "archive", *save(tmp_path / "data", *episodes), windows="both")
    assert all("1 counter" in describe_lanes(space) for space in spaces_of(tmp_path / "archive"))
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        for number, start, padding in ((6, 7, 0), (7, 7, 0), (7, 0, 30), (6, 0, 5)):
            best = retriever.search_similar_episodes(of(number, start, padding), 1, plain=True)[0]
            assert (int(best.episode_id.rpartition("-")[2]), best.score) == (number, pytest.approx(1, abs=1e-5))
