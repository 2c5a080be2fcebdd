"""Values are described in one short line, whatever they hold."""

from __future__ import annotations

import numpy as np
import pytest

from wshard import Channel, Episode
from wshard.core.messages import public_url, without_passwords
from wshard.media import ImageFrames


@pytest.fixture
def episode():
    lanes = {"state": np.zeros((5, 3), np.float32), "speed": np.zeros(5)}
    return Episode("arm", observations=lanes, actions={"ctrl": np.zeros((5, 2))}, rewards=np.zeros(5))


def test_an_episode_and_its_channels(episode):
    assert (
        repr(episode)
        == "<Episode 'arm', length 5: signal/state f32[3], signal/speed f64[], action/ctrl f64[2], reward>"
    )
    assert repr(episode.observations["state"]) == "<Channel state f32[3], 5 timesteps>"
    episode.omens["state"] = {"model": Channel.of("state", np.zeros((5, 3)))}
    assert "omen/state/model f64[3]" in repr(episode)
    assert repr(Episode("")) == "<Episode '', length 0: no lanes>"


def test_many_lanes_are_counted(episode):
    episode.observations = {f"lane{number}": episode.observations["speed"] for number in range(9)}
    assert repr(episode).endswith("signal/lane5 f64[], and 5 more>")


def test_no_frame_is_decoded():
    frames = ImageFrames("jpeg", [b"no image"] * 4, frame_shape=(8, 8, 3))
    channel = Channel.of("camera", frames)
    assert repr(channel) == "<Channel camera u8[8, 8, 3] jpeg, 4 timesteps>"
    assert "signal/camera u8[8, 8, 3] jpeg" in repr(Episode("arm", observations={"camera": frames}))


@pytest.mark.parametrize("lanes", [None, 5, {"a": None}, {"a": "no channel"}])
def test_what_cannot_be_saved_can_be_printed(episode, lanes):
    episode.observations = lanes
    assert repr(episode) == "<Episode 'arm', length 5: unknown lanes, reward>"


def test_tokens_of_urls_are_in_no_message():
    assert public_url("http://host:8080;token=abc") == "http://host:8080"
    assert public_url("http://host/path;token=abc?x=1") == "http://host/path"
    for text in ("http://h:1/?token=abc&x=1", "http://h:1;TOKEN=abc", "no answer from h, api_key=abc: stop", "sig=abc"):
        shown_text = without_passwords(text)
        assert "abc" not in shown_text
        assert "=***" in shown_text
