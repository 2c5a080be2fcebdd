"""Lanes of one name and other widths are compared by the channels that both have: by names, else by scale."""

from itertools import combinations

import numpy as np
import pytest
from bridge_episodes import episode, ingest, save
from hypothesis import given
from hypothesis import strategies as st

from bridge.spaces.shared_channels import match_names, match_scales
from embedders import LaneSpec, Space, Statistics, WindowPlan
from wshard import Channel, TrajectoryRetriever, open_archive
from wshard import check_archive as check

SCALES = np.array([1.0, 30.0, 0.1, 8.0])
JOINTS = ("base", "elbow", "wrist", "hand")


def rows(number, channels=4):
    walk = np.random.default_rng(number).normal(size=(40, channels)).cumsum(0)
    return (walk * np.resize(SCALES, channels)).astype(np.float32)


def arm(name, state, names, number, grip=(2,)):
    gripping = rows(100 + number, int(np.prod(grip))).reshape(40, *grip)
    lanes = {"state": Channel.of("state", state, names=names), "grip": Channel.of("grip", gripping)}
    return episode(0, 0, 40, id=name, observations=lanes)


def insert(state, place, number):
    return np.insert(state, place, 300 + 5 * rows(200 + number, 1)[:, 0], axis=1)


def pairs(place, narrow=(), wide=(), grip=(2,)):
    """Return six episodes, and the same with a channel more; grip: the shape of their other lane."""
    plain = [arm(f"plain-{number}", rows(number), narrow, number, grip) for number in range(6)]
    return plain, [arm(f"wide-{n}", insert(rows(n), place, n), wide, n, grip) for n in range(6)]


WIDER = {
    "named, in the middle": (2, JOINTS, (*JOINTS[:2], "tool", *JOINTS[2:]), (2,)),
    "without names, last, beside a number": (4, (), (), ()),
    "named in some, beside a matrix": (1, JOINTS, (), (2, 1)),
}


@pytest.mark.parametrize("change", WIDER.values(), ids=WIDER)
def test_one_channel_more_hides_no_copy(tmp_path, change):
    """The wider ones come later; each finds its copy first, whichever is searched for, and all others too."""
    plain, wide = pairs(*change)
    save(tmp_path / "one", *plain)
    save(tmp_path / "two", *wide)
    ingest(tmp_path / "archive", tmp_path / "one", windows="both")
    report = ingest(tmp_path / "archive", tmp_path / "two", windows="both")
    assert not report.unembedded
    by_name = all(change[1:3])
    (line,) = report.picked
    assert line.startswith(
        f"signal/state has 5 channels in some episodes, 4 in others: all are compared but channel {change[0]} of the 5;"
    )
    assert any(f"of 5 by {'name' if by_name else 'scale'}" in lanes for lanes in report.spaces)
    assert ("--map" in line) == (not by_name)
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        for one, other in [(plain[0], wide[0]), (plain[1], wide[1]), (wide[0], plain[0]), (wide[2], plain[2])]:
            hits = retriever.search_similar_episodes(one.id, 20)
            assert ({hit.episode_id for hit in hits[:2]}, hits[1].score) == ({one.id, other.id}, 1.0)
            assert (len(hits), hits.answered.left_out, hits.exact) == (12, (), True)
            compared = {hit.episode_id.partition("-")[0]: hit.compared_by for hit in hits}
            own = one.id.partition("-")[0]
            assert compared.pop(own) == ("signal/grip", "signal/state")
            assert [*compared.values()] == [("signal/grip", "signal/state (4 of 5 channels)")]
        moments = retriever.search_moments(("plain-3", 5, 35), 2, per_episode=1)
        assert {hit.episode_id for hit in moments} == {"plain-3", "wide-3"}
        assert [hit.score for hit in moments] == [1.0, 1.0]
        arrays = {name: channel.data for name, channel in wide[4].observations.items()}
        assert [hit.score for hit in retriever.search_similar_episodes(arrays, 20)[:2]] == [1.0, 1.0]
    with open_archive(tmp_path / "archive") as archive:
        assert check(archive).ok
    again = ingest(tmp_path / "archive", tmp_path, windows="both")
    assert (again.embedded, again.picked) == (0, [])


def test_lanes_of_which_each_has_a_channel_of_its_own_are_compared_by_the_others(tmp_path):
    save(tmp_path / "data", *(arm(f"hand-{number}", rows(number), JOINTS, number) for number in range(6)))
    turned = [1, 2, 0]
    for n in range(6):
        other = np.concatenate([rows(n)[:, turned], rows(50 + n, 2)], axis=1)
        save(tmp_path / "data", arm(f"tool-{n}", other, (*(JOINTS[place] for place in turned), "force", "torque"), n))
    assert not ingest(tmp_path / "archive", tmp_path / "data", windows="both").unembedded
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        hits = retriever.search_similar_episodes("hand-2", 20)
        assert {hit.episode_id for hit in hits[:2]} == {"hand-2", "tool-2"}
        assert {hit.compared_by for hit in hits} == {
            ("signal/grip", "signal/state"),
            ("signal/grip", "signal/state (3 of 5 channels)"),
        }
        assert hits.answered.left_out == ()


def test_channels_of_one_scale_are_not_guessed(tmp_path):
    for number in range(6):
        one, other = (rows(number + start, size) / np.resize(SCALES, size) for start, size in ((0, 4), (50, 5)))
        save(tmp_path / "data", arm(f"a-{number}", one, (), number), arm(f"b-{number}", other, (), number))
    assert ingest(tmp_path / "archive", tmp_path / "data").picked == []
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        hits = retriever.search_similar_episodes("a-1", 20)
        assert {hit.compared_by for hit in hits} == {("signal/grip",), ("signal/grip", "signal/state")}


numbers = st.floats(-3, 3).map(lambda value: round(value, 2))


@given(st.data())
def test_the_scales_that_match_have_the_least_distance_of_all_choices_in_order(data):
    wide = data.draw(st.integers(4, 7))
    narrow = wide - 1

    def draw(size):
        means, stds = (np.array(data.draw(st.lists(numbers, min_size=size, max_size=size))) for _ in range(2))
        return Statistics(9, means, 10.0**stds)

    one, other = draw(narrow), draw(wide)
    spreads = one.std[:, None], other.std
    shifts = np.abs(one.mean[:, None] - other.mean) / np.maximum(*spreads)
    distances = np.minimum(np.abs(np.log(spreads[0] / spreads[1])) + shifts, 2)
    sums = {places: distances[range(narrow), places].sum() for places in combinations(range(wide), narrow)}
    found = match_scales(one, other)
    if found:
        assert sums[found] == pytest.approx(min(sums.values()))
        assert sums[found] <= 0.4 * narrow * distances.mean() + 1e-9
    else:
        assert wide > 1.25 * narrow or min(sums.values()) >= 0.4 * narrow * distances.mean() - 1e-9


def test_names_match_in_any_order_if_half_are_shared():
    assert match_names(("x", "y"), ("y", "z", "x")) == ((0, 1), (2, 0))
    assert match_names(("x", "y"), ("y", "z", "w")) == ((1,), (0,))
    assert match_names(("x", "y", "u"), ("y", "z", "w", "v")) == ((), ())


def test_a_space_that_reads_wider_lanes_is_stored_and_is_of_the_family_of_one_that_does_not():
    plain = LaneSpec("signal/state", (2,))
    spaces = [
        Space("mean", 1, {}, (lane,), WindowPlan(), 2, "cosine", None)
        for lane in (plain, LaneSpec("signal/state", (2,), ((3, (0, 2), True),)))
    ]
    assert len({space.fingerprint for space in spaces}) == 2
    assert spaces[0].family == spaces[1].family
    assert "picks" not in spaces[0].to_json()
    read = Space.from_json(spaces[1].to_json())
    assert read == spaces[1]
    table = np.arange(6).reshape(2, 3)
    assert read.lanes[0].pick(table).tolist() == [[0, 2], [3, 5]]
    assert read.lanes[0].pick(table[:, :2]).tolist() == [[0, 1], [3, 4]]
