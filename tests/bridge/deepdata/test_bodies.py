"""What a search of a DeepData server looks like on the wire."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.index.deepdata.messages import FIELD, Ask
from wshard.errors import QueryError

NUMBERS = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=16)


@given(NUMBERS)
def test_every_float32_arrives_unchanged(numbers):
    sent = json.loads(Ask(numbers, 3).body("episodes"))
    assert np.array_equal(np.array(sent["queries"][FIELD], np.float32), np.array(numbers, np.float32))


def test_what_is_not_requested_is_not_sent():
    assert json.loads(Ask([1.0, 0.5], 3).body()) == {"queries": {FIELD: [1, 0.5]}, "top_k": 3}
    everything = Ask([1.0], 2, {"env_id": "a"}, 50, 4, include_vectors=True)
    assert json.loads(everything.body("episodes")) == {
        "queries": {FIELD: [1]},
        "top_k": 2,
        "collection": "episodes",
        "filters": {"env_id": "a"},
        "ef_search": 50,
        "offset": 4,
        "include_vectors": True,
    }


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_number_that_json_does_not_have_is_refused(number):
    with pytest.raises(QueryError, match="expected a query of finite numbers"):
        Ask([0.0, number], 3).body()
