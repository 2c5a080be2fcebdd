"""Episodes are compared by the lanes that both have: groups of lanes, and what they change for searches."""

from itertools import combinations

import numpy as np
import pytest
from bridge_episodes import command, episode, ingest, save
from hypothesis import given
from hypothesis import strategies as st

from bridge.spaces.grouping import share_lanes
from embedders.lanes import LaneSpec
from wshard import Channel, TrajectoryRetriever, open_archive
from wshard import check_archive as check

LANES = {name: LaneSpec(f"signal/{name}", (size,)) for name, size in zip("abcdef", (7, 3, 3, 1, 2, 5), strict=True)}

lane_sets = st.frozensets(st.sampled_from(sorted(LANES)), min_size=1)


def specs(names):
    return tuple(LANES[name] for name in sorted(names))


@given(st.dictionaries(lane_sets, st.integers(1, 1000), min_size=1, max_size=8))
def test_all_pairs_of_episodes_that_have_a_lane_in_common_are_compared_but_for_few(counts):
    shared = [frozenset(lanes) for lanes in share_lanes({specs(names): count for names, count in counts.items()})]
    total, missed = sum(counts.values()), {}
    for (one, first), (other, second) in combinations(counts.items(), 2):
        common = frozenset(specs(one)) & frozenset(specs(other))
        if common and not any(lanes <= common for lanes in shared):
            missed[common] = missed.get(common, 0) + first * second
    assert len({*shared}) == len(shared) <= 8
    assert all(any(lanes <= {*specs(names)} for names in counts) for lanes in shared)
    if len(shared) < 8:
        assert all(pairs < 0.01 * total * (total - 1) / 2 for pairs in missed.values())


def test_no_group_is_added_where_all_have_the_same_lanes_or_few_differ():
    assert share_lanes({specs("ab"): 1000}) == []
    assert share_lanes({specs("ab"): 1000, specs("c"): 1000}) == []
    assert share_lanes({specs("ab"): 1000, specs("a"): 3}) == []
    assert share_lanes({specs("ab"): 1000, specs("a"): 30}) == [specs("a")]
    assert share_lanes({specs("abc"): 500, specs("abd"): 500}) == [specs("ab")]


def odd(number, lanes, start=0.0):
    """Return an episode with lanes that are random, so that none resembles another."""
    rng = np.random.default_rng(number)
    rows = {name: (start + rng.normal(size=(40, size)).cumsum(0)).astype(np.float32) for name, size in lanes}
    return episode(0, number, 40, observations={name: Channel.of(name, values) for name, values in rows.items()})


CHANGES = {
    "added": lambda given: {**given, "force": given["state"][:, :1] * 2},
    "dropped": lambda given: {"state": given["state"]},
    "without numbers": lambda given: {**given, "hand": np.full_like(given["hand"], np.nan)},
    "reordered": lambda given: dict(reversed(given.items())),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_lanes_that_differ_in_half_of_an_archive_hide_no_copy(tmp_path, change):
    """Each episode is in the archive twice, once changed: each finds the other first, whichever is searched for."""
    plain = [odd(number, [("state", 4), ("hand", 2)]) for number in range(6)]
    changed = []
    for one in plain:
        given = {name: channel.data for name, channel in one.observations.items()}
        rows = {name: Channel.of(name, values) for name, values in change(given).items()}
        changed.append(episode(1, int(one.id.rpartition("-")[2]), 40, observations=rows))
    save(tmp_path / "data", *plain, *changed)
    report = ingest(tmp_path / "archive", tmp_path / "data", windows="both")
    assert report.embedded == 12
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        for one, other in [*zip(plain, changed, strict=True), *zip(changed, plain, strict=True)]:
            hits = retriever.search_similar_episodes(one.id, 12)
            assert {hit.episode_id for hit in hits[:2]} == {one.id, other.id}
            assert hits.answered.left_out == ()
            assert hits.exact
            assert len(hits) == 12
    with open_archive(tmp_path / "archive") as archive:
        assert check(archive).ok
    assert ingest(tmp_path / "archive", tmp_path / "data", windows="both").embedded == 0


def test_episodes_that_came_first_are_compared_with_those_of_other_lanes_that_come_later(tmp_path):
    save(tmp_path / "one", *(odd(number, [("state", 4), ("hand", 2)]) for number in range(8)))
    save(tmp_path / "two", *(odd(number, [("state", 4), ("force", 3)]) for number in range(8, 16)))
    ingest(tmp_path / "archive", tmp_path / "one", windows="both")
    ingest(tmp_path / "archive", tmp_path / "two", windows="both")
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        for name in ("task-0-1", "task-0-9"):
            assert len(retriever.search_similar_episodes(name, 20)) == 16
            moments = retriever.search_moments((name, 5, 35), 20, per_episode=1)
            assert len({hit.episode_id for hit in moments}) == 16
            assert (moments[0].episode_id, moments[0].span, moments[0].score) == (name, (5, 35), 1.0)
            assert moments.answered.left_out == ()


def test_lanes_of_other_names_are_proposed_and_compared_once_they_are_mapped(tmp_path):
    save(tmp_path / "data", *(odd(number, [("state", 4)]) for number in range(9)))
    save(tmp_path / "data", *(odd(number, [("obs.state", 4)]) for number in range(9, 15)))
    save(tmp_path / "data", *(odd(number, [("far", 4)], start=1000) for number in range(15, 17)))
    first = command("ingest", tmp_path / "data", "--archive", tmp_path / "archive", folder=tmp_path)
    proposed = [line for line in first.output.splitlines() if "one shape and scale" in line]
    files = " ".join(f"{tmp_path}/data/task-0/task-0-{number}.wshard" for number in range(9, 15))
    assert [line.partition("wshard ")[2] for line in proposed] == [
        f"ingest {files} --map obs.state=state` compares them"
    ]
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        hits = retriever.search_similar_episodes("task-0-1", 20)
        assert len(hits) == 9
        assert any("--map obs.state=state" in one.remedy for one in hits.answered.left_out)
    mapping = ("--map", "obs.state=state")
    paths = [tmp_path / "data" / "task-0" / f"task-0-{number}.wshard" for number in range(15)]
    assert command("ingest", *paths, *mapping, "--archive", tmp_path / "archive", folder=tmp_path).exit_code == 0
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        for number in (1, 10):
            hits = retriever.search_similar_episodes(f"task-0-{number}", 20)
            assert len(hits) == 15
            assert (hits[0].episode_id, hits[0].score) == (f"task-0-{number}", 1.0)


def test_one_line_says_for_all_lanes_of_a_group_how_they_get_the_names_of_the_larger_one(tmp_path):
    """Positions and speeds of one shape are distinguished, actions are among them, and episodes may lack a lane."""
    lanes = {"joint_pos": (0, "q"), "joint_vel": (0.6, "qd"), "tool": (1.2, "tcp")}

    def record(number, *, other):
        clock = np.linspace(0, 6, 60)[:, None] + number / 50
        present = {name: place for name, place in lanes.items() if name != "tool" or number % 3}
        rows = {
            theirs if other else ours: np.sin((1 + shift) * clock + np.arange(3) + shift) * (1 + shift / 2)
            for ours, (shift, theirs) in present.items()
        }
        observations = {name: Channel.of(name, values.astype(np.float32)) for name, values in rows.items()}
        name = "command" if other else "ctrl"
        actions = {name: Channel.of(name, clock.astype(np.float32))}
        return episode(int(other), number, 60, observations=observations, actions=actions)

    save(tmp_path / "a", *(record(number, other=False) for number in range(9)))
    save(tmp_path / "b", *(record(number, other=True) for number in range(6)))
    done = command("ingest", "a", "b", folder=tmp_path)
    (line,) = [line for line in done.stderr.splitlines() if "--map" in line]
    assert line.startswith("6 episodes may have lanes of 9 episodes under other names")
    for pair in ("q=joint_pos", "qd=joint_vel", "tcp=tool", "action/command=action/ctrl"):
        assert f"--map {pair}" in line
    typed = [part.split() for part in line.split("`wshard ")[1:]]
    for words in typed:
        made = command(
            *[word.strip("`") for word in words[: words.index("and") if "and" in words else -2]], folder=tmp_path
        )
        assert "failed" not in made.stdout
    assert "--map" not in made.stderr
    with TrajectoryRetriever(tmp_path / ".wshard") as retriever:
        hits = retriever.search_similar_episodes("task-1-1", 20)
        assert (len(hits), hits.exact) == (15, True)


def test_the_proposed_map_is_a_command_for_the_folder_with_the_map_that_is_there(tmp_path):
    """A lane that is mapped already is named as its files have it, and what else the map renames stays so."""
    save(tmp_path / "data" / "a", *(odd(number, [("state", 4)]) for number in range(9)))
    save(tmp_path / "data" / "b", *(odd(number, [("q", 4), ("f", 1)]) for number in range(9, 14)))
    assert command("ingest", "data/a", folder=tmp_path).exit_code == 0
    done = command("ingest", "data/b", "--map", "q=arm", "--map", "f=force", folder=tmp_path)
    line = next(line for line in done.stderr.splitlines() if "one shape and scale" in line)
    typed = line.partition("`wshard ")[2].partition("`")[0].split()
    assert typed == ["ingest", f"{tmp_path}/data/b/task-0", "--map", "f=force", "--map", "q=state"]
    done = command(*typed, folder=tmp_path)
    assert "5 changed" in done.stdout
    assert "one shape and scale" not in done.stderr
    shown = command("show", "task-0-10", folder=tmp_path).stdout
    assert "lane signal/state " in shown
    assert "lane signal/force " in shown


def test_channels_of_other_names_are_said_with_the_command_that_parts_them(tmp_path):
    for folder, first, names in (("arm", 0, ("a", "b", "c")), ("pose", 9, ("x", "y", "z"))):
        for number in range(first, first + 6):
            one = odd(number, [("state", 3)])
            channel = one.observations["state"]
            one.observations["state"] = Channel.of("state", channel.data, names=names)
            save(tmp_path / folder, one)
    done = command("ingest", "arm", "pose", folder=tmp_path)
    (line,) = [line for line in done.stderr.splitlines() if "compared in order" in line]
    assert line.startswith("signal/state[3] has channels a, b, c in 6 episodes, x, y, z in 6 episodes, which are")
    typed = line.partition("`wshard ")[2].partition("`")[0].split()
    assert typed == ["ingest", f"{tmp_path}/pose/task-0", "--map", "state=state_2"]
    done = command(*typed, folder=tmp_path)
    assert "6 changed" in done.stdout
    assert "--map" not in done.stderr  # neither that, nor back again
