"""One glitched timestep sets no scale: not of embeddings, nor of duplicates and leaks, whether it is flagged or not."""

from __future__ import annotations

import numpy as np
import pytest
from bridge_episodes import save

from bridge.curation import find_duplicates, find_leaks
from bridge.spaces import glitches
from bridge.spaces.glitches import Usual
from embedders import Space, WindowPlan
from wshard import Channel, Episode, TrajectoryIngestor, open_archive
from wshard.core.quality.thresholds import DEFAULT_THRESHOLDS


def walks(count: int, spike: float) -> list[Episode]:
    """Return random walks, the last of which has one timestep of this value."""
    random = np.random.default_rng(0)
    made = []
    for number in range(count):
        rows = np.cumsum(random.standard_normal((60, 4)), 0).astype(np.float32)
        if number == count - 1 and spike:
            rows[30] = spike
        state = Channel.of("state", rows)
        rewards = np.ones(60, np.float32)
        made.append(Episode(id=f"e{number}", env_id="e", length=60, observations={"state": state}, rewards=rewards))
    return made


def scale_of(archive) -> np.ndarray:
    (row,) = archive.catalog.vectors.spaces("active")
    return Space.from_json(row.definition).statistics.std


@pytest.mark.parametrize("limits", [DEFAULT_THRESHOLDS, None])
@pytest.mark.parametrize("spike", [1e3, pytest.param(1e5, marks=pytest.mark.long), 1e20])
def test_one_spike_makes_no_duplicates_and_moves_no_scale(tmp_path, spike, limits):
    whole, spiked = walks(20, 0), [*walks(21, spike)]
    for name, made in (("whole", whole), ("spiked", spiked)):
        save(tmp_path / name, *made)
        with TrajectoryIngestor(tmp_path / f"{name}-archive", limits=limits) as ingestor:
            ingestor.ingest(tmp_path / name, windows=WindowPlan())
    with open_archive(tmp_path / "whole-archive") as one, open_archive(tmp_path / "spiked-archive") as other:
        np.testing.assert_allclose(scale_of(other), scale_of(one), rtol=0.2)
        assert find_duplicates(other) == find_duplicates(one) == []
        numbers = other.catalog.query.ids()
        left, right = (",".join(map(str, half)) for half in (numbers[:10], numbers[10:]))
        assert find_leaks(other, f"id:{left}", f"id:{right}") == []


def spread(low: float, high: float, mean: float, std: float, count: int = 60) -> tuple[int, tuple[float, ...]]:
    return count, (low, high, mean, std)


def test_only_rare_peaks_are_left_out(monkeypatch):
    usual = [spread(-2, 2, 0.1 * number, 1.0) for number in range(-10, 11)]
    spiked, mover, constant = spread(-2, 1e5, 1e3, 1e4), spread(-5e3, 5e3, 0, 3e3), spread(0, 0, 0, 0)
    short = spread(0, 1e5, 1e4, 3e4, 10)  # one timestep of ten
    for one in (spiked, short):
        assert [*Usual.of([*usual, one]).without_glitched([*usual, one])] == usual
    for parts in (
        [*usual, spread(-5e4, 5e4, 0, 5e4, 10)],
        [*usual, mover],  # moves all the time, farther than others
        [*usual, *[spiked] * 5],  # too many to be faults
        [constant] * 20 + [spiked],  # the others do not move: there is no scale to compare with
        [usual[0], spiked],
        [],
    ):
        assert [*Usual.of(parts).without_glitched(parts)] == parts
    monkeypatch.setattr(glitches, "_SAMPLE", 4)
    many = [*usual * 10, spiked]
    assert [*Usual.of(many).without_glitched(many)] == usual * 10
