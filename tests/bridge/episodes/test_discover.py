"""Which files of a folder are episodes, which belong to them, and in which order they are found."""

from __future__ import annotations

import numpy as np
import pytest
from bridge_episodes import episode, ingest, opened_archive, save
from PIL import Image

from bridge.episodes.discover import discover
from wshard import EpisodeAddress
from wshard.formats.layouts.named import layout_reference


def test_files_are_catalogued_in_the_natural_order_of_folders_and_names(tmp_path):
    expected = []
    for number, name in enumerate(("run_9/demo_10", "run_10/demo_1", "run_9/demo_2", "run_10/demo_01")):
        (path,) = save(tmp_path / "new", episode(0, number))
        expected.append(tmp_path / "data" / f"{name}.wshard")
        expected[-1].parent.mkdir(parents=True, exist_ok=True)
        path.rename(expected[-1])
    ingest(tmp_path / "archive", tmp_path / "data")
    with opened_archive(tmp_path / "archive") as opened:
        found = [row.path for row in opened.catalog.query.select(order="id").rows]
    assert found == [str(expected[index]) for index in (2, 0, 3, 1)]


CAMERAS = {
    "wildcards": '[cameras]\n"observation/front" = "front/*.jpg"',
    "a field": '[cameras]\n"observation/front" = "../{folder}/front/*.jpg"',
    "a column of paths": '[arrays]\nfront = {is = "observation/front", files = true}',
}


@pytest.mark.parametrize("camera", CAMERAS)
def test_frames_that_are_read_as_a_camera_are_no_skipped_files(tmp_path, camera):
    for name in ("one", "two"):
        folder = tmp_path / "in" / name
        (folder / "front").mkdir(parents=True)
        paths = [f"front/{step}.jpg" for step in range(6)]
        np.savez(folder / "data.npz", obs=np.zeros((6, 2)), action=np.zeros((6, 1)), front=np.array(paths))
        for path in paths:
            Image.new("RGB", (8, 8)).save(folder / path)
        for stray in ("cover.jpg", "front/notes.txt", ".hidden.jpg", "front/about.json"):
            (folder / stray).write_bytes(b"{}")
    own = tmp_path / "in" / "own.toml"
    own.write_text(f'layout = 1\ncontainer = "npz"\nid = "{{folder}}"\n{CAMERAS[camera]}\n')
    found = discover([EpisodeAddress(str(tmp_path / "in"), read_as=layout_reference(own))])
    assert (len(found.episodes), found.unreadable) == (2, ())
    assert found.skipped == {".jpg": 2, ".txt": 2}
    assert {path.rpartition("/")[2] for path in found.unread} <= {"about.json"}
