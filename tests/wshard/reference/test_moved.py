"""A module that is imported by the path that programs have is the module itself, never a copy."""

from __future__ import annotations

import multiprocessing
import pickle
import pkgutil
import subprocess
import sys
from importlib import import_module, reload
from importlib.util import find_spec
from pathlib import Path

import pytest

import wshard
import wshard.data
from wshard import Episode
from wshard.reference.moved import MOVED, install_finder
from wshard.testing import assert_same_episode, make_episode


@pytest.mark.parametrize(("name", "place"), MOVED.items())
def test_a_path_leads_to_the_module_itself(name, place):
    module = import_module(name)
    assert module is import_module(place)
    assert sys.modules[name] is module
    assert module.__name__ == module.__spec__.name == place
    assert find_spec(name) is module.__spec__


@pytest.mark.parametrize(("name", "place"), MOVED.items())
def test_type_checkers_find_a_path_as_python_does(name, place):
    stub = Path(wshard.__file__).parent.joinpath(*name.split(".")[1:]).with_suffix(".pyi")
    assert f"from {place} import *" in stub.read_text()


def test_modules_of_a_package_are_found_with_it():
    found = [info.name for info in pkgutil.walk_packages(wshard.data.__path__, "wshard.data.")]
    assert "wshard.data.derived.goals" in found
    assert "wshard.data.loader" in found
    for name in found:
        assert import_module(name) is import_module(name.replace("wshard.data", "wshard.training.data"))


@pytest.mark.parametrize("first", ["wshard.data.loader", "wshard.training.data.loader"])
def test_in_either_order_without_warnings(first):
    code = (
        f"import sys, {first}; import wshard.data.loader as old, wshard.training.data.loader as new\n"
        "assert old is new; from wshard.data import ClipLoader; assert ClipLoader is new.ClipLoader\n"
        "import wshard.convert, wshard; assert callable(wshard.convert)\n"
        "assert new.__spec__.loader.name == new.__name__ and not new.__spec__._initializing"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("name", ["wshard.data.no_such", "wshard.types.no_such", "wshard.no_such", "wshard.type"])
def test_what_is_not_there_is_not_found(name):
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        import_module(name)
    assert name not in sys.modules


def test_objects_pickled_by_the_paths_of_programs_are_read():
    written = pickle.dumps(make_episode(), 0)
    assert b"cwshard.core.types" in written
    older = written.replace(b"cwshard.core.timebase", b"cwshard.types").replace(b"cwshard.core.", b"cwshard.")
    assert_same_episode(pickle.loads(older), make_episode())  # noqa: S301  (our own)


def test_processes_that_are_started_anew_take_and_return_objects():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert type(pool.apply(Episode.clone, (make_episode(),))) is Episode


def test_one_finder_is_installed():
    before = list(sys.meta_path)
    install_finder()
    reload(wshard)
    assert sys.meta_path == before
