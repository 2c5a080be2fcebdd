"""Episodes that a filter, a collection or a list selects: their ids, or hits with weights for training."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from bridge.results import EpisodeRef, make_ref
from bridge.support.batches import batches
from catalog.filters.parse import as_where
from catalog.filters.to_text import where_text
from catalog.filters.where import EVERYTHING, Compare, Where
from catalog.names import find_episode
from wshard.core.messages import shown
from wshard.errors import EntryNotFoundError, NoClipsError, QueryError, SkippedEpisodeWarning, StaleEpisodeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bridge.episodes.clips import Missing
    from catalog.catalog import Catalog

    Named: TypeAlias = EpisodeRef | str | os.PathLike[str] | int
    Chosen: TypeAlias = Where | Named | Iterable[Named]


def load_refs(catalog: Catalog, ids: Sequence[int]) -> Iterator[EpisodeRef]:
    """Yield the whole episodes of these ids; those that the catalog does not have are left out."""
    for batch in batches(ids):
        rows = catalog.episodes.rows(batch)
        yield from (make_ref(rows[id_], 1.0, (0, rows[id_].length)) for id_ in batch if id_ in rows)


def select_ids(catalog: Catalog, episodes: Chosen) -> list[int]:
    """Return the ids of the episodes that match a filter, or of those listed: EpisodeRefs, names, paths, ids.

    Raises FilterError, EntryNotFoundError for the name of none, and QueryError for one of several, for an EpisodeRef of
    no archive, and where a filter that matches nothing is the name of an episode.
    """
    if isinstance(episodes, str | Where):
        ids = catalog.query.ids(episodes)
        if not ids and isinstance(episodes, str) and catalog.episodes.named(episodes) is not None:
            raise QueryError(f"expected a filter, found the name of an episode: [{episodes!r}], in a list, names it")
        return ids
    if not isinstance(episodes, EpisodeRef | os.PathLike | int | Iterable):
        raise QueryError(f"expected a filter, or a list of names, paths, hits or ids, found {shown(episodes)}")
    listed = [episodes] if isinstance(episodes, EpisodeRef | os.PathLike | int) else [*episodes]
    uids = [one.uid for one in listed if isinstance(one, EpisodeRef)]
    if not all(uids):
        raise QueryError("expected episodes of an archive, found one that is not catalogued: ingest its file")
    names = [find_episode(catalog, os.fspath(one)).id for one in listed if isinstance(one, str | os.PathLike)]
    rest = [one for one in listed if not isinstance(one, EpisodeRef | str | os.PathLike)]
    return [*(catalog.query.ids(Compare("uid", "in", uids)) if uids else []), *names, *rest]


def select_refs(
    catalog: Catalog, episodes: Chosen | None, missing: Missing
) -> tuple[list[EpisodeRef], list[float] | None]:
    """Return the episodes of select_ids; for `collection:NAME` alone, the spans of its picks and their weights.

    missing "skip": picks without their data are left out, with a SkippedEpisodeWarning each. Raises StaleEpisodeError
    otherwise, NoClipsError if nothing matches.
    """
    episodes = EVERYTHING if episodes is None else episodes
    where = as_where(episodes) if isinstance(episodes, str | Where) else None
    if not (isinstance(where, Compare) and (where.field, where.op) == ("collection", "eq")):
        refs, weights = [*load_refs(catalog, select_ids(catalog, episodes))], None
    else:
        picked = catalog.collections.picked(str(where.value))
        for uid in [pick.uid for pick, row in picked if row is None]:
            problem = f"collection {where.value!r}: {_explain_pick(catalog, uid)}"
            if missing != "skip":
                raise StaleEpisodeError(f"{problem}: restore it, or leave it out by missing='skip'")
            warnings.warn(f"left out of training: {problem}", SkippedEpisodeWarning, 3)
        present = [(pick, row) for pick, row in picked if row is not None]
        refs = [make_ref(row, 1.0, (pick.start, pick.stop)) for pick, row in present]
        weights = [pick.weight for pick, _ in present]
    if not refs:
        matched = "is in the list" if where is None else f"matches the filter {where_text(where)!r}"
        raise NoClipsError(f"no episode of the archive {matched}")
    return refs, weights


def _explain_pick(catalog: Catalog, uid: str) -> str:
    try:
        row = catalog.episodes.get(uid)
    except EntryNotFoundError:
        return f"the episode of uid {uid} is not in the archive"
    return f"episode {row.episode_id} has changed since the collection was saved: {row.address}"
