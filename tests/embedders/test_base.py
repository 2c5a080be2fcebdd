"""The shared path from windows to unit rows, and the parameters of embedders."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedders import ArcDct, Dct, Mean, PooledCallable, Statistics, unit_rows, validate_windows
from wshard.errors import EmbedderError


@given(
    row=st.lists(st.floats(-1e300, 1e300, allow_subnormal=True), min_size=1, max_size=8),
    more=st.integers(0, 3),
)
def test_every_row_becomes_a_unit_row_in_its_own_direction(row, more):
    units = unit_rows(np.array([row] * (more + 1)))
    assert units.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(units.astype(float), axis=1), 1.0, atol=1e-6)
    if any(row):
        largest = int(np.argmax(np.abs(row)))
        assert np.sign(units[0, largest]) == np.sign(row[largest])
        assert np.abs(units[0]).max() == abs(units[0, largest])


def test_a_row_without_direction_becomes_the_last_axis():
    assert unit_rows(np.array([[0.0, -0.0, 0.0], [3.0, 4.0, 0.0]])).tolist() == [
        [0, 0, 1],
        [np.float32(0.6), np.float32(0.8), 0],
    ]


def test_a_window_at_the_archive_mean_is_close_to_its_like_and_to_nothing_else():
    rng = np.random.default_rng(5)
    frozen = Statistics(9, rng.normal(size=6), np.ones(6))
    walks = [frozen.mean + rng.normal(size=(50, 6)).cumsum(axis=0) for _ in range(20)]
    still = [np.tile(frozen.mean, (length, 1)) for length in (1, 30)]
    for embedder in (ArcDct(), Dct()):
        vectors = embedder.embed([*still, *walks], frozen)
        assert vectors[0] @ vectors[1] == pytest.approx(1.0)
        assert np.abs(vectors[2:] @ vectors[0]).max() < 0.2


def test_a_bad_value_is_reported_with_its_own_window_and_timestep_in_any_batch():
    windows = [np.zeros((length, 3)) for length in (4, 1, 2) * 40]
    windows[100][0, 2] = np.nan
    with pytest.raises(EmbedderError, match=r"window 100, timestep 0, channel 2: expected a finite number.*found nan"):
        Mean().embed(windows, None)
    with pytest.raises(EmbedderError, match="window 7, timestep 0, channel 1"):
        validate_windows([np.zeros((2, 2)), np.array([[0.0, 1e39]])], first=6)


def test_all_batches_of_a_call_have_one_number_of_channels():
    windows = [np.ones((2, 3))] * 200 + [np.ones((2, 4))]
    with pytest.raises(EmbedderError, match="window 200: expected 3 channels, found 4"):
        Mean().embed(windows, None)


@pytest.mark.parametrize(
    "window",
    [[[1.0]], None, np.zeros(3), np.zeros((2, 2, 2)), np.zeros((2, 0)), np.zeros((1, 1), complex), np.array([[None]])],
)
def test_invalid_window_is_reported(window):
    with pytest.raises(EmbedderError, match="window 1: expected an array of real numbers"):
        validate_windows([np.zeros((1, 1)), window])


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float16, np.longdouble, ml_dtypes.bfloat16])
def test_every_real_dtype_is_taken(dtype):
    batch = validate_windows([np.ones((2, 3), dtype), np.zeros((1, 3), np.float32)])
    assert batch.rows.dtype == np.float64
    assert batch.rows.tolist() == [[1.0] * 3, [1.0] * 3, [0.0] * 3]
    assert [window.shape for window in batch.windows(batch.rows)] == [(2, 3), (1, 3)]


def test_without_windows_and_statistics_nothing_reports_the_channels():
    assert Mean().embed([], None).shape == (0, 0)


@pytest.mark.parametrize(
    "parameters",
    [
        {"length": 1},
        {"length": 8.0},
        {"coefficients": 0},
        {"coefficients": 65},
        {"length": True},
        {"damping": -0.1},
        {"damping": float("nan")},
        {"damping": "0.1"},
        {"epsilon": 0},
        {"epsilon": float("inf")},
        {"position": 0},
        {"position": 1.5},
    ],
)
def test_impossible_parameters_are_refused(parameters):
    with pytest.raises(EmbedderError, match=f"{next(iter(parameters))}.*expected"):
        ArcDct(**parameters)


def test_whole_numbers_for_damping_are_the_same_embedder():
    assert ArcDct(damping=0).parameters() == ArcDct(damping=0.0).parameters()
    assert repr(ArcDct(damping=0)) == repr(ArcDct(damping=0.0))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda mean: mean.sum(), r"float32 \(\)"),
        (lambda mean: mean[None], r"float32 \(1, 3\)"),
        (lambda mean: mean[:0], r"float32 \(0,\)"),
        (lambda mean: mean * np.nan, "nan at place 0"),
        (lambda _: [0.0, float("inf")], "inf at place 1"),
        (lambda _: ["a"], r"<U1 \(1,\)"),
        (lambda _: None, r"object \(\)"),
        (lambda mean: mean[: 2 if mean.any() else 3], "expected answers of size 3, found 2"),
    ],
)
def test_answers_of_a_callable_that_are_not_vectors_are_refused(answer, message):
    with pytest.raises(EmbedderError, match=f"embedder 'own': .*{message}"):
        PooledCallable(answer, "own").embed([np.ones((4, 3))], None)


def test_a_callable_gets_the_raw_mean_as_float32_and_its_errors_pass():
    seen = []

    def keep(mean):
        seen.append(mean)
        return mean

    embedder = PooledCallable(keep)
    embedder.embed([np.array([[1, 10], [3, 30]])], Statistics(2, [2.0, 20.0], [1.0, 10.0]))
    assert seen[-1].tolist() == [2.0, 20.0]
    assert seen[-1].dtype == np.float32

    def fail(mean):
        raise ZeroDivisionError("own")

    with pytest.raises(ZeroDivisionError, match="own"):
        PooledCallable(fail).embed([np.ones((1, 1))], None)


def test_a_callable_is_named_after_itself_by_default():
    class Model:
        def __call__(self, mean: object) -> object:
            return mean

    assert PooledCallable(np.linalg.norm).name == "numpy.linalg:norm"
    assert PooledCallable(Model()).name.endswith(":test_a_callable_is_named_after_itself_by_default.<locals>.Model")
    assert (PooledCallable(Model(), "model", 4).name, PooledCallable(Model(), "model", 4).version) == ("model", 4)
