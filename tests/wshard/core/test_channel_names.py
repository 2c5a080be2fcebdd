"""What the channels of a lane are called, by every way that an episode takes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wshard import (
    ChunkedEpisodeReader,
    ChunkedEpisodeWriter,
    WShardStreamWriter,
    load_wshard,
    open_wshard,
    recover,
    save_wshard,
)
from wshard.core.channel_names import channel_label, component_names, shorten_names
from wshard.core.episode.meta_reader import read_description
from wshard.errors import EpisodeError
from wshard.types import Channel, Episode

WORDS = st.text("abcxyz_ é", min_size=1, max_size=12)
NAMES = ("shoulder", "elbow", "wrist")


def make_episode(**described: Any):
    lane = Channel.of("state", np.arange(15, dtype=np.float32).reshape(5, 3), **described)
    return Episode("e", observations={"state": lane}, actions={"ctrl": Channel.of("ctrl", np.zeros((5, 2)))})


@given(st.lists(WORDS, max_size=5), WORDS)
def test_names_and_unit_of_any_number_come_back(tmp_path_factory, names, unit):
    path = tmp_path_factory.mktemp("a") / "a.wshard"
    ep = make_episode(names=names, unit=unit)
    save_wshard(ep, path)
    found = load_wshard(path)
    assert found == ep
    lane = found.observations["state"]
    assert (lane.names, lane.unit) == (tuple(names), unit)
    assert component_names(lane) == (tuple(names) if len(names) == 3 else ())


def test_an_episode_without_names_states_none(tmp_path):
    save_wshard(make_episode(), tmp_path / "a.wshard")
    stored = (tmp_path / "a.wshard").read_bytes()
    assert b'"names"' not in stored
    assert b'"unit"' not in stored


@pytest.mark.parametrize("stated", ["elbow", 3, {"elbow": 0}, [1, 2, 3], [["a", "b", "c"]], None])
def test_names_and_units_of_another_kind_count_as_not_stated(tmp_path, stated):
    row = {"id": "state", "shape": [3], "names": stated, "unit": [stated], "more": 1}
    meta = {"meta/channels": json.dumps({"channels": [row]}).encode()}
    lane = read_description(meta, "a").declared["signal/state"]
    assert (lane.names, lane.unit) == ((), "")


@pytest.mark.parametrize("names", ["elbow", [1, 2, 3]])
def test_a_program_that_gives_no_texts_is_refused(names):
    with pytest.raises(EpisodeError, match="names: expected several texts"):
        make_episode(names=names)


def test_slices_chunks_and_copies_keep_names(tmp_path):
    ep = make_episode(names=NAMES, unit="rad")
    save_wshard(ep, tmp_path / "a.wshard")
    with open_wshard(tmp_path / "a.wshard") as file:
        parts = [file.slice(1, 3), file.load(["state"]), ep.clone(), replace(ep, id="f")]
    writer = ChunkedEpisodeWriter(tmp_path, "e", chunk_size_t=2)
    writer.write_episode_chunked(ep)
    chunks = writer.finalize_manifest()
    with ChunkedEpisodeReader(chunks).open() as file:
        parts += [file.load(), file.slice(1, 4)]
        assert file.lanes()["signal/state"].names == NAMES
    for part in parts:
        lane = part.observations["state"]
        assert (lane.names, lane.unit) == (NAMES, "rad")


def test_recordings_and_recovered_ones_have_names(tmp_path):
    channel = {"id": "signal/state", "shape": [3], "names": list(NAMES), "unit": "rad"}
    with WShardStreamWriter(tmp_path / "a.wshard", "a", [channel]) as writer:
        writer.begin_episode()
        for _ in range(3):
            writer.write_timestep({"state": np.zeros(3, np.float32)})
        writer.flush()
        shutil.copy(tmp_path / "a.wshard.partial", tmp_path / "b.wshard.partial")
    recover(tmp_path / "b.wshard.partial")
    for name in "ab":
        lane = load_wshard(tmp_path / f"{name}.wshard").observations["state"]
        assert (lane.names, lane.unit) == (NAMES, "rad")


def test_channels_are_called_by_their_names_and_else_by_their_numbers():
    lane = Channel.of("state", np.zeros((2, 3)), names=NAMES)
    assert [channel_label(lane, channel) for channel in range(3)] == [*NAMES]
    assert channel_label(replace(lane, names=NAMES[:2]), 2) == "2"
    assert channel_label(None, 2) == "2"
    pairs = Channel.of("points", np.zeros((2, 2, 3)), names=("x", "y", "z"))
    assert channel_label(pairs, 4) == "1.y"
    older = Channel.of("state", np.zeros((2, 3)), semantics=", ".join(NAMES))  # as converted files had them
    assert component_names(older) == NAMES
    assert component_names(Channel.of("one", np.zeros(2), semantics="x")) == ()


@given(st.lists(WORDS, min_size=1, max_size=60), st.integers(10, 100))
def test_long_lists_of_names_keep_their_ends(names, width):
    line = shorten_names(names, width)
    whole = ", ".join(names)
    assert line == whole or (line.startswith(names[0]) and line.endswith(names[-1]) and "..." in line)
    assert len(line) <= max(width, len(f"{names[0]}, ..., {names[-1]}"))
    assert (line == whole) >= (len(whole) <= width)
