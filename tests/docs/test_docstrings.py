"""The docstrings of public classes describe every parameter on a line of its own, and their examples run."""

from __future__ import annotations

import doctest
import inspect
import re

import numpy as np
import pytest

import wshard
from wshard import DType

CLASSES = (
    *("Catalog", "Channel", "ChannelDef", "Episode", "EpisodeAddress", "EpisodeFile", "EpisodeRef", "Hits"),
    *("MemoryReader", "Thresholds", "WShardStreamWriter"),
)
NAMES = {"np": np, "DType": DType} | {name: getattr(wshard, name) for name in CLASSES}


@pytest.mark.parametrize("name", CLASSES)
def test_every_parameter_is_described(name):
    described = re.findall(r"^        (\w+): \S.*[.`]$", getattr(wshard, name).__doc__, re.MULTILINE)
    assert described == list(inspect.signature(getattr(wshard, name)).parameters)


@pytest.mark.parametrize("name", CLASSES)
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kind = getattr(wshard, name)
    (found,) = doctest.DocTestFinder(recurse=False).find(kind, name, globs=dict(NAMES))
    assert doctest.DocTestRunner().run(found).failed == 0
    assert found.examples
