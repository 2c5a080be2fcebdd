"""Frames on terminals: what each protocol sends decodes to the same pixels; others get none."""

from __future__ import annotations

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from bridge.episodes.terminal_frames import draw_frames, find_protocol


def frame(colour):
    stored = io.BytesIO()
    Image.new("RGB", (120, 90), colour).save(stored, "JPEG")
    return stored.getvalue()


FRAMES = (frame((250, 0, 0)), frame((0, 0, 250)))


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"KITTY_WINDOW_ID": "1", "COLORTERM": "truecolor"}, "kitty"),
        ({"TERM_PROGRAM": "WezTerm"}, "iterm2"),
        ({"TERM_PROGRAM": "iTerm.app", "TMUX": "x", "COLORTERM": "24bit"}, "blocks"),
        ({"TERM": "dumb"}, None),
    ],
)
def test_a_terminal_is_known_by_its_variables(environment, expected):
    assert find_protocol(environment) == expected


def test_pictures_are_sent_whole():
    sent = draw_frames(FRAMES, "kitty", columns=80)
    commands = re.findall("\x1b_G([^;]*);([^\x1b]*)\x1b\\\\", sent)
    assert [head[-3:] for head, _ in commands] == ["m=1"] * (len(commands) - 1) + ["m=0"]
    assert commands[0][0].startswith("a=T,f=100")
    kitty = base64.b64decode("".join(data for _, data in commands))
    assert base64.b64decode(draw_frames(FRAMES, "iterm2", columns=80)[:-1].split(":")[1]) == kitty
    assert Image.open(io.BytesIO(kitty)).size == (240, 90)


def test_half_blocks_have_the_colours_of_the_frames_and_fit():
    lines = draw_frames(FRAMES, "blocks", columns=30).split("\n")
    cells = [[int(one) for one in found] for found in re.findall(r"\x1b\[38;2;(\d+);(\d+);(\d+)m", lines[2])]
    assert len(cells) == 30
    assert np.abs(np.array([cells[2], cells[-2]]) - [[250, 0, 0], [0, 0, 250]]).max() < 12
