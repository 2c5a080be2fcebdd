"""The results of a search: Hits, a list of EpisodeRefs, which load their episodes in place."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any, Final, SupportsIndex, overload

from bridge.answered import Answered
from bridge.episodes.open import open_at, open_unchanged
from wshard.core.arguments import whole_number
from wshard.core.episode.protocol import EpisodeAddress, Fingerprint
from wshard.core.messages import how_to_install, plural
from wshard.errors import MissingExtraError, QueryError, StaleEpisodeError, WShardError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pandas as pd
    import pyarrow as pa

    from bridge.episodes.clips import Missing
    from bridge.episodes.drawing import Sketch
    from bridge.index.base import Explanation
    from catalog.records import EpisodeRow
    from wshard.core.episode.protocol import EpisodeReader
    from wshard.core.types import Episode
    from wshard.training.data.derived.spans import SpanDataset


_COLUMNS: Final = {
    "rank": "int64",
    "score": "float64",
    "episode_id": "string",
    "env_id": "string",
    "length": "int64",
    "total_reward": "float64",
    "success": "bool_",
    "start": "int64",
    "stop": "int64",
    "uid": "string",
    "file_path": "string",
}
"""Columns of hits as a table, and their Arrow types."""

_MAX_SHOWN: Final = 3  # hits in a repr
_NOTHING_KNOWN: Final = Answered()


@dataclass(frozen=True, repr=False)
class EpisodeRef:
    """One hit. score: higher is better, 1 = identical (see docs/search.md). span: matching timesteps [start, stop).

    metadata: the episode's own, and env_id, length, total_reward, success, tags. contributions: how much each lane adds
    to the cosine of query and hit (they sum up to it); empty unless requested. alignment: pairs (query step, episode
    step), for moments and on request; lane_scores: agreement of each lane along the alignment, 0 to 1. Hits are
    hashable; equal hits have equal hashes.
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
    contributions: Mapping[str, float] = field(default_factory=dict, hash=False)
    alignment: tuple[tuple[int, int], ...] = ()
    lane_scores: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __repr__(self) -> str:
        """Return the hit's episode, span and score."""
        return f"EpisodeRef({self.episode_id!r}, span={self.span}, score={self.score:.4f})"

    def _repr_html_(self) -> str:
        """Return the view for notebooks: frames that play under the pointer, and plots of the lanes."""
        return _draw(self) or f"<pre>{escape(repr(self))}</pre>"

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
        return max(0, int(self.metadata.get("length", 0)) - self.span[1])

    def after(self, steps: int) -> EpisodeRef:
        """Return the continuation: the same episode with a span of up to `steps` timesteps after this one.

        Raises QueryError if steps is not a whole number.
        """
        steps = whole_number(steps, "steps after a hit", QueryError)
        start, stop = self.span[1], self.span[1] + min(max(steps, 0), self.remaining)
        return replace(self, span=(start, stop), alignment=(), lane_scores={}, contributions={})

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


def _draw(ref: EpisodeRef) -> str:
    """Return a drawing of a hit as HTML, "" if its file cannot be read."""
    from bridge.episodes.drawing import draw_html  # noqa: PLC0415  (only notebooks need it)

    try:
        return draw_html(sketch_hit(ref))
    except (WShardError, OSError):
        return ""


def sketch_hit(ref: EpisodeRef, *, frames: int = 16) -> Sketch:
    """Return a sketch of the span of a hit, or of its whole episode without a span. Raises as EpisodeRef.open."""
    from bridge.episodes.drawing import read_sketch  # noqa: PLC0415  (only drawings need it)

    with ref.open() as file:
        span = ref.span if ref.span[1] > ref.span[0] else (0, file.length)
        title = f"{ref.episode_id} {span[0]}:{span[1]}" + (f"  {ref.score:.3f}" if ref.score < 1 else "")
        return read_sketch(file, title, span, frames=frames)


def make_ref(row: EpisodeRow, score: float, span: tuple[int, int]) -> EpisodeRef:
    """Return the hit for a catalogued episode."""
    catalogued = {
        "env_id": row.env_id,
        "length": row.length,
        "total_reward": row.total_reward,
        "success": row.success,
        "tags": list(row.tags),
    }
    metadata, fingerprint = {**row.metadata, **catalogued}, Fingerprint(row.size, row.mtime_ns)
    read_as = row.address.read_as
    return EpisodeRef(
        row.episode_id, row.path, score, metadata, span, row.uid, row.digest, row.key, read_as, fingerprint
    )


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


class Hits(list[EpisodeRef]):
    """Hits, best first. exact: proven to be the best of the episodes compared (see answered.left_out for others).

    For a fused search exact says that of each list that was fused. milliseconds: time of embedding, search and
    look-up.

    missing: matches that were skipped because their files are missing or have changed. explained: how the index found
    the hits, if requested. answered: the Spaces that were searched, and notes for the user.
    """

    def __init__(
        self,
        refs: Iterable[EpisodeRef] = (),
        *,
        exact: bool = True,
        milliseconds: float = 0.0,
        missing: int = 0,
        explained: Explanation | None = None,
        answered: Answered = _NOTHING_KNOWN,
    ) -> None:
        super().__init__(refs)
        self.exact = exact
        self.milliseconds = milliseconds
        self.missing = missing
        self.explained = explained
        self.answered = answered

    @overload
    def __getitem__(self, place: SupportsIndex, /) -> EpisodeRef: ...
    @overload
    def __getitem__(self, place: slice, /) -> Hits: ...
    def __getitem__(self, place: SupportsIndex | slice, /) -> EpisodeRef | Hits:
        """Return a hit, or for a slice the Hits of it: `hits[:5].to_pandas()`."""
        chosen = super().__getitem__(place)
        if not isinstance(chosen, list):
            return chosen
        return Hits(chosen, **vars(self))

    def __repr__(self) -> str:
        """Return how many hits there are, the first ones, and the notes."""
        first = ", ".join(f"{ref.episode_id!r} {ref.score:.4f}" for ref in self[:_MAX_SHOWN])
        more = ", ..." if len(self) > _MAX_SHOWN else ""
        notes = "".join(f"; {note}" for note in self._notes())
        return f"<{plural(len(self), 'hit')}{': ' if self else ''}{first}{more}{notes}>"

    def _repr_html_(self) -> str:
        """Return the table that notebooks show, drawings of the first hits, and the notes."""
        head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
        rows = ("".join(f"<td>{_format_cell(value)}</td>" for value in row.values()) for row in self._rows())
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        strip = "".join(f'<div style="margin-right:12px">{_draw(ref)}</div>' for ref in self[:_MAX_SHOWN])
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        notes = "".join(f"<p>{escape(note)}</p>" for note in self._notes())
        return f'{table}<div style="display:flex;overflow-x:auto">{strip}</div>{notes}'

    @property
    def certainty(self) -> str:
        """Whether hits are exact, and among how many episodes, if others that pass the filter were not compared."""
        word, compared = "exact" if self.exact else "approximate", self.answered.compared
        return word if compared is None else f"{word} among the {plural(compared, 'episode')} compared"

    def _notes(self) -> list[str]:
        return [*self.answered.notes, *([self.answered.missed] if self.answered.left_out else [])]

    def dataset(
        self, *, weights: Sequence[float] | None = None, missing: Missing = "raise", **options: Any
    ) -> SpanDataset:
        """Return the spans of the hits as clips for training: `hits.dataset(num_steps=16, frameskip=3)`.

        weights: one per hit, used by ClipSampler and ClipLoader. missing "skip": hits whose files are gone, damaged or
        changed are left out, with a SkippedEpisodeWarning. options: those of wshard.data.SourceDataset. A hit with a
        span shorter than a clip has no clips. Raises StaleEpisodeError, DatasetError, FileNotFoundError, NoClipsError.
        """
        from bridge.episodes.clips import ClipPlace, open_clips  # noqa: PLC0415  (searches do not need it)

        places = [
            ClipPlace(ref.address, *ref.span, ref.digest, ref.fingerprint, ref.metadata.get("length")) for ref in self
        ]
        return open_clips(places, weights, options, missing=missing)

    def to_arrow(self) -> pa.Table:
        """Return the hits, best first, as an Arrow table; raises MissingExtraError without pyarrow."""
        try:
            import pyarrow as pa  # noqa: PLC0415  (only tables need it)
        except ImportError as error:
            raise MissingExtraError(f"tables need pyarrow: {how_to_install('parquet')}") from error
        rows = [*self._rows()]
        columns = {name: pa.array([row[name] for row in rows], getattr(pa, kind)()) for name, kind in _COLUMNS.items()}
        return pa.table(columns)

    def to_pandas(self) -> pd.DataFrame:
        """Return the hits, best first, as a data frame; raises MissingExtraError without pyarrow or pandas."""
        try:
            import pandas as _  # noqa: F401, ICN001, PLC0415  (only to say what is missing)
        except ImportError as error:
            raise MissingExtraError(f"data frames need pandas: {how_to_install('pandas')}") from error
        return self.to_arrow().to_pandas()

    def _rows(self) -> Iterator[dict[str, Any]]:
        for rank, ref in enumerate(self, 1):
            properties = {name: ref.metadata.get(name) for name in ("env_id", "length", "total_reward", "success")}
            start, stop = ref.span
            location = {"start": start, "stop": stop, "uid": ref.uid, "file_path": ref.file_path}
            yield {"rank": rank, "score": ref.score, "episode_id": ref.episode_id, **properties, **location}


def _format_cell(value: object) -> str:
    if value is None:
        return ""
    return escape(f"{value:.4f}" if isinstance(value, float) else str(value))
