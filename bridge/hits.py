"""Hits: what a search returns, a list of EpisodeRefs, which can become a table or clips for training."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Final, SupportsIndex, overload

from bridge.answered import Answered
from bridge.results import EpisodeRef, draw_hit
from wshard.core.keywords import check_options
from wshard.core.messages import how_to_install, plural
from wshard.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pandas as pd
    import pyarrow as pa

    from bridge.episodes.clips import Missing
    from bridge.index.base import Explanation
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
_MAX_DRAWN: Final = 10  # hits in a notebook
_NOTHING_KNOWN: Final = Answered()


class Hits(list[EpisodeRef]):
    """Hits, best first: a list of EpisodeRefs, and how they were found.

    Args:
        refs: The hits.
        proven: They are the best of the episodes compared, or of each list of a fused search.
        milliseconds: The time of embedding, search and look-up.
        missing: How many matches were skipped because their files are missing or have changed.
        explained: How the index found the hits, if requested.
        answered: The Spaces that were searched, episodes that were not compared (left_out), and notes for the user.

    Examples:
        >>> Hits([EpisodeRef("reach-7", "reach-7.wshard", 0.9312), EpisodeRef("push-2", "push-2.wshard", 0.5)])
        <2 hits: 'reach-7' 0.9312, 'push-2' 0.5000>
    """

    def __init__(
        self,
        refs: Iterable[EpisodeRef] = (),
        *,
        proven: bool = True,
        milliseconds: float = 0.0,
        missing: int = 0,
        explained: Explanation | None = None,
        answered: Answered = _NOTHING_KNOWN,
    ) -> None:
        super().__init__(refs)
        self.proven = proven
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
        partly = () if self.proven else (self.answered.frames, self.answered.coverage)
        notes = "".join(f"; {note}" for note in (*partly, *self._notes()) if note)
        return f"<{plural(len(self), 'hit')}{': ' if self else ''}{first}{more}{notes}>"

    def _repr_html_(self) -> str:
        """Return what notebooks show: the strip of the first hits, how they were found, and all of them as a table."""
        head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
        rows = ("".join(f"<td>{_format_cell(value)}</td>" for value in row.values()) for row in self._rows())
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        strip = "".join(f'<div style="flex:none;width:310px">{_format_card(ref)}</div>' for ref in self[:_MAX_DRAWN])
        compared = ", ".join(dict.fromkeys(name for ref in self for name in ref.compared_by))
        found = f"{plural(len(self), 'hit')}, {self.certainty}{f', compared by {compared}' * bool(compared)}"
        notes = "".join(f"<p>{escape(note)}</p>" for note in (found, *self._notes()))
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        listed = f"<details><summary>All as a table</summary>{table}</details>" if self else ""
        return f'<div style="display:flex;gap:12px;overflow-x:auto">{strip}</div>{notes}{listed}'

    @property
    def exact(self) -> bool:
        """Whether they are proven to be the best of all episodes that pass the filter: none was left out."""
        return self.proven and self.answered.compared is None

    @property
    def certainty(self) -> str:
        """Whether hits are exact, among how many episodes if not all that pass, and which texts, frames and shards."""
        word, compared = "exact" if self.proven else "approximate", self.answered.compared
        among = "" if compared is None else f" among the {plural(compared, 'episode')} compared"
        looked = ", ".join(filter(None, (self.answered.texts, self.answered.frames)))
        shards = self.answered.coverage
        return f"{word}{among}{': ' * bool(looked)}{looked}{', ' * bool(shards)}{shards}"

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
        from wshard.training.data.source_dataset import SourceDataset  # noqa: PLC0415

        check_options(Hits.dataset, options, SourceDataset)
        places = [
            ClipPlace(ref.address, *ref.span, ref.digest, ref.fingerprint, ref.length or None, ref.layout)
            for ref in self
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


def _format_card(ref: EpisodeRef) -> str:
    """Return one hit of the strip: its drawing, or its name where its file cannot be read."""
    return (draw_hit(ref, small=True) or f"<b>{escape(repr(ref))}</b>") + f"<small>{escape(ref.env_id)}</small>"


def _format_cell(value: object) -> str:
    if value is None:
        return ""
    return escape(f"{value:.4f}" if isinstance(value, float) else str(value))
