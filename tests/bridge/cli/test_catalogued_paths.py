"""Verbs that take the path of a catalogued location read it as it was ingested."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

from bridge.cli.main import command
from wshard import load

LAYOUT = """layout = 1
name = "own"
container = "hdf5"
[episodes]
by = "group"
group = "runs/*"
[arrays]
"q" = "observation"
"""


def run(*arguments: object):
    return CliRunner().invoke(command(str(arguments[0])), list(map(str, arguments)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with an archive and a file that is read by a layout and a map of lanes."""
    folder = tmp_path_factory.mktemp("catalogued")
    (folder / "logs").mkdir()
    rng = np.random.default_rng(3)
    with h5py.File(folder / "logs" / "log.h5", "w") as file:
        for name in "abc":
            file[f"runs/{name}/q"] = rng.normal(size=(60, 3)).cumsum(0)
    (folder / "own.toml").write_text(LAYOUT)
    done = run("ingest", folder / "logs", "--layout", folder / "own.toml", "--map", "q=joints", "-a", folder / "lab")
    assert "3 new" in done.stdout
    return folder


@pytest.mark.parametrize(
    "verb", ["show FILE#a", "search FILE#a", "moments FILE#a@3:30", "check FILE", "check LOGS", "tag good FILE#b"]
)
def test_verbs_of_archives(folder, verb):
    words = [word.replace("FILE", f"{folder}/logs/log.h5").replace("LOGS", f"{folder}/logs") for word in verb.split()]
    done = run(*words, "-a", folder / "lab")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("place", ["logs", "logs/log.h5", "logs/log.h5#b"])
def test_convert(folder, tmp_path, place):
    done = run("convert", folder / place, tmp_path / "out", "-a", folder / "lab")
    assert done.exit_code == 0, done.output
    episodes = [load(path) for path in (tmp_path / "out").rglob("*.wshard")]
    assert len(episodes) == (1 if "#" in place else 3)
    assert {lane for episode in episodes for lane in episode.observations} == {"joints"}


def test_shardify(folder, tmp_path):
    arguments = ["--image-indices", "0", "--field", "q=signal/joints"]
    done = run("shardify", folder / "logs", "--to", tmp_path / "out", "-a", folder / "lab", *arguments)
    assert "3 episodes" in done.stdout, done.output


def test_a_format_that_is_named_wins(folder, tmp_path):
    done = run("convert", folder / "logs" / "log.h5", tmp_path / "out", "--from", "robomimic", "-a", folder / "lab")
    assert done.exit_code == 1
