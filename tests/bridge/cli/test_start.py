"""The command starts without what it does not need, and Ctrl-C ends it at any moment without a traceback."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time

import pytest
from bridge_episodes import command as run_command

from bridge.cli.main import command
from bridge.cli.overview import describe_commands
from wshard import save_wshard
from wshard.testing import make_episode

MAIN = "import sys; from bridge.cli.entry import main; main()"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make an archive of three episodes in the folder that is returned."""
    home = tmp_path_factory.mktemp("start")
    (home / "episodes").mkdir()
    for seed in range(3):
        save_wshard(make_episode(seed), home / "episodes" / f"ep_{seed}.wshard")
    assert run_command("ingest", "episodes", folder=home).exit_code == 0
    return home


def test_the_list_of_commands_is_that_of_the_commands():
    verbs = command().commands
    rows = list(describe_commands())
    assert {name for _, name, _ in rows} == {*verbs}
    for _, name, text in rows:
        assert text == " ".join(verbs[name].help.partition("\n\n")[0].split()), name


def test_help_loads_no_library_but_typer(tmp_path):
    code = f"import atexit; atexit.register(lambda: print(*sys.modules)); {MAIN}"
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "typer" in loaded
    assert not loaded & {"numpy", "sqlalchemy", "httpx", "rich", "pydantic", "importlib.metadata"}


def test_a_search_loads_only_what_it_needs(folder):
    code = f"import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 0, *sys.modules)); {MAIN}"
    command = [sys.executable, "-c", code, "search", "reach-0001"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    is_frozen, *loaded = done.stdout.splitlines()[-1].split()
    assert is_frozen == "True"  # else the interpreter looks for garbage in all modules at its end
    assert {"sqlalchemy", "numpy", "bridge.search.ranking.fusion"} <= {*loaded}
    heavy = "torch pyarrow pandas scipy numba httpx PIL av h5py numpy.ma sqlalchemy.orm multiprocessing"
    formats = "wshard.formats.lerobot wshard.formats.topics wshard.formats.layouts.layout"
    others = "bridge.search.by_picture bridge.episodes.read bridge.search.moments.search embedders.encoders"
    assert not {*loaded} & {*f"{heavy} {formats} {others}".split()}


@pytest.mark.parametrize("count", [3, pytest.param(60, marks=pytest.mark.long)])
def test_ctrl_c_at_any_moment_ends_without_a_traceback(folder, count):
    code = f"from bridge.cli.entry import end_when_interrupted as begin; begin(); print('begun', flush=True); {MAIN}"
    draw = random.Random(count)
    for _ in range(count):
        with subprocess.Popen(
            [sys.executable, "-c", code, "search", "episodes/ep_1.wshard"], cwd=folder, stdout=-1, stderr=-1, text=True
        ) as run:
            assert run.stdout.readline() == "begun\n"
            time.sleep(draw.uniform(0.0, 1.6))
            run.send_signal(signal.SIGINT)
            _, errors = run.communicate(timeout=60)
        assert run.returncode in {0, 130}, errors
        assert errors.strip() in {"", "interrupted"}
