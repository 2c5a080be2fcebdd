"""Episodes of four movements in any order, each at its own pace: what tests of moments search."""

from __future__ import annotations

import numpy as np
from command_line import app
from typer.testing import CliRunner

from bridge.search.moments.overlap import overlap
from embedders import ArcDct, WindowPlan
from wshard import Channel, Episode, TrajectoryIngestor, save_wshard

PLAN = WindowPlan(scales=(12, 18, 27, 40))
ACTS = ("reach", "turn", "press", "lift")
PACE = {"reach": 30, "turn": 22, "press": 26, "lift": 18}


def act(name, steps):
    """Return [steps, 4]: one movement, its last channel constant."""
    clock = np.linspace(0, 1, steps)[:, None]
    shape = np.random.default_rng(ACTS.index(name))
    path = np.sin(6 * shape.uniform(0.4, 1.6, 3) * clock + shape.uniform(0, 6, 3)) * shape.uniform(1, 2, 3)
    return np.concatenate([path, np.ones((steps, 1))], axis=1)


def play(number):
    """Return lanes [T, 4] of an episode and its acts as (name, start, stop)."""
    rng = np.random.default_rng(100 + number)
    rows, acts = [], []
    for name in rng.permutation(ACTS):
        steps = int(PACE[name] * rng.uniform(0.7, 1.4))
        start = sum(map(len, rows))
        acts.append((str(name), start, start + steps))
        rows.append(act(name, steps) + 0.05 * rng.normal(size=(steps, 4)) * [1, 1, 1, 0])
    return np.concatenate(rows).astype(np.float32), acts


def episode_of(number):
    rows, _ = play(number)
    observations = {"pose": Channel.of("pose", rows[:, :3]), "still": Channel.of("still", rows[:, 3])}
    return Episode(f"play-{number}", f"env-{number % 3}", len(rows), observations=observations)


def stored(archive, episodes, plan=PLAN, embedder=None):
    folder = archive / "episodes"
    folder.mkdir(exist_ok=True)
    for one in episodes:
        save_wshard(one, folder / f"{one.id}.wshard")
    with TrajectoryIngestor(archive, embedder or ArcDct(damping=0.0)) as ingestor:
        assert ingestor.ingest(folder, windows=plan).ok
    return folder


def name_of(archive, number):
    return archive / "episodes" / f"play-{number}.wshard"


def labels(hit):
    """Return the act of the hit's episode that its span overlaps most, and by how much."""
    _, acts = play(int(hit.episode_id.removeprefix("play-")))
    shares = overlap(np.array([span for _, *span in acts]), hit.span)
    return acts[int(shares.argmax())][0], float(shares.max())


def run(archive, arguments, code=0):
    done = CliRunner().invoke(app, [*map(str, arguments), "--archive", str(archive)])
    assert done.exit_code == code, done.output
    return done.stdout
