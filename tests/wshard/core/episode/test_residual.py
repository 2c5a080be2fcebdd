"""Residual lanes against literal loops over the formulas, and lanes of modalities and latent actions."""

from __future__ import annotations

import copy
import math
import pickle
import struct
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from wshard import (
    Channel,
    Modality,
    Residual,
    add_multimodal_observation,
    compute_error_residual,
    compute_sign2nd_diff,
    compute_sign2nd_diff_multidim,
    decode_residuals,
    dequantize_delta,
    get_latent_actions,
    get_latent_codebook,
    get_multimodal_observations,
    load_wshard,
    open_wshard,
    pack_multidim_residual_bitmask,
    pack_multidim_residual_bits,
    pack_residual_bitmask,
    pack_residual_bits,
    quantize_delta,
    reconstruct_from_omen_and_delta,
    save_wshard,
    set_latent_actions,
    unpack_multidim_residual_bitmask,
    unpack_multidim_residual_bits,
    unpack_residual_bitmask,
    unpack_residual_bits,
)
from wshard.core.episode import residual
from wshard.core.episode.residual import pack_bool_mask, sign2nd_diff, unpack_bool_mask
from wshard.errors import EpisodeError, LaneError
from wshard.testing import assert_same_episode, make_episode

INTEGERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]


def sign(value: float) -> int:
    return (value > 0) - (value < 0)


# ---- curvature ------------------------------------------------------------------------------------------------------


@given(data=st.data(), dtype=st.sampled_from(INTEGERS), length=st.integers(0, 12))
def test_integers_of_any_size_never_wrap(data, dtype, length):
    x = data.draw(hnp.arrays(dtype, length))
    v = [int(value) for value in x]
    expected = [sign(2 * v[i] - v[i - 1] - v[i + 1]) if 0 < i < length - 1 else 0 for i in range(length)]
    assert compute_sign2nd_diff(x).tolist() == expected


@given(x=hnp.arrays("f8", st.integers(0, 12), elements=st.integers(-(2**50), 2**50).map(float)))
def test_floats_that_add_exactly(x):
    v = [Fraction(value) for value in x.tolist()]
    expected = [sign(2 * v[i] - v[i - 1] - v[i + 1]) if 0 < i < len(v) - 1 else 0 for i in range(len(v))]
    assert compute_sign2nd_diff(x).tolist() == expected
    assert [sign2nd_diff(*x[i - 1 : i + 2]) for i in range(1, len(v) - 1)] == expected[1:-1]


@given(x=hnp.arrays(st.sampled_from(["f2", "f4", "f8"]), st.integers(0, 12)))
def test_any_float_gives_a_sign_without_a_warning(x):
    found = compute_sign2nd_diff(x)
    assert found.dtype == np.int8
    for i in range(1, len(x) - 1):
        if any(math.isnan(value) for value in x[i - 1 : i + 2].tolist()):
            assert found[i] == 0
        assert found[i] in (-1, 0, 1)


def test_half_floats_do_not_overflow():
    assert compute_sign2nd_diff(np.array([60000, 60000, 60000, 0], np.float16)).tolist() == [0, 0, 1, 0]


@given(x=hnp.arrays("i2", hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=6)))
def test_columns_are_signals_of_their_own(x):
    found = compute_sign2nd_diff_multidim(x)
    assert found.shape == x.shape
    for column in range(x.shape[1]):
        assert found[:, column].tolist() == compute_sign2nd_diff(x[:, column]).tolist()


def test_the_error_of_a_prediction():
    signal, omen = np.array([0, 5, 0, 9], np.uint8), np.array([9, 0, 9, 0], np.uint8)
    assert compute_error_residual(signal, omen).tolist() == [0, 1, -1, 0]
    assert compute_error_residual(signal[:, None], omen[:, None]).tolist() == [[0], [1], [-1], [0]]
    assert compute_error_residual(np.array([0, np.inf, 0]), np.array([0, np.inf, 0])).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "call",
    [
        lambda: compute_sign2nd_diff(np.zeros((3, 3))),
        lambda: compute_sign2nd_diff_multidim(np.zeros(3)),
        lambda: compute_sign2nd_diff(np.array(["a", "b", "c"])),
        lambda: compute_sign2nd_diff(np.zeros(3, complex)),
        lambda: compute_sign2nd_diff(np.zeros(3), "wrap"),
        lambda: compute_error_residual(np.zeros(3), np.zeros(4)),
        lambda: compute_error_residual(np.zeros((1, 1, 1)), np.zeros((1, 1, 1))),
        lambda: pack_residual_bits(np.zeros((3, 3))),
        lambda: pack_multidim_residual_bits(np.zeros(3)),
        lambda: quantize_delta(np.zeros((3, 3)), np.zeros((3, 3))),
        lambda: quantize_delta(np.zeros(3), np.zeros(3), 0),
        lambda: quantize_delta(np.array([1e300]), np.zeros(1)),
        lambda: dequantize_delta(np.zeros(300, np.int8), np.ones(1, np.float32)),
        lambda: reconstruct_from_omen_and_delta(np.zeros(4), np.zeros(3, np.int8), np.ones(1, np.float32)),
    ],
)
def test_wrong_arrays_are_reported(call):
    with pytest.raises(EpisodeError):
        call()


def test_an_edge_rule_of_older_writers_is_accepted():
    assert compute_sign2nd_diff(np.array([0, 1, 0]), "overlap").tolist() == [0, 1, 0]


# ---- bits -----------------------------------------------------------------------------------------------------------

SIGNS = hnp.arrays("i1", hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=20), elements=st.integers(-1, 1))


@given(signs=SIGNS)
def test_bits_by_a_literal_loop(signs):
    steps, width = signs.shape
    size = (steps + 7) // 8
    expected = bytearray(width * size)
    for d in range(width):
        for t in range(steps):
            if signs[t, d] > 0:
                expected[d * size + t // 8] |= 1 << (t % 8)
    unpacked = [[1 if value > 0 else -1 for value in row] for row in signs.tolist()]
    packed = pack_multidim_residual_bits(signs)
    assert packed == bytes(expected)
    assert unpack_multidim_residual_bits(packed, steps, width).tolist() == unpacked
    first = pack_residual_bits(signs[:, 0])
    assert first == pack_residual_bitmask(signs[:, 0]) == packed[:size]
    assert unpack_residual_bits(first, steps).tolist() == [row[0] for row in unpacked]
    assert unpack_residual_bitmask(packed, steps).tolist() == [row[0] for row in unpacked]
    framed = b"".join(struct.pack("<I", size) + packed[d * size : (d + 1) * size] for d in range(width))
    assert pack_multidim_residual_bitmask(signs) == framed
    assert unpack_multidim_residual_bitmask(framed, steps, width).tolist() == unpacked


@given(mask=hnp.arrays(bool, st.integers(0, 30)))
def test_masks_come_back(mask):
    packed = pack_bool_mask(mask)
    assert len(packed) == (len(mask) + 7) // 8
    assert unpack_bool_mask(packed, len(mask)).tolist() == mask.tolist()


def test_nothing_packs_into_nothing():
    assert pack_residual_bits(np.zeros(0, np.int8)) == b""
    assert unpack_residual_bits(b"", 0).shape == (0,)
    assert unpack_multidim_residual_bits(b"", 0, 3).shape == (0, 3)
    assert unpack_multidim_residual_bits(b"", 5, 0).shape == (5, 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: unpack_residual_bits(b"", 1),
        lambda: unpack_residual_bits(bytes(3), 9),
        lambda: unpack_residual_bits(b"a", 0),
        lambda: unpack_residual_bits(b"", -5),
        lambda: unpack_multidim_residual_bits(bytes(4), 9, 3),
        lambda: unpack_multidim_residual_bits(bytes(3), 9, 2),
        lambda: unpack_multidim_residual_bitmask(bytes(11), 9, 2),
        lambda: unpack_multidim_residual_bitmask(struct.pack("<IHIH", 2, 0, 1, 0).ljust(12), 9, 2),
        lambda: unpack_multidim_residual_bitmask(struct.pack("<I", 2**32 - 1) + bytes(2), 9, 1),
    ],
)
def test_wrong_bits_are_reported(call):
    with pytest.raises(LaneError):
        call()


def test_masks_of_an_episode():
    signs = np.random.default_rng(0).choice([-1, 1], (21, 3)).astype(np.int8)
    ep = replace(
        make_episode(T=21),
        residuals={
            "all": Residual("all", "sign2nddiff", np.frombuffer(pack_multidim_residual_bits(signs), np.uint8)),
            "one": Residual("one", "sign2nddiff", np.frombuffer(pack_residual_bits(signs[:, 1]), np.uint8)),
            "other": Residual("other", "delta", np.zeros(7, np.uint8)),
        },
    )
    decode_residuals(ep)
    assert ep.residuals["all"].mask.tolist() == signs.tolist()
    assert ep.residuals["one"].mask.tolist() == signs[:, 1].tolist()
    assert np.frombuffer(ep.residuals["one"].mask, np.int8).tolist() == signs[:, 1].tolist()
    assert ep.residuals["other"].mask is None
    ep.residuals["bad"] = Residual("bad", "sign2nddiff", np.zeros(4, np.uint8))
    with pytest.raises(LaneError, match="multiple of 3 bytes"):
        decode_residuals(ep)


def test_bits_that_another_program_wrote(wshard_fixtures):
    with open_wshard(wshard_fixtures / "other-writers" / "go_episode.wshard") as file:
        ep = file.load()
        raw = file.shard.read_entry("residual/joint_pos/sign2nddiff")
    signal = ep.observations["joint_pos"].data[:, 0]  # its writer stored the first of seven dimensions
    assert pack_residual_bits(compute_sign2nd_diff(signal)) == raw
    decode_residuals(ep)
    assert ep.residuals["joint_pos"].mask.shape == (20,)


# ---- quantised difference -------------------------------------------------------------------------------------------


@given(data=st.data(), length=st.integers(0, 20), window=st.integers(1, 7))
def test_quantising_by_a_literal_loop(data, length, window):
    values = st.floats(-1000, 1000, width=32)
    signal = data.draw(hnp.arrays("f8", length, elements=values))
    omen = data.draw(hnp.arrays("f8", length, elements=values))
    quantised, scales = quantize_delta(signal, omen, window)
    assert (quantised.dtype, scales.dtype) == (np.int8, np.float32)
    assert scales.shape == (-(-length // window),)
    for number, scale in enumerate(scales):
        part = [float(s) - float(o) for s, o in zip(signal, omen, strict=True)][number * window : (number + 1) * window]
        largest = max(abs(delta) for delta in part)
        assert scale == (np.float32(largest / 127) or 1)
        for delta, step in zip(part, quantised[number * window :], strict=False):
            assert step == max(-127, min(127, round(delta / float(scale))))  # Python rounds halves to even as well
    restored = reconstruct_from_omen_and_delta(omen, quantised, scales, window)
    for t in range(length):
        assert abs(restored[t] - signal[t]) <= 0.501 * scales[t // window] + 1e-3


def test_halves_are_rounded_to_even():
    quantised, _ = quantize_delta(np.array([127, 0.5, 1.5, 2.5, -0.5]), np.zeros(5))
    assert quantised.tolist() == [127, 0, 2, 2, 0]


def test_invalid_number_is_not_a_difference():
    signal = np.array([np.nan, np.inf, -np.inf, 2, 1], np.float32)
    quantised, scales = quantize_delta(signal, np.zeros(5, np.float32))
    assert quantised.tolist() == [0, 0, 0, 127, 64]
    assert scales.tolist() == [np.float32(2 / 127)]
    assert quantize_delta(np.array([1e-60]), np.zeros(1))[1].tolist() == [1]


def test_unsigned_differences_do_not_wrap():
    quantised, scales = quantize_delta(np.array([0, 254], np.uint8), np.array([254, 0], np.uint8))
    assert quantised.tolist() == [-127, 127]
    assert dequantize_delta(quantised, scales).tolist() == [-254, 254]


def test_no_foreign_package_is_needed():
    assert residual.HAS_COWRIE is False


# ---- modalities and latent actions ----------------------------------------------------------------------------------


def test_modalities_survive_a_file(tmp_path):
    ep = make_episode()
    lane = Channel.of("own", np.zeros((20, 2, 2, 3), np.uint8), sampling_rate_hz=30.0)
    add_multimodal_observation(ep, "head", Modality.RGB, lane)
    add_multimodal_observation(ep, "head", "depth", Channel.of("d", np.zeros((20, 2, 2), np.float32)))
    add_multimodal_observation(ep, "header", Modality.RGB, lane)
    assert (lane.name, lane.modality) == ("own", None)
    save_wshard(ep, tmp_path / "e.wshard")
    loaded = load_wshard(tmp_path / "e.wshard")
    assert_same_episode(loaded, ep)
    assert list(get_multimodal_observations(loaded, "head")) == ["head/rgb", "head/depth"]
    assert list(get_multimodal_observations(loaded, modality=Modality.RGB)) == ["head/rgb", "header/rgb"]
    assert list(get_multimodal_observations(loaded, "head", Modality.RGB)) == ["head/rgb"]
    assert len(get_multimodal_observations(loaded)) == 5
    with pytest.raises(EpisodeError, match="modality"):
        add_multimodal_observation(ep, "head", "smell", lane)
    with pytest.raises(EpisodeError, match="group"):
        add_multimodal_observation(ep, "", Modality.RGB, lane)


def test_latent_actions_survive_a_file(tmp_path):
    ep = make_episode()
    vectors = Channel.of("v", np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32))
    codes = Channel.of("c", np.arange(20, dtype=np.int64))
    set_latent_actions(ep, "one", vectors, codes)
    set_latent_actions(ep, "two", vectors)
    save_wshard(ep, tmp_path / "e.wshard")
    loaded = load_wshard(tmp_path / "e.wshard")
    assert_same_episode(loaded, ep)
    assert np.array_equal(get_latent_actions(loaded, "two").data, vectors.data)
    assert get_latent_codebook(loaded, "one").dtype == "i64"
    assert get_latent_codebook(loaded, "two") is None
    assert get_latent_actions(loaded, "three") is None
    assert get_latent_actions(make_episode(), "one") is None


def test_new_embeddings_do_not_keep_old_indices():
    ep = make_episode()
    lane = Channel.of("v", np.zeros(20))
    set_latent_actions(ep, "m", lane, lane)
    set_latent_actions(ep, "m", lane)
    assert get_latent_codebook(ep, "m") is None
    for name in ("", "a/b"):
        with pytest.raises(EpisodeError, match="model_id"):
            set_latent_actions(ep, name, lane)


def test_arrays_are_taken_where_channels_are(tmp_path):
    ep, vectors, codes = make_episode(), np.ones((20, 8), np.float32), np.arange(20)
    set_latent_actions(ep, "m", vectors, codes)
    add_multimodal_observation(ep, "head", Modality.DEPTH, np.zeros((20, 2, 2), np.float32))
    save_wshard(ep, tmp_path / "e.wshard")
    loaded = load_wshard(tmp_path / "e.wshard")
    assert np.array_equal(get_latent_actions(loaded, "m").data, vectors)
    assert np.array_equal(get_latent_codebook(loaded, "m").data, codes)
    assert loaded.observations["head/depth"].shape == [2, 2]
    for nothing in ("text", object(), np.array(1.0), {"a": 1}):
        with pytest.raises(EpisodeError, match="latent_action/n"):
            set_latent_actions(ep, "n", nothing)
        with pytest.raises(EpisodeError):
            set_latent_actions(ep, "n", vectors, nothing)
        with pytest.raises(EpisodeError):
            add_multimodal_observation(ep, "hand", Modality.RGB, nothing)
    assert get_latent_actions(ep, "n") is None


def test_the_bits_of_a_residual_are_equal_to_the_bytes_that_were_packed(tmp_path):
    packed = pack_residual_bits(np.ones(20))
    ep = make_episode()
    ep.residuals["joint_pos"] = Residual("joint_pos", "sign2nddiff", packed)
    save_wshard(ep, tmp_path / "e.wshard")
    sent = pickle.loads(pickle.dumps(ep))  # noqa: S301  (its own)
    for found in (ep, load_wshard(tmp_path / "e.wshard"), copy.deepcopy(ep), sent):
        data = found.residuals["joint_pos"].data
        assert data == packed
        assert packed == data
        assert data != packed[:-1]
        assert bytes(data) == packed
        assert (data == np.frombuffer(packed, np.uint8)).all()
        assert (data != 0).any()
