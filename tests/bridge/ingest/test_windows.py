"""Windows of several sizes from files to hits, beside whole episodes and windows of one size."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest
from bridge_episodes import command, spaces_of

from bridge.curation.archive_vectors import find_whole_spaces, find_window_spaces
from catalog.vectors.api import VectorLedger
from embedders import BOTH, DEFAULT_EMBEDDER, ArcDct, Blocks, Space, WindowPlan
from embedders.registry import default_embedder
from embedders.windows import SCALES
from wshard import Channel, Episode, TrajectoryIngestor, TrajectoryRetriever, open_archive, save_wshard
from wshard.errors import QueryError, SpaceMismatchError

MULTI = WindowPlan(scales=SCALES)
LENGTHS = (12, 30, 97, 160, 201)


@pytest.fixture
def folder(tmp_path):
    """Provide five random walks of very different lengths."""
    (tmp_path / "episodes").mkdir()
    for number, length in enumerate(LENGTHS):
        path = np.random.default_rng(number).normal(size=(length, 3)).cumsum(axis=0).astype(np.float32)
        episode = Episode(f"walk-{number}", "walk-v0", length, observations={"pose": Channel.of("pose", path)})
        save_wshard(episode, tmp_path / "episodes" / f"walk-{number}.wshard")
    return tmp_path


def pose(number):
    return np.random.default_rng(number).normal(size=(LENGTHS[number], 3)).cumsum(axis=0).astype(np.float32)


def test_moments_of_every_size_are_found_with_their_own_bounds(folder):
    with TrajectoryIngestor(folder / "archive") as ingestor:
        assert ingestor.ingest(folder / "episodes", windows=MULTI).embedded == 5
    with TrajectoryRetriever(folder / "archive") as retriever:
        for number, length in enumerate(LENGTHS):
            spans = MULTI.spans(length).tolist()
            assert spans[-1] == [0, length]
            for start, stop in spans[:: max(1, len(spans) // 7)]:
                (hit,) = retriever.search_similar_timesteps(pose(number)[start:stop], 1)
                assert (hit.episode_id, hit.span) == (f"walk-{number}", (start, stop))
                assert hit.score == pytest.approx(1.0, abs=1e-6)
        everything = retriever.search_similar_timesteps(pose(0), 10_000)
        assert len(everything) == sum(len(MULTI.spans(length)) for length in LENGTHS)


def test_a_beginning_and_a_moment_at_another_speed_find_their_episode(folder):
    with TrajectoryIngestor(folder / "archive") as ingestor:
        ingestor.ingest(folder / "episodes", windows=MULTI)
    with TrajectoryRetriever(folder / "archive") as retriever:
        assert retriever.search_similar_timesteps(pose(4)[:70], 1)[0].episode_id == "walk-4"
        slow = np.repeat(pose(3)[50:95], 3, axis=0)
        hit = retriever.search_similar_timesteps(slow, 1)[0]
        assert hit.episode_id == "walk-3"
        assert abs(hit.span[0] - 50) + abs(hit.span[1] - 95) < 20


def test_one_ingest_fills_several_plans_and_a_search_chooses(folder):
    plans = [WindowPlan(), WindowPlan(16, 8), MULTI, WindowPlan(16, 8), WindowPlan(24, 12)]
    with TrajectoryIngestor(folder / "archive") as ingestor:
        assert ingestor.ingest(folder / "episodes", windows=plans).embedded == 5
        assert ingestor.ingest(folder / "episodes", windows=plans).embedded == 0
    query = pose(2)[8:24]
    with TrajectoryRetriever(folder / "archive") as retriever:
        assert len(retriever.search_similar_episodes(query)) == 5
        newest = retriever.search_similar_timesteps(query, 1)
        assert np.ptp(newest[0].span) == 24
        assert [space.windows.size for space in newest.answered.spaces + newest.answered.others] == [24, 16]
        for hits in (
            retriever.search_similar_timesteps(query, 1, window_size=16),
            retriever.search_similar_timesteps(query, 1, windows=WindowPlan(16, 8)),
        ):
            assert hits[0].span == (8, 24)
        assert retriever.search_similar_timesteps(pose(1), 1, windows=MULTI)[0].span == (0, 30)
        with pytest.raises(QueryError, match="there are no vectors for this search"):
            retriever.search_similar_timesteps(query, windows=WindowPlan(16, 4))


def test_windows_on_the_command_line(folder):
    wshard = partial(command, folder=folder)
    done = wshard("ingest", "episodes", "--windows", "whole", "--windows", "multi", "--windows", "16:8", "--json")
    assert json.loads(done.stdout)["embedded"] == 5
    np.save(folder / "query.npy", pose(4)[11:56])
    found = wshard("search", "query.npy", "--windows", "multi", "--json", "-k", "1")
    hit = json.loads(found.stdout)["items"][0]
    assert (hit["episode_id"], np.abs(np.subtract(hit["span"], [11, 56])).max() <= 4) == ("walk-4", True)
    assert "16:32" in wshard("search", "query.npy", "--windows-only", "-k", "3").stdout  # of one size before several
    table = wshard("search", "walk-1", "--windows-only", "--windows", "multi", "-k", "1").stdout
    assert "0:30" in table
    assert "span" in wshard("search", "walk-1", "--windows", "16:8").stdout
    for wrong in ("multi:x", "16", "8:16"):
        assert wshard("ingest", "episodes", "--windows", wrong).exit_code == 2
        assert wshard("search", "walk-1", "--windows", wrong).exit_code == 2


def plans(folder, embedder=None):
    """Return (embedder, plan, episodes) of every active Space, after an ingest that does not say what to embed."""
    with TrajectoryIngestor(folder / "archive", embedder) as ingestor:
        assert ingestor.ingest(folder / "episodes").ok
    return stored(folder)


def stored(folder):
    with open_archive(folder / "archive") as opened:
        assert opened.catalog.vectors.spaces("building") == []
        rows = [(row, Space.from_json(row.definition)) for row in opened.catalog.vectors.spaces("active")]
        return {
            (space.embedder, str(space.windows), len(opened.catalog.vectors.embedded(row.id))) for row, space in rows
        }


def both(embedder=None, count=5):
    return {(embedder or default_embedder(plan).name, str(plan), count) for plan in BOTH}


def test_a_first_ingest_embeds_whole_episodes_and_windows(folder):
    assert plans(folder) == both()
    with TrajectoryRetriever(folder / "archive") as retriever:
        assert retriever.search_moments(pose(3)[40:90], 1)[0].episode_id == "walk-3"
        assert retriever.search_similar_episodes(pose(4)[:68], 1)[0].episode_id == "walk-4"
    assert plans(folder, "dct") == both() | both("dct")
    with TrajectoryIngestor(folder / "archive", "stats") as ingestor:
        for path in sorted((folder / "episodes").iterdir()):
            ingestor.ingest_episode(path)
    assert stored(folder) == both() | both("dct") | both("stats")


def test_an_archive_of_whole_episodes_stays_so_until_windows_are_requested(folder):
    late = (folder / "episodes" / "walk-4.wshard").rename(folder / "late.wshard")
    for path in (folder / "episodes").iterdir():
        with TrajectoryIngestor(folder / "archive") as ingestor:
            ingestor.ingest_episode(path, windows="whole")
    assert plans(folder) == {("blocks", "whole episodes", 4)}
    needed = pytest.raises(QueryError, match="moments need `--windows both`")
    with TrajectoryRetriever(folder / "archive") as retriever, needed:
        retriever.search_moments(pose(3)[40:90])
    with TrajectoryIngestor(folder / "archive") as ingestor:
        assert ingestor.ingest(folder / "episodes", windows="both").embedded == 4
    late.rename(folder / "episodes" / "walk-4.wshard")
    assert plans(folder) == both()


def test_windows_of_one_size_do_not_keep_the_default_away(folder):
    with TrajectoryIngestor(folder / "archive") as ingestor:
        ingestor.ingest_timesteps(folder / "episodes" / "walk-2.wshard", 16, 8)
    assert plans(folder) == both() | {("arcdct", "windows of 16 every 8", 1)}


@pytest.mark.parametrize("step", ["add_space", "activate"])
def test_a_first_ingest_that_was_stopped_between_its_spaces_is_finished(folder, monkeypatch, step):
    really, calls = getattr(VectorLedger, step), []

    def stopped(catalog, *arguments, **named):  # noqa: ANN002, ANN003  (those of either method)
        calls.append(step)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return really(catalog, *arguments, **named)

    monkeypatch.setattr(VectorLedger, step, stopped)
    with TrajectoryIngestor(folder / "archive") as ingestor, pytest.raises(KeyboardInterrupt):
        ingestor.ingest(folder / "episodes")
    monkeypatch.undo()
    assert plans(folder) == both()


def test_the_command_embeds_both_and_whole_where_that_is_requested(folder):
    wshard = partial(command, folder=folder)
    assert wshard("ingest", "episodes").exit_code == 0
    assert wshard("moments", "walk-3", "--from", "40", "--to", "90").exit_code == 0
    assert wshard("ingest", "episodes", "-a", "archive", "--windows", "whole").exit_code == 0
    assert stored(folder) == {("blocks", "whole episodes", 5)}


def test_what_was_ingested_as_both_stays_so(folder):
    late = folder / "episodes" / "walk-4.wshard"
    later = folder / "late.wshard"
    late.rename(later)
    with TrajectoryIngestor(folder / "archive") as ingestor:
        ingestor.ingest(folder / "episodes", windows=[WindowPlan(), MULTI, WindowPlan(16, 8)])
        ingestor.ingest_episode(later)
    with TrajectoryRetriever(folder / "archive") as retriever:
        assert retriever.search_similar_episodes(pose(4), 1)[0].episode_id == "walk-4"
        several = retriever.search_similar_timesteps(pose(4)[33:78], 1, windows=MULTI)[0]
        assert several.episode_id == "walk-4"
        assert (
            len(retriever.search_similar_timesteps(pose(4)[:16], 10_000, where="episode_id:walk-4", window_size=16))
            == 0
        )
    with TrajectoryIngestor(folder / "archive", "dct") as ingestor:
        ingestor.ingest(folder / "episodes", windows="whole")
    with TrajectoryRetriever(folder / "archive", "dct") as retriever, pytest.raises(SpaceMismatchError, match="by dct"):
        retriever.search_similar_timesteps(pose(4)[33:78], 1)


def test_a_name_chooses_windows_too_whatever_their_parameters(folder):
    with TrajectoryIngestor(folder / "archive") as ingestor:
        assert ingestor.ingest(folder / "episodes", windows=BOTH).ok
    with TrajectoryIngestor(folder / "archive", "stats") as ingestor:
        assert ingestor.ingest(folder / "episodes", windows=BOTH).ok
    with TrajectoryRetriever(folder / "archive", DEFAULT_EMBEDDER) as retriever:
        assert retriever.search_moments(pose(3)[40:90], 1)[0].span == (40, 90)
        assert retriever.search_similar_episodes(pose(3), 1)[0].episode_id == "walk-3"
    with (
        TrajectoryRetriever(folder / "archive", ArcDct()) as retriever,
        pytest.raises(SpaceMismatchError, match="was not embedded by arcdct version 1"),
    ):
        retriever.search_moments(pose(3)[40:90], 1)
    with TrajectoryRetriever(folder / "archive", "arcdct") as retriever:  # windows alone are by this
        assert retriever.search_moments(pose(3)[40:90], 1)[0].span == (40, 90)


def test_a_newer_version_of_an_embedder_is_requested_and_replaces_the_older_one(folder, monkeypatch):
    def ingested(windows=None):
        with TrajectoryIngestor(folder / "archive") as ingestor:
            return ingestor.ingest(folder / "episodes", windows=windows)

    assert ingested(windows=BOTH).embedded == 5
    before = [ArcDct.version, Blocks.version]
    monkeypatch.setattr(ArcDct, "version", 9)
    monkeypatch.setattr(Blocks, "version", 9)
    with TrajectoryRetriever(folder / "archive") as retriever:
        for search in (retriever.search_similar_episodes, retriever.search_moments):
            with pytest.raises(
                SpaceMismatchError, match=r"version: expected \d, found 9.*`wshard ingest FOLDER` embeds the"
            ):
                search(pose(3), 1)
    assert ingested().embedded == 5  # whole episodes and windows, as before
    for name in (None, DEFAULT_EMBEDDER):
        with TrajectoryRetriever(folder / "archive", name) as retriever:
            assert retriever.search_similar_episodes(pose(3), 1)[0].score == pytest.approx(1)
            assert retriever.search_moments(pose(3)[40:90], 1)[0].span == (40, 90)
    assert sorted(space.version for space in spaces_of(folder / "archive")) == [*before, 9, 9]
    with open_archive(folder / "archive") as opened:
        assert [space.version for space in find_whole_spaces(opened)] == [9]
        assert [space.version for space in find_window_spaces(opened)] == [9]


def test_an_episode_whose_plans_are_filled_in_several_rounds_counts_once(folder):
    """The late one lacks both: vectors of whole episodes are there already, those of windows are new."""
    late = max((folder / "episodes").iterdir())
    aside = late.rename(folder / late.name)
    with TrajectoryIngestor(folder / "archive") as ingestor:
        assert ingestor.ingest(folder / "episodes", windows="whole").embedded == 4
        aside.rename(late)
        report = ingestor.ingest(folder / "episodes", windows="both")
        assert (report.new, report.unchanged, report.embedded) == (1, 4, 5)
