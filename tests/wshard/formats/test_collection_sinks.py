"""Every Sink of many episodes in one place runs one contract; a careless one fails each of its tests."""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path
from typing import Self

import h5py
import pytest
from sink_places import COLLECTIONS

from wshard import WShardError
from wshard.formats.contract import CollectionSinkContract
from wshard.formats.hdf5.robomimic_sink import RobomimicSink


class TestCollectionSinks(CollectionSinkContract):
    @pytest.fixture(autouse=True, params=COLLECTIONS)
    def _choose(self, request):
        self.name, self.place = request.param, COLLECTIONS[request.param]
        self.knows_ids = self.name not in ("hdf5", "folder", "lance", "video", "lance_video")  # which number episodes
        self.deterministic = self.name not in ("lance", "lance_video")  # its files have random names


class CarelessSink:
    """Takes what is there away, publishes each episode at once, knows no ids, and reports no error."""

    def __init__(self, location, *, compression="none", mode="append") -> None:
        self.place = Path(location)
        for path in self.place.parent.iterdir():
            path.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def has(self, id_):
        return True

    def write(self, ep):
        key = "demo_0"
        with RobomimicSink(self.place) as sink, contextlib.suppress(WShardError):
            key = sink.write(ep)
        with h5py.File(self.place, "r+") as file:
            file.attrs["mark"] = secrets.token_hex()
        return key


TESTS = [name for name in dir(CollectionSinkContract) if name.startswith("test_")]


@pytest.mark.parametrize("name", TESTS)
def test_each_test_finds_a_careless_sink(tmp_path, name):
    contract = CollectionSinkContract()
    contract.name, contract.place = f"{__name__}:CarelessSink", "a.hdf5"
    parameters = {
        "test_an_error_leaves_what_was_there": ("append",),
        "test_what_is_no_data_set_is_refused": ("append",),
        "test_of_writers_at_one_moment_one_wins_and_the_others_are_refused": ((0,),),
    }
    with pytest.raises((AssertionError, OSError, pytest.fail.Exception)):
        getattr(contract, name)(tmp_path, *parameters.get(name, ()))
