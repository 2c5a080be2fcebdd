"""What a way to write is, and those of training data: data sets, shards, packs, conversions."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import av  # noqa: F401  (here, so that not every forked process has to import it)
import h5py  # noqa: F401
import lance  # noqa: F401
import numpy as np

from wshard import save_wshard
from wshard.data import EPISODE_DATA_KEY, convert, get_format, load_dataset, merge
from wshard.errors import MissingFileError
from wshard.shardpack import ShardLimits, ShardPackSet, ShardPackWriter, pack_sources, unpack_shardpack
from wshard.testing import make_episode
from wshard.webdataset import ShardifyOptions, shardify

with suppress(ImportError):
    import torch  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def nothing(_folder):
    """Prepare nothing, or allow nothing in between."""
    return False


@dataclass(frozen=True)
class Way:
    """One way to write. Each function gets the folder that lies on the small disk.

    prepare: what is there before. write: what is tried. read: what is there, as a value that can be compared.
    between: says whether a state after an error, neither the old one nor the new one, is one that is meant, and makes
    the next attempt possible. beside: names of further files that an error may leave. threads: whether a library with
    threads is used, which no process may have used that is forked.
    """

    write: Callable[[Path], object]
    read: Callable[[Path], object]
    prepare: Callable[[Path], object] = nothing
    between: Callable[[Path], bool] = nothing
    beside: str = r".*\.db-(wal|shm)"
    threads: bool = False


# ---- data sets -----------------------------------------------------------------------------------------------------

PLACES = {"hdf5": "a.h5", "folder": "a", "video": "v", "lance": "a.lance", "lance_video": "b"}


def write_set(folder, name, seeds=(1, 2), mode="append"):
    """Write episodes of columns, in formats that have it with what is stated once for each."""
    kind = get_format(name)
    with kind.open_writer(folder / PLACES[name], mode=mode) as writer:
        for seed in seeds:
            rng = np.random.default_rng(seed)
            columns = {"action": rng.normal(size=(20, 2)), "pixels": rng.integers(0, 256, (20, 32, 32, 3), np.uint8)}
            stated = {EPISODE_DATA_KEY: {"seed": seed}} if kind.supports_episode_data else {}
            writer.write_episode(columns | stated)


def read_set(folder, name, place=""):
    """Return the episodes of a data set and what is stated for them."""
    path = folder / (place or PLACES[name])
    if not path.exists():
        return None
    data = load_dataset(path, format=name)
    found = [
        {key: hashlib.sha256(np.asarray(rows).tobytes()).hexdigest() for key, rows in data.read_episode(number).items()}
        for number in range(len(data.lengths))
    ]
    return found, data.get_episode_data()


def write_sources(folder):
    """Write a data set, and an older one where it will be written to."""
    write_set(folder, "lance")
    write_set(folder, "lance_video", seeds=(3,))


def of_set(name, mode):
    """Return the way that adds to an older set, or writes over it."""
    prepare = partial(write_set, name=name, seeds=(5,))
    threads = name in ("video", "lance", "lance_video")  # libraries for videos and tables have threads
    about = (partial(write_set, name=name, mode=mode), partial(read_set, name=name), prepare)
    return Way(*about, threads=threads, beside=r".*\.(txn|manifest|lance)" if "lance" in name else "")


# ---- shards and packs ----------------------------------------------------------------------------------------------


def export(folder, size=30):
    """Write windows over those of an earlier export."""
    options = ShardifyOptions(resize_images_size=None, samples_per_shard=size, stride=1)
    shardify([folder / "eps"], folder / "to", options, mode="overwrite")


def exported(folder):
    """Return the files of an export, but for those that state its time."""
    paths = [path for path in (folder / "to").glob("*") if path.name != "processing_metadata.json"]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def export_older(folder):
    """Save episodes, and export them in other shards."""
    (folder / "eps").mkdir()
    for seed in range(2):
        save_wshard(make_episode(seed, 40, image_size=32), folder / "eps" / f"{seed}.wshard")
    export(folder, 1000)


def pack(folder, seed=1):
    """Write samples into several ShardPacks, over older ones."""
    with ShardPackWriter(folder / "a-{0..}.shardpack", limits=ShardLimits(max_records=7), overwrite=True) as writer:
        for number in range(20):
            writer.write_record(f"{seed}-{number}", {"a.bin": np.random.default_rng(number).bytes(20_000)})


def packed(folder):
    """Return the samples of a set of ShardPacks."""
    try:
        with ShardPackSet(folder / "a-{0..}.shardpack") as samples:
            return [(one.key, hashlib.sha256(one["a.bin"]).hexdigest()) for one in samples]
    except MissingFileError:
        return None


def pack_files(folder):
    """Pack a folder of files."""
    with ShardPackWriter(folder / "a-{0..}.shardpack", overwrite=True, limits=ShardLimits(max_records=3)) as writer:
        pack_sources([folder / "files"], writer)


def write_files(folder):
    """Write files to be packed, over an older set of packs."""
    pack(folder)
    (folder / "files").mkdir()
    for number in range(9):
        (folder / "files" / f"{number}.a.bin").write_bytes(np.random.default_rng(number).bytes(20_000))


def unpack(folder, name="out"):
    """Unpack samples to a new folder, or over a tar."""
    unpack_shardpack(folder / "a-{0..}.shardpack", folder / name, overwrite=True)


def unpack_older(folder):
    """Write packs, and unpack others to a tar."""
    for seed in (0, 1):
        pack(folder, seed)
        if not seed:
            unpack(folder, "out.tar")


def unpacked(folder):
    """Return the files that were unpacked."""
    paths = [path for path in folder.glob("out*") if path.is_file()] + [*folder.glob("out/*")]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


TRAINING_WAYS = {
    "pack": Way(pack, packed),
    "pack over": Way(pack, packed, partial(pack, seed=0)),
    "pack files over": Way(pack_files, packed, write_files),
    "unpack": Way(unpack, unpacked, pack),
    "unpack over a tar": Way(partial(unpack, name="out.tar"), unpacked, unpack_older),
    **{f"{name}, {mode}": of_set(name, mode) for name in PLACES for mode in ("append", "overwrite")},
    "convert a set": Way(
        lambda f: convert(f / "a.lance", f / "b", dest_format="lance_video", mode="overwrite", progress=False),
        partial(read_set, name="lance_video"),
        write_sources,
        threads=True,
    ),
    "merge sets": Way(
        lambda f: merge([f / "a.lance", f / "a.lance"], f / "m.lance", mode="overwrite", progress=False),
        partial(read_set, name="lance", place="m.lance"),
        write_sources,
        threads=True,
        beside=r".*\.(txn|manifest|lance)",
    ),
    "shardify": Way(export, exported, export_older),
}
