"""The spaces of a Minari data set as JSON, for lanes by name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.array_fields import DType

if TYPE_CHECKING:
    from collections.abc import Mapping

_TUPLE: Final = re.compile(r"_index_(\d+)")
_SMALLEST_IMAGE: Final = 32


def is_image_space(dtype: DType, shape: tuple[int, ...]) -> bool:
    """Return True if Minari treats lanes of this dtype and shape as images, which it may store as JPEG."""
    return dtype is DType.UINT8 and len(shape) in (2, 3) and min(shape[:2]) >= _SMALLEST_IMAGE


def describe_space(lanes: Mapping[str, tuple[DType, tuple[int, ...]]], whole: str) -> dict[str, Any]:
    """Return the space of lanes by name; "/" separates the keys of nested Dicts, _index_N are parts of a Tuple.

    whole: the name of a single lane that contains all observations or actions.
    """
    if [*lanes] == [whole]:
        return _box(*lanes[whole])
    tree: dict[str, Any] = {}
    for name, described in lanes.items():
        *path, last = name.split("/")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[last] = described
    return _describe(tree)


def _describe(tree: Any) -> dict[str, Any]:
    if not isinstance(tree, dict):
        return _box(*tree)
    if tree and all(_TUPLE.fullmatch(name) for name in tree):
        ordered = sorted(tree, key=lambda name: int(name.rpartition("_")[2]))
        return {"type": "Tuple", "subspaces": [_describe(tree[name]) for name in ordered]}
    return {"type": "Dict", "subspaces": {name: _describe(subtree) for name, subtree in sorted(tree.items())}}


def _box(dtype: DType, shape: tuple[int, ...]) -> dict[str, Any]:
    numpy_dtype = dtype.numpy_dtype
    if numpy_dtype.kind == "f":
        low, high = -np.inf, np.inf
    elif numpy_dtype.kind == "b":
        low, high = 0, 1
    else:
        low, high = int(np.iinfo(numpy_dtype).min), int(np.iinfo(numpy_dtype).max)
    bounds = {"low": np.full(shape, low).tolist(), "high": np.full(shape, high, np.asarray(high).dtype).tolist()}
    return {"type": "Box", "dtype": numpy_dtype.name, "shape": list(shape), **bounds}
