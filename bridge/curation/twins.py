"""Pairs of duplicate episodes, as every search for them returns them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from catalog.records import EpisodeRow
    from embedders.space import Space

Kind = Literal["episode", "data", "vector", "near", "rate", "piece"]


@dataclass(frozen=True)
class Twin:
    """A pair of duplicate episodes; within one set, left.id < right.id.

    kind: "episode" (one episode in both sets), "data" (equal content digests), "vector" (equal vectors and lengths),
    "near", "rate" (as near, at another rate), or "piece" (only timesteps `span` [start, stop) of the left are in the
    right). Timestep t of the right is timestep t * rate + shift of the left. apart: root mean square of what then
    remains, in standard deviations of the archive, averaged over 8 timesteps at a time, so that noise of 0.01 counts
    0.0035; not averaged at another rate; NaN: the file of one could not be read, so nobody knows.
    """

    left: EpisodeRow
    right: EpisodeRow
    kind: Kind
    apart: float = 0.0
    shift: int = 0
    span: tuple[int, int] | None = None
    rate: float = 1.0


class Twins(list[Twin]):
    """Pairs of duplicates, the closest pair of others a little beyond the limit, and what could not be compared.

    spaces: those in which episodes met. alone: episodes (of the second set) that met none there, so that only equal
    data shows their copies. unread_pairs: those with similar vectors, where the file of one could not be read; those
    with equal vectors are duplicates all the same.
    """

    closest: Twin | None = None
    spaces: Sequence[Space] = ()
    alone: int = 0
    unread_pairs: Sequence[Twin] = ()

    @property
    def unread(self) -> int:
        """The number of unread pairs."""
        return len(self.unread_pairs)

    def add(self, pieces: Twins) -> Twins:
        """Return these pairs with the pieces that others share, and the pairs that either search could not read."""
        joined = Twins(drop_repeats([*self, *pieces]))
        joined.closest, joined.spaces, joined.alone = self.closest, self.spaces, self.alone
        joined.unread_pairs = drop_repeats([*self.unread_pairs, *pieces.unread_pairs])
        return joined


def drop_repeats(twins: Iterable[Twin]) -> list[Twin]:
    """Return the first twin of each pair, whichever of them is called left; ordered by id."""
    found: dict[frozenset[int], Twin] = {}
    for twin in twins:
        found.setdefault(frozenset({twin.left.id, twin.right.id}), twin)
    return sorted(found.values(), key=lambda twin: (twin.left.id, twin.right.id))
