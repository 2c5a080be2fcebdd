"""Other libraries that search vectors, behind one function each: vectors in, named searches out.

Each builds what it needs and returns {what: search}; search takes a query float32 [E], gives the rows of the ten best.
benchmarks/index.py runs those that are installed, each on one thread where it lets us say so.
"""

from __future__ import annotations

import importlib
import sqlite3
import tempfile
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Searches = dict[str, Callable[[np.ndarray], object]]

TOP: Final = 10


def _faiss(vectors: np.ndarray) -> Searches:
    faiss = importlib.import_module("faiss")
    faiss.omp_set_num_threads(1)
    flat = faiss.IndexFlatIP(vectors.shape[1])
    flat.add(vectors)
    count = max(1, min(1024, len(vectors) // 40))
    lists = faiss.index_factory(vectors.shape[1], f"IVF{count},Flat", faiss.METRIC_INNER_PRODUCT)
    lists.train(vectors[::16])
    lists.add(vectors)
    lists.nprobe = 32
    return {
        "faiss flat": lambda query: flat.search(query[None], TOP)[1],
        f"faiss IVF{count}, nprobe 32": lambda query: lists.search(query[None], TOP)[1],
    }


def _usearch(vectors: np.ndarray) -> Searches:
    index = importlib.import_module("usearch.index").Index(ndim=vectors.shape[1], metric="ip", dtype="f16")
    index.add(np.arange(len(vectors)), vectors)
    return {"usearch f16": lambda query: index.search(query, TOP, threads=1).keys}


def _sqlite_vec(vectors: np.ndarray) -> Searches:
    sqlite_vec = importlib.import_module("sqlite_vec")
    database = sqlite3.connect(":memory:")
    database.enable_load_extension(True)
    sqlite_vec.load(database)
    database.execute(f"CREATE VIRTUAL TABLE held USING vec0(vector float[{vectors.shape[1]}] distance_metric=cosine)")
    rows = ((number, vector.tobytes()) for number, vector in enumerate(vectors))
    database.executemany("INSERT INTO held(rowid, vector) VALUES (?, ?)", rows)
    ask = f"SELECT rowid FROM held WHERE vector MATCH ? AND k = {TOP}"
    return {"sqlite-vec": lambda query: [row for (row,) in database.execute(ask, (query.tobytes(),))]}


def _lancedb(vectors: np.ndarray) -> Searches:
    lancedb, arrow = importlib.import_module("lancedb"), importlib.import_module("pyarrow")
    folder = tempfile.TemporaryDirectory()
    values = arrow.FixedSizeListArray.from_arrays(arrow.array(vectors.ravel()), vectors.shape[1])
    table = lancedb.connect(folder.name).create_table(
        "held", arrow.table({"row": np.arange(len(vectors)), "vector": values})
    )
    table.create_index(metric="cosine", index_type="IVF_RQ", vector_column_name="vector")

    def search(query: np.ndarray) -> object:
        asked = table.search(query, vector_column_name="vector").distance_type("cosine").refine_factor(10).limit(TOP)
        return asked.to_arrow()["row"].to_numpy()

    search.folder = folder  # type: ignore[attr-defined]  # kept as long as the search
    return {"LanceDB IVF_RQ, refined": search}


PEERS: Final[Mapping[str, Callable[[np.ndarray], Searches]]] = {
    "faiss": _faiss,
    "usearch": _usearch,
    "sqlite_vec": _sqlite_vec,
    "lancedb": _lancedb,
}
"""Module to import -> what builds its searches."""
