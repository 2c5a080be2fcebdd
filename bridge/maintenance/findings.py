"""The kinds of findings in an archive, and how to fix each."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.episode.protocol import EpisodeAddress

ADVICE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "missing": "restore the file or ingest its new location; episodes gone for good: wshard ingest FOLDER --prune",
        "incomplete": "restore the file; the other lanes of the episode can be read and searched",
        "unreadable": "grant permission to read it",
        "moved": "--repair records the new location",
        "touched": "--repair records the new size and time",
        "changed": "--repair reads it again and re-embeds it",
        "corrupt": "restore the file from a copy; intact parts of a .wshard or .shardpack: wshard repair FILE",
        "unfinished": "wshard recover FILE",
        "abandoned": "delete it if no program is writing to it",
        "leftover": "--repair removes it",
        "database": "wshard restore BACKUP --force (a server: its dump); else move it away and ingest again",
        "orphaned": "--repair drops them",
        "stale": "--repair drops them and re-embeds the episodes",
        "retired": "--repair drops them",
        "torn": "--repair drops them and re-embeds the episodes",
        "unembedded": "--repair, or the same wshard ingest as before, embeds them or reports why not",
        "outdated": "wshard ingest FOLDER embeds them with what is installed; then wshard index drop SPACE --yes",
        "index": "--repair repairs or rebuilds the copy from the catalog",
        "unreachable": "start the index server, or fix its URL or token; without --index the embedded index is used",
    }
)
"""Kind of finding -> what to do about it."""


@dataclass(frozen=True)
class Finding:
    """One problem: its kind, its location, and a message. episode is its id, 0 for none or for several.

    seen: where a moved episode was found.
    """

    code: str
    where: str
    message: str
    episode: int = 0
    seen: EpisodeAddress | None = None

    @property
    def advice(self) -> str:
        """What to do about it."""
        return ADVICE[self.code]
