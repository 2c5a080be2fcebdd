"""Arrays as tensors: the only module of data sets that uses torch."""

from __future__ import annotations

import multiprocessing
import sys
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from wshard.core.plugins import import_library

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FOR_TENSORS = frozenset("biufc")


@lru_cache
def has_torch() -> bool:
    """Return True if torch is installed."""
    return "torch" in sys.modules or find_spec("torch") is not None


def as_tensor(value: Any) -> Any:
    """Return an array as a tensor that shares its memory, if torch is installed; everything else unchanged."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in _FOR_TENSORS or not has_torch():
        return value
    return import_module("torch").from_numpy(value if value.flags.writeable else value.copy())


def as_numpy(value: Any) -> Any:
    """Return a tensor as an array; everything else unchanged."""
    return value.detach().cpu().numpy() if is_tensor(value) else value


def as_wide(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return an array or tensor of floats with that dtype."""
    return (
        value.to(getattr(import_module("torch"), dtype.name)) if is_tensor(value) else value.astype(dtype, copy=False)
    )


def is_tensor(value: object) -> bool:
    """Return True for a tensor; imports nothing."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_float_tensor(array: Any, like: Any) -> Any:
    """Return an array as a float32 tensor on the device of `like`, if that is a tensor; else unchanged."""
    if not is_tensor(like):
        return array
    torch = import_module("torch")
    return torch.as_tensor(array, dtype=torch.float32, device=like.device)


def split_batch(columns: Mapping[str, Any], size: int) -> list[dict[str, Any]]:
    """Return the items of a batch of stacked columns."""
    parts = {name: list(column.unbind(0) if is_tensor(column) else column) for name, column in columns.items()}
    return [{name: part[number] for name, part in parts.items()} for number in range(size)]


def stack_batch(items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the columns of items of equal shapes, stacked along a new first axis; texts as a list."""
    columns: dict[str, Any] = {}
    for name, first in items[0].items():
        column = [item[name] for item in items]
        if is_tensor(first):
            columns[name] = import_module("torch").stack(column)
        else:
            columns[name] = np.stack(column) if isinstance(first, np.ndarray | np.generic) else column
    return columns


def worker_seeds() -> tuple[int, ...]:
    """Return the seed that a torch loader drew for this worker process; () outside of a worker."""
    torch = sys.modules.get("torch")
    worker_info = None if torch is None else torch.utils.data.get_worker_info()
    return () if worker_info is None else (int(worker_info.seed),)


def forks_workers() -> bool:
    """Return True if worker processes are forked by default, and so inherit memory."""
    return (multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]) == "fork"


def worker_loader(dataset: Any, requests: Any, workers: int, *, fork_safe: bool) -> Any:
    """Return a torch DataLoader that reads each request from a data set in persistent worker processes.

    Processes are forked, if that is the default and all libraries of the data set support it. Raises MissingExtraError
    without torch.
    """
    data = import_library("torch", "torch").utils.data
    return data.DataLoader(
        dataset,
        batch_sampler=requests,
        num_workers=workers,
        collate_fn=_as_is,
        persistent_workers=True,
        multiprocessing_context=None if fork_safe else "forkserver",
    )


def _as_is(batch: Any) -> Any:
    return batch
