"""LeRobot data sets with the column names that world-model code expects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.messages import shown
from wshard.errors import DatasetError
from wshard.formats.base import open_source
from wshard.training.data.cache import download_repository, find_repository
from wshard.training.data.source_dataset import SourceDataset, list_names
from wshard.training.data.writers import refuse_option

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from wshard.training.data.batch import Item

SCHEME: Final = "lerobot://"


class LeRobotAdapter(SourceDataset):
    """Clips of a LeRobot data set: at `root`, or else of the repository, which is downloaded unless a cache has it.

    Columns: the primary camera is `pixels`, float32 from 0 to 1, without the time axis if num_steps is 1; `action`;
    `observation.state` is `proprio`; and those of key_aliases {native: name}. `ep_idx` and `step_idx` count episodes
    and timesteps from 0. lerobot_kwargs: options of lerobot's own loader, which are refused. Raises
    SourceNotFoundError, UnsupportedFormatError, DatasetError if there are several cameras and no primary_camera_key.
    """

    def __init__(  # noqa: PLR0913, PLR0917  (the signature of the original)
        self,
        repo_id: str,
        root: str | os.PathLike[str] | None = None,
        episodes: Sequence[int] | None = None,
        frameskip: int = 1,
        num_steps: int = 1,
        transform: Callable[[Item], Item] | None = None,
        keys_to_load: Sequence[str] | None = None,
        keys_to_cache: Sequence[str] | None = None,
        primary_camera_key: str | None = None,
        key_aliases: Mapping[str, str] | None = None,
        **lerobot_kwargs: Any,
    ) -> None:
        for option, value in lerobot_kwargs.items():
            refuse_option(option, value)
        if key_aliases is not None and not isinstance(key_aliases, Mapping):
            raise DatasetError(f"key_aliases: expected {{native name: name}}, found {shown(key_aliases)}")
        requested, cached = list_names(keys_to_load, "keys_to_load"), list_names(keys_to_cache, "keys_to_cache")
        folder = Path(root) if root is not None else find_repository(repo_id) or download_repository(repo_id)
        source = open_source(folder, "lerobot")
        selected = None if episodes is None else [(0, str(number)) for number in episodes]
        super().__init__([source], frameskip, num_steps, transform, episodes=selected)
        self._pixels = self._find_camera(primary_camera_key)
        native = {"pixels": self._pixels, "action": "action", "proprio": "observation.state"}
        native |= {name: key for key, name in (key_aliases or {}).items()}
        columns = {
            name: self.find_column(key) for name, key in native.items() if key and (key_aliases or self._has(key))
        }
        self.columns = columns
        self._names = [*columns, "ep_idx", "step_idx"]
        for name in (*(requested or ()), *(cached or ())):
            self._check_column(name)
        self._names = [name for name in self._names if not requested or name in requested]
        for name in cached or ():
            self._cached[name] = self.get_col_data(name)

    def _has(self, key: str) -> bool:
        return any(column.block.partition("/")[2] == key for column in self.columns.values()) or key in self.columns

    def _find_camera(self, primary: str | None) -> str:
        cameras = [name for name, column in self.columns.items() if column.is_image]
        if (primary is None and len(cameras) > 1) or (primary is not None and primary not in cameras):
            given = "none" if primary is None else shown(primary)
            raise DatasetError(f"primary_camera_key: expected one of {', '.join(cameras) or 'none'}, found {given}")
        return primary or next(iter(cameras), "")

    def _take(self, column: str, episodes: NDArray[np.int64], steps: NDArray[np.int64]) -> Any:
        if column == "ep_idx":
            return np.broadcast_to(episodes[:, None], steps.shape).copy()
        if column == "step_idx":
            return steps
        return super()._take(column, episodes, steps)

    def _as_shown(self, column: str, rows: Any) -> Any:
        if column == "pixels":
            rows = rows.astype(np.float32) / 255
        presented = super()._as_shown(column, rows)
        return presented[:, 0] if column == "pixels" and self.num_steps == 1 and presented.shape[1] == 1 else presented
