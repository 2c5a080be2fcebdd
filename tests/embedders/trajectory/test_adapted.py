"""The fitted descriptor: its file, what fitting makes of it, and the way from an archive to hits."""

from __future__ import annotations

import json

import numpy as np
import pytest
from command_line import app
from shard_entries import rewrite_entries
from typer.testing import CliRunner

from bridge.training.train_encoder import Lesson, adapt_embedder
from embedders import Blocks, Space, embedder_of, make_embedder, unit_rows
from embedders.testing import EmbedderContract
from embedders.trajectory.adapted import Adapted
from embedders.trajectory.disturbances import disturb
from embedders.trajectory.fitting import FEWEST, FitOptions, fit
from embedders.trajectory.linear_map import LinearMap, load_linear_map
from wshard import TrajectoryIngestor, TrajectoryRetriever, load_wshard, open_archive, save_wshard
from wshard.errors import EmbedderError, QueryError, UnknownEmbedderError
from wshard.testing import make_episode

SIZE = Blocks().dim(5)


def a_map(seed=0):
    rng = np.random.default_rng(seed)
    return LinearMap(5, rng.normal(0, 0.01, SIZE).astype(np.float32), rng.normal(size=(SIZE, 9)).astype(np.float32))


@pytest.fixture
def file(tmp_path):
    a_map().save(tmp_path / "weights.shard")
    return tmp_path / "weights.shard"


class TestAdapted(EmbedderContract):
    @pytest.fixture(autouse=True)
    def _file(self, file):
        self.file = file

    def make(self):
        return Adapted(self.file)


def test_a_vector_is_blocks_and_the_map_of_it(file):
    windows = [np.random.default_rng(1).normal(size=(length, 5)).cumsum(axis=0) for length in (7, 90)]
    own, fitted = np.split(Adapted(file).describe(windows), [SIZE], axis=1)
    blocks = Blocks().describe(windows)
    assert np.allclose(unit_rows(own), unit_rows(blocks), atol=1e-6)
    by_hand = [(row - a_map().center) @ a_map().matrix for row in blocks]
    assert np.allclose(fitted, [row / np.linalg.norm(row) for row in by_hand], atol=1e-5)
    shares = Adapted(file).shares(5)
    assert shares.shape == (SIZE + 9, 5)
    assert np.allclose(shares.sum(axis=1), 1)


def test_the_file_holds_what_was_fitted_and_its_digest(file):
    read = load_linear_map(file)
    assert read.sha256 == a_map().sha256 != a_map(seed=1).sha256
    assert (read.matrix == a_map().matrix).all()
    assert (read.center == a_map().center).all()


def about(changed=()):
    return json.dumps({"blocks": Blocks.version, "channels": 5, "dim": 9} | dict(changed)).encode()


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("about", about({"dim": 1_000_000_000}), "dim: expected a whole number of 1 to 4096"),
        ("about", about({"channels": 6}), "expected"),
        ("about", about({"channels": True}), "channels: expected a whole number"),
        ("about", about({"channels": 4000}), "expected 3488 finite weights"),
        ("about", about({"blocks": 1}), "fit it again"),
        ("about", b"[" * 100_000, ""),
        ("about", b"[]", ""),
        ("about", b"{}", ""),
        ("about", None, ""),
        ("matrix", b"\0" * 8, "expected"),
        ("matrix", None, ""),
        ("center", np.full(SIZE, np.nan, "<f4").tobytes(), "finite"),
    ],
)
def test_files_that_no_fitting_wrote_are_refused(file, name, data, said):
    rewrite_entries(file, {name: data})
    with pytest.raises(EmbedderError, match=rf"weights\.shard: expected the file of .*: .*{said}"):
        load_linear_map(file)


@pytest.mark.parametrize("content", [None, b"", b"not a shard", b"SHRD" + b"\xff" * 100])
def test_other_files_are_refused(tmp_path, content):
    if content is not None:
        (tmp_path / "weights.shard").write_bytes(content)
    with pytest.raises(EmbedderError, match=r"weights\.shard: expected the file"):
        Adapted(tmp_path / "weights.shard").parameters()


def test_windows_of_other_channels_are_refused(file):
    with pytest.raises(EmbedderError, match="fitted to 5 channels, found windows of 3"):
        Adapted(file).dim(3)


def test_the_name_may_carry_the_file(file):
    assert make_embedder(f"adapted:{file}").parameters() == {"sha256": a_map().sha256}


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


def test_fitting_finds_disturbed_episodes_and_their_kinds_and_repeats_itself():
    episodes, kinds = movements(12, np.random.default_rng(0))
    fitted = fit(episodes, FitOptions(views=4, dim=32, seed=3))
    assert fitted.found > fitted.found_before
    rng = np.random.default_rng(9)
    plain, requested = (Blocks().describe(rows) for rows in (episodes, [disturb(rows, rng) for rows in episodes]))

    def find(change):
        similar = unit_rows(change(requested)) @ unit_rows(change(plain)).T
        own = (similar.argmax(axis=1) == np.arange(len(similar))).mean()
        np.fill_diagonal(similar, -2)
        return own, (kinds[similar.argmax(axis=1)] == kinds).mean()

    (own, kind), (own_before, _) = find(fitted.linear_map.apply), find(lambda vectors: vectors)
    assert own > own_before + 0.05
    assert kind > 0.95
    again = FitOptions(episodes=FEWEST, views=2, dim=4, seed=3)
    assert fit(episodes, again).linear_map.sha256 == fit(episodes, again).linear_map.sha256
    other = FitOptions(episodes=FEWEST, views=2, dim=4, seed=4)
    assert fit(episodes, again).linear_map.sha256 != fit(episodes, other).linear_map.sha256


def test_what_cannot_be_fitted_to_is_refused():
    with pytest.raises(EmbedderError, match=f"at least {FEWEST} episodes, found 3"):
        fit([np.zeros((4, 2))] * 3, FitOptions())


@pytest.mark.parametrize("channels", [1, pytest.param(70, marks=pytest.mark.long)])
def test_one_channel_or_many_that_never_move_are_fitted_to(channels):
    fitted = fit([np.zeros((20, channels))] * FEWEST, FitOptions(views=1))
    assert np.isfinite(fitted.linear_map.matrix).all()


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
    adapted = CliRunner().invoke(app, ["train-embedder", str(out), "--adapted", *place, "--json"])
    assert adapted.exit_code == 0, adapted.output
    learnt = json.loads(adapted.stdout)
    assert learnt["episodes"] == FEWEST
    assert 0 <= learnt["found_before"] <= learnt["found"] <= 1
    assert learnt["left_out"] == []
    chosen = ["--embedder", f"adapted:{out}", "--windows", "both"]
    ingested = CliRunner().invoke(app, ["ingest", str(archive / "episodes"), *place, *chosen])
    assert ingested.exit_code == 0, ingested.output
    query = load_wshard(archive / "episodes" / "7.wshard")
    with TrajectoryRetriever(archive / "archive", f"adapted:{out}") as retriever:
        best = retriever.search_similar_episodes(query, 1)
        moment = retriever.search_moments(query, 1)[0]
    assert best[0].file_path.endswith("/7.wshard")
    assert best[0].score == pytest.approx(1)
    assert moment.file_path.endswith("/7.wshard")
    assert [space.embedder for space in best.answered.spaces] == ["adapted", "arcdct"]
    with open_archive(archive / "archive") as opened:
        spaces = [Space.from_json(row.definition) for row in opened.catalog.vectors.spaces("active")]
    with pytest.raises(UnknownEmbedderError, match=r"name the embedder"):
        embedder_of(next(space for space in spaces if space.embedder == "adapted"))


def test_an_episode_that_is_gone_is_reported_and_lanes_that_differ_are_refused(archive):
    (archive / "episodes" / "0.wshard").unlink()
    other = make_episode(200, 40)
    other.observations = {"another": other.observations[min(other.observations)]}
    save_wshard(other, archive / "episodes" / "other.wshard")
    save_wshard(make_episode(100, 40), archive / "episodes" / "more.wshard")
    with TrajectoryIngestor(archive / "archive") as ingestor:
        assert ingestor.ingest(archive / "episodes", windows="whole").ok
    listed = r"found:\n  65 episodes of signal/gripper\[\], .*\n  1 episode of signal/another\[\] \(1 channel\)$"
    with pytest.raises(QueryError, match=listed):
        adapt_embedder(archive / "archive", archive / "no.shard")
    lesson = Lesson(where=f"-episode:{other.id}")
    learnt = adapt_embedder(archive / "archive", archive / "weights.shard", lesson, options=FitOptions(views=1))
    assert learnt.episodes == FEWEST
    assert [failure.path.rpartition("/")[2] for failure in learnt.left_out] == ["0.wshard"]
    with pytest.raises(QueryError, match="found none that pass the filter and have them"):
        adapt_embedder(archive / "archive", archive / "no.shard", Lesson(["signal/none"]))
    for place, error in ((archive, IsADirectoryError), (archive / "nowhere" / "no.shard", FileNotFoundError)):
        with pytest.raises(error) as caught:  # before the work that it would cost
            adapt_embedder(archive / "archive", place, Lesson(["signal/none"]))
        assert caught.value.filename == str(place)
    assert not (archive / "no.shard").exists()
    before = (archive / "episodes" / "other.wshard").read_bytes()
    with pytest.raises(FileExistsError, match="expected an unused path or a trained embedder"):
        adapt_embedder(archive / "archive", archive / "episodes" / "other.wshard")
    assert (archive / "episodes" / "other.wshard").read_bytes() == before


def test_episodes_of_other_channels_are_reported_and_the_others_embedded(archive):
    other = make_episode(200, 40)
    other.observations = {"another": other.observations[min(other.observations)]}
    save_wshard(other, archive / "episodes" / "other.wshard")
    adapt_embedder(archive / "archive", archive / "weights.shard", options=FitOptions(views=1))
    adapted = f"adapted:{archive / 'weights.shard'}"
    with TrajectoryIngestor(archive / "archive", adapted) as ingestor:
        report = ingestor.ingest(archive / "episodes", windows="whole")
    assert (report.new, report.embedded) == (1, FEWEST)
    assert [failure.path.rpartition("/")[2] for failure in report.unembedded] == ["other.wshard"]
    assert "fitted to" in str(report.unembedded[0].error)
    with (
        TrajectoryIngestor(archive / "new", adapted) as ingestor,
        pytest.raises(EmbedderError, match="fitted to 8 channels, found windows of 1"),
    ):
        ingestor.ingest(archive / "episodes" / "other.wshard", windows="whole")
