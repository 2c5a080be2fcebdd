"""Copies of a recording at other rates, and cut at both ends, are found; other recordings are not."""

import numpy as np
import pytest
from bridge_episodes import episode, ingest, save
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.curation.time_rate import find_rescaled
from wshard import Channel, open_archive


def motion(seed, steps=120, channels=4):
    rng = np.random.default_rng(seed)
    times = np.linspace(0, 1, steps)[:, None]
    waves = [rng.normal(size=channels) * np.sin(2 * np.pi * (n * times + rng.uniform(size=channels))) for n in range(9)]
    rows = np.sum(waves, axis=0)
    return ((rows - rows.mean(axis=0)) / max(rows.std(), 1e-9)).astype(np.float32)


def resampled(rows, rate, start=0.0):
    times = np.arange(start, len(rows) - 1 + 1e-9, rate)
    return np.stack([np.interp(times, np.arange(len(rows)), one) for one in rows.T], axis=1).astype(np.float32)


@settings(max_examples=25)
@given(
    st.integers(0, 10**6),
    st.sampled_from([2, 3, 1.5, 2.5, 0.5, 1 / 3, 1.25]),
    st.sampled_from([0, 1, 2]),
    st.integers(0, 12),
    st.integers(0, 12),
)
def test_a_copy_at_another_rate_cut_at_both_ends_differs_in_nothing(seed, rate, start, front, back):
    rows = motion(seed)
    copy = resampled(rows[front : len(rows) - back], rate, start)
    found = find_rescaled(rows, copy)
    assert found.apart < 1e-3
    assert found.rate == pytest.approx(rate, rel=1e-3)
    assert found.start == pytest.approx(front + start, abs=0.05)
    back_again = find_rescaled(copy, rows)
    assert back_again.apart < 1e-3
    assert back_again.rate == pytest.approx(1 / rate, rel=1e-3)


@given(st.integers(0, 10**6), st.sampled_from([1, 2, 1.5, 3]))
def test_another_motion_is_none(seed, rate):
    found = find_rescaled(motion(seed), resampled(motion(seed + 1), rate))
    assert found is None or found.apart > 0.1


@pytest.mark.parametrize("sizes", [(1, 1), (1, 50), (7, 20), (8, 400), (2, 3)])
def test_too_short_and_far_too_long_recordings_are_none(sizes):
    assert find_rescaled(motion(0, sizes[0]), motion(1, sizes[1])) is None or min(sizes) >= 8


def test_copies_at_other_rates_are_duplicates(tmp_path):
    rows = [motion(seed) for seed in range(12)]
    copies = {"half": rows[3][::2], "third": rows[5][1::3], "cut": rows[7][10:-10], "faster": resampled(rows[9], 2.5)}
    episodes = [(f"e{number}", one) for number, one in enumerate(rows)] + [*copies.items()]
    save(
        tmp_path / "data",
        *(episode(0, 0, len(one), id=name, observations={"state": Channel.of("state", one)}) for name, one in episodes),
    )
    ingest(tmp_path / "archive", tmp_path / "data")
    with open_archive(tmp_path / "archive") as archive:
        twins = {frozenset({one.left.episode_id, one.right.episode_id}): one for one in archive.duplicates()}
    kinds = {names: one.kind for names, one in twins.items()}
    assert kinds == {
        frozenset({"e3", "half"}): "rate",
        frozenset({"e5", "third"}): "rate",
        frozenset({"e7", "cut"}): "near",
        frozenset({"e9", "faster"}): "rate",
    }
    half = twins[frozenset({"e3", "half"})]
    assert half.rate == pytest.approx(2 if half.left.episode_id == "e3" else 0.5)
