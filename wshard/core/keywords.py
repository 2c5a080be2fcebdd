"""Refuse options that a public function would hand on to nobody: by its own name, with the nearest that there is."""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def check_options(function: Callable[..., Any], options: Iterable[str], *takers: Callable[..., Any]) -> None:
    """Raise TypeError for an option of a public function that none of the `takers` of its options has.

    The message has the name of the function, and the nearest option that there is. takers: also what a taker hands its
    own options on to, unless it is a class, which hands them on to its bases.
    """
    names = set(options)
    if names and (unknown := sorted(names.difference(*map(_parameters, takers)))):
        known = {name for one in (function, *takers) for name in _parameters(one)}
        listed = sorted(known - {"self"})
        close = get_close_matches(unknown[0], listed, n=1)
        advice = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(listed)}"
        raise TypeError(f"{function.__name__}: unexpected option {unknown[0]!r}: {advice}")


@lru_cache(64)  # each search asks
def _parameters(taker: Callable[..., Any]) -> frozenset[str]:
    """Return the names of parameters: of a class, also of the bases to which it hands others on."""
    calls: list[Any] = [taker]
    if isinstance(taker, type):
        calls = [vars(base)["__init__"] for base in taker.__mro__ if "__init__" in vars(base)]
    names: set[str] = set()
    for call in calls:
        parameters = [*inspect.signature(call).parameters.values()]
        names.update(one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY))
        if all(one.kind is not one.VAR_KEYWORD for one in parameters):
            break
    return frozenset(names)
