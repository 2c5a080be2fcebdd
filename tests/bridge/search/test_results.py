"""Hits and episode references as text, HTML, and tables."""

from __future__ import annotations

import sys

import pytest

from bridge.answered import Answered
from wshard import EpisodeRef, Hits
from wshard.errors import MissingExtraError

KNOWN = {"env_id": "door", "length": 30, "total_reward": 1.5, "success": None, "tags": []}


@pytest.fixture
def hits():
    names = ("one", "<two>", "three", "four")
    return Hits(EpisodeRef(name, f"/data/{name}", 1 - n / 4, KNOWN, (n, 9), f"u{n}") for n, name in enumerate(names))


def test_reprs_are_short(hits):
    assert repr(hits[1]) == "EpisodeRef('<two>', span=(1, 9), score=0.7500)"
    assert repr(hits) == "<4 hits: 'one' 1.0000, '<two>' 0.7500, 'three' 0.5000, ...>"
    assert repr(Hits(hits[:1])) == "<1 hit: 'one' 1.0000>"
    assert repr(Hits()) == "<0 hits>"


def test_a_hit_has_what_the_catalog_knows_of_its_episode(hits):
    hit = hits[0]
    assert (hit.env_id, hit.length, hit.total_reward, hit.success, hit.tags) == ("door", 30, 1.5, None, ())
    unknown = EpisodeRef("one", "/data/one", 1.0)
    assert (unknown.env_id, unknown.length, unknown.total_reward, unknown.success, unknown.tags) == (
        "",
        0,
        None,
        None,
        (),
    )


def test_what_a_search_has_to_say_is_shown_where_its_hits_are():
    none = Hits(answered=Answered(notes=("env:<x> alone matches 0 of 14 episodes",)))
    assert repr(none) == "<0 hits; env:<x> alone matches 0 of 14 episodes>"
    assert none._repr_html_().endswith("<p>env:&lt;x&gt; alone matches 0 of 14 episodes</p>")


def test_slices_are_hits_of_the_same_search(hits):
    hits.proven, hits.missing = False, 3
    assert repr(hits[2:]) == "<2 hits: 'three' 0.5000, 'four' 0.2500>"
    assert (hits[:1].proven, hits[:1].missing) == (False, 3)
    assert [ref.episode_id for ref in hits[::-2]] == ["four", "<two>"]


def test_notebooks_show_an_escaped_table(hits):
    html = hits._repr_html_()
    assert "<td>&lt;two&gt;</td>" in html
    assert "<two>" not in html
    assert html.count("<tr>") == 1 + len(hits)
    assert "<th>total_reward</th>" in html
    assert "None" not in html


def test_tables_have_the_names_of_the_catalog(hits):
    pytest.importorskip("pyarrow")
    table = hits.to_arrow()
    assert table.column_names == [
        *("rank", "score", "episode_id", "env_id", "length", "total_reward", "success", "start", "stop", "uid"),
        "file_path",
    ]
    assert table.to_pylist()[1] == {
        "rank": 2,
        "score": 0.75,
        "episode_id": "<two>",
        "env_id": "door",
        "length": 30,
        "total_reward": 1.5,
        "success": None,
        "start": 1,
        "stop": 9,
        "uid": "u1",
        "file_path": "/data/<two>",
    }
    empty = Hits().to_arrow()
    assert (empty.num_rows, empty.schema) == (0, table.schema)


def test_data_frames_have_the_same_columns(hits):
    pytest.importorskip("pandas")
    frame = hits.to_pandas()
    assert [*frame.columns] == hits.to_arrow().column_names
    assert frame["episode_id"].tolist() == [hit.episode_id for hit in hits]


def test_tables_without_pyarrow_say_what_to_install(hits, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match="tables need pyarrow"):
        hits.to_arrow()
