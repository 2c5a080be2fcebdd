"""Searches by picture: the frame is found in its episode, by every way to name it, from features computed once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bridge_episodes import command, ingest, spaces_of, vectors_of
from PIL import Image

from embedders import Frames, WindowPlan
from wshard import Channel, Episode, TrajectoryIngestor, TrajectoryRetriever, save_wshard
from wshard.core.types import TimebaseSpec
from wshard.errors import CodecError, EmbedderError, QueryError

STEPS, RATE, NUMBER = 90, 20.0, 6


def camera(number):
    """Return uint8 [90, 24, 32, 3]: a spot that crosses a wall of its own."""
    rng = np.random.default_rng(number)
    wall = rng.integers(60, 120, (6, 8, 3)).repeat(4, axis=0).repeat(4, axis=1)
    y, x = np.mgrid[:24, :32]
    places = np.linspace(2, 30, STEPS)[:, None, None]
    spot = 130 * np.exp(-((y - 12) ** 2 + (x - places) ** 2) / 18)
    return np.clip(wall + spot[..., None] * rng.uniform(0.2, 1, 3), 0, 255).astype(np.uint8)


def make_episode(number, seen=None):
    seen = camera(number) if seen is None else seen
    observations = {
        "cam": Channel.of("cam", seen),
        "state": Channel.of("state", np.full((len(seen), 2), number, np.float32)),
    }
    observations["state"].data[:, 0] += np.arange(len(seen))
    timebase = TimebaseSpec(tick_hz=RATE)
    return Episode(f"ep-{number}", "wall", len(seen), observations=observations, timebase=timebase)


class Counted(Frames):
    """The default frames, which counts how many it is given."""

    frames = 0

    @property
    def fingerprint(self):
        return "counted"

    def encode_frames(self, frames):
        type(self).frames += len(frames)
        return frames.reshape(len(frames), -1).astype(np.float32)[:, ::7]


def make_archive(folder):
    for number in range(NUMBER):
        save_wshard(make_episode(number), folder / f"{number}.wshard")
    save_wshard(
        Episode("blind", "wall", 5, observations={"state": Channel.of("state", np.eye(5, 2))}), folder / "b.wshard"
    )
    with TrajectoryIngestor(folder / "archive") as ingestor:
        assert ingestor.ingest(folder).ok
    return folder / "archive"


@pytest.fixture
def archive(tmp_path):
    return make_archive(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Return an archive that tests only search."""
    return make_archive(tmp_path_factory.mktemp("shared"))


def found(hits):
    return [(hit.episode_id, hit.seen.camera, hit.seen.step, round(hit.score, 4)) for hit in hits]


def test_a_frame_is_found_where_it_is_however_it_is_given(archive, tmp_path):
    frame = camera(3)[47]
    Image.fromarray(frame).save(tmp_path / "frame.png")
    with TrajectoryRetriever(archive) as retriever:
        hits = retriever.search_similar_episodes(image=tmp_path / "frame.png", top_k=3)
        assert found(hits)[0] == ("ep-3", "signal/cam", 47, 1.0)
        assert (hits[0].seen.seconds, hits[0].span, len(hits)) == (47 / RATE, (0, STEPS), 3)
        assert hits[1].score < 0.9
        assert hits.answered.missed.startswith("1 that pass the filter was not compared: 1 has no camera")
        png = (tmp_path / "frame.png").read_bytes()
        for image in (png, frame, str(tmp_path / "frame.png"), hits[0], "ep-3#cam@47"):
            assert found(retriever.search(None, 3, image=image)) == found(hits)
        for query in ("ep-3#cam@47", f"{tmp_path / '3.wshard'}#cam@47", "ep-3#signal/cam@47"):
            assert found(retriever.search(query, 3)) == found(hits)
        assert found(retriever.search("ep-3#cam@47", 1, exclude_self=True))[0][0] != "ep-3"
        assert [hit.episode_id for hit in retriever.search("ep-3#cam@47", 9, where="episode:ep-5")] == ["ep-5"]
        several = retriever.search("ep-3#cam@47", 2, like=["ep-1#cam@9"])
        assert {hit.episode_id: hit.seen.step for hit in several} == {"ep-3": 47, "ep-1": 9}
        against = retriever.search("ep-3#cam@47", 9, unlike=["ep-3#cam@47:48"], like=["ep-1#cam@9"])
        assert against[0].episode_id == "ep-1"
        assert retriever.search("ep-3#cam@40:50", 1)[0].score == pytest.approx(1, abs=1e-3)


def test_the_best_frame_is_that_of_brute_force(shared):
    def rows(frames):
        small = frames.reshape(len(frames), -1).astype(float)
        small -= small.mean(axis=1, keepdims=True)
        return small / np.linalg.norm(small, axis=1, keepdims=True)

    class Pixels(Counted):
        fingerprint = "pixels"

        def encode_frames(self, frames):
            return frames.reshape(len(frames), -1).astype(np.float32)

    wanted = {f"ep-{number}": (rows(camera(number)) @ rows(camera(2)[[33]]).T)[:, 0] for number in range(NUMBER)}
    with TrajectoryRetriever(shared, Pixels()) as retriever:
        hits = retriever.search_similar_episodes("ep-2#cam@33", NUMBER)
        assert [hit.episode_id for hit in hits] == sorted(wanted, key=lambda name: -wanted[name].max())
        for hit in hits:
            assert hit.score == pytest.approx(wanted[hit.episode_id].max(), abs=2e-3)
            assert wanted[hit.episode_id][hit.seen.step] == pytest.approx(hit.score, abs=2e-3)


def test_moments_have_bounds_around_the_frame(shared):
    with TrajectoryRetriever(shared) as retriever:
        (best, *others) = retriever.search_moments(image="ep-4#cam@60", top_k=3, per_episode=1)
        assert found([best])[0] == ("ep-4", "signal/cam", 60, 1.0)
        assert 30 < best.span[0] <= 60 < best.span[1] < 90
        assert [hit.episode_id != "ep-4" for hit in others] == [True, True]


def test_a_picture_and_a_query_are_ranked_together(shared):
    with TrajectoryRetriever(shared) as retriever:
        hits = retriever.search_similar_episodes("ep-1", 4, image="ep-2#cam@9", contributions=True)
        assert {hit.episode_id for hit in hits[:2]} <= {"ep-1", "ep-2", "ep-3", "ep-0"}
        for hit in hits:
            assert hit.score == pytest.approx(sum(hit.contributions.values()))
            assert {*hit.contributions} == {"query", "picture"}


def test_frames_are_described_once(archive, tmp_path):
    Counted.frames = 0
    ask = {"image": "ep-0#cam@40", "top_k": 1}
    with TrajectoryRetriever(archive, Counted()) as retriever:
        first, spans = retriever.search_similar_episodes(**ask), retriever.search_moments(**ask)
    described = Counted.frames
    for number in range(1, NUMBER):  # no frame can be read any more
        (tmp_path / f"{number}.wshard").write_bytes(b"gone")
    with TrajectoryRetriever(archive, Counted()) as retriever:
        assert found(retriever.search_similar_episodes(**ask)) == found(first)
        assert found(retriever.search_moments(**ask)) == found(spans)
    assert Counted.frames == described + 2, "the pictures of the questions"


def test_cut_damaged_and_foreign_features_are_described_again(archive):
    with TrajectoryRetriever(archive) as retriever:
        wanted = found(retriever.search("ep-0#cam@40", NUMBER))
    files = sorted((archive / "features").rglob("*.bin"))
    assert len(files) == NUMBER
    contents = [file.read_bytes() for file in files]
    damaged = bytearray(contents[2])
    damaged[-30] ^= 1
    for file, content in zip(
        files, [b"", contents[1][:-9], bytes(damaged), contents[4], b"{}\n", contents[5]], strict=True
    ):
        file.write_bytes(content)
    with TrajectoryRetriever(archive) as retriever:
        assert found(retriever.search("ep-0#cam@40", NUMBER)) == wanted
    assert [file.read_bytes() for file in files] == contents


def test_features_follow_the_files_and_the_encoder(archive, tmp_path):
    class Other(Counted):
        fingerprint = "other"

        def encode_frames(self, frames):
            return -frames.mean(axis=(1, 3)).astype(np.float32)

    with TrajectoryRetriever(archive, Counted()) as retriever:
        before = found(retriever.search("ep-0#cam@40", 2))
    with TrajectoryRetriever(archive, Other()) as retriever:
        assert found(retriever.search("ep-0#cam@40", 2))[1:] != before[1:]
    save_wshard(make_episode(0, camera(0)[::-1]), tmp_path / "0.wshard")
    with TrajectoryIngestor(archive) as ingestor:
        assert ingestor.ingest(tmp_path).ok
    with TrajectoryRetriever(archive, Counted()) as retriever:
        assert found(retriever.search("ep-0#cam@49", 1)) == [("ep-0", "signal/cam", 49, 1.0)]


KILLED = """
import os, signal, sys
import numpy as np
from embedders import Frames, WindowPlan
from wshard import TrajectoryRetriever

class Killed(Frames):
    fingerprint, calls = "counted", 0
    def encode_frames(self, frames):
        Killed.calls += 1
        if Killed.calls == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        return frames.reshape(len(frames), -1).astype(np.float32)[:, ::7]

TrajectoryRetriever(sys.argv[1], Killed()).search(None, image="ep-0#cam@40")
"""


def test_features_are_the_same_after_a_kill(archive):
    killed = subprocess.run([sys.executable, "-c", KILLED, str(archive), "5"], check=False)
    assert killed.returncode == -signal.SIGKILL
    with TrajectoryRetriever(archive, Counted()) as retriever:
        after = found(retriever.search("ep-0#cam@40", NUMBER))
    stored = {file.name: file.read_bytes() for file in (archive / "features").rglob("*.bin")}
    for file in (archive / "features").rglob("*.bin"):
        file.unlink()
    with TrajectoryRetriever(archive, Counted()) as retriever:
        assert found(retriever.search("ep-0#cam@40", NUMBER)) == after
    assert {file.name: file.read_bytes() for file in (archive / "features").rglob("*.bin")} == stored


def test_the_stride_says_how_many_frames_are_described(archive):
    counts = {}
    for stride in (0, 0.1, 5):
        Counted.frames = 0
        shutil.rmtree(archive / "features", ignore_errors=True)
        with TrajectoryRetriever(archive, Counted()) as retriever:
            assert retriever.search("ep-0#cam@40", 1, stride=stride)[0].seen.step == 40
        counts[stride] = Counted.frames
    assert counts[0] == NUMBER * STEPS + 1
    assert NUMBER * STEPS > counts[0.1] >= NUMBER * STEPS / 2
    assert counts[5] >= NUMBER * 16


@pytest.mark.parametrize("encoding", ["mp4", "jpeg", "png"])
def test_encoded_cameras_are_searched_and_damaged_ones_left_out(encoding, tmp_path):
    for number in range(3):
        save_wshard(make_episode(number), tmp_path / f"{number}.wshard", encode=encoding)
    ingest(tmp_path / "archive", tmp_path)
    damaged = tmp_path / "1.wshard"
    data = damaged.read_bytes()
    damaged.write_bytes(data[: len(data) // 3] + bytes(len(data) // 3) + data[len(data) // 3 * 2 :])
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        hits = retriever.search("ep-2#cam@40", 3)
        assert [(hit.episode_id, hit.seen.step, round(hit.score, 3)) for hit in hits[:1]] == [("ep-2", 40, 1.0)]
        assert [hit.episode_id for hit in hits[1:]] == ["ep-0"]
        assert "1 has frames that cannot be read" in hits.answered.missed
        assert "1.wshard" in hits.answered.missed


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"image": "ep-0#eye@3"}, QueryError, "expected a camera of 'ep-0' \\(cam\\), found 'eye'"),
        ({"image": "ep-0#am@3"}, QueryError, "expected a camera of 'ep-0' \\(cam\\), found 'am'"),
        ({"image": "ep-0#cam@900"}, QueryError, "holds no timestep"),
        ({"image": "none.png"}, FileNotFoundError, "none.png: expected a picture"),
        ({"image": b"text"}, CodecError, "expected a picture"),
        ({"image": np.full((9, 9, 3), 7, np.uint8)}, QueryError, "a single shade of gray"),
        ({"stride": 2, "text": "wall"}, QueryError, "stride: expected a picture"),
        ({"image": "ep-0#cam@3", "stride": -1}, QueryError, "stride: expected a number"),
        ({"image": "ep-0#cam@3", "windows_only": True}, QueryError, "without windows_only"),
        ({"image": "ep-0#cam@3", "where": "episode:blind"}, QueryError, "expected episodes with a camera"),
    ],
)
def test_wrong_questions_are_refused(shared, options, error, message):
    with TrajectoryRetriever(shared) as retriever, pytest.raises(error, match=message):
        retriever.search(None, **options)


def test_encoders_of_other_output_are_refused(shared):
    class Broken(Counted):
        fingerprint = "broken"

        def encode_frames(self, frames):
            return np.full((len(frames), 3), np.nan, np.float32)

    with TrajectoryRetriever(shared, Broken()) as retriever, pytest.raises(EmbedderError, match="expected finite"):
        retriever.search(None, image="ep-0#cam@3")


def test_the_command_names_frame_time_and_camera(archive, tmp_path):
    Image.fromarray(camera(3)[47]).save(tmp_path / "frame.png")
    for verb in ("search", "moments"):
        shown = command(verb, "--image", "frame.png", "--archive", archive, folder=tmp_path)
        assert "cam     47  2.35 s" in " ".join(shown.stdout.splitlines()[1].split("  ")) or "2.35 s" in shown.stdout
        listed = command(verb, "--image", "ep-3#cam@47", "--archive", archive, "--json", folder=tmp_path)
        first = json.loads(listed.stdout)["items"][0]
        assert first["seen"] == {"camera": "signal/cam", "step": 47, "seconds": 2.35}
    assert os.listdir(archive / "features")  # noqa: PTH208


class CountedFrames(Frames):
    """The embedder `frames`, which counts the frames that it is given."""

    frames = 0

    def encode_frames(self, frames):
        type(self).frames += len(frames)
        return super().encode_frames(frames)


def test_a_second_ingest_with_other_windows_opens_no_episode(archive, tmp_path):
    CountedFrames.frames = 0
    ingest(archive, tmp_path, embedder=CountedFrames(), lanes="cam")
    assert CountedFrames.frames == NUMBER * STEPS
    files = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.glob("?.wshard")}
    for path, (data, changed) in files.items():  # unreadable, by the looks of it the same
        path.write_bytes(bytes(len(data)))
        os.utime(path, ns=(changed, changed))
    for windows, embedder in (("multi", CountedFrames()), ("whole", CountedFrames(colour=False, coefficients=3))):
        assert ingest(archive, tmp_path, embedder=embedder, lanes="cam", windows=windows).embedded == NUMBER
    assert CountedFrames.frames == NUMBER * STEPS
    for path, (data, changed) in files.items():
        path.write_bytes(data)
        os.utime(path, ns=(changed, changed))
    with TrajectoryRetriever(archive, CountedFrames(), lanes="cam") as retriever:
        assert found(retriever.search(None, 1, image="ep-3#cam@47")) == [("ep-3", "signal/cam", 47, 1.0)]
        assert retriever.search("ep-3", 1)[0].score == pytest.approx(1.0)
    assert CountedFrames.frames == NUMBER * STEPS + 1 + 2 * STEPS, "the questions"


def test_vectors_from_stored_features_are_those_of_the_frames(archive, tmp_path):
    plan = WindowPlan(size=30, stride=20)
    for windows in ("whole", "30:20"):  # the second reads what the first has stored
        ingest(archive, tmp_path, embedder=Frames(), lanes="cam", windows=windows)
    for space in spaces_of(archive):
        if space.embedder == "frames":
            cut = plan.spans(STEPS).tolist() if not space.windows.whole else [(0, STEPS)]
            for (fingerprint, path), found_rows in vectors_of(archive).items():
                if fingerprint == space.fingerprint:
                    seen = camera(int(Path(path).stem))
                    wanted = Frames().embed([seen[start:stop] for start, stop in cut], None)
                    assert np.array_equal(found_rows, wanted)


def test_features_of_removed_episodes_are_removed(archive, tmp_path):
    def stored():
        return {path.name.rpartition("-")[0] for path in (archive / "features").rglob("*.bin")}

    with TrajectoryRetriever(archive) as retriever:
        uids = {hit.episode_id: hit.uid for hit in retriever.search("ep-3#cam@47", NUMBER)}
    assert stored() == {*uids.values()}
    (tmp_path / "3.wshard").unlink()
    with TrajectoryIngestor(archive) as ingestor:
        assert ingestor.ingest(tmp_path).missing == 1
        assert stored() == {*uids.values()}, "it may come back"
        assert ingestor.ingest(tmp_path, prune=True).removed == 1
    assert stored() == {*uids.values()} - {uids["ep-3"]}
    left = next((archive / "features").rglob("*.bin")).with_name(f"{uids['ep-3']}-0.bin")
    left.write_bytes(b"of an earlier version")
    os.utime(left, (1e9, 1e9))
    assert "leftover" in command("fsck", "--archive", archive, folder=tmp_path).stdout
    command("fsck", "--repair", "--archive", archive, folder=tmp_path)
    assert stored() == {*uids.values()} - {uids["ep-3"]}


@pytest.mark.long
def test_a_query_with_a_picture_ranks_alike_for_any_number_of_hits(tmp_path):
    rng, count = np.random.default_rng(0), 300
    for number in range(count):
        observations = {
            "cam": Channel.of("cam", rng.integers(0, 255, (3, 16, 16, 3)).astype(np.uint8)),
            "state": Channel.of("state", rng.normal(size=(3, 2)).cumsum(axis=0).astype(np.float32)),
        }
        save_wshard(Episode(f"ep-{number}", "wall", 3, observations=observations), tmp_path / f"{number}.wshard")
    ingest(tmp_path / "archive", tmp_path)
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        far = retriever.search("ep-0", count)[120].episode_id  # first of one list, and beyond 100 in the other
        few, many = (retriever.search("ep-0", top_k, image=f"{far}#cam@1", contributions=True) for top_k in (25, 60))
    assert [(hit.episode_id, hit.contributions) for hit in many[:25]] == [
        (hit.episode_id, hit.contributions) for hit in few
    ]
