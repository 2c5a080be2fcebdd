"""Record what is in memory, tables and rollouts, as episode files of a folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wshard.core.episode.file import save_wshard
from wshard.core.episode.protocol import EpisodeAddress
from wshard.core.messages import shown
from wshard.core.plugins import import_library
from wshard.errors import EpisodeError, WShardError
from wshard.formats.layouts.named import table_reference
from wshard.formats.layouts.options import TableOptions, is_table
from wshard.formats.layouts.rollouts import episode_of
from wshard.training.conversion.location import convert_location

if TYPE_CHECKING:
    import os

    from wshard.training.conversion.location import ConversionReport

_AT_ONCE: Final = 64  # rollouts that are moved to the folder at once
_ROW_GROUP: Final = 1 << 16


@dataclass
class Recording:
    """What was recorded: the number of new episodes, of those that were there already, and what failed, by name."""

    recorded: int = 0
    skipped: int = 0
    failed: dict[str, WShardError] = field(default_factory=dict)

    def add(self, report: ConversionReport) -> None:
        """Count the episodes of a report."""
        self.recorded += report.converted
        self.skipped += report.skipped
        self.failed.update({str(job.span.address.key or "data"): error for job, error in report.failed})


def record(data: Any, folder: str | os.PathLike[str], options: TableOptions | None = None) -> Recording:
    """Record a table, a rollout or an iterable of rollouts as .wshard files of a folder, which is created.

    Tables become episodes as `options` say; rollouts, as in episode_of, one at a time: an iterator may go on for long.
    What is there already is skipped; another episode of the same id gets a new one. One that fails does not stop the
    others. Raises EpisodeError for other data, LayoutError for columns that a table lacks.

    Example:
        >>> record([{"obs": np.zeros((5, 3)), "actions": np.zeros((5, 2))}], "recorded").recorded
        1
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="wshard-") as spool:
        if is_table(data):
            return _record_table(data, Path(spool), folder, options or TableOptions())
        return _record_rollouts([data] if isinstance(data, Mapping) else data, Path(spool), folder)


def _record_table(data: Any, spool: Path, folder: str | os.PathLike[str], options: TableOptions) -> Recording:
    arrow, parquet = import_library("pyarrow", "parquet"), import_library("pyarrow.parquet", "parquet")
    try:
        table = data.to_arrow() if hasattr(data, "to_arrow") else arrow.table(data)
        table = table.select([name for name in table.column_names if not name.startswith("__index_level_")])
        parquet.write_table(table, spool / "table.parquet", row_group_size=_ROW_GROUP)
    except (ValueError, TypeError, NotImplementedError) as error:  # of pyarrow about the data
        reason = "; ".join(map(str, error.args))
        raise EpisodeError(
            f"table: expected columns of one kind, each of another name: {reason}: drop the column"
        ) from None
    done = Recording()
    address = EpisodeAddress(str(spool / "table.parquet"), read_as=table_reference(options))
    done.add(convert_location(address, folder, target_format="wshard"))
    return done


def _record_rollouts(data: Any, spool: Path, folder: str | os.PathLike[str]) -> Recording:
    if not isinstance(data, Iterable) or isinstance(data, (str, bytes)):
        raise EpisodeError(f"expected a table, a mapping of arrays, or an iterable of these, found {shown(data)}")
    done, saved = Recording(), list[Path]()
    try:
        for number, rollout in enumerate(data):
            try:
                save_wshard(episode_of(rollout, number), spool / f"{number}.wshard")
            except WShardError as error:
                done.failed[f"rollout {number}"] = error
            else:
                saved.append(spool / f"{number}.wshard")
            if len(saved) == _AT_ONCE:
                _move(saved, folder, done)
    finally:  # also where the iterator ends with an error, or the user with Ctrl-C
        _move(saved, folder, done)
    return done


def _move(saved: list[Path], folder: str | os.PathLike[str], done: Recording) -> None:
    """Move complete episode files to the folder."""
    if saved:
        done.add(convert_location(saved, folder, target_format="wshard"))
    while saved:
        saved.pop().unlink()
