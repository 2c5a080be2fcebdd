"""Files in layouts of their own, and descriptions of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from wshard.formats.layouts.named import layout_reference

if TYPE_CHECKING:
    from pathlib import Path

FLAT = 'container = "npz"\n[episodes]\nby = "lengths"\narray = "n"\n[arrays]\nu = "action"\nn = "skip"\n'
WHOLE = 'container = "{}"\n[arrays]\nu = "action"\nr = "reward"\nd = "end"\nt = "time"\nwon = "success"\n'
STEPS = np.arange(12.0).reshape(6, 2)


def save_layout(folder: Path, text: str) -> str:
    """Write a description of a layout, and return what names it."""
    (folder / "own.toml").write_text(f"layout = 1\n{text}")
    return layout_reference(folder / "own.toml")


def save_h5(path: Path, **arrays: Any) -> None:
    """Write arrays as data sets of one HDF5 file."""
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
