"""One notation names queries for Python, the command line and the app; one catalog is opened for all of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bridge_episodes import episode, ingest, save
from command_line import app
from typer.testing import CliRunner

from bridge import archive as archives
from embedders import BOTH
from wshard import TrajectoryRetriever, open_archive, save_wshard
from wshard.errors import EntryNotFoundError, MissingFileError, QueryError, StaleEpisodeError


@pytest.fixture
def home(tmp_path):
    save(tmp_path / "data", *(episode(task, n, 50) for task in range(2) for n in range(2)))
    ingest(tmp_path / "archive", tmp_path / "data", windows=BOTH)
    return tmp_path


def run(*arguments: object, code=0):
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == code, done.output
    return done


def found(hits):
    return [(hit.episode_id, hit.span, round(hit.score, 9)) for hit in hits]


def test_every_name_of_an_episode_is_the_same_query(home):
    with open_archive(home / "archive") as opened, TrajectoryRetriever(opened) as retriever:
        row = opened.catalog.episodes.named("task-0-1")
        np.save(home / "span.npy", np.asarray(next(iter(retriever._archive)).load().observations["state"].data)[5:40])
        hit = run("search", "task-0-1", "--archive", home / "archive", "--json", "--top", 1).stdout
        text = json.dumps(json.loads(hit)["items"][0])
        expected = found(retriever.search_similar_episodes(row.path))
        for name in ("task-0-1", row.uid, Path(row.path), text, Path(row.path).as_uri()):
            assert found(retriever.search_similar_episodes(name)) == expected
            if not isinstance(name, Path):
                items = json.loads(run("search", name, "--archive", home / "archive", "--json").stdout)["items"]
                assert [item["episode_id"] for item in items] == [episode_id for episode_id, _, _ in expected]
        cut = found(retriever.search_moments((row.path, 5, 40)))
        assert found(retriever.search_moments("task-0-1@5:40")) == cut
        moment = json.dumps({"uid": row.uid, "span": [5, 40]})
        assert found(retriever.search_moments(moment)) == cut
        place = str(home / "span.npy")
        arrays = found(retriever.search_moments(np.load(place)))
        assert found(retriever.search_moments(place)) == arrays
        assert found(retriever.search_moments(f"{place}@0:20")) == found(retriever.search_moments(np.load(place)[:20]))
        for wrong, error in (
            (f"{place}@0:99", QueryError),
            (f"{place}@40:", QueryError),
            ("{}", QueryError),
            ('{"uid": "none", "span": [0, 1]}', EntryNotFoundError),
            ('{"uid": "x", "span": 3}', QueryError),
        ):
            with pytest.raises(error):
                retriever.search_similar_episodes(wrong)
        assert len(opened) == 4  # closing the retriever leaves an archive that was passed open
    with pytest.raises(QueryError, match="neither of them with an open Archive"):
        TrajectoryRetriever(opened, token="x")  # noqa: S106  (refused)


def test_a_changed_file_answers_for_no_id(home):
    with TrajectoryRetriever(home / "archive") as retriever:
        path = Path(retriever._catalog.episodes.named("task-0-0").path)
        changed = replace(episode(1, 5, 50), id="task-0-0")
        save_wshard(changed, path)
        for search in (
            retriever.search_similar_episodes,
            retriever.search_similar_timesteps,
            retriever.search_moments,
        ):
            for arguments in (
                {"query_obs": "task-0-0"},
                {"like": ["task-0-0@0:20"]},
                {"query_obs": "task-1-0", "unlike": ["task-0-0"]},
            ):
                with pytest.raises(StaleEpisodeError):
                    search(**arguments)
        assert retriever.search_similar_episodes(path)  # a path names what is there now
    for words in (
        ("search", "task-0-0"),
        ("search", "--like", "task-0-0"),
        ("search", "task-1-0", "--unlike", "task-0-0@0:20"),
        ("search", "task-0-0", "--windows-only"),
        ("moments", "task-0-0", "--from", 2),
        ("moments", "--like", "task-0-0"),
    ):
        assert "changed" in run(*words, "--archive", home / "archive", code=1).stderr
    path.unlink()
    with TrajectoryRetriever(home / "archive") as retriever:
        for name in ("task-0-0", str(path)):
            with pytest.raises(MissingFileError, match="restore it, or ingest its new location"):
                retriever.search_similar_episodes(name)


def test_one_catalog_is_opened_however_many_episodes_are_named(home, monkeypatch):
    opened = []
    real = archives.open_place
    monkeypatch.setattr(archives, "open_place", lambda *args, **options: opened.append(args) or real(*args, **options))
    examples = ("--like", "task-0-1", "--like", "task-1-1", "--unlike", "task-1-0")
    run("search", "task-0-0", *examples, "--archive", home / "archive")
    run("moments", "task-0-0", *examples, "--archive", home / "archive")
    run("evaluate", "--label", "env", "--archive", home / "archive")
    assert len(opened) == 3


def test_an_id_that_reads_like_a_part_of_another_is_that_id(tmp_path):
    ids = ("a", "a@3:9", "a@", "a#", "#")
    save(tmp_path / "data", *(episode(0, number, 50, id=id_) for number, id_ in enumerate(ids)))
    ingest(tmp_path / "archive", tmp_path / "data", windows=BOTH)
    with open_archive(tmp_path / "archive") as opened:
        for id_ in ids:
            assert found(opened.moments(id_, 1)) == [(id_, (0, 50), 1.0)]
            assert (opened.episode(id_).episode_id, opened.episode(id_).span) == (id_, (0, 50))
        for id_ in ids[:2]:
            assert found(opened.moments(f"{id_}@5:30", 1)) == [(id_, (5, 30), 1.0)]
