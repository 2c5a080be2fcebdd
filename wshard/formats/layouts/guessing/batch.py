"""Where the episodes are in arrays [episodes, steps, ...] or [steps, episodes, ...]."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.core.messages import plural
from wshard.formats.layouts import layout as rules
from wshard.formats.layouts.guessing import names
from wshard.formats.layouts.guessing.readings import EpisodeGuess, EpisodeReading
from wshard.formats.layouts.guessing.survey import FLAGS, IMAGES, NUMBERS, TEXT
from wshard.formats.layouts.layout import EpisodeRule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wshard.core.types import Array
    from wshard.formats.layouts.guessing.survey import ArrayFacts

_PER_STEP: Final = (
    names.REWARD, names.END, names.LAST, names.TRUNCATED, names.STARTS, names.TIME, names.COUNTER, names.MASK
)  # fmt: skip


def batch_axes(arrays: Sequence[ArrayFacts]) -> tuple[int, int] | None:
    """Return the two first axes that arrays of single numbers, or several of more axes, share; None for plain rows."""
    scalars = [one for one in arrays if one.meaning in _PER_STEP and one.kind not in (IMAGES, TEXT)]
    flat = [one for one in scalars if len(one.shape) == 2 and min(one.shape) > 1]
    if flat:
        return _axes(flat[0])
    deep = [one for one in arrays if len(one.shape) > 2 and one.dtype != "uint8"]
    acting = [one for one in deep if one.meaning == names.ACTION] or deep
    if not acting or any(one.meaning == names.ACTION for one in arrays if one not in acting):
        return None
    axes = _axes(acting[0])
    if 1 not in axes and any(one.is_column and one.rows > 1 for one in scalars):
        return None
    others = [one for one in arrays if one is not acting[0] and one.rows in (axes[0], axes[0] + 1)]
    if any(len(one.shape) == 2 and one.shape[1] not in (1, axes[1], axes[1] + 1) for one in others):
        return None  # rows of numbers beside rows of matrices
    seconds = [one.shape[1] for one in deep if one is acting[0] or one in others]
    if max(seconds) - min(seconds) > 1:
        return None  # matrices of several sizes share the timesteps alone
    return axes


def _axes(facts: ArrayFacts) -> tuple[int, int]:
    return facts.shape[0], facts.shape[1]


def find_in_batch(arrays: Sequence[ArrayFacts], axes: tuple[int, int]) -> EpisodeGuess:
    """Return where the episodes are, by everything that tells the two axes apart."""
    axes = _without_extra(arrays, axes)
    lengths = [one for one in arrays if _may_be_lengths(one, axes)]
    masks = [one for one in arrays if one.meaning == names.MASK and one.shape == axes and one.kind == FLAGS]
    votes = [*_votes(arrays, axes, lengths, masks)]
    counted = Counter(axis for axis, _ in votes)
    doubts = [f"{why}: but {other}" for axis, why in votes[:1] for also, other in votes if also != axis]
    possible = sorted(counted) if counted else [0, 1]
    counts = {axis: [*masks, *(one for one in lengths if one.rows == axes[axis])][:1] for axis in possible}
    readings = [_reading(axis, axes, counts[axis], dict(votes).get(axis, "")) for axis in possible]
    if not counted and not any(one.meaning in _PER_STEP and one.shape == axes for one in arrays):
        readings.append(EpisodeReading(EpisodeRule(), 1, f"one episode of {axes[0]} timesteps with matrices"))
    if len(counted) == 1:
        doubts += _doubts(arrays, axes, possible[0], has_lengths=bool(counts[possible[0]]))
    steps = axes[1 - readings[0].rule.axis]
    evidence = {one.path: "has how many timesteps of each episode count" for one in (*masks, *lengths)}
    return EpisodeGuess(tuple(readings), steps, tuple(doubts), evidence)


def _without_extra(arrays: Sequence[ArrayFacts], axes: tuple[int, int]) -> tuple[int, int]:
    """Return the axes of actions, where observations have one row more."""
    acting = [one for one in arrays if one.meaning == names.ACTION and len(one.shape) > 1]
    return _axes(acting[0]) if acting else axes


def _reading(axis: int, axes: tuple[int, int], counts: Sequence[ArrayFacts], why: str) -> EpisodeReading:
    text = f"{plural(axes[axis], 'episode')} of at most {plural(axes[1 - axis], 'timestep')}, along axis {axis}"
    rule = EpisodeRule(rules.ROW, tuple(one.path for one in counts), axis=axis)
    return EpisodeReading(rule, axes[axis], f"{text}{f': {why}' if why else ''}")


def _may_be_lengths(facts: ArrayFacts, axes: tuple[int, int]) -> bool:
    values = facts.numbers
    if values is None or facts.rows not in axes or facts.kind == FLAGS:
        return False
    is_named = facts.meaning == names.LENGTHS
    return is_named or (facts.meaning == names.UNKNOWN and values.min() > 0 and values.max() in axes)


def _votes(
    arrays: Sequence[ArrayFacts], axes: tuple[int, int], lengths: Sequence[ArrayFacts], masks: Sequence[ArrayFacts]
) -> Iterator[tuple[int, str]]:
    """Yield (axis of the episodes, why)."""
    for one in lengths:
        longest = int(one.numbers.max()) if one.numbers is not None else 0
        fits = [axis for axis in (0, 1) if one.rows == axes[axis] and longest <= axes[1 - axis]]
        if len(fits) == 1:
            yield fits[0], f"{one.path!r} has a length for each"
    for one in masks:
        is_set = np.asarray(one.steps, np.int8)
        fits = [axis for axis in (0, 1) if not (np.diff(is_set, axis=1 - axis) > 0).any()]
        if len(fits) == 1:
            yield fits[0], f"{one.path!r} is set in the first timesteps of each"
    if 1 in axes:
        yield axes.index(1), "one of them only"
    for one in arrays:
        if one.meaning != names.MASK:
            yield from _vote_of_shape(one, axes)
            yield from _vote_of_values(one) if one.shape == axes else ()


def _vote_of_shape(facts: ArrayFacts, axes: tuple[int, int]) -> Iterator[tuple[int, str]]:
    first, second = axes
    if facts.shape[:2] in ((first, second + 1), (first + 1, second)):
        yield int(facts.rows != first), f"{facts.path!r} has one row more for each"
    of_episodes = (names.SUCCESS, names.TASK, names.ID, names.EPISODE)
    if facts.is_column and facts.rows in axes and first != second and facts.meaning in of_episodes:
        yield axes.index(facts.rows), f"{facts.path!r} has a value for each"


def _vote_of_values(facts: ArrayFacts) -> Iterator[tuple[int, str]]:
    """Yield what times and flags [episodes, steps] or [steps, episodes] say."""
    values = facts.steps
    if values is None:
        return
    if facts.meaning in (names.TIME, names.COUNTER):
        grows = [axis for axis in (0, 1) if bool((np.diff(values, axis=1 - axis) >= 0).all())]
        strictly = [axis for axis in grows if bool((np.diff(values, axis=1 - axis) > 0).any())]
        if len(strictly) == 1:
            yield strictly[0], f"{facts.path!r} grows in each"
    elif facts.kind == FLAGS and facts.meaning in (names.END, names.LAST, names.STARTS):
        edge = 0 if facts.meaning == names.STARTS else -1
        is_set = [axis for axis in (0, 1) if np.take(values, edge, axis=1 - axis).all() and not values.all()]
        once = [axis for axis in is_set if (values.sum(axis=1 - axis) == 1).all()]
        if len(once) == 1:
            yield once[0], f"{facts.path!r} is set once in each"


def _doubts(arrays: Sequence[ArrayFacts], axes: tuple[int, int], axis: int, *, has_lengths: bool) -> Iterator[str]:
    """Yield what speaks against rows that all count."""
    if has_lengths:
        return
    lanes: list[Array] = []
    for one in arrays:
        sizes = one.shape[axis : axis + 1] if len(one.shape) > 1 else ()
        if sizes != axes[axis : axis + 1] or one.steps is None or one.kind not in (NUMBERS, FLAGS):
            continue
        steps = one.steps if axis == 0 else one.steps.swapaxes(0, 1)
        if one.kind == FLAGS and one.meaning in (names.END, names.LAST, names.TRUNCATED) and steps[:, :-1].any():
            yield f"{one.path!r}: set before the last timestep: padding or another episode follows, and no array says"
        if axis and len(one.steps) < one.rows:
            yield f"{one.path!r}: too large to look for padding at its end"
        if one.kind == NUMBERS and one.meaning not in (names.TIME, names.COUNTER) and steps.shape[1] > 1:
            lanes.append(steps[:, -2:].reshape(len(steps), 2, -1).astype(np.float64))
    if lanes and _are_padded(np.concatenate([one[: min(map(len, lanes))] for one in lanes], axis=2)):
        yield "the last timesteps of some episodes are all the same: padding, and no array has lengths"


def _are_padded(last: Array) -> bool:
    """Return True if the last timesteps of an episode are one number, or equal. last: [episodes, 2, numbers]."""
    filled = np.nan_to_num(last, nan=np.inf)
    is_one_number = (filled[:, 1] == filled[:, 1, :1]).all(axis=1) & (filled.shape[2] > 1)
    return bool((is_one_number | (filled[:, 0] == filled[:, 1]).all(axis=1)).any())
