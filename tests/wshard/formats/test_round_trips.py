"""What every written format can hold survives the way format, wshard, format, wshard."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sink_places import COLLECTIONS

from wshard import Episode, detect_format, load_wshard, open_sink, open_source, save_wshard
from wshard.formats.table import FORMATS

PLACES = {"wshard": "a.wshard", "dreamerv3": "a.npz"} | COLLECTIONS


def test_every_format_that_is_read_and_written_is_here():
    assert {*PLACES} == {name for name, entry in FORMATS.items() if entry.sink and name != "rrd"}


@st.composite
def episodes(draw):
    """Draw an episode of lanes that all formats can hold, in dtypes, shapes and values of any kind."""
    length = draw(st.integers(2, 6))
    lanes = {}
    for name in draw(st.sampled_from([("state",), ("state", "vector")])):
        dtype = draw(st.sampled_from(["<f4", "<f8", "<i8", "<i4", "|u1", "|b1"]))
        shape = draw(st.sampled_from([(1,), (3,), (2, 2)]))
        lanes[name] = draw(arrays(dtype, (length, *shape), elements={"allow_nan": False} if "f" in dtype else None))
    action = draw(arrays("<f4", (length, 2), elements={"allow_nan": False}))
    flags = np.arange(length) == length - 1
    about = {"rewards": draw(arrays("<f4", length, elements={"allow_nan": False})), "terminations": flags}
    return Episode(
        "one", "", length, observations=lanes, actions={"action": action}, metadata={"task": "push"}, **about
    )


def through(ep, folder, name):
    """Return an episode that was written in a format, read, and stored as an episode file."""
    folder.mkdir()
    with open_sink(folder / PLACES[name], name) as sink:
        sink.write(ep)
    with open_source(folder / PLACES[name], detect_format(folder / PLACES[name])) as source:
        (key,) = source.keys()
        save_wshard(source.load(key), folder / "stored.wshard")
    return load_wshard(folder / "stored.wshard")


@pytest.mark.parametrize("name", PLACES)
@settings(max_examples=3)
@given(ep=episodes())
def test_lanes_survive_the_way_there_and_back_twice(tmp_path_factory, name, ep):
    folder = tmp_path_factory.mktemp(name)
    once = through(ep, folder / "once", name)
    twice = through(once, folder / "twice", name)
    for first, second in ((ep, once), (once, twice)):
        known, found = ([*one.lanes().values()] for one in (first, second))
        assert len(known) == len(found)
        values = [lane.data for lane in found]
        for lane in known:  # under another name, where the format has its own
            assert any(lane.data.dtype == one.dtype and np.array_equal(lane.data, one) for one in values)
        assert np.array_equal(first.rewards, second.rewards)
        assert np.array_equal(first.terminations, second.terminations)
    assert [*twice.lanes()] == [*once.lanes()]
    assert all(np.array_equal(lane.data, twice.lanes()[block].data) for block, lane in once.lanes().items())
