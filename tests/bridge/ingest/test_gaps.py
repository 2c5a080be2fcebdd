"""Lanes with NaN: short gaps are bridged, lanes without numbers are left out, and what remains is explained."""

import numpy as np
import pytest
from bridge_episodes import command, counts, episode, ingest, save
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from embedders.numeric import bridge_gaps, first_bad
from wshard import Channel, TrajectoryRetriever, open_archive
from wshard import check_archive as check
from wshard.core.episode.lanes import MAX_GAPS
from wshard.errors import QueryError

NAN = float("nan")


def with_lanes(number, **lanes):  # noqa: ANN003
    return episode(0, number, observations={name: Channel.of(name, values) for name, values in lanes.items()})


def numbers(seed, *, channels=2, gaps=()):
    values = np.random.default_rng(seed).normal(size=(30, channels)).cumsum(0).astype(np.float32)
    values[list(gaps), 0] = NAN
    return values


@given(
    arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 3)), elements=st.floats(-1e3, 1e3)),
    st.lists(st.integers(0, 39), max_size=6),
    st.sampled_from([NAN, np.inf, -np.inf, 1e300]),
)
def test_bridged_rows_are_finite_lie_between_their_neighbours_and_change_nothing_else(rows, places, value):
    gaps = sorted({place for place in places if place < len(rows)})
    damaged = rows.copy()
    damaged[gaps, 0] = value
    bridged = bridge_gaps(damaged)
    is_blank, channels = 2 * len(gaps) > len(rows), rows.shape[1]
    if is_blank and channels > 2:
        assert np.isnan(bridged[:, 0]).all()
        assert np.array_equal(bridged[:, 1:], rows[:, 1:])
        return
    if is_blank or len(gaps) > MAX_GAPS * rows.size:
        assert bridged is None
        return
    assert first_bad(bridged) is None
    whole = [step for step in range(len(rows)) if step not in gaps]
    assert np.array_equal(bridged[whole], rows[whole])
    assert np.array_equal(bridged[:, 1:], rows[:, 1:])
    for gap in gaps:
        before = [step for step in whole if step < gap][-1:]
        after = [step for step in whole if step > gap][:1]
        around = rows[before + after, 0]
        assert around.min() - 1e-9 <= bridged[gap, 0] <= around.max() + 1e-9


def test_short_gaps_are_bridged_flagged_and_counted(tmp_path):
    whole = numbers(0)
    line = whole.copy()
    line[5] = (line[4] + line[6]) / 2
    gap = line.copy()
    gap[5, 1] = NAN
    save(tmp_path / "data", with_lanes(0, state=whole), with_lanes(1, state=gap), with_lanes(2, state=numbers(2)))
    report = ingest(tmp_path / "archive", tmp_path / "data")
    assert counts(report) == {"new": 3, "embedded": 3, "bridged": 1, "flagged": 1}
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        hits = retriever.search_similar_episodes("task-0-1")
        assert {hit.episode_id for hit in hits} == {"task-0-0", "task-0-1", "task-0-2"}
        assert hits.certainty == "exact"
        by_line = retriever.search_similar_episodes({"state": line})
        assert by_line[0].episode_id == "task-0-1"
        assert by_line[0].score == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("blank", [{1, 3}, set(range(6))], ids=["in some episodes", "in all"])
def test_a_channel_without_numbers_keeps_its_episode_comparable(tmp_path, blank):
    rows = [numbers(n % 3, channels=4) + 0.01 * numbers(9 + n, channels=4) for n in range(6)]  # three pairs alike
    for number in blank:
        rows[number][3:, 2] = [NAN, np.inf][number % 2]
    save(tmp_path / "data", *(with_lanes(number, state=one) for number, one in enumerate(rows)))
    report = ingest(tmp_path / "archive", tmp_path / "data", windows="both")
    assert counts(report) == {"new": 6, "embedded": 6, "bridged": len(blank), "flagged": len(blank)}
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        for number in range(6):
            hits = retriever.search_similar_episodes(f"task-0-{number}", exclude_self=True)
            assert (hits[0].episode_id, len(hits)) == (f"task-0-{(number + 3) % 6}", 5)
            assert bool(hits.answered.notes) == (number in blank)
            assert retriever.search_moments((f"task-0-{number}", 4, 24))[0].episode_id == f"task-0-{number}"
        assert "signal/state[2] of the query has too few numbers" in str(
            retriever.search_similar_episodes("task-0-1").answered.notes
        )
        with pytest.raises(QueryError, match="found nan"):  # an array says nothing of lanes
            retriever.search_similar_episodes({"state": rows[0] * [1, 1, NAN, 1]})
    with open_archive(tmp_path / "archive") as archive:
        assert check(archive).ok
        for channel, expected in ((2, 6 - len(blank)), (3, 6)):
            assert len(archive.where(f"lane.signal/state.mean[{channel}]:-99..99")) == expected


def test_a_lane_without_numbers_is_left_out_for_its_episodes(tmp_path):
    half = range(0, 30, 2)
    some = [
        with_lanes(number, state=numbers(number), force=numbers(100 + number, gaps=half if number < 3 else ()))
        for number in range(6)
    ]
    plain = [with_lanes(number, state=numbers(number)) for number in range(6, 8)]
    save(tmp_path / "data", *some, *plain)
    report = ingest(tmp_path / "archive", tmp_path / "data")
    assert counts(report)["embedded"] == 8
    assert report.unembedded == []
    assert sorted(report.spaces.values()) == [3, 8]
    with open_archive(tmp_path / "archive") as archive:
        assert check(archive).ok
    again = ingest(tmp_path / "archive", tmp_path / "data")
    assert counts(again) == {"unchanged": 8}
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        for name in ("task-0-1", "task-0-4"):
            hits = retriever.search_similar_episodes(name, top_k=20)
            assert {hit.episode_id for hit in hits} == {f"task-0-{number}" for number in range(8)}
            assert hits.answered.left_out == ()


@pytest.mark.parametrize("silent", [[0], [0, 1, 2]])
def test_an_all_nan_lane_beside_a_whole_one_is_no_dead_end(tmp_path, silent):
    empty = np.full(30, NAN, np.float32)
    save(
        tmp_path / "data",
        *(
            with_lanes(number, state=numbers(number), n=empty if number in silent else numbers(9, channels=1)[:, 0])
            for number in range(3)
        ),
    )
    report = ingest(tmp_path / "archive", tmp_path / "data", windows="both")
    assert counts(report)["embedded"] == 3
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        assert len(retriever.search_similar_episodes("task-0-0")) == 3
        assert retriever.search_moments(("task-0-0", 2, 20))[0].episode_id == "task-0-0"


def test_what_remains_says_where_and_what_to_type(tmp_path):
    save(tmp_path / "data", with_lanes(0, state=numbers(0, gaps=range(4, 20))), with_lanes(1, state=numbers(1)))
    printed = command("ingest", tmp_path / "data", "--archive", tmp_path / "archive", folder=tmp_path)
    for part in ("lane 'signal/state'", "at timestep 4, channel 0", "`wshard check` says where", "--lanes NAME"):
        assert part in printed.output
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        (left,) = retriever.search_similar_episodes("task-0-1").answered.left_out
        assert left.episodes == 1
        assert left.reason.startswith("lack finite numbers")
        with pytest.raises(QueryError, match="at timestep 4, channel 0: choose timesteps without it"):
            retriever.search_similar_episodes("task-0-0")


def test_only_bare_lanes_do_not_advise_the_ingest_that_was_run(tmp_path):
    save(tmp_path / "data", with_lanes(0, state=numbers(0, gaps=range(4, 20))))
    ingest(tmp_path / "archive", tmp_path / "data")
    with (
        TrajectoryRetriever(tmp_path / "archive") as retriever,
        pytest.raises(QueryError, match="no episode has vectors: 1 lacks finite numbers in more than a tenth"),
    ):
        retriever.search_similar_episodes({"state": numbers(1)})


@pytest.mark.parametrize("gap", [range(5, 20), range(30)], ids=["half", "all"])
def test_a_query_says_by_which_of_its_lanes_gaps_let_it_not_be_compared(tmp_path, gap):
    switch = np.repeat([0, 1], 15).astype(np.float32)
    gaps = {0: gap}
    rows = [with_lanes(n, arm=numbers(n, gaps=gaps.get(n, ())), switch=switch) for n in range(5)]
    save(tmp_path / "data", *rows)
    ingest(tmp_path / "archive", tmp_path / "data")
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        found = retriever.search_similar_episodes("task-0-0")
        assert "signal/arm of the query was not compared, as too many values are missing, only signal/switch" in (
            found.answered.notes
        )
        assert [hit.score for hit in found] == pytest.approx([1] * 5)  # by the switch alone
        assert not any(
            "was not compared" in note for note in retriever.search_similar_episodes("task-0-1").answered.notes
        )
    with TrajectoryRetriever(tmp_path / "archive", lanes=["switch"]) as retriever:
        assert not retriever.search_similar_episodes("task-0-0").answered.notes
