"""What benchmark RB-W takes for the error of a world model. No simulator is needed."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from paths import ROOT

FOLDER = ROOT / "benchmarks" / "retrieval"


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.syspath_prepend(str(FOLDER.parent))
    import rb_w  # noqa: PLC0415  (importable only now)
    import rb_w_record  # noqa: PLC0415

    yield SimpleNamespace(w=rb_w, record=rb_w_record)
    for name in [name for name in sys.modules if name.startswith("rb_") or name == "machine"]:
        sys.modules.pop(name)


def test_the_episode_whose_arm_follows_its_commands_less_has_the_largest_error(modules):
    """The others follow exactly, with noise, so that nothing else is left to explain."""
    rng, played = np.random.default_rng(0), []
    for number in range(8):
        commands = rng.normal(size=(60, 4))
        steps = (0.5 if number == 5 else 1.0) * 0.1 * commands + 0.001 * rng.normal(size=(60, 4))
        places = np.vstack([np.zeros(4), np.cumsum(steps, axis=0)[:-1]])
        observations = np.hstack([places, np.zeros((60, 3))]).astype(np.float32)
        played.append(modules.record.Played("t", "", observations, commands.astype(np.float32)))
    errors = modules.w.errors_of(played)
    assert [error.shape for error in errors] == [(60, 4)] * 8
    sizes = np.array([np.abs(error).mean() for error in errors])
    assert sizes.argmax() == 5
    assert sizes[5] > 2 * np.delete(sizes, 5).max()
    assert modules.w.lane_of(errors[5])[20:40, 4:].mean() > modules.w.lane_of(errors[0])[20:40, 4:].mean()
