"""The command `demo`: sample episodes of a drawn robot arm, made in a second without a simulator."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Final

import typer

from wshard.cli.common import EXIT_FAILED, local_place, printable, reported
from wshard.core.episode.protocol import ARCHIVE_DATABASE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np

    from wshard.core.types import Episode

TASKS: Final = {
    "circle": "draw a circle",
    "push": "push the block to the left",
    "reach": "reach above the block",
    "wave": "wave the hand",
}
_EACH: Final = 10  # episodes of a task
_PIXELS: Final = 48
_LINKS: Final = (0.6, 0.5)
_COLOURS: Final = ((200, 120, 60), (230, 160, 90))


@reported()
def demo(
    folder: Annotated[
        str, typer.Argument(help="New folder for the episode files.", parser=local_place, metavar="FOLDER")
    ] = "episodes",
) -> None:
    """Write 41 sample episodes of a robot arm, with a camera, to try things out.

    Four tasks of ten episodes each, and faults to find: `push-copy` is a noisy copy of push-03, `circle-05` has a
    spike, `wave-07` the task of another, and `reach-09` fails.
    """
    from pathlib import Path

    from wshard.core.episode.file import save_wshard

    place = Path(folder)
    found = {one.name for one in place.iterdir()} if place.is_dir() else set()
    names = {f"{task}-{number:02d}.wshard" for task in TASKS for number in range(_EACH)} | {"push-copy.wshard"}
    if names <= found:
        typer.echo(f"the {len(names)} episodes are in {printable(folder)} already")
        typer.echo(f"next: wshard ingest {printable(folder)}")
        return
    if found or (place.exists() and not place.is_dir()):
        typer.echo(f"error: expected a new folder, found {printable(folder)}: name another one", err=True)
        raise typer.Exit(EXIT_FAILED)
    place.mkdir(parents=True, exist_ok=True)
    for episode in make_episodes():
        save_wshard(episode, place / f"{episode.id}.wshard", "zstd")
    typer.echo(f"{len(names)} episodes of {len(TASKS)} tasks in {printable(folder)}")
    if _has_archive(Path.cwd()):  # which a later command would take
        typer.echo("here, or in a folder above, is an archive; to keep the samples apart from it:")
        typer.echo(f"next: cd {printable(folder)} && wshard ingest . --archive .wshard")
    else:
        typer.echo(f"next: wshard ingest {printable(folder)}")


def _has_archive(folder: Path) -> bool:
    """Return whether commands without --archive find an archive from this folder."""
    places = (f"{one}/.wshard/{ARCHIVE_DATABASE}" for one in (folder, *folder.parents))
    return any(map(os.path.isfile, places))


def make_episodes() -> Iterator[Episode]:
    """Yield the sample episodes, the same each time."""
    import numpy as np

    for place, task in enumerate(TASKS):
        for number in range(_EACH):
            rng = np.random.default_rng([place, number])
            joints, block = _move_arm(task, rng)
            said = TASKS["circle" if (task, number) == ("wave", 7) else task]
            failed = (task, number) == ("reach", 9)
            if failed:
                joints[len(joints) // 3 :] = joints[len(joints) // 3]
            if (task, number) == ("circle", 5):
                joints[30] += 4.0
            yield _make_episode(f"{task}-{number:02d}", (joints, block), said, success=not failed)
            if (task, number) == ("push", 3):
                noisy = joints[3:] + rng.normal(0, 0.002, joints[3:].shape)
                yield _make_episode("push-copy", (noisy, block[3:]), said, success=True)


def _move_arm(task: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the joint angles [T, 2] of one performance of a task, and the places of the block [T, 2]."""
    import numpy as np

    steps = int(rng.integers(70, 120))
    clock = np.linspace(0, 1, steps) ** rng.uniform(0.8, 1.25)
    turn = 2 * np.pi * clock
    start = np.array([1.2, 0.9]) + rng.normal(0, 0.08, 2)
    block = np.tile(np.array([0.55, 0.15]) + rng.normal(0, 0.03, 2), (steps, 1))
    if task == "circle":
        move = np.stack([0.45 * np.cos(turn) - 0.45, 0.45 * np.sin(turn)], axis=1)
    elif task == "wave":
        move = np.stack([0.1 * turn / 6, 0.6 * np.sin(4 * turn)], axis=1)
    elif task == "reach":
        move = clock[:, None] * [-0.9, 0.5]
    else:
        there = np.clip(2 * clock, 0, 1)[:, None] * [-0.8, 0.3]
        move = there + np.clip(2 * clock - 1, 0, 1)[:, None] * [1.0, 0.6]
        block[:, 0] -= 0.5 * np.clip(2 * clock - 1, 0, 1)
    return start + move + rng.normal(0, 0.01, move.shape), block


def _make_episode(name: str, motion: tuple[np.ndarray, np.ndarray], said: str, *, success: bool) -> Episode:
    import numpy as np

    from wshard.core.timebase import TimebaseSpec
    from wshard.core.types import Channel, Episode

    joints, block = motion
    elbow = _LINKS[0] * np.stack([np.cos(joints[:, 0]), np.sin(joints[:, 0])], axis=1)
    angle = joints.sum(axis=1)
    hand = elbow + _LINKS[1] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    state = np.concatenate([joints, hand, block], axis=1).astype(np.float32)
    names = ("shoulder", "elbow", "hand_x", "hand_y", "block_x", "block_y")
    speed = np.gradient(joints, axis=0).astype(np.float32)
    return Episode(
        id=name,
        env_id="arm",
        length=len(state),
        timebase=TimebaseSpec(tick_hz=20.0),
        observations={
            "state": Channel.of("state", state, names=names),
            "camera": Channel.of("camera", _draw_frames(elbow, hand, block)),
        },
        actions={"ctrl": Channel.of("ctrl", speed, names=names[:2])},
        rewards=-np.linalg.norm(hand - block, axis=1).astype(np.float32) / len(state),
        metadata={"task": said, "success": success},
    )


def _draw_frames(elbow: np.ndarray, hand: np.ndarray, block: np.ndarray) -> np.ndarray:
    """Return pictures [T, H, W, 3] of the two links and of the block."""
    import numpy as np

    columns, rows = np.linspace(-1.2, 1.2, _PIXELS), np.linspace(1.2, -1.2, _PIXELS)[:, None]
    frames = np.full((len(hand), _PIXELS, _PIXELS, 3), 24, np.uint8)
    block_x, block_y = block.T[..., None, None]
    frames[(np.abs(columns - block_x) < 0.1) & (np.abs(rows - block_y) < 0.1)] = (70, 130, 200)
    for begin, end, colour in zip((np.zeros_like(elbow), elbow), (elbow, hand), _COLOURS, strict=True):
        begin_x, begin_y = begin.T[..., None, None]
        along_x, along_y = (end - begin).T[..., None, None]
        right, up = columns - begin_x, rows - begin_y
        share = np.clip((right * along_x + up * along_y) / (along_x**2 + along_y**2), 0, 1)
        frames[(right - share * along_x) ** 2 + (up - share * along_y) ** 2 < 0.06**2] = colour
    return frames
