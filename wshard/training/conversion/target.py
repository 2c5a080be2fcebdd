"""Where converted episodes go."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wshard.core.container.atomic_write import check_folder_of
from wshard.errors import FormatError, WShardError
from wshard.formats.base import open_sink, sink_class
from wshard.formats.detect import format_to_write, known_format
from wshard.formats.open import open_location
from wshard.formats.table import BY_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.container.codec_plan import Compression
    from wshard.core.container.draft import WriteMode
    from wshard.core.episode.encode_cameras import Encode
    from wshard.formats.sink_base import SinkBase


@dataclass(frozen=True)
class ConversionTarget:
    """Output of a conversion. mode: see Sink; encode: how raw camera lanes are encoded, as in save_wshard.

    lane_map: new names of lanes by those that they have where they are read, a text of encode_lane_map.
    without: names of lanes that are left out of all episodes, as "reward" or "signal/state", by their new names.
    repeats: mode "append" may append to a set without ids, although episodes that it has already are written again.
    options: those of the format's Sink.
    """

    location: str
    format: str
    compression: Compression = "none"
    mode: WriteMode = "append"
    encode: Encode | None = None
    lane_map: str = ""
    without: tuple[str, ...] = ()
    repeats: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(
        location: str | os.PathLike[str],
        format_name: str | None,
        *,
        compression: Compression = "none",
        mode: WriteMode | None = None,
    ) -> ConversionTarget:
        """Return the target; without a format, contents or the suffix of the name determine it: wshard for none.

        mode None: "append" missing episodes; `prepare` refuses a set without ids, where they cannot be recognised.

        Raises UnknownFormatError, UnsupportedFormatError for one that cannot be written.
        """
        path = os.fspath(location)
        guess = format_to_write(path) or ("" if Path(path).suffix else "wshard")
        name = known_format(format_name, guess, path)
        sink_class(name)
        return ConversionTarget(path, name, compression, mode or "append", repeats=mode == "append")

    @property
    def takes_one_per_file(self) -> bool:
        """Whether the format stores each episode in a file, and several in a folder of such files."""
        return sink_class(self.format).one_per_file

    @property
    def is_separable(self) -> bool:
        """Whether episodes can be converted in any number of processes: each is a file, and none is replaced."""
        return self.takes_one_per_file and self.mode != "overwrite"

    @property
    def has_content(self) -> bool:
        """Whether there is a file, or a folder that is not empty."""
        path = Path(self.location)
        return any(path.iterdir()) if path.is_dir() else path.exists()

    def prepare(self, count: int) -> None:
        """Create the folder for several episodes of a format with one file each; raises FormatError if it is a file.

        Raises FormatError also for a set with episodes but without ids, unless it is replaced, or repeats is stated.
        """
        path = Path(self.location)
        if self.mode == "append" and not self.repeats and self._has_episodes_without_ids():
            raise FormatError(
                f"{path}: has episodes, and {self.format} stores no ids that tell which: state --mode append to write "
                "all of the new ones behind them, overwrite to replace them"
            )
        if not self.takes_one_per_file or path.is_dir() or (count == 1 and path.suffix):
            return
        if path.exists() or path.suffix.lower() in BY_SUFFIX:
            raise FormatError(f"{path}: expected a folder for the {count} episode(s)")
        check_folder_of(path)
        path.mkdir()

    def _has_episodes_without_ids(self) -> bool:
        if not sink_class(self.format).numbers_episodes:
            return False
        try:
            with open_location(self.location, self.format) as source:
                return next(iter(source.keys()), None) is not None
        except (WShardError, OSError):  # missing, or cannot be appended to: the Sink reports that
            return False

    def open(self, part: Path | None = None, mode: WriteMode | None = None) -> SinkBase:
        """Open the target for writing, or a part of it in another place."""
        place, mode = part or self.location, mode or self.mode
        return open_sink(place, self.format, compression=self.compression, mode=mode, **self.options)
