"""What comes back from every Sink is what went in, or its losses named it, or the episode was refused."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from odd_episodes import PARTS, describe, make_odd, unnamed_changes
from sink_places import COLLECTIONS

from wshard import DType, load_wshard, open_sink, open_source, save_wshard
from wshard.errors import EpisodeError

PLACES = {"wshard": "a.wshard", "dreamerv3": "a.npz"} | COLLECTIONS
names_of_parts = st.lists(st.sampled_from([*PARTS]), min_size=1, max_size=3, unique=True)


def write(ep, place, name):
    """Return the losses that a Sink states, and the episode that comes back; None for one that is refused."""
    with open_sink(place, name) as sink:
        try:
            losses = sink.losses(describe(ep))
            sink.write(ep)
        except EpisodeError:
            return [], None
    with open_source(place, "lerobot" if name == "lerobot_v21" else name) as source:
        (key,) = source.keys()
        return losses, source.load(key)


@pytest.mark.parametrize("name", PLACES)
@settings(max_examples=4)
@given(parts=names_of_parts)
@example(parts=["scalar", "arm", "reward f4", "never"])
@example(parts=["early", "metadata is_first"])
@example(parts=["metadata 1", "epoch"])
@example(parts=["metadata 11"])
@example(parts=["metadata 12"])
@example(parts=["long name", "two actions"])
@example(parts=["long camera name"])
def test_every_part_comes_back_or_is_named(tmp_path_factory, name, parts):
    ep = make_odd(*parts)
    losses, back = write(ep, tmp_path_factory.mktemp(name) / PLACES[name], name)
    assert back is None or not unnamed_changes(ep, back, losses), losses


@pytest.mark.parametrize("name", PLACES)
def test_an_ordinary_episode_is_not_refused(tmp_path, name):
    assert write(make_odd("plain", "metadata 0"), tmp_path / PLACES[name], name)[1] is not None


@pytest.mark.parametrize("name", PLACES)
def test_values_of_bf16_stay(tmp_path, name):
    """Values survive where numpy knows the type, which needs another package, and where it knows only the bits."""
    ep = make_odd("bf16")
    save_wshard(ep, tmp_path / "stored.wshard")
    for number, one in enumerate((ep, load_wshard(tmp_path / "stored.wshard"))):
        (tmp_path / str(number)).mkdir()
        losses, back = write(one, tmp_path / str(number) / PLACES[name], name)
        assert back is not None
        lane = back.observations["half"]
        if lane.dtype is not DType.BFLOAT16:
            assert lane.dtype is DType.FLOAT32
            assert lane.data.ravel().tolist() == [1, 2, 3, 4]
            assert "signal/half: bf16 becomes float32" in losses
