"""`import wshard` is quick and small, and leads to everything else."""

from __future__ import annotations

import subprocess
import sys

import pytest

import bridge
import catalog
import wshard


def test_the_import_loads_no_other_library():
    heavy = {
        "numpy",
        "zstandard",
        "sqlalchemy",
        "httpx",
        "torch",
        "typer",
        "rich",
        "pandas",
        "pyarrow",
        "numba",
        "bridge",
        "catalog",
    }
    code = (
        f"import sys, wshard; print(*({heavy!r} & set(sys.modules)), callable(wshard.convert), 'numpy' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.split() == ["True", "True"]


def test_upper_packages_are_reached_by_their_names():
    assert wshard.open_archive is bridge.open_archive
    assert wshard.TrajectoryIngestor is bridge.TrajectoryIngestor
    assert wshard.TrajectoryRetriever is bridge.TrajectoryRetriever
    assert wshard.Catalog is catalog.Catalog


def test_every_public_name_is_there_and_listed():
    assert len(wshard.__all__) == len(set(wshard.__all__))
    for name in wshard.__all__:
        assert getattr(wshard, name) is not None
    assert {*wshard.__all__} <= {*dir(wshard)}


def test_an_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="module 'wshard' has no attribute 'no_such_name'"):
        wshard.no_such_name  # noqa: B018  (asking is what is tested)
