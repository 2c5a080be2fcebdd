"""What a network embedder says where the library that it needs is not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from embedders import make_embedder
from wshard.errors import MissingExtraError


@pytest.mark.parametrize(
    ("library", "model", "extra"),
    [("torch", "net.ts", "torch"), ("torch", object(), "torch"), ("onnxruntime", "net.onnx", "onnx")],
)
def test_a_missing_library_is_reported_with_its_extra(monkeypatch, library, model, extra):
    monkeypatch.setitem(sys.modules, library, None)  # what Python itself does for a module that must not be imported
    with pytest.raises(MissingExtraError, match=rf"expected to import {library}: .*: pip install 'wshard\[{extra}\]'"):
        make_embedder("torchmodule", {"model": model}).dim(3)


def test_making_one_loads_nothing():
    code = (
        "import sys; from embedders.registry import make_embedder; make_embedder('torchmodule', {'model': 'net.ts'});"
        "print(*({'torch', 'onnxruntime'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == ""
