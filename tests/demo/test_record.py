"""The demo recorder: what it plans, that recordings can be replayed, and that it survives interruptions."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paths import ROOT

from demo.record import Summary, record, record_all
from demo.tasks import CLASSIC, METAWORLD, METAWORLD_TASKS, Job, plan
from wshard import ChannelDef, DType, Modality, WShardStreamWriter, load_wshard
from wshard.errors import EpisodeError, MissingExtraError, RecordingExistsError

if TYPE_CHECKING:
    from pathlib import Path


def job_of(task: str, episode: int) -> Job:
    return next(job for job in plan(episodes=11) if (job.task, job.episode) == (task, episode))


def short_job(number: int) -> Job:
    """Return an episode with pictures that ends early, since nothing but chance steers."""
    return replace(job_of("CartPole-v1", number), noise=1.0)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return a function that gives the recording of an episode; none is recorded twice."""
    folder = tmp_path_factory.mktemp("recorded")
    return lambda task, episode: record(job_of(task, episode), folder)


# --- the plan ---------------------------------------------------------------------------------------------------------


def test_the_whole_plan_is_two_hundred_arm_and_twenty_four_camera_episodes():
    jobs = plan()
    assert [sum(job.suite == suite for job in jobs) for suite in (METAWORLD, CLASSIC)] == [200, 24]
    assert len({job.file for job in jobs}) == len({job.episode_id for job in jobs}) == 224
    assert list(METAWORLD_TASKS) == sorted(set(METAWORLD_TASKS))
    assert job_of("reach-v3", 4).file == "metaworld/reach-v3/ep_004.wshard"
    assert [job_of("reach-v3", episode).noise for episode in range(4)] == [0.0, 0.1, 0.3, 0.0]


@given(st.integers(0, 20), st.integers(0, 50), st.integers(0, 60))
def test_a_smaller_plan_is_a_part_of_a_larger_one(tasks: int, episodes: int, camera_episodes: int):
    jobs = plan(tasks, episodes, camera_episodes)
    assert len(jobs) == tasks * episodes + 4 * camera_episodes
    assert set(jobs) <= set(plan(20, 50, 60))


@pytest.mark.parametrize("wrong", [{"tasks": 21}, {"tasks": -1}, {"episodes": 51}, {"camera_episodes": -1}])
def test_a_plan_out_of_range_is_refused(wrong: dict[str, int]):
    with pytest.raises(EpisodeError, match=f"{next(iter(wrong))} between 0 and .* found {next(iter(wrong.values()))}"):
        plan(**wrong)


# --- the episodes -----------------------------------------------------------------------------------------------------


def replay_arm(job: Job, actions: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Execute recorded actions in a fresh environment; beside them, ask the scripted policy what it would do."""
    import metaworld  # noqa: PLC0415  (which every process that collects tests would import)
    from metaworld.policies import ENV_POLICY_MAP  # noqa: PLC0415

    benchmark = metaworld.MT1(job.task, seed=42)
    env, policy = benchmark.train_classes[job.task](), ENV_POLICY_MAP[job.task]()
    env.set_task(benchmark.train_tasks[job.episode])
    rng = np.random.default_rng(job.seed)
    state, _ = env.reset()
    rows = []
    for action in actions:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"Constant\(s\) may be too high")
            wanted = np.clip(policy.get_action(state) + rng.normal(0, job.noise, 4), -1, 1)
        before = state
        state, reward, _, _, info = env.step(action)
        rows.append((before, wanted, reward, info["success"]))
    env.close()
    names = ("state", "ctrl", "reward", "success")
    return {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


@pytest.mark.parametrize(("task", "episode"), [("reach-v3", 10)])
@pytest.mark.long
def test_an_arm_episode_is_what_the_simulator_does_under_the_recorded_actions(recorded, task, episode):
    job = job_of(task, episode)
    recorded = load_wshard(recorded(task, episode))
    lanes = recorded.lanes()
    replayed = replay_arm(job, lanes["action/ctrl"].data)
    np.testing.assert_array_equal(lanes["signal/state"].data, replayed["state"].astype(np.float32))
    np.testing.assert_array_equal(lanes["action/ctrl"].data, replayed["ctrl"].astype(np.float32))
    np.testing.assert_array_equal(recorded.rewards, replayed["reward"].astype(np.float32))
    stored = replayed["success"].sum()
    assert stored == 10 or (stored < 10 and recorded.length == 250)
    assert recorded.metadata["success"] is bool(stored)
    assert recorded.metadata["stop"] == ("10 successful steps" if stored == 10 else "limit of 250 steps")


def test_an_arm_episode_reports_where_it_comes_from(recorded):
    recorded = load_wshard(recorded("reach-v3", 10))
    message = recorded.metadata
    assert (recorded.id, recorded.env_id, recorded.timebase.tick_hz) == ("reach-v3-010", "reach-v3", 80.0)
    assert (message["task"], message["policy"]) == ("reach-v3", "SawyerReachV3Policy")
    assert (message["action_noise"], message["seed"], message["goal_seed"]) == (0.1, 16010, 42)
    assert (message["simulator"], sorted(message["versions"])) == ("metaworld", ["metaworld", "mujoco"])
    assert not np.any(recorded.terminations)
    assert np.flatnonzero(recorded.truncations).tolist() == [recorded.length - 1]


@pytest.mark.parametrize("task", ["CartPole-v1", pytest.param("Pendulum-v1", marks=pytest.mark.long)])
def test_a_camera_episode_is_what_the_environment_shows_under_the_recorded_actions(recorded, task):
    job = job_of(task, 5)
    recorded = load_wshard(recorded(task, 5))
    lanes = recorded.lanes()
    env = importlib.import_module("gymnasium").make(task, render_mode="rgb_array", max_episode_steps=1000)
    state, _ = env.reset(seed=job.seed)
    physics: Any = env.unwrapped
    rate = 1 / getattr(physics, "tau", getattr(physics, "dt", 1 / 30))
    for t, action in enumerate(lanes["action/ctrl"].data):
        stride = 5 if task in {"Acrobot-v1", "Pendulum-v1"} else 4
        np.testing.assert_array_equal(lanes["signal/camera/rgb"].data[t], env.render()[::stride, ::stride])
        np.testing.assert_array_equal(lanes["signal/state"].data[t], state)
        state, reward, terminated, _, _ = env.step(action)
        assert recorded.rewards[t] == np.float32(reward)
        assert recorded.terminations[t] == terminated
    env.close()
    assert (recorded.truncations is not None and recorded.truncations[-1]) == (recorded.length == 200)
    assert recorded.length == 200 or recorded.terminations[-1]
    assert recorded.timebase.tick_hz == pytest.approx(rate)
    assert lanes["signal/camera/rgb"].modality is Modality.RGB


@pytest.mark.parametrize(("task", "success_means_terminated"), [("CartPole-v1", False), ("MountainCar-v0", True)])
@pytest.mark.long
def test_success_is_reported_where_the_environment_defines_it(recorded, task, success_means_terminated):
    for episode in (0, 5):
        found = load_wshard(recorded(task, episode))
        assert found.metadata["success"] is (bool(found.terminations[-1]) == success_means_terminated)
        assert found.metadata["success"] or episode == 5, "without noise the controller must succeed"


@pytest.mark.long
def test_no_success_is_made_up_for_the_pendulum(recorded):
    recorded = load_wshard(recorded("Pendulum-v1", 0))
    message = recorded.metadata
    assert "success" not in message
    assert message["stop"] == "limit of 200 steps"
    assert message["frames"].startswith("every 5th row and column of 500x500 pixels")
    assert recorded.lanes()["signal/state"].data[-1, 0] > 0.99, "the controller holds the rod upright"


def test_a_missing_simulator_is_an_error_that_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "demo.arm", raising=False)
    monkeypatch.setitem(sys.modules, "metaworld", None)
    with pytest.raises(MissingExtraError, match=r"metaworld/reach-v3/ep_000\.wshard .*wshard\[demo\]"):
        record(job_of("reach-v3", 0), tmp_path)
    assert record(short_job(0), tmp_path).exists()


# --- recording, again and in parallel ---------------------------------------------------------------------------------


def assert_same(first: Path, second: Path):
    one, other = load_wshard(first), load_wshard(second)
    assert (one.id, one.length, one.metadata) == (other.id, other.length, other.metadata)
    assert one.lanes().keys() == other.lanes().keys()
    for name, lane in one.lanes().items():
        np.testing.assert_array_equal(lane.data, other.lanes()[name].data, err_msg=name)
    np.testing.assert_array_equal(one.rewards, other.rewards)


@pytest.mark.long
def test_an_episode_does_not_depend_on_what_was_recorded_before_it(tmp_path, recorded):
    jobs = [job_of("reach-v3", number) for number in (0, 10)]
    record_all(tmp_path / "after", jobs, workers=1)
    assert_same(recorded("reach-v3", 10), tmp_path / "after" / jobs[-1].file)


def test_episodes_of_one_task_differ(tmp_path):
    first, second = (load_wshard(record(short_job(episode), tmp_path)) for episode in (0, 5))
    assert not np.array_equal(first.lanes()["signal/state"].data[0], second.lanes()["signal/state"].data[0])


def test_a_finished_file_is_left_alone(tmp_path):
    job = job_of("CartPole-v1", 0)
    path = tmp_path / job.file
    path.parent.mkdir(parents=True)
    path.write_bytes(b"finished earlier")
    assert record(job, tmp_path) == path
    assert path.read_bytes() == b"finished earlier"


def test_what_a_killed_recording_left_is_replaced(tmp_path):
    job = short_job(0)
    path = tmp_path / job.file
    partial = tmp_path / (job.file + ".partial")
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"killed")
    path.write_bytes(b"perhaps whole")  # killed while it was published
    assert record_all(tmp_path, [job]).recorded == 1
    assert not partial.exists()
    assert_same(path, record(job, tmp_path / "other"))


def test_a_file_that_another_process_records_is_not_touched(tmp_path):
    job = job_of("CartPole-v1", 0)
    path = tmp_path / job.file
    path.parent.mkdir(parents=True)
    with WShardStreamWriter(path, "theirs", [ChannelDef("x", DType.FLOAT32, [])], action_defs=[]) as theirs:
        theirs.begin_episode()
        with pytest.raises(RecordingExistsError, match="another writer"):
            record(job, tmp_path)
        theirs.write_timestep(0, {"x": np.float32(1)}, {}, 0.0, done=True)
    assert load_wshard(path).id == "theirs"


@pytest.mark.long
def test_all_jobs_are_recorded_once_and_progress_counts_them(tmp_path):
    jobs = [job_of("Pendulum-v1", 0), *map(short_job, range(3))]  # of two tasks, so that there is work for two
    record(jobs[-1], tmp_path)
    calls: list[tuple[int, int, int]] = []
    summary = record_all(tmp_path, jobs, workers=2, progress=lambda *counts: calls.append(counts))
    steps = sum(load_wshard(tmp_path / job.file).length for job in jobs[:-1])
    assert summary == Summary(recorded=3, skipped=1, steps=steps)
    assert calls[0] == (1, 4, 0)
    assert calls[-1] == (4, 4, steps)
    assert calls == sorted(calls)
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")} == {job.file for job in jobs}
    assert record_all(tmp_path, jobs) == Summary(recorded=0, skipped=4, steps=0)


def test_an_error_in_a_worker_reaches_the_caller(tmp_path):
    (tmp_path / "classic").write_bytes(b"a file where a folder is needed")
    with pytest.raises(NotADirectoryError):
        record_all(tmp_path, plan(tasks=0, camera_episodes=1), workers=2)


SCRIPT = """
import sys
from pathlib import Path
from demo.record import record_all
from demo.tasks import plan

if __name__ == "__mp_main__":  # in processes that record: short episodes
    from demo import classic
    classic._MAX_STEPS = 20

if __name__ == "__main__":
    try:
        jobs = sorted(plan(tasks=0, camera_episodes=10), key=lambda job: job.episode)  # a process takes one at a time
        record_all(Path(sys.argv[1]), jobs, workers=2, progress=lambda *counts: print(*counts, flush=True))
    except KeyboardInterrupt:
        print("stopped", flush=True)
"""


@pytest.fixture
def recorder(tmp_path):
    """Return a recording process that leads its own process group, as a shell would start it."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "out")],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        yield process
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.long
@pytest.mark.parametrize("episodes_before", [0, 2], ids=["while processes start", "in the middle"])
def test_ctrl_c_stops_all_processes_quietly_and_leaves_whole_files(tmp_path, recorder, episodes_before):
    while int(recorder.stdout.readline().split()[0]) < episodes_before:
        pass
    time.sleep(0.1)
    os.killpg(recorder.pid, signal.SIGINT)
    said, complained = recorder.communicate(timeout=60)  # returns when the last process has let go of the pipes
    assert (said.splitlines()[-1], complained, recorder.returncode) == ("stopped", "", 0)
    assert not list(tmp_path.rglob("*.partial"))
    files = list(tmp_path.rglob("*.wshard"))
    assert episodes_before <= len(files) < 40
    for path in files:
        load_wshard(path)


@pytest.mark.long
def test_workers_end_when_their_parent_is_killed(recorder):
    while int(recorder.stdout.readline().split()[0]) == 0:
        pass
    recorder.kill()
    recorder.communicate(timeout=10)  # raises TimeoutExpired while a worker still holds the pipes
    assert recorder.returncode == -signal.SIGKILL
