"""What benchmark RB-V compares and reports. No simulator is needed."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from paths import ROOT

from embedders import Frames

FOLDER = ROOT / "benchmarks"
TASKS, EPISODES, FRAMES, SIDE = 3, 6, 4, 32


@pytest.fixture
def modules(monkeypatch):
    for folder in (FOLDER, FOLDER / "retrieval"):
        monkeypatch.syspath_prepend(str(folder))
    before = {*sys.modules}
    import rb_v  # noqa: PLC0415  (importable only now)
    import rb_v_events  # noqa: PLC0415
    import rb_v_record  # noqa: PLC0415
    import rb_v_views  # noqa: PLC0415

    yield SimpleNamespace(rb_v=rb_v, record=rb_v_record, views=rb_v_views, events=rb_v_events)
    for name in {*sys.modules} - before:
        if name.startswith("rb_"):
            sys.modules.pop(name)


def seen(seed):
    """Return uint8 [18, 4, 32, 32, 3]: a wall of each task, with noise of each episode."""
    rng = np.random.default_rng(seed)
    walls = rng.integers(40, 200, (TASKS, 1, 1, 8, 8, 3)).repeat(4, axis=3).repeat(4, axis=4)
    noise = rng.normal(0, 4, (TASKS, EPISODES, FRAMES, SIDE, SIDE, 3))
    return np.clip(walls + noise, 0, 255).astype(np.uint8).reshape(-1, FRAMES, SIDE, SIDE, 3)


def test_every_view_is_measured_by_all_columns_and_reported(modules):
    rb_v, record, views = modules.rb_v, modules.record, modules.views
    tasks = np.repeat([f"task-{number}" for number in range(TASKS)], EPISODES)
    states = np.random.default_rng(1).normal(size=(len(tasks), FRAMES, 5)).astype(np.float32)
    near, other = seen(0), seen(1)
    scenes = {"dim": near // 2, "wrong": near[np.roll(np.arange(len(tasks)), EPISODES)]}
    data = record.Rendered(tasks, states, {"near": near, "far": other}, scenes)
    found = [rb_v.measure_view(view, data) for view in views.views()]
    for one in found:
        perfect = ("same camera", "picture", "goal -> episodes", "episode -> goals")
        assert [one.values[name] for name in perfect] == pytest.approx([1.0] * 4), one.name
        assert one.values["wrong"] < 0.7
    assert found[-1].values["dim"] == pytest.approx(1.0)
    table = rb_v.report(found, "tuned")
    assert all(table.count(f"| {one.name} |") == 2 for one in found)
    assert "theirs, other data: jina-embeddings-v5-omni-nano | .230 | .296" in table


def test_a_planted_event_is_found_by_a_picture_of_another(modules):
    events, steps = modules.events, 40
    rng = np.random.default_rng(3)
    wall = rng.integers(40, 200, (1, 1, 12, 12, 3)).repeat(8, axis=2).repeat(8, axis=3)
    frames = np.clip(wall + rng.normal(0, 2, (6, steps, 96, 96, 3)), 0, 255).astype(np.uint8)
    states = np.zeros((6, steps, 4), np.float32)
    data = modules.record.Rendered(np.repeat(["task"], 6), states, {"this camera": frames}, {})
    take = modules.record.Take(slice(0, 1, 1), 6, 1, first=steps, part=events.LENGTH)
    lit, planted = events.plant_lamps(data, take)
    (changed,) = np.nonzero((lit.cameras["this camera"] != frames).any(axis=(1, 2, 3, 4)))
    assert [episode for episode, _ in planted] == changed.tolist() == [0, 2, 4]
    (found,) = events.measure_events(lit, planted, {"frames": Frames()}, rng, kind="lamp")
    assert (found.first, found.questions) == (1.0, 3)
    assert 0 < found.chance < 0.3  # of three episodes in six, 21 timesteps of 40 at most


def test_grasps_are_where_an_open_gripper_closes(modules):
    states = np.ones((3, 20, 4), np.float32)
    states[0, 12:, 3] = 0.4
    states[1, :, 3] = 0.5
    data = modules.record.Rendered(np.repeat(["task"], 3), states, {}, {})
    assert modules.events.find_grasps(data) == [(0, 12)]
