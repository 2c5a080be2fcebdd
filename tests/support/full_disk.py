"""Every way to write, on a disk with room for so many bytes: run as a program, it prints one JSON line per attempt.

    python full_disk.py SIZES [WAY ...]

Knows: a real file system of limited size (tmpfs, in a mount namespace of this process alone), the ways to write, and
how what they wrote is read again. Each attempt is a forked process, so that a signal of the kernel counts as a result.
"""

# ruff: noqa: ANN002, ANN003 -- as in tests, whose helper this is
from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import pickle
import re
import shutil
import sqlite3
import sys
import tempfile
import time
import traceback
import warnings
from contextlib import closing, suppress
from functools import cache, partial
from pathlib import Path

import numpy as np
import typer.testing
from bridge_episodes import command, copies, episode, ingest, opened_archive, save, vectors_of
from ways_to_write import TRAINING_WAYS, Way, nothing

from bridge.maintenance import restore_archive
from catalog import EmbeddingRow
from catalog.testing.records import make_record
from wshard import (
    Catalog,
    ChannelDef,
    ChunkedEpisodeReader,
    ChunkedEpisodeWriter,
    DType,
    ShardReader,
    ShardStreamWriter,
    ShardWriter,
    WShardError,
    WShardStreamWriter,
    convert,
    discard,
    load_dreamer,
    load_wshard,
    recover,
    save_wshard,
)
from wshard import repair_file as repair
from wshard.testing import make_episode

PAGE = 4096
STEPS = 400
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

# As in conftest.py: the command line is made once, by the process that forks the others.
typer.testing._get_command = cache(typer.testing._get_command)


# ---- files ---------------------------------------------------------------------------------------------------------


def digest(ep):
    """Return the lanes of an episode as one text."""
    lanes = {name: (str(lane.data.dtype), lane.data.shape, lane.data.tobytes()) for name, lane in ep.lanes().items()}
    return f"{ep.id} {ep.length} {hashlib.sha256(repr(sorted(lanes.items())).encode()).hexdigest()}"


def loaded(folder, name="a.wshard", load=load_wshard):
    """Return the episode of a file, None for no file."""
    return digest(load(folder / name)) if (folder / name).exists() else None


def save_older(folder):
    """Save another episode where the new one will be."""
    save_wshard(make_episode(0, 100), folder / "a.wshard")


def save_new(folder, **options):
    """Save over it."""
    save_wshard(make_episode(1, STEPS, image_size=16), folder / "a.wshard", **options)


def record(folder):
    """Record an episode."""
    channels = [ChannelDef("s", DType.FLOAT64, [100])]
    with WShardStreamWriter(folder / "a.wshard", "e", channels, flush_interval=7) as recording:
        recording.begin_episode()
        for step in range(STEPS):
            recording.write_timestep(step, {"s": np.full(100, step)}, {}, step, False)


def record_camera(folder):
    """Record an episode with a camera as video."""
    channels = [{"id": "signal/s", "codec": "h264:1"}]
    frames = np.random.default_rng(0).integers(0, 255, (20, 64, 64, 3), np.uint8)
    with WShardStreamWriter(folder / "a.wshard", "e", channels) as recording:
        recording.begin_episode()
        for frame in frames:
            recording.write_timestep({"s": frame})


def counts_up(found):
    """Say whether these are the first rows of `record`."""
    return np.array_equal(found, np.repeat(np.arange(len(found))[:, None], 100, 1))


def recorded_in_part(folder, is_right=counts_up):
    """Allow a .partial that holds the first timesteps; discard it, so that the next attempt can begin."""
    partial_file = folder / "a.wshard.partial"
    if not partial_file.exists():
        return False
    other = folder / "other"
    other.mkdir()
    shutil.copy(partial_file, other)
    try:
        found = load_wshard(recover(other / partial_file.name)).observations["s"].data
        return bool(is_right(found))
    except WShardError as error:
        return "nothing to recover" in str(error)
    finally:
        shutil.rmtree(other)
        discard(partial_file)


def chunk(folder, seed=1):
    """Write an episode in chunks."""
    writer = ChunkedEpisodeWriter(folder / "c", "e", chunk_size_t=100)
    writer.write_episode_chunked(make_episode(seed, STEPS, image_size=16))
    writer.finalize_manifest()


def chunks(folder):
    """Return what was written in chunks."""
    manifest = next((folder / "c").glob("*manifest*"), None)
    if manifest is None:
        return None
    reader = ChunkedEpisodeReader(manifest)
    found = reader.load_manifest()
    return (found.complete, digest(reader.load())) if found.chunks or found.complete else None


def chunked_in_part(folder):
    """Allow whole chunks that are not all, if the manifest says so."""
    manifest = next((folder / "c").glob("*manifest*"), None)
    reader = None if manifest is None else ChunkedEpisodeReader(manifest)
    if reader is None or reader.load_manifest().complete:
        return reader is None
    right = make_episode(1, STEPS, image_size=16).rewards
    found = [part.rewards for part in reader.iter_chunks()]
    return np.array_equal(np.concatenate([*found, right[:0]]), right[: sum(map(len, found))])


def fill(writer):
    """Write some blocks."""
    with writer as shard:
        if isinstance(shard, ShardStreamWriter):
            shard.begin_data()
        for number in range(20):
            shard.write_entry(f"block/{number}", np.random.default_rng(number).bytes(20_000))


def blocks(folder):
    """Return the blocks of a container."""
    if not (folder / "a.shard").exists():
        return None
    with ShardReader(folder / "a.shard") as shard:
        return [hashlib.sha256(shard.read_entry(name)).hexdigest() for name in shard.entry_names()]


def damage(folder):
    """Make a damaged file."""
    save_new(folder)
    data = bytearray((folder / "a.wshard").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "a.wshard").write_bytes(data)


def repaired(folder):
    """Return the damaged file, or what was restored."""
    names = ("a.wshard", "a.wshard.bak", "a.repaired.wshard")
    return [
        None if not (folder / name).exists() else hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in names
    ]


# ---- archives ------------------------------------------------------------------------------------------------------


def archive(folder):
    """Make an archive of some episodes, and more episodes beside it."""
    save(folder / "eps", *(episode(task, number) for task in range(2) for number in range(6)))
    ingest(folder / "ia", folder / "eps")
    save(folder / "more", *(episode(2, number, 200) for number in range(30)))


def archived(folder):
    """Return the episodes and vectors of a sound archive, None where there is none."""
    if not (folder / "ia" / "catalog.db").exists():
        return None
    with opened_archive(folder / "ia") as opened:
        assert opened.catalog.maintenance.check(full=True) == []
        rows = sorted((row.path, row.digest) for row in opened.catalog.query.select(limit=1000).rows)
    found = sorted((path, hashlib.sha256(data).hexdigest()) for (_, path), data in vectors_of(folder / "ia").items())
    return rows, found


def archived_in_part(folder):
    """Allow whole batches that are not all: the next run goes on."""
    rows, found = archived(folder) or ([], [])
    return {path for path, _ in found} <= {path for path, _ in rows}


def ingest_fully(folder, source="more", name="ia"):
    """Ingest, and raise what a report would tell."""
    report = ingest(folder / name, folder / source)
    assert report.ok, report.failed


def large(path, episodes=60, env="env"):
    """Make a catalog with something of everything, and with what an index elsewhere holds."""
    with Catalog.open(path, create=True) as catalog:
        records = [make_record(number, env_id=env) for number in range(episodes)]
        done = catalog.episodes.register(records)
        space = catalog.vectors.add_space("fingerprint", "family", "{}")
        data = np.random.default_rng(0).bytes(4000)
        catalog.vectors.write(
            space.id, [EmbeddingRow(d.id, r.digest, 1, data) for d, r in zip(done, records, strict=True)]
        )
        catalog.annotations.tag([done[0].id], "good")
        catalog.collections.save_snapshot("some", "tag:good")
        copy = catalog.index_copies.open("http://host", space.id)
        with catalog._session.write() as connection:  # 20,000 rows at once
            connection.exec_driver_sql(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) INSERT INTO synced "
                "(copy_id, seq, position, ref, about, document, served) "
                "SELECT ?, i, 0, 'a reference ' || i, 'about', i, 1 FROM n",
                (copy.id,),
            )


def rows_of(path):
    """Return the rows of a sound catalog's tables, but those that are new at each restoring."""
    if not path.exists():
        return None
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        names = ("episode", "lane", "embedding", "episode_tag", "snapshot", "pick")
        listed = {name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        return [hashlib.sha256(repr(raw.execute(f"SELECT * FROM {name}").fetchall()).encode()).hexdigest()
                if name in listed else None for name in names]  # fmt: skip


def source(folder):
    """Make a catalog that is not on the small disk."""
    path = folder.parent.parent / "source" / "catalog.db"
    if not path.exists():
        large(path)
        with Catalog.open(path) as catalog:
            catalog.maintenance.back_up(path.with_name("backup.db"))
    return path


def back_up(folder):
    """Back it up."""
    with Catalog.open(source(folder)) as catalog:
        catalog.maintenance.back_up(folder / "backup.db")


def restore_into(folder):
    """Restore a backup."""
    restore_archive(source(folder).with_name("backup.db"), folder / "ia", force=True)


def prepare_source(folder, other=nothing):
    """Make it before the disk is small."""
    source(folder)
    other(folder)


def write_copies(folder):
    """Make the copies for searching that large archives have."""
    copies(folder / "ia")


def copied(folder):
    """Return whether there is a copy, and what searches answer."""
    result = json.loads(run_command("search", folder / "eps" / "task-0" / "task-0-0.wshard", "--json", folder=folder))
    return bool([*(folder / "ia" / "index").rglob("CURRENT")]), re.sub(r'"(milliseconds|seconds)": [0-9.e-]+', "",
                                                                        json.dumps(result))  # fmt: skip


def run_command(*arguments, folder):
    """Run a command of wshard on the archive; raise what it reported."""
    return run_plainly(*arguments, "--archive", folder / "ia", folder=folder)


def run_plainly(*arguments, folder):
    """Run a command of wshard; raise what it reported."""
    done = command(*arguments, folder=folder)
    if done.exit_code == 1 and isinstance(done.exception, SystemExit) and done.stderr:
        raise WShardError(done.stderr)
    if done.exception:
        raise done.exception
    return done.stdout


def annotate(folder):
    """Say everything that people can say of an episode, in one transaction each."""
    wanted = ("--where", "env:task-0")
    run_command("tag", "good", *wanted, folder=folder)
    run_command("note", "a word " * 3000, *wanted, folder=folder)
    run_command("review", "accepted", *wanted, folder=folder)
    run_command("collection", "save", "some", *wanted, folder=folder)


def annotations(folder):
    """Return what was said."""
    with opened_archive(folder / "ia") as opened:
        assert opened.catalog.maintenance.check(full=True) == []
        said = [opened.catalog.query.count(text) for text in ("tag:good", '"word"', "review:accepted")]
        return [*said, *(len(opened.catalog.collections.picks(one.name)) for one in opened.catalog.collections.all())]


def annotated_in_part(folder):
    """Allow what was said first."""
    found = annotations(folder)
    return found == sorted(found, reverse=True) and set(found) <= {0, 6} and len(found) < 5


def with_snapshot(folder):
    """Make an archive with a collection."""
    archive(folder)
    run_command("collection", "save", "some", "--where", "env:task-0", folder=folder)
    (folder / "list.json").write_text('{\n "hash": "an earlier list"}')


def read_text(folder, name="list.json"):
    """Return the text of a file."""
    return (folder / name).read_text()


def lane_file(folder):
    """Return the bytes of a lane that was written to a file."""
    return (folder / "a.npy").read_bytes().hex() if (folder / "a.npy").exists() else None


WAYS = {
    "save": Way(save_new, loaded, save_older),
    "save compressed": Way(partial(save_new, compression="zstd"), loaded, save_older),
    "record": Way(record, loaded, between=recorded_in_part),
    "record a camera": Way(
        record_camera, loaded, between=partial(recorded_in_part, is_right=lambda found: len(found) in {0, 10, 20})
    ),
    "record over": Way(record, loaded, save_older, between=recorded_in_part),
    "chunked": Way(chunk, chunks, between=chunked_in_part, beside=r"e_chunk_\d+\.wshard"),
    "chunked over": Way(chunk, chunks, partial(chunk, seed=0), chunked_in_part, beside=r"e_chunk_\d+\.wshard"),
    "container": Way(lambda f: fill(ShardWriter(f / "a.shard")), blocks),
    "container stream": Way(lambda f: fill(ShardStreamWriter(f / "a.shard")), blocks),
    "convert to npz": Way(
        lambda f: convert(f / "a.wshard", f / "a.npz"), partial(loaded, name="a.npz", load=load_dreamer), save_new
    ),
    "convert to wshard": Way(
        lambda f: convert(f / "b.npz", f / "a.wshard"),
        loaded,
        lambda f: (save_new(f), convert(f / "a.wshard", f / "b.npz"), save_older(f)),
    ),
    "repair": Way(lambda f: repair(f / "a.wshard"), repaired, damage),
    "repair in place": Way(lambda f: repair(f / "a.wshard", in_place=True), repaired, damage),
    "cat": Way(
        lambda f: run_plainly("cat", f / "a.wshard", "camera/rgb", "--output", f / "a.npy", folder=f),
        lane_file,
        # What a command imports, it imports here: each forked process would anew.
        lambda f: (save_new(f), run_plainly("cat", f / "a.wshard", "reward", "--output", f / "b.npy", folder=f)),
    ),
    **TRAINING_WAYS,
    "create": Way(
        lambda f: Catalog.open(f / "ia" / "catalog.db", create=True).close(), lambda f: rows_of(f / "ia" / "catalog.db")
    ),
    "ingest": Way(
        partial(ingest_fully, source="eps"),
        archived,
        lambda f: save(f / "eps", *map(episode, range(12))),
        archived_in_part,
    ),
    "ingest more": Way(ingest_fully, archived, archive, archived_in_part),
    "backup": Way(back_up, lambda f: rows_of(f / "backup.db"), prepare_source),
    "restore": Way(restore_into, lambda f: rows_of(f / "ia" / "catalog.db"), prepare_source),
    "restore over": Way(
        restore_into,
        lambda f: rows_of(f / "ia" / "catalog.db"),
        partial(prepare_source, other=lambda f: large(f / "ia" / "catalog.db", 5, "older")),
    ),
    "index copy": Way(write_copies, copied, archive, beside=r"catalog\.db-(wal|shm)|LOCK"),
    "export-list": Way(
        lambda f: run_command("export-list", "some", "--to", f / "list.json", folder=f), read_text, with_snapshot
    ),
    "annotate": Way(annotate, annotations, archive, annotated_in_part),
}


LONG = ("pack", "pack files over", "folder, overwrite", "video, append", "video, overwrite", "lance, overwrite")
LONG += ("hdf5, append", "lance_video, append", "lance_video, overwrite", "convert a set", "merge sets")
LONG += ("save", "record", "record a camera", "chunked", "convert to npz", "repair", "unpack", "ingest", "restore")
"""Ways that are like others: with one size of the disk, they are left out."""


# ---- the disk ------------------------------------------------------------------------------------------------------

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEW_MOUNTS, _NEW_USERS, _PRIVATE, _REMOUNT, _DETACH = 0x20000, 0x10000000, 0x4000 | 1 << 18, 32, 2


def call(name, *arguments):
    """Call a function of the C library; raises OSError."""
    if getattr(_LIBC, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def enter_namespace():
    """Give this process mounts of its own, which go with it; raises OSError where that is not allowed."""
    user, group = os.getuid(), os.getgid()
    try:
        call("unshare", _NEW_MOUNTS)
    except OSError:
        call("unshare", _NEW_MOUNTS | _NEW_USERS)
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            Path(f"/proc/self/{name}").write_text(text)
    call("mount", b"none", b"/", None, _PRIVATE, None)


def resize(disk, size, flags=_REMOUNT):
    """Give the disk so many bytes, or make it."""
    call("mount", b"tmpfs", str(disk).encode(), b"tmpfs", flags, f"size={size}".encode())


def used(disk):
    """Return the bytes that are in use."""
    found = os.statvfs(disk)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def apart(work):
    """Return what a call returns, made in a process of its own."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        os.close(reading)
        try:
            answer = True, work()
        except BaseException:  # noqa: BLE001 -- the parent raises it
            answer = False, traceback.format_exc()
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        good, answer = pickle.load(pipe)  # noqa: S301 -- of this program's own child
    os.waitpid(child, 0)
    assert good, answer
    return answer


def requested(way, function, folder):
    """Return what a function of a way returns."""
    return apart(partial(function, folder)) if way.threads else function(folder)


def forked(work, disk):
    """Do the work in a child process; return how it ended, and the most bytes that were in use."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        warnings.simplefilter("error")
        os.close(reading)
        outcome = "ok"
        try:
            work()
        except WShardError as error:
            outcome = f"typed {type(error).__name__}: {error}"
        except OSError as error:
            kind = "typed" if error.errno in FULL and error.filename else "foreign"
            outcome = f"{kind} {type(error).__name__}: {error}"
        except BaseException:  # noqa: BLE001 -- whatever it is, the parent judges it
            outcome = f"foreign {traceback.format_exc()}"
        os.write(writing, outcome.encode()[:60_000])
        os._exit(0)
    os.close(writing)
    most, status = used(disk), (0, 0)
    while not status[0]:
        time.sleep(0.0005)
        most, status = max(most, used(disk)), os.waitpid(child, os.WNOHANG)
    with os.fdopen(reading) as answer:
        return answer.read() or f"foreign signal {os.waitstatus_to_exitcode(status[1])}", most


def names(folder):
    """Return the names of all files; what is random in them does not count."""
    return {re.sub(r"[0-9a-f]{8,}", "*", str(path.relative_to(folder))) for path in folder.rglob("*") if path.is_file()}


def tried(way, folder, template, disk, room):
    """Try to write with so much room; return the outcome, what was there before, and the most bytes in use."""
    shutil.copytree(template, folder, copy_function=shutil.copy2)
    before, there = requested(way, way.read, folder), names(folder)
    resize(disk, -(-(used(disk) + room) // PAGE) * PAGE)
    outcome, most = forked(partial(way.write, folder), disk)
    resize(disk, 1 << 30)
    return outcome, before, there, most


def judged(way, folder, outcome, before, after, known):
    """Return what is wrong after an attempt, None for nothing."""
    if outcome.startswith("foreign"):
        return outcome
    strangers = sorted(name for name in names(folder) - known if not re.fullmatch(way.beside, name.rsplit("/", 1)[-1]))
    found = requested(way, way.read, folder) if outcome == "ok" else None
    if outcome == "ok":
        return None if found == after else f"success, but found {found!r:.300}"
    meant = way.between(folder)
    strangers = [name for name in strangers if (folder / name).exists()] if meant else strangers
    if strangers:
        return f"left {strangers}"
    if not meant and (found := requested(way, way.read, folder)) not in (before, after):
        return f"{outcome}, found {found!r:.300}"
    again, _ = forked(partial(way.write, folder), folder.parent)
    return None if again == "ok" and requested(way, way.read, folder) == after else f"after {outcome}, again: {again}"


def matrix(disk, sizes, chosen):
    """Try every way with so many sizes."""
    for name in chosen or [name for name in WAYS if sizes > 1 or name not in LONG]:
        way = WAYS[name]
        resize(disk, 1 << 30, 0)
        template, folder = disk.parent / "template" / "x", disk / "x"
        shutil.rmtree(template.parent, ignore_errors=True)
        template.mkdir(parents=True)
        # Under the name that it has on the disk: archives know where their episodes are.
        (disk / "x").mkdir()
        requested(way, way.prepare, folder)
        start = used(disk)
        shutil.copytree(folder, template, dirs_exist_ok=True)
        shutil.rmtree(folder)
        outcome, before, there, most = tried(way, folder, template, disk, 1 << 29)
        assert outcome == "ok", (name, outcome)
        after, known = requested(way, way.read, folder), there | names(folder)
        assert after != before, name
        shutil.rmtree(folder)
        need = max(most - start, 8 * PAGE)
        for number in range(sizes):
            # The last is the first that suffices: what was used for a moment only may not have been seen.
            room, outcome = need * (2 * number + 1) // (2 * sizes), ""
            while outcome != "ok" and (not outcome or number == sizes - 1):
                outcome, *_ = tried(way, folder, template, disk, room)
                try:
                    wrong = judged(way, folder, outcome, before, after, known)
                except (AssertionError, WShardError, OSError, sqlite3.Error):
                    wrong = f"{outcome}, then {traceback.format_exc()}"
                print(json.dumps({"way": name, "room": room, "outcome": outcome[:300], "wrong": wrong}), flush=True)
                shutil.rmtree(folder)
                room += room // 4 if sizes > 1 else room
        call("umount2", str(disk).encode(), _DETACH)


def main():
    """Make the disk and try."""
    with tempfile.TemporaryDirectory() as place:
        disk = Path(place) / "disk"
        disk.mkdir()
        run_plainly("--version", folder=disk)
        try:
            enter_namespace()
            resize(disk, 1 << 30, 0)
        except OSError as error:
            print(json.dumps({"skip": f"no small disk can be mounted here: {error}"}))
            return
        call("umount2", str(disk).encode(), _DETACH)
        try:
            matrix(disk, int(sys.argv[1]), sys.argv[2:])
        finally:
            os.chdir("/")
            with suppress(OSError):
                call("umount2", str(disk).encode(), _DETACH)


if __name__ == "__main__":
    main()
