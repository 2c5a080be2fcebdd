"""ALOHA and ACT: one HDF5 file per episode, with observations, action and images, raw or as padded JPEG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from wshard.core.episode.lanes import REWARD
from wshard.core.episode.natural_order import sort_naturally
from wshard.core.files.file_object import OpenFilePlace
from wshard.formats.hdf5.lane_table import LaneTable
from wshard.formats.hdf5.nodes import child, expect_dataset
from wshard.formats.hdf5.source import Hdf5Source
from wshard.formats.hdf5.values import read_attributes
from wshard.formats.hdf5.walk import walk_datasets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.files.place import Place
    from wshard.formats.hdf5.lane_table import ColumnInfo

_SUFFIXES: Final = (".hdf5", ".h5")
_OBSERVATIONS: Final = "observations/"
_REWARDS: Final = ("reward", "rewards")
_SIZES: Final = "compress_len"  # the sizes of images that are padded with zeros
_TASKS: Final = ("task", "language_instruction", "language_raw", "instruction")


class AlohaSource(Hdf5Source[str]):
    """The episode of a file, with key "", or the files of a folder by their names without suffix."""

    kind = "aloha"
    meaning: ClassVar = (
        ("observations/qpos, qvel, effort, ...", "signal/qpos, signal/qvel, signal/effort, signal/NAME"),
        ("observations/images/CAM", "signal/images/CAM; a JPEG a timestep is decoded on access"),
        ("action or actions, base_action, action/NAME", "action/action, action/base_action, action/action/NAME"),
        ("reward, rewards", "reward"),
        ("attributes sim, compress and others", "metadata"),
        ("task, language_instruction, language_raw, instruction", "metadata task"),
        ("name of the file, without suffix", "the id"),
        ("action alignment", "action at t follows the observations at t"),
        ("environment, clock, success", "not stated"),
    )

    def _scan(self) -> Mapping[str, str]:
        if not self._place.is_dir():
            return {"": ""}
        files = {entry.name: self._place / entry.name for entry in self._place.entries()}
        return {files[name].stem: name for name in sort_naturally(files) if files[name].suffix in _SUFFIXES}

    def _file_of(self, ref: str) -> Place:
        return self._place / ref if ref else self._place

    def _columns(self, key: str, ref: str, file: Any) -> ColumnInfo:
        where = self.where_of(key)
        table = LaneTable(_count_steps(file, where), where)
        for path, dataset in walk_datasets(file, where):
            if path != _SIZES:
                table.add(_block(path), path, dataset)
        table.metadata.update(read_attributes(file))
        texts = (table.metadata.get(name) for name in _TASKS)
        candidates = (text[0] if isinstance(text, list) and len(text) == 1 else text for text in texts)
        task = next((text for text in candidates if isinstance(text, str) and text), None)
        table.metadata.update({"task": task} if task else {})
        return table.info(key or ("episode" if isinstance(self._place, OpenFilePlace) else self._file_of(ref).stem))


def _count_steps(file: Any, where: str) -> int:
    """Return the number of actions: of the dataset action or actions, or of the first in a group of this name."""
    name = "actions" if "actions" in file and "action" not in file else "action"
    node = child(file, name, where)
    first = next(walk_datasets(node, where), None) if hasattr(node, "keys") else None
    return len(expect_dataset(file, name, where) if first is None else first[1])


def _block(path: str) -> str:
    """Return the lane of a dataset."""
    if path in _REWARDS:
        return REWARD
    top = path.partition("/")[0]
    if top.endswith(("action", "actions")):
        return f"action/{path}"
    return f"signal/{path.removeprefix(_OBSERVATIONS)}"
