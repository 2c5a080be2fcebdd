"""EpisodeRef: a search hit that loads itself straight from its file.

Knows: which file, which timesteps, what the catalog says of it. Does not know: how it was found.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wshard.episode_file import open_wshard
from wshard.errors import StaleEpisodeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog.records import EpisodeRow
    from wshard.types import Episode


@dataclass(frozen=True)
class EpisodeRef:
    """One hit. score: higher is better, 1 = the same, see docs/search.md. span: timesteps [start, stop) that matched.

    metadata: the episode's own, and env_id, length_T, total_reward, success, tags. contributions: what each lane adds
    to the cosine of query and hit, their sum; empty where it was not asked for.
    """

    episode_id: str
    file_path: str
    score: float
    metadata: Mapping[str, Any] = field(default_factory=dict)
    span: tuple[int, int] = (0, 0)
    uid: str = ""
    digest: str = field(default="", repr=False)
    contributions: Mapping[str, float] = field(default_factory=dict, repr=False)

    def load(self, channels: Sequence[str] | None = None) -> Episode:
        """Load the whole episode from its file, checksums verified; channels as in load_wshard.

        Raises FileNotFoundError if the file is gone, StaleEpisodeError if it is not the one that was ingested,
        EntryNotFoundError for an unknown channel, FormatError for damage.
        """
        with open_wshard(self.file_path) as file:
            if self.digest and file.digest() != self.digest:
                raise StaleEpisodeError(f"{self.file_path}: changed since it was ingested: ingest it again")
            return file.load(channels)


def make_ref(row: EpisodeRow, score: float, span: tuple[int, int]) -> EpisodeRef:
    """Return the hit for a catalogued episode."""
    known = {
        "env_id": row.env_id,
        "length_T": row.length,
        "total_reward": row.total_reward,
        "success": row.success,
        "tags": list(row.tags),
    }
    return EpisodeRef(row.episode_id, row.path, score, {**row.metadata, **known}, span, row.uid, row.digest)
