"""Findings about an archive: copies and strangers that were put there, stored as scores and collections."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from bridge_episodes import episode, files, ingest, opened_archive, rewrite, save
from command_line import app
from typer.testing import CliRunner

from bridge.cli import curate
from bridge.curation import (
    duplicates,
    find_duplicates,
    find_leaks,
    find_mislabeled,
    find_pieces,
    find_shared,
    lanes_with_gaps,
    select_subset,
    train_probe,
)
from bridge.curation.archive_vectors import (
    choose_space,
    find_whole_spaces,
    group_by_space,
    read_chosen_vectors,
)
from bridge.curation.duplicates import group_episodes
from bridge.curation.labels import labels_of
from bridge.curation.outliers import score_outliers
from bridge.evaluation import compare, evaluate_label, evaluate_search
from bridge.evaluation.metrics import leave_one_out, leave_one_out_by
from bridge.results import make_ref
from bridge.support import progress
from embedders import Blocks, WindowPlan
from wshard import Channel, Episode, EpisodeRef, TrajectoryRetriever, find_outliers, open_wshard, save_wshard, weigh
from wshard.errors import FilterError, QueryError

TASKS, EACH = 4, 8


def changed(one, id_, change):
    """Return a copy of an episode under another id, its observations changed."""
    rows = change(one.observations["state"].data).astype(np.float32)
    state = replace(one.observations["state"], data=rows)
    cut = {name: replace(lane, data=lane.data[: len(rows)]) for name, lane in one.actions.items()}
    return replace(
        one, id=id_, length=len(rows), observations={"state": state}, actions=cut, rewards=one.rewards[: len(rows)]
    )


def made():
    noise = np.random.default_rng(0)
    normal = [episode(task, number, T=60 + number) for task in range(TASKS) for number in range(EACH)]
    normal = [replace(one, metadata={**one.metadata, "task": one.env_id}) for one in normal]
    first, second, third = normal[0], normal[EACH + 3], normal[2 * EACH + 1]
    return [
        *normal,
        replace(first, id="renamed"),
        changed(second, "noisy", lambda rows: rows + 0.005 * noise.normal(size=rows.shape)),
        changed(third, "trimmed", lambda rows: rows[3:]),
        changed(third, "half", lambda rows: rows.astype(np.float16)),
        replace(changed(normal[-1], "odd", lambda rows: -rows[::-1]), metadata={"task": "task-0"}),
    ]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Make an archive; tests that change it take a copy."""
    folder = tmp_path_factory.mktemp("curation")
    save(folder / "data", *made())
    path = folder / "data" / "task-3" / "task-3-2.wshard"
    shutil.copy(path, path.with_name("same-file.wshard"))
    ingest(folder / "archive", folder / "data")
    return folder / "archive"


@pytest.fixture
def own(home, tmp_path, monkeypatch):
    shutil.copytree(home, tmp_path / "own")
    monkeypatch.setenv("WSHARD_ARCHIVE", str(tmp_path / "own"))
    return tmp_path / "own"


@pytest.fixture
def data(home):
    return home.parent / "data"


def wshard(*arguments: object, code: int = 0):
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == code, (done.output, done.exception)
    return done


def pairs(twins):
    return {(twin.left.episode_id, twin.right.episode_id, twin.kind) for twin in twins}


def unordered(twins):
    return {(frozenset(ids), kind) for *ids, kind in pairs(twins)}


EXPECTED = {
    (frozenset({"task-0-0", "renamed"}), "vector"),
    (frozenset({"task-1-3", "noisy"}), "near"),
    (frozenset({"task-2-1", "trimmed"}), "near"),
    (frozenset({"task-2-1", "half"}), "near"),
    (frozenset({"trimmed", "half"}), "near"),
    (frozenset({"task-3-2"}), "data"),
}


def test_copies_are_found_and_nothing_else(home):
    with opened_archive(home) as archive:
        twins = find_duplicates(archive)
        assert unordered(twins) == EXPECTED
        by_ids = {frozenset((twin.left.episode_id, twin.right.episode_id)): twin for twin in twins}
        trimmed = by_ids[frozenset({"task-2-1", "trimmed"})]
        assert (abs(trimmed.shift), trimmed.apart) == (3, 0)
        assert (trimmed.shift > 0) == (trimmed.right.episode_id == "trimmed")
        groups = group_episodes(archive.catalog.query.ids(), twins)
        assert len(set(groups.values())) == len(groups) - 5
        assert unordered(find_duplicates(archive, "env:task-1")) == {(frozenset({"task-1-3", "noisy"}), "near")}
        assert "near" not in {twin.kind for twin in find_duplicates(archive, within=0) if twin.apart > 0}


def test_the_closest_pair_beyond_the_limit_is_said_and_no_space_without_episodes(tmp_path):
    near = episode(7, 1, 40)
    rows = near.observations["state"].data
    for name, noise in (("almost", 0.07), ("farther", 0.14)):
        values = rows + (noise * np.random.default_rng(round(100 * noise)).normal(size=rows.shape)).astype(np.float32)
        save(tmp_path / "data", episode(7, 1, 40, id=name, observations={"state": Channel.of("state", values)}))
    save(tmp_path / "data", near, *(episode(task, 0, 40) for task in range(4)))
    ingest(tmp_path / "archive", tmp_path / "data")
    with opened_archive(tmp_path / "archive") as archive:
        found = find_duplicates(archive)
        assert found == []
        assert {found.closest.left.episode_id, found.closest.right.episode_id} == {"task-7-1", "almost"}
        assert found.closest.apart > duplicates.WITHIN
        (pair,) = find_duplicates(archive, within=found.closest.apart)
        assert pair == found.closest
        assert find_duplicates(archive, "env:task-0").closest is None
        assert [len(find_duplicates(archive, where).spaces) for where in ("", "env:nothing")] == [1, 0]


def test_what_could_not_be_compared_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("WSHARD_ARCHIVE", str(tmp_path / "archive"))
    near = episode(7, 1, 40)
    save(tmp_path / "data", near, changed(near, "noisy", lambda rows: rows + 0.004), episode(2, 0, 40))
    other = replace(episode(3, 0, 40), env_id="other", observations={})
    save(tmp_path / "data", other, replace(other, id="alike", env_id="third", rewards=other.rewards + 1))
    ingest(tmp_path / "archive", tmp_path / "data")
    assert "2 of 5 episodes without vectors to compare" in wshard("duplicates").stderr
    assert (
        "1 of 1 episodes of the second set without vectors" in wshard("leaks", "env:other", "env:third", code=1).stderr
    )
    assert "2 of 5 episodes left out" in wshard("outliers", "--neighbors", 1).stderr
    with opened_archive(tmp_path / "archive") as archive:
        archive.catalog.annotations.tag(archive.catalog.query.ids("env:task-7"), "same")
    assert "1 episode left out: they have no label 'tag'" in wshard("mislabeled", "--label", "tag").stderr
    with opened_archive(tmp_path / "archive") as archive:
        whole = find_duplicates(archive)
        (tmp_path / "data" / near.env_id / f"{near.id}.wshard").unlink()
        assert (len(whole), whole.alone, whole.unread) == (1, 2, 0)
        assert find_duplicates(archive).unread > 0
    assert "0 of 1 episodes" in wshard("leaks", "episode:noisy", "episode:task-7-1", code=1).stdout


def test_without_their_files_only_what_is_equal_is_found(tmp_path):
    save(tmp_path / "data", *made())
    ingest(tmp_path / "archive", tmp_path / "data")
    shutil.rmtree(tmp_path / "data")
    with opened_archive(tmp_path / "archive") as archive:
        found = find_duplicates(archive)
        assert unordered(found) == {(frozenset({"task-0-0", "renamed"}), "vector")}
        assert found.unread >= len(found)


def test_leaks_between_two_sets(home):
    with opened_archive(home) as archive:
        twins = find_leaks(archive, "meta.number:0..3 -episode:noisy", "episode:noisy")
        assert pairs(twins) == {("task-1-3", "noisy", "near")}
        assert find_leaks(archive, "env:task-1", "env:task-3") == []
        both = find_leaks(archive, "env:task-1 episode:task-1-3", "env:task-1 episode:task-1-3")
        assert pairs(both) == {("task-1-3", "task-1-3", "episode")}


def test_outliers_subsets_weights_and_labels(home):
    with opened_archive(home) as archive:
        found = find_outliers(archive, neighbours=5)
        assert found[0].episode.episode_id == "odd"
        assert len(found) == archive.catalog.query.count()
        chosen = select_subset(archive, TASKS + 1)
        assert {one.episode.env_id for one in chosen} == {f"task-{task}" for task in range(TASKS)}
        assert [one.value for one in chosen] == sorted((one.value for one in chosen), reverse=True)
        central = select_subset(archive, TASKS, method="facility-location", where="-episode:odd")
        assert {one.episode.env_id for one in central} == {f"task-{task}" for task in range(TASKS)}
        weighed = weigh(archive, "env:task-2")
        assert {one.episode.env_id for one in weighed[:EACH]} == {"task-2"}
        assert np.mean([one.value for one in weighed]) == pytest.approx(1)
        doubted = find_mislabeled(archive, "env", where="-episode:odd", neighbours=5)
        assert doubted[0].value < 0.5
        with pytest.raises(QueryError, match="expected episodes with a label 'colour', found none"):
            find_mislabeled(archive, "colour")
        with pytest.raises(QueryError, match="k-center or facility-location, found 3 by 'random'"):
            select_subset(archive, 3, method="random")
        with pytest.raises(QueryError, match="above 1, found 1"):
            weigh(archive, "env:task-2", clip=1)
        with pytest.raises(QueryError, match="clip of importance weights: expected a finite number, found 'a'"):
            weigh(archive, "env:task-2", clip="a")
        with pytest.raises(QueryError, match="of the target"):
            weigh(archive, "env:nothing")
        with pytest.raises(QueryError, match="found none that pass the filter"):
            find_outliers(archive, "env:nothing")
        for find in (find_outliers, find_duplicates, find_pieces):
            with pytest.raises(QueryError, match=r"expected an open Archive \(see open_archive\), found 'place'"):
                find("place")


def test_counts_and_differences_that_are_none_are_refused(home):
    with opened_archive(home) as archive:
        for neighbours, message in ((0, "at least 1, found 0"), (-3, "at least 1, found -3"), (1.5, "a whole number")):
            for find in (find_outliers, lambda stored, **requested: find_mislabeled(stored, "env", **requested)):
                with pytest.raises(QueryError, match=f"neighbours: expected {message}"):
                    find(archive, neighbours=neighbours)
        for within in (-1, float("nan"), "a"):
            for find in (find_duplicates, find_pieces):
                with pytest.raises(QueryError, match="within: expected"):
                    find(archive, within=within)
            for find in (find_leaks, find_shared):
                with pytest.raises(QueryError, match="within: expected"):
                    find(archive, "", "", within=within)
        with pytest.raises(QueryError, match="count: expected a whole number"):
            select_subset(archive, 1.5)
        found = find_outliers(archive, neighbours=np.int64(5))
        assert [one.value for one in found] == [one.value for one in find_outliers(archive, neighbours=5)]


class _Distant:
    """Where an episode ends, far from the origin: all directions are about the same, distances are not."""

    name, version, uses_statistics, metric = "distant", 1, False, "l2"

    def parameters(self):
        return {}

    def dim(self, channels):
        return channels

    def embed(self, windows, statistics):
        return np.array([40 + window[-1] for window in windows], np.float32).reshape(len(windows), -1)


def test_vectors_of_another_metric_are_ranked_by_it_and_otherwise_by_direction(own, data):
    ingest(own, data, embedder=_Distant())
    with opened_archive(own) as archive:
        distant = next(space for space in find_whole_spaces(archive) if space.embedder == "distant")
        stored = read_chosen_vectors(archive, "", distant.fingerprint)
        assert np.linalg.norm(stored.vectors, axis=1).min() > 50
        wide = stored.vectors.astype(np.float64)
        units = wide / np.linalg.norm(wide, axis=1, keepdims=True)
        np.testing.assert_allclose(stored.directions, units, atol=1e-6)
        values = {one.episode.id: one.value for one in find_outliers(archive, space=distant.fingerprint)}
        expected = score_outliers(units.astype(np.float32), stored.lengths)
        np.testing.assert_allclose([values[row.id] for row in stored.episodes], expected, atol=1e-3)
        labels = [row.env_id for row in stored.episodes]
        found = next(one for one in evaluate_label(archive, "env") if one.space == distant)
        far = -np.linalg.norm(wide[:, None] - wide, axis=2)
        assert found.scores == leave_one_out_by(lambda places: far[places].copy(), labels, np.arange(len(labels)))


def test_a_swapped_label_comes_first(own):
    with opened_archive(own) as archive:
        ids = {row.episode_id: row.id for row in archive.catalog.episodes.rows(archive.catalog.query.ids()).values()}
        for name, id_ in ids.items():
            archive.catalog.annotations.tag(
                [id_], "task-3" if name == "task-1-5" else archive.catalog.episodes.get(id_).env_id
            )
        found = find_mislabeled(archive, "tag", "-episode:odd", neighbours=5)
    assert (found[0].episode.episode_id, found[0].suggested) == ("task-1-5", "task-1")


def test_an_environment_without_a_name_is_no_label(tmp_path):
    for name in ("push", ""):
        lanes = {"state": Channel.of("state", np.zeros((5, 2), np.float32))}
        save_wshard(Episode(id=f"in-{name}", env_id=name, observations=lanes), tmp_path / f"in-{name}.wshard")
    ingest(tmp_path / "lab", tmp_path)
    with opened_archive(tmp_path / "lab") as archive:
        assert labels_of(archive, archive.catalog.query.select("", order="episode_id").rows, "env") == [None, "push"]


def test_of_several_spaces_of_the_same_episodes_the_newest_counts(own, data):
    ingest(own, data, embedder="dct")
    with opened_archive(own) as archive:
        arc, dct = find_whole_spaces(archive)
        assert choose_space(archive, "") == (dct, [arc])
        assert find_outliers(archive) == find_outliers(archive, space=dct.fingerprint)
        assert read_chosen_vectors(archive, "", dct.fingerprint[:12]).space == dct
        expected = "one Space of whole episodes with the fingerprint 'nothing', found none; there is:\n  blocks"
        with pytest.raises(QueryError, match=expected):
            find_outliers(archive, space="nothing")
        assert unordered(find_duplicates(archive)) == EXPECTED
        assert unordered(find_duplicates(archive, space=arc.fingerprint)) == EXPECTED


def test_episodes_of_several_spaces_are_compared_group_by_group(own, tmp_path):
    with opened_archive(own) as archive:
        alone = {
            "outliers": find_outliers(archive),
            "weights": weigh(archive, "env:task-1"),
            "mislabeled": find_mislabeled(archive, "env"),
            "subset": select_subset(archive, 38),
        }
    others = [episode(9, number, lanes=("pose",)) for number in range(3)]
    single = episode(8, 0, lanes=("gripper",))
    ingest(own, *save(tmp_path, *others, single), windows="whole")
    with opened_archive(own) as archive:
        groups, _ = group_by_space(archive, "")
        assert [len(ids) for _, ids in groups] == [38, 3, 1]
        with pytest.raises(QueryError, match=r"choose one by its fingerprint(.|\n)*3 episodes by blocks"):
            choose_space(archive, "")
        together = {
            "outliers": find_outliers(archive),
            "weights": weigh(archive, "env:task-1"),
            "mislabeled": find_mislabeled(archive, "env"),
            "subset": select_subset(archive, 42),
        }
        first = groups[0][1]
        for name, values in together.items():
            assert len(values) == 42, name
            assert len({one.episode.id for one in values}) == 42
            factor = 42 / 38 if name == "weights" else 1  # the mean weight of all is 1
            own_rows = [(one.episode.id, one.value) for one in values if one.episode.id in first]
            expected = [(one.episode.id, factor * one.value) for one in alone[name]]
            assert own_rows == [(id_, pytest.approx(value)) for id_, value in expected], name
        assert {one.value for one in together["weights"] if one.episode.id not in first} == {0.0}
        shared = weigh(archive, "env:task-1 OR env:task-9")
        assert np.mean([one.value for one in shared]) == pytest.approx(1)
        of_target = archive.catalog.query.count("env:task-1 OR env:task-9")
        assert sum(one.value for one in shared if one.episode.env_id == "task-9") == pytest.approx(42 * 3 / of_target)
        prefix = select_subset(archive, 14)
        assert prefix == together["subset"][:14]
        assert sum(one.episode.id not in first for one in prefix) == 1
        assert len(find_outliers(archive, "env:task-9")) == 3
    for verb in (
        ["outliers"],
        ["select", "-k", "5"],
        ["weights", "-t", "env:task-1"],
        ["mislabeled", "--label", "env"],
    ):
        output = wshard(*verb).stderr
        assert "3 groups, each compared by itself:\n  38 episodes using blocks" in output
        assert "  1 episode using blocks" in output


@pytest.mark.parametrize(
    "verb", [["outliers"], ["select", "-k", "3"], ["weights", "-t", "env:task-1"], ["mislabeled", "--label", "env"]]
)
def test_commands_say_which_of_several_spaces_they_compare_by(own, data, verb):
    assert "compared by" not in wshard(*verb).stderr
    ingest(own, data, embedder="dct")
    both = wshard(*verb)
    assert both.exit_code == 0
    assert "using dct over signal/state" in both.stderr
    assert f"also available (--space): blocks version {Blocks.version} over" in both.stderr
    with opened_archive(own) as archive:
        arc = find_whole_spaces(archive)[0].fingerprint
    assert "compared by" not in wshard(*verb, "--space", arc).stderr


def test_evaluation_is_leave_one_out_in_every_space(own, data):
    ingest(own, data, embedder="arcdct", windows=WindowPlan(20, 10))
    with opened_archive(own) as archive:
        found = {one.space.windows.whole: one for one in evaluate_label(archive, "task")}
        stored = read_chosen_vectors(archive, "")
        named = [
            (row.metadata.get("task"), vector) for row, vector in zip(stored.episodes, stored.vectors, strict=True)
        ]
        labels, vectors = zip(*((name, vector) for name, vector in named if name is not None), strict=True)
        assert found[True].scores == leave_one_out(np.stack(vectors), labels)
        assert (found[True].episodes, found[True].labels) == (len(labels), TASKS)
        assert found[False].scores.mean_average_precision > 0.7
        with pytest.raises(QueryError, match="one label 'number' at least"):
            evaluate_label(archive, "number", "meta.number:99")
        with pytest.raises(FilterError):
            evaluate_label(archive, "text")


@pytest.mark.long
def test_evaluate_says_what_each_of_its_bars_is_for(own, data, monkeypatch):
    monkeypatch.setattr(progress, "_FIRST_LINE_S", 0)
    monkeypatch.setattr(progress, "_LINE_EVERY_S", 0)
    ingest(own, data, embedder=None, windows="multi:10,15")
    output = wshard("evaluate", "--label", "env").stderr
    for what in ("blocks over signal/state, whole episodes", "windows of 10, 15", "search, default ranking"):
        assert f"queries: {what}" in output or f"signal/state, {what}" in output
    assert output.count("queries: ") >= 3


def test_duplicates_on_the_command_line(own):
    output = wshard("duplicates", "--write", "group", "--collection", "clean").stdout
    assert "4 groups; 5 of 38 episodes are duplicates" in output
    assert "1 group; 1 of 2 episodes" in wshard("duplicates", "-w", "episode:task-1-3,noisy").stdout
    assert "collection clean: 33 picks" in output
    assert "near" in output
    found = json.loads(wshard("duplicates", "--json").stdout)
    assert (found["episodes"], len(found["items"])) == (38, 4)
    assert json.loads(wshard("duplicates", "--json", "-w", "collection:clean").stdout)["items"] == []
    wshard("collection", "save", "all", "-w", "")
    wshard("collection", "split", "all", "--by", "score.group", "--fractions", "train=0.5,test=0.5")
    assert "0 of 19" in wshard("leaks", "all/train", "all/test").stdout
    wshard("collection", "save", "one", "-w", "episode:noisy")
    wshard("collection", "without", "rest", "all", "one")
    assert json.loads(wshard("leaks", "rest", "one", "--json", code=1).stdout)["leaked"] == 1


def test_a_set_that_is_neither_a_collection_nor_a_filter_is_reported_as_both(own):
    done = wshard("leaks", "nobody/train", "nobody/val", code=2)
    assert "expected a collection (`wshard collection ls` lists them) or a filter, found 'nobody/train'" in done.stderr


def test_leaks_on_the_command_line(own):
    done = wshard("leaks", "meta.number:0..3 -episode:noisy", "episode:noisy", "--collection", "rest", code=1)
    assert "1 of 1 episodes of the second set are in the first, or duplicate one there" in done.stdout
    assert json.loads(wshard("collection", "show", "rest", "--json").stdout)["items"] == []
    pair = json.loads(wshard("leaks", "episode:task-1-3", "episode:noisy", "--json", code=1).stdout)["items"][0]
    assert (pair["left"]["episode_id"], pair["right"]["episode_id"]) == ("task-1-3", "noisy")
    assert pair["apart"] < 0.02


def test_values_are_stored_and_can_be_requested(own):
    output = wshard("outliers", "--neighbors", 5, "--write", "outlier", "-n", 3).stdout.splitlines()
    assert "odd" in output[1]
    listed = json.loads(wshard("ls", "--json", "-w", "score.outlier:>3", "--sort", "-score.outlier").stdout)
    assert listed["items"][0]["episode_id"] == "odd"
    assert output[-2] == f"{listed['total']} above 3, which is rare"
    chosen = json.loads(wshard("select", "--count", 5, "--collection", "five", "--write", "rank", "--json").stdout)[
        "items"
    ]
    assert [one["rank"] for one in chosen] == [1, 2, 3, 4, 5]
    picks = json.loads(wshard("collection", "show", "five", "--json").stdout)["items"]
    assert {pick["uid"] for pick in picks} == {one["uid"] for one in chosen}
    first = json.loads(wshard("ls", "--json", "-w", "score.rank:1").stdout)["items"]
    assert first[0]["uid"] == chosen[0]["uid"]
    wshard("weights", "--target", "five", "--collection", "weighed", "--clip", 4)
    picks = json.loads(wshard("collection", "show", "weighed", "--json").stdout)["items"]
    assert len(picks) == 38
    assert sum(pick["weight"] for pick in picks) == pytest.approx(38)
    output = wshard("mislabeled", "--label", "env").stdout.splitlines()
    assert output[0].split() == ["rank", "doubt", "episode", "label", "suggested", "length", "file"]
    assert "another label is more frequent among their neighbours" in output[-1]
    assert "mean cosine" in wshard("select", "-k", 2, "--method", "facility-location").stdout
    assert "only 38 episodes to select from, 99 requested" in wshard("select", "-k", 99, "--json").stderr
    assert "'facility-location'" in wshard("select", "-k", 2, "--method", "x", code=2).stderr


def test_evaluate_on_the_command_line(own):
    output = wshard("evaluate", "--label", "task").stdout.splitlines()
    assert output[0].split() == ["mAP", "P@1", "P@10", "recall@10", "queries", "labels", "ranked", "by"]
    assert output[3].split()[0] == "label"
    assert "4 of 4 labels, ranked by blocks" in output[-1]
    (found,) = json.loads(wshard("evaluate", "--label", "env", "-k", 5, "--json").stdout)["items"]
    assert (found["labels"], found["k"], found["episodes"]) == (TASKS, 5, 38)
    assert 0.5 < found["mean_average_precision"] <= 1
    of_labels = found["of_labels"]
    assert sum(one["queries"] for one in of_labels) == 38
    averages = [one["mean_average_precision"] for one in of_labels]
    assert averages == sorted(averages)
    weighed = sum(one["queries"] * one["mean_average_precision"] for one in of_labels) / 38
    assert weighed == pytest.approx(found["mean_average_precision"])


@pytest.mark.long
def test_evaluate_reports_how_the_search_ranks_that_takes_several_spaces(own, data):
    ingest(own, data, windows=[WindowPlan(), WindowPlan(scales=(30, 60))])
    some = "meta.number:0..2"
    every = json.loads(wshard("evaluate", "--label", "task", "--where", some, "--json").stdout)["items"]
    assert [one["space"] is None for one in every] == [True, False, False]
    assert every[0]["about"] == "search, default ranking"
    with TrajectoryRetriever(own) as retriever, opened_archive(own) as archive:
        rows = archive.catalog.episodes.rows(archive.catalog.query.ids(some)).values()
        labels = {row.uid: row.metadata["task"] for row in rows}
        firsts = []
        for row in rows:
            query = make_ref(row, 1, (0, row.length))
            (hit,) = retriever.search_similar_episodes(query, 1, where=some, exclude_self=True)
            firsts.append(labels[hit.uid] == labels[row.uid])
    assert every[0]["queries"] == len(firsts)
    assert every[0]["precision_at_1"] == pytest.approx(np.mean(firsts))


def test_evaluation_queries_episodes_that_can_be_queries(tmp_path, monkeypatch):
    rows = episode(1, 0).observations["state"].data.copy()
    rows[3:13] = np.nan
    broken = replace(changed(episode(1, 0), "broken", lambda _: rows), env_id="task-1")
    save(tmp_path, *(episode(*one) for one in [(0, 0), (1, 0), (2, 0), (3, 0), (3, 1), (3, 2)]), broken)
    ingest(tmp_path / "archive", tmp_path, windows=[WindowPlan(), WindowPlan(scales=(10, 20))])
    monkeypatch.setattr(compare, "_OF_WINDOWS", (2, 3))
    monkeypatch.setattr(compare, "_WORK", 1)
    with opened_archive(tmp_path / "archive") as archive:
        found = [*evaluate_label(archive, "env"), evaluate_search(archive, "env")]
        for one in found:
            (of_label,) = one.scores.of_labels
            assert (of_label.label, of_label.size, one.episodes) == ("task-3", 3, 6)
        assert sorted(one.scores.queries for one in found) == [2, 3, 3]
        monkeypatch.setattr(compare, "_OF_WHOLES", 2)
        assert [one.scores.queries for one in evaluate_label(archive, "env") if one.space.windows.whole] == [2]
        rewrite(tmp_path / "task-3" / "task-3-1.wshard", episode(3, 9, id="task-3-1"))
        assert evaluate_search(archive, "env").scores.queries == 2


def test_evaluation_leaves_out_who_asks_from_a_damaged_file(tmp_path, monkeypatch):
    save(tmp_path, *(episode(1, number) for number in range(4)))
    broken = tmp_path / "task-1" / "task-1-1.wshard"
    with open_wshard(broken) as file:  # its ticks are not embedded: ingest does not read them
        there = file.shard.entry("time/ticks").data_offset
    raw = bytearray(broken.read_bytes())
    raw[there] ^= 0xFF
    broken.write_bytes(raw)
    ingest(tmp_path / "archive", tmp_path, windows=[WindowPlan(), WindowPlan(scales=(10, 20))])
    with opened_archive(tmp_path / "archive") as archive:
        opened, load = [], EpisodeRef.load
        monkeypatch.setattr(EpisodeRef, "load", lambda ref: opened.append(ref.episode_id) or load(ref))
        found = evaluate_search(archive, "env")
        assert (found.episodes, found.scores.queries) == (4, 3)
        assert sorted(opened) == [f"task-1-{number}" for number in range(4)]  # each once
        for path in files(tmp_path / "task-1"):
            path.write_bytes(path.read_bytes()[:-1])
        assert evaluate_search(archive, "env") is None


def spliced():
    """Return an episode of two halves of others, and where they come from."""
    first, second = episode(5, 0, T=200), episode(6, 0, T=200)
    rows = np.concatenate([first.observations["state"].data[100:], second.observations["state"].data[:100]])
    state = replace(first.observations["state"], data=rows)
    return [first, second, replace(first, id="spliced", observations={"state": state})]


@pytest.fixture
def halves(tmp_path, monkeypatch):
    monkeypatch.setenv("WSHARD_ARCHIVE", str(tmp_path / "archive"))
    save(tmp_path / "data", *spliced(), *(episode(5, number, T=200) for number in range(1, 5)))
    ingest(tmp_path / "archive", tmp_path / "data", windows=[WindowPlan(), WindowPlan(scales=(30, 60))])
    return tmp_path / "archive"


def test_pieces_are_found_with_their_bounds(halves):
    with opened_archive(halves) as archive:
        assert find_duplicates(archive) == []
        found = {}
        for twin in find_pieces(archive):
            ids = (twin.left.episode_id, twin.right.episode_id)
            turned = ids[0] == "spliced"
            start, stop = twin.span
            of_other = (start - twin.shift, stop - twin.shift) if turned else (start, stop)
            found[ids[1] if turned else ids[0]] = (of_other, twin.kind, twin.apart)
        assert found == {"task-5-0": ((100, 200), "piece", 0.0), "task-6-0": ((0, 100), "piece", 0.0)}
        across = find_shared(archive, "env:task-6", "env:task-5")
        assert [(twin.left.episode_id, twin.right.episode_id, twin.span) for twin in across] == [
            ("task-6-0", "spliced", (0, 100))
        ]
        with pytest.raises(QueryError, match="expected one Space of windows with"):
            find_pieces(archive, space="nothing")


def test_pieces_of_files_that_cannot_be_read_are_counted(halves):
    sets = ("env:task-6", "env:task-5")
    assert "piece" in wshard("leaks", *sets, "--pieces", code=1).stdout
    (halves.parent / "data" / "task-6" / "task-6-0.wshard").unlink()
    with opened_archive(halves) as archive:
        lost = find_shared(archive, *sets)
        assert ([*lost], {twin.left.episode_id for twin in lost.unread_pairs}) == ([], {"task-6-0"})
        assert {"task-6-0", "spliced"} in [{one.left.episode_id, one.right.episode_id} for one in lost.unread_pairs]
        assert [frozenset({twin.left.episode_id, twin.right.episode_id}) for twin in find_pieces(archive)] == [
            {"spliced", "task-5-0"}
        ]
    assert "not compared: files are missing" in wshard("duplicates", "--pieces").stderr
    failed = wshard("leaks", *sets, "--pieces", code=1)
    assert "not compared: files are missing" in failed.stderr
    assert "0 of 6 episodes" in failed.stdout


def test_pieces_on_the_command_line(halves):
    assert json.loads(wshard("duplicates", "--json").stdout)["items"] == []
    (group,) = json.loads(wshard("duplicates", "--pieces", "--json", "--write", "group").stdout)["items"]
    assert {one["episode_id"] for one in group["episodes"]} == {"task-5-0", "task-6-0", "spliced"}
    assert {pair["kind"] for pair in group["pairs"]} == {"piece"}
    wshard("leaks", "env:task-6", "env:task-5")
    assert "100:200" in wshard("leaks", "env:task-6", "env:task-5", "--pieces", code=1).stdout


def test_still_moments_are_not_pieces(tmp_path):
    still = [episode(7, number, T=100) for number in range(3)]
    for one in still:
        one.observations["state"].data[:60] = 0.25
    save(tmp_path / "data", *still)
    ingest(tmp_path / "archive", tmp_path / "data", windows=WindowPlan(30, 15))
    with opened_archive(tmp_path / "archive") as archive:
        assert find_pieces(archive) == []


def test_the_command_line_has_the_threshold_of_the_library():
    assert curate.WITHIN == duplicates.WITHIN


def test_a_set_without_episodes_is_not_a_proof_on_the_command_line(own):
    for sets in (("slip-of-the-pen", "env:*"), ("env:*", "slip-of-the-pen")):
        output = wshard("leaks", *sets, code=1).stderr
        assert "found none for 'slip-of-the-pen'" in output


def test_empty_sets_have_nothing_in_common(home):
    with opened_archive(home) as archive:
        assert find_duplicates(archive, "env:nothing") == []
        assert find_leaks(archive, "env:nothing", "env:task-1") == []
        assert find_leaks(archive, "env:task-1", "env:nothing") == []
        assert group_episodes([], []) == {}
        assert len(find_leaks(archive, "", "")) == archive.catalog.query.count() + len(EXPECTED)


def test_an_embedder_without_statistics_finds_copies_too(home, data):
    ingest(home.parent / "mean", data, embedder="mean")
    with opened_archive(home.parent / "mean") as archive:
        assert find_whole_spaces(archive)[0].statistics is None
        assert unordered(find_duplicates(archive)) == EXPECTED


def test_the_most_uncertain_episodes_are_not_yet_marked(own):
    with opened_archive(own) as archive:
        ids = archive.catalog.query.ids()
        marked = [ids[0], ids[1], ids[-1]]
        probe = train_probe(archive, marked[:2], marked[2:])
        offered = [row.id for row, _ in probe.uncertain(len(ids))]
        assert sorted(offered) == sorted({*ids} - {*marked})
        values = dict(zip((row.id for row in probe.episodes), probe.values.tolist(), strict=True))
        assert [abs(values[id_] - 0.5) for id_ in offered] == sorted(abs(values[id_] - 0.5) for id_ in offered)


def test_episodes_with_one_equal_lane_of_several_are_no_duplicates(tmp_path):
    switch = {"switch": Channel.of("switch", np.repeat([0.0, 1.0], 15).astype(np.float32)[:, None])}
    moving = [episode(0, number).observations for number in range(4)]
    lanes = [moving[0], *({**one, **switch} for one in moving[1:]), switch, switch]
    save(tmp_path / "data", *(episode(0, number, observations=one) for number, one in enumerate(lanes)))
    ingest(tmp_path / "archive", tmp_path / "data", windows="both")
    with opened_archive(tmp_path / "archive") as archive:
        assert {frozenset({one.left.episode_id, one.right.episode_id}) for one in find_duplicates(archive)} >= {
            frozenset({"task-0-4", "task-0-5"})
        }
        for found in (find_duplicates(archive), find_pieces(archive)):
            names = [{one.left.episode_id, one.right.episode_id} for one in found]
            assert not any(pair <= {f"task-0-{number}" for number in range(4)} for pair in names)


def count_opened(monkeypatch):
    """Return the names of the episodes that are opened for gaps from now on."""
    opened, open_at = [], lanes_with_gaps.open_at

    def note(address):
        opened.append(address.uri.rpartition("/")[2])
        return open_at(address)

    monkeypatch.setattr(lanes_with_gaps, "open_at", note)
    return opened


def test_no_file_is_opened_for_gaps_where_the_catalog_knows_of_none(home, monkeypatch):
    opened = count_opened(monkeypatch)
    with opened_archive(home) as archive:
        assert unordered(find_duplicates(archive)) == EXPECTED
    assert opened == []


def test_a_gap_in_one_lane_makes_no_duplicates_of_episodes_that_share_another(tmp_path, monkeypatch):
    """What is left to compare is a switch, which is the same in all; but the files say that the movements differ."""
    opened = count_opened(monkeypatch)
    switch = {"switch": Channel.of("switch", np.repeat([0.0, 1.0], 15).astype(np.float32)[:, None])}
    lanes = [{**episode(0, number).observations, **switch} for number in range(6)]
    lanes.append(lanes[1])
    for number in (0, 1):
        rows = lanes[number]["state"].data.copy()
        rows[5 : len(rows) // 2] = np.nan
        lanes[number] = {**switch, "state": replace(lanes[number]["state"], data=rows)}
    save(tmp_path / "data", *(episode(0, number, observations=one) for number, one in enumerate(lanes)))
    ingest(tmp_path / "archive", tmp_path / "data", windows="both")
    with opened_archive(tmp_path / "archive") as archive:
        copies = frozenset({"task-0-1", "task-0-6"})
        for found in (find_duplicates(archive), find_pieces(archive)):
            assert {frozenset({one.left.episode_id, one.right.episode_id}) for one in found} == {copies}
    assert {"task-0-0.wshard", "task-0-1.wshard"} < {*opened}
