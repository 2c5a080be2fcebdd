"""Everything that callers ask of a Source is declared, and every wrapper answers it as the Source inside."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from jsonl_source import JsonlSource, announce, write_lines

from bridge.episodes.open import open_unchanged
from wshard import Channel, Episode, EpisodeAddress, open_sink
from wshard.core.episode.protocol import read_as
from wshard.data import SourceDataset, load_dataset
from wshard.formats.lane_map import MappedSource, encode_lane_map
from wshard.formats.open import open_location
from wshard.formats.source_base import PlainSource, Source, SourceBase, WrappedSource
from wshard.testing import make_episode

OF_THE_CLASS = {"meaning", "whole", "matches"}
"""Members that are read from the class of a format, before there is a Source."""


class Answering(SourceBase):
    """A Source whose answers are none of the defaults."""

    fork_safe, own_lanes, texts_are_columns, stays_open = False, True, True, True

    def __getattribute__(self, name: str) -> Any:
        member = getattr(type(self), name)
        return (lambda *args: (name, args)) if inspect.isfunction(member) else object.__getattribute__(self, name)


def members() -> dict[str, Any]:
    public = {name: getattr(SourceBase, name) for name in dir(SourceBase) if not name.startswith("_")}
    return {name: member for name, member in public.items() if name not in OF_THE_CLASS}


@pytest.mark.parametrize("layers", [1, 2])
def test_a_wrapper_answers_as_the_source_inside(layers):
    inside = wrapped = Answering()
    for _ in range(layers):
        wrapped = WrappedSource(wrapped)
    for name, member in members().items():
        if not inspect.isfunction(member):
            assert getattr(wrapped, name) == getattr(inside, name) != member, name
            continue
        arguments = [f"argument {number}" for number in range(len(inspect.signature(member).parameters) - 1)]
        found = getattr(wrapped, name)(*arguments)
        assert found == (None if name == "close" else (name, tuple(arguments))), name


def test_a_source_of_another_package_has_the_defaults(tmp_path, monkeypatch):
    announce(tmp_path / "site", monkeypatch)
    path = write_lines(tmp_path / "many.jsonl", [make_episode()])
    assert not isinstance(JsonlSource(path), SourceBase)
    with open_location(path) as source:
        key = make_episode().id
        assert isinstance(source, PlainSource)
        assert isinstance(source, Source)
        assert (source.fork_safe, source.stays_open, source.texts_are_columns) == (True, False, False)
        assert (source.missing_files(key), source.statements(key), source.choose_clock("x")) == ([], None, False)
        assert source.length_of(key) == make_episode().length


def test_what_is_no_lane_survives_a_lane_map(tmp_path):
    ep = make_episode()
    ep.omens = {"joint_pos": {"model": Channel.of("joint_pos", ep["joint_pos"] + 1)}}
    ep.blocks = {"user/notes": b"by hand"}
    with open_sink(tmp_path / "e.wshard", "wshard") as sink:
        sink.write(ep)
    mapped = open_location(tmp_path / "e.wshard", read_as("wshard", encode_lane_map({"gripper": "grip"})))
    found, plain = mapped.load(""), open_location(tmp_path / "e.wshard").load("")
    assert (found.omens, found.blocks, found.residuals) == (plain.omens, ep.blocks, ep.residuals)
    assert np.array_equal(found["omen/joint_pos/model"], ep["joint_pos"] + 1)
    assert np.array_equal(found["grip"], ep["gripper"])


def lance_table(tmp_path) -> str:
    rng = np.random.default_rng(0)
    with open_sink(tmp_path / "t.lance", "lance") as sink:
        for number in range(3):
            lanes = {"state": rng.random((8, 3), np.float32)}
            sink.write(Episode(f"{number}", observations=lanes, actions={"ctrl": rng.random((8, 2), np.float32)}))
    return str(tmp_path / "t.lance")


def test_a_mapped_table_is_read_at_once_and_is_not_forked(tmp_path):
    path = lance_table(tmp_path)
    data = load_dataset(path, num_steps=4)
    assert isinstance(data, SourceDataset)
    mapped = SourceDataset([MappedSource(data.episodes.sources[0], encode_lane_map({"state": "x"}))], num_steps=4)
    assert not mapped.fork_safe
    rows = mapped.episodes.sources[0].take_rows("signal/x", mapped.episodes.keys[:2], np.array([[1, 5], [0, 7]]))
    assert rows is not None
    for row, key, steps in zip(rows, mapped.episodes.keys, ([1, 5], [0, 7]), strict=False):
        assert np.array_equal(row, data.episodes.sources[0].load(key)["state"][steps])
    assert np.array_equal(mapped[3]["x"], data[3]["state"])


def test_a_hit_of_a_mapped_location_is_opened_without_reading_lanes(tmp_path):
    path = lance_table(tmp_path)
    how = read_as("lance", encode_lane_map({"state": "x"}))
    address = EpisodeAddress(path, "1", how)
    with open_location(path, how) as source:
        seen = source.fingerprint("1")
    reader = open_unchanged(address, seen)
    assert reader is not None
    with reader:
        assert reader.lanes().keys() >= {"signal/x", "action/ctrl"}
