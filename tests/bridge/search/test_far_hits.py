"""A note says when no hit is much like the query."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from bridge.cli.main import command
from wshard import Channel, Episode, TrajectoryIngestor, TrajectoryRetriever, save_wshard

NOTE = "no hit is much like the query"


def walk(kind, number):
    """Return a noisy performance of one of four movements [T, 3]."""
    rng = np.random.default_rng([kind, number])
    clock = np.linspace(0, 2 * np.pi, int(rng.integers(50, 70)))
    waves = np.stack([np.sin((kind + 1) * clock), np.cos((kind + 2) * clock), clock / 3 * (-1) ** kind], axis=1)
    return (waves + rng.normal(0, 0.1, waves.shape)).astype(np.float32)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("far")
    for kind in range(4):
        for number in range(12):
            values = walk(kind, number)
            state = {"state": Channel.of("state", values)}
            save_wshard(
                Episode(f"{kind}-{number}", "e", len(values), observations=state), folder / f"{kind}-{number}.wshard"
            )
    with TrajectoryIngestor(folder / "lab") as ingestor:
        ingestor.ingest(folder)
    return folder / "lab"


@pytest.fixture
def notes(archive):
    with TrajectoryRetriever(archive) as retriever:
        yield lambda *args, **options: " ".join(retriever.search_similar_episodes(*args, **options).answered.notes)


def test_of_what_the_archive_has_nothing_is_said(notes):
    false_alarms = [kind for kind in range(4) for number in range(50, 55) if NOTE in notes(walk(kind, number))]
    assert len(false_alarms) <= 1
    assert not any(NOTE in notes(f"{kind}-3") for kind in range(4))


def test_noise_and_shuffled_timesteps_are_far_from_all(notes):
    rng = np.random.default_rng(0)
    assert NOTE in notes(rng.normal(size=(60, 3)))
    assert NOTE in notes(rng.permutation(walk(1, 60)))


def test_pieces_words_and_counter_examples_are_not_judged(notes):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(60, 3))
    assert NOTE not in notes(noise[:20])
    assert NOTE not in notes(noise, text="e")
    assert NOTE not in notes(noise, unlike=["1-1"])


def test_the_query_itself_is_no_hit_like_it(tmp_path):
    for number in range(40):
        state = {"state": Channel.of("state", walk(number % 2, number))}
        episode = Episode(f"{number}", "e", state["state"].data.shape[0], observations=state)
        save_wshard(episode, tmp_path / f"{number}.wshard")
    noise = np.random.default_rng(1).normal(size=(60, 3)).astype(np.float32)
    save_wshard(Episode("odd", "e", 60, observations={"state": Channel.of("state", noise)}), tmp_path / "odd.wshard")
    with TrajectoryIngestor(tmp_path / "lab") as ingestor:
        ingestor.ingest(tmp_path)
    search = ["search", "odd", "-a", str(tmp_path / "lab")]
    assert NOTE in CliRunner().invoke(command("search"), search).stderr
    assert NOTE in " ".join(json.loads(CliRunner().invoke(command("search"), [*search, "--json"]).stdout)["notes"])
