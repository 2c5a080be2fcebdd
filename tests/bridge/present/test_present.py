"""Values are presented as dicts that JSON can hold, in one vocabulary, without a terminal."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from bridge import IngestReport, check_episodes
from bridge.curation import find_duplicates
from bridge.curation.duplicates import group_episodes
from bridge.episodes.read import Failure
from bridge.evaluation import evaluate_label
from bridge.ingest.report import Replaced
from bridge.maintenance import Finding, indexes
from bridge.maintenance.health import examine
from bridge.present.episodes import present_details, present_episode, present_ranking
from bridge.present.findings import (
    group_findings,
    group_twins,
    present_checkup,
    present_failures,
    present_finding,
    present_group,
    present_pair,
)
from bridge.present.hits import present_hits
from bridge.present.reports import (
    COUNTS,
    present_evaluation,
    present_health,
    present_index_state,
    present_ingest,
    present_space,
)
from wshard import (
    Channel,
    DType,
    Episode,
    EpisodeAddress,
    TrajectoryIngestor,
    TrajectoryRetriever,
    find_outliers,
    open_archive,
    save_wshard,
)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Return a folder with an archive of four episodes, two of them equal."""
    folder = tmp_path_factory.mktemp("present")
    (folder / "episodes").mkdir()
    for number, seed in enumerate((0, 1, 2, 0)):
        values = np.random.default_rng(seed).normal(size=(60, 3)).cumsum(axis=0).astype(np.float32)
        episode = Episode(id=f"arm-{number}", env_id="lift", length=60, metadata={"task": "ab"[number % 2]})
        episode.observations["state"] = Channel("state", DType.FLOAT32, [3], values)
        save_wshard(episode, folder / "episodes" / f"{number}.wshard")
    with TrajectoryIngestor(folder / "archive") as ingestor:
        ingestor.ingest([folder / "episodes"])
    return folder


@pytest.fixture
def archive(home):
    with open_archive(home / "archive") as opened:
        yield opened


def rows_of(archive):
    return list(archive.catalog.episodes.rows(archive.catalog.query.ids()).values())


def plain(value):
    """Return the value after a round trip through JSON, which must not change it."""
    assert json.loads(json.dumps(value)) == value
    return value


def test_an_episode_is_named_in_the_one_vocabulary(archive):
    row = rows_of(archive)[0]
    assert plain(present_episode(row)) == {
        "uid": row.uid,
        "episode_id": "arm-0",
        "env_id": "lift",
        "length": 60,
        "file_path": row.path,
        "key": "",
        "address": row.path,
    }


def test_hits_say_how_they_were_found(home):
    with TrajectoryRetriever(home / "archive") as retriever:
        hits = retriever.search_similar_episodes(home / "episodes" / "1.wshard", 3)
        found = plain(present_hits(hits, ["a", "b", "c"]))
    assert {*found} == {
        *("items", "total", "missing", "exact", "milliseconds"),
        *("spaces", "others", "notes", "ranked_by", "certainty", "compared", "not_compared"),
    }
    assert (found["total"], found["items"][0]["rank"], found["items"][0]["episode_id"]) == (3, 1, "arm-1")
    assert found["items"][0]["file_path"] == hits[0].file_path
    assert [one["name"] for one in found["items"]] == ["a", "b", "c"]
    assert "alignment" not in found["items"][0]
    assert found["spaces"]


def test_moments_have_an_alignment(home):
    with TrajectoryRetriever(home / "archive") as retriever:
        hits = retriever.search_moments((home / "episodes" / "1.wshard", 10, 40), 2)
    first = plain(present_hits(hits, ["a", "b"], moments=True))["items"][0]
    assert first["span"] == [10, 40]
    assert first["alignment"][0] == [0, 10]
    assert first["remaining"] == 20


def test_details_hold_files_lanes_and_annotations(archive):
    row = rows_of(archive)[0]
    archive.catalog.annotations.tag([row.id], "good")
    found = json.loads(json.dumps(present_details(archive.catalog, rows_of(archive)[:1])))[0]
    assert (found["file_path"], found["file_is_there"], found["tags"]) == (row.path, True, ["good"])
    assert [file["file_path"] for file in found["files"]] == [row.path]
    assert found["lanes"]["signal/state"] == "f32[3]"
    assert "path" not in found


def test_rankings_count_from_one(archive):
    found = plain(present_ranking(find_outliers(archive, neighbours=2)))
    assert [one["rank"] for one in found] == [1, 2, 3, 4]
    assert {"value", "uid", "episode_id", "env_id", "length", "file_path"} < {*found[0]}


def test_duplicates_are_groups_of_pairs(archive):
    twins = find_duplicates(archive)
    (group,) = group_twins(twins, group_episodes(archive.catalog.query.ids(), twins)).items()
    found = plain(present_group(*group))
    assert [one["episode_id"] for one in found["episodes"]] == ["arm-0", "arm-3"]
    assert found["pairs"] == [present_pair(twins[0])]
    assert (found["pairs"][0]["left_span"], found["pairs"][0]["right_span"]) == ([0, 60], [0, 60])


def test_checkups_and_findings(archive):
    checkup = plain(present_checkup(next(iter(check_episodes(archive)))))
    assert {*checkup} == {"file_path", "key", "address", "episode_id", "uid", "scores", "findings"}
    finding = plain(present_finding(Finding("moved", "/a/b.wshard", "is at /c", seen=EpisodeAddress("/c", "7"))))
    assert (finding["code"], finding["message"], finding["seen"]) == ("moved", "is at /c", "/c#7")
    assert finding["advice"]


def test_findings_of_a_folder_are_grouped():
    moved = [
        Finding("moved", f"/a/{place}.wshard", "is there", number, EpisodeAddress(f"/b/{place}.wshard"))
        for number, place in enumerate(("x/1", "x/2", "y/1", "1"), 1)
    ]
    keyed = [Finding("moved", f"/set#{key}", "is there", 9, EpisodeAddress("/new", str(key))) for key in range(5)]
    gone = [Finding("missing", f"/c/{number}/0.wshard", "no such file", 9) for number in range(4)]
    mixed = [Finding("missing", f"{root}/d/{n}", "gone", 9) for n in range(4) for root in ("s3://a", "s3://b", "")]
    few = [Finding("touched", f"/c/{number}.wshard", "the same data", 9) for number in range(3)]
    video = [Finding("incomplete", f"/set#{key}", f"no such file: front/{key}.mp4", 9) for key in range(4)]
    index = [Finding("index", "embedded", "damaged")] * 5  # of no episode
    at = "the same data is now at"
    assert group_findings([*few, *moved, *keyed, *gone, *mixed, *video, *index]) == [
        *((one.code, one.where, one.message) for one in few),
        ("moved", "/a", f"{at} /b: 4 episodes"),
        ("moved", "/set", f"{at} /new: 5 episodes"),
        ("missing", "/c", "no such file: 4 episodes"),
        *[("missing", f"{root}/d", "gone: 4 episodes") for root in ("s3://a", "s3://b", "")],
        ("incomplete", "/set", "no such file: front/0.mp4 and the like: 4 episodes"),
        *[("index", "embedded", "damaged")] * 5,
    ]


def test_an_ingest_counts_and_lists():
    report = IngestReport(
        new=2,
        failed=[Failure("/a", "cut")],
        replaced=[Replaced(1, "/b", "x", "y")],
        skipped={".mp4": 2},
        seconds=1.23456,
    )
    found = plain(present_ingest(report))
    assert [found[name] for name in COUNTS] == [2, *[0] * 9]
    assert (
        found["failed"]
        == present_failures(report.failed)
        == [{"file_path": "/a", "key": "", "address": "/a", "error": "cut"}]
    )
    assert found["replaced"] == [{"id": 1, "file_path": "/b", "before": "x", "now": "y"}]
    assert (found["skipped"], found["delayed"], found["seconds"]) == ({".mp4": 2}, None, 1.235)


def test_spaces_indexes_and_health(archive):
    spaces = [plain(present_space(one)) for one in indexes.list_spaces(archive)]
    states = [plain(present_index_state(one)) for one in indexes.audit(archive)]
    health = [plain(present_health(one)) for one in examine(archive)]
    assert len(spaces) == len(states) == len(health) > 0
    assert spaces[0]["lanes"] == ["signal/state"]
    assert all(one["ok"] and one["vectors"] == one["ledger"] for one in states)
    assert all(isinstance(one["space"], str) for one in health)


def test_evaluations_list_their_labels(archive):
    found = plain(present_evaluation(evaluate_label(archive, "task")[0]))
    assert {one["label"] for one in found["of_labels"]} == {"a", "b"}
    assert found["labels"] == 2


def test_no_terminal_library_is_loaded():
    names = ["hits", "episodes", "findings", "reports"]
    code = f"import sys; {'; '.join(f'import bridge.present.{name}' for name in names)}; print('typer' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
