"""Every embedder keeps the contract, and the contract catches embedders that do not."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from embedders import ArcDct, Blocks, Dct, Frames, Mean, PooledCallable, Stats
from embedders.testing import EmbedderContract
from embedders.window_batches import Cuts
from wshard.errors import EmbedderError


def longer(mean):
    """Answer with more numbers than it is given, of another dtype."""
    return np.concatenate([mean, np.tanh(mean), [1.0]]).astype(np.float64)


class TestArcDct(EmbedderContract):
    make = ArcDct


class TestArcDctAlongAllChannels(EmbedderContract):
    make = partial(ArcDct, position=None, coefficients=64, damping=0)


class TestArcDctOfWindows(EmbedderContract):
    make = partial(ArcDct, damping=0, level=0.6)


class TestArcDctOfOneChannel(EmbedderContract):
    channels = 1
    make = ArcDct


class TestBlocks(EmbedderContract):
    make = Blocks


class TestBlocksOfOneChannel(EmbedderContract):
    channels = 1
    make = Blocks


class TestBlocksOfManyChannels(EmbedderContract):
    channels = 70
    make = Blocks


class TestDct(EmbedderContract):
    make = Dct


class TestDctOfTwoRows(EmbedderContract):
    make = partial(Dct, length=2, coefficients=2)


class TestStats(EmbedderContract):
    make = Stats


class TestFrames(EmbedderContract):
    shape = (20, 17)
    make = Frames


class TestFramesInColour(EmbedderContract):
    shape = (24, 18, 3)
    make = partial(Frames, colour=False, in_time=True, side=9, block=9)


class TestMean(EmbedderContract):
    make = Mean


class TestPooledCallable(EmbedderContract):
    make = partial(PooledCallable, longer)


class _Broken:
    """A stats embedder with one hook to break each promise."""

    name, version, uses_statistics, metric = "broken", 1, True, "cosine"

    def __init__(self) -> None:
        self._inner = Stats()

    def parameters(self):
        return {}

    def dim(self, channels):
        return self._inner.dim(channels)

    def embed(self, windows, statistics):
        return self._inner.embed(windows, statistics)


class _Unnormalised(_Broken):
    def embed(self, windows, statistics):
        return 2 * super().embed(windows, statistics)


class _DoublePrecision(_Broken):
    def embed(self, windows, statistics):
        return super().embed(windows, statistics).astype(np.float64)


class _NanLeaking(_Broken):
    def embed(self, windows, statistics):
        return super().embed([np.nan_to_num(window) for window in windows], statistics)


class _OrderDependent(_Broken):
    def embed(self, windows, statistics):
        return super().embed(sorted(windows, key=len), statistics)


class _NeighbourDependent(_Broken):
    def embed(self, windows, statistics):
        vectors = super().embed(windows, statistics)
        shifted = vectors - 0.1 * vectors.mean(axis=0)
        return (shifted / np.linalg.norm(shifted, axis=1, keepdims=True)).astype(np.float32)


class _Random(_Broken):
    def embed(self, windows, statistics):
        vectors = super().embed(windows, statistics)
        return vectors * np.random.default_rng().choice([-1, 1], len(vectors))[:, None].astype(np.float32)


class _Remembering(_Broken):
    def embed(self, windows, statistics):
        self._inner, inner = Dct(coefficients=4), self._inner
        return inner.embed(windows, statistics)


class _Shorter(_Broken):
    def dim(self, channels):
        return 3 * channels


class _Trimming(_Broken):
    def embed(self, windows, statistics):
        return super().embed([window[:, : statistics.mean.size] for window in windows], statistics)


class _NoEmptyBatch(_Broken):
    def embed(self, windows, statistics):
        return super().embed(windows, statistics) if windows else np.empty((0, 0), np.float32)


class _Blind(_Broken):
    def embed(self, windows, statistics):
        return super().embed([np.zeros_like(window) for window in windows], statistics)


class _Writing(_Broken):
    def embed(self, windows, statistics):
        for window in windows:
            window[:] = window - 1
        return super().embed(windows, statistics)


class _SingleRowRefusing(_Broken):
    def embed(self, windows, statistics):
        if any(len(window) == 1 for window in windows):
            raise EmbedderError("too short")
        return super().embed(windows, statistics)


class _ConstantLeaking(_Broken):
    def embed(self, windows, statistics):
        vectors = super().embed(windows, statistics)
        vectors[[not np.ptp(window, axis=0).any() for window in windows]] = np.nan
        return vectors


class _Overflowing(_Broken):
    def embed(self, windows, statistics):
        vectors = super().embed(windows, statistics)
        vectors[[np.abs(window).max() > 1e20 for window in windows]] = np.inf
        return vectors


class _GuessingStatistics(_Broken):
    def embed(self, windows, statistics):
        return super().embed(windows, statistics or EmbedderContract().statistics())


class _UnstorableParameters(_Broken):
    def parameters(self):
        return {"weights": (1, 2)}


class _DtypeDependent(_Broken):
    def embed(self, windows, statistics):
        return super().embed([window * window.dtype.itemsize for window in windows], statistics)


class _Nameless(_Broken):
    name = ""


class _StallDropping(_Broken):
    def embed(self, windows, statistics):
        vectors = super().embed(windows, statistics)
        vectors[[len(window) > 500 for window in windows]] = 0
        return vectors


class _StringReading(_Broken):
    def embed(self, windows, statistics):
        return super().embed([window.astype(np.float64) for window in windows], statistics)


CONTRACT_TESTS = {name for name in dir(EmbedderContract) if name.startswith("test_")}
DOUBLES = [
    (_Unnormalised, "test_windows_of_different_lengths_give_unit_rows_of_the_promised_size"),
    (_DoublePrecision, "test_windows_of_different_lengths_give_unit_rows_of_the_promised_size"),
    (_Shorter, "test_windows_of_different_lengths_give_unit_rows_of_the_promised_size"),
    (_Blind, "test_different_windows_give_different_vectors"),
    (_NoEmptyBatch, "test_no_windows_give_no_rows_of_the_promised_size"),
    (_NeighbourDependent, "test_a_batch_gives_what_single_windows_give"),
    (_OrderDependent, "test_the_order_of_a_batch_is_the_order_of_the_rows"),
    (_Random, "test_the_same_windows_give_the_same_bytes_from_any_instance"),
    (_Remembering, "test_the_same_windows_give_the_same_bytes_from_any_instance"),
    (_Writing, "test_windows_are_only_read"),
    (_DtypeDependent, "test_the_dtype_and_layout_of_windows_do_not_matter"),
    (_SingleRowRefusing, "test_one_timestep_gives_a_vector"),
    (_ConstantLeaking, "test_constant_windows_give_a_vector"),
    (_StallDropping, "test_a_stall_gives_a_vector"),
    (_Overflowing, "test_huge_and_tiny_values_give_a_vector"),
    (_NanLeaking, "test_values_that_are_not_finite_are_refused_with_their_place"),
    (_Trimming, "test_another_number_of_channels_is_refused_with_its_window"),
    (_StringReading, "test_invalid_window_is_refused"),
    (_GuessingStatistics, "test_statistics_are_demanded_exactly_when_they_are_used"),
    (_UnstorableParameters, "test_parameters_are_json_and_never_change"),
    (_Nameless, "test_name_version_and_metric_are_valid"),
]


@pytest.mark.long
@pytest.mark.parametrize(("broken", "caught_by"), DOUBLES)
def test_the_contract_catches(broken, caught_by):
    class Contract(EmbedderContract):
        make = broken

    with pytest.raises((AssertionError, ValueError)):
        getattr(Contract(), caught_by)()


@pytest.mark.long
def test_the_double_that_breaks_nothing_passes_the_whole_contract():
    class Contract(EmbedderContract):
        make = _Broken

    for name in CONTRACT_TESTS:
        getattr(Contract(), name)()


def test_every_test_of_the_contract_catches_some_double():
    assert {caught_by for _, caught_by in DOUBLES} == CONTRACT_TESTS


@pytest.mark.parametrize("make", [ArcDct, Dct, Stats, Mean, partial(PooledCallable, longer)])
@pytest.mark.parametrize("channels", [1, 5, 39])
def test_neither_neighbours_nor_memory_layout_change_a_bit(make, channels):
    contract = EmbedderContract()
    contract.channels = channels
    windows = contract.windows((40, 7, 133, 2, 64, 1, 200) * 11)
    singles = [make().embed([np.asfortranarray(window)], contract.statistics()) for window in windows]
    assert make().embed(windows, contract.statistics()).tobytes() == np.concatenate(singles).tobytes()


@pytest.mark.parametrize("make", [ArcDct, partial(ArcDct, level=0.6, position=None), Dct, Mean])
def test_windows_cut_from_episodes_get_the_vectors_of_any_windows(make):
    contract = EmbedderContract()
    rng = np.random.default_rng(0)
    episodes = []
    for length in (1, 2, 31, 400, 3000, 2000, 5):
        starts = rng.integers(0, length, 40)
        stops = np.maximum(rng.integers(1, length + 1, 40), starts + 1)
        rows = rng.normal(size=(length, contract.channels)).cumsum(axis=0).astype(np.float32)
        rows[length // 3 : length // 2] = rows[length // 3]  # a stall
        episodes.append((rows, np.stack([starts, stops], axis=1)))
    cuts = Cuts(episodes)
    plain = [rows[start:stop] for rows, spans in episodes for start, stop in spans.tolist()]
    assert len(cuts) == len(plain)
    assert all(np.array_equal(one, other) for one, other in zip(cuts, plain, strict=True))
    statistics = contract.statistics()
    assert make().embed(cuts, statistics).tobytes() == make().embed(plain, statistics).tobytes()


def test_cuts_are_refused_as_windows_are():
    contract = EmbedderContract()
    rows = np.zeros((9, contract.channels))
    rows[4, 2] = np.inf
    with pytest.raises(EmbedderError, match="timestep 4, channel 2: expected a finite number"):
        ArcDct().embed(Cuts([(rows, np.array([[3, 6]]))]), contract.statistics())
    with pytest.raises(EmbedderError, match="expected the archive's statistics, found None"):
        ArcDct().embed(Cuts([(np.zeros((9, 2)), np.array([[3, 6]]))]), None)
    assert ArcDct().embed(Cuts([]), contract.statistics()).shape == (0, 8 * contract.channels)
