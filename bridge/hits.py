"""What a search returns: a list of hits that also says how it was found.

Knows: nothing but what it holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridge.refs import EpisodeRef

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bridge.index.base import Explained


class Hits(list[EpisodeRef]):
    """Hits, best first. exact: proven to be the best there are. milliseconds: embedding, search and catalog look-up.

    missing: matches that were passed over because their files are gone or were changed. explained: how the index found
    them, where that was asked for.
    """

    def __init__(
        self,
        refs: Iterable[EpisodeRef] = (),
        *,
        exact: bool = True,
        milliseconds: float = 0.0,
        missing: int = 0,
        explained: Explained | None = None,
    ) -> None:
        super().__init__(refs)
        self.exact = exact
        self.milliseconds = milliseconds
        self.missing = missing
        self.explained = explained
