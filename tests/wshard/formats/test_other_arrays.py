"""Archives of arrays that are of no format: guessed, or refused with the way on, as a file and in a folder."""

from __future__ import annotations

import io
import zipfile
from contextlib import suppress

import numpy as np
import pytest

from bridge.episodes.discover import discover, expect_episodes
from wshard import FormatError, detect_format, list_episodes, load, open_episode, open_source, save
from wshard.errors import GuessWarning, LayoutError, SourceNotFoundError, UnsupportedFormatError, WShardError
from wshard.formats.open import open_location
from wshard.testing import make_episode

N = 30
ROWS = np.arange(N * 3, dtype=np.float32).reshape(N, 3)
FLAGS = np.arange(N) % 10 == 9
OTHERS = {
    "d4rl-states": {"observations": ROWS, "actions": ROWS, "terminals": FLAGS, "timeouts": FLAGS, "qpos": ROWS},
    "next": {"observations": ROWS, "actions": ROWS, "terminals": FLAGS, "next_observations": ROWS, "qpos": ROWS},
    "no states": {"observations": ROWS, "actions": ROWS, "terminals": FLAGS},
    "mocap": {"poses": np.zeros((20, 156)), "mocap_framerate": np.array(120.0), "gender": np.array("male")},
    "padded": {"obs": np.zeros((5, 10, 3)), "act": np.zeros((5, 10, 2)), "lengths": np.arange(5)},
    "weights": {"w1": np.zeros((64, 32)), "b1": np.zeros(32)},
}  # fmt: skip

GUESSED = dict.fromkeys(("d4rl-states", "next", "no states"), "npz as observation=observations, action=actions, ")


@pytest.mark.parametrize("name", OTHERS)
def test_arrays_of_no_format_are_guessed_or_refused_with_the_way_on(tmp_path, name):
    path = tmp_path / "x.npz"
    np.savez(path, **OTHERS[name])
    assert detect_format(path) == "other_arrays"
    assert detect_format(tmp_path) == ""
    for ask in (load, open_episode, list_episodes):
        if name in GUESSED:
            with pytest.warns(GuessWarning, match=f"read by a guess: {GUESSED[name]}"), suppress(WShardError):
                ask(path)  # of several episodes
        else:
            with pytest.raises(LayoutError, match=r"expected .*: `wshard layout guess .*--layout"):
                ask(path)
    with pytest.raises(UnsupportedFormatError, match=r"found other arrays: `wshard layout guess .*--layout"):
        load(io.BytesIO(path.read_bytes()))


def test_a_folder_of_such_files_names_them_and_the_way_on(tmp_path):
    (tmp_path / "notes.txt").write_text("none")
    (tmp_path / "sub").mkdir()
    for place in ("a.npz", "b.npz"):
        np.savez(tmp_path / "sub" / place, **OTHERS["padded"])
    for folder, names in ((tmp_path / "sub", ""), (tmp_path, "sub/")):
        message = (
            rf"it has {names}a\.npz \(other arrays\), {names}b\.npz \(other arrays\), of no known format or layout: "
            rf"`wshard layout guess {folder}`.*--layout"
        )
        with pytest.raises(FormatError, match=message):
            open_location(folder)
        for find in (discover, expect_episodes):
            with pytest.raises(SourceNotFoundError, match=f"no episodes in .*: {message}"):
                find([folder])


@pytest.mark.parametrize("name", ["d4rl-states", "next"])
def test_rows_whose_last_action_counts_are_not_read_as_ogbench(tmp_path, name):
    np.savez(tmp_path / "x-v0.npz", **OTHERS[name])
    assert detect_format(tmp_path / "x-v0.npz") == "other_arrays"
    with open_source(tmp_path / "x-v0.npz", "ogbench") as source, pytest.raises(FormatError, match="as in D4RL"):
        source.keys()


def test_data_sets_of_ogbench_without_states_are_known_by_their_names(tmp_path):
    np.savez(tmp_path / "powderworld-easy-play-v0-val.npz", **OTHERS["no states"])
    assert detect_format(tmp_path / "powderworld-easy-play-v0-val.npz") == "ogbench"


def test_a_named_format_is_read_without_its_marks(tmp_path):
    np.savez(tmp_path / "x.npz", image=np.zeros((4, 8, 8, 3), np.uint8), action=np.zeros((4, 2)), reward=np.ones(4))
    assert detect_format(tmp_path / "x.npz") == "other_arrays"
    for place in (tmp_path / "x.npz", tmp_path):
        with open_source(place, "dreamerv3") as source:
            assert source.load(source.keys()[0]).rewards.tolist() == [1, 1, 1, 1]


def test_a_replay_file_is_known_by_its_flags_whatever_its_name(tmp_path):
    np.savez(tmp_path / "x.npz", vector=np.zeros((4, 2)), is_first=np.arange(4) == 0)
    (tmp_path / "plain").write_bytes((tmp_path / "x.npz").read_bytes())
    assert detect_format(tmp_path) == detect_format(tmp_path / "x.npz") == detect_format(tmp_path / "plain")
    assert load(tmp_path / "plain").length == load(io.BytesIO((tmp_path / "x.npz").read_bytes())).length == 4


def test_other_arrays_among_replay_files_are_refused_by_name(tmp_path):
    np.savez(tmp_path / "a_weights.npz", **OTHERS["weights"])
    np.savez(tmp_path / "replay.npz", vector=np.zeros((4, 2)), is_first=np.arange(4) == 0)
    assert detect_format(tmp_path) == "dreamerv3"
    with open_source(tmp_path, "dreamerv3") as source:
        assert source.load("replay").length == 4
        with pytest.raises(FormatError, match=r"a_weights\.npz: expected 'is_first', as in other files of the folder"):
            source.load("a_weights")


def test_saving_never_replaces_other_arrays(tmp_path):
    np.savez(tmp_path / "x.npz", **OTHERS["weights"])
    before = (tmp_path / "x.npz").read_bytes()
    with pytest.raises(FormatError, match="found another file: choose another path"):
        save(make_episode(), tmp_path / "x.npz")
    assert (tmp_path / "x.npz").read_bytes() == before


def test_a_zip_archive_without_arrays_is_of_no_format(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("notes.txt", "nothing")
    assert detect_format(tmp_path / "a.zip") == ""
