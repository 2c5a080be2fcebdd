"""The docstrings of public names have examples, which run; those of classes describe every parameter on a line."""

from __future__ import annotations

import doctest
import inspect
import re
from contextlib import chdir, suppress

import numpy as np
import pytest
from bridge_episodes import command

import wshard
from wshard import DType

CLASSES = (
    *("Catalog", "Channel", "ChannelDef", "Episode", "EpisodeAddress", "EpisodeFile", "EpisodeRef", "Hits"),
    *("MemoryReader", "Thresholds", "WShardStreamWriter"),
)
BARE = {"__version__", "FormatError", "FormatWarning", "Modality", "TimebaseType", "WShardError"}  # say it by name


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """Return the names of examples, which run where `wshard demo` and `wshard ingest episodes` have."""
    with chdir(tmp_path_factory.mktemp("examples")):
        for words in (["demo"], ["ingest", "episodes"]):
            assert command(*words, folder=".").exit_code == 0
        with wshard.open_archive() as lab:
            public = {name: getattr(wshard, name) for name in wshard.__all__}
            yield public | {"np": np, "DType": DType, "lab": lab, "suppress": suppress}


@pytest.mark.parametrize("name", CLASSES)
def test_every_parameter_is_described(name):
    described = re.findall(r"^        (\w+): \S.*[.`]$", getattr(wshard, name).__doc__, re.MULTILINE)
    assert described == list(inspect.signature(getattr(wshard, name)).parameters)


@pytest.mark.parametrize("name", sorted({*wshard.__all__} - BARE))
def test_examples_run(name, names):
    kind = getattr(wshard, name) if name != "F" else type(wshard.F)
    (found,) = doctest.DocTestFinder(recurse=False).find(kind, name, globs=dict(names))
    assert found.examples
    assert doctest.DocTestRunner().run(found).failed == 0
