"""The buffer's states and samples are those of the original; scalers give its values, and work on columns [N]."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from world_model_sets import expected_values, make_columns, sha256, write_hdf5

from wshard.data import (
    HDF5Dataset,
    IdentityScaler,
    PercentileScaler,
    ReplayBuffer,
    ZScoreScaler,
    classic_filter,
    column_normalizer,
    get_scaler,
)
from wshard.errors import DatasetError, EntryNotFoundError


def source_episodes(fixtures):
    with np.load(fixtures / "world_model" / "main_source.npz") as file:
        columns = dict(file)
    lengths = columns.pop("ep_len")
    stops = np.cumsum(lengths)
    return [
        {name: array[stop - length : stop] for name, array in columns.items()}
        for stop, length in zip(stops, lengths, strict=True)
    ]


def test_states_and_samples_are_those_of_the_original(dataset_fixtures):
    expected, episodes = expected_values(dataset_fixtures)["replay_buffer"], source_episodes(dataset_fixtures)
    indices = []
    buffer = ReplayBuffer(
        expected["max_steps"], expected["history_len"], expected["frameskip"], sampler=lambda *_: indices
    )
    for number, state in zip(expected["write_order"], expected["after_each_write"], strict=True):
        buffer.write_episode(episodes[number])
        assert (buffer.lengths.tolist(), buffer.offsets.tolist()) == (state["lengths"], state["offsets"])
        assert (int(buffer.lengths.sum()), len(buffer), buffer.num_valid_ends()) == (
            state["steps"], state["len"], state["len"],
        )  # fmt: skip
        assert [next(iter(ep["proprio"])).tolist() for ep in buffer.episodes()] == state["first_proprio_rows"]
    assert (buffer.lengths.dtype, buffer.offsets.dtype) == (np.int32, np.int64)
    about = expected["sample_fixed_indices"]
    indices = fixed_indices(buffer, about, expected)
    sample = buffer.sample(len(indices))
    for name, column in about.items():
        assert (list(sample[name].shape), str(sample[name].dtype)) == (column["shape"], column["dtype"])
        assert sha256(sample[name]) == column["sha256"]
    assert sample["action"][0].tolist() == expected["sample_actions_0"]
    assert np.allclose(sample["proprio"][0], expected["sample_proprio_0"], rtol=0, atol=0)


def fixed_indices(buffer, about, expected):
    """Return the indices of the sample: the file does not say them, so they are found by the hashes of the clips."""
    count = about["proprio"]["shape"][0]
    clips = [buffer[number] for number in range(len(buffer))]
    first = next(n for n, clip in enumerate(clips) if clip["proprio"].tolist() == expected["sample_proprio_0"])
    for rest in itertools.combinations_with_replacement(range(len(clips)), count - 1):
        chosen = [first, *rest]
        if sha256(np.stack([clips[number]["proprio"] for number in chosen])) == about["proprio"]["sha256"]:
            return chosen
    raise AssertionError("no clips have these values")


@given(lengths=st.lists(st.integers(1, 12), max_size=12), history=st.integers(1, 3))
def test_the_buffer_has_the_newest_episodes_that_fit(lengths, history):
    buffer, written = ReplayBuffer(20, history, 2), []
    for number, length in enumerate(lengths):
        rows = np.arange(length) + 100 * number
        buffer.write_episode({"x": rows, "action": rows[:, None] * [1, 2]})
        written.append(rows)
        while sum(map(len, written)) > 20:
            written.pop(0)
        assert [ep["x"] for ep in buffer.episodes()] == [rows.tolist() for rows in written]
    clips = [rows[start : start + 2 * history : 2] for rows in written for start in range(len(rows) - 2 * history + 1)]
    assert [item["x"].tolist() for item in buffer] == [clip.tolist() for clip in clips]


def test_what_does_not_fit_is_refused():
    buffer = ReplayBuffer(8, key_filter=classic_filter)
    buffer.write_episode({"reward": [], "other": 3})
    assert len(buffer.lengths) == 0
    buffer.write_episode({"reward": np.zeros(3, np.int32), "other": [1]})
    for episode, message in (
        ({"reward": 1.0}, "found a scalar"),
        ({"reward": np.zeros(9, np.int32)}, "at most max_steps = 8"),
        ({"reward": np.array([0.5])}, r"column 'reward': expected int32 \[\] as in the first .*, found float64 \[\]"),
        ({"action": np.zeros(2)}, "column 'reward': expected int32 .*, found none"),
        ({"reward": np.zeros(2, np.int32), "action": np.zeros(2)}, "column 'action': expected no such column"),
        ({"reward": [[1], [1, 2]]}, "column 'reward': expected an array"),
        ({"reward": [object()]}, "column 'reward': expected a text as its name and an array, found object"),
        (None, r"episode: expected \{column: values of its timesteps\}, found None"),
        ({"reward": np.zeros(2, np.int32), "action": np.zeros(1)}, "equal lengths"),
    ):
        with pytest.raises(DatasetError, match=message):
            buffer.write_episode(episode)
    with pytest.raises(ValueError, match="max_steps must be positive"):
        ReplayBuffer(0)
    short = ReplayBuffer(8, 2, 3)
    with pytest.raises(RuntimeError, match="no clips of 6 timesteps: there are no episodes"):
        short.sample(1)
    short.write_episode({"action": np.zeros(5)})
    with pytest.raises(RuntimeError, match="no clips of 6 timesteps: the longest of 1 episode has 5"):
        short.sample(1)
    with pytest.raises(DatasetError, match="sampler: expected 2 numbers below 3"):
        ReplayBuffer.sample(_with_sampler(buffer), 2)
    buffer.clear()
    assert (len(buffer), list(buffer.episodes())) == (0, [])


def _with_sampler(buffer):
    buffer.sampler = lambda *_: [0, 7]
    return buffer


def test_samples_are_drawn_by_the_buffers_own_generator():
    def draw(seed):
        buffer = ReplayBuffer(50, 2, seed=seed)
        buffer.write_episode({"x": np.arange(50)})
        return buffer.sample(6)["x"].tolist()

    state = np.random.get_state()[1].tolist()  # noqa: NPY002  (of which it is that it stays)
    assert draw(1) == draw(1) != draw(2)
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002  (as above)


# ---- scalers -------------------------------------------------------------------------------------------------------


def test_scalers_give_the_values_of_the_original(dataset_fixtures):
    expected = expected_values(dataset_fixtures)["scalers"]
    with np.load(dataset_fixtures / "world_model" / "main_source.npz") as file:
        rows = file["proprio"].astype(np.float64)
    rows[3, 1] = np.nan
    clean = rows[:5].copy()
    clean[3, 1] = np.nan
    scaler = ZScoreScaler().fit(rows)
    assert (scaler.mean.tolist(), scaler.std.tolist()) == (expected["zscore"]["mean"], expected["zscore"]["std"])
    good = [0, 1, 2, 4]
    assert scaler(clean)[good].tolist() == [expected["zscore"]["transform_rows_0_5"][row] for row in good]
    for low, high in ((1, 99), (5, 95)):
        about, percentile = expected[f"percentile_{low}_{high}"], PercentileScaler(low, high).fit(rows)
        assert (percentile.q_low.tolist(), percentile.q_high.tolist()) == (about["q_low"], about["q_high"])
        if "transform_rows_0_5" in about:
            assert percentile(clean)[good].tolist() == [about["transform_rows_0_5"][row] for row in good]
            assert percentile.inverse(np.array([-1, 0, 1, 0.5])).tolist() == about["inverse_of_[-1,0,1,0.5]"]
    constant = ZScoreScaler().fit(np.ones((4, 2)))
    assert constant(np.array([[2.0, 2.0]])).tolist() == [expected["zscore_constant_column"]["transform_of_2"][0]]


def test_columns_of_one_number_are_one_feature():
    values = np.arange(10.0)
    scaler = ZScoreScaler().fit(values)
    assert (scaler.mean.shape, scaler.mean.item()) == ((1, 1), 4.5)
    assert np.allclose(scaler.inverse(scaler(values)), values)
    assert scaler(np.array(4.5)).shape == ()
    assert PercentileScaler(0, 100).fit(values)(values)[[0, 9]].tolist() == [-1, 1]


def test_tensors_give_float32_tensors_and_scalers_are_sent_to_workers():
    scaler = pickle.loads(pickle.dumps(get_scaler("zscore").fit(np.arange(6.0).reshape(3, 2))))  # noqa: S301  (our own)
    found = scaler(torch.tensor([[2.0, 3.0]], dtype=torch.float64))
    assert (found.dtype, found.tolist()) == (torch.float32, [[0.0, 0.0]])
    assert isinstance(get_scaler("none"), IdentityScaler)
    with pytest.raises(ValueError, match="Unknown normalizer method 'max'"):
        get_scaler("max")


@pytest.mark.parametrize("method", ["zscore", "percentile"])
def test_what_cannot_be_scaled_is_refused(method):
    for rows, message in (
        (np.zeros((0, 3)), "expected rows without NaN to fit on, found none"),
        (np.full((3, 2), np.nan), "expected rows without NaN to fit on, found none"),
        (np.array([1.0, np.inf]), "expected finite numbers to fit on"),
        (3.0, "expected rows of numbers to fit on, found float64"),
        (["a", "b"], "expected rows of numbers to fit on, found <U1"),
        ([[1], [1, 2]], "scaler: expected an array"),
    ):
        with pytest.raises(DatasetError, match=message):
            get_scaler(method).fit(rows)
    with pytest.raises(DatasetError, match=r"expected rows of 3 numbers, as it was fitted, found \[2, 4\]"):
        get_scaler(method).fit(np.eye(3))(np.zeros((2, 4)))
    with pytest.raises(DatasetError, match="low: expected a finite number, found 'a'"):
        get_scaler("percentile", low="a")


def test_a_column_is_fitted_episode_by_episode(tmp_path):
    columns = make_columns(pixels=0)
    write_hdf5(tmp_path / "a.h5", columns)
    data = HDF5Dataset(path=tmp_path / "a.h5")
    found = column_normalizer(data, "proprio", "scaled")
    assert repr(found) == "<WrapTorchTransform: proprio -> scaled by ZScoreScaler>"
    whole = ZScoreScaler().fit(columns["proprio"])
    assert np.allclose(found.scaler.mean, whole.mean, rtol=1e-12)
    assert np.allclose(found.scaler.std, whole.std, rtol=1e-12)
    item = HDF5Dataset(path=tmp_path / "a.h5", transform=found)[0]
    assert np.allclose(item["scaled"], whole(columns["proprio"][:1]).astype(np.float32))
    assert found.scaler.source_hash == column_normalizer(data, "proprio", "x", "percentile").scaler.source_hash
    assert found.scaler.source_hash != column_normalizer(data, "reward", "x").scaler.source_hash
    with pytest.raises(EntryNotFoundError, match="normalizer: no column 'proprio'; there are action"):
        HDF5Dataset(path=tmp_path / "a.h5", transform=found, keys_to_load=["action"])[0]
