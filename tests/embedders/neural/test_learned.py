"""The trained encoder: its arithmetic, its file, what training makes of it, and the way from archive to hits."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from command_line import app
from shard_entries import rewrite_entries
from typer.testing import CliRunner

from bridge.training.train_encoder import Lesson, train_embedder
from embedders import Space, embedder_of, make_embedder, unit_rows
from embedders.neural.learned import Learned
from embedders.neural.network import load_network, save_network
from embedders.neural.temporal_encoder import (
    DILATIONS,
    LENGTH,
    SEGMENTS,
    TAPS,
    Encoder,
    Shape,
    along_arc,
)
from embedders.neural.training import FEWEST, Training, mutual_neighbours, paced_steps, train
from embedders.testing import EmbedderContract
from embedders.trajectory.disturbances import disturb
from wshard import TrajectoryIngestor, TrajectoryRetriever, load_wshard, open_archive, save_wshard
from wshard.errors import EmbedderError, QueryError, UnknownEmbedderError
from wshard.testing import make_episode

SMALL = Shape(5, 6, 9)


def an_encoder(shape=SMALL, seed=0):
    rng = np.random.default_rng(seed)
    return Encoder(shape, {name: rng.normal(0, 0.3, size).astype(np.float32) for name, size in shape.arrays().items()})


@pytest.fixture
def file(tmp_path):
    save_network(an_encoder(), tmp_path / "encoder.shard")
    return tmp_path / "encoder.shard"


class TestLearned(EmbedderContract):
    @pytest.fixture(autouse=True)
    def _file(self, file):
        self.file = file

    def make(self):
        return Learned(self.file)


def by_hand(encoder, window):
    """Encode one window by loops over timesteps and taps."""
    rows = along_arc([window])[0]
    hidden = rows
    for layer, dilation in enumerate(DILATIONS):
        taps = encoder.weights[f"taps{layer}"].astype(float).reshape(TAPS, hidden.shape[1], -1)
        made = np.zeros((LENGTH, taps.shape[2]))
        for step in range(LENGTH):
            for tap in range(TAPS):
                other = step + (tap - TAPS // 2) * dilation
                if 0 <= other < LENGTH:
                    made[step] += hidden[other] @ taps[tap]
        made = np.maximum(made + encoder.weights[f"bias{layer}"], 0)
        hidden = made if layer == 0 else hidden + made
    parts = np.split(np.hstack([hidden, rows]), SEGMENTS)
    return np.concatenate([part.mean(axis=0) for part in parts]) @ encoder.weights["map"]


def test_the_layers_do_what_they_say():
    windows = [np.random.default_rng(1).normal(size=(length, 5)) for length in (1, 7, 90)]
    encoded = an_encoder().encode(windows)
    assert np.allclose(encoded, [by_hand(an_encoder(), window) for window in windows], rtol=1e-4, atol=1e-5)


def test_the_file_holds_the_encoder_and_the_digest_its_weights(file):
    read = load_network(file, Encoder)
    assert read.shape == SMALL
    assert read.sha256 == an_encoder().sha256 != an_encoder(seed=1).sha256
    assert all((read.weights[name] == array).all() for name, array in an_encoder().weights.items())


@pytest.mark.parametrize(
    "changed",
    [
        {"about": b'{"channels": 5, "width": 6, "dim": 1000000000}'},
        {"about": b'{"channels": 5, "width": 7, "dim": 9}'},
        {"about": b'{"channels": true, "width": 6, "dim": 9}'},
        {"about": b"[" * 100_000},
        {"about": b"{}"},
        {"about": None},
        {"map": b"\0" * 8},
        {"map": None},
        {"bias0": np.full(6, np.nan, "<f4").tobytes()},
    ],
)
def test_files_that_no_training_wrote_are_refused(file, changed):
    rewrite_entries(file, changed)
    with pytest.raises(EmbedderError, match=r"encoder\.shard: expected the encoder"):
        load_network(file, Encoder)


@pytest.mark.parametrize("content", [None, b"", b"not a shard", b"SHRD" + b"\xff" * 100])
def test_other_files_are_refused(tmp_path, content):
    if content is not None:
        (tmp_path / "encoder.shard").write_bytes(content)
    with pytest.raises(EmbedderError, match=r"encoder\.shard: expected the encoder"):
        Learned(tmp_path / "encoder.shard").parameters()


def test_windows_of_other_channels_are_refused(file):
    with pytest.raises(EmbedderError, match="trained on 5 channels, found windows of 3"):
        Learned(file).dim(3)


def test_the_name_may_carry_the_file(file):
    assert make_embedder(f"learned:{file}").parameters() == {"sha256": an_encoder().sha256}


def shapes(count, rng):
    """Return windows of eight kinds of movement, `count` of each, and their kinds."""
    windows, kinds = [], []
    for kind in range(8):
        knots = np.random.default_rng(100 + kind).normal(size=(6, 3))
        for _ in range(count):
            places = np.linspace(0, 5, int(rng.integers(40, 90)))
            path = np.stack([np.interp(places, np.arange(6), column) for column in knots.T], axis=1)
            windows.append(path + 0.05 * rng.normal(size=path.shape))
            kinds.append(kind)
    return windows, np.array(kinds)


def test_mutual_neighbours_are_mutual_and_of_a_kind():
    windows, kinds = shapes(14, np.random.default_rng(0))
    like = mutual_neighbours(windows)
    assert all(one in like[other] for one, others in enumerate(like) for other in others)
    assert all((kinds[others] == kinds[one]).all() for one, others in enumerate(like))


torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'wshard[torch]'")
torch.set_num_threads(1)  # tests share the cores already


def test_training_learns_to_distinguish_movements_and_repeats_itself():
    windows, kinds = shapes(12, np.random.default_rng(0))
    training = Training(steps=40, batch=64, seed=3)
    losses = []
    encoder = train(windows, Shape(3, 16, 16), training, lambda _, loss: losses.append(loss))
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.5
    rng = np.random.default_rng(9)
    index = unit_rows(encoder.encode(windows))
    requested = unit_rows(encoder.encode([disturb(window, rng) for window in windows]))
    similar = requested @ index.T
    np.fill_diagonal(similar, -2)
    assert (kinds[similar.argmax(axis=1)] == kinds).mean() > 0.9
    again = train(windows, Shape(3, 16, 16), Training(steps=3, batch=64, seed=3))
    assert again.sha256 == train(windows, Shape(3, 16, 16), Training(steps=3, batch=64, seed=3)).sha256
    assert again.sha256 != train(windows, Shape(3, 16, 16), Training(steps=3, batch=64, seed=4)).sha256


@pytest.mark.long
def test_training_stops_when_its_time_is_over():
    windows, _ = shapes(8, np.random.default_rng(0))
    message = []
    train(windows, Shape(3, 4, 4), Training(steps=10_000, seconds=0.0), lambda step, _: message.append(step))
    assert message == [1]


def rates(steps, seconds, clock):
    """Return the learning rates of the steps that fit."""
    optimizer = torch.optim.AdamW([torch.zeros(1)], lr=1.0)
    found = []
    for _ in paced_steps(torch, optimizer, Training(steps=steps, seconds=seconds, rate=1.0), clock):
        optimizer.step()
        found.append(optimizer.param_groups[0]["lr"])
    return np.array(found)


@pytest.mark.parametrize("waits", [(0.1,), (0.5, 0.02)])
def test_the_learning_rate_has_fallen_when_the_time_is_over(waits):
    whole = rates(1000, np.inf, itertools.count().__next__)
    assert len(whole) == 1000
    assert whole.argmax() == 299
    assert whole[-1] < 1e-4
    cut = rates(1000, 10.0, itertools.accumulate(itertools.cycle(waits), initial=5.0).__next__)
    assert 10.0 - 2 * max(waits) <= len(cut) * np.mean(waits) <= 10.0 + 2 * max(waits)
    assert cut.max() > 0.98
    assert cut[-1] < 0.02
    assert np.diff(cut[cut.argmax() :]).max() < 0


def test_too_few_windows_are_refused():
    with pytest.raises(EmbedderError, match=f"at least {FEWEST} windows, found 3"):
        train([np.zeros((4, 2))] * 3, Shape(2), Training())


@pytest.fixture
def archive(tmp_path):
    (tmp_path / "episodes").mkdir()
    for number in range(FEWEST):
        save_wshard(make_episode(number, 40), tmp_path / "episodes" / f"{number}.wshard")
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        assert ingestor.ingest(tmp_path / "episodes", windows="whole").ok
    return tmp_path


def test_from_an_archive_to_hits_by_the_command_line(archive):
    out = archive / "encoder.shard"
    place = ["--archive", str(archive / "archive")]
    printed = CliRunner().invoke(app, ["train-embedder", str(out), *place, "--steps", "2", "--json"])
    assert printed.exit_code == 0, printed.output
    learnt = json.loads(printed.stdout)
    assert learnt["windows"] == FEWEST
    assert learnt["left_out"] == []
    ingested = CliRunner().invoke(app, ["ingest", str(archive / "episodes"), *place, "--embedder", f"learned:{out}"])
    assert ingested.exit_code == 0, ingested.output
    query = load_wshard(archive / "episodes" / "7.wshard")
    with TrajectoryRetriever(archive / "archive", f"learned:{out}") as retriever:
        best = retriever.search_similar_episodes(query, 1)[0]
    with open_archive(archive / "archive") as opened:
        spaces = [Space.from_json(row.definition) for row in opened.catalog.vectors.spaces("active")]
    assert best.file_path.endswith("/7.wshard")
    assert best.score == pytest.approx(1)
    with pytest.raises(UnknownEmbedderError, match=r"name the embedder"):
        embedder_of(next(space for space in spaces if space.embedder == "learned"))


def test_an_episode_that_is_gone_is_reported_and_lanes_that_differ_are_refused(archive):
    (archive / "episodes" / "0.wshard").unlink()
    save_wshard(make_episode(100, 40), archive / "episodes" / "more.wshard")
    with TrajectoryIngestor(archive / "archive") as ingestor:
        assert ingestor.ingest(archive / "episodes", windows="whole").ok
    learnt = train_embedder(archive / "archive", archive / "encoder.shard", training=Training(steps=1))
    assert learnt.windows == FEWEST
    assert [failure.path.rpartition("/")[2] for failure in learnt.left_out] == ["0.wshard"]
    with pytest.raises(QueryError, match="found none that pass the filter and have them"):
        train_embedder(archive / "archive", archive / "no.shard", Lesson(["signal/none"]))
    assert not (archive / "no.shard").exists()
