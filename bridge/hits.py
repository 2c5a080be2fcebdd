"""What a search returns: a list of hits that also says how it was found.

Knows: nothing but what it holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bridge.refs import EpisodeRef

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bridge.index.base import Explained
    from embedders.space import Space


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
