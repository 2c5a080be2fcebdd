"""Arguments of ingest, search and curation: what is meant is taken, what is none is refused by name."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from bridge_episodes import episode, episodes_by_path, files, ingest, save, spaces_of

from bridge.search.query.options import MomentOptions, SearchOptions
from embedders import BOTH, WindowPlan
from embedders.windows import SCALES
from wshard import TrajectoryIngestor, TrajectoryRetriever
from wshard.errors import CatalogNotFoundError, EmbedderError, FilterError, HeaderError, IngestError, QueryError


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with six episodes in "data", and an archive that holds them in all three ways."""
    place = tmp_path_factory.mktemp("arguments")
    save(place / "data", *(episode(task, number, 60) for task in range(3) for number in range(2)))
    ingest(place / "archive", place / "data", windows=[*BOTH, WindowPlan(32, 16)])
    return place


@pytest.fixture(scope="module")
def retriever(place):
    with TrajectoryRetriever(place / "archive") as opened:
        yield opened


def describe(hits):
    return [(hit.uid, hit.span, hit.score) for hit in hits]


# ---- numbers of other libraries -------------------------------------------------------------------------------------


def test_spans_and_windows_take_numbers_of_numpy(place, retriever):
    path = files(place / "data")[0]
    found = retriever.search_similar_episodes((path, np.int64(5), np.int64(30)), np.int64(3))
    assert describe(found) == describe(retriever.search_similar_episodes((path, 5, 30), 3))
    plan = WindowPlan(np.int64(32), np.int64(16))
    assert plan.to_json() == WindowPlan(32, 16).to_json()
    assert WindowPlan(scales=(np.int64(30),)).to_json() == WindowPlan(scales=(30,)).to_json()
    with TrajectoryIngestor(place / "numbers") as ingestor:
        ids = ingestor.ingest_timesteps(path, np.int64(32), np.int64(16))
    assert [id_.partition(":")[2] for id_ in ids] == ["0-32", "16-48", "28-60"]


def test_weights_of_lanes_may_be_numbers_of_numpy(place):
    for weight in (np.float32(2), 2.0):
        ingest(place / "weighed", place / "data", lanes={"state": weight, "action/ctrl": 1})
    with TrajectoryRetriever(place / "weighed", lanes={"state": np.float32(2), "action/ctrl": 1}) as opened:
        assert len(opened.search_similar_episodes(episode(), 100)) == 6


# ---- windows by their words -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "plans"),
    [
        ("whole", [WindowPlan()]),
        ("32:16", [WindowPlan(32, 16)]),
        ("multi", [WindowPlan(scales=SCALES)]),
        ("both", BOTH),
        (["whole", WindowPlan(32, 16), "both"], [*BOTH, WindowPlan(32, 16)]),
    ],
)
def test_ingest_takes_the_words_of_the_command_line_for_windows(tmp_path, place, words, plans):
    assert ingest(tmp_path, place / "data", windows=words).embedded
    assert {space.windows for space in spaces_of(tmp_path)} == set(plans)


@pytest.mark.parametrize("windows", ["32", "many", 32, [], (), [WindowPlan(), 3], [None], {"whole": 1}])
def test_invalid_plan_is_refused_before_anything_is_written(tmp_path, place, windows):
    with TrajectoryIngestor(tmp_path) as ingestor:
        for ask in (ingestor.ingest, lambda folder, **requested: next(ingestor.watch(folder, **requested))):
            with pytest.raises(EmbedderError, match=r"expected .*'SIZE:STRIDE', 'multi'"):
                ask(place / "data", windows=windows)
    assert episodes_by_path(tmp_path) == {}


# ---- lists of queries -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, -1, "2", 1.5, None, True])
def test_invalid_number_of_workers_is_refused_before_anything_is_read(tmp_path, place, count):
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        with pytest.raises(IngestError, match="workers_count: expected"):
            ingestor.ingest(place / "data", workers_count=count)
        assert ingestor.ingest(place / "data", workers_count=np.int64(1)).new == 6


def test_one_query_is_not_a_list_of_queries(place, retriever):
    path = files(place / "data")[0]
    array, hit = episode(0, 0, 60).observations["state"].data, retriever.search_similar_episodes(path)[0]
    windows = {"windows": WindowPlan(32, 16)}
    searches = (
        retriever.search_similar_episodes,
        lambda query=None, **requested: retriever.search_similar_timesteps(query, **requested, **windows),
        retriever.search_moments,
    )
    for one in (array, array.tolist()[0], {"state": array}, str(path), path, (path, 0, 30), hit, hit.load(), None, 5):
        for name in ("like", "unlike"):
            for search in searches:
                with pytest.raises(QueryError, match=f"^{name}: expected a list of queries, found [^\n]+$"):
                    search(path, **{name: one})
    several = [array, {"state": array}, str(path), path, (path, 0, 30), hit, hit.load()]
    for search in searches:
        assert describe(search(like=several)) == describe(search(like=tuple(several))) != []
        assert describe(search(like=several)) == describe(search(like=(one for one in several)))
    assert len(retriever.search_similar_episodes(path, like=retriever.search_similar_episodes(path, 2))) == 6


# ---- what there is, where a search asks for something else ----------------------------------------------------------


def test_a_search_for_what_is_not_embedded_says_what_is(place, retriever):
    path = files(place / "data")[0]
    here = r"there are no vectors for this search(?s:.*)signal/state\[4\].*whole episodes(?s:.*)windows of 32"
    for requested in ({"window_size": 33}, {"windows": WindowPlan(5, 5)}, {"windows": "5:5"}, {"windows": "whole"}):
        with pytest.raises(QueryError, match=here):
            retriever.search_similar_timesteps(path, **requested)
    with pytest.raises(QueryError, match=here):
        retriever.search_moments(path, windows="5:5")
    for plan in ("whole", WindowPlan()):
        with pytest.raises(QueryError, match="expected a plan that cuts episodes into windows, found whole"):
            retriever.search_moments(path, windows=plan)
    for lanes in ("nope", {"state": 1, "action/ctrl": 1}):
        with TrajectoryRetriever(place / "archive", lanes=lanes) as opened, pytest.raises(QueryError, match=here):
            opened.search_similar_episodes(path)
    with TrajectoryIngestor(place / "whole") as ingestor:
        ingestor.ingest(path, windows="whole")
    with TrajectoryRetriever(place / "whole") as opened:
        for search in (opened.search_moments, opened.search_similar_timesteps):
            with pytest.raises(QueryError, match=r"moments need `--windows both`(?s:.*)whole episodes"):
                search(path)


def test_searches_take_the_notation_of_windows_and_refuse_what_is_none(place, retriever):
    path = files(place / "data")[0]
    by_words = retriever.search_similar_timesteps(path, windows="32:16")
    assert describe(by_words) == describe(retriever.search_similar_timesteps(path, windows=WindowPlan(32, 16)))
    assert describe(by_words) == describe(retriever.search_similar_timesteps(path, window_size=np.int64(32)))
    assert describe(retriever.search_moments(path, windows="multi")) == describe(retriever.search_moments(path))
    for search in (retriever.search_similar_timesteps, retriever.search_moments):
        for windows in (BOTH, "both", 32, ["multi"]):
            with pytest.raises(EmbedderError, match=r"expected .*'SIZE:STRIDE', 'multi'"):
                search(path, windows=windows)
    for size in ("32", 2.5, True, 0):
        with pytest.raises(QueryError, match="window_size: expected"):
            retriever.search_similar_timesteps(path, window_size=size)


# ---- other types ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requested", "error", "message"),
    [
        ({"top_k": 1.5}, QueryError, "top_k: expected a whole number, found 1.5"),
        ({"top_k": float("nan")}, QueryError, "top_k: expected a whole number"),
        ({"top_k": True}, QueryError, "top_k: expected a whole number"),
        ({"where": 5}, FilterError, "expected a filter or its text, found 5"),
        ({"reward_range": (0,)}, FilterError, r"reward_range: expected \(low, high\)"),
        ({"reward_range": (0, 1, 2)}, FilterError, r"reward_range: expected \(low, high\)"),
        ({"reward_range": 5}, FilterError, r"reward_range: expected \(low, high\)"),
        (
            {"reward_range": (1, 0)},
            FilterError,
            "reward_range: .*found a low end above the high one",
        ),
        ({"min_score": "a"}, QueryError, "min_score: expected a finite number"),
    ],
)
def test_what_no_search_can_take_is_refused(place, retriever, requested, error, message):
    path = files(place / "data")[0]
    for search in (
        retriever.search_similar_episodes,
        lambda query, **requested: retriever.search_similar_timesteps(query, window_size=32, **requested),
        retriever.search_moments,
    ):
        with pytest.raises(error, match=message):
            search(path, **requested)
    found = retriever.search_similar_episodes(path, 100, reward_range=np.array([30.0, np.inf]))
    assert [hit.uid for hit in found] == [
        hit.uid for hit in retriever.search_similar_episodes(path, 100, reward_range=(30, None))
    ]


@pytest.mark.parametrize(
    ("options", "values", "message"),
    [
        (SearchOptions, {"expand": 1.5}, "expand: expected a whole number"),
        (SearchOptions, {"diversity": None}, "diversity: expected a finite number"),
        (SearchOptions, {"diversity": "x"}, "diversity: expected a finite number"),
        (SearchOptions, {"text": 5}, "text: expected text, found 5"),
        (SearchOptions, {"text": ""}, "text: expected words, found ''"),
        (SearchOptions, {"text": " ?! "}, "text: expected words, found ' \\?! '"),
        (MomentOptions, {"per_episode": 1.5}, "per_episode: expected a whole number"),
        (MomentOptions, {"max_overlap": "a"}, "max_overlap: expected a finite number"),
    ],
)
def test_options_of_other_types_are_refused(options, values, message):
    with pytest.raises(QueryError, match=message):
        options(**values)


def test_options_that_a_search_does_not_have_are_refused_by_name(place, retriever):
    path = files(place / "data")[0]
    for search, strange in (
        (retriever.search_similar_episodes, "distinct"),
        (retriever.search_similar_timesteps, "max_length"),
        (retriever.search_moments, "text"),
    ):
        message = rf"{search.__name__}\(\) got an unexpected keyword argument '{strange}'$"
        with pytest.raises(TypeError, match=message):
            search(path, **{strange: True})


def test_what_names_no_file_is_refused_as_a_query(place, retriever):
    path = files(place / "data")[0]
    for query, message in (
        (place / "data", "expected the path of an episode file, found a folder at"),
        ("", "query: expected an episode_id, .*, found str ''"),
        ((path, 30), r"\(file, start, stop\): expected these three, found"),
        ((path, 0, 30, 5), r"\(file, start, stop\): expected these three, found"),
        ((path, 0.5, 30), r"\(file, start, stop\): expected a whole number, found 0.5"),
    ):
        with pytest.raises(QueryError, match=message):
            retriever.search_similar_episodes(query)


@pytest.mark.parametrize("data", [b"PK\x03\x04" + bytes(200), b"short"], ids=["zip", "short"])
def test_a_query_in_a_file_of_another_format_leads_to_the_page_that_helps(retriever, tmp_path, data):
    for name in ("replay.npz", "replay.dat"):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(QueryError, match="query: expected an episode that can be read: ") as refused:
            retriever.search_similar_episodes(tmp_path / name)
        is_unknown = (name, data) == ("replay.dat", b"short")  # others are damaged
        assert str(refused.value).count("`wshard layout guess") == is_unknown
    (tmp_path / "broken.wshard").write_bytes(data)
    with pytest.raises(HeaderError):
        retriever.search_similar_episodes(tmp_path / "broken.wshard")


def test_invalid_archive_no_lane_and_no_path_is_refused(tmp_path):
    for opener in (TrajectoryIngestor, TrajectoryRetriever):
        for name in (5, b"x"):
            with pytest.raises(CatalogNotFoundError, match=f"expected an archive's folder .* found {name!r}"):
                opener(name)
        for lanes in (5, [5], b"x", {5: 1.0}):
            with pytest.raises(EmbedderError, match="lanes: expected the name of a lane, several"):
                opener(tmp_path, lanes=lanes)
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        for ask in (
            *(ingestor.ingest, ingestor.ingest_episode, ingestor.ingest_timesteps),
            lambda paths: next(ingestor.watch(paths)),
        ):
            for paths in (5, b"x", [5], None):
                with pytest.raises(IngestError, match="expected files and folders by their paths, found"):
                    ask(paths)
        with pytest.raises(IngestError, match="expected one episode file, found 2 paths"):
            ingestor.ingest_episode(["one", "two"])


# ---- hits -----------------------------------------------------------------------------------------------------------


def test_hits_can_be_members_of_sets(place, retriever):
    path = files(place / "data")[0]
    first, again = (retriever.search_moments(path, 4) for _ in range(2))
    assert first == again
    assert len({*first, *again}) == len(first) == 4
    assert len({first[0], replace(first[0], lane_scores={}), replace(first[0], span=(1, 2))}) == 3


def test_hits_can_be_sent_to_workers_and_what_is_open_cannot(place, retriever):
    hits = retriever.search_similar_timesteps(files(place / "data")[0], 3, window_size=32)
    sent = pickle.loads(pickle.dumps(hits))  # noqa: S301  (our own)
    assert sent == hits
    assert sent[0].load_span() == hits[0].load_span()
    with TrajectoryIngestor(place / "archive") as ingestor:
        for opened in (retriever, ingestor):
            with pytest.raises(TypeError, match=r"the catalog at .* can be neither copied nor sent"):
                pickle.dumps(opened)


def test_what_comes_after_a_hit_is_reported_in_whole_timesteps(place, retriever):
    hit = retriever.search_similar_timesteps(files(place / "data")[0], window_size=32)[0]
    hit = replace(hit, span=(0, 32))
    assert hit.after(np.int64(5)).span == hit.after(5).span == (32, 37)
    for steps in (2.5, "5", None, True):
        with pytest.raises(QueryError, match="steps after a hit: expected a whole number"):
            hit.after(steps)
