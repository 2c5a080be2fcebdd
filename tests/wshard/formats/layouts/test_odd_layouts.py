"""Guesses about files of odd layouts, which a generator writes: they are right, or open; none is wrong in silence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from odd_layouts import OddLayout, write_odd_layout

from wshard.formats.layouts.guessing.describe import describe_guess
from wshard.formats.layouts.guessing.guess import guess_layout
from wshard.formats.layouts.named import layout_reference
from wshard.formats.open import open_location

if TYPE_CHECKING:
    from pathlib import Path

    from wshard import Episode

COUNT = 48
OPEN = re.compile("^batch|^groups|inclusive|splits")  # what two readings may explain, in the generator's words


def _lanes(episode: Episode) -> dict[str, Any]:
    lanes = {f"action {name.rpartition('/')[2]}": channel.data for name, channel in episode.actions.items()}
    lanes |= {f"observation {name.rpartition('/')[2]}": channel.data for name, channel in episode.observations.items()}
    return lanes | ({} if episode.rewards is None else {"reward": episode.rewards})


def _expected(odd: OddLayout) -> list[dict[str, Any]]:
    keys = {name: f"observation {word}" for name, word in odd.names.items()}
    keys |= {"action": f"action {odd.names['action']}", "reward": "reward"}
    return [
        {keys[name]: values[: len(episode["action"])] for name, values in episode.items()} for episode in odd.episodes
    ]


def _is_same(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    return all(
        key in found and found[key].size == values.size and np.array_equal(found[key].ravel(), values.ravel())
        for key, values in expected.items()
    )


@pytest.mark.parametrize("seed", range(COUNT))
def test_a_guess_is_right_or_open(tmp_path: Path, seed: int) -> None:
    odd = write_odd_layout(tmp_path, seed)
    guess = guess_layout(odd.path)
    if not guess.is_certain:
        assert OPEN.search(odd.how), (odd.how, guess.open_choices())
        return
    description = tmp_path / "guess.toml"
    description.write_text(describe_guess(guess))
    with open_location(odd.path, layout_reference(description)) as source:
        episodes = [source.load(key) for key in source.keys()]  # noqa: SIM118  (a Source is no mapping)
    found = [_lanes(episode) for episode in episodes]
    expected = _expected(odd)
    assert len(found) == len(expected), odd.how
    assert all(any(_is_same(one, other) for one in found) for other in expected), odd.how
    if odd.rate:
        assert {round(episode.timebase.tick_hz) for episode in episodes if episode.length > 1} <= {odd.rate}
