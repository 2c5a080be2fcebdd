"""Hits, filters and collections as clips for training: their spans and weights, from any format, nothing stale."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from bridge_episodes import episode, save
from world_model_sets import make_columns, write_hdf5

from catalog import EVERYTHING, Compare, Pick
from wshard import Channel, TimebaseSpec, TrajectoryIngestor, TrajectoryRetriever, open_archive, save_wshard
from wshard.data import ClipLoader, ClipSampler, GoalDataset, load_dataset
from wshard.errors import (
    DatasetError,
    EntryNotFoundError,
    FormatWarning,
    NoClipsError,
    QueryError,
    SkippedEpisodeWarning,
    StaleEpisodeError,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    episodes = [episode(task, number, T=40) for task in range(2) for number in range(3)]
    save(folder / "files", *episodes)
    TrajectoryIngestor(folder / "archive").ingest(folder / "files")
    return folder, {ep.id: ep for ep in episodes}


def test_hits_are_clips_of_their_spans(made):
    folder, episodes = made
    query = episodes["task-1-0"]["state"][8:24]
    hits = TrajectoryRetriever(folder / "archive").search_moments(query, 4)
    clips = hits.dataset(num_steps=4, frameskip=2, keys_to_load=["state", "action"])
    assert clips.lengths.tolist() == [ref.span[1] - ref.span[0] for ref in hits]
    for number in (0, len(clips) - 1):
        hit, start = clips.clip_indices[number]
        first = hits[hit].span[0] + start
        expected = episodes[hits[hit].episode_id]
        assert np.array_equal(clips[number]["state"], expected["state"][first : first + 8 : 2])
        assert np.array_equal(clips[number]["action"], expected["action/ctrl"][first : first + 8].reshape(4, 4))


def test_filters_and_collections_are_clips_and_the_weights_of_picks_count(made):
    folder, episodes = made
    with open_archive(folder / "archive") as archive:
        lines = archive.dataset("env:task-1", num_steps=16, frameskip=1)
        assert lines.lengths.tolist() == [40, 40, 40]
        assert len(archive.dataset(num_steps=40)) == 6
        rows = archive.catalog.episodes.rows(archive.catalog.query.ids())
        first, second = list(rows.values())[:2]
        picks = [Pick(first.uid, first.digest, 5, 25, weight=3.0), Pick(second.uid, second.digest, 0, 40, weight=0.0)]
        archive.catalog.collections.save_snapshot("good", picks)
        good = archive.dataset("collection:good", num_steps=4)
        weighed = np.flatnonzero(good.clip_weights).tolist()  # picks are ordered by their ids
        assert np.array_equal(good[weighed[0]]["state"], episodes[first.episode_id]["state"][5:9])
        assert len(archive.dataset("collection:good env:task-0", num_steps=4)) == 2 * 37
        drawn = list(ClipSampler(good, seed=0))
        assert len(drawn) == len(good) == 17 + 37
        assert set(drawn) <= set(weighed)
        batches = [batch["state"].shape for batch in ClipLoader(good, 8, seed=1)]
        assert batches[0] == (8, 4, 4)
        assert GoalDataset(good, goal_keys={"state": "goal"}, seed=0)[3]["goal"].shape == (1, 4)
        with pytest.raises(EntryNotFoundError):
            archive.dataset("collection:none")
        archive.catalog.collections.save_snapshot("my set, cut", picks)
        for where in ('collection:"my set, cut"', "(collection:good)", Compare("collection", "eq", "my set, cut")):
            assert archive.dataset(where, num_steps=4).lengths.tolist() == good.lengths.tolist()
        names = [first.episode_id, *archive.search(second.episode_id, 1)]
        assert archive.dataset(names, num_steps=4).lengths.tolist() == [40, 40]
        with pytest.raises(NoClipsError, match="no episode of the archive is in the list"):
            archive.dataset([])
        for wrong in (3.5, {"collection": "good"}.keys):
            with pytest.raises(QueryError, match="expected a filter, or a list of names, paths, hits or ids, found"):
                archive.dataset(wrong)


def test_a_set_without_clips_is_an_error_that_says_why(made):
    folder, episodes = made
    with open_archive(folder / "archive") as archive:
        for where in ("env:nope", Compare("env_id", "eq", "nope")):
            with pytest.raises(NoClipsError, match="no episode of the archive matches the filter 'env:nope'"):
                archive.dataset(where, num_steps=4)
        with pytest.raises(
            NoClipsError, match=r"no clips of 42 timesteps \(num_steps 21 \* .*: the longest of 6 .* 40"
        ):
            archive.dataset(num_steps=21, frameskip=2)
    hits = TrajectoryRetriever(folder / "archive").search_similar_episodes(episodes["task-1-0"], 4, env_id="nope")
    with pytest.raises(NoClipsError, match="there are no episodes"):
        hits.dataset()


def test_locations_of_several_formats_are_one_set_and_the_odd_column_is_named(tmp_path):
    columns = make_columns((30, 20), pixels=0)
    write_hdf5(
        tmp_path / "a.h5", {"state": columns["proprio"], "action": columns["action"], "ep_len": columns["ep_len"]}
    )
    for number in range(2):
        ep = episode(0, number, rewards=None)
        ep.observations["state"].data = ep["state"].astype(np.float64)
        ep.observations["state"].dtype = type(ep.observations["state"].dtype)("f64")
        save(tmp_path / "files", ep)
    TrajectoryIngestor(tmp_path / "archive").ingest([tmp_path / "a.h5", tmp_path / "files"])
    with open_archive(tmp_path / "archive") as archive:
        clips = archive.dataset(num_steps=5, keys_to_load=["state", "action"])
        assert sorted(clips.lengths.tolist()) == [20, 30, 30, 30]
        assert {tuple(clips[number]["state"].shape) for number in (0, len(clips) - 1)} == {(5, 4)}
        save(tmp_path / "files", episode(0, 1))
        TrajectoryIngestor(tmp_path / "archive").ingest(tmp_path / "files")
        clips = archive.dataset(num_steps=5, keys_to_load=["state", "action"])  # of f32 and f64
        dtypes = {clips.column_rows("state", number, 0, 2).dtype.name for number in range(len(clips.lengths))}
        assert dtypes == {"float64"}
        odd = episode(0, 2)
        odd.observations["state"] = Channel.of("state", odd["state"].astype(np.int32))
        save(tmp_path / "files", odd)
        TrajectoryIngestor(tmp_path / "archive").ingest(tmp_path / "files")
        with pytest.raises(
            DatasetError, match=r"column 'state': expected (f64|i32) \[4\] as at earlier locations, found"
        ):
            archive.dataset(num_steps=5, keys_to_load=["state", "action"])


def test_what_is_gone_or_changed_is_refused(tmp_path):
    (path,) = save(tmp_path / "files", episode(0, 0))
    TrajectoryIngestor(tmp_path / "archive").ingest(tmp_path / "files")
    hits = TrajectoryRetriever(tmp_path / "archive").search_similar_episodes(path, top_k=1)
    save_wshard(episode(0, 1, T=31), path)
    with pytest.raises(StaleEpisodeError, match="changed since it was ingested"):
        hits.dataset(num_steps=2)
    path.unlink()
    with pytest.raises(FileNotFoundError), open_archive(tmp_path / "archive") as archive:
        archive.dataset(num_steps=2)


def count_skipped(caught):
    """Return how many episodes were named; what else is collected meanwhile may warn, too."""
    return sum(one.category is SkippedEpisodeWarning for one in caught)


def test_what_is_gone_or_changed_is_left_out_on_request_and_named(tmp_path):
    paths = save(tmp_path / "files", *(episode(0, number, T=30) for number in range(4)))
    TrajectoryIngestor(tmp_path / "archive").ingest(tmp_path / "files")
    with open_archive(tmp_path / "archive") as archive:
        archive.catalog.collections.save_snapshot("all", EVERYTHING)
        save_wshard(episode(0, 0, T=31), paths[0])  # another file than the catalog knows
        paths[1].unlink()
        for where in (EVERYTHING, "collection:all"):
            first = r"task-0-0.wshard: changed .*; or|task-0-1.wshard: no such file; or"
            with pytest.raises((StaleEpisodeError, FileNotFoundError), match=first):
                archive.dataset(where, num_steps=2)
            with pytest.warns(SkippedEpisodeWarning, match="left out of training: .*task-0-[01]") as caught:
                clips = archive.dataset(where, num_steps=2, missing="skip")
            assert (count_skipped(caught), clips.lengths.tolist()) == (2, [30, 30])
    TrajectoryIngestor(tmp_path / "archive").ingest(tmp_path / "files")
    with open_archive(tmp_path / "archive") as archive:
        message = r"collection 'all': episode .* has changed since the collection was saved: .*task-0-0.wshard"
        with pytest.raises(StaleEpisodeError, match=message):
            archive.dataset("collection:all", num_steps=2)
        with pytest.warns(SkippedEpisodeWarning) as caught:
            clips = archive.dataset("collection:all", num_steps=2, missing="skip")
        assert (count_skipped(caught), clips.lengths.tolist()) == (2, [30, 30])
        with pytest.raises(DatasetError, match="missing: expected 'raise' or 'skip', found 'ignore'"):
            archive.dataset(num_steps=2, missing="ignore")
        for path in paths[2:]:
            path.unlink()
        with pytest.warns(SkippedEpisodeWarning), pytest.raises(NoClipsError, match="found none"):
            archive.dataset("collection:all", num_steps=2, missing="skip")


def test_episodes_of_several_rates_are_warned_of_wherever_they_are_mixed(tmp_path):
    for hz in (20.0, 20.4, 50.0):
        (tmp_path / f"{hz:g}").mkdir()
        save_wshard(episode(number=int(hz), T=12, timebase=TimebaseSpec(tick_hz=hz)), tmp_path / f"{hz:g}" / "a.wshard")
    near, far = [tmp_path / "20", tmp_path / "20.4"], [tmp_path / "20", tmp_path / "50"]
    (tmp_path / "all").mkdir()
    for number, folder in enumerate(far):
        shutil.copy(folder / "a.wshard", tmp_path / "all" / f"{number}.wshard")
    with TrajectoryIngestor(tmp_path / "lab") as ingestor:
        ingestor.ingest([*near, *far])
    load_dataset(near)  # measured rates differ a little
    with open_archive(tmp_path / "lab") as lab:
        lab.dataset("lane.signal/state.rate:..30")
        for mix in (lambda: load_dataset(far), lambda: load_dataset(tmp_path / "all"), lab.dataset):
            with pytest.warns(
                FormatWarning, match=r"episodes of [23] rates, from 20 to 50 Hz: .* lane.signal/NAME.rate:HZ"
            ):
                mix()
