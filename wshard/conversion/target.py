"""Where converted episodes go."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wshard.container.atomic_write import check_folder_of
from wshard.errors import FormatError
from wshard.formats.base import open_sink, sink_class
from wshard.formats.detect import detect_format, known_format
from wshard.formats.table import FORMATS
from wshard.formats.wshard import SUFFIXES

if TYPE_CHECKING:
    from wshard.container.codec_plan import Compression
    from wshard.container.draft import WriteMode
    from wshard.episode.encode_cameras import Encode
    from wshard.formats.base import Sink

_NAMED_BY_SUFFIX: Final = {
    **dict.fromkeys(SUFFIXES, "wshard"),
    ".npz": "dreamerv3",
    **{entry.suffix: name for name, entry in FORMATS.items() if entry.suffix},
}
"""What the name of an output says where nothing is there yet; without a suffix, it is a folder of .wshard files."""


@dataclass(frozen=True)
class ConversionTarget:
    """Where converted episodes go. mode: see Sink; encode: how raw camera lanes are encoded, as in save_wshard."""

    location: str
    format: str
    compression: Compression = "none"
    mode: WriteMode = "append"
    encode: Encode | None = None

    @staticmethod
    def of(
        location: str | os.PathLike[str],
        format_name: str | None,
        *,
        compression: Compression = "none",
        mode: WriteMode = "append",
    ) -> ConversionTarget:
        """Return the target; without a format, existing contents or the suffix of the name determine it.

        Raises UnknownFormatError, UnsupportedFormatError for one that cannot be written.
        """
        path = os.fspath(location)
        suffix = Path(path).suffix.lower()
        guess = _NAMED_BY_SUFFIX.get(suffix) or detect_format(path) or ("" if suffix else "wshard")
        name = known_format(format_name, guess, path)
        sink_class(name)
        return ConversionTarget(path, name, compression, mode)

    @property
    def takes_one_per_file(self) -> bool:
        """Whether the format has a file for each episode, and a folder for several."""
        return bool(getattr(sink_class(self.format), "one_per_file", False))

    def prepare(self, count: int) -> None:
        """Make the folder for several episodes of a format that has one file each; raises FormatError for a file."""
        path = Path(self.location)
        if not self.takes_one_per_file or path.is_dir() or (count == 1 and path.suffix):
            return
        if path.exists() or path.suffix.lower() in _NAMED_BY_SUFFIX:
            raise FormatError(f"{path}: expected a folder for the {count} episode(s)")
        check_folder_of(path)
        path.mkdir()

    def open(self) -> Sink:
        """Open the target for writing."""
        return open_sink(self.location, self.format, compression=self.compression, mode=self.mode)
