"""The first hour with LeRobot data goes as the page says, with a real recording whose videos are mostly missing."""

from __future__ import annotations

import re
import shlex
import time
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from bridge_episodes import command
from paths import ROOT

from wshard.formats.open import open_location

PAGE = ROOT / "docs" / "lerobot.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_first_hour_goes_as_the_page_says(dataset_fixtures, tmp_path, monkeypatch, capsys):
    (tmp_path / "g1").symlink_to(dataset_fixtures / "real" / "g1_lerobot_v21")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    outputs, begun = [], time.process_time()
    for kind, text in BLOCK.findall(PAGE.read_text()):
        if kind == "python":
            exec(compile(text, str(PAGE), "exec"), names)  # noqa: S102  (it is our own page)
        elif "pip install" not in text:
            for line in text.splitlines():
                program, *arguments = shlex.split(line)
                assert program == "wshard"
                done = command(*arguments, folder=tmp_path)
                assert done.exit_code == 0, f"{line}: {done.stdout}{done.stderr}"
                outputs.append(done.stdout)
    assert time.process_time() - begun < 20, "no more than seconds, since no video is opened"
    ingested, listed, found, moments, *_ = outputs
    assert ingested.startswith("lab: 100 new, 100 embedded")
    flagged = re.search(r"(\d+) flagged", ingested)
    assert int(flagged[1] if flagged else 0) <= 10, "a fine recording: few are unusual among their like"
    assert "100 unchanged" in command("ingest", "g1", "--archive", "lab", folder=tmp_path).stdout
    assert "3 of 3 episodes" in listed
    assert "episode_000017" in found.splitlines()[1]
    assert "g1_lerobot_v21#17" not in moments
    first, second = names["first"], names["second"]
    assert (first.key, first.span) == ("17", (20, 60))
    table = pq.read_table(tmp_path / "g1" / "data" / "chunk-000" / f"episode_{int(second.key):06d}.parquet")
    states = np.stack(table["observation.state"].to_pylist())
    assert np.array_equal(names["states"], states[slice(*second.span)])
    assert "episode_000017.mp4" in capsys.readouterr().out
    with open_location("g1") as source, open_location("picked") as picked:
        for key, copied in (("2", "0"), ("4", "1")):
            camera = "signal/observation.images.cam_high"
            assert (picked.lane(copied, camera, 50, 52) == source.lane(key, camera, 50, 52)).all()
            assert (picked.lane(copied, "action/action") == source.lane(key, "action/action")).all()
