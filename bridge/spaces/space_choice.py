"""Choose the Spaces to search: by embedder, lanes, windows and environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bridge.spaces.identity import describe, identity, maker_of, newest
from bridge.spaces.lanes import block_name
from bridge.spaces.statistics import weights_in
from catalog.filters.where import EVERYTHING, Where, all_of, comparisons, parts_of
from embedders.registry import DEFAULT_EMBEDDER, default_embedder
from embedders.space import LaneSpec, Space
from wshard.errors import QueryError, SpaceMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from catalog.catalog import Catalog
    from catalog.session import Instant
    from catalog.vectors.records import SpaceRow
    from embedders.base import Embedder
    from embedders.windows import WindowPlan


class SpaceChoice:
    """The Spaces of an archive, narrowed by what a retriever was opened with; asked anew when the clock has moved."""

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
        self._named = named  # the embedder, by nothing but its name: other parameters of it will do
        self._lanes = lanes
        self._read: dict[str, Space] = {}  # by fingerprint: they never change, and reading one takes time
        self._active: tuple[Instant | None, list[Space]] = (None, [])

    def spaces(self, cut: Callable[[WindowPlan], bool]) -> list[Space]:
        """Return the Spaces of a wanted window plan that can answer, one at least.

        Raises QueryError, listing all that there are, where none can; SpaceMismatchError for another embedder than the
        one that was passed.
        """
        spaces = [space for space in self.active() if cut(space.windows)]
        if self._lanes is not None:
            spaces = _of_lanes(self._lanes, spaces)
        spaces = newest(spaces) if self._embedder is None else self._of_embedder(self._embedder, spaces)
        if not spaces:
            listed = "\n".join(f"  {describe(space)}" for space in self.active()) or "  nothing"
            raise QueryError(
                "nothing is embedded that this search could look at: ingest with such --embedder, --lanes, --windows "
                f"(moments need `--windows both`, say) first, or ask for what there is by the same options:\n{listed}"
                f"{self._unfinished()}"
            )
        return spaces

    def _unfinished(self) -> str:
        rows = self._catalog.vectors.spaces("building")
        listed = "".join(f"\n  {describe(Space.from_json(row.definition))}" for row in rows)
        return f"\nnot there yet (an ingest still runs, or was stopped: run it again):{listed}" if rows else ""

    def active(self) -> list[Space]:
        """Return the Spaces of lanes that can be searched, the oldest first; see in_order."""
        instant, known = self._active
        now = self._catalog.instant()  # before the Spaces are read: what changes in between is read again next time
        if now != instant:
            rows = in_order(self._catalog.vectors.spaces())
            known = [space for row in rows if not (space := self._space(row)).of_text]
            self._active = (now, known)
        return known

    def embedded(self) -> set[str]:
        """Return the lanes that any Space is of."""
        return {lane.name for space in self.active() for lane in space.lanes}

    def _space(self, row: SpaceRow) -> Space:
        if row.fingerprint not in self._read:
            self._read[row.fingerprint] = Space.from_json(row.definition)
        return self._read[row.fingerprint]

    def _of_embedder(self, embedder: Embedder, spaces: Sequence[Space]) -> list[Space]:
        asked = identity(embedder)
        same = [space for space in spaces if maker_of(space) == asked or self._is_default(space)]
        if not same and self._named:  # windows of several sizes have other parameters than whole episodes
            same = newest([space for space in spaces if space.embedder == embedder.name])
        if spaces and not same:
            listed = "\n".join(f"  {describe(space)}" for space in spaces)
            raise SpaceMismatchError(
                f"the archive was not embedded by {embedder.name} version {embedder.version} {dict(asked[2])}: ingest "
                f"it with that embedder, or search with one that made what it holds:\n{listed}"
            )
        return same

    def _is_default(self, space: Space) -> bool:
        """Say whether the default was asked for by its name, and this is what it is for such windows."""
        asked = self._named and self._embedder is not None and self._embedder.name == DEFAULT_EMBEDDER
        return asked and maker_of(space) == identity(default_embedder(space.windows))

    def holding(self, spaces: Sequence[Space], where: Where) -> Sequence[Space]:
        """Keep the Spaces that hold episodes of the environments asked for, so that env_id tells like lanes apart.

        All of them where none does: a filter that nothing passes gives no hits, whichever of them is searched.
        """
        if len(spaces) < 2:
            return spaces
        about = [part for part in parts_of(where) if {clause.field for clause in comparisons(part)} == {"env_id"}]
        asked = all_of(*about)
        if asked == EVERYTHING:
            return spaces
        layouts = [
            {LaneSpec(lane.name, tuple(lane.shape)) for lane in layout.lanes}
            for layout in self._catalog.query.layouts(asked)
        ]
        return [space for space in spaces if any(set(space.lanes) <= held for held in layouts)] or spaces


def in_order(rows: Sequence[SpaceRow]) -> list[SpaceRow]:
    """Return the active ones of all the Spaces of an archive, the oldest first.

    A Space is as old as the first one of its family: new statistics do not make it the newest.
    """
    begun: dict[str, int] = {}
    for row in rows:
        begun[row.family] = min(row.id, begun.get(row.family, row.id))
    return sorted((row for row in rows if row.state == "active"), key=lambda row: begun[row.family])


def _of_lanes(lanes: Sequence[str] | Mapping[str, float], spaces: Sequence[Space]) -> list[Space]:
    found = []
    for space in spaces:
        held = {lane.name for lane in space.lanes}
        if {block_name(name, held) for name in lanes} == held:
            found.append(space)
    if isinstance(lanes, Mapping):
        return [space for space in found if space.weights == weights_in(lanes, space.lanes)]
    return [space for space in found if space.weights is None] or found
