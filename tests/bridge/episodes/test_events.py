"""Events of an episode: texts that change and the end, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from bridge.episodes.events import MOST_EVENTS, Event, read_events
from wshard import Channel, Episode, open_wshard, save_wshard
from wshard.core.episode.step_texts import add_texts


@pytest.fixture
def read(tmp_path):
    def save_and_read(span, texts=None, terminations=None, truncations=None):
        steps = 2000
        state = Channel.of("state", np.zeros((steps, 2), np.float32))
        episode = Episode(id="one", observations={"state": state}, terminations=terminations, truncations=truncations)
        if texts:
            add_texts(episode, "step", texts)
        save_wshard(episode, tmp_path / "one.wshard")
        with open_wshard(tmp_path / "one.wshard") as file:
            return read_events(file, span)

    return save_and_read


def test_texts_that_change_and_the_end_are_events(read):
    texts = ["reach"] * 700 + ["grasp"] * 300 + ["reach"] * 1000
    ends = np.arange(2000) == 1999
    found = read((0, 2000), texts, terminations=ends, truncations=ends)
    lane = "aux/text/step"
    assert found[:3] == [Event(lane, 0, "reach"), Event(lane, 700, "grasp"), Event(lane, 1000, "reach")]
    assert {(one.step, one.text) for one in found[3:]} == {(1999, "done"), (1999, "truncated")}
    assert read((800, 1500), texts, terminations=ends) == [Event(lane, 800, "grasp"), Event(lane, 1000, "reach")]
    assert read((5000, 9000), texts) == []


def test_an_episode_without_any_has_none_and_many_are_limited(read):
    assert read((0, 2000)) == []
    assert len(read((0, 2000), ["left", "right"] * 1000)) == MOST_EVENTS
