"""Refuse options that a public function would hand on to nobody: by its own name, with the nearest that there is."""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


def check_options(function: Callable[..., Any], options: Iterable[str], *takers: Callable[..., Any]) -> None:
    """Raise TypeError for an option of a public function that none of the `takers` of its options has.

    The message has the name of the function, and the nearest option that there is. takers: also what a taker hands its
    own options on to, unless it is a class, which hands them on to its bases.
    """
    names = set(options)
    known = {name for taker in takers for name in _parameters(taker)} if names else set()
    if unknown := sorted(names - known):
        refuse_unknown(function.__name__, unknown[0], {*known, *_parameters(function)} - {"self"})


def refuse_unknown(call: str, name: str, known: Iterable[str]) -> None:
    """Raise TypeError for an option that is not known; says the nearest one."""
    listed = sorted(known)
    close = get_close_matches(name, listed, n=1)
    advice = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(listed)}"
    raise TypeError(f"{call}: unexpected option {name!r}: {advice}")


def _parameters(taker: Callable[..., Any]) -> Iterator[str]:
    """Yield the names of parameters: of a class, also of the bases to which it hands others on."""
    calls: list[Any] = [taker]
    if isinstance(taker, type):
        calls = [vars(base)["__init__"] for base in taker.__mro__ if "__init__" in vars(base)]
    for call in calls:
        parameters = [*inspect.signature(call).parameters.values()]
        yield from (one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY))
        if all(one.kind is not one.VAR_KEYWORD for one in parameters):
            return
