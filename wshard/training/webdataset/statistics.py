"""Running statistics of the arrays of all samples."""

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
    """Mean, standard deviation and bounds of an array [T, D] over samples, and percentiles of at most `reservoir_size`.

    Of more samples, percentiles are those of a random subset (reservoir sampling, by the seed), stored in a file.
    """

    def __init__(self, shape: tuple[int, ...], path: Path, *, reservoir_size: int, seed: int) -> None:
        self.shape, self.count = shape, 0
        self._mean, self._squared_deviations = np.zeros(shape), np.zeros(shape)
        self._min, self._max = np.full(shape, np.inf), np.full(shape, -np.inf)
        self._reservoir_size, self._rng = reservoir_size, np.random.default_rng(seed)
        self._path = path
        self._file = path.open("w+b")
        self._size = 4 * int(np.prod(shape))

    def add(self, sample: NDArray[Any]) -> None:
        """Add a sample [T, D]."""
        values = sample.astype(np.float64)
        self.count += 1
        delta = values - self._mean
        self._mean += delta / self.count
        self._squared_deviations += delta * (values - self._mean)
        np.minimum(self._min, values, out=self._min)
        np.maximum(self._max, values, out=self._max)
        slot = self.count - 1 if self.count <= self._reservoir_size else int(self._rng.integers(0, self.count))
        if slot < self._reservoir_size:
            self._file.seek(slot * self._size)
            self._file.write(sample.astype(np.float32).tobytes())

    def close(self) -> None:
        """Close the file of the reservoir."""
        self._file.close()

    def finish(self) -> dict[str, Any]:
        """Return the statistics by name, and remove the file."""
        self.close()
        reservoir_count = min(self.count, self._reservoir_size)
        values = np.fromfile(self._path, np.float32).reshape(reservoir_count, *self.shape)
        self._path.unlink()
        total = self.count * self.shape[0]
        mean = self._mean.mean(axis=0)
        squared_deviations = (self._squared_deviations + self.count * (self._mean - mean) ** 2).sum(axis=0)
        arrays = {
            "mean": mean,
            "std": np.sqrt(squared_deviations / max(total - 1, 1)),
            "min": self._min.min(axis=0),
            "max": self._max.max(axis=0),
            "mean_per_timestep": self._mean,
            "std_per_timestep": np.sqrt(self._squared_deviations / max(self.count - 1, 1)),
            "min_per_timestep": self._min,
            "max_per_timestep": self._max,
        }
        overall = np.percentile(values.reshape(-1, *self.shape[1:]), PERCENTILES, axis=0)
        per_step = np.percentile(values, PERCENTILES, axis=0)
        arrays |= {f"percentile_{rank}": row for rank, row in zip(PERCENTILES, overall, strict=True)}
        arrays |= {f"percentile_{rank}_per_timestep": row for rank, row in zip(PERCENTILES, per_step, strict=True)}
        counts = {"count": self.count, "percentile_sample_count": reservoir_count}
        return {name: array.tolist() for name, array in arrays.items()} | counts


class SampleStatistics:
    """Statistics of every array by its name, of every stride-th sample."""

    def __init__(self, folder: Path, *, stride: int, reservoir_size: int, seed: int) -> None:
        self._folder, self._stride, self._reservoir_size, self._seed = folder, stride, reservoir_size, seed
        self._lanes: dict[str, LaneStatistics] = {}
        self._samples = 0

    def add(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Add the arrays of a sample; raises DatasetError if an array has another shape than before."""
        self._samples += 1
        if self._samples % self._stride:
            return
        for name, array in arrays.items():
            if name not in self._lanes:
                path = self._folder / f"statistics-{len(self._lanes)}"
                self._lanes[name] = LaneStatistics(
                    array.shape, path, reservoir_size=self._reservoir_size, seed=self._seed
                )
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
