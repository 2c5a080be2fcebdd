"""Other formats that hold arrays, behind one small interface: write lanes, read all, read one lane, read a slice.

Each peer is asked for arrays in memory, as a training loop would want them. Peers that are not installed are left out.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Lanes = dict[str, np.ndarray]

FRAME_STEPS = 16


@dataclass(frozen=True)
class Peer:
    """One way to store lanes; open gives a handle with lane names as keys, for as long as it is entered."""

    name: str
    package: str
    suffix: str
    write: Callable[[Path, Lanes], None]
    open: Callable[[Path], contextlib.AbstractContextManager[Any]]
    read: Callable[[Any, str], np.ndarray]
    compressed: bool = False

    def read_all(self, path: Path) -> Lanes:
        """Return all lanes as arrays."""
        with self.open(path) as handle:
            return {name: np.asarray(self.read(handle, name)) for name in list(handle.keys())}

    def read_lane(self, path: Path, name: str) -> np.ndarray:
        """Return one lane as an array."""
        with self.open(path) as handle:
            return np.asarray(self.read(handle, name))


def _h5py(label: str, **filters: Any) -> Peer:
    def write(path: Path, lanes: Lanes) -> None:
        import h5py  # noqa: PLC0415  (a peer may be missing)

        with h5py.File(path, "w") as file:
            for name, data in lanes.items():
                chunks = (min(FRAME_STEPS, len(data)), *data.shape[1:]) if filters and data.ndim > 2 else None
                file.create_dataset(name, data=data, chunks=chunks, **filters)

    def open_(path: Path) -> Any:
        import h5py  # noqa: PLC0415  (a peer may be missing)

        return h5py.File(path, "r")

    return Peer(f"h5py {label}", "h5py", ".h5", write, open_, lambda file, name: file[name][()], bool(filters))


def _zarr(label: str, *, compressed: bool) -> Peer:
    def write(path: Path, lanes: Lanes) -> None:
        import zarr  # noqa: PLC0415  (a peer may be missing)

        group = zarr.open_group(path, mode="w")
        for name, data in lanes.items():
            chunks = (min(FRAME_STEPS, len(data)), *data.shape[1:]) if compressed and data.ndim > 2 else data.shape
            group.create_array(name, data=data, chunks=chunks, compressors="auto" if compressed else None)

    @contextlib.contextmanager
    def open_(path: Path) -> Iterator[Any]:
        import zarr  # noqa: PLC0415  (a peer may be missing)

        yield zarr.open_group(path, mode="r")

    return Peer(f"zarr {label}", "zarr", ".zarr", write, open_, lambda group, name: group[name][:], compressed)


def _safetensors_write(path: Path, lanes: Lanes) -> None:
    from safetensors.numpy import save_file  # noqa: PLC0415  (a peer may be missing)

    save_file({name: np.ascontiguousarray(data) for name, data in lanes.items()}, path)


def _safetensors_open(path: Path) -> Any:
    from safetensors import safe_open  # noqa: PLC0415  (a peer may be missing)

    return safe_open(path, framework="np")


def _parquet_write(path: Path, lanes: Lanes) -> None:
    import pyarrow as pa  # noqa: PLC0415  (a peer may be missing)
    import pyarrow.parquet as pq  # noqa: PLC0415

    columns = {}
    for name, data in lanes.items():
        flat = np.ascontiguousarray(data).reshape(len(data), -1)
        values = pa.array(flat.reshape(-1))
        columns[name] = pa.FixedSizeListArray.from_arrays(values, flat.shape[1])
    pq.write_table(pa.table(columns), path, compression="none", use_dictionary=False)


class _Parquet(contextlib.AbstractContextManager["_Parquet"]):
    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq  # noqa: PLC0415  (a peer may be missing)

        self.file = pq.ParquetFile(path)

    def __exit__(self, *exc: object) -> None:
        self.file.close()

    def keys(self) -> list[str]:
        return list(self.file.schema_arrow.names)

    def lane(self, name: str) -> np.ndarray:
        column = self.file.read([name]).column(0).combine_chunks()
        return np.asarray(column.flatten()).reshape(len(column), -1)


def _torch_write(path: Path, lanes: Lanes) -> None:
    import torch  # noqa: PLC0415  (a peer may be missing)

    torch.save({name: torch.from_numpy(data) for name, data in lanes.items()}, path)


@contextlib.contextmanager
def _torch_open(path: Path) -> Iterator[Any]:
    import torch  # noqa: PLC0415  (a peer may be missing)

    yield torch.load(path, weights_only=True)


PEERS = (
    _h5py("none"),
    _h5py("gzip-4", compression="gzip", compression_opts=4),
    _h5py("lzf", compression="lzf"),
    _zarr("none", compressed=False),
    _zarr("zstd", compressed=True),
    Peer("npz", "numpy", ".npz", lambda path, lanes: np.savez(path, **lanes), np.load, lambda file, name: file[name]),
    Peer(
        "safetensors",
        "safetensors",
        ".safetensors",
        _safetensors_write,
        _safetensors_open,
        lambda file, name: file.get_tensor(name),
    ),
    Peer("parquet", "pyarrow", ".parquet", _parquet_write, _Parquet, lambda file, name: file.lane(name)),
    Peer("torch.save", "torch", ".pt", _torch_write, _torch_open, lambda file, name: file[name].numpy()),
)


def installed() -> tuple[list[Peer], list[str]]:
    """Return the peers that are there, and the names of the packages that are not."""
    there = [peer for peer in PEERS if find_spec(peer.package)]
    return there, sorted({peer.package for peer in PEERS if peer not in there})
