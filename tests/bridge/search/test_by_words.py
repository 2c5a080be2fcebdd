"""Questions by words, and by picture with an encoder from a folder: what was planted is found, by the right encoder."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from threading import Event

import numpy as np
import pytest
from bridge_episodes import command, opened_archive
from encoder_folders import write_colours

from bridge.pictures.features import FeatureFiles
from embedders.encoders.local_encoder import LocalEncoder
from wshard import Channel, Episode, TrajectoryIngestor, TrajectoryRetriever, save_wshard
from wshard.core.types import TimebaseSpec
from wshard.errors import EmbedderError, IngestError, QueryError

for _library in ("onnx", "onnxruntime", "tokenizers"):
    pytest.importorskip(_library, reason=f"{_library} is not installed")

RATE, STEPS = 20.0, 80
PLANTED = {"ep-0": (0, 40), "ep-1": (1, 10), "ep-2": (2, 60)}  # the plane that shines, and from when, for a second


def make_episode(name):
    plane, start = PLANTED[name]
    frames = np.random.default_rng(plane).integers(180, 220, (STEPS, 20, 24, 3)).astype(np.uint8)
    frames[..., plane] -= 160
    frames[start : start + 20] = 250 * np.eye(3, dtype=np.uint8)[plane]
    observations = {
        "cam": Channel.of("cam", frames),
        "state": Channel.of("state", np.cumsum(np.full((STEPS, 2), plane + 1, np.float32), axis=0)),
    }
    return Episode(name, "wall", STEPS, observations=observations, timebase=TimebaseSpec(tick_hz=RATE))


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """Return the folders of an archive and of the encoder that describes its cameras."""
    monkeypatch.setenv("WSHARD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "episodes").mkdir()
    for name in PLANTED:
        save_wshard(make_episode(name), tmp_path / "episodes" / f"{name}.wshard")
    encoder = write_colours(tmp_path / "colours")
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        assert ingestor.ingest(tmp_path / "episodes", encoder=encoder, windows="whole").ok
    return tmp_path / "archive", encoder


def test_words_find_the_frames_that_show_what_they_say(lab):
    with TrajectoryRetriever(lab[0]) as retriever:
        for word, (name, (_, start)) in zip(("red", "green", "blue"), PLANTED.items(), strict=True):
            best = retriever.search_similar_episodes(words=f"the {word} block", top_k=2)[0]
            assert best.episode_id == name
            assert start <= best.seen.step < start + 20
            moment = retriever.search_moments(words=word, top_k=1)[0]
            assert (moment.episode_id, moment.span) == (name, (start, start + 20))
        ask = {"words": "red", "top_k": 3}
        partly = "approximate: 2 frames a second compared (stride 0: all)"
        for search in (retriever.search_similar_episodes, retriever.search_moments):
            assert [search(**ask).certainty, search(**ask, stride=0).certainty] == [partly, "exact"]
            assert [*search(words="red", top_k=1)] == search(**ask)[:1]
        with pytest.raises(QueryError, match="moments: expected a query, or a picture or words, found both"):
            retriever.search_moments("ep-1", words="red")
        fused = retriever.search_similar_episodes("ep-1", words="red", contributions=True, top_k=3)
        assert fused.certainty == partly
        assert {*fused[0].contributions} == {"query", "picture"}
        assert retriever.search_similar_episodes(words="red", where="episode:ep-2")[0].episode_id == "ep-2"
        for wrong in ({"image": "ep-0#cam@3"}, {"like": ["ep-0#cam@3"]}):
            with pytest.raises(QueryError, match="words: expected them without pictures"):
                retriever.search_similar_episodes(words="red", **wrong)


def test_pictures_are_compared_by_the_encoder_of_the_archive_and_no_frame_is_described_twice(lab, monkeypatch):
    archive, encoder = lab
    flat = np.full((30, 30, 3), 100, np.uint8)
    flat[..., 2] = 250
    stored = {file: file.stat().st_mtime_ns for file in (archive / "features").glob("*/*.bin")}
    with TrajectoryRetriever(archive) as retriever:
        assert retriever.search_similar_episodes(image=flat, top_k=1)[0].episode_id == "ep-2"
        assert retriever.pictures.frames().encoder.fingerprint.startswith("encoder 1 ")
    assert stored == {file: file.stat().st_mtime_ns for file in (archive / "features").glob("*/*.bin")}
    (encoder / "text_model.onnx").unlink()
    with (
        TrajectoryRetriever(archive) as retriever,
        pytest.raises(EmbedderError, match="expected the encoder that described the cameras, found other files"),
    ):
        retriever.search_similar_episodes(image=flat)


def test_an_archive_does_not_say_which_folder_is_opened(lab, tmp_path):
    archive, _ = lab
    shutil.rmtree(tmp_path / "cache")
    about = json.loads((archive / "features" / "encoder.json").read_text())
    assert {*about} == {"fingerprint", "name", "stride"}
    with (
        TrajectoryRetriever(archive) as retriever,
        pytest.raises(EmbedderError, match="by the encoder 'colours', not found on this machine: name its folder"),
    ):
        retriever.search_similar_episodes(words="red")
    with TrajectoryRetriever(archive, f"encoder:{tmp_path / 'colours'}") as retriever:
        assert retriever.search_similar_episodes(words="red")[0].episode_id == "ep-0"
    (archive / "features" / "encoder.json").write_bytes(b"{")
    with TrajectoryRetriever(archive) as retriever, pytest.raises(EmbedderError, match="found 'thumbnails 1 16'"):
        retriever.search_similar_episodes(words="red")


def test_the_encoder_embeds_whole_episodes_from_the_same_features(lab):
    archive, encoder = lab
    with TrajectoryIngestor(archive, f"encoder:{encoder}") as ingestor:
        assert ingestor.ingest(archive.parent / "episodes", windows="whole").embedded == len(PLANTED)
    with TrajectoryRetriever(archive, f"encoder:{encoder}") as retriever:
        (own, other) = retriever.search_similar_episodes("ep-0", top_k=2)
        assert (own.episode_id, own.score) == ("ep-0", pytest.approx(1, abs=1e-3))
        assert other.score < 0.999


def test_commands_ask_by_words_and_refuse_encoders_that_are_none(lab, tmp_path):
    question = ("--words", "green", "--top", "1", "--json", "--archive", lab[0])
    found = command("search", *question, folder=tmp_path)
    assert [hit["episode_id"] for hit in json.loads(found.stdout)["items"]] == ["ep-1"]
    found = command("moments", *question, folder=tmp_path)
    assert [hit["span"] for hit in json.loads(found.stdout)["items"]] == [[10, 30]]
    (tmp_path / "pickle").mkdir()
    (tmp_path / "pickle" / "pytorch_model.bin").write_bytes(b"\x80")
    for folder, message in (("pickle", "which may run code when read"), ("google/siglip", "nothing is downloaded")):
        found = command("ingest", "episodes", "--encoder", folder, "--archive", lab[0], folder=tmp_path)
        assert (found.exit_code, message in found.stderr) == (1, True)


def test_frames_are_described_and_searched_at_the_stride_of_the_ingest(lab, tmp_path):
    archive, encoder = lab
    frames = np.random.default_rng(0).integers(0, 255, (400, 16, 16, 3)).astype(np.uint8)
    timebase = TimebaseSpec(tick_hz=5.0)
    episode = Episode("long", "wall", 400, observations={"cam": Channel.of("cam", frames)}, timebase=timebase)
    save_wshard(episode, tmp_path / "long.wshard")

    def described():
        with opened_archive(archive) as opened:
            (row,) = (opened.catalog.episodes.get(id_) for id_ in opened.catalog.query.ids("episode:long"))
            return FeatureFiles(archive, LocalEncoder(encoder)).read(row, "signal/cam").steps.tolist()

    with TrajectoryIngestor(archive) as ingestor:
        ingestor.ingest(tmp_path / "long.wshard", encoder=encoder, stride=2)
        assert described() == [*range(0, 400, 10)]
        with pytest.raises(IngestError, match="stride: expected an encoder"):
            ingestor.ingest(tmp_path / "long.wshard", stride=2)
        with pytest.raises(IngestError, match="stride: expected a number"):
            ingestor.ingest(tmp_path / "long.wshard", encoder=encoder, stride=-1)
    with TrajectoryRetriever(archive) as retriever:
        assert retriever.search_similar_episodes(words="red", top_k=9)
        assert described() == [*range(0, 400, 10)]
        retriever.search_similar_episodes(words="red", top_k=9, stride=1)
        assert described() == [*range(0, 400, 5)]


def test_watching_describes_the_cameras_of_new_files_too(lab, tmp_path):
    pytest.importorskip("watchfiles", reason="watchfiles is not installed")
    archive, encoder = lab
    (tmp_path / "new").mkdir()
    save_wshard(replace(make_episode("ep-1"), id="later"), tmp_path / "new" / "later.wshard")
    stop = Event()
    with TrajectoryIngestor(archive) as ingestor:
        with pytest.raises(IngestError, match="stride: expected an encoder"):
            ingestor.watch(tmp_path / "new", stride=2)
        for report in ingestor.watch(tmp_path / "new", windows="whole", encoder=encoder, stride=0.25, stop=stop):
            assert (report.new, report.failed) == (1, [])
            stop.set()
    with opened_archive(archive) as opened:
        (row,) = opened.catalog.episodes.rows(opened.catalog.query.ids("episode:later")).values()
    assert FeatureFiles(archive, LocalEncoder(encoder)).read(row, "signal/cam").steps.tolist() == [*range(0, STEPS, 5)]


def test_features_of_an_encoder_that_was_replaced_are_removed(lab, tmp_path):
    archive, encoder = lab

    def makers():
        return {path.parent for path in (archive / "features").glob("*/*.bin")}

    (earlier,) = makers()
    (encoder / "text_model.onnx").unlink()
    with TrajectoryIngestor(archive) as ingestor:
        ingestor.ingest(tmp_path / "episodes", encoder=encoder)
    later = makers() - {earlier}
    assert len(later) == 1
    assert "leftover" not in command("fsck", "--archive", archive, folder=tmp_path).stdout, "it may be in use"
    for folder in makers():
        os.utime(folder, (1e9, 1e9))
    assert command("fsck", "--repair", "--archive", archive, folder=tmp_path).stdout.count("removed 1 leftover") == 1
    assert makers() == later
