"""Episodes of several tasks, archives made of them, and what an archive must be when all work is done."""

# ruff: noqa: ANN002, ANN003 -- as in tests, whose helpers these are
from __future__ import annotations

import os
import subprocess
import sys
from contextlib import chdir, contextmanager
from pathlib import Path

import numpy as np
from command_line import app
from typer.testing import CliRunner

from bridge.index.embedded.index import EmbeddedIndex
from bridge.spaces.lanes import LaneChoice
from bridge.spaces.statistics import Choice, families
from catalog.location import place_of
from embedders import Space, WindowPlan, embedder_of
from wshard import Channel, Episode, TrajectoryIngestor, load_wshard, open_archive, save_wshard

CHANNELS = 4


def episode(task=0, number=0, T=30, *, lanes=("state",), spread=1.0, **changes):  # noqa: N803 -- as in make_episode
    """Return one of many noisy performances of a task; tasks lie further apart the larger spread is."""
    shape = np.random.default_rng(1000 + task)
    noise = np.random.default_rng([task, number])
    clock = np.linspace(0, 1, T)[:, None] ** noise.uniform(0.8, 1.25)
    turns, phases = shape.uniform(0.5, 2.5, CHANNELS), shape.uniform(0, 6, CHANNELS)
    path = (
        np.sin(6 * turns * clock + phases) + 0.1 * noise.normal(size=(T, CHANNELS)) + 0.1 * noise.normal(size=CHANNELS)
    )
    path = (path * spread ** (task % 3) + spread * task).astype(np.float32)
    fields = {
        "id": f"task-{task}-{number}",
        "env_id": f"task-{task}",
        "length": T,
        "observations": {lane: Channel.of(lane, path + place) for place, lane in enumerate(lanes)},
        "actions": {"ctrl": Channel.of("ctrl", path[:, :2] / 2)},
        "rewards": np.full(T, number, np.float32),
        "metadata": {"number": number, "success": number % 2 == 0},
    }
    return Episode(**(fields | changes))


def save(folder, *episodes):
    """Save episodes below the folder and return their paths."""
    paths = []
    for one in episodes:
        path = folder / (one.env_id or "none") / f"{one.id}.wshard"
        path.parent.mkdir(parents=True, exist_ok=True)
        save_wshard(one, path)
        paths.append(path)
    return paths


def files(folder):
    return sorted(folder.rglob("*.wshard"))


def counts(report, without=""):
    left_out = ("seconds", "failed", "spaces", "alike", "formats", "anomalies", without)
    return {name: value for name, value in vars(report).items() if value and name not in left_out}


def rewrite(path, changed):
    """Replace a file as another moment would: the clock of a file system ticks slower than tests run."""
    save_to, before = path.parent / "draft.wshard", path.stat().st_mtime_ns
    save(path.parent, changed)[0].rename(save_to)
    os.utime(save_to, ns=(before, before + 10_000_000))
    save_to.rename(path)


def episodes_by_path(archive):
    with opened_archive(archive) as opened:
        return {Path(row.path): row for row in opened.catalog.query.select(limit=10_000).rows}


def ingest(archive, *paths, embedder=None, lanes=None, windows="whole", **options):
    """Ingest with an ingestor of its own, by default one vector per episode, and return the report."""
    with TrajectoryIngestor(archive, embedder, lanes=lanes) as ingestor:
        return ingestor.ingest(list(paths), windows=windows, **options)


def command(*arguments, folder):
    """Run a command of wshard within this process, in a folder and without an archive named by the environment."""
    with chdir(folder):
        return CliRunner().invoke(app, [*map(str, arguments)], env={"WSHARD_ARCHIVE": None})


def start(code, *arguments):
    """Start a child process with this code; its sys.argv[1:] are the arguments."""
    prelude = "import sys\nN = int(sys.argv.pop(1))\nsys.path[:0] = sys.argv[1 + N:]\ndel sys.argv[1 + N:]\n"
    command = [
        sys.executable,
        "-W",
        "error",
        "-c",
        prelude + code,
        str(len(arguments)),
        *map(str, arguments),
        *sys.path,
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


INGEST = """
from bridge.ingest.ingestor import TrajectoryIngestor
from bridge.support import batches
batches.BATCH = 16
class Told:
    def stage(self, what, total):
        print(what, total, flush=True)
    def advance(self, count):
        import multiprocessing
        print("workers", *(child.pid for child in multiprocessing.active_children()), flush=True)
archive, folder, workers = sys.argv[1:]
if __name__ == "__main__":
    with TrajectoryIngestor(archive) as ingestor:
        print("go", flush=True)
        report = ingestor.ingest([folder], windows="whole", workers_count=int(workers), progress=Told())
        assert report.ok, report.failed
"""


@contextmanager
def opened_archive(archive):
    """Open an archive for inspection."""
    with open_archive(archive) as opened:
        yield opened


def spaces_of(archive, state="active"):
    with opened_archive(archive) as opened:
        return [Space.from_json(row.definition) for row in opened.catalog.vectors.spaces(state)]


def vectors_of(archive):
    """Return {(fingerprint, path): vectors} of everything that is embedded, from the ledger."""
    found = {}
    with opened_archive(archive) as opened:
        paths = {id_: str(address) for id_, address in opened.catalog.episodes.places()}
        for row in opened.catalog.vectors.spaces():
            for entry in opened.catalog.vectors.ledger(row.id):
                if entry.vectors is not None:
                    key = (row.fingerprint, paths[entry.episode_id])
                    assert key not in found
                    found[key] = np.frombuffer(entry.vectors, "<f4").reshape(entry.count, -1)
    return found


def copies(archive):
    """Make the copies for searching that larger archives have."""
    for space in spaces_of(archive):
        with (
            open_archive(archive) as opened,
            EmbeddedIndex(opened.catalog, opened.place.index, tail_rows=0, lists_rows=10) as index,
        ):
            index.upsert(space, list(index.scan(space)))
    return [path for path in place_of(archive).index.rglob("*") if path.is_file()]


def assert_complete(archive, paths):
    """Check that catalog, ledger and index agree: every file, in all Spaces of its lanes, with the right vectors."""
    with opened_archive(archive) as opened:
        catalog = opened.catalog
        assert sorted(str(address) for _, address in catalog.episodes.places()) == sorted(map(str, paths))
        assert catalog.vectors.spaces("building") == []
        seen = []
        for row in catalog.vectors.spaces("active"):
            space, embedded = Space.from_json(row.definition), [*catalog.vectors.embedded(row.id)]
            entries = [entry for entry in catalog.vectors.ledger(row.id) if entry.vectors is not None]
            assert sorted(entry.episode_id for entry in entries) == embedded
            points = {point.episode: point for point in opened.index.scan(space)}
            assert opened.index.count(space) == catalog.vectors.state(row.id)[1]
            assert sorted(points) == embedded
            for id_, found in catalog.episodes.rows(embedded).items():
                lanes = load_wshard(found.path).lanes()
                window = np.concatenate(
                    [lanes[lane.name].data.reshape(found.length, -1) for lane in space.lanes], axis=1
                )
                right = embedder_of(space).embed([window], space.statistics)
                assert np.array_equal(points[id_].vectors, right), f"wrong vector of {found.path}"
            seen += embedded
        assert sorted({*seen}) == catalog.query.ids()
        active = {row.family: row for row in catalog.vectors.spaces("active")}
        (embedder,) = {embedder_of(Space.from_json(row.definition)) for row in active.values()}
        groups, _ = families(catalog, Choice(embedder, LaneChoice(), WindowPlan()))
        assert active.keys() == {family.name for family in groups}
        assert all(catalog.vectors.pending_ids(active[one.name].id, one.group.among()) == [] for one in groups)


def shifted(mean: np.ndarray) -> np.ndarray:
    """Return the mean and a one: an embedder that is a function."""
    return np.append(mean, 1.0)
