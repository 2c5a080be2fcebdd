"""EpisodeRef: one hit of a search, which loads its episode in place."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any

from bridge.episodes.open import open_at, open_unchanged
from wshard.core.arguments import whole_number
from wshard.core.episode.protocol import EpisodeAddress, Fingerprint
from wshard.errors import QueryError, StaleEpisodeError, WShardError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bridge.episodes.sketch import Sketch
    from catalog.records import EpisodeRow
    from wshard.core.episode.protocol import EpisodeReader
    from wshard.core.types import Episode


@dataclass(frozen=True)
class SeenFrame:
    """The camera frame of a hit that shows a picture best: lane, timestep, and its time in seconds if that is known."""

    camera: str
    step: int
    seconds: float | None = None


@dataclass(frozen=True, repr=False)
class EpisodeRef:
    """One hit: an episode of an archive, which it loads in place. Hits are hashable; equal hits have equal hashes.

    Args:
        episode_id: The episode's own name.
        file_path: Its file or location.
        score: Higher is better, 1 = identical (see docs/search.md).
        metadata: The episode's own, and env_id, length, total_reward, success, tags, which are properties, too.
        span: The matching timesteps [start, stop).
        uid: The name of the episode in the catalog, which no other has.
        digest: Of the data that was ingested, "" to load any.
        key: Of an episode in a location of several.
        read_as: How to read the location, as in EpisodeAddress.
        fingerprint: Size and time of the file that was ingested.
        compared_by: The lanes compared with the query, () for words alone; in part: "signal/state (7 of 8 channels)".
        contributions: What each lane adds to the cosine of query and hit, which is their sum; on request.
        descriptors: What each descriptor (path, shape, areas) adds to it, likewise.
        alignment: Pairs (query step, episode step), for moments and on request.
        lane_scores: Agreement of each lane along the alignment, 0 to 1.
        seen: The camera frame that shows the picture, for searches by picture.
        layout: The id of its lanes in the catalog; episodes with the same one have the same lanes.

    Examples:
        >>> hit = EpisodeRef("reach-7", "reach-7.wshard", 0.9312, {"length": 100}, (10, 30))
        >>> hit, hit.after(50).span
        (EpisodeRef('reach-7', span=(10, 30), score=0.9312), (30, 80))
    """

    episode_id: str
    file_path: str
    score: float
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    span: tuple[int, int] = (0, 0)
    uid: str = ""
    digest: str = ""
    key: str = ""
    read_as: str = ""
    fingerprint: Fingerprint | None = None
    compared_by: tuple[str, ...] = ()
    contributions: Mapping[str, float] = field(default_factory=dict, hash=False)
    descriptors: Mapping[str, float] = field(default_factory=dict, hash=False)
    alignment: tuple[tuple[int, int], ...] = ()
    lane_scores: Mapping[str, float] = field(default_factory=dict, hash=False)
    seen: SeenFrame | None = None
    layout: int | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        """Return the hit's episode, span and score."""
        return f"EpisodeRef({self.episode_id!r}, span={self.span}, score={self.score:.4f})"

    def _repr_html_(self) -> str:
        """Return the view for notebooks: frames that play under the pointer, and plots of the lanes."""
        return draw_hit(self) or f"<pre>{escape(repr(self))}</pre>"

    @property
    def env_id(self) -> str:
        """The environment of the episode, "" if unknown."""
        return self.metadata.get("env_id") or ""

    @property
    def length(self) -> int:
        """The timesteps of the whole episode, 0 if unknown."""
        return int(self.metadata.get("length") or 0)

    @property
    def total_reward(self) -> float | None:
        """The sum of its rewards, None if they were not recorded."""
        reward: float | None = self.metadata.get("total_reward")
        return reward

    @property
    def success(self) -> bool | None:
        """Whether it succeeded, None if unknown."""
        success: bool | None = self.metadata.get("success")
        return success

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags when it was found, in alphabetical order."""
        return tuple(self.metadata.get("tags", ()))

    @property
    def address(self) -> EpisodeAddress:
        """The address of the episode: file_path, and its key in a location of several episodes."""
        return EpisodeAddress(self.file_path, self.key, self.read_as)

    @property
    def aligned(self) -> tuple[int, int]:
        """Timesteps [start, stop) covered by the alignment, or by the span if there is no alignment."""
        return (self.alignment[0][1], self.alignment[-1][1] + 1) if self.alignment else self.span

    @property
    def remaining(self) -> int:
        """Number of timesteps after the span; 0 if the catalog does not know the length of the episode."""
        return max(0, self.length - self.span[1])

    def after(self, steps: int) -> EpisodeRef:
        """Return the continuation: the same episode with a span of up to `steps` timesteps after this one.

        Raises QueryError if steps is not a whole number.
        """
        steps = whole_number(steps, "steps after a hit", QueryError)
        start, stop = self.span[1], self.span[1] + min(max(steps, 0), self.remaining)
        return replace(self, span=(start, stop), alignment=(), lane_scores={}, contributions={}, descriptors={})

    def load(self, channels: Sequence[str] | None = None) -> Episode:
        """Load the whole episode from its file or chunks and verify checksums; channels as in load_wshard.

        Raises FileNotFoundError if the file is missing, StaleEpisodeError if it has changed since it was ingested,
        EntryNotFoundError for an unknown channel, FormatError for damage.
        """
        with self.open() as file:
            return file.load(channels)

    def load_span(self, channels: Sequence[str] | None = None) -> Episode:
        """Load only the timesteps of the span, like `slice` of the open file, reading little else.

        Raises StepError for an empty span, such as after the end of the episode, and the errors of load.
        """
        with self.open() as file:
            return file.slice(*self.span, channels)

    @contextmanager
    def open(self) -> Iterator[EpisodeReader]:
        """Open the file or chunks lazily: `with hit.open() as file: file["state"][10:20]`.

        Raises the errors of load for files that are missing, changed or damaged.
        """
        unchanged = open_unchanged(self.address, self.fingerprint) if self.key and self.fingerprint else None
        with unchanged or open_at(self.address) as file:
            if self.digest and not unchanged and file.digest() != self.digest:
                raise StaleEpisodeError.at(self.address, self.address.uri)
            yield file


def draw_hit(ref: EpisodeRef, *, small: bool = False) -> str:
    """Return a drawing of a hit as HTML, "" if its file cannot be read; small: as one of several."""
    from bridge.episodes.drawing import draw_html  # noqa: PLC0415  (only notebooks need it)
    from bridge.episodes.figure import NOTEBOOK, STRIP  # noqa: PLC0415  (likewise)

    try:
        return draw_html(sketch_hit(ref), STRIP if small else NOTEBOOK)
    except (WShardError, OSError):
        return ""


def sketch_hit(ref: EpisodeRef, *, frames: int = 16) -> Sketch:
    """Return a sketch of the span of a hit, or of its whole episode without a span. Raises as EpisodeRef.open."""
    from bridge.episodes.sketch import read_sketch  # noqa: PLC0415  (only drawings need it)

    with ref.open() as file:
        span = ref.span if ref.span[1] > ref.span[0] else (0, file.length)
        title = f"{ref.episode_id} {span[0]}:{span[1]}" + (f"  {ref.score:.3f}" if ref.score < 1 else "")
        return read_sketch(file, title, span, frames=frames)


def make_ref(row: EpisodeRow, score: float, span: tuple[int, int], compared_by: Iterable[str] = ()) -> EpisodeRef:
    """Return the hit for a catalogued episode, compared by the lanes of these names."""
    catalogued = {
        "env_id": row.env_id,
        "length": row.length,
        "total_reward": row.total_reward,
        "success": row.success,
        "tags": list(row.tags),
    }
    metadata, fingerprint = {**row.metadata, **catalogued}, Fingerprint(row.size, row.mtime_ns)
    read_as, names = row.address.read_as, tuple(compared_by)
    return EpisodeRef(
        row.episode_id, row.path, score, metadata, span, row.uid, row.digest, row.key, read_as, fingerprint, names,
        layout=row.layout_id,
    )  # fmt: skip


def resolve_span(start: int | None, stop: int | None, episode_id: str, length: int) -> tuple[int, int]:
    """Return timesteps [start, stop) of an episode of that length, with the rules of slices; None for its ends.

    Raises QueryError if the span is empty, or ends after the episode.
    """
    first, last, _ = slice(start, stop).indices(length)
    if first >= last or (stop or 0) > length:
        found = "ends after the last" if first < last else "holds no"
        span_text = f"{'' if start is None else start}:{'' if stop is None else stop}"
        raise QueryError(f"span {span_text} {found} timestep of episode {episode_id!r}, which has {length}")
    return first, last
