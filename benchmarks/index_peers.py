"""Other libraries that search vectors, behind one function each: vectors in, named searches out.

Each builds what it needs and returns {what: search}; search takes a query float32 [E], gives the rows of the ten best,
on one thread where the library lets us say so. benchmarks/index.py runs this with a folder that has vectors.npy [N, E]
and queries.npy [Q, E]; it needs none of the project.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from pathlib import Path
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
    try:
        database = importlib.import_module("pysqlite3").connect(":memory:")
    except ImportError:
        database = importlib.import_module("sqlite3").connect(":memory:")
    database.enable_load_extension(True)
    sqlite_vec.load(database)
    database.execute(f"CREATE VIRTUAL TABLE held USING vec0(vector float[{vectors.shape[1]}] distance_metric=cosine)")
    rows = ((number, vector.tobytes()) for number, vector in enumerate(vectors))
    database.executemany("INSERT INTO held(rowid, vector) VALUES (?, ?)", rows)
    ask = f"SELECT rowid FROM held WHERE vector MATCH ? AND k = {TOP}"
    return {"sqlite-vec": lambda query: [row for (row,) in database.execute(ask, (query.tobytes(),))]}


def _lancedb(vectors: np.ndarray) -> Searches:
    lancedb, arrow = importlib.import_module("lancedb"), importlib.import_module("pyarrow")
    config = importlib.import_module("lancedb.index").IvfRq(distance_type="cosine")
    folder = tempfile.TemporaryDirectory()
    values = arrow.FixedSizeListArray.from_arrays(arrow.array(vectors.ravel()), vectors.shape[1])
    table = lancedb.connect(folder.name).create_table(
        "held", arrow.table({"row": np.arange(len(vectors)), "vector": values})
    )
    table.create_index("vector", config=config)

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


def main(folder: Path) -> None:
    """Print what each takes, or why it does not."""
    vectors, queries = np.load(folder / "vectors.npy"), np.load(folder / "queries.npy")
    print("| peer | build s | p50 ms | p99 ms | recall |\n|---|---:|---:|---:|---:|", flush=True)
    for name, build in PEERS.items():
        begun = time.perf_counter()
        try:
            searches = build(vectors)
        except (ImportError, AttributeError) as error:  # sqlite3 without extensions has no such attribute
            print(f"| {name} | skipped: {error} | | | |", flush=True)
            continue
        built = time.perf_counter() - begun
        for what, search in searches.items():
            spent, recall = [], []
            for query in queries:
                begun = time.perf_counter()
                found = search(query)
                spent.append(time.perf_counter() - begun)
                scores = vectors @ query
                best = np.sort(np.partition(scores, -TOP)[-TOP:])[::-1]
                theirs = np.sort(scores[np.asarray(found).ravel().astype(np.int64)])[::-1]
                recall.append(float(np.mean(theirs >= best[: len(theirs)] - 1e-5)) * len(theirs) / TOP)
            p50, p99 = (np.quantile(spent, share) * 1e3 for share in (0.5, 0.99))
            print(f"| {what} | {built:.1f} | {p50:.2f} | {p99:.2f} | {np.mean(recall):.4f} |", flush=True)


if __name__ == "__main__" and len(sys.argv) > 1:
    main(Path(sys.argv[1]))
