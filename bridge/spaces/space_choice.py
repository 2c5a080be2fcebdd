"""Choose the Spaces to search: by embedder, lanes, windows and environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bridge.spaces.identity import describe, identity, maker_of, newest
from bridge.spaces.lanes import block_name, has_lanes, weights_in
from catalog.filters.where import EVERYTHING, Where, all_of, comparisons, parts_of
from embedders.numeric import check_number
from embedders.registry import DEFAULT_EMBEDDER, default_embedder, embedder_for
from embedders.space import Space
from wshard.errors import EmbedderError, QueryError, SpaceMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from catalog.catalog import Catalog
    from catalog.session import Instant
    from catalog.vectors.records import SpaceRow
    from embedders.base import Embedder
    from embedders.windows import WindowPlan


class SpaceChoice:
    """The Spaces of an archive, restricted to the retriever's options; refreshed when the clock has moved."""

    def __init__(
        self,
        catalog: Catalog,
        embedder: Embedder | None,
        lanes: Sequence[str] | Mapping[str, float] | None,
        *,
        named: bool = False,
    ) -> None:
        self._catalog = catalog
        self._embedder = embedder
        self._named = named  # only the name of the embedder was given: other parameters are accepted
        self._lanes = lanes
        self._read: dict[str, Space] = {}  # by fingerprint: Spaces never change, and parsing one takes time
        self._active: tuple[Instant | None, list[Space]] = (None, [])
        self._adds: dict[tuple[str, frozenset[str]], bool] = {}  # of the active Spaces

    def spaces(self, cut: Callable[[WindowPlan], bool]) -> list[Space]:
        """Return the Spaces of the requested window plan that can be searched, at least one.

        Raises QueryError with a list of all Spaces if there is none; SpaceMismatchError for another embedder than the
        one that was passed.
        """
        spaces = [space for space in self.active() if cut(space.windows)]
        if self._lanes is not None:
            spaces = _of_lanes(self._lanes, spaces) or [space for space in spaces if self.weights_of(space)]
        spaces = newest(spaces) if self._embedder is None else self._of_embedder(self._embedder, spaces)
        if not spaces:
            listed = "\n".join(f"  {describe(space)}" for space in self.active())
            if not listed:
                raise QueryError(f"this archive has no embeddings yet; run `wshard ingest`{self._unfinished()}")
            raise QueryError(
                "there are no vectors for this search: first ingest with these --embedder, --lanes, --windows "
                f"(moments need `--windows both`, for example), or search what there is by the same options:\n{listed}"
                f"{self._unfinished()}"
            )
        return spaces

    def weights_of(self, space: Space) -> dict[str, float] | None:
        """Return the weights > 0 of the chosen lanes of a Space that has others too, or no weights; else None."""
        if not self._lanes or _of_lanes(self._lanes, [space]):
            return None
        known = {lane.name for lane in space.lanes}
        named = self._lanes if isinstance(self._lanes, Mapping) else dict.fromkeys(self._lanes, 1.0)
        weights = {block_name(name, known): check_number(weight, "weights of lanes") for name, weight in named.items()}
        if min(weights.values()) <= 0:
            raise EmbedderError(f"weights of lanes: expected numbers > 0, found {weights}")
        return weights if weights.keys() <= known and space.weights is None else None

    def _unfinished(self) -> str:
        rows = self._catalog.vectors.spaces("building")
        listed = "".join(f"\n  {describe(Space.from_json(row.definition))}" for row in rows)
        return f"\nstill being built (an ingest is running or was interrupted; run it again):{listed}" if rows else ""

    def active(self) -> list[Space]:
        """Return the Spaces of lanes that can be searched, the oldest first; see in_order."""
        instant, cached = self._active
        now = self._catalog.instant()  # before reading the Spaces, so that changes in between are read next time
        if now != instant:
            rows = in_order(self._catalog.vectors.spaces())
            cached = [space for row in rows if not (space := self._space(row)).of_text]
            self._active, self._adds = (now, cached), {}
        return cached

    def adds(self, space: Space, others: Sequence[Space]) -> bool:
        """Return whether an active Space has vectors of episodes of which the others have none."""
        self.active()
        key = space.fingerprint, frozenset(other.fingerprint for other in others)
        if key not in self._adds:
            ids = {row.fingerprint: row.id for row in self._catalog.vectors.spaces("active")}
            self._adds[key] = self._catalog.vectors.adds(ids[key[0]], [ids[other] for other in key[1]])
        return self._adds[key]

    def embedded(self) -> set[str]:
        """Return the lanes of all Spaces."""
        return {lane.name for space in self.active() for lane in space.lanes}

    def _space(self, row: SpaceRow) -> Space:
        if row.fingerprint not in self._read:
            self._read[row.fingerprint] = Space.from_json(row.definition)
        return self._read[row.fingerprint]

    def _of_embedder(self, embedder: Embedder, spaces: Sequence[Space]) -> list[Space]:
        makers = {plan: identity(embedder_for(embedder, plan)) for plan in {space.windows for space in spaces}}
        matching = [space for space in spaces if maker_of(space) == makers[space.windows] or self._is_default(space)]
        if not matching and self._named:  # windows of several sizes have other parameters than whole episodes
            matching = newest([space for space in spaces if space.embedder == embedder.name])
        if spaces and not matching:
            listed = "\n".join(f"  {describe(space)}" for space in spaces)
            raise SpaceMismatchError(
                f"the archive was not embedded by {embedder.name} version {embedder.version} "
                f"{dict(embedder.parameters())}: ingest it with that embedder, or search with one that "
                f"the archive has:\n{listed}"
            )
        return matching

    def _is_default(self, space: Space) -> bool:
        """Return True if the default embedder was named, and this Space is its default for such windows."""
        is_default_named = self._named and self._embedder is not None and self._embedder.name == DEFAULT_EMBEDDER
        return is_default_named and maker_of(space) == identity(default_embedder(space.windows))

    def select_by_env(self, spaces: Sequence[Space], where: Where) -> Sequence[Space]:
        """Keep the Spaces with episodes of the requested environments, so that env_id selects among similar lanes.

        All of them if there is none: a filter without matches gives no hits, whichever Space is searched.
        """
        if len(spaces) < 2:
            return spaces
        env_parts = [part for part in parts_of(where) if {clause.field for clause in comparisons(part)} == {"env_id"}]
        env_filter = all_of(*env_parts)
        if env_filter == EVERYTHING:
            return spaces
        layouts = self._catalog.query.layouts(env_filter)
        return [space for space in spaces if any(has_lanes(layout, space.lanes) for layout in layouts)] or spaces


def in_order(rows: Sequence[SpaceRow]) -> list[SpaceRow]:
    """Return the active Spaces of an archive, oldest first.

    A Space is as old as the first one of its family: new statistics do not make it the newest.
    """
    first_ids: dict[str, int] = {}
    for row in rows:
        first_ids[row.family] = min(row.id, first_ids.get(row.family, row.id))
    return sorted((row for row in rows if row.state == "active"), key=lambda row: first_ids[row.family])


def _of_lanes(lanes: Sequence[str] | Mapping[str, float], spaces: Sequence[Space]) -> list[Space]:
    matching = []
    for space in spaces:
        names = {lane.name for lane in space.lanes}
        if {block_name(name, names) for name in lanes} == names:
            matching.append(space)
    if isinstance(lanes, Mapping):
        return [space for space in matching if space.weights == weights_in(lanes, space.lanes)]
    return [space for space in matching if space.weights is None] or matching
