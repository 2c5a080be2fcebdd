"""Minari data sets as a Sink: a folder with data/main_data.hdf5 and data/metadata.json, as Minari 0.5 writes them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.array_fields import DType
from wshard.core.episode.lanes import DONE, EXACT_REWARD, REWARD, TRUNCATIONS
from wshard.core.files.schemes import place_of
from wshard.errors import EpisodeError, FormatError
from wshard.formats.draft_sink import list_losses, list_shared
from wshard.formats.hdf5.lane_table import FINAL, LEFT_OUT
from wshard.formats.hdf5.nodes import import_h5py
from wshard.formats.hdf5.robomimic_sink import follow
from wshard.formats.hdf5.sink import Hdf5Sink, list_metadata_losses, put_array, put_attributes
from wshard.formats.hdf5.values import read_object
from wshard.formats.minari.source import MAIN_FILE, MAX_METADATA_SIZE, METADATA_FILE, MinariSource, flatten_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.types import Channel, Episode

_TUPLE: Final = re.compile(r"_index_(\d+)")
_SMALLEST_IMAGE: Final = 32
_VERSION: Final = "0.5.4"
_INFOS: Final = "infos/"
_OBSERVATIONS: Final = "observations"
_ACTIONS: Final = "actions"
_ENV_ID: Final = re.compile(r"(?:[\w:-]+/)?[\w:.-]+?(?:-v\d+)?")
_NAME: Final = re.compile(r"[-_\w]+-v\d+")
_INVALID_IN_NAME: Final = re.compile(r"[^-_\w]")
_STEPS: Final = (REWARD, EXACT_REWARD, DONE, TRUNCATIONS)
_STORED_OTHERWISE: Final = (FINAL, LEFT_OUT, "dataset_id", "algorithm_name")


class MinariSink(Hdf5Sink):
    """Writes many episodes with equal lanes and one environment to a folder NAME-vN.

    The parent folder is the namespace if its name is a valid one. Images are stored as JPEG if all of them are already
    encoded so, otherwise unchanged.
    """

    cannot_hold = (
        "predictions, uncertainties, residuals and blocks of other programs",
        "rates, and times of timesteps",
        "metadata that no HDF5 attribute can hold",
        "bf16, which becomes float32",
        "episodes of other lanes or environments than the first one has",
    )
    one_environment = True
    content = "Minari data set"

    def _has_episodes(self) -> bool:
        folder = Path(self._where)
        self._data = "" if (folder / METADATA_FILE).exists() or (folder / MAIN_FILE).exists() else "data"
        return (folder / self._data / METADATA_FILE).exists()

    def _begin(self, draft: Path, *, continues: bool) -> None:
        folder = Path(self._where, self._data)
        file = place_of(folder / METADATA_FILE)
        self._metadata: dict[str, Any] = read_object(file, MAX_METADATA_SIZE) if continues else {}
        storage = self._metadata.get("data_format", "hdf5")
        if storage != "hdf5":
            raise FormatError(f"{self._where}: expected a data set with HDF5 storage to append to, found {storage}")
        main = draft / self._data / MAIN_FILE
        main.parent.mkdir(exist_ok=True)
        if main.exists():
            main.unlink()  # a hard link to the older file, which must not change
            shutil.copy2(folder / MAIN_FILE, main)
        self._open(main)

    def _episodes(self) -> Any:
        return self._file

    def _name(self, ep: Episode, episodes: Any) -> str:
        return f"episode_{len(episodes)}"

    def _key(self, name: str) -> str:
        return name.rpartition("_")[2]

    def _add(self, ep: Episode, draft: Path) -> str:
        before = self._metadata
        try:
            return super()._add(ep, draft)
        except BaseException:
            self._metadata = before  # spaces of an episode that was refused are not those of the data set
            raise

    def _fill(self, ep: Episode, group: Any) -> None:
        observations = {name: channel for name, channel in ep.observations.items() if not name.startswith(_INFOS)}
        if not observations or not ep.actions:
            raise EpisodeError(f"{self._where}: episode {ep.id!r}: expected observations and actions, found none")
        self._check_lanes(ep, observations)
        final = ep.metadata.get(FINAL)
        final_values = final if isinstance(final, dict) else {}
        for name, channel in ep.observations.items():
            is_info = name.startswith(_INFOS)
            path = name if is_info else _path(name, observations, _OBSERVATIONS)
            if not is_info and self._metadata["jpeg_encoding"] and _is_image_space(channel.dtype, tuple(channel.shape)):
                _put_images(group, path, channel)
            else:
                put_array(group, path, follow(channel.data, final_values.get(name)))
        for name, channel in ep.actions.items():
            put_array(group, _path(name, ep.actions, _ACTIONS), channel.data)
        missing = np.full(ep.length, np.nan)
        put_array(group, "rewards", missing if ep.rewards is None else np.asarray(ep.rewards))
        for path, flags in (("terminations", ep.terminations), ("truncations", ep.truncations)):
            put_array(group, path, np.zeros(ep.length, bool) if flags is None else np.asarray(flags).astype(bool))
        number = int(self._key(group.name))
        put_attributes(group, _attributes(ep.metadata))
        group.attrs.update({"id": number, "total_steps": ep.length})

    def _check_lanes(self, ep: Episode, observations: Mapping[str, Channel]) -> None:
        """Adopt the spaces of the first episode; raises EpisodeError if those of another one differ."""
        spaces = {
            "observation_space": _describe_space(_described(observations), _OBSERVATIONS),
            "action_space": _describe_space(_described(ep.actions), _ACTIONS),
        }
        images = [channel for channel in observations.values() if _is_image_space(channel.dtype, tuple(channel.shape))]
        jpeg = bool(images) and all(
            channel.encoded is not None and channel.encoded.encoding == "jpeg" for channel in images
        )
        found = {"jpeg_encoding": jpeg, "env_id": ep.env_id, **spaces}
        if not self._metadata:
            self._metadata = self._describe(ep) | {"jpeg_encoding": jpeg}
            self._metadata |= {name: json.dumps(space) for name, space in spaces.items()}
        expected = {name: json.loads(self._metadata[name]) for name in spaces if name in self._metadata}
        expected |= {"jpeg_encoding": bool(self._metadata.get("jpeg_encoding", True)) if images else jpeg}
        expected |= {"env_id": json.loads(self._metadata.get("env_spec") or "{}").get("id", "")}
        for name, value in expected.items():
            if _without_bounds(value) != _without_bounds(found[name]):
                what = "" if "space" in name else f": expected {value!r}, found {found[name]!r}"
                raise EpisodeError(f"{self._where}: episode {ep.id!r}: {name} differs from that of the data set{what}")

    def _describe(self, ep: Episode) -> dict[str, Any]:
        algorithm = ep.metadata.get("algorithm_name")
        metadata = {
            "total_episodes": 0,
            "total_steps": 0,
            "data_format": "hdf5",
            "dataset_id": self._dataset_id(),
            "minari_version": _VERSION,
            "algorithm_name": algorithm if isinstance(algorithm, str) else "",
        }
        if ep.env_id:
            if not _ENV_ID.fullmatch(ep.env_id):
                raise EpisodeError(
                    f"{self._where}: episode {ep.id!r}: expected an environment as Gymnasium names them, "
                    f"[namespace/]name[-vN], found {ep.env_id!r}"
                )
            metadata["env_spec"] = json.dumps({"id": ep.env_id, "entry_point": None, "additional_wrappers": []})
        return metadata

    def _dataset_id(self) -> str:
        """Return the name that the folder gives to a new data set."""
        folder = self._target.resolve()
        name = (
            folder.name
            if _NAME.fullmatch(folder.name)
            else f"{_INVALID_IN_NAME.sub('_', folder.name) or 'episodes'}-v0"
        )
        parent_name = folder.parent.name
        namespace = f"{parent_name}/" if _INVALID_IN_NAME.search(parent_name) is None and parent_name else ""
        return f"{namespace}{name}"

    def _finish(self, draft: Path) -> None:
        file, folder = self._file, draft / self._data
        self._metadata["total_episodes"] = len(file)
        self._metadata["total_steps"] = sum(int(file[name].attrs.get("total_steps", 0)) for name in file)
        self._close_file()
        self._metadata["dataset_size"] = round((folder / MAIN_FILE).stat().st_size / 1e6, 1)
        (folder / METADATA_FILE).unlink(missing_ok=True)  # a hard link to the older file
        (folder / METADATA_FILE).write_text(json.dumps(self._metadata))

    @classmethod
    def owned(cls, location: Path) -> list[str]:
        """Return the files of a data set, and none of a folder that is none."""
        if not MinariSource.matches(location):
            return []
        found = (location / METADATA_FILE).exists() or (location / MAIN_FILE).exists()
        return [f"{'' if found else 'data/'}{name}" for name in (MAIN_FILE, METADATA_FILE)]

    def shared_lanes(self, info: EpisodeInfo) -> list[str]:
        """Return observations and actions: rewards and ends that are missing are filled in."""
        return [block for block in list_shared(info, ()) if not block.startswith(f"signal/{_INFOS}")]

    def losses(self, info: EpisodeInfo) -> list[str]:
        """Return what the format cannot store of an episode."""
        losses = list_losses(info, _STEPS, "dataset")
        if REWARD not in info.lanes:
            losses.append("reward: Minari needs one: NaN")
        losses += [f"{block}: Minari needs it: False" for block in (DONE, TRUNCATIONS) if block not in info.lanes]
        losses += [] if info.timebase.assumed else ["timebase: no place for a rate"]
        stated, algorithm = self._metadata, info.metadata.get("algorithm_name")
        readable = {"dataset_id": stated.get("dataset_id", self._dataset_id()), "id": None}
        readable |= {"algorithm_name": stated.get("algorithm_name", algorithm if isinstance(algorithm, str) else None)}
        readable |= {"total_steps": info.length, LEFT_OUT: None}
        losses += [
            f"metadata {name!r}: no place for it"
            for name, value in readable.items()
            if name in info.metadata and info.metadata[name] != value
        ]
        return losses + list_metadata_losses(_attributes(info.metadata), ())


def _attributes(metadata: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: value for name, value in metadata.items() if name not in (*_STORED_OTHERWISE, "options")}
    return values | flatten_options(metadata.get("options", {}), "options")


def _described(lanes: Mapping[str, Channel]) -> dict[str, tuple[DType, tuple[int, ...]]]:
    floats = {DType.BFLOAT16: DType.FLOAT32}
    return {name: (floats.get(channel.dtype, channel.dtype), tuple(channel.shape)) for name, channel in lanes.items()}


def _path(name: str, lanes: Mapping[str, Channel], root: str) -> str:
    return root if [*lanes] == [root] else f"{root}/{name}"


def _put_images(group: Any, path: str, channel: Channel) -> None:
    """Write the JPEG of each timestep, and the last one twice, as there is no frame of the final observation."""
    frames: Any = channel.encoded
    dataset = group.create_dataset(path, (frames.length + 1,), import_h5py().vlen_dtype(np.uint8))
    for step in range(frames.length + 1):
        dataset[step] = np.frombuffer(frames.image(min(step, frames.length - 1)), np.uint8)


def _without_bounds(space: Any) -> Any:
    """Return a space without the bounds of its values, which are unknown for lanes."""
    if isinstance(space, list):
        return [_without_bounds(part) for part in space]
    if not isinstance(space, dict):
        return space
    if space.get("type") == "Discrete":  # a lane of whole numbers
        return {"type": "Box", "dtype": space.get("dtype", "int64"), "shape": []}
    return {name: _without_bounds(part) for name, part in space.items() if name not in ("low", "high", "n", "start")}


def _is_image_space(dtype: DType, shape: tuple[int, ...]) -> bool:
    """Return True if Minari treats lanes of this dtype and shape as images, which it may store as JPEG."""
    return dtype is DType.UINT8 and len(shape) in (2, 3) and min(shape[:2]) >= _SMALLEST_IMAGE


def _describe_space(lanes: Mapping[str, tuple[DType, tuple[int, ...]]], whole: str) -> dict[str, Any]:
    """Return the space of lanes by name; "/" separates the keys of nested Dicts, _index_N are parts of a Tuple.

    whole: the name of a single lane that contains all observations or actions.
    """
    if [*lanes] == [whole]:
        return _box(*lanes[whole])
    tree: dict[str, Any] = {}
    for name, described in lanes.items():
        *path, last = name.split("/")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[last] = described
    return _describe(tree)


def _describe(tree: Any) -> dict[str, Any]:
    if not isinstance(tree, dict):
        return _box(*tree)
    if tree and all(_TUPLE.fullmatch(name) for name in tree):
        ordered = sorted(tree, key=lambda name: int(name.rpartition("_")[2]))
        return {"type": "Tuple", "subspaces": [_describe(tree[name]) for name in ordered]}
    return {"type": "Dict", "subspaces": {name: _describe(subtree) for name, subtree in sorted(tree.items())}}


def _box(dtype: DType, shape: tuple[int, ...]) -> dict[str, Any]:
    numpy_dtype = dtype.numpy_dtype
    if numpy_dtype.kind == "f":
        low, high = -np.inf, np.inf
    elif numpy_dtype.kind == "b":
        low, high = 0, 1
    else:
        low, high = int(np.iinfo(numpy_dtype).min), int(np.iinfo(numpy_dtype).max)
    bounds = {"low": np.full(shape, low).tolist(), "high": np.full(shape, high, np.asarray(high).dtype).tolist()}
    return {"type": "Box", "dtype": numpy_dtype.name, "shape": list(shape), **bounds}
