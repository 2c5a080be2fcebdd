"""After close(): what was handed out stays, what was read at opening, too, and reading on is refused by name."""

from __future__ import annotations

import copy
import io
import pickle
from typing import TYPE_CHECKING

import numpy as np
import pytest

from wshard import ChunkedEpisodeWriter, ShardReader, open_episode, open_wshard, save_wshard
from wshard.errors import ClosedError
from wshard.testing import make_episode

if TYPE_CHECKING:
    from pathlib import Path

    from wshard import EpisodeReader


def in_one_file(folder: Path) -> Path:
    save_wshard(make_episode(T=20), folder / "a.wshard", {"signal/joint_pos": "zstd"})
    return folder / "a.wshard"


def in_chunks(folder: Path) -> Path:
    writer = ChunkedEpisodeWriter(folder, "long", 8)
    writer.write_episode_chunked(make_episode(T=20))
    return writer.finalize_manifest()


READING = {
    "load": lambda file: file.load(),
    "load a channel": lambda file: file.load(["joint_pos"]),
    "slice": lambda file: file.slice(0, 5),
    "lane": lambda file: file.lane("joint_pos"),
    "timesteps": lambda file: file["gripper"][0:5],
    "compressed timesteps": lambda file: file["joint_pos"][0:5],
    "rewards": lambda file: file.total_reward(),
    "verify": lambda file: file.verify(),
    "part digests": lambda file: (file.part_digests(), file.digest()),
}


@pytest.mark.parametrize("make", [in_one_file, in_chunks])
@pytest.mark.parametrize("case", READING)
@pytest.mark.parametrize("read_before", [False, True])
def test_reading_a_closed_episode_is_refused(tmp_path, make, case, read_before):
    """It says so, where it once gave episodes without lanes and the digest of nothing."""
    file = open_episode(make(tmp_path))
    if read_before:
        READING[case](file)
    file.close()
    file.close()
    with pytest.raises(ClosedError, match=r"\.wshard: expected an open .* closed"):
        READING[case](file)


@pytest.mark.parametrize("make", [in_one_file, in_chunks])
def test_a_closed_episode_still_reports_what_it_was_reported(tmp_path, make):
    def describe(file: EpisodeReader) -> tuple[object, ...]:
        about = file.id, file.env_id, file.length, file.metadata, file.timebase, file.parts(), file.is_chunk
        return *about, file.lanes(), file.has("signal/gripper"), file.stored("signal/joint_pos")

    with open_episode(make(tmp_path)) as file:
        before = describe(file)
    assert describe(file) == before
    assert "signal/gripper" in file.lanes()


@pytest.mark.parametrize("make", [in_one_file, in_chunks])
@pytest.mark.parametrize("send", [pickle.dumps, copy.deepcopy])
def test_an_open_file_stays_in_its_process(tmp_path, make, send):
    """Workers that are started afresh open the path, by its name; a loaded episode can be sent."""
    with open_episode(make(tmp_path)) as file:
        loaded = file.load()
        for opened in (file, file["gripper"]):
            with pytest.raises(TypeError, match=r"\.wshard: .*open files can be neither copied .*: send the path"):
                send(opened)
    assert copy.deepcopy(loaded) == pickle.loads(pickle.dumps(loaded)) == loaded  # noqa: S301  (our own)


@pytest.mark.parametrize("kind", ["path", "bytes", "file object"])
def test_a_closed_container_is_not_an_empty_one(tmp_path, kind):
    path = in_one_file(tmp_path)
    reader = ShardReader({"path": path, "bytes": path.read_bytes(), "file object": io.BytesIO(path.read_bytes())}[kind])
    names, size = reader.names(), reader.size
    reader.close()
    assert (reader.names(), reader.size) == (names, size)
    for call in (lambda: reader.block(names[0]), reader.digest, lambda: reader.stored(names[0])):
        with pytest.raises(ClosedError):
            call()
    with pytest.raises(ClosedError):
        list(reader.verify())


def test_what_was_handed_out_outlives_the_episode(tmp_path):
    with open_wshard(in_one_file(tmp_path)) as file:
        lane, view, part = file.lane("gripper"), file["joint_pos"], file["gripper"][2:5]
        whole = np.asarray(view)
    expected = make_episode(T=20)
    np.testing.assert_array_equal(lane, expected.observations["gripper"].data)
    np.testing.assert_array_equal(part, lane[2:5])
    np.testing.assert_array_equal(view[3:9], whole[3:9])
