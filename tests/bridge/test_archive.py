"""An open archive is the door: its verbs do what the classes and functions do, with one catalog."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from bridge_episodes import episode, rewrite, save

import wshard
from bridge import archive as archives
from bridge.curation import find_duplicates
from bridge.evaluation import evaluate_label
from bridge.search.query.options import MomentOptions, SearchOptions, options_of
from wshard.errors import EntryNotFoundError, QueryError, StaleEpisodeError


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("door") / "data"
    save(folder, *(episode(task, n, 50) for task in range(2) for n in range(3)))
    return folder


@pytest.fixture(scope="module")
def lab(data):
    with wshard.open_archive(data.parent / "archive", create=True) as opened:
        report = opened.ingest(data)
        assert (report.new, report.embedded, opened.ingest(data).unchanged) == (6, 6, 6)
        yield opened


def found(hits):
    return [(hit.uid, hit.span, round(hit.score, 9)) for hit in hits]


def test_searches_are_those_of_a_retriever(lab, data):
    path = data / "task-0" / "task-0-0.wshard"
    with wshard.TrajectoryRetriever(data.parent / "archive") as retriever:
        for options in ({}, {"where": "env:task-1", "plain": True}, {"like": ["task-1-1"], "env_id": ["task-0"]}):
            assert found(lab.search(path, 4, **options)) == found(retriever.search_similar_episodes(path, 4, **options))
        windows = retriever.search_similar_timesteps(path, 4, windows="multi", distinct=True)
        for chosen in ({"windows_only": True, "windows": "multi"}, {"windows": "multi"}):
            assert found(lab.search(path, 4, distinct=True, **chosen)) == found(windows)
        assert found(lab.moments((path, 5, 30), 3)) == found(retriever.search_moments((path, 5, 30), 3))
    assert lab.retriever(lanes=["state"]) is lab.retriever(lanes=["state"]) is not lab.retriever()
    with pytest.raises(QueryError, match="distinct: expected a search for windows"):
        lab.search(path, distinct=True)
    with pytest.raises(TypeError, match="max_overlap"):
        lab.search(path, max_overlap=0.5)


def test_episodes_are_named_as_everywhere(lab, data):
    path = str(data / "task-1" / "task-1-2.wshard")
    whole = lab.episode("task-1-2")
    assert (whole.file_path, whole.span) == (path, (0, 50))
    for name in (whole.uid, path, Path(path).as_uri(), '{"uid": "%s", "span": [0, 0]}' % whole.uid):  # noqa: UP031
        assert lab.episode(name) == whole
    for name in ("task-1-2@5:20", f"{path}@5:20", '{"uid": "%s", "span": [5, 20]}' % whole.uid):  # noqa: UP031
        assert lab.episode(name).span == (5, 20)
        assert lab.episode(name).load_span().length == 15
    for name in ("nobody", "env:task-1"):
        messages = set()
        for ask in (lab.episode, lab.search, lab.moments, lambda name: lab.search("task-1-2", unlike=[name])):
            with pytest.raises(EntryNotFoundError, match="neither a file nor an episode of this archive") as caught:
                ask(name)
            messages.add(str(caught.value))
        assert len(messages) == 1
    with pytest.raises(QueryError, match="ends after the last"):
        lab.episode("task-1-2@5:99")


def test_all_that_match_are_hits(lab):
    assert [hit.episode_id for hit in lab.where("env:task-1")] == [f"task-1-{n}" for n in range(3)]
    assert len(lab.where("")) == len(lab) == len([*lab]) == 6
    assert len(lab.where("env:task-1").dataset(num_steps=50)) == len(lab.dataset("env:task-1", num_steps=50)) == 3


def test_the_other_verbs_are_the_functions(lab):
    assert lab.duplicates() == find_duplicates(lab)
    assert [one.space for one in lab.evaluate("env")][1:] == [one.space for one in evaluate_label(lab, "env")]
    assert {Path(one.path).stem: one.uid for one in lab.check(where="env:task-0")} == {
        hit.episode_id: hit.uid for hit in lab.where("env:task-0")
    }
    assert "6 episodes" in lab._repr_html_()
    assert "<td>task-1</td><td>3</td>" in lab._repr_html_()
    assert repr(lab) == f"<archive {lab.place.name!r}>"


def test_what_takes_an_open_archive_opens_no_second_one_and_leaves_it_open(tmp_path, monkeypatch):
    save(tmp_path / "data", episode(0, 0, 50), episode(1, 0, 50))
    opened, real = [], archives.open_place
    monkeypatch.setattr(
        archives, "open_place", lambda *given, **options: opened.append(given) or real(*given, **options)
    )
    with wshard.open_archive(tmp_path / "archive", create=True) as lab:
        with wshard.TrajectoryIngestor(lab) as ingestor:
            ingestor.ingest_episode(tmp_path / "data" / "task-0" / "task-0-0.wshard")
        lab.ingest(tmp_path / "data")
        with wshard.TrajectoryRetriever(lab) as retriever:
            assert len(retriever.search_similar_episodes("task-0-0")) == len(lab.search("task-0-0")) == 2
        lab.check()
        lab.duplicates()
        assert len(opened) == 1
        rewrite(tmp_path / "data" / "task-0" / "task-0-0.wshard", episode(0, 5, 50, id="task-0-0"))
        for ask in (lab.search, lab.moments, lambda name: lab.episode(name).load()):
            with pytest.raises(StaleEpisodeError):
                ask("task-0-0")


@pytest.mark.parametrize(
    ("method", "kind", "elsewhere"),
    [
        ("search_similar_episodes", SearchOptions, {"windows", "windows_only", "window_size", "distinct"}),
        ("search_similar_timesteps", SearchOptions, {"windows_only"}),
        ("search_moments", MomentOptions, set()),
    ],
)
def test_signatures_are_those_of_the_table(method, kind, elsewhere):
    parameters = dict(inspect.signature(getattr(wshard.TrajectoryRetriever, method)).parameters)
    assert [*parameters][:6] == ["self", "query_obs", "top_k", "env_id", "min_length", "reward_range"]
    del parameters["self"], parameters["query_obs"]
    declared = {one.name: one for one in fields(kind) if one.name not in elsewhere}
    assert {name: one.default for name, one in parameters.items()} == {
        name: one.default for name, one in declared.items()
    }
    assert {
        name: one.annotation.replace("Query", "Any") for name, one in parameters.items() if name != "reward_range"
    } == {name: str(one.type) for name, one in declared.items() if name != "reward_range"}
    assert {*declared} - {one.name for one in options_of(kind)} == {
        *("env_id", "image", "min_length", "reward_range", "where")
    }
    retriever = wshard.TrajectoryRetriever
    methods = (retriever.search_similar_episodes, retriever.search_similar_timesteps, retriever.search_moments)
    described = " ".join(method.__doc__ for method in methods)
    for option in options_of(kind):
        assert option.name in elsewhere | {"top_k"} or re.search(rf"\b{option.name}(:|, )", described), option.name
        assert option.help.endswith(".")
        assert option.default is None or option.many or isinstance(option.default, option.kind)
        if not option.many and option.kind in (int, float) and not np.isinf(option.most):
            with pytest.raises(QueryError, match=f"{option.name}: expected"):
                kind(**{option.name: option.most + 1})


def test_annotations_take_filters_hits_and_names(lab):
    tagged = lambda name: sorted(ref.episode_id for ref in lab.where(f"tag:{name}"))  # noqa: E731
    assert lab.tag("env:task-1", "one") == 3
    assert lab.tag(lab.where("env:task-0")[:2], "hits") == lab.tag(lab.episode("task-1-2"), "hits") + 1 == 2
    assert lab.tag(["task-0-0", *lab.catalog.query.ids("env:task-1")], "listed") == 4
    assert [tagged(name) for name in ("hits", "listed")] == [
        ["task-0-0", "task-0-1", "task-1-2"],
        ["task-0-0", "task-1-0", "task-1-1", "task-1-2"],
    ]
    assert lab.tag("", "listed", remove=True) == 4
    assert (lab.note("tag:hits", "slips"), lab.review("tag:hits", "rejected", who="ann")) == (3, 3)
    assert len(lab.where("slips review:rejected reviewer:ann")) == 3
    with pytest.raises(QueryError, match=r"name of an episode: \['task-0-1'\], in a list, names it"):
        lab.tag("task-0-1", "bad")
    with pytest.raises(EntryNotFoundError):
        lab.tag(["task-0-1", "nobody"], "bad")
    assert tagged("bad") == []
    path = Path(lab.episode("task-0-1").file_path)
    assert (lab.tag(path, "path"), lab.tag([path], "path"), lab.episode(path).episode_id) == (1, 0, "task-0-1")
    with pytest.raises(QueryError, match="expected the name of an episode"):
        lab.episode(3)
