"""Quality checks on arrays: what each of them finds, where, and what it must not find."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from quality_arms import PERIOD_NS, arm, judged, reasons

from wshard import Thresholds
from wshard.core.quality.baseline import MIN_EPISODES, fit_baseline
from wshard.core.quality.channels import longest_run
from wshard.core.quality.checks import CHECKS, judge
from wshard.core.quality.measure import measure, measure_alike
from wshard.core.quality.thresholds import DEFAULT_THRESHOLDS, read_thresholds, thresholds_from
from wshard.errors import QualityError


def with_joints(lanes, change):
    joints = lanes["signal/joints"].copy()
    change(joints)
    return lanes | {"signal/joints": joints}


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_found_in_a_fine_episode(seed):
    verdict = judged(*arm(seed))
    assert verdict.findings == ()
    assert set(verdict.scores) == set(CHECKS)
    assert all(score >= 0 for score in verdict.scores.values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: np.delete(t, slice(50, 53)), "clock: 3 timesteps missing before, first at timestep 50"),
        (
            lambda t: np.insert(t, 70, t[69])[:120],
            "clock: 1 timestep at the time of the one before, first at timestep 70",
        ),
        (lambda t: t - (np.arange(120) >= 30) * 5 * PERIOD_NS, "clock: 1 timestep back in time, first at timestep 30"),
        (lambda t: t + (np.arange(120) % 2) * PERIOD_NS // 4, "clock: timesteps scatter by"),
        (lambda t: t + (np.arange(120) ** 2 * PERIOD_NS * 0.0003).astype(np.int64), "clock: the period drifts by"),
        (lambda t: t * 2, "clock: the period is 100% off that of this environment"),
    ],
    ids=["dropped", "repeated", "backward", "jitter", "drift", "period"],
)
def test_faults_of_the_clock_are_found_with_their_place(change, message):
    lanes, times = arm(1, 120)
    changed = change(times)
    found = reasons(judged({name: rows[: len(changed)] for name, rows in lanes.items()}, changed))
    assert list(found) == ["clock"]
    assert found["clock"].startswith(message)


@pytest.mark.parametrize(("rate", "kind"), [(10, "late"), (100, "uniform"), (10, "steps"), (100, "stalls")])
def test_clocks_that_scatter_by_a_millisecond_are_fine_and_faults_in_them_are_found(rate, kind):
    rng, count, period = np.random.default_rng(rate), 120, 1e9 / rate
    for length in [60] * 5 + [count] * 10:
        scatter = {
            "late": rng.normal(0, 1e6, length),
            "uniform": rng.uniform(-1e6, 1e6, length),
            "steps": rng.normal(0, 1e6, length).cumsum(),
            "stalls": (rng.random(length) < 0.05) * 0.4 * period,  # a timestep is late, the next one is not
        }[kind]
        times = np.arange(length) * period + scatter
        assert not _clock_of(times, period), (length, _clock_of(times, period))
    assert "3 timesteps missing" in _clock_of(np.delete(times, slice(50, 53)), period)
    assert "back in time, first at timestep 30" in _clock_of(times - (np.arange(count) >= 30) * 5 * period, period)
    faster = np.concatenate([times[:60], times[59] + (times[60:] - times[59]) * 0.7])
    assert "the period drifts" in _clock_of(faster, period)


def _clock_of(times, period):
    """Return what is found in a clock among others of its period."""
    known = [measure({}, 120, (np.arange(120) * period).astype(np.int64), 1e-9) for _ in range(20)]
    form, vector = measure({}, len(times), times.astype(np.int64), 1e-9)
    common = fit_baseline(form, np.stack([found for _, found in known]))
    return reasons(judge(form.read(vector[None]), common, DEFAULT_THRESHOLDS)[0]).get("clock", "")


def test_all_that_is_wrong_with_a_clock_is_reported():
    lanes, times = arm(1, 120)
    stamped = times.copy()
    stamped[50] = stamped[49]
    one, other = (
        "1 timestep at the time of the one before, first at timestep 50",
        "1 timestep missing before, first at",
    )
    assert reasons(judged(lanes, stamped))["clock"] == f"clock: {one}; {other} timestep 51"
    scattered = times + (np.random.default_rng(0).normal(0, 0.2, 120) * PERIOD_NS).astype(np.int64)
    scattered[60:] += 3 * PERIOD_NS
    message = reasons(judged(lanes, scattered))["clock"]
    assert "timesteps missing before" in message
    assert "timesteps scatter by" in message


def test_what_is_not_finite_is_found_with_lane_channel_and_timestep():
    def change(joints):
        joints[17, 2] = np.nan
        joints[40, 2] = np.inf
        joints[90, 0] = -np.inf

    found = reasons(judged(with_joints(arm(2)[0], change)))
    assert found["nan"] == "signal/joints[2]: NaN in 1 timestep, first at timestep 17"
    assert found["infinite"] == (
        "signal/joints[0]: infinity in 1 timestep, first at timestep 90, and in 1 other channel"
    )


@given(st.lists(st.tuples(st.integers(0, 110), st.integers(1, 30), st.integers(0, 3)), min_size=1, max_size=3))
def test_gaps_in_smooth_signals_are_found_as_gaps_alone(gaps):
    def change(joints):
        for start, count, channel in gaps:
            joints[start : start + count, channel] = np.nan

    found = reasons(judged(with_joints(arm(2)[0], change), others=8))
    assert not set(found) & {"spike", "saturated", "frozen", "stall", "rough"}, found
    assert "nan" in found


def test_a_frozen_channel_is_found_with_its_position():
    def change(joints):
        joints[30:80, 1] = joints[30, 1]

    found = reasons(judged(with_joints(arm(3)[0], change)))
    assert found["frozen"] == (
        "signal/joints[1]: keeps one value for 41% of the duration, from timestep 30 on (usual: 0%)"
    )


def test_a_clipped_channel_is_found_with_its_position():
    def change(joints):
        joints[:, 0] = np.minimum(joints[:, 0], np.quantile(joints[:, 0], 0.6))

    found = reasons(judged(with_joints(arm(3)[0], change)))
    assert found["saturated"].startswith(
        "signal/joints[0]: is at its own highest or lowest value for 40% of the duration"
    )


@pytest.mark.parametrize(
    ("change", "check", "reason"),
    [
        (
            lambda joints: joints[40:, 1].fill(joints[40, 1]),
            "frozen",
            "signal/joints[1]: keeps one value while others move, for 66% of the duration, from timestep 40 on",
        ),
        (
            lambda joints: joints[40:80, 1].fill(joints[40, 1]),
            "frozen",
            "signal/joints[1]: keeps one value while others move, for 33% of the duration, from timestep 40 on",
        ),
        (lambda joints: joints[60:61, 2].fill(50), "spike", "signal/joints[2]: timestep 60 lies"),
        (
            lambda joints: joints[30:33, 0].fill(-999),
            "placeholder",
            "signal/joints[0]: a value that stands for none in 3",
        ),
        (lambda joints: joints[:1].fill(-60), "reset", "signal/joints[1]: the first step is"),
        (lambda joints: joints[7:9, 3].fill(np.nan), "nan", "signal/joints[3]: NaN in 2 timesteps"),
        (lambda joints: joints[7:9, 3].fill(-np.inf), "infinite", "signal/joints[3]: infinity in 2 timesteps"),
    ],
)
def test_what_is_certain_is_found_without_others(change, check, reason):
    lanes, times = arm(8)
    lanes["signal/joints"] += np.random.default_rng(0).normal(scale=0.05, size=lanes["signal/joints"].shape)
    assert reasons(judged(lanes, times, others=0)) == {}
    found = reasons(judged(with_joints(lanes, change), times, others=0))
    assert check in found
    assert found[check].startswith(reason)
    assert {*found} <= {check, "reset", "spike"}, "the first row apart is far from all others"
    limits = Thresholds(**dict.fromkeys((check, "reset", "spike"), float("inf")))
    assert reasons(judged(with_joints(lanes, change), times, others=0, limits=limits)) == {}


@pytest.mark.parametrize(
    "still",
    [
        lambda joints: joints[:60, 1].fill(joints[60, 1]),  # an object that is moved later
        lambda joints: joints[60:, 1].fill(joints[60, 1]),  # it may have arrived
        lambda joints: joints[40:].__setitem__(slice(None), joints[40]),  # all rest
        lambda joints: joints[:, 1].fill(0.5),
        lambda joints: np.round(joints, 0, out=joints),
    ],
)
def test_what_may_be_at_rest_is_not_frozen_without_others(still):
    lanes, times = arm(8)
    lanes["signal/joints"] = 3 * np.sin(np.arange(120)[:, None] / [20, 25, 30, 35] + [0, 1, 2, 3]).astype(np.float32)
    assert "frozen" not in reasons(judged(with_joints(lanes, still), times, others=0))


@pytest.mark.parametrize(("trembling", "message"), [(1e-8, set()), (1e-3, {"frozen", "saturated"})])
def test_a_channel_that_only_ever_trembles_by_rounding_may_stand_still(trembling, message):
    """One channel stands still for half of an episode; in the others it moves a little, or as a last bit does."""

    def noisy(seed, still=0):
        lanes, _ = arm(seed)
        joints = lanes["signal/joints"]
        joints[:, 3] = trembling * np.random.default_rng(seed).normal(size=len(joints))
        joints[:still, 3] = joints[:, 3].max()
        return lanes

    found = [measure(noisy(n), 120) for n in range(20)]
    form, vectors = found[0][0], np.stack([vector for _, vector in found])
    _, vector = measure(noisy(30, still=60), 120)
    (verdict,) = judge(form.read(vector[None]), fit_baseline(form, vectors), DEFAULT_THRESHOLDS)
    assert set(reasons(verdict)) == message


@pytest.mark.parametrize(
    ("level", "other", "message"),
    [
        (0.0, 1e-7, set()),  # rounding
        (3.0, 3.0 + 2e-6, set()),
        (0.0, 0.1, {"spike", "unusual"}),
        (3.0, 4.0, {"spike", "unusual"}),
    ],
)
@pytest.mark.parametrize("lane", ["signal/joints", "signal/gripper"])  # beside channels that move, and alone
def test_a_channel_that_usually_keeps_one_value(lane, level, other, message):
    """A verdict on an episode in which it has another value from timestep 40 on."""
    if lane == "signal/gripper" and not level:
        message = message or {"spike", "unusual"}  # nothing there says what is little

    def still(seed, value=level):
        lanes, _ = arm(seed)
        lanes.setdefault(lane, np.zeros((120, 4), np.float32))[:, 3] = level
        lanes[lane][40:, 3] = value
        return lanes

    found = [measure(still(n), 120) for n in range(20)]
    form, vectors = found[0][0], np.stack([vector for _, vector in found])
    _, vector = measure(still(30, other), 120)
    (verdict,) = judge(form.read(vector[None]), fit_baseline(form, vectors), DEFAULT_THRESHOLDS)
    assert set(reasons(verdict)) == message
    assert all(score < 100 for score in verdict.scores.values())
    if other == 4.0:
        spike = f"{lane}[3]: timestep 39 lies 0.5 from its neighbours, in a channel that usually keeps one value"
        assert reasons(verdict)["spike"] == spike


def test_a_spike_is_found_with_its_position():
    def change(joints):
        joints[64, 3] += 1.5

    found = reasons(judged(with_joints(arm(4)[0], change)))
    assert list(found) == ["spike"]
    assert found["spike"].startswith("signal/joints[3]: timestep 64 lies")


def test_a_stall_is_found_with_its_position_also_below_noise():
    lanes, _ = arm(5, 180)
    order = np.concatenate([np.arange(60), np.full(50, 60), np.arange(60, 130)])
    stuck = lanes["signal/joints"][order] + 1e-4 * np.random.default_rng(0).normal(size=(180, 4)).astype(np.float32)
    found = reasons(judged(lanes | {"signal/joints": stuck}))
    assert "from timestep 6" in found["stall"]
    assert found["stall"].startswith("nothing moves for 2")


@pytest.mark.parametrize(("shift", "message"), [(3, "actions are 3 timesteps too late"), (-2, "2 timesteps too early")])
def test_a_shift_between_actions_and_observations_is_found_either_way(shift, message):
    lanes, _ = arm(6, 140)
    moved = {
        "signal/joints": lanes["signal/joints"][10:130],
        "action/ctrl": lanes["action/ctrl"][10 - shift : 130 - shift],
    }
    assert message in reasons(judged(moved))["lag"]


def test_the_lag_that_is_usual_is_not_a_fault():
    lanes, _ = arm(6, 120, lag=6)
    assert "lag" not in reasons(judged(lanes, lag=6))
    assert "lag" in reasons(judged(lanes, lag=2))


def test_where_the_lag_varies_from_episode_to_episode_no_lag_is_a_fault():
    """A fifth of the others lag by two timesteps more: then that is not unusual."""

    def score(others):
        found = [measure(arm(100 + n, lag=lag)[0], 120) for n, lag in enumerate(others)]
        form, vectors = found[0][0], np.stack([vector for _, vector in found])
        _, vector = measure(arm(1, lag=5)[0], 120)
        (verdict,) = judge(form.read(vector[None]), fit_baseline(form, vectors), DEFAULT_THRESHOLDS)
        return verdict.scores["lag"]

    assert score([2] * 20) >= 1
    assert score([2] * 16 + [4] * 4) < 1


def test_a_short_episode_and_an_unusual_one_are_found():
    whole, _ = arm(7, 240)
    cut = {name: rows[:30] for name, rows in whole.items()}
    form, vector = measure(cut, 30)
    known = fit_baseline(form, np.stack([measure(arm(n, 240)[0], 240)[1] for n in range(MIN_EPISODES)]))
    (verdict,) = judge(form.read(vector[None]), known, DEFAULT_THRESHOLDS)
    assert reasons(verdict)["short"] == "30 timesteps, 12% of the 240 that are usual"
    away = with_joints(whole, lambda joints: np.add(joints, 9, out=joints))
    assert reasons(judged(away))["unusual"].startswith("signal/joints[")


def test_too_few_others_leave_only_what_needs_none():
    lanes, times = arm(8)
    verdict = judged(
        with_joints(lanes, lambda joints: joints[:].fill(0)), np.delete(times, 60)[[*range(119), 118]], others=0
    )
    assert set(CHECKS) - set(verdict.scores) == {"short", "saturated", "stall", "lag", "rough", "unusual"}
    assert list(reasons(verdict)) == ["clock"]


@pytest.mark.parametrize("check", ["frozen", "saturated", "spike", "stall", "rough", "unusual", "lag"])
def test_a_fine_episode_is_not_flagged_for_being_shorter_or_longer(check):
    lengths = [120] * 20 + [60] * 20
    found = [measure(arm(n, length)[0], length) for n, length in enumerate(lengths)]
    form, vectors = found[0][0], np.stack([vector for _, vector in found])
    known = fit_baseline(form, vectors)
    scores = np.array([verdict.scores[check] for verdict in judge(form.read(vectors), known, DEFAULT_THRESHOLDS)])
    assert (scores < 1).all()


def test_limits_decide_what_is_flagged():
    def change(joints):
        joints[64, 3] += 1.5

    lanes = with_joints(arm(4)[0], change)
    score = judged(lanes).scores["spike"]
    twice = Thresholds(spike=2 * DEFAULT_THRESHOLDS.spike)
    assert judged(lanes, limits=twice).scores["spike"] == pytest.approx(score / 2)
    assert judged(lanes, limits=Thresholds(spike=float("inf"))).findings == ()


def test_limits_come_from_files(tmp_path):
    (tmp_path / "limits.toml").write_text("spike = 8\nstall = inf\n")
    assert read_thresholds(tmp_path / "limits.toml") == Thresholds(spike=8, stall=float("inf"))
    (tmp_path / "limits.json").write_text(json.dumps({"short": 0.5}))
    assert read_thresholds(tmp_path / "limits.json") == Thresholds(short=0.5)
    wrong = {
        "a.toml": "spike =",
        "b.toml": "spyke = 1",
        "c.toml": "spike = 0",
        "d.toml": "spike = true",
        "e.json": "[1]",
    }
    for name, text in wrong.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(QualityError, match=name):
            read_thresholds(tmp_path / name)
    with pytest.raises(ValueError, match=r"expected limits among missing, repeated, .* found 'spyke'"):
        thresholds_from({"spyke": 1})


def slow_run(column):
    best, start = 0, 0
    for first in range(len(column)):
        length = next((n for n, true in enumerate(column[first:]) if not true), len(column) - first)
        if length > best:
            best, start = length, first
    return best, start


@given(st.lists(st.booleans(), max_size=30))
def test_the_longest_run_equals_a_slow_loop(column):
    length, start = longest_run(np.array(column, bool)[None])
    best, first = slow_run(column)
    assert length[0] == best
    assert start[0] == first or not best


numbers = st.floats(width=32) | st.sampled_from([0.0, 1.0, -1.0, 3.4e38, np.nan, np.inf])


@given(st.data(), st.integers(1, 40))
def test_any_numbers_are_judged_without_a_warning(data, length):
    shapes = array_shapes(min_dims=0, max_dims=1, max_side=3)
    lanes = {
        name: data.draw(arrays(np.float32, (length, *data.draw(shapes)), elements=numbers))
        for name in data.draw(st.sets(st.sampled_from(["signal/a", "signal/b", "action/c", "reward"])))
    }
    times = data.draw(st.none() | arrays(np.int64, length, elements=st.integers(-(2**62), 2**62)))
    form, vector = measure(lanes, length, times, 1e-9)
    assert vector.shape == (form.size,)
    vectors = np.repeat(vector[None], MIN_EPISODES, axis=0)
    for verdict in judge(form.read(vectors), fit_baseline(form, vectors), DEFAULT_THRESHOLDS):
        assert all(np.isfinite(score) and score >= 0 for score in verdict.scores.values())
        counted = [rows[:-1] if name.startswith("action/") else rows for name, rows in lanes.items()]
        assert ("nan" in reasons(verdict)) == any(np.isnan(rows).any() for rows in counted)
        assert ("infinite" in reasons(verdict)) == any(np.isinf(rows).any() for rows in lanes.values())


def test_actions_that_move_nothing_have_no_lag():
    def idle(seed):
        lanes, _ = arm(seed)
        return lanes | {"action/ctrl": np.random.default_rng(seed).normal(size=(120, 4)).astype(np.float32)}

    found = [measure(idle(n), 120) for n in range(40)]
    form, vectors = found[0][0], np.stack([vector for _, vector in found])
    verdicts = judge(form.read(vectors), fit_baseline(form, vectors), DEFAULT_THRESHOLDS)
    assert all("lag" not in verdict.scores for verdict in verdicts)


def test_episodes_measured_together_get_what_each_gets_alone():
    episodes = [arm(n) for n in range(20)]
    episodes[3][0]["signal/joints"][40:60] = np.nan
    episodes[5][0]["action/ctrl"][:] = 0
    episodes[7][0]["signal/joints"][30:90, 1] = 2
    alone = [measure(lanes, 120, times, 1e-9) for lanes, times in episodes]
    columns = np.stack(
        [np.concatenate([lanes[name].T for name, _ in alone[0][0].lanes]).astype(np.float64) for lanes, _ in episodes]
    )
    together = measure_alike(alone[0][0], columns, [(times, 1e-9) for _, times in episodes])
    np.testing.assert_array_equal(together, np.stack([vector for _, vector in alone]))
