"""Lanes of random numbers, for the way to another format and back."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from wshard import Channel, DType


def lane_rows(names, dtypes, shapes):
    """Draw {name: (dtype, shape, seed)} of one to four lanes."""
    row = st.tuples(st.sampled_from(dtypes), st.sampled_from(shapes), st.integers(0, 99))
    return st.dictionaries(st.sampled_from(names), row, min_size=1, max_size=4)


def make_lane(name, length, row):
    """Return the lane that such a row describes, of large numbers where its dtype holds them."""
    dtype, shape, seed = row
    most = 100 if dtype is DType.FLOAT16 else 2**40
    values = np.random.default_rng(seed).integers(-most, most, (length, *shape))
    return Channel.of(name, (values & 1 if dtype is DType.BOOL else values).astype(dtype.numpy_dtype))
