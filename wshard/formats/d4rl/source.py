"""D4RL as a Source: an HDF5 file with the concatenated rows of all episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from wshard.core.episode.lanes import DONE, REWARD, TRUNCATIONS
from wshard.errors import FormatError
from wshard.formats.hdf5.lane_table import LaneTable
from wshard.formats.hdf5.nodes import expect_dataset, find, translate_errors
from wshard.formats.hdf5.source import Hdf5Source
from wshard.formats.hdf5.walk import walk_datasets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.types import Array
    from wshard.formats.hdf5.lane_table import ColumnInfo

HORIZON: Final = 1000
"""Timesteps of an episode of D4RL's MuJoCo tasks, where files lack timeouts."""
STEP_LANES: Final = {"rewards": REWARD, "terminals": DONE, "timeouts": TRUNCATIONS}

_NEXT_OBSERVATIONS: Final = "next_observations"
_METADATA_PREFIX: Final = "metadata/"


@dataclass(frozen=True)
class FlatSpan:
    """The rows [start, stop) of an episode. end: "" for a flag, "horizon", or "unfinished" for rows after the last."""

    start: int
    stop: int
    end: str = ""

    @property
    def length(self) -> int:
        """The number of rows."""
        return self.stop - self.start


class D4rlSource(Hdf5Source[FlatSpan]):
    """The episodes of a file by their numbers: "0", "1", ..."""

    kind = "d4rl"
    own_lanes = False
    meaning: ClassVar = (
        ("observations, actions", "signal/observations, action/actions"),
        ("rewards, terminals, timeouts", "reward, done, aux/truncations"),
        ("infos/NAME and other rows", "signal/infos/NAME, signal/NAME"),
        ("next_observations", "its last row: metadata final_observation; the others are observations one step later"),
        ("metadata/NAME", "metadata NAME, of texts and small arrays"),
        ("ends", "an episode ends with a row whose terminals or timeouts are set"),
        ("files without timeouts", "it ends after 1,000 rows, too: metadata horizon"),
        ("rows after the last end", "an episode of its own: metadata unfinished"),
        ("action alignment", "actions at t follow the observations at t"),
        ("environment, clock", "not stated"),
    )

    def _scan(self) -> Mapping[str, FlatSpan]:
        where = self.where_of("")
        with translate_errors(where):
            file = self._open(self._place)
            count = len(expect_dataset(file, "actions", where))
            flag_datasets = {name: find(file, name, where) for name in ("terminals", "timeouts")}
            flags = {
                name: flatten_flags(expect_dataset(file, name, where)[()], count, f"{where}: {name!r}")
                for name, dataset in flag_datasets.items()
                if dataset is not None
            }
        if not flags:
            raise FormatError(f"{where}: expected terminals or timeouts, which end episodes, found neither")
        is_end = np.logical_or.reduce([*flags.values()])
        return split_at_flags(is_end, horizon=None if "timeouts" in flags else HORIZON)

    def _columns(self, key: str, ref: FlatSpan, file: Any) -> ColumnInfo:
        datasets = self._datasets(file)
        count = len(datasets["actions"])
        table = LaneTable(ref.length, self.where_of(key), first=ref.start)
        for path, dataset in datasets.items():
            rows = dataset.shape[0] if dataset.shape else 0
            if path == _NEXT_OBSERVATIONS:
                table.add_final("observations", dataset, ref.stop - 1)
            elif path.startswith(_METADATA_PREFIX):
                table.add_constant(path.removeprefix(_METADATA_PREFIX), dataset)
            elif rows == count:
                table.add(_block(path), path, dataset, rows=ref.length)
            elif path.partition("/")[0] in ("observations", *STEP_LANES):
                raise FormatError(f"{table.where}: {path!r}: expected {count} rows to match 'actions', found {rows}")
        if ref.end:
            table.metadata[ref.end] = True if ref.end == "unfinished" else HORIZON
        return table.info(f"episode_{key}")

    def _datasets(self, file: Any) -> dict[str, Any]:
        """Return all datasets by path, listed once per open file."""
        cache = self._cache("datasets")
        if cache.get("file") is not file:
            where = self.where_of("")
            cache.update(file=file, found=dict(walk_datasets(file, where)))
        datasets: dict[str, Any] = cache["found"]
        return datasets


def _block(path: str) -> str:
    """Return the lane of a dataset."""
    if path in STEP_LANES:
        return STEP_LANES[path]
    return f"action/{path}" if path.partition("/")[0] == "actions" else f"signal/{path}"


def split_at_flags(flags: Array, *, horizon: int | None = None) -> dict[str, FlatSpan]:
    """Return the episodes by number; each ends with a flagged row, or after `horizon` rows."""
    ends = np.flatnonzero(flags) + 1
    end_of_rows = [len(flags)] if len(flags) and (not len(ends) or ends[-1] < len(flags)) else []
    spans: list[FlatSpan] = []
    start = 0
    for number, stop in enumerate([*ends.tolist(), *end_of_rows]):
        end = "unfinished" if number == len(ends) else ""
        while horizon is not None and stop - start > horizon:
            spans.append(FlatSpan(start, start + horizon, "horizon"))
            start += horizon
        is_full = end and horizon is not None and stop - start == horizon
        spans.append(FlatSpan(start, stop, "horizon" if is_full else end))
        start = stop
    return {str(number): span for number, span in enumerate(spans)}


def flatten_flags(values: Array, length: int, where: str) -> Array:
    """Return flags [N] or [N, 1] as bool [N]; raises FormatError for another number of flags."""
    flags: Array = np.asarray(values).reshape(-1) != 0
    if len(flags) != length:
        raise FormatError(f"{where}: expected {length} flags, one for each row of actions, found {len(flags)}")
    return flags
