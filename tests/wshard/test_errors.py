"""Errors cross processes whole, whoever copies them."""

from __future__ import annotations

import inspect
import pickle

import pytest

from wshard import errors

KINDS = [one for one in vars(errors).values() if inspect.isclass(one) and issubclass(one, errors.WShardError)]


@pytest.mark.parametrize("kind", KINDS)
def test_errors_are_copied_with_their_message_and_attributes(kind):
    error = kind("expected a, found b")
    error.place = "there"
    by_pickle = pickle.loads(pickle.dumps(error))  # noqa: S301  (bytes of this line)
    by_hand = kind.__new__(kind)  # as tblib does it, which Dask uses
    by_hand.args = error.args
    vars(by_hand).update(vars(error))
    for copied in (by_pickle, by_hand):
        assert (type(copied), copied.args, str(copied), copied.place) == (kind, error.args, str(error), "there")
