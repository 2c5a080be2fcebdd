"""What several files of a folder have: the guess of one of them, with the arrays that only others have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from wshard.formats.layouts.layout import ArrayRule, split_role

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wshard.formats.layouts.guessing.layout_guess import LayoutGuess
    from wshard.formats.layouts.guessing.roles import ArrayGuess


def unite(guesses: Sequence[LayoutGuess]) -> LayoutGuess:
    """Return the first guess with the arrays that others of its kind have; lanes are stacked of columns that all have.

    Why an array is taken for what it is says in how many of the files it is, unless it is in all.
    """
    first = guesses[0]
    alike = [one for one in guesses if _kind_of(one) == _kind_of(first)]
    counts: dict[str, int] = {}
    known: dict[str, ArrayGuess] = {}
    for guess in alike:
        for one in guess.arrays:
            counts[one.path] = counts.get(one.path, 0) + 1
            known.setdefault(one.path, one)
    arrays = [
        one
        if counts[one.path] == len(alike)
        else replace(one, why=f"{one.why}; in {counts[one.path]} of {len(alike)} files")
        for one in known.values()
    ]
    stack = {
        lane: tuple(path for path in paths if all(path in one.layout.stack.get(lane, ()) for one in alike))
        for lane, paths in first.layout.stack.items()
    }
    stack = {lane: paths for lane, paths in stack.items() if paths}
    rate = next((one.layout.rate for one in alike if one.layout.rate is not None), None)
    cameras = {lane: path for one in alike for lane, path in one.layout.cameras.items()}
    layout = replace(first.layout, arrays=describe_roles(arrays), stack=stack, cameras=cameras, rate=rate)
    return replace(first, arrays=tuple(arrays), layout=layout)


def describe_roles(arrays: Iterable[ArrayGuess]) -> tuple[ArrayRule, ...]:
    """Return the rules of a description for what arrays were taken for."""
    return tuple(ArrayRule(one.path, *split_role(one.role), unit=one.unit, extra=one.extra) for one in arrays)


def _kind_of(guess: LayoutGuess) -> tuple[str, str, str]:
    layout = guess.layout
    return layout.container, layout.episodes.by, layout.episodes.group
