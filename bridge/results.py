"""The results of a search: Hits, a list of EpisodeRefs, each of which loads itself straight from where it is."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bridge.episodes.open import open_at
from wshard.arguments import whole_number
from wshard.episode.protocol import EpisodeAddress
from wshard.errors import QueryError, StaleEpisodeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bridge.index.base import Explained
    from catalog.records import EpisodeRow
    from embedders.space import Space
    from wshard.episode.protocol import EpisodeReader
    from wshard.types import Episode


@dataclass(frozen=True)
class EpisodeRef:
    """One hit. score: higher is better, 1 = the same, see docs/search.md. span: timesteps [start, stop) that matched.

    metadata: the episode's own, and env_id, length_T, total_reward, success, tags. contributions: what each lane adds
    to the cosine of query and hit, their sum; empty where it was not asked for. alignment: pairs (query step, episode
    step) that meet, of moments and where it was asked for; lane_scores: how well each lane alone agrees along them, 0
    to 1. Hits may be kept in sets: equal ones have equal hashes.
    """

    episode_id: str
    file_path: str
    score: float
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    span: tuple[int, int] = (0, 0)
    uid: str = ""
    digest: str = field(default="", repr=False)
    key: str = ""
    contributions: Mapping[str, float] = field(default_factory=dict, repr=False, hash=False)
    alignment: tuple[tuple[int, int], ...] = field(default=(), repr=False)
    lane_scores: Mapping[str, float] = field(default_factory=dict, repr=False, hash=False)

    @property
    def address(self) -> EpisodeAddress:
        """Where the episode is: file_path, and its key where that is a location of many."""
        return EpisodeAddress(self.file_path, self.key)

    @property
    def aligned(self) -> tuple[int, int]:
        """Timesteps [start, stop) that the alignment begins and ends with; those of the span where there is none."""
        return (self.alignment[0][1], self.alignment[-1][1] + 1) if self.alignment else self.span

    @property
    def remaining(self) -> int:
        """Timesteps that the episode goes on for after the span; 0 where the catalog does not say its length."""
        return max(0, int(self.metadata.get("length_T", 0)) - self.span[1])

    def after(self, steps: int) -> EpisodeRef:
        """Return what comes next: the same episode with the span of up to `steps` timesteps behind this one.

        Raises QueryError for what is no whole number.
        """
        steps = whole_number(steps, "steps after a hit", QueryError)
        start, stop = self.span[1], self.span[1] + min(max(steps, 0), self.remaining)
        return replace(self, span=(start, stop), alignment=(), lane_scores={}, contributions={})

    def load(self, channels: Sequence[str] | None = None) -> Episode:
        """Load the whole episode from its file or chunks, checksums verified; channels as in load_wshard.

        Raises FileNotFoundError if the file is gone, StaleEpisodeError if it is not the one that was ingested,
        EntryNotFoundError for an unknown channel, FormatError for damage.
        """
        with self.open() as file:
            return file.load(channels)

    def load_span(self, channels: Sequence[str] | None = None) -> Episode:
        """Load the timesteps of the span alone, as `slice` of the open file does; reads little else.

        Raises StepError for a span without timesteps, such as what comes after the end, and what load raises.
        """
        with self.open() as file:
            return file.slice(*self.span, channels)

    @contextmanager
    def open(self) -> Iterator[EpisodeReader]:
        """Open the file or chunks lazily: `with hit.open() as file: file["state"][10:20]`.

        Raises what load raises of files that are gone, changed or damaged.
        """
        with open_at(self.address) as file:
            if self.digest and file.digest() != self.digest:
                raise StaleEpisodeError(f"{self.address}: changed since it was ingested: ingest it again")
            yield file


def make_ref(row: EpisodeRow, score: float, span: tuple[int, int]) -> EpisodeRef:
    """Return the hit for a catalogued episode."""
    known = {
        "env_id": row.env_id,
        "length_T": row.length,
        "total_reward": row.total_reward,
        "success": row.success,
        "tags": list(row.tags),
    }
    return EpisodeRef(row.episode_id, row.path, score, {**row.metadata, **known}, span, row.uid, row.digest, row.key)


@dataclass(frozen=True)
class Answered:
    """The Spaces that answered a search, none for words alone, and those that its query fits besides.

    others: to be chosen by embedder=, lanes= or windows=. notes: what else is to be told, as sentences: of a text that
    no episode has, of a filter that none passes.
    """

    spaces: tuple[Space, ...] = ()
    others: tuple[Space, ...] = ()
    notes: tuple[str, ...] = ()


class Hits(list[EpisodeRef]):
    """Hits, best first. exact: proven to be the best there are. milliseconds: embedding, search and catalog look-up.

    missing: matches that were passed over because their files are gone or were changed. explained: how the index found
    them, where that was asked for. answered: by which Spaces, and what is to be told besides.
    """

    def __init__(
        self,
        refs: Iterable[EpisodeRef] = (),
        *,
        exact: bool = True,
        milliseconds: float = 0.0,
        missing: int = 0,
        explained: Explained | None = None,
        answered: Answered = Answered(),
    ) -> None:
        super().__init__(refs)
        self.exact = exact
        self.milliseconds = milliseconds
        self.missing = missing
        self.explained = explained
        self.answered = answered
