"""Lanes chosen and weighted when searching, without vectors of these lanes alone."""

import numpy as np
import pytest
from bridge_episodes import command, episode, ingest, save

from wshard import Channel, TrajectoryRetriever, open_archive
from wshard.errors import EmbedderError, QueryError


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Return an archive in which episode n of 12 has the hand of n and the arm of n // 2: pairs have one arm."""
    folder = tmp_path_factory.mktemp("lanes")
    for number in range(12):
        rows = {
            name: np.random.default_rng([seed, place]).normal(size=(50, size)).cumsum(0).astype(np.float32)
            for place, (name, size, seed) in enumerate((("arm", 3, number // 2), ("hand", 2, number)))
        }
        lanes = {name: Channel.of(name, values) for name, values in rows.items()}
        save(folder / "data", episode(0, number, 50, observations=lanes))
    ingest(folder / "archive", folder / "data", windows="both")
    return folder / "archive"


def ranked(archive, lanes, name="task-0-4", **options):  # noqa: ANN003
    with TrajectoryRetriever(archive, lanes=lanes) as retriever:
        return retriever.search_similar_episodes(name, 12, **options)


@pytest.mark.parametrize("plain", [True, False])
def test_only_the_chosen_lanes_count(archive, plain):
    arm, hand = (ranked(archive, lane, plain=plain) for lane in ("arm", "hand"))
    assert [hit.episode_id for hit in arm[:2]] == ["task-0-4", "task-0-5"]
    assert arm[1].score > 0.97  # less than 1, as steps along the path are counted in all lanes
    assert hand[0].episode_id == "task-0-4"
    assert hand[1].score < 0.9
    assert {hit.compared_by for hit in arm} == {("signal/arm",)}
    assert (len(arm), arm.exact) == (12, True)


def test_weights_lie_between_the_lanes_alone_and_equal_ratios_are_equal(archive):
    scores = {}
    for weight in (0.01, 1.0, 100.0):
        for hit in ranked(archive, {"arm": weight, "hand": 1.0}, plain=True):
            scores.setdefault(hit.episode_id, []).append(hit.score)
    low, middle, high = scores["task-0-5"]
    assert low < middle < high
    ratios = [ranked(archive, {"arm": 2 * size, "hand": 3 * size}) for size in (1, 7)]
    for one, other in zip(*ratios, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-9)


def test_contributions_are_those_of_the_chosen_lanes_and_add_up(archive):
    for hit in ranked(archive, {"arm": 3, "hand": 1}, plain=True, contributions=True):
        assert sum(hit.contributions.values()) == pytest.approx(hit.score, abs=1e-6)
        assert [*hit.descriptors] == ["path", "shape", "areas"]
        assert sum(hit.descriptors.values()) == pytest.approx(hit.score, abs=1e-6)
    for hit in ranked(archive, "arm", plain=True, contributions=True):
        assert hit.contributions["signal/hand"] == pytest.approx(0, abs=1e-12)


def test_vectors_of_these_lanes_alone_are_preferred(archive, tmp_path):
    printed = command("search", "task-0-4", "--lanes", "arm=2,hand=1", "--archive", archive, folder=tmp_path)
    assert printed.exit_code == 0
    assert "task-0-5" in printed.stdout.splitlines()[2]
    with open_archive(archive) as opened:
        assert len(opened.search("task-0-4", 3, lanes="arm", where="length:>3", diversity=0.3)) == 3


def test_what_needs_vectors_of_these_lanes_says_so(archive):
    with pytest.raises(QueryError, match="ingest with these --lanes first"):
        ranked(archive, "arm", least=True)
    with (
        TrajectoryRetriever(archive, lanes="arm") as retriever,
        pytest.raises(QueryError, match="ingest with these --lanes first"),
    ):
        retriever.search_moments(("task-0-4", 3, 40))
    with pytest.raises(QueryError, match="there are no vectors for this search"):
        ranked(archive, "leg")
    with pytest.raises(EmbedderError, match="numbers > 0"):
        ranked(archive, {"arm": 0, "hand": 1})


def test_of_many_channels_a_lane_alone_needs_its_own_vectors(tmp_path):
    for number in range(3):
        rows = np.random.default_rng(number).normal(size=(2, 9, 90)).cumsum(1).astype(np.float32)
        lanes = {name: Channel.of(name, values) for name, values in zip(("arm", "hand"), rows, strict=True)}
        save(tmp_path / "data", episode(0, number, 9, observations=lanes))
    ingest(tmp_path / "archive", tmp_path / "data", windows="whole")
    with pytest.raises(QueryError, match="mix these 180 channels: ingest with these --lanes first"):
        ranked(tmp_path / "archive", "arm", "task-0-1")
    assert ranked(tmp_path / "archive", {"arm": 2, "hand": 1}, "task-0-1")[0].episode_id == "task-0-1"
