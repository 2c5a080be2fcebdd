"""Episodes in several files: one of the archive's each, found, checked, moved and watched like one in a single file."""

# ruff: noqa: ANN003 -- as in tests, whose helpers these are
from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from bridge_episodes import counts, episode, episodes_by_path, ingest, opened_archive, save, vectors_of
from command_line import app
from typer.testing import CliRunner

from bridge import IngestReport, check_episodes
from bridge.episodes.read import Failure
from bridge.ingest import watch as watching
from bridge.maintenance.health import examine
from embedders import WindowPlan
from wshard import ChunkedEpisodeWriter, FormatError, TrajectoryIngestor, TrajectoryRetriever, open_archive
from wshard import check_archive as check
from wshard import repair_archive as repair
from wshard.core.chunks.manifest import read_manifest, write_manifest
from wshard.core.chunks.split import cut
from wshard.errors import EntryNotFoundError, IngestError, StaleEpisodeError
from wshard.testing import assert_same_episode

PLAN = WindowPlan(10, 5)


def chunked(folder, ep, size=25):
    """Write an episode in chunks and return its manifest."""
    writer = ChunkedEpisodeWriter(folder, ep.id, size)
    writer.write_episode_chunked(ep)
    return writer.finalize_manifest()


def chunks_of(manifest):
    return sorted(manifest.parent.glob(f"{manifest.name.removesuffix('_manifest.wshard')}_chunk_*"))


@pytest.fixture
def archive(tmp_path):
    return tmp_path / "archive"


@pytest.fixture
def manifest(tmp_path, archive):
    """Return the manifest of an episode of three chunks, which is in the archive beside five others."""
    save(tmp_path / "data", *(episode(1, number, 40) for number in range(5)))
    manifest = chunked(tmp_path / "data", episode(0, 3, 60))
    assert ingest(archive, tmp_path / "data", windows=(WindowPlan(), PLAN)).ok
    with opened_archive(archive) as opened:
        opened.catalog.annotations.tag(opened.catalog.query.ids("asset:chunk"), "good")
    return manifest


def codes(archive, **options):
    with open_archive(archive) as opened:
        return [finding.code for finding in check(opened, **options).findings]


def mended(archive):
    with open_archive(archive) as opened:
        return [finding.code for finding in repair(opened).findings]


# ---- the same as in one file ----------------------------------------------------------------------------------------


def test_an_episode_in_chunks_is_the_same_episode_as_in_one_file(tmp_path):
    episodes = [episode(task, number, 60) for task in range(2) for number in range(3)]
    for one in episodes:
        save(tmp_path / "single", one)
        chunked(tmp_path / "several", one, 7 + len(one.id))
    found = {}
    for name in ("single", "several"):
        report = ingest(tmp_path / name / "archive", tmp_path / name, windows=(WindowPlan(), PLAN))
        assert (report.new, report.embedded, report.failed) == (6, 6, [])
        with opened_archive(tmp_path / name / "archive") as opened:
            rows = {row.episode_id: row for row in opened.catalog.query.select().rows}
            facts = opened.catalog.query.facts(row.id for row in rows.values())
            layouts = [layout.lanes for layout in opened.catalog.query.layouts()]
        about = ("env_id", "length", "total_reward", "success", "metadata")
        lanes = {id_: facts[row.id].lanes for id_, row in rows.items()}
        message = {
            (id_, lane): (fact.count, fact.whole, fact.channels, fact.rate, fact.storage.codec, fact.storage.bytes)
            for id_, there in lanes.items()
            for lane, fact in there.items()
        }
        names = {row.path: row.episode_id for row in rows.values()}
        vectors = {
            (space, names[path]): rows_ for (space, path), rows_ in vectors_of(tmp_path / name / "archive").items()
        }
        plain = {id_: [getattr(row, each) for each in about] for id_, row in rows.items()}
        found[name] = plain, layouts, message, vectors
    for one, many in zip(*(found[name][:3] for name in ("single", "several")), strict=True):
        assert one == many
    one, many = found["single"][3], found["several"][3]
    assert one.keys() == many.keys()
    assert all(np.array_equal(one[key], many[key]) for key in one)


def test_a_moment_lies_across_a_border(archive, manifest):
    with TrajectoryRetriever(archive) as retriever:
        best = retriever.search_moments((manifest, 19, 33), top_k=1)[0]
        assert (best.file_path, best.span) == (str(manifest), (19, 33))
        again = retriever.search_moments(best, top_k=1, exclude_self=False)[0]
        assert again.file_path == str(manifest)
        whole = best.load()
        assert_same_episode(whole, episode(0, 3, 60))
        assert list(best.load(["ctrl"]).actions) == ["ctrl"]
        (hit,) = retriever.search_similar_episodes(episode(0, 3, 60), top_k=1)
        assert hit.file_path == str(manifest)
        chunks_of(manifest)[1].unlink()
        with pytest.raises(FileNotFoundError, match="chunk_0001"):
            best.load()
        with pytest.raises(FileNotFoundError, match="chunk_0001"):
            retriever.search_similar_episodes(manifest)
        with pytest.raises(EntryNotFoundError, match="is neither a file nor an episode"):
            retriever.search_similar_episodes(manifest.with_name("nothing.wshard"))


def test_lanes_in_memory_follow_every_chunk(archive, manifest):
    with TrajectoryRetriever(archive) as retriever:
        (space,) = (space for space in retriever._queries.spaces.active() if not space.windows.whole)
        requested = {lane.name: episode(0, 3, 60).lanes()[lane.name].data[22:37] for lane in space.lanes}
        assert retriever.search_moments(requested, 1)[0].span == (22, 37)
        chunks_of(manifest)[1].unlink()
        hits = retriever.search_moments(requested, 1)
        assert (hits.missing, hits[0].episode_id != "task-0-3") == (1, True)


def test_a_growing_episode_is_read_again_and_stays_the_same(tmp_path, archive):
    ep = episode(0, 3, 60)
    save(tmp_path / "data", episode(1, 1, 40))
    writer = ChunkedEpisodeWriter(tmp_path / "data", ep.id)
    before, ids = None, []
    for number in range(3):
        writer.write_chunk(cut(ep, 20 * number, 20 * number + 20))
        report = ingest(archive, tmp_path / "data", windows=PLAN)
        assert counts(report, without="embedded") == ({"changed": 1, "unchanged": 1} if number else {"new": 2})
        with opened_archive(archive) as opened:
            (id_,) = opened.catalog.query.ids("asset:manifest")
            opened.catalog.annotations.tag([id_], f"seen-{number}")
            before = opened.catalog.episodes.get(id_)
            ids.append(id_)
        assert before.length == 20 * (number + 1)
        assert before.total_reward == pytest.approx(3 * before.length)
    assert len(set(ids)) == 1
    assert before.tags == ("seen-0", "seen-1", "seen-2")
    writer.finalize_manifest()
    report = ingest(archive, tmp_path / "data", windows=PLAN)  # the files now state the number of chunks
    assert counts(report, without="embedded") == {"changed": 1, "unchanged": 1}
    assert codes(archive) == []


def test_a_moved_episode_is_known_again(tmp_path, archive, manifest):
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    report = ingest(archive, tmp_path / "elsewhere", windows=(WindowPlan(), PLAN))
    assert counts(report) == {"moved": 6}
    with opened_archive(archive) as opened:
        (id_,) = opened.catalog.query.ids("tag:good")
        parts = opened.catalog.episodes.assets([id_])[id_]
        assert {Path(part.path).parent for part in parts} == {tmp_path / "elsewhere"}
    assert codes(archive) == []


# ---- chunks that are no episodes ------------------------------------------------------------------------------------


def test_files_that_are_named_one_by_one_are_one_episode(tmp_path, archive):
    manifest = chunked(tmp_path, episode(0, 3, 60))
    assert counts(ingest(archive, *chunks_of(manifest), manifest)) == {"new": 1, "embedded": 1}
    with TrajectoryIngestor(archive) as ingestor:
        uid = ingestor.ingest_episode(manifest)
        with pytest.raises(IngestError, match="chunk of 'task-0-3': ingest the manifest"):
            ingestor.ingest_episode(chunks_of(manifest)[0])
    assert [row.uid for row in episodes_by_path(archive).values()] == [uid]


@pytest.mark.parametrize("damage", ["no manifest", "manifest", "itself", "missing", "changed", "empty"])
def test_chunks_that_make_no_episode_are_reported(tmp_path, archive, damage):
    save(tmp_path / "data", episode(1, 1, 40))
    manifest = chunked(tmp_path / "data", episode(0, 3, 60))
    chunks = chunks_of(manifest)
    if damage == "no manifest":
        manifest.unlink()
    elif damage == "manifest":
        manifest.write_bytes(b"nothing")
    elif damage == "itself":
        listed = read_manifest(manifest)
        listed.chunks[0]["uri"] = manifest.name
        write_manifest(listed, manifest)
    elif damage == "missing":
        chunks[1].unlink()
    elif damage == "changed":
        shutil.copy(chunks[0], chunks[1])
    else:
        ChunkedEpisodeWriter(tmp_path / "data", "task-0-3").finalize_manifest()
        for path in chunks:
            path.unlink()
    report = ingest(archive, tmp_path / "data")
    assert report.new == 1
    message = {failure.path: failure.error for failure in report.failed}
    expected = {
        "no manifest": chunks,
        "manifest": [*chunks, manifest],
        "itself": [chunks[0], manifest],
        "missing": [manifest],
        "changed": [manifest],
        "empty": [manifest],
    }[damage]
    assert sorted(message) == sorted(map(str, expected))
    words = {"missing": "chunk_0001", "changed": "SHA-256 mismatch", "empty": "at least one chunk"}
    assert words.get(damage, "chunk of 'task-0-3'") in next(iter(message.values()))
    with TrajectoryIngestor(archive) as ingestor, pytest.raises((IngestError, FormatError, OSError)):
        ingestor.ingest_episode(expected[-1])


def test_a_manifest_that_lists_links_out_of_its_folder_neither_takes_nor_hides_what_is_there(tmp_path, archive):
    (elsewhere,) = save(tmp_path / "elsewhere", episode(1, 1, 40))
    manifest = chunked(tmp_path / "data", episode(0, 3, 60))
    for chunk in chunks_of(manifest)[1:]:
        chunk.unlink()
        chunk.symlink_to(elsewhere)
    report = ingest(archive, tmp_path / "data")
    assert "leaves the folder" in {Path(one.path): one.error for one in report.failed}[manifest]
    assert list(episodes_by_path(archive)) == [elsewhere]  # links in a folder are followed, by themselves
    assert ingest(archive, tmp_path).unchanged == 1


def test_a_manifest_that_is_none_hides_no_episode(tmp_path, archive):
    """It lists a chunk, an episode, and a file that nobody can read, of which only the manifest is there to tell."""
    whole, damaged, unlisted = save(tmp_path / "data", *(episode(1, number, 40) for number in range(3)))
    manifest = chunked(tmp_path / "data" / "task-1", episode(0, 3, 60))
    listed = read_manifest(manifest)
    for row, path in zip(listed.chunks, (whole, damaged), strict=False):
        row["uri"] = path.name
    write_manifest(listed, manifest)
    damaged.write_bytes(damaged.read_bytes()[:-50])
    report = ingest(archive, tmp_path / "data", windows=PLAN)
    assert counts(report) == {"new": 2, "embedded": 2}
    assert list(episodes_by_path(archive)) == [whole, unlisted]
    message = {Path(failure.path): failure.error for failure in report.failed}
    assert message.keys() == {*chunks_of(manifest)[:2], manifest}
    assert "task-1-0.wshard: expected the manifest's 25 timesteps, found 40" in message[manifest]
    assert message[manifest].endswith(
        "; 1 of the files that it lists are not chunks, and are ingested as episodes: task-1-0.wshard"
    )
    assert counts(ingest(archive, tmp_path / "data", windows=PLAN)) == {"unchanged": 2}
    assert chunked(tmp_path / "data" / "task-1", episode(0, 3, 60)) == manifest
    report = ingest(archive, tmp_path / "data", windows=PLAN)
    assert (report.unchanged, report.new) == (2, 1)
    assert episodes_by_path(archive).keys() == {whole, unlisted, manifest}


def test_its_annotations_of_chunks_that_were_episodes_is_stated_of_the_whole(tmp_path, archive):
    ep = episode(0, 3, 60)
    parts = [cut(ep, start, start + 20) for start in (0, 20, 40)]
    for number, part in enumerate(parts):  # as episodes of their own, which they were for older software
        (path,) = save(tmp_path, part)
        path.rename(tmp_path / f"{ep.id}_chunk_{number:04d}.wshard")
    assert ingest(archive, tmp_path).new == 3
    with opened_archive(archive) as opened:
        ids = opened.catalog.query.ids()
        opened.catalog.annotations.tag(ids[:1], "good")
        opened.catalog.annotations.add_note(ids[1:2], "wobbles", who="ann")
    manifest = chunked(tmp_path, ep, 20)
    assert counts(ingest(archive, tmp_path)) == {"new": 1, "removed": 3, "embedded": 1}
    (row,) = episodes_by_path(archive).values()
    assert (row.path, row.length, row.tags) == (str(manifest), 60, ("good",))
    with TrajectoryRetriever(archive) as retriever:
        hits = retriever.search_similar_episodes(ep, top_k=10, where="wobbles")
        assert [hit.file_path for hit in hits] == [str(manifest)]
    assert codes(archive) == []


# ---- looking after them ---------------------------------------------------------------------------------------------


def flip(path):
    """Change one byte, and not the time."""
    before, data = path.stat(), bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_missing_chunk_is_reported_until_it_is_back(archive, manifest):
    chunk = chunks_of(manifest)[1]
    chunk.rename(chunk.with_suffix(".away"))
    with open_archive(archive) as opened:
        (finding,) = check(opened).findings
        assert (finding.code, finding.where, finding.message) == (
            "missing",
            str(manifest),
            f"no such file: {chunk.name}",
        )
        assert sum(health.stale for health in examine(opened)) > 0
    assert mended(archive) == ["missing"]
    report = ingest(archive, manifest.parent, windows=(WindowPlan(), PLAN))
    assert [failure.path for failure in report.failed] == [str(manifest)]
    chunk.with_suffix(".away").rename(chunk)
    assert codes(archive) == ["unembedded"]  # vectors of what could not be read were buried
    assert mended(archive) == []
    with opened_archive(archive) as opened:
        assert opened.catalog.query.count("tag:good asset:chunk") == 1
        assert sum(health.stale for health in examine(opened)) == 0


def test_a_touched_chunk_is_noted(archive, manifest):
    os.utime(chunks_of(manifest)[0])
    assert codes(archive) == ["touched"]
    assert mended(archive) == []
    os.utime(chunks_of(manifest)[2])
    assert counts(ingest(archive, manifest.parent, windows=(WindowPlan(), PLAN))) == {"unchanged": 6}
    assert codes(archive) == []


def test_a_damaged_chunk_is_found_by_its_bytes(archive, manifest):
    flip(chunks_of(manifest)[1])
    assert codes(archive) == []
    assert codes(archive, data=True) == ["corrupt"]
    with opened_archive(archive) as opened:
        (checkup,) = check_episodes(opened, [manifest])
        assert "SHA-256 mismatch" in checkup.findings[0].reason
        assert opened.catalog.query.count("flag:integrity") == 1


def test_another_chunk_than_the_manifest_lists_is_damage(archive, manifest):
    first, second, _ = chunks_of(manifest)
    shutil.copy(first, second)
    assert codes(archive) == ["corrupt"]
    report = ingest(archive, manifest.parent, windows=(WindowPlan(), PLAN))
    assert "SHA-256 mismatch" in report.failed[0].error


def test_what_a_manifest_says_can_be_reported_whatever_it_is(archive, manifest):
    listed = read_manifest(manifest)
    listed.chunks[1]["sha256"] = "\ud800\0"
    write_manifest(listed, manifest)
    (failure,) = ingest(archive, manifest.parent, windows=(WindowPlan(), PLAN)).failed
    assert "the manifest says \\ud800\\0, the file has" in failure.error
    with opened_archive(archive) as opened:
        (id_,) = opened.catalog.query.ids("flag:integrity")
        assert opened.catalog.checks.findings([id_])[id_][0].reason == failure.error


def test_a_changed_episode_is_read_and_embedded_again(archive, manifest):
    with TrajectoryRetriever(archive) as retriever:
        (hit,) = retriever.search_similar_episodes(manifest, top_k=1)
        chunked(manifest.parent, episode(0, 4, 60, id="task-0-3"))
        with pytest.raises(StaleEpisodeError):
            hit.load()
    assert codes(archive) == ["changed"]
    assert mended(archive) == []
    with opened_archive(archive) as opened:
        (id_,) = opened.catalog.query.ids("asset:chunk tag:good")
        assert opened.catalog.episodes.get(id_).metadata["number"] == 4


def test_a_moved_episode_is_found_by_fsck(archive, manifest):
    away = manifest.parent / "away"
    away.mkdir()
    for path in (manifest, *chunks_of(manifest)):
        path.rename(away / path.name)
    assert codes(archive) == ["moved"]
    assert mended(archive) == []
    assert away / manifest.name in episodes_by_path(archive)


def test_an_episode_that_lost_a_chunk_is_found_where_all_of_it_is(archive, manifest):
    away = manifest.parent / "away"
    away.mkdir()
    for path in (manifest, *chunks_of(manifest)):
        shutil.copy2(path, away)
    chunks_of(manifest)[1].unlink()
    assert codes(archive) == ["moved"]
    assert mended(archive) == []
    with opened_archive(archive) as opened:
        (row,) = opened.catalog.query.select("asset:chunk").rows
        assert (row.path, row.tags) == (str(away / manifest.name), ("good",))


def test_show_lists_the_files(archive, manifest):
    run = CliRunner()
    text = run.invoke(app, ["show", "task-0-3", "-a", str(archive)]).output
    assert "manifest" in text
    assert all(path.name in text for path in chunks_of(manifest))
    (shown,) = json.loads(run.invoke(app, ["show", str(manifest), "-a", str(archive), "--json"]).output)["items"]
    assert [file["role"] for file in shown["files"]] == ["manifest", "chunk", "chunk", "chunk"]
    assert shown["file_is_there"]
    (plain,) = json.loads(run.invoke(app, ["show", "task-1-1", "-a", str(archive), "--json"]).output)["items"]
    assert [(file["role"], file["file_path"]) for file in plain["files"]] == [("episode", plain["file_path"])]


# ---- watching -------------------------------------------------------------------------------------------------------


def test_chunks_wait_for_their_manifest_and_a_manifest_for_its_chunks(tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    ep, arrivals = episode(0, 3, 60), watching.Arrivals()
    writer = ChunkedEpisodeWriter(tmp_path, ep.id)
    path = tmp_path / "task-0-3_manifest.wshard"
    manifest, chunk = str(path), str(writer.write_chunk(cut(ep, 0, 20)))
    path.rename(tmp_path / "later")
    arrivals.note(chunk)  # before its manifest
    now[0] += 30
    assert arrivals.ready() == []
    (tmp_path / "later").rename(path)
    arrivals.note(manifest)
    now[0] += 50
    assert (arrivals.ready(), list(arrivals.waiting)) == ([], [manifest])
    writer.write_chunk(cut(ep, 20, 40))
    assert arrivals.ready() == []  # it has changed
    now[0] += 59
    assert arrivals.ready() == []
    now[0] += 2
    assert arrivals.ready() == [manifest]  # its writer may have died
    writer.write_chunk(cut(ep, 40, 60))
    writer.finalize_manifest()
    assert arrivals.ready() == []
    now[0] += 0.3
    assert arrivals.ready() == [manifest]
    arrivals.waiting.clear()
    arrivals.note(chunk)  # it may have been touched
    assert list(arrivals.waiting) == [manifest]


def test_a_manifest_that_came_before_its_chunks_is_tried_again_with_each(tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    made = chunked(tmp_path / "made", episode(0, 3, 60))
    manifest, arrivals, message = tmp_path / made.name, watching.Arrivals(), []
    shutil.copy2(made, manifest)
    arrivals.note(str(manifest))
    for chunk in chunks_of(made):
        now[0] += 3
        assert arrivals.ready() == [str(manifest)]
        report = IngestReport(failed=[Failure(str(manifest), "no such file")])
        shutil.copy2(chunk, tmp_path)  # while it was tried
        arrivals.finish([str(manifest)], report)
        message += report.failed
        arrivals.note(str(tmp_path / chunk.name))
        assert list(arrivals.waiting) == [str(manifest)]
    now[0] += 0.3
    assert arrivals.ready() == [str(manifest)]  # all of it is there
    report = IngestReport(failed=[Failure(str(manifest), "damaged")])
    arrivals.finish([str(manifest)], report)
    arrivals.note(str(manifest))
    assert (len(message), len(report.failed), arrivals.waiting) == (3, 1, {})  # refused as it is


def test_a_pipe_keeps_no_one_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe.wshard")
    assert not watching.is_complete(str(tmp_path / "pipe.wshard"))


def test_a_chunk_without_a_manifest_is_reported_after_a_while(tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    chunk = str(ChunkedEpisodeWriter(tmp_path, "run").write_chunk(episode(0, 0, 20)))
    (tmp_path / "run_manifest.wshard").unlink()
    arrivals = watching.Arrivals()
    arrivals.note(chunk)
    now[0] += 61
    assert arrivals.ready() == [chunk]


def test_what_comes_in_chunks_is_taken_in_whole(tmp_path, archive):
    pytest.importorskip("watchfiles")
    (tmp_path / "data").mkdir()
    with TrajectoryIngestor(archive) as ingestor:
        reports = ingestor.watch(tmp_path / "data")
        chunked(tmp_path / "data", episode(0, 3, 60))
        report = next(reports)
        reports.close()
    assert counts(report) == {"new": 1, "embedded": 1}
