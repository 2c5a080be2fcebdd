"""The episodes that the demo records: tasks, seeds, action noise and file names.

Importing this module loads no simulator.
"""

from __future__ import annotations

from dataclasses import dataclass

from wshard.errors import EpisodeError

METAWORLD = "metaworld"
CLASSIC = "classic"

# Chosen for variety (reach, push, lift, insert, turn, slide, press) among tasks whose scripted policy mostly succeeds.
METAWORLD_TASKS = (
    "assembly-v3",
    "basketball-v3",
    "button-press-topdown-v3",
    "coffee-button-v3",
    "dial-turn-v3",
    "door-close-v3",
    "door-open-v3",
    "drawer-close-v3",
    "drawer-open-v3",
    "faucet-open-v3",
    "hammer-v3",
    "lever-pull-v3",
    "peg-insert-side-v3",
    "pick-place-v3",
    "plate-slide-v3",
    "push-v3",
    "reach-v3",
    "sweep-into-v3",
    "window-close-v3",
    "window-open-v3",
)
CLASSIC_TASKS = ("Acrobot-v1", "CartPole-v1", "MountainCar-v0", "Pendulum-v1")

NOISE_LEVELS = (0.0, 0.1, 0.3)
GOALS_PER_TASK = 50  # MetaWorld draws this many goals per task and seed; an episode number is a goal number
_SEEDS_PER_TASK = 1000


@dataclass(frozen=True)
class Job:
    """One episode to record. Equal jobs give equal episodes, in whatever order and process they are recorded.

    noise is a standard deviation for continuous actions, a probability for discrete ones.
    """

    suite: str
    task: str
    episode: int
    seed: int
    noise: float

    @property
    def file(self) -> str:
        """Path of the episode below the recording folder, with forward slashes."""
        return f"{self.suite}/{self.task}/ep_{self.episode:03d}.wshard"

    @property
    def episode_id(self) -> str:
        """Name of the episode, unique within a plan."""
        return f"{self.task}-{self.episode:03d}"


def plan(tasks: int = 20, episodes: int = 10, camera_episodes: int = 6) -> tuple[Job, ...]:
    """Return the jobs of the first `tasks` arm tasks and of all classic-control tasks, ordered by task.

    episodes is the number per arm task, camera_episodes the number per classic task. A smaller plan is a subset
    of a larger one, as seeds depend only on the position in the full list. Raises EpisodeError for numbers out of
    range.
    """
    _check("tasks", tasks, len(METAWORLD_TASKS))
    _check("episodes", episodes, GOALS_PER_TASK)
    _check("camera_episodes", camera_episodes, _SEEDS_PER_TASK)
    return (
        *_jobs(METAWORLD, METAWORLD_TASKS[:tasks], episodes),
        *_jobs(CLASSIC, CLASSIC_TASKS, camera_episodes),
    )


def _jobs(suite: str, names: tuple[str, ...], episodes: int) -> tuple[Job, ...]:
    return tuple(
        Job(suite, name, episode, seed=_SEEDS_PER_TASK * task_number + episode, noise=NOISE_LEVELS[episode % 3])
        for task_number, name in enumerate(names)
        for episode in range(episodes)
    )


def _check(name: str, value: int, max_value: int) -> None:
    if not 0 <= value <= max_value:
        raise EpisodeError(f"plan: expected {name} between 0 and {max_value}, found {value}")
