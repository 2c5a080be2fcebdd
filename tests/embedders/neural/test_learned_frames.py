"""The trained network of camera frames: its arithmetic, its file, and what training makes of it."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from shard_entries import rewrite_entries

from embedders import make_embedder
from embedders.neural import frame_training
from embedders.neural.frame_network import TAPS, FrameNetwork, FrameShape, read_cells
from embedders.neural.frame_training import FEWEST, FrameTraining, train_frames
from embedders.neural.learned_frames import LearnedFrames
from embedders.neural.network import save_network
from embedders.neural.temporal_encoder import Encoder, Shape
from embedders.testing import EmbedderContract
from embedders.window_batches import Cuts
from wshard.errors import EmbedderError, MissingExtraError

SMALL = FrameShape(side=9, first=3, second=4, third=5, dim=6)


def a_network(shape=SMALL, seed=0):
    rng = np.random.default_rng(seed)
    arrays = {name: rng.normal(0, 0.3, size).astype(np.float32) for name, size in shape.arrays().items()}
    return FrameNetwork(shape, arrays)


@pytest.fixture
def file(tmp_path):
    save_network(a_network(), tmp_path / "seen.wshard-model")
    return tmp_path / "seen.wshard-model"


class TestLearnedFrames(EmbedderContract):
    shape = (20, 17, 3)

    @pytest.fixture(autouse=True)
    def _file(self, file):
        self.file = file

    def make(self):
        return LearnedFrames(self.file)


def by_hand(network, cells):
    """Describe one frame by loops over pixels and taps."""
    rows = (cells - cells.mean()) / cells.std()
    for layer, taps in enumerate(TAPS):
        kernel = network.weights[f"taps{layer}"].reshape(taps, taps, rows.shape[2], -1)
        side = (len(rows) + 1) // 2
        made = np.zeros((side, side, kernel.shape[3]))
        for y, x, i, j in np.ndindex(side, side, taps, taps):
            row, column = 2 * y + i - taps // 2, 2 * x + j - taps // 2
            if 0 <= row < len(rows) and 0 <= column < len(rows):
                made[y, x] += rows[row, column] @ kernel[i, j]
        rows = np.maximum(made + network.weights[f"bias{layer}"], 0)
    feature = rows.reshape(-1) @ network.weights["map"]
    feature -= feature.mean()
    return feature / np.linalg.norm(feature)


def test_the_layers_do_what_they_say(file):
    frames = np.random.default_rng(1).integers(0, 256, (3, 13, 16, 3), np.uint8)
    found = LearnedFrames(file).encode_frames(frames)
    expected = [by_hand(a_network(), read_cells(frame, SMALL.side).astype(float)) for frame in frames]
    assert np.allclose(found, expected, rtol=1e-3, atol=1e-4)
    assert np.array_equal(np.concatenate([LearnedFrames(file).encode_frames(frame[None]) for frame in frames]), found)


def test_stored_features_give_the_vectors_that_frames_give(file):
    frames = np.random.default_rng(1).integers(0, 256, (40, 12, 12, 3), np.uint8)
    embedder = LearnedFrames(file, stride=3)
    cuts = Cuts([(frames, np.array([[0, 40], [7, 31]]))])
    stored = embedder.encode_frames(frames).astype(np.float16)[:, None]
    assert np.array_equal(embedder.pool([stored, stored[7:31]]), embedder.embed(cuts, None))


def test_neither_size_nor_brightness_counts_much(file):
    rng = np.random.default_rng(2)
    small = rng.integers(60, 120, (4, 18, 18, 3), np.uint8)
    encode = LearnedFrames(file).encode_frames
    for other in (small.repeat(3, axis=1).repeat(3, axis=2), small * 2):
        assert (encode(small) * encode(other)).sum(axis=1).min() > 0.99
    assert (encode(small) * encode(small[::-1])).sum(axis=1).max() < 0.99


def test_a_file_says_which_embedder_it_is_of(file, tmp_path):
    assert isinstance(make_embedder(str(file)), LearnedFrames)
    assert make_embedder(f"learnedframes:{file}").fingerprint == make_embedder(str(file)).fingerprint
    save_network(a_network(seed=1), tmp_path / "other.wshard-model")
    assert make_embedder(str(tmp_path / "other.wshard-model")).fingerprint != make_embedder(str(file)).fingerprint
    shape = Shape(2, 3, 4)
    weights = {name: np.zeros(size, np.float32) for name, size in shape.arrays().items()}
    save_network(Encoder(shape, weights), tmp_path / "states.wshard-model")
    assert make_embedder(str(tmp_path / "states.wshard-model")).name == "learned"


@pytest.mark.parametrize(
    "changed",
    [
        {"about": b'{"side": 9, "first": 3, "second": 4, "third": 5, "dim": 1000000000}'},
        {"about": b'{"side": 9, "first": 3, "second": 4, "third": 4, "dim": 6}'},
        {"about": b'{"side": 9.5}'},
        {"about": b"[3]"},
        {"about": None},
        {"map": None},
        {"bias1": np.full(4, np.nan, "<f4").tobytes()},
    ],
)
def test_files_that_no_training_wrote_are_refused(file, changed):
    rewrite_entries(file, changed)
    with pytest.raises(EmbedderError, match=r"seen\.wshard-model: expected (the network|an embedder) that `wshard"):
        make_embedder(str(file)).dim(3)


@pytest.mark.parametrize("content", [None, b"", b"not a shard"])
def test_other_files_are_refused(tmp_path, content):
    if content is not None:
        (tmp_path / "cut.wshard-model").write_bytes(content)
    with pytest.raises(EmbedderError, match=r"cut\.wshard-model: expected an embedder that `wshard train-embedder`"):
        make_embedder(str(tmp_path / "cut.wshard-model"))


def rooms(count, rng, *, moments=8):
    """Return episodes [2, moments, 16, 16, 3]: a spot that crosses a room of its own, seen from two sides."""
    episodes = []
    for _ in range(count):
        room = rng.integers(0, 160, (4, 4, 3)).repeat(4, axis=0).repeat(4, axis=1)
        seen = np.repeat(room[None], moments, axis=0)
        for moment in range(moments):
            seen[moment, 6:10, 2 * moment : 2 * moment + 2] = 255
        episodes.append(np.stack([seen, 255 - seen[:, :, ::-1]]).astype(np.uint8))
    return episodes


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'wshard\[torch\]'"):
        train_frames(rooms(9, np.random.default_rng(0)), SMALL, FrameTraining())


def test_too_few_moments_are_refused():
    rng = np.random.default_rng(0)
    for episodes in ([], rooms(1, rng, moments=FEWEST), rooms(3, rng)):
        with pytest.raises(EmbedderError, match=f"expected at least 2 episodes with {FEWEST} moments, found"):
            train_frames(episodes, SMALL, FrameTraining())


torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'wshard[torch]'")


def test_cameras_of_a_moment_become_alike_and_training_repeats_itself(monkeypatch):
    monkeypatch.setattr(frame_training, "_ROUND", 40)  # steps, after which it is found which episodes went alike
    shape = FrameShape(16, 4, 8, 16, 16, cameras=2)
    episodes = rooms(16, np.random.default_rng(0))

    network = train_frames(episodes, shape, FrameTraining(steps=120, batch=32, rate=1e-2))
    first, second = (
        np.stack([network.describe(frame.astype(np.float32)) for seen in episodes for frame in seen[camera]])
        for camera in (0, 1)
    )
    best = (first @ second.T).argmax(axis=1) // 8
    assert (best == np.arange(len(first)) // 8).mean() > 0.35  # by chance 0.06
    few = [train_frames(episodes, shape, FrameTraining(steps=2, batch=24, seed=seed)).sha256 for seed in (3, 3, 4)]
    assert few[0] == few[1] != few[2]
