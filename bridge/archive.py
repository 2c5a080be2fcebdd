"""Archive: an open catalog and the vector index over it, found by a folder, a server's URL or an index's URL."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from bridge.hits import Hits
from bridge.index.registry import EMBEDDED, open_index
from bridge.names import EpisodeNames
from bridge.picks import load_refs, select_ids, select_refs
from catalog.database.postgresql import is_server
from catalog.filters.where import EVERYTHING, Where
from catalog.location import place_of
from catalog.open import open_place
from wshard.core.keywords import check_options
from wshard.core.messages import shown
from wshard.core.quality.thresholds import DEFAULT_THRESHOLDS
from wshard.errors import QueryError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from bridge.curation.twins import Twins
    from bridge.episodes.clips import Missing
    from bridge.evaluation.compare import Evaluated
    from bridge.index.base import VectorIndex
    from bridge.ingest.report import IngestReport
    from bridge.picks import Chosen
    from bridge.quality.check import Checkups
    from bridge.results import EpisodeRef
    from bridge.search.query.fit import Query
    from bridge.search.retriever import TrajectoryRetriever
    from catalog.catalog import Catalog
    from catalog.location import ArchivePlace
    from embedders.base import Embedder
    from embedders.text.base import AnyTextEncoder
    from embedders.trajectory.pooled import PooledFunction
    from wshard.core.quality.thresholds import Thresholds
    from wshard.training.data.derived.spans import SpanDataset

    AnyEmbedder: TypeAlias = str | Embedder | PooledFunction | None
    Lanes: TypeAlias = str | Sequence[str] | Mapping[str, float] | None

_MAX_RETRIEVERS: Final = 4
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # at least two letters, unlike a drive of Windows


@dataclass(frozen=True, repr=False)
class Archive:
    """An open archive: the catalog, which is the source of truth, and a vector index on top of it.

    catalog: tags, notes, collections, SQL. index: the vectors. Iterating yields EpisodeRefs. Close it, or use `with`.

    Examples:
        >>> with open_archive() as lab:
        ...     lab.ingest("episodes").unchanged, lab.search("circle-02", 1, where="success:true")[0].load().length
        ...     lab.moments("circle-02@20:60", 1)[0].span, len(lab.where("meta.task:draw*")), len(lab.duplicates())
        (41, 118)
        ((20, 60), 11, 1)
    """

    place: ArchivePlace
    catalog: Catalog
    index: VectorIndex
    _retrievers: dict[object, TrajectoryRetriever] = field(default_factory=dict, init=False, compare=False)

    @property
    def folder(self) -> Path:
        """The folder of the vector copies: the archive's own, or one in the cache if the catalog is on a server."""
        return self.place.index.parent

    def __repr__(self) -> str:
        return f"<archive {self.place.name!r}>"

    def _repr_html_(self) -> str:
        """Return the view for notebooks: how many episodes there are, by environment, and how they are searched."""
        from bridge.summary import summarise_archive

        return summarise_archive(self.place.name, self.catalog)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Return the number of episodes."""
        return self.catalog.query.count()

    def __iter__(self) -> Iterator[EpisodeRef]:
        """Yield every episode, by id, as a reference that loads it from its file."""
        return load_refs(self.catalog, self.catalog.query.ids())

    def where(self, where: Where | str) -> Hits:
        """Return all episodes that match a filter, by id: `lab.where("env:reach-v3 reward:0.8..")`."""
        return Hits(load_refs(self.catalog, self.catalog.query.ids(where)))

    def episode(self, name: str | os.PathLike[str]) -> EpisodeRef:
        """Return the episode of that id, uid, path or PATH#KEY, or timesteps of it: `lab.episode("e1@20:60")`.

        Raises EntryNotFoundError for none, QueryError for several.
        """
        return EpisodeNames(self.catalog).find(name)

    def tag(self, episodes: Chosen, name: str, *, remove: bool = False) -> int:
        """Tag episodes, or remove the tag, and return how many changed: `lab.tag("env:reach-v3 reward:..0.1", "bad")`.

        episodes: a filter, as a text; Hits or other EpisodeRefs; or names as `episode` takes them, and ids, in a list.
        """
        return len(self.catalog.annotations.swap_tag(select_ids(self.catalog, episodes), name, tagged=not remove))

    def note(self, episodes: Chosen, text: str, *, who: str = "") -> int:
        """Add a note to episodes, chosen as for `tag`, which text searches know; return to how many."""
        return len(self.catalog.annotations.add_note(select_ids(self.catalog, episodes), text, who=who))

    def review(self, episodes: Chosen, state: str, *, who: str = "") -> int:
        """Set the review of episodes, chosen as for `tag`, such as "accepted", and return of how many."""
        return len(self.catalog.annotations.review(select_ids(self.catalog, episodes), state, who=who))

    def ingest(
        self,
        paths: Any,
        *,
        embedder: AnyEmbedder = None,
        lanes: Lanes = None,
        limits: Thresholds | None = DEFAULT_THRESHOLDS,
        **options: Any,
    ) -> IngestReport:
        """Ingest files, folders, tables or rollouts; options as for TrajectoryIngestor.ingest: layout, columns, ..."""
        from bridge.ingest.ingestor import TrajectoryIngestor
        from wshard.formats.layouts.options import TableOptions

        check_options(Archive.ingest, options, TrajectoryIngestor.ingest, TableOptions)
        return TrajectoryIngestor(self, embedder, lanes=lanes, limits=limits).ingest(paths, **options)

    def search(
        self,
        query: Query | None = None,
        top_k: int = 10,
        *,
        embedder: AnyEmbedder = None,
        lanes: Lanes = None,
        text_encoder: AnyTextEncoder | None = None,
        **options: Any,
    ) -> Hits:
        """Return the top_k episodes most similar to a query; with windows_only=True, or windows=, windows.

        Options as for TrajectoryRetriever.search_similar_episodes and search_similar_timesteps: where, text, like, ...
        """
        from bridge.search.query.options import SearchOptions

        check_options(Archive.search, options, SearchOptions)
        return self.retriever(embedder, lanes=lanes, text_encoder=text_encoder).search(query, top_k, **options)

    def moments(
        self,
        query: Query | None = None,
        top_k: int = 10,
        *,
        embedder: AnyEmbedder = None,
        lanes: Lanes = None,
        **options: Any,
    ) -> Hits:
        """Return the top_k moments most similar to a query. Options as for TrajectoryRetriever.search_moments."""
        from bridge.search.query.options import MomentOptions

        check_options(Archive.moments, options, MomentOptions)
        return self.retriever(embedder, lanes=lanes).search_moments(query, top_k, **options)

    def retriever(
        self, embedder: AnyEmbedder = None, *, lanes: Lanes = None, text_encoder: AnyTextEncoder | None = None
    ) -> TrajectoryRetriever:
        """Return the retriever that searches for these; the last ones are reused, as they remember what they read."""
        from bridge.search.retriever import TrajectoryRetriever

        key = (embedder, repr(lanes), text_encoder)
        try:
            known = self._retrievers.get(key)
        except TypeError:  # an embedder that cannot be compared
            return TrajectoryRetriever(self, embedder, lanes=lanes, text_encoder=text_encoder)
        if known is None:
            known = TrajectoryRetriever(self, embedder, lanes=lanes, text_encoder=text_encoder)
            while len(self._retrievers) >= _MAX_RETRIEVERS:
                self._retrievers.pop(next(iter(self._retrievers), None), None)  # another thread may have been first
            self._retrievers[key] = known
        return known

    def check(self, paths: Sequence[str | os.PathLike[str]] = (), **options: Any) -> Checkups:
        """Check the quality of episodes: of files, or of all that match where=... Parameters as for check_episodes."""
        from bridge.quality.check import check_episodes

        check_options(Archive.check, options, check_episodes)
        return check_episodes(self, paths, **options)

    def duplicates(self, where: Where | str = "", **options: Any) -> Twins:
        """Return pairs of episodes with the same data. Parameters as for find_duplicates."""
        from bridge.curation.duplicates import find_duplicates

        check_options(Archive.duplicates, options, find_duplicates)
        return find_duplicates(self, where, **options)

    def evaluate(self, label: str, where: Where | str = "", **options: Any) -> list[Evaluated]:
        """Return how well searches find episodes of the same label. Parameters as for evaluate_label."""
        from bridge.evaluation.compare import evaluate

        check_options(Archive.evaluate, options, evaluate)
        return evaluate(self, label, where, **options)

    def dataset(self, where: Chosen = EVERYTHING, *, missing: Missing = "raise", **options: Any) -> SpanDataset:
        """Return the episodes that match a filter as clips for training: `archive.dataset("env:line*", num_steps=16)`.

        where: a filter, or a list of names, paths or hits. For `collection:NAME` alone, clips come from the spans of
        its picks, and ClipSampler and ClipLoader sample by their weights. missing "skip": episodes that are gone or
        have changed are left out, with a SkippedEpisodeWarning that names each. options: those of
        wshard.data.SourceDataset. Otherwise raises StaleEpisodeError for an episode that has changed, or a pick that is
        missing, SourceNotFoundError for a file that is missing. Raises DatasetError if columns differ, NoClipsError if
        no episode matches or none is as long as a clip.
        """
        refs, weights = select_refs(self.catalog, where, missing)
        return Hits(refs).dataset(weights=weights, missing=missing, **options)

    def __bool__(self) -> bool:
        """Return True, also for an archive without episodes."""
        return True

    def close(self) -> None:
        """Close the index (connections, and a copy that is being written) and the catalog."""
        try:
            if isinstance(self.index, AbstractContextManager):
                self.index.__exit__(None, None, None)
        finally:
            self.catalog.close()


def expect_archive(archive: object) -> None:
    """Raise QueryError for anything but an open archive, such as a path to one."""
    if not isinstance(archive, Archive):
        raise QueryError(f"archive: expected an open Archive (see open_archive), found {shown(archive)}")


def is_url(text: str) -> bool:
    """Return whether the text is the URL of a vector index rather than a folder."""
    return _URL.match(text) is not None and not is_server(text)


def open_archive(
    target: str | os.PathLike[str] | None = None,
    *,
    archive: str | os.PathLike[str] | None = None,
    create: bool = False,
    token: str | None = None,
) -> Archive:
    """Open the archive that `target` names: a folder, a server's database, or the URL of a vector index.

    Such as "postgresql://user@host/database", "http://host:8080". Without it, or with the URL of an index, the catalog
    is that of `archive`, of WSHARD_ARCHIVE, or the nearest .wshard here or above. create: make an empty archive if
    there is none. token: of the index server. Raises CatalogNotFoundError, UnknownIndexError, the catalog's errors.

    Examples:
        >>> len(open_archive(".wshard"))
        41
    """
    url = isinstance(target, str) and is_url(target)
    place = place_of(archive if url or target is None else target)
    catalog = open_place(place, create=create)
    try:
        return Archive(place, catalog, open_index(str(target) if url else EMBEDDED, catalog, place.index, token=token))
    except BaseException:
        catalog.close()
        raise


def archive_of(
    target: str | os.PathLike[str] | Archive,
    *,
    archive: str | os.PathLike[str] | None = None,
    create: bool = False,
    token: str | None = None,
) -> tuple[Archive, Callable[[], None]]:
    """Return an open archive and what closes it: nothing for one that is passed open. Raises as open_archive."""
    if isinstance(target, Archive):
        if archive is not None or token is not None:
            raise QueryError("archive, token: expected neither of them with an open Archive")
        return target, lambda: None
    opened = open_archive(target, archive=archive, create=create, token=token)
    return opened, opened.close
