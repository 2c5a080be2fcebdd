"""What may be wrong with an archive: the kinds of findings, and what to do about each."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.episode.protocol import EpisodeAddress

ADVICE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "missing": "bring the file back, ingest the folder where it is now, or forget it: wshard ingest FOLDER --prune",
        "unreadable": "give back the right to read it",
        "moved": "--repair takes the new place in",
        "touched": "--repair notes the new time",
        "changed": "--repair reads it again and embeds it anew",
        "corrupt": "bring the file back from elsewhere, or save what is whole: wshard repair FILE",
        "unfinished": "wshard recover FILE",
        "abandoned": "delete it, if no program is writing to it",
        "leftover": "--repair removes it",
        "database": "wshard restore BACKUP --force (a server: its dump); without one move it away and ingest again",
        "orphaned": "--repair drops them",
        "stale": "--repair drops them and embeds the episodes anew",
        "retired": "--repair drops them",
        "torn": "--repair drops them and embeds the episodes anew",
        "unembedded": "--repair, or the same wshard ingest as before, embeds them or tells why it cannot",
        "outdated": "wshard ingest with this version's embedder makes a new Space beside it",
        "index": "--repair mends the copy, or makes it anew, from the catalog",
        "unreachable": "start the index's server, or mend its URL or token; without --index the archive's own answers",
    }
)
"""Kind of finding -> what to do about it."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: its kind, where, and in words. episode is its id, 0 for none or many of them.

    seen: where a moved episode was found.
    """

    code: str
    where: str
    told: str
    episode: int = 0
    seen: EpisodeAddress | None = None

    @property
    def advice(self) -> str:
        """What to do about it."""
        return ADVICE[self.code]
