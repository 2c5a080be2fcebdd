"""The commands of docs/cameras.md that need an encoder of a user's, or minutes: with a tiny one, and with one step."""

from __future__ import annotations

import re
import shlex

import numpy as np
import pytest
from bridge_episodes import command
from encoder_folders import write_colours
from paths import ROOT
from PIL import Image

from wshard import Channel, Episode, save_wshard

COMMAND = re.compile(r"^    (?:\$ )?wshard (.*)$", re.MULTILINE)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return a folder with `episodes`, a picture, and an encoder of pictures and words in the home folder."""
    for library in ("onnx", "onnxruntime", "tokenizers", "torch"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "episodes").mkdir()
    for number in range(4):
        frames = np.random.default_rng(number).integers(0, 255, (40, 16, 16, 3)).astype(np.uint8)
        episode = Episode(f"wave-0{number}", "arm", 40, observations={"camera": Channel.of("camera", frames)})
        save_wshard(episode, tmp_path / "episodes" / f"{number}.wshard")
    Image.fromarray(frames[0]).save(tmp_path / "door.png")
    write_colours(tmp_path / "models" / "siglip2")
    return tmp_path


def test_commands_with_encoders_and_training_run_as_the_page_has_them(home):
    lines = COMMAND.findall((ROOT / "docs" / "cameras.md").read_text())
    assert len(lines) >= 8
    for line in lines:
        words = shlex.split(line, comments=True)
        done = command(*words, *["--steps", "1"] * (words[0] == "train-embedder"), folder=home)
        assert done.exit_code == 0, f"{line}: {done.output}"
