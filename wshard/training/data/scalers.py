"""Scalers of columns: fitted on arrays, or column by column on a data set in parts that fit into memory."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from wshard.core.arguments import array_of, finite_number
from wshard.core.keywords import check_options
from wshard.core.messages import shown
from wshard.errors import DatasetError, EntryNotFoundError
from wshard.training.data.tensors import as_float_tensor, as_numpy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from wshard.training.data.batch import Item
    from wshard.training.data.dataset import Dataset

_EPS: Final = 1e-8


class Scaler(ABC):
    """Maps the last axis of arrays or tensors; a tensor gives a float32 tensor. Columns [N] are one feature."""

    source_hash = ""
    """SHA-256 of the data that column_normalizer fitted it on."""

    @abstractmethod
    def fit(self, data: Any) -> Self:
        """Fit on rows [..., D], or [N] of one feature; rows with a NaN are left out."""

    @abstractmethod
    def _map(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return scaled rows [..., D]."""

    @abstractmethod
    def _unmap(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the original rows of scaled rows [..., D]."""

    def transform(self, data: Any) -> Any:
        """Return scaled data."""
        return self._apply(self._map, data)

    __call__ = transform

    def inverse_transform(self, data: Any) -> Any:
        """Return the original values of scaled data."""
        return self._apply(self._unmap, data)

    inverse = inverse_transform

    def fit_transform(self, data: Any) -> Any:
        """Fit on rows, and return them scaled."""
        return self.fit(data).transform(data)

    def _apply(self, function: Any, data: Any) -> Any:
        return as_float_tensor(function(np.asarray(as_numpy(data))), like=data)


class ZScoreScaler(Scaler):
    """(x - mean) / max(std, eps); mean and std [1, D] of the population, unless they are given."""

    def __init__(self, mean: Any = None, std: Any = None, eps: float = _EPS) -> None:
        self.eps = finite_number(eps, "eps", DatasetError)
        self.mean = _numbers(mean, "mean", np.zeros((1, 1)))
        self.std = _numbers(std, "std", np.ones((1, 1)))

    def fit(self, data: Any) -> Self:
        """Fit on rows."""
        rows = _check_not_empty(_rows_of(data))
        self.mean, self.std = rows.mean(axis=0, keepdims=True), rows.std(axis=0, keepdims=True)
        return self

    def fit_parts(self, parts: Iterable[Any]) -> Self:
        """Fit on rows in parts, of which one is in memory at a time; equal to `fit` except for rounding."""
        count, mean, square_sum = 0, np.zeros((1, 1)), np.zeros((1, 1))
        for part in parts:
            rows = _rows_of(part)
            if not len(rows):
                continue
            part_mean = rows.mean(axis=0, keepdims=True)
            delta, total = part_mean - mean, count + len(rows)
            square_sum = (
                square_sum + ((rows - part_mean) ** 2).sum(axis=0, keepdims=True) + delta**2 * count * len(rows) / total
            )
            mean, count = mean + delta * len(rows) / total, total
        if not count:
            _check_not_empty(np.zeros((0, 1)))
        self.mean, self.std = mean, np.sqrt(square_sum / count)
        return self

    def _map(self, rows: NDArray[Any]) -> NDArray[Any]:
        scaled: NDArray[Any] = (rows - _fit_shape(self.mean, rows)) / np.maximum(_fit_shape(self.std, rows), self.eps)
        return scaled

    def _unmap(self, rows: NDArray[Any]) -> NDArray[Any]:
        values: NDArray[Any] = rows * _fit_shape(self.std, rows) + _fit_shape(self.mean, rows)
        return values


class PercentileScaler(Scaler):
    """Maps the percentiles low and high to -1 and 1, and clips values outside; q_low, q_high: known values of them."""

    def __init__(
        self, low: float = 1.0, high: float = 99.0, q_low: Any = None, q_high: Any = None, eps: float = _EPS
    ) -> None:
        if not 0 <= finite_number(low, "low", DatasetError) < finite_number(high, "high", DatasetError) <= 100:
            raise DatasetError(f"percentiles: expected 0 <= low < high <= 100, found {low} and {high}")
        self.low, self.high, self.eps = low, high, finite_number(eps, "eps", DatasetError)
        self.q_low = _numbers(q_low, "q_low", np.zeros(1))
        self.q_high = _numbers(q_high, "q_high", np.ones(1))

    def fit(self, data: Any) -> Self:
        """Fit on rows."""
        self.q_low, self.q_high = np.percentile(_check_not_empty(_rows_of(data)), [self.low, self.high], axis=0)
        return self

    def _map(self, rows: NDArray[Any]) -> NDArray[Any]:
        low, high = _fit_shape(self.q_low, rows), _fit_shape(self.q_high, rows)
        scaled: NDArray[Any] = np.clip(2 * (rows - low) / np.maximum(high - low, self.eps) - 1, -1, 1)
        return scaled

    def _unmap(self, rows: NDArray[Any]) -> NDArray[Any]:
        low, high = _fit_shape(self.q_low, rows), _fit_shape(self.q_high, rows)
        values: NDArray[Any] = (rows + 1) * (high - low) / 2 + low
        return values


class IdentityScaler(Scaler):
    """Returns values unchanged."""

    def fit(self, data: Any) -> Self:  # noqa: ARG002  (what all scalers take)
        """Fit nothing."""
        return self

    def _map(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows

    def _unmap(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows


_SCALERS: Final[dict[str, type[Scaler]]] = {
    "zscore": ZScoreScaler,
    "percentile": PercentileScaler,
    "none": IdentityScaler,
}


def get_scaler(method: str = "zscore", **kw: Any) -> Scaler:
    """Return a scaler by its name: zscore, percentile or none; kw are its parameters. Raises DatasetError."""
    if method not in _SCALERS:
        raise DatasetError(f"Unknown normalizer method {method!r}: expected one of {', '.join(_SCALERS)}")
    check_options(get_scaler, kw, _SCALERS[method])
    return _SCALERS[method](**kw)


class WrapTorchTransform:
    """A transform of items: the column `target` becomes what a function, `lambd`, returns for the column `source`."""

    def __init__(self, lambd: Callable[[Any], Any], source: str = "image", target: str = "image") -> None:
        if not callable(lambd):
            raise DatasetError(f"transform: expected a function of a column, found {shown(lambd)}")
        self.lambd, self.source, self.target = lambd, source, target

    @property
    def scaler(self) -> Any:
        """The function, where it is a scaler of column_normalizer."""
        return self.lambd

    def __call__(self, item: Item) -> Item:
        """Return the item with the new column."""
        if self.source not in item:
            raise EntryNotFoundError(f"normalizer: no column {self.source!r}; there are {', '.join(item)}")
        return {**item, self.target: self.lambd(item[self.source])}

    def __repr__(self) -> str:
        """Return the columns and the kind of the function."""
        return f"<WrapTorchTransform: {self.source} -> {self.target} by {type(self.lambd).__name__}>"


def column_normalizer(
    dataset: Dataset, source: str, target: str, method: str = "zscore", **kw: Any
) -> WrapTorchTransform:
    """Fit a scaler on a column of a data set, episode by episode, and return it as a transform.

    The scaler, its `lambd`, has the hash of the data in `source_hash`. Percentiles need the whole column in memory. Of
    a data set of another class, the column is what its get_col_data returns.
    """
    scaler, digest = get_scaler(method, **kw), hashlib.sha256(str(source).encode())
    parts = _parts_of(dataset, source, digest)
    if isinstance(scaler, ZScoreScaler):
        scaler.fit_parts(parts)
    else:
        part_list = list(parts)
        scaler.fit(np.concatenate(part_list) if part_list else np.zeros((0, 1)))
    scaler.source_hash = digest.hexdigest()
    return WrapTorchTransform(scaler, source, target)


def _parts_of(dataset: Dataset, column: str, digest: Any) -> Iterator[NDArray[Any]]:
    for rows in _columns_of(dataset, column):
        if not isinstance(rows, np.ndarray):
            raise DatasetError(f"column {column!r}: expected numbers to scale, found texts")
        digest.update(np.ascontiguousarray(rows).data)
        yield rows


def _columns_of(dataset: Dataset, column: str) -> Iterator[Any]:
    if hasattr(dataset, "column_rows"):
        yield from (
            dataset.column_rows(column, episode, 0, length) for episode, length in enumerate(dataset.lengths.tolist())
        )
    else:
        yield as_numpy(dataset.get_col_data(column))


def _numbers(values: Any, name: str, default: NDArray[Any]) -> NDArray[Any]:
    """Return statistics that were given as float64, or the default."""
    if values is None:
        return default
    numbers = array_of(as_numpy(values), name, DatasetError)
    if numbers.dtype.kind not in "biuf" or not np.isfinite(numbers).all():
        raise DatasetError(f"{name}: expected finite numbers, found {shown(values)}")
    return np.atleast_1d(numbers.astype(np.float64))


def _rows_of(data: Any) -> NDArray[Any]:
    array = array_of(as_numpy(data), "scaler", DatasetError)
    if not array.ndim or array.dtype.kind not in "biuf":
        raise DatasetError(f"scaler: expected rows of numbers to fit on, found {array.dtype} {list(array.shape)}")
    rows = array.reshape(-1, 1) if array.ndim == 1 else array.reshape(math.prod(array.shape[:-1]), array.shape[-1])
    rows = rows.astype(np.float64, copy=False)  # sums of millions of narrower numbers would be far off
    complete: NDArray[Any] = rows[~np.isnan(rows).any(axis=1)]
    if np.isinf(complete).any():
        raise DatasetError("scaler: expected finite numbers to fit on, found an infinity")
    return complete


def _check_not_empty(rows: NDArray[Any]) -> NDArray[Any]:
    if not rows.size:
        raise DatasetError("scaler: expected rows without NaN to fit on, found none")
    return rows


def _fit_shape(values: NDArray[Any], rows: NDArray[Any]) -> NDArray[Any]:
    """Return fitted values in a shape that broadcasts to the rows; of one feature, also to rows [N]."""
    if values.size > 1 and rows.shape[-1:] != (values.size,):
        raise DatasetError(
            f"scaler: expected rows of {values.size} numbers, as it was fitted, found {list(rows.shape)}"
        )
    return values.reshape(-1) if values.size > 1 or rows.ndim else values.reshape(())
