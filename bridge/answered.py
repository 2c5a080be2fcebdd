"""What a search compared: the Spaces that answered, the episodes that were left out with the reason, and notes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from embedders.space import Space

_SINGULAR: Final = {"have": "has", "lack": "lacks", "are": "is"}


@dataclass(frozen=True)
class LeftOut:
    """How many episodes pass the filter but were not compared, for which reason, and how they would be.

    reason: begins with "have", "lack" or "are".
    """

    episodes: int
    reason: str
    remedy: str

    def __str__(self) -> str:
        """Return all of it as one sentence."""
        return join_left_out([self])


def join_left_out(left_out: Iterable[LeftOut]) -> str:
    """Return in words how many episodes were left out for which reasons, and each remedy once."""
    counted: dict[str, list[str]] = {}
    for one in left_out:
        verb, _, rest = one.reason.partition(" ")
        verb = _SINGULAR[verb] if one.episodes == 1 else verb
        counted.setdefault(one.remedy, []).append(f"{one.episodes} {verb} {rest}")
    return "; ".join(f"{', '.join(reasons)}: {remedy}" for remedy, reasons in counted.items())


@dataclass(frozen=True)
class Answered:
    """The Spaces that were searched (none for text only), and others that the query fits.

    others: selectable by embedder=, lanes= or windows=. notes: further messages, such as a text or a filter without any
    matching episode. compared: number of episodes that were compared, None for all that pass the filter; left_out: the
    others. ranked_by: "graph" where the neighbour graph decided (docs/search.md), "vectors" where they alone did.
    coverage: which shards answered, of an index that has several. texts: which texts of episodes were looked at, "" for
    a search without text. frames: which frames of cameras were compared, "" for all.
    """

    spaces: tuple[Space, ...] = ()
    others: tuple[Space, ...] = ()
    notes: tuple[str, ...] = ()
    compared: int | None = None
    left_out: tuple[LeftOut, ...] = ()
    ranked_by: str = "vectors"
    coverage: str = ""
    texts: str = ""
    frames: str = ""

    @property
    def missed(self) -> str:
        """What was not compared, in words; "" if everything was."""
        if not self.left_out:
            return ""
        count = sum(one.episodes for one in self.left_out)
        verb = "was" if count == 1 else "were"
        return f"{count} that pass the filter {verb} not compared: {join_left_out(self.left_out)}"
