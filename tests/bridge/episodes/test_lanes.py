"""Lanes chosen by name, rewards and predictions among them, and their weights, from files to hits."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from bridge_episodes import command, spaces_of

from bridge.search.query.fit import cut
from bridge.spaces.identity import describe
from embedders import Blocks, Space
from wshard import (
    LATENT_ACTION_CHANNEL,
    Catalog,
    Channel,
    Episode,
    TimebaseSpec,
    TrajectoryIngestor,
    TrajectoryRetriever,
    load_wshard,
    save_wshard,
    set_latent_actions,
)
from wshard.errors import EmbedderError, NoLaneError, NotEmbeddedWarning, QueryError

STEPS = 40


def make(number, *, state, ctrl, reward):
    """Make an episode of three lanes and two predictions; equal numbers make equal lanes."""

    def lane(seed, width):
        return np.random.default_rng(seed).normal(size=(STEPS, width)).cumsum(axis=0).astype(np.float32)

    return Episode(
        id=f"ep-{number}",
        env_id="weights-v0",
        length=STEPS,
        observations={"state": Channel.of("state", lane(state, 4))},
        actions={"ctrl": Channel.of("ctrl", lane(100 + ctrl, 2))},
        rewards=lane(200 + reward, 1)[:, 0].astype(np.float64) if reward is not None else None,
        omens={"state": {"dreamer": Channel.of("state/dreamer", lane(300 + state, 4))}},
        uncerts={"state": Channel.of("state", np.abs(lane(400 + ctrl, 1)))},
    )


def test_matrices_are_compared_as_the_vectors_of_their_rows(tmp_path):
    def arms(number, shape):
        one = make(number, state=number % 2, ctrl=0, reward=None)
        rows = one.observations["state"].data + 0.01 * np.random.default_rng(number).normal(size=(STEPS, 4))
        observed = {"arms": Channel.of("arms", rows.reshape(STEPS, *shape))}
        return replace(one, observations=observed, omens={}, uncerts={})

    matrices = [arms(number, (2, 2)) for number in range(4)]
    for one in (*matrices, arms(4, (4,))):
        save_wshard(one, tmp_path / f"{one.id}.wshard")
    report = TrajectoryIngestor(tmp_path / "archive").ingest(tmp_path)
    assert (report.embedded, list(report.spaces.values())) == (5, [5])
    own, of_files = {f"ep-{number}" for number in (0, 2, 4)}, matrices[0].observations["arms"].data
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        for query in ("ep-0", matrices[0], {"arms": of_files}, of_files, of_files.reshape(STEPS, 4)):
            hits = retriever.search_similar_episodes(query)
            assert ({hit.episode_id for hit in hits[:3]}, hits[0].episode_id) == (own, "ep-0")
        with pytest.raises(QueryError, match="fits none"):
            retriever.search_similar_episodes(of_files[0])  # two timesteps of two numbers


def test_an_episode_of_as_many_steps_as_others_have_channels_asks_by_its_own_lanes(tmp_path):
    rows = np.random.default_rng(0).normal(size=(6, 40, 3)).astype(np.float32)
    for number in range(6):
        grip = rows[number, :3, 0] if number < 3 else rows[number]  # of three timesteps, or of three channels
        lanes = {"arm": Channel.of("arm", rows[number][: len(grip), :2]), "grip": Channel.of("grip", grip)}
        save_wshard(Episode(f"e{number}", "", len(grip), observations=lanes), tmp_path / f"e{number}.wshard")
    assert TrajectoryIngestor(tmp_path / "archive").ingest(tmp_path).embedded == 6
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        for number in range(6):
            assert retriever.search_similar_episodes(f"e{number}")[0].episode_id == f"e{number}"


@pytest.fixture
def folder(tmp_path):
    """Provide five episodes: 1 has the state of 0, 2 its action, 3 its reward, 4 nothing of it."""
    (tmp_path / "episodes").mkdir()
    lanes = [(0, 0, 0), (0, 11, 21), (12, 0, 22), (13, 14, 0), (15, 16, 23)]
    for number, (state, ctrl, reward) in enumerate(lanes):
        episode = make(number, state=state, ctrl=ctrl, reward=reward)
        save_wshard(episode, tmp_path / "episodes" / f"{episode.id}.wshard")
    return tmp_path


def ranking(folder, lanes, query=0):
    with TrajectoryRetriever(folder / "archive", lanes=lanes) as retriever:
        hits = retriever.search_similar_episodes(load_wshard(folder / "episodes" / f"ep-{query}.wshard"), 5)
    assert hits[0].score == pytest.approx(1.0, abs=1e-6)
    return [hit.episode_id for hit in hits]


@pytest.mark.parametrize(("heavy", "second"), [("state", "ep-1"), ("action/ctrl", "ep-2"), ("reward", "ep-3")], ids=str)
def test_the_lane_that_weighs_most_decides_who_comes_second(folder, heavy, second):
    weights = {"state": 1.0, "action/ctrl": 1.0, "reward": 1.0} | {heavy: 100.0}
    with TrajectoryIngestor(folder / "archive", "dct", lanes=weights) as ingestor:
        assert ingestor.ingest(folder / "episodes", windows="whole").ok
    assert ranking(folder, weights)[:2] == ["ep-0", second]


def test_equal_ratios_are_one_space_and_other_ratios_another(folder):
    with TrajectoryIngestor(folder / "archive", "dct", lanes={"state": 2, "reward": 1}) as ingestor:
        ingestor.ingest(folder / "episodes", windows="whole")
    with TrajectoryIngestor(folder / "archive", "dct", lanes={"signal/state": 4, "reward": 2}) as ingestor:
        ingestor.ingest(folder / "episodes", windows="whole")
    with TrajectoryIngestor(folder / "archive", "dct", lanes={"state": 1, "reward": 50}) as ingestor:
        ingestor.ingest(folder / "episodes", windows="whole")
    with TrajectoryIngestor(folder / "archive", "dct", lanes=["state", "reward"]) as ingestor:
        ingestor.ingest(folder / "episodes", windows="whole")
    with Catalog.open(folder / "archive" / "catalog.db") as catalog:
        weights = [Space.from_json(row.definition).weights for row in catalog.vectors.spaces("active")]
    assert sorted(weights, key=str) == [(1 / 51, 50 / 51), (2 / 3, 1 / 3), None]
    assert ranking(folder, {"state": 1, "reward": 50})[1] == "ep-3"
    assert ranking(folder, {"signal/state": 1, "reward": 0.5})[1] == "ep-1"
    assert ranking(folder, ["state", "reward"])[0] == "ep-0"
    assert ranking(folder, {"state": 1, "reward": 49})[1] == "ep-3"  # as those without weights can be weighted
    with pytest.raises(QueryError, match="there are no vectors for this search"):
        ranking(folder, {"state": 1, "ward": 49})


@pytest.mark.parametrize("lanes", [["reward"], ["omen/state/dreamer"], ["uncert/state", "state"], ["action/ctrl"]])
def test_lanes_that_are_named_later_need_no_second_reading(folder, lanes):
    with TrajectoryIngestor(folder / "archive") as ingestor:
        ingestor.ingest(folder / "episodes", windows="whole")
    with TrajectoryIngestor(folder / "archive", lanes=lanes) as ingestor:
        report = ingestor.ingest(folder / "episodes", windows="whole")
    assert report.ok
    assert (report.unchanged, report.embedded) == (5, 5)
    assert ranking(folder, lanes)[0] == "ep-0"


def test_lanes_keep_the_order_in_which_they_are_named(folder):
    for lanes in (["state", "action/ctrl"], ["action/ctrl", "signal/state", "state"]):
        with TrajectoryIngestor(folder / "archive", lanes=lanes) as ingestor:
            ingestor.ingest(folder / "episodes", windows="whole")
    with Catalog.open(folder / "archive" / "catalog.db") as catalog:
        orders = [
            [lane.name for lane in Space.from_json(row.definition).lanes] for row in catalog.vectors.spaces("active")
        ]
    assert sorted(orders) == [["action/ctrl", "signal/state"], ["signal/state", "action/ctrl"]]


def test_a_mapping_and_a_span_request_rewards_and_predictions_too(folder):
    lanes = ["reward", "uncert/state", "omen/state/dreamer"]
    with TrajectoryIngestor(folder / "archive", "dct", lanes=lanes) as ingestor:
        ingestor.ingest(folder / "episodes", windows="whole")
    episode = load_wshard(folder / "episodes" / "ep-3.wshard")
    requested = {
        "reward": episode.rewards,
        "uncert/state": episode.uncerts["state"],
        "omen/state/dreamer": episode.omens["state"]["dreamer"].data,
    }
    with TrajectoryRetriever(folder / "archive") as retriever:
        by_mapping = retriever.search_similar_episodes(requested)
        by_span = retriever.search_similar_episodes(cut(episode, None, STEPS))
        half = retriever.search_similar_episodes(cut(episode, 0, STEPS // 2))
    assert [hit.score for hit in by_mapping] == pytest.approx([hit.score for hit in by_span], abs=1e-6)
    assert by_span[0].episode_id == "ep-3"
    assert by_span[0].score == pytest.approx(1.0, abs=1e-6)
    assert half[0].score < 0.9999


def test_a_reward_that_was_never_recorded_is_not_a_lane(folder):
    save_wshard(make(9, state=9, ctrl=9, reward=None), folder / "episodes" / "ep-9.wshard")
    with TrajectoryIngestor(folder / "archive", lanes=["reward"]) as ingestor:
        report = ingestor.ingest(folder / "episodes", windows="whole")
        assert [Path(failure.path).name for failure in report.failed] == ["ep-9.wshard"]
        assert report.embedded == 5
        with pytest.raises(NoLaneError, match="expected signal/reward, found lanes"):
            ingestor.ingest_episode(folder / "episodes" / "ep-9.wshard", windows="whole")


def test_a_reward_of_nan_is_reported(folder):
    episode = make(9, state=9, ctrl=9, reward=1)
    episode.rewards[:] = np.nan
    save_wshard(episode, folder / "episodes" / "ep-9.wshard")
    expected = pytest.warns(NotEmbeddedWarning, match=r"lane 'reward': expected finite numbers in one episode at least")
    with TrajectoryIngestor(folder / "archive", lanes=["reward"]) as ingestor, expected:
        ingestor.ingest_episode(folder / "episodes" / "ep-9.wshard", windows="whole")


@pytest.mark.parametrize("weights", [{"state": 0}, {"state": -1.0}, {"state": float("inf")}, {"state": "1"}, {}])
def test_weights_that_are_not_shares_are_refused(folder, weights):
    expected = pytest.raises((EmbedderError, NoLaneError), match=r"weights of lanes: expected|no observation lane")
    with TrajectoryIngestor(folder / "archive", lanes=weights) as ingestor, expected:
        ingestor.ingest_episode(folder / "episodes" / "ep-0.wshard", windows="whole")


def test_weights_for_an_embedder_of_raw_values_are_refused(tmp_path):
    with pytest.raises(EmbedderError, match="expected an embedder that standardises channels, found 'mean'"):
        TrajectoryIngestor(tmp_path / "archive", "mean", lanes={"state": 1})


def test_weights_on_the_command_line(folder):
    wshard = partial(command, folder=folder)
    assert wshard("ingest", "episodes", "--lanes", "state=1, action/ctrl=100").exit_code == 0
    found = wshard("search", "episodes/ep-0.wshard", "--json")
    assert [hit["episode_id"] for hit in json.loads(found.stdout)["items"]][:2] == ["ep-0", "ep-2"]
    for wrong in ("state=1,reward", "state=heavy"):
        assert wshard("ingest", "episodes", "--lanes", wrong).exit_code == 2


def test_a_space_says_at_which_rates_its_lanes_were_recorded(tmp_path):
    def put(numbers, hz):
        for number in numbers:
            episode = make(number, state=number, ctrl=number, reward=number)
            channel = replace(episode.observations["state"], sampling_rate_hz=hz)
            timebase = TimebaseSpec(tick_hz=10.0)
            message = replace(episode, observations={"state": channel}, timebase=timebase)
            save_wshard(message, tmp_path / f"{number}.wshard")
        with TrajectoryIngestor(tmp_path / "archive", lanes=["state", "action/ctrl"]) as ingestor:
            assert ingestor.ingest(tmp_path, windows="whole").ok

    put([0, 1], 30.0)
    (first,) = spaces_of(tmp_path / "archive")
    assert first.rates == (30.0, 10.0)
    put(range(2, 9), 15.0)  # so many that statistics, and rates with them, are taken anew
    (second,) = spaces_of(tmp_path / "archive")
    assert (second.rates, second.family) == ((None, 10.0), first.family)
    assert describe(second).startswith(
        f"blocks version {Blocks.version} over signal/state[4], action/ctrl[2] at 10 Hz (6 channels)"
    )


def test_a_rate_that_no_one_gave_is_none_in_an_archive(tmp_path):
    save_wshard(replace(make(0, state=0, ctrl=0, reward=0), timebase=TimebaseSpec()), tmp_path / "0.wshard")
    with TrajectoryIngestor(tmp_path / "archive", lanes=["state", "action/ctrl"]) as ingestor:
        assert ingestor.ingest(tmp_path, windows="whole").ok
    (space,) = spaces_of(tmp_path / "archive")
    assert space.rates is None
    assert "Hz" not in command("show", str(tmp_path / "0.wshard"), folder=tmp_path).stdout


def test_latent_actions_of_a_model_can_be_searched_by(tmp_path):
    (tmp_path / "episodes").mkdir()
    for number in range(4):
        episode = make(number, state=number, ctrl=number, reward=number)
        latent = np.random.default_rng(number % 2).normal(size=(STEPS, 3)).cumsum(axis=0).astype(np.float32)
        set_latent_actions(episode, "lapa", Channel.of("lapa", latent))
        save_wshard(episode, tmp_path / "episodes" / f"{episode.id}.wshard")
    with TrajectoryIngestor(tmp_path / "archive", lanes=f"omen/{LATENT_ACTION_CHANNEL}/lapa") as ingestor:
        assert ingestor.ingest(tmp_path / "episodes", windows="whole").ok
    assert set(ranking(tmp_path, None, query=1)[:2]) == {"ep-1", "ep-3"}
