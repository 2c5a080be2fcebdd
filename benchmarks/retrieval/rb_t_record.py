"""Records the sets of benchmark RB-T that simulators give: the same label is the same behaviour, played differently.

Runs in an environment of its own (gymnasium[mujoco], gymnasium-robotics, gym-pusht, highway-env; see the Makefile) and
knows nothing of this project: python benchmarks/retrieval/rb_t_record.py FOLDER writes NAME.npz of every set that
FOLDER lacks: obs [steps, D] and act [steps, A] float32 of all episodes, lengths [episodes], labels [episodes].
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import gymnasium
import gymnasium_robotics
import numpy as np
from rb_t_drone import fly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Rows = NDArray[np.float64]
    Episode = tuple[list[Rows], list[Rows]]
    Play = Callable[[int, np.random.Generator, float], Episode]

LABELS: Final = 12
EPISODES: Final = 16
NOISE: Final = (0.0, 0.1, 0.3)


def _steps(rng: np.random.Generator) -> tuple[int, float]:
    """Return how many timesteps an episode has, and its pace."""
    return int(rng.integers(80, 200)), float(rng.uniform(0.75, 1.3))


def _observed(seen: Any) -> Rows:
    return np.concatenate([seen["observation"], seen["achieved_goal"]]) if isinstance(seen, dict) else np.asarray(seen)


def _run(env: Any, seed: int, steps: int, act: Callable[[int, Rows], Rows]) -> Episode:
    seen, _ = env.reset(seed=seed)
    rows, actions = [], []
    low, high = env.action_space.low, env.action_space.high
    for step in range(steps):
        action = np.clip(act(step, _observed(seen)), low, high).astype(np.float32)
        rows.append(_observed(seen))
        actions.append(action)
        seen, _, ended, _, _ = env.step(action)
        if ended:
            break
    return rows, actions


def _gaits(name: str, channels: int, labels_seed: int, **options: Any) -> Play:
    """Return gaits: half of the labels are oscillators, the others linear policies of what is observed."""
    env = gymnasium.make(name, disable_env_checker=True, **options).unwrapped
    joints = env.action_space.shape[0]

    def play(label: int, rng: np.random.Generator, noise: float) -> Episode:
        style = np.random.default_rng(labels_seed + label)
        amplitude, phase = style.uniform(0.3, 0.9, joints), style.uniform(0, 2 * np.pi, joints)
        rate, gains = style.uniform(0.15, 0.5), style.normal(0, 0.6, (joints, channels))
        steps, pace = _steps(rng)
        begin = rng.uniform(0, 2 * np.pi)

        def act(step: int, seen: Rows) -> Rows:
            swing = amplitude * np.sin(rate * pace * step + phase + begin)
            action = swing if label < LABELS // 2 else np.tanh(gains @ seen[:channels]) * 0.6 + 0.4 * swing
            return action + rng.normal(0, noise, joints)

        rows, actions = _run(env, int(rng.integers(1 << 30)), steps, act)
        return [row[:channels] for row in rows], actions

    return play


def _poses(name: str, channels: int, labels_seed: int, count: int = 4) -> Play:
    """Return gestures: a series of target poses of all joints, each taken in its own time."""
    env = gymnasium.make(name, disable_env_checker=True).unwrapped
    space = env.action_space
    middle, reach = (space.high + space.low) / 2, (space.high - space.low) / 2

    def play(label: int, rng: np.random.Generator, noise: float) -> Episode:
        style = np.random.default_rng(labels_seed + label)
        poses = style.uniform(-0.9, 0.9, (count, space.shape[0])) * reach + middle
        poses = poses + rng.normal(0, 0.1, poses.shape) * reach
        steps, _ = _steps(rng)
        times = np.cumsum(rng.uniform(0.5, 1.5, count))
        times = (times - times[0]) / (times[-1] - times[0]) * (steps - 1)

        def act(step: int, seen: Rows) -> Rows:  # noqa: ARG001  (open loop)
            wanted = np.array([np.interp(step, times, joint) for joint in poses.T])
            return wanted + rng.normal(0, noise, len(wanted)) * reach

        rows, actions = _run(env, int(rng.integers(1 << 30)), steps, act)
        return [row[:channels] for row in rows], actions

    return play


def _routes() -> Play:
    """Return ways of a point mass through a maze, by cells in a row, from about the same place."""
    env = gymnasium.make("PointMaze_Large-v3", continuing_task=True, disable_env_checker=True).unwrapped
    free = [env.maze.cell_rowcol_to_xy(np.array(cell)) for cell in np.argwhere(np.array(env.maze.maze_map) != 1)]

    def play(label: int, rng: np.random.Generator, noise: float) -> Episode:
        style = np.random.default_rng(4000 + label)
        stops = [free[number] for number in style.permutation(len(free))[:4]]
        steps, pace = _steps(rng)
        env.reset(seed=int(rng.integers(1 << 30)))
        env.point_env.set_state(stops[0] + rng.normal(0, 0.15, 2), np.zeros(2))
        rows, actions, goal = [], [], 1
        for _ in range(2 * steps):
            seen = env.point_env._get_obs()[0]  # noqa: SLF001  (no public way)
            ahead = stops[goal] - seen[:2]
            push = np.clip(3 * ahead, -1, 1) * pace - 0.5 * seen[2:] + rng.normal(0, noise, 2)
            action = np.clip(push, -1, 1).astype(np.float32)
            rows.append(seen)
            actions.append(action)
            env.step(action)
            if np.hypot(*ahead) < 0.4 or len(rows) > steps * goal // 2:
                goal = min(goal + 1, len(stops) - 1)
        return rows[: 2 * steps : 2], actions[: 2 * steps : 2]

    return play


def _pushes() -> Play:
    """Return figures that the pusher of Push-T draws around and through a block, wherever that lies."""
    import gym_pusht  # noqa: F401, PLC0415  (registers itself)

    env = gymnasium.make("gym_pusht/PushT-v0", obs_type="state", disable_env_checker=True).unwrapped

    def play(label: int, rng: np.random.Generator, noise: float) -> Episode:
        style = np.random.default_rng(5000 + label)
        knots = style.uniform(80, 430, (5, 2))
        steps, _ = _steps(rng)
        knots = knots + rng.normal(0, 20, knots.shape)
        knots = knots if label % 3 else knots - knots[0] + rng.uniform(150, 350, 2)  # some begin anywhere
        times = np.concatenate([[0], np.cumsum(rng.uniform(0.5, 1.5, 4))])
        times *= (steps - 1) / times[-1]
        return _run(
            env,
            int(rng.integers(1 << 30)),
            steps,
            lambda step, _: np.array([np.interp(step, times, way) for way in knots.T]) + rng.normal(0, 60 * noise, 2),
        )

    return play


def _manoeuvres() -> Play:
    """Return driving on a car park, from anywhere in any direction: pedal and wheel over time make the label."""
    import highway_env  # noqa: PLC0415

    gymnasium.register_envs(highway_env)
    config = {"policy_frequency": 10, "duration": 1000, "vehicles_count": 0, "add_walls": False}
    env = gymnasium.make("parking-v0", config=config, disable_env_checker=True).unwrapped

    def play(label: int, rng: np.random.Generator, noise: float) -> Episode:
        style = np.random.default_rng(6000 + label)
        pedal, wheel = style.uniform(-0.5, 0.9, 4), style.uniform(-0.8, 0.8, 5)
        steps, pace = _steps(rng)

        def act(step: int, seen: Rows) -> Rows:  # noqa: ARG001
            at = step / steps
            given = np.array([np.interp(at, np.linspace(0, 1, len(one)), one) for one in (pedal, wheel)])
            return given * np.array([pace, 1.0]) + rng.normal(0, 0.5 * noise, 2)

        return _run(env, int(rng.integers(1 << 30)), steps, act)

    return play


SETS: Final[dict[str, Callable[[], Play]]] = {
    "hopper": lambda: _gaits("Hopper-v5", 11, 1000, terminate_when_unhealthy=False),
    "ant": lambda: _gaits("Ant-v5", 27, 2000, terminate_when_unhealthy=False),
    "hand": lambda: _poses("AdroitHandPen-v1", 24, 3000),
    "arm": lambda: _poses("Pusher-v5", 14, 3500),
    "maze": _routes,
    "pusht": _pushes,
    "parking": _manoeuvres,
    "drone": lambda: fly,
}


def _episodes(play: Play, name: str) -> Iterator[tuple[Rows, Rows, int]]:
    for label in range(LABELS):
        for number in range(EPISODES):
            rng = np.random.default_rng([len(name), *name.encode(), label, number])
            rows, actions = play(label, rng, NOISE[number % 3])
            yield np.array(rows, np.float32), np.array(actions, np.float32), label


def main() -> None:
    """Record every set that the folder lacks."""
    warnings.filterwarnings("ignore")
    gymnasium.register_envs(gymnasium_robotics)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in SETS.items():
        target = folder / f"{name}.npz"
        if target.exists():
            continue
        rows, actions, labels = zip(*_episodes(make(), name), strict=True)
        part = target.with_suffix(".partial.npz")
        np.savez(
            part,
            obs=np.concatenate(rows),
            act=np.concatenate(actions),
            lengths=np.array([len(one) for one in rows]),
            labels=np.array(labels),
        )
        part.replace(target)
        print(f"  {name}: {len(rows)} episodes, {sum(map(len, rows))} steps", flush=True)


if __name__ == "__main__":
    main()
