"""Search: every form of query, choosing among Spaces, filters, hits that load themselves, and what is refused."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bridge_episodes import episode, ingest, opened_archive, save, spaces_of

import bridge
import catalog
from bridge.search.query.fit import cut
from catalog import Compare
from embedders import Space, WindowPlan
from wshard import Channel, Episode, TrajectoryIngestor, TrajectoryRetriever, deepdata_bridge, load_wshard, open_archive
from wshard.errors import (
    CatalogNotFoundError,
    EntryNotFoundError,
    FilterError,
    QueryError,
    SpaceMismatchError,
    StaleEpisodeError,
)
from wshard.testing import assert_same_episode, make_episode

EXACT = pytest.approx(1.0, abs=1e-6)


def state(one):
    return one.observations["state"].data


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with 20 episodes of four tasks, some of them without rewards."""
    made = [episode(task, number, 20 + 5 * number) for task in range(4) for number in range(5)]
    for one in made[::7]:
        one.rewards = None
    place = tmp_path_factory.mktemp("data")
    save(place, *made)
    return place


@pytest.fixture(scope="module")
def retriever(folder, tmp_path_factory):
    archive = tmp_path_factory.mktemp("archive")
    ingest(archive, folder)
    with TrajectoryRetriever(archive) as opened:
        yield opened


# ---- queries --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form",
    [
        lambda one: one,
        state,
        lambda one: state(one).tolist(),
        lambda one: {"state": state(one)},
        lambda one: {"signal/state": state(one).astype(np.float64)},
        lambda one: {"state": one.observations["state"]},
        lambda one: np.asfortranarray(state(one)),
    ],
    ids=["episode", "array", "lists", "mapping", "block", "channel", "fortran"],
)
def test_every_episode_finds_itself_first_with_score_1(retriever, form):
    for task in range(4):
        for number in range(5):
            hits = retriever.search_similar_episodes(form(episode(task, number, 20 + 5 * number)), 3)
            assert (hits[0].episode_id, hits[0].score) == (f"task-{task}-{number}", EXACT)
            assert hits[0].span == (0, 20 + 5 * number)
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
            assert hits.exact
            assert hits.milliseconds > 0


def test_one_observation_is_a_query(tmp_path):
    paths = save(tmp_path / "data", *(episode(task, 0, 1) for task in range(4)))
    ingest(tmp_path / "archive", *paths)
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        for task in range(4):
            hit = retriever.search_similar_episodes(state(episode(task, 0, 1))[0], 1)[0]
            assert (hit.episode_id, hit.score) == (f"task-{task}-0", EXACT)


def test_a_part_of_an_episode_is_a_query(retriever):
    part = cut(episode(2, 4, 40), 3, 37)
    assert part.length == 34
    assert retriever.search_similar_episodes(part, 1)[0].episode_id == "task-2-4"
    with pytest.raises(QueryError, match="span 50:60 holds no timestep of episode 'task-2-4', which has 40"):
        cut(episode(2, 4, 40), 50, 60)
    with pytest.raises(QueryError, match="span 30:41 ends after the last timestep of episode 'task-2-4', which has 40"):
        cut(episode(2, 4, 40), 30, 41)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (np.zeros((5, 7)), r"of shape \[5, 7\] fits none"),
        (np.zeros(3), r"of shape \[3\] fits none"),
        ({"other": np.zeros((5, 4))}, r"with lanes other\[5, 4\] fits none"),
        ({"state": np.zeros((5, 3))}, r"with lanes state\[5, 3\] fits none"),
        (make_episode(1), "'reach-0001' with lanes signal/joint_pos, signal/gripper, action/ctrl, reward fits none"),
    ],
)
def test_a_query_that_fits_nothing_is_refused_with_what_there_is(retriever, query, message):
    with pytest.raises(QueryError, match=message) as caught:
        retriever.search_similar_episodes(query)
    assert "signal/state[4] (4 channels), whole episodes" in str(caught.value)


class Tensor:
    """What other libraries' arrays do that cannot be had as numpy's."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        raise self.error


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ([[1, 2, 3, 4], [1, 2]], "inhomogeneous shape"),
        (np.ma.masked_less(np.ones((5, 4)) * np.arange(4), 1), "masked elements"),
        (Tensor(RuntimeError("it requires grad")), "it requires grad"),
        (Tensor(TypeError("unsupported BFloat16")), "unsupported BFloat16"),
    ],
    ids=["ragged", "masked", "with gradients", "of another dtype"],
)
def test_a_query_that_is_not_an_array_is_refused_before_anything_is_searched(retriever, query, message):
    with pytest.raises(QueryError, match=rf"query, \[D\] or \[T, D\]: expected an array.*{message}"):
        retriever.search_similar_episodes(query)
    with pytest.raises(QueryError, match=f"query: lane 'state': expected an array.*{message}"):
        retriever.search_similar_episodes({"state": query})


def test_numbers_that_are_not_finite_are_refused(retriever):
    query = state(episode(0, 0)).copy()
    query[3, 1] = np.nan
    found = r"of shape \[\d+, 4\]: lane 'signal/state': expected finite .*found nan at timestep 3, channel 1$"
    with pytest.raises(QueryError, match=found):
        retriever.search_similar_episodes(query)
    for empty in (np.zeros((0, 4)), {"state": np.zeros((0, 4))}):
        with pytest.raises(QueryError, match=r"0, 4\]: expected at least one timestep, found none"):
            retriever.search_similar_episodes(empty)
    with pytest.raises(QueryError, match="top_k: expected at least 1, found 0"):
        retriever.search_similar_episodes(state(episode(0, 0)), 0)


@pytest.mark.parametrize(
    "query", [["a.wshard", "b.wshard"], [Path("a.wshard")], b"a", {1}, 1j, 3.5, True, "", {}, {1: 2}, [], np.array(3.0)]
)
def test_an_invalid_query_raises_an_error_that_says_what_is_valid(retriever, query):
    found = (
        rf"query: expected an episode_id, .*\{{lane: array\}}, found {type(query).__name__} .*; several are given by"
    )
    with pytest.raises(QueryError, match=found):
        retriever.search_similar_episodes(query)


@pytest.mark.parametrize("number", [5, np.int64(5), np.array(5)])
def test_the_number_of_an_episode_in_the_catalog_is_no_query(retriever, number):
    with pytest.raises(QueryError, match=rf"found {type(number).__name__} .*row ids are not accepted: pass the uid"):
        retriever.search_similar_episodes(number)


@pytest.mark.parametrize("value", ["a", 5, None])
def test_a_lane_of_no_numbers_is_named(retriever, value):
    with pytest.raises(QueryError, match="query: lane 'state': expected an array of real numbers, found"):
        retriever.search_similar_episodes({"state": value})


# ---- choosing among Spaces ------------------------------------------------------------------------------------------


def test_env_id_distinguishes_similar_lanes(tmp_path):
    renamed = [episode(5, n, lanes=("pose",)) for n in range(3)]
    save(tmp_path / "data", *(episode(0, n) for n in range(3)), *renamed)
    ingest(tmp_path / "archive", tmp_path / "data")
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        query = renamed[1].observations["pose"].data
        both = retriever.search_similar_episodes(query)
        assert (both[0].episode_id, both[0].score, len(both)) == ("task-5-1", EXACT, 6)
        lanes = {lane.name for space in both.answered.spaces for lane in space.lanes}
        assert (lanes, both.answered.others) == ({"signal/pose", "signal/state"}, ())
        assert retriever.search_similar_episodes(query, env_id="nowhere") == []
        assert retriever.search_similar_episodes(query, env_id="task-5")[0].episode_id == "task-5-1"
        assert retriever.search_similar_episodes({"pose": query})[0].score == EXACT
        assert retriever.search_similar_episodes(renamed[1])[0].score == EXACT
        assert retriever.search_similar_episodes(renamed[1], env_id="nowhere") == []
    with TrajectoryRetriever(tmp_path / "archive", lanes=["pose"]) as retriever:
        assert retriever.search_similar_episodes(query)[0].score == EXACT


def test_a_filter_that_only_episodes_of_other_lanes_pass_gives_no_hits(tmp_path):
    other = [episode(5, n, T=40, lanes=("pose", "goal")) for n in range(3)]
    save(tmp_path / "data", *(episode(0, n, T=40) for n in range(3)), *other)
    TrajectoryIngestor(tmp_path / "archive").ingest([tmp_path / "data"], windows="both")
    rows = other[1].observations["pose"].data
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        for find in (retriever.search_similar_episodes, retriever.search_similar_timesteps, retriever.search_moments):
            for query in (other[1], {"pose": rows, "goal": rows}, np.concatenate([rows, rows], axis=1)):
                assert find(query, env_id="task-5")
                assert find(query, env_id="task-0") == find(query, where="meta.number:9") == []
            damaged = rows.copy()
            damaged[7, 2] = np.inf
            with pytest.raises(QueryError, match=r"lane 'signal/goal': .*found inf at timestep 7, channel 2$"):
                find({"pose": rows, "goal": damaged})


def test_lanes_of_different_lengths_are_reported(tmp_path):
    save(tmp_path / "data", *(episode(0, n, lanes=("pose", "goal")) for n in range(3)))
    ingest(tmp_path / "archive", tmp_path / "data")
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        message = "expected a query with lanes of as many timesteps, found signal/goal of 6, signal/pose of 5"
        with pytest.raises(QueryError, match=message):
            retriever.search_similar_episodes({"pose": np.zeros((5, 4)), "goal": np.zeros((6, 4))})


def test_a_number_per_timestep_may_be_requested_in_either_form(tmp_path):
    rng = np.random.default_rng(0)
    grips = [rng.standard_normal(12).astype("f4") for _ in range(8)]

    def gripping(number, form, name="grip"):
        channel = Channel.of(name, grips[number].reshape(form))
        return Episode(f"e{number}", f"env{len(form)}", 12, observations={name: channel})

    save(tmp_path / "one", *(gripping(number, (12,)) for number in range(4)))
    ingest(tmp_path / "one", tmp_path / "one")
    save(tmp_path / "two", *(gripping(number, (12, 1)) for number in range(4, 8)))
    ingest(tmp_path / "two", tmp_path / "two")
    forms = [(12,), (12, 1)]
    for place, numbers in (("one", range(4)), ("two", range(4, 8))):
        with TrajectoryRetriever(tmp_path / place) as retriever:
            for number, form in itertools.product(numbers, forms):
                for query in ({"grip": grips[number].reshape(form)}, gripping(number, form)):
                    hit = retriever.search_similar_episodes(query, 1)[0]
                    assert (hit.episode_id, hit.score) == (f"e{number}", EXACT)
            for form in [(1, 12), (6, 2), (6, 1, 2)]:
                with pytest.raises(QueryError, match="fits none"):
                    retriever.search_similar_episodes({"grip": grips[0].reshape(form)})
    ingest(tmp_path / "one", tmp_path / "two")  # both forms in one archive: what comes as it is stored is not ambiguous
    with TrajectoryRetriever(tmp_path / "one") as retriever:
        for number, form in ((0, (12,)), (4, (12, 1))):
            hits = retriever.search_similar_episodes({"grip": grips[number].reshape(form)})
            assert hits[0].episode_id == f"e{number}"


def test_the_embedder_chooses_where_an_archive_was_embedded_in_several_ways(tmp_path, folder):
    for name in ("arcdct", "mean"):
        ingest(tmp_path, folder, embedder=name)
    query = state(episode(1, 1, 25))
    with TrajectoryRetriever(tmp_path) as retriever:
        hits = retriever.search_similar_episodes(query)
        assert hits[0].episode_id == "task-1-1"
        answered = hits.answered.spaces, hits.answered.others
        assert [[space.embedder for space in some] for some in answered] == [["mean"], ["arcdct"]]
    for name in ("arcdct", "mean"):
        with TrajectoryRetriever(tmp_path, name) as retriever:
            assert retriever.search_similar_episodes(query)[0].episode_id == "task-1-1"
    with TrajectoryRetriever(tmp_path, "stats") as retriever:
        with pytest.raises(
            SpaceMismatchError, match=r"was not embedded by stats version 1.*ingest it with that"
        ) as message:
            retriever.search_similar_episodes(query)
        assert "arcdct over" in str(message.value)


def test_what_is_not_embedded_cannot_be_searched(tmp_path, retriever):
    with pytest.raises(QueryError, match="there are no vectors for this search"):
        retriever.search_similar_timesteps(state(episode(0, 0)))
    with pytest.raises(CatalogNotFoundError, match=r"no archive at .*`wshard ingest` makes one"):
        TrajectoryRetriever(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


# ---- filters --------------------------------------------------------------------------------------------------------


def passing(retriever, query, **filters):  # noqa: ANN003 -- as its callees
    return {hit.episode_id for hit in retriever.search_similar_episodes(query, 100, **filters)}


def test_filters_mean_what_they_say(retriever):
    query, everything = episode(0, 0), [(task, number) for task in range(4) for number in range(5)]
    rewarded = [pair for place, pair in enumerate(everything) if place % 7]

    def named(pairs):
        return {f"task-{task}-{number}" for task, number in pairs}

    def reward(number):
        return number * (20.0 + 5 * number)

    assert passing(retriever, query) == named(everything)
    assert passing(retriever, query, env_id="task-2") == named((2, n) for n in range(5))
    assert passing(retriever, query, env_id=["task-2", "task-3"]) == named(p for p in everything if p[0] > 1)
    assert passing(retriever, query, min_length=30) == named(p for p in everything if p[1] >= 2)
    assert passing(retriever, query, reward_range=(25.0, 105.0)) == named(p for p in rewarded if 1 <= p[1] <= 3)
    assert passing(retriever, query, reward_range=(None, 25.0)) == named(p for p in rewarded if p[1] <= 1)
    assert passing(retriever, query, reward_range=(None, None)) == named(everything)
    assert passing(retriever, query, reward_range=(reward(4), None)) == named(p for p in rewarded if p[1] == 4)
    odd = Compare("success", "eq", value=False)
    assert passing(retriever, query, where=odd) == named(p for p in everything if p[1] % 2)
    assert passing(retriever, query, env_id="task-1", min_length=25, where=odd) == named([(1, 1), (1, 3)])
    with pytest.raises(FilterError):
        passing(retriever, query, min_length="long")


def test_as_many_hits_as_requested_wherever_that_many_exist(retriever):
    for count in range(1, 25):
        assert len(retriever.search_similar_episodes(episode(0, 0), count)) == min(count, 20)
        assert len(retriever.search_similar_episodes(episode(0, 0), count, env_id="task-3")) == min(count, 5)
    assert retriever.search_similar_episodes(episode(0, 0), env_id="task-9") == []


# ---- hits and their files -------------------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path):
    """Return an archive and its files, which a test may change."""
    paths = save(tmp_path / "data", *(episode(task, number) for task in range(3) for number in range(4)))
    ingest(tmp_path / "archive", *paths)
    return tmp_path / "archive", paths


def test_files_that_are_gone_cost_no_hits(own):
    archive, paths = own
    with TrajectoryRetriever(archive) as retriever:
        best = [Path(hit.file_path) for hit in retriever.search_similar_episodes(episode(0, 0), 12)]
        for path in best[:5]:
            path.unlink()
        for count in (1, 2, 7, 50):
            hits = retriever.search_similar_episodes(episode(0, 0), count)
            assert [Path(hit.file_path) for hit in hits] == best[5 : 5 + count]
        for path in best[5:]:
            path.unlink()
        assert retriever.search_similar_episodes(episode(0, 0), 3) == []
    assert len(paths) == 12


def test_a_hit_reports_its_episode_and_loads_it(own):
    archive, paths = own
    with TrajectoryRetriever(archive) as retriever:
        hit = retriever.search_similar_episodes(episode(1, 2), 1)[0]
        with opened_archive(archive) as opened:
            row = opened.catalog.episodes.get(hit.uid)
        assert (hit.episode_id, hit.file_path, hit.span) == ("task-1-2", str(paths[6]), (0, 30))
        known = {"env_id": "task-1", "length": 30, "total_reward": 60.0, "success": True, "tags": []}
        assert hit.metadata == {"number": 2, **known}
        assert row.path == hit.file_path
    assert_same_episode(hit.load(), load_wshard(paths[6]))  # also after the archive was closed
    assert [*hit.load(["ctrl"]).lanes()] == ["action/ctrl"]
    with pytest.raises(EntryNotFoundError, match="nonsense"):
        hit.load(["nonsense"])


def test_a_hit_whose_file_changed_or_went_says_so(own):
    archive, paths = own
    with TrajectoryRetriever(archive) as retriever:
        hit = retriever.search_similar_episodes(episode(1, 2), 1)[0]
    os.utime(paths[6], (1, 1))
    hit.load()
    save(archive.parent / "data", episode(1, 99, id="task-1-2"))
    with pytest.raises(StaleEpisodeError, match=r"task-1-2.wshard: changed since .* run wshard ingest /.*2.wshard"):
        hit.load()
    paths[6].unlink()
    with pytest.raises(FileNotFoundError):
        hit.load()


def test_a_search_notes_hits_that_changed_since_the_last_ingest(own):
    archive, paths = own
    with TrajectoryRetriever(archive) as retriever:

        def notes() -> tuple[str, ...]:
            return retriever.search_similar_episodes(episode(1, 2), 3).answered.notes

        assert notes() == ()
        os.utime(paths[6], (1, 1))
        assert notes() == ()
        save(archive.parent / "data", episode(1, 99, id="task-1-2"))
        assert notes() == ("1 hit changed since the last ingest (task-1-2): run wshard ingest FOLDER",)
        paths[6].write_bytes(b"no episode")
        assert notes() == ("1 hit changed since the last ingest (task-1-2): run wshard ingest FOLDER",)


# ---- moments --------------------------------------------------------------------------------------------------------


def test_moments_are_found_where_they_are(tmp_path):
    paths = save(tmp_path / "data", *(episode(task, 0, 45) for task in range(4)))
    archive = tmp_path / "archive"
    with TrajectoryIngestor(archive) as ingestor:
        ingestor.ingest(paths, windows=WindowPlan(10, 7))
        for path in paths:
            ingestor.ingest_timesteps(path, 20, 20)
    spans = {10: [(0, 10), (7, 17), (14, 24), (21, 31), (28, 38), (35, 45)], 20: [(0, 20), (20, 40), (25, 45)]}
    assert sorted(space.windows.size for space in spaces_of(archive)) == [10, 20]
    with TrajectoryRetriever(archive) as retriever:
        for size, parts in spans.items():
            for start, stop in parts:
                moment = state(episode(2, 0, 45))[start:stop]
                hit = retriever.search_similar_timesteps(moment, 1, window_size=size)[0]
                assert (hit.episode_id, hit.span, hit.score) == ("task-2-0", (start, stop), EXACT)
                assert np.array_equal(state(hit.load())[slice(*hit.span)], moment)
            every = retriever.search_similar_timesteps(moment, 1000, "task-1", window_size=size)
            assert sorted(hit.span for hit in every) == parts
        newest = retriever.search_similar_timesteps(moment).answered
        assert [space.windows.size for space in (*newest.spaces, *newest.others)] == [20, 10]
        with pytest.raises(QueryError, match="there are no vectors for this search"):
            retriever.search_similar_episodes(moment)


class _Overtaken:
    """An index after whose answer something happens."""

    def __init__(self, index, action) -> None:
        self.index, self.action = index, action

    def search(self, space, query, request):
        answer = self.index.search(space, query, request)
        self.action()
        return answer


def test_an_episode_that_changes_while_it_is_searched_for_is_not_a_false_hit(tmp_path):
    saved, shorter, gone = save(tmp_path / "data", *(episode(task, 0, 45) for task in range(3)))
    archive, plan = tmp_path / "archive", WindowPlan(10, 7)
    ingest(archive, tmp_path / "data", windows=plan)

    def overtake():
        save(tmp_path / "data", episode(1, 0, 8))
        gone.unlink(missing_ok=True)
        ingest(archive, tmp_path / "data", windows=plan, prune=True)

    with TrajectoryRetriever(archive) as retriever:
        index = retriever._archive.index
        overtaken = replace(retriever._archive, index=_Overtaken(index, overtake))
        retriever._episodes = replace(retriever._episodes, archive=overtaken)
        hits = retriever.search_similar_timesteps(state(episode(1, 0, 45))[-10:], 18)
    assert {hit.file_path for hit in hits} == {str(saved), str(shorter)}
    assert {hit.span for hit in hits if hit.file_path == str(shorter)} == {(0, 8)}


def test_a_search_begins_again_when_its_space_of_windows_is_replaced(tmp_path, monkeypatch):
    save(tmp_path / "data", *(episode(task, 0, 45) for task in range(3)))
    archive = tmp_path / "archive"
    ingest(archive, tmp_path / "data", windows="both")
    with TrajectoryRetriever(archive) as retriever:
        vectors = retriever._archive.catalog.vectors
        spaces = {row.id: Space.from_json(row.definition) for row in vectors.spaces("active")}
        (windows,) = (id_ for id_, space in spaces.items() if not space.windows.whole)
        find = retriever._find_episodes

        def overtaken(prepared):
            vectors.retire(windows)
            return find(prepared)

        monkeypatch.setattr(retriever, "_find_episodes", overtaken)
        hits = retriever.search_similar_episodes(state(episode(1, 0, 45)), 1)
        assert hits[0].episode_id == "task-1-0"
        assert [space.windows.whole for space in hits.answered.spaces] == [True]


# ---- other processes, other names -----------------------------------------------------------------------------------


def test_an_open_retriever_sees_what_others_ingest_change_and_forget(own):
    archive, paths = own
    data = archive.parent / "data"
    with TrajectoryRetriever(archive) as retriever:
        assert len(retriever.search_similar_episodes(episode(0, 0), 100)) == 12
        new = save(data, episode(8, 8, spread=9.0))  # the statistics move, so that another Space takes over
        ingest(archive, data)
        hit = retriever.search_similar_episodes(episode(8, 8, spread=9.0), 100)[0]
        assert (hit.episode_id, hit.score) == ("task-8-8", EXACT)
        for path in (*new, paths[0]):
            path.unlink()
        ingest(archive, data, prune=True)
        assert len(retriever.search_similar_episodes(episode(0, 0), 100)) == 11


def test_the_names_that_the_format_documents_are_there():
    assert deepdata_bridge.TrajectoryIngestor is TrajectoryIngestor
    assert deepdata_bridge.TrajectoryRetriever is TrajectoryRetriever
    assert deepdata_bridge.EpisodeRef is bridge.EpisodeRef
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        deepdata_bridge.Nonsense  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        bridge.Nonsense  # noqa: B018
    for package in (bridge, catalog, deepdata_bridge):
        assert all(getattr(package, name) is not None for name in package.__all__)
        assert dir(package) == sorted(package.__all__)  # what a prompt offers


def test_importing_the_packages_loads_nothing_heavy():
    code = "import sys, bridge, wshard.deepdata_bridge; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "bridge" in loaded
    assert {"sqlalchemy", "httpx", "torch", "threadpoolctl", "typer", "rich"}.isdisjoint(loaded)


def test_text_that_is_not_a_query_is_refused(retriever):
    with pytest.raises(EntryNotFoundError, match="'task-0-99' is neither a file nor an episode of this archive"):
        retriever.search_similar_episodes("task-0-99")
    with pytest.raises(QueryError, match="lane 'odd': expected an array"):
        retriever.search_similar_episodes({"state": Channel.of("state", np.zeros((3, 4))), "odd": [[1], [1, 2]]})


def test_an_archive_counts_its_episodes_and_yields_them(own):
    with open_archive(own[0]) as opened:
        assert opened
        assert repr(opened) == f"<archive {str(own[0])!r}>"
        refs = list(opened)
        assert len(opened) == len(refs) == opened.catalog.query.count()
        rows = opened.catalog.episodes.rows(opened.catalog.query.ids())
        assert [ref.uid for ref in refs] == [row.uid for row in rows.values()]
        assert refs[0].load().length == refs[0].metadata["length"] == refs[0].span[1]
    with TrajectoryRetriever(own[0]) as retriever, TrajectoryIngestor(own[0]) as ingestor:
        assert repr(retriever) == f"<TrajectoryRetriever of {str(own[0])!r}>"
        assert repr(ingestor) == f"<TrajectoryIngestor of {str(own[0])!r}>"
