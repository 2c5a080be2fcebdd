"""Minari data sets as a Source: the folder of a data set, its folder `data`, or an HDF5 file of one."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import numpy as np

from wshard.core.arguments import integer
from wshard.core.episode.lanes import DONE, REWARD, TRUNCATIONS
from wshard.core.episode.natural_order import sort_naturally
from wshard.core.files.file_object import OpenFilePlace
from wshard.errors import FormatError, MissingFileError
from wshard.formats.hdf5.kinds import hdf5_kind
from wshard.formats.hdf5.lane_table import LaneTable
from wshard.formats.hdf5.nodes import expect_dataset, expect_group, translate_errors
from wshard.formats.hdf5.source import Hdf5Source
from wshard.formats.hdf5.values import WSHARD_ID, parse_object, read_attribute, read_attributes, read_object
from wshard.formats.hdf5.walk import walk_datasets
from wshard.formats.look import LocationLook, look_at
from wshard.formats.minari.arrow_columns import ArrowTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location
    from wshard.formats.hdf5.lane_table import ColumnInfo, DatasetColumn

OPTIONS: Final = "options/"
MAIN_FILE: Final = "main_data.hdf5"
METADATA_FILE: Final = "metadata.json"
STEP_LANES: Final = {"rewards": REWARD, "terminations": DONE, "truncations": TRUNCATIONS}

_PARTS: Final = {"arrow": "part-0.arrow", "parquet": "part-0.parquet"}
_NAMES: Final = ("dataset_id", "algorithm_name")
_SUCCESS: Final = ("infos/success", "infos/is_success")
MAX_METADATA_SIZE: Final = 1 << 27  # spaces list the bounds of each pixel


_FORMAT: Final = "data_format"
_MAX_MISSING: Final = 1 << 17  # as in LeRobot


class MinariSource(Hdf5Source[str]):
    """The episodes of a data set by their numbers: "0", "1", ..."""

    whole = True
    meaning: ClassVar = (
        ("observations", "signal/observations; of a Dict or Tuple space signal/NAME"),
        ("infos/NAME", "signal/infos/NAME"),
        ("actions", "action/actions; of a Dict or Tuple space action/NAME"),
        ("rewards, terminations, truncations", "reward, done, aux/truncations"),
        ("the last of n + 1 observations and infos", "metadata final_observation, up to 256 numbers; frames: left out"),
        ("images", "the JPEG of each timestep, decoded on access"),
        ("env_spec.id", "the environment"),
        ("seed, options, dataset_id, algorithm_name", "metadata"),
        ("infos/success, infos/is_success", "metadata success: whether it is ever true"),
        ("action alignment", "actions at t follow the observations at t"),
        ("clock", "none is stated (30 Hz, assumed)"),
    )

    @classmethod
    def matches(cls, location: Location | LocationLook) -> bool:
        """Return True for the folder of a data set, or one of its HDF5 files."""
        look = look_at(location)
        if not look.is_folder:
            return hdf5_kind(look) == "minari"
        subfolder = "" if METADATA_FILE in look.names or MAIN_FILE in look.names else "data/"
        if subfolder and "data" not in look.names:
            return False
        if hdf5_kind(look.place / f"{subfolder}{MAIN_FILE}") == "minari":
            return True
        metadata = look.read_json(f"{subfolder}{METADATA_FILE}")
        is_dataset = isinstance(metadata, dict) and "total_episodes" in metadata and _FORMAT in metadata
        return is_dataset or any(look.exists(f"{subfolder}0/{part}") for part in _PARTS.values())

    def _scan(self) -> Mapping[str, str]:
        if self._storage in _PARTS:
            names = (folder.name for folder in self._folder.folders() if folder.name.isdecimal())
            return {name: name for name in sorted(self._with_missing(names), key=int)}
        with translate_errors(self.where_of("")):
            groups = [name for name in self._open(self._main_file) if name.startswith("episode_")]
        numbers = sort_naturally(self._with_missing(name.removeprefix("episode_") for name in groups))
        return {number: f"episode_{number}" for number in numbers}

    def _with_missing(self, numbers: Iterable[str]) -> set[str]:
        """Return the numbers, and those missing according to total_episodes: opening one reports the error."""
        listed, total = {*numbers}, integer(self._metadata.get("total_episodes")) or 0
        return listed | {*map(str, range(total))} if 0 < total - len(listed) <= _MAX_MISSING else listed

    def _file_of(self, ref: str) -> Place:
        return self._folder / f"{ref}/{_PARTS[self._storage]}" if self._storage in _PARTS else self._main_file

    def _files(self, ref: str) -> list[Place]:
        beside = [self._folder / f"{ref}/{METADATA_FILE}"] if self._storage in _PARTS else []
        return [self._file_of(ref), *(file for file in beside if file.exists())]

    def _columns(self, key: str, ref: str, file: Any) -> ColumnInfo:
        where = self.where_of(key)
        group = expect_group(file, ref, where)
        table = LaneTable(len(expect_dataset(group, "rewards", where)), where, root=ref)
        success_columns: dict[str, Any] = {}
        for path, dataset in walk_datasets(group, where):
            table.add(_block(path), path, dataset)
            success_columns |= {path: dataset} if path in _SUCCESS else {}
        return self._finish(key, table, read_attributes(group), success_columns)

    def _describe(self, key: str, ref: str) -> ColumnInfo:
        if self._storage not in _PARTS:
            return cast("ColumnInfo", super()._describe(key, ref))
        where = self.where_of(key)
        with translate_errors(where):
            arrow_table = self._open_table(ref)
            table = LaneTable(arrow_table.rows - 1, where)
            success_columns: dict[str, Any] = {}
            for path, name, column in arrow_table.columns(self._spaces):
                if column is None:
                    table.leave_out(name, "column of another kind")
                    continue
                is_padded = path.partition("/")[0] not in ("observations", "infos")
                table.add(_block(name), path, column, rows=table.length if is_padded else None)
                success_columns |= {name: column} if name in _SUCCESS else {}
            file = self._folder / f"{ref}/{METADATA_FILE}"
            return self._finish(key, table, read_object(file) if file.exists() else {}, success_columns)

    def _finish(
        self, key: str, table: LaneTable, attributes: dict[str, Any], success_columns: Mapping[str, Any]
    ) -> ColumnInfo:
        stated = attributes.pop("total_steps", table.length)
        if stated != table.length:
            raise FormatError(f"{table.where}: total_steps: expected {stated} rewards, found {table.length}")
        attributes.pop("id", None)
        id_ = str(attributes.pop(WSHARD_ID, f"episode_{key}"))
        table.metadata.update(
            nest_options(attributes) | {name: self._metadata[name] for name in _NAMES if self._metadata.get(name)}
        )
        for column in success_columns.values():
            table.metadata["success"] = bool(np.any(np.asarray(column[: column.shape[0]])))
        return table.info(id_, env_id=self._env_id)

    def _dataset(self, ref: str, column: DatasetColumn) -> Any:
        if self._storage not in _PARTS:
            return super()._dataset(ref, column)
        return next(column_ for path, _, column_ in self._open_table(ref).columns(self._spaces) if path == column.path)

    def _open_table(self, ref: str) -> ArrowTable:
        file = self._file_of(ref)
        with translate_errors(str(file)):
            return self.open_once(file.uri, lambda: ArrowTable(file, self.where_of(ref)))

    # ---- the data set ------------------------------------------------------------------------------------------------

    @cached_property
    def _folder(self) -> Place:
        """The folder with metadata.json."""
        place = self._place
        if not place.is_dir():
            return place.parent
        return place if (place / METADATA_FILE).exists() or (place / MAIN_FILE).exists() else place / "data"

    @cached_property
    def _main_file(self) -> Place:
        return self._expect_file(MAIN_FILE) if self._place.is_dir() else self._place

    def _expect_file(self, name: str) -> Place:
        file = self._folder / name
        if not file.exists():
            raise MissingFileError.at(file, f"{self.where_of('')}: expected the file {file}, found none")
        return file

    @cached_property
    def _storage(self) -> str:
        """The storage of the data set: "hdf5", "arrow" or "parquet"."""
        if not self._place.is_dir():
            return "hdf5"
        stated = self._metadata.get(_FORMAT)
        return stated if isinstance(stated, str) else next(self._other_storages(), "hdf5")

    def _other_storages(self) -> Iterator[str]:
        """Yield the storages other than HDF5 that the first episode has."""
        return (storage for storage, part in _PARTS.items() if (self._folder / f"0/{part}").exists())

    @cached_property
    def _metadata(self) -> dict[str, Any]:
        """The metadata of the data set: metadata.json, or in older versions the attributes of the file."""
        file = None if isinstance(self._place, OpenFilePlace) else self._folder / METADATA_FILE
        if file is not None and file.exists():
            return read_object(file, MAX_METADATA_SIZE)
        if self._place.is_dir() and any(self._other_storages()):
            self._expect_file(METADATA_FILE)  # which states the spaces
        main = self._open(self._main_file)
        return {str(name): read_attribute(main, name) for name in main.attrs}

    @cached_property
    def _env_id(self) -> str:
        text = self._metadata.get("env_spec")
        spec = parse_object(text, f"{self.where_of('')}: env_spec") if isinstance(text, str) else {}
        return str(spec.get("id") or "")

    @cached_property
    def _spaces(self) -> dict[str, Any]:
        where, spaces = self._folder / METADATA_FILE, {}
        for kind in ("observation", "action"):
            text = self._metadata.get(f"{kind}_space")
            if isinstance(text, str):
                spaces[f"{kind}s"] = parse_object(text, f"{where}: {kind}_space", MAX_METADATA_SIZE)
        return spaces


def _block(path: str) -> str:
    """Return the lane of a dataset or column."""
    if path in STEP_LANES:
        return STEP_LANES[path]
    top, _, rest = path.partition("/")
    if top == "actions":
        return f"action/{rest or path}"
    return f"signal/{rest if top == 'observations' and rest else path}"


def nest_options(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return attributes with those named options/NAME/... nested in one value "options", as in the other storages."""
    nested = {name: value for name, value in attributes.items() if not name.startswith(OPTIONS)}
    for name, value in attributes.items():
        parent = nested
        *path, last = name.split("/") if name.startswith(OPTIONS) else [name]
        for part in path:
            child = parent.setdefault(part, {})
            parent = child if isinstance(child, dict) else {}
        parent[last] = value
    return nested


def flatten_options(value: Any, name: str) -> dict[str, Any]:
    """Return the values of the nested value "options" by attribute name, options/NAME/..."""
    if not isinstance(value, dict):
        return {name: value}
    parts = (flatten_options(part, f"{name}/{key}") for key, part in value.items())
    return {key: option for part in parts for key, option in part.items()}
