"""The learned descriptor: its file, what training makes of it, and the way from an archive to hits."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from bridge.archive import open_archive
from bridge.cli.main import app
from bridge.ingest.ingestor import TrajectoryIngestor
from bridge.search.retriever import TrajectoryRetriever
from bridge.training.train_embedder import Lesson, train_embedder
from embedders.base import unit_rows
from embedders.registry import embedder_of, make_embedder
from embedders.space import Space
from embedders.testing import EmbedderContract
from embedders.trajectory.blocks import Blocks
from embedders.trajectory.learned import Learned
from embedders.trajectory.projection import Projection, load_projection
from embedders.trajectory.training import FEWEST, Training, disturb, train
from wshard import load_wshard, save_wshard
from wshard.container.reader import ShardReader
from wshard.container.writer import ShardWriter
from wshard.errors import EmbedderError, QueryError, UnknownEmbedderError
from wshard.testing import make_episode

SIZE = Blocks().dim(5)


def a_projection(seed=0):
    rng = np.random.default_rng(seed)
    return Projection(5, rng.normal(0, 0.01, SIZE).astype(np.float32), rng.normal(size=(SIZE, 9)).astype(np.float32))


@pytest.fixture
def file(tmp_path):
    a_projection().save(tmp_path / "weights.shard")
    return tmp_path / "weights.shard"


class TestLearned(EmbedderContract):
    @pytest.fixture(autouse=True)
    def _file(self, file):
        self.file = file

    def make(self):
        return Learned(self.file)


def test_a_vector_is_blocks_and_the_map_of_it(file):
    windows = [np.random.default_rng(1).normal(size=(length, 5)).cumsum(axis=0) for length in (7, 90)]
    own, learned = np.split(Learned(file).describe(windows), [SIZE], axis=1)
    blocks = Blocks().describe(windows)
    assert np.allclose(unit_rows(own), unit_rows(blocks), atol=1e-6)
    by_hand = [(row - a_projection().center) @ a_projection().matrix for row in blocks]
    assert np.allclose(learned, [row / np.linalg.norm(row) for row in by_hand], atol=1e-5)
    shares = Learned(file).shares(5)
    assert shares.shape == (SIZE + 9, 5)
    assert np.allclose(shares.sum(axis=1), 1)


def test_the_file_holds_what_was_learned_and_its_digest(file):
    read = load_projection(file)
    assert read.sha256 == a_projection().sha256 != a_projection(seed=1).sha256
    assert (read.matrix == a_projection().matrix).all()
    assert (read.center == a_projection().center).all()


def about(changed=()):
    return json.dumps({"blocks": Blocks.version, "channels": 5, "dim": 9} | dict(changed)).encode()


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("about", about({"dim": 1_000_000_000}), "dim: expected a whole number of 1 to 4096"),
        ("about", about({"channels": 6}), "expected"),
        ("about", about({"channels": True}), "channels: expected a whole number"),
        ("about", about({"channels": 4000}), "choose some lanes"),
        ("about", about({"blocks": 1}), "train again"),
        ("about", b"[" * 100_000, ""),
        ("about", b"[]", ""),
        ("about", b"{}", ""),
        ("about", None, ""),
        ("matrix", b"\0" * 8, "expected"),
        ("matrix", None, ""),
        ("center", np.full(SIZE, np.nan, "<f4").tobytes(), "finite"),
    ],
)
def test_files_that_no_training_wrote_are_refused(file, name, data, said):
    with ShardReader(file) as shard:
        entries = {one: shard.read_entry(one) for one in shard.names()} | {name: data}
    with ShardWriter(file) as shard:
        for one, content in entries.items():
            if content is not None:
                shard.write_entry(one, content)
    with pytest.raises(EmbedderError, match=rf"weights\.shard: expected the file that .* wrote: .*{said}"):
        load_projection(file)


@pytest.mark.parametrize("content", [None, b"", b"not a shard", b"SHRD" + b"\xff" * 100])
def test_other_files_are_refused(tmp_path, content):
    if content is not None:
        (tmp_path / "weights.shard").write_bytes(content)
    with pytest.raises(EmbedderError, match=r"weights\.shard: expected the file"):
        Learned(tmp_path / "weights.shard").parameters()


def test_windows_of_other_channels_are_refused(file):
    with pytest.raises(EmbedderError, match="trained on 5 channels, found windows of 3"):
        Learned(file).dim(3)


def test_the_name_may_carry_the_file(file):
    assert make_embedder(f"learned:{file}").parameters() == {"sha256": a_projection().sha256}


def test_views_keep_the_channels_and_stay_finite():
    rng = np.random.default_rng(0)
    for length in (1, 2, 15, 16, 200):
        for _ in range(20):
            view = disturb(rng.normal(size=(length, 3)), rng)
            assert view.shape[1] == 3
            assert len(view) >= 1
            assert np.isfinite(view).all()


def movements(count, rng):
    """Return episodes of eight kinds of movement of ten channels, `count` of each, and their kinds."""
    episodes, kinds = [], []
    for kind in range(8):
        knots = np.random.default_rng(100 + kind).normal(size=(6, 10))
        for _ in range(count):
            places = np.linspace(0, 5, int(rng.integers(40, 90)))
            own = knots + 0.2 * rng.normal(size=knots.shape)
            episodes.append(np.stack([np.interp(places, np.arange(6), column) for column in own.T], axis=1))
            kinds.append(kind)
    return episodes, np.array(kinds)


def test_training_finds_disturbed_episodes_and_their_kinds_and_repeats_itself():
    episodes, kinds = movements(12, np.random.default_rng(0))
    trained = train(episodes, Training(views=4, dim=32, seed=3))
    assert trained.found > trained.found_before
    rng = np.random.default_rng(9)
    plain, asked = (Blocks().describe(rows) for rows in (episodes, [disturb(rows, rng) for rows in episodes]))

    def find(change):
        similar = unit_rows(change(asked)) @ unit_rows(change(plain)).T
        own = (similar.argmax(axis=1) == np.arange(len(similar))).mean()
        np.fill_diagonal(similar, -2)
        return own, (kinds[similar.argmax(axis=1)] == kinds).mean()

    (own, kind), (own_before, _) = find(trained.projection.apply), find(lambda vectors: vectors)
    assert own > own_before + 0.05
    assert kind > 0.95
    again = Training(episodes=FEWEST, views=2, dim=4, seed=3)
    assert train(episodes, again).projection.sha256 == train(episodes, again).projection.sha256
    other = Training(episodes=FEWEST, views=2, dim=4, seed=4)
    assert train(episodes, again).projection.sha256 != train(episodes, other).projection.sha256


def test_what_cannot_be_trained_on_is_refused():
    with pytest.raises(EmbedderError, match=f"at least {FEWEST} episodes, found 3"):
        train([np.zeros((4, 2))] * 3, Training())
    with pytest.raises(EmbedderError, match=r"400 channels with .* choose some lanes"):
        train([np.zeros((4, 400))] * FEWEST, Training())


@pytest.mark.parametrize("channels", [1, 70])
def test_one_channel_or_many_that_never_move_are_learned_from(channels):
    trained = train([np.zeros((20, channels))] * FEWEST, Training(views=1))
    assert np.isfinite(trained.projection.matrix).all()


@pytest.fixture
def archive(tmp_path):
    (tmp_path / "episodes").mkdir()
    for number in range(FEWEST):
        save_wshard(make_episode(number, 40), tmp_path / "episodes" / f"{number}.wshard")
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        assert ingestor.ingest(tmp_path / "episodes", windows="whole").ok
    return tmp_path


def test_from_an_archive_to_hits_by_the_command_line(archive):
    out = archive / "weights.shard"
    place = ["--archive", str(archive / "archive")]
    trained = CliRunner().invoke(app, ["train-embedder", str(out), *place, "--json"])
    assert trained.exit_code == 0, trained.output
    learnt = json.loads(trained.stdout)
    assert learnt["episodes"] == FEWEST
    assert 0 <= learnt["found_before"] <= learnt["found"] <= 1
    assert learnt["left_out"] == []
    chosen = ["--embedder", f"learned:{out}", "--windows", "both"]
    ingested = CliRunner().invoke(app, ["ingest", str(archive / "episodes"), *place, *chosen])
    assert ingested.exit_code == 0, ingested.output
    query = load_wshard(archive / "episodes" / "7.wshard")
    with TrajectoryRetriever(archive / "archive", f"learned:{out}") as retriever:
        best = retriever.search_similar_episodes(query, 1)
        moment = retriever.search_moments(query, 1)[0]
    assert best[0].file_path.endswith("/7.wshard")
    assert best[0].score == pytest.approx(1)
    assert moment.file_path.endswith("/7.wshard")
    assert [space.embedder for space in best.answered.spaces] == ["learned", "arcdct"]
    with open_archive(archive / "archive") as opened:
        spaces = [Space.from_json(row.definition) for row in opened.catalog.vectors.spaces("active")]
    with pytest.raises(UnknownEmbedderError, match=r"pass embedder=\.\.\."):
        embedder_of(next(space for space in spaces if space.embedder == "learned"))


def test_an_episode_that_is_gone_is_reported_and_lanes_that_differ_are_refused(archive):
    (archive / "episodes" / "0.wshard").unlink()
    save_wshard(make_episode(100, 40), archive / "episodes" / "more.wshard")
    with TrajectoryIngestor(archive / "archive") as ingestor:
        assert ingestor.ingest(archive / "episodes", windows="whole").ok
    learnt = train_embedder(archive / "archive", archive / "weights.shard", training=Training(views=1))
    assert learnt.episodes == FEWEST
    assert [failure.path.rpartition("/")[2] for failure in learnt.left_out] == ["0.wshard"]
    with pytest.raises(QueryError, match="expected the same lanes everywhere"):
        train_embedder(archive / "archive", archive / "no.shard", Lesson(["signal/none"]))
    assert not (archive / "no.shard").exists()
