"""Statistics of the arrays of all samples, gathered one sample after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

PERCENTILES: Final = (1, 2, 5, 95, 98, 99)


class LaneStatistics:
    """Mean, spread and bounds of an array [T, D] over samples, and percentiles of at most `most` of them.

    Of more samples a random part is chosen, by the seed; what percentiles need lies in a file.
    """

    def __init__(self, shape: tuple[int, ...], path: Path, *, most: int, seed: int) -> None:
        self.shape, self.count = shape, 0
        self._mean, self._squares = np.zeros(shape), np.zeros(shape)
        self._min, self._max = np.full(shape, np.inf), np.full(shape, -np.inf)
        self._most, self._rng = most, np.random.default_rng(seed)
        self._path = path
        self._file = path.open("w+b")
        self._size = 4 * int(np.prod(shape))

    def add(self, sample: NDArray[Any]) -> None:
        """Count a sample."""
        values = sample.astype(np.float64)
        self.count += 1
        change = values - self._mean
        self._mean += change / self.count
        self._squares += change * (values - self._mean)
        np.minimum(self._min, values, out=self._min)
        np.maximum(self._max, values, out=self._max)
        place = self.count - 1 if self.count <= self._most else int(self._rng.integers(0, self.count))
        if place < self._most:
            self._file.seek(place * self._size)
            self._file.write(sample.astype(np.float32).tobytes())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def finish(self) -> dict[str, Any]:
        """Return the statistics by their names; the file is removed."""
        self.close()
        stored = min(self.count, self._most)
        values = np.fromfile(self._path, np.float32).reshape(stored, *self.shape)
        self._path.unlink()
        total = self.count * self.shape[0]
        mean = self._mean.mean(axis=0)
        squares = (self._squares + self.count * (self._mean - mean) ** 2).sum(axis=0)
        found = {
            "mean": mean,
            "std": np.sqrt(squares / max(total - 1, 1)),
            "min": self._min.min(axis=0),
            "max": self._max.max(axis=0),
            "mean_per_timestep": self._mean,
            "std_per_timestep": np.sqrt(self._squares / max(self.count - 1, 1)),
            "min_per_timestep": self._min,
            "max_per_timestep": self._max,
        }
        over_all = np.percentile(values.reshape(-1, *self.shape[1:]), PERCENTILES, axis=0)
        per_step = np.percentile(values, PERCENTILES, axis=0)
        found |= {f"percentile_{rank}": row for rank, row in zip(PERCENTILES, over_all, strict=True)}
        found |= {f"percentile_{rank}_per_timestep": row for rank, row in zip(PERCENTILES, per_step, strict=True)}
        counts = {"count": self.count, "percentile_sample_count": stored}
        return {name: array.tolist() for name, array in found.items()} | counts


class SampleStatistics:
    """Statistics of every array by its name, of every stride-th sample."""

    def __init__(self, folder: Path, *, stride: int, most: int, seed: int) -> None:
        self._folder, self._stride, self._most, self._seed = folder, stride, most, seed
        self._lanes: dict[str, LaneStatistics] = {}
        self._samples = 0

    def add(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Count a sample; raises DatasetError for an array of another shape than before."""
        self._samples += 1
        if self._samples % self._stride:
            return
        for name, array in arrays.items():
            if name not in self._lanes:
                path = self._folder / f"statistics-{len(self._lanes)}"
                self._lanes[name] = LaneStatistics(array.shape, path, most=self._most, seed=self._seed)
            lane = self._lanes[name]
            if array.shape != lane.shape:
                raise DatasetError(f"{name}: expected {list(lane.shape)} as in other samples, found {[*array.shape]}")
            lane.add(array)

    def close(self) -> None:
        """Close the files."""
        for lane in self._lanes.values():
            lane.close()

    def finish(self) -> dict[str, dict[str, Any]]:
        """Return the statistics by the names of the arrays."""
        return {name: lane.finish() for name, lane in self._lanes.items()}
