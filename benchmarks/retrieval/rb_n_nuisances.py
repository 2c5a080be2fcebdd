"""What benchmark RB-N does to archives: signs, wraps, units, missing numbers, lanes, rates, padding, channels, spikes.

Knows: episodes as lanes of rows, and their spread over the archive. Every episode takes its own generator, so that it
is changed in the same way whatever else is measured. Does not know: sets, queries, what is counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
from rb_a_archive import Source

from embedders.space import Statistics
from embedders.standardise import scales

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Rows = NDArray[np.float64]
    Lanes = Mapping[str, Rows]
    Change = Callable[["Lanes", "Facts", np.random.Generator], "Lanes | None"]

STATE: Final = "state"
ACTION: Final = "action"
_SEED: Final = 17
_FEWEST: Final = 63


@dataclass(frozen=True, eq=False)
class Facts:
    """Mean and spread of each channel of `state` over the archive."""

    mean: Rows
    spread: Rows

    @staticmethod
    def of(episodes: Sequence[Lanes]) -> Facts:
        """Return those of these episodes."""
        steps = np.concatenate([lanes[STATE] for lanes in episodes])
        mean, std = steps.mean(axis=0), steps.std(axis=0)
        return Facts(mean, scales(Statistics(len(steps), mean, std)))


@dataclass(frozen=True)
class Nuisance:
    """A row: what is done to a share of the archive.

    change: returns the lanes of an episode, None to leave it out of the archive. prepare: what is done to all episodes
    first, queries too: the clean archive. in_queries: queries are changed as well. other: the source of those changed;
    others and queries then have `usual`. call: returns what the channels of the state are called, by how many it has in
    the clean archive and in the episode; None for no names.
    """

    name: str
    change: Change
    share: float = 0.5
    prepare: Change | None = None
    in_queries: bool = False
    other: Source = field(default=Source())
    call: Callable[[int, int], tuple[str, ...]] | None = None

    @property
    def usual(self) -> Source:
        """The source of what is not changed."""
        return Source(*(text and "first" for text in self.other))

    def sources(self, count: int) -> list[Source]:
        """Return the source of each of so many episodes."""
        chosen = _choose(count, self.share)
        return [self.other if number in chosen else self.usual for number in range(count)]

    def called(self, disturbed: Sequence[Lanes | None]) -> dict[int, dict[str, tuple[str, ...]]]:
        """Return the names of the channels of each disturbed episode, by lane; nothing where they have none."""
        if self.call is None:
            return {}
        widths = {number: lanes[STATE].shape[1] for number, lanes in enumerate(disturbed) if lanes is not None}
        usual = min(widths.values())
        return {number: {STATE: self.call(usual, width)} for number, width in widths.items()}

    def prepared(self, episodes: Sequence[Lanes]) -> list[Lanes]:
        """Return the clean archive."""
        changed = episodes if self.prepare is None else _apply(self.prepare, episodes, 1.0)
        return [one for one in changed if one is not None]

    def disturbed(self, episodes: Sequence[Lanes]) -> list[Lanes | None]:
        """Return the disturbed archive of a clean one."""
        return _apply(self.change, episodes, self.share)


def _apply(change: Change, episodes: Sequence[Lanes], share: float) -> list[Lanes | None]:
    chosen, facts = _choose(len(episodes), share), Facts.of(episodes)
    return [
        change(lanes, facts, np.random.default_rng([_SEED, number])) if number in chosen else lanes
        for number, lanes in enumerate(episodes)
    ]


def _choose(count: int, share: float) -> set[int]:
    order = np.random.default_rng(_SEED).permutation(count)
    return {*order[: max(1, round(share * count))].tolist()}


def make_quaternions(lanes: Lanes, facts: Facts, rng: np.random.Generator) -> Lanes:  # noqa: ARG001  (one signature)
    """Take each three channels of the state for a rotation vector, in .8 rad a standard deviation."""
    turns = 0.8 * (lanes[STATE] - facts.mean) / facts.spread
    count = turns.shape[1] // 3
    vectors = turns[:, : 3 * count].reshape(len(turns), count, 3)
    angles = np.linalg.norm(vectors, axis=2, keepdims=True)
    axes = vectors / np.maximum(angles, 1e-9)
    quaternions = np.concatenate([np.cos(angles / 2), axes * np.sin(angles / 2)], axis=2)
    return {**lanes, STATE: quaternions.reshape(len(turns), 4 * count)}


def _flip_signs(lanes: Lanes, facts: Facts, rng: np.random.Generator) -> Lanes:  # noqa: ARG001
    signs = rng.choice([-1.0, 1.0], lanes[STATE].shape[1] // 4)
    return {**lanes, STATE: lanes[STATE] * np.repeat(signs, 4)}


def make_angles(lanes: Lanes, facts: Facts, rng: np.random.Generator) -> Lanes:  # noqa: ARG001
    """Take channels of the state for angles around 2 rad, in 1.5 rad a standard deviation, continuous."""
    return {**lanes, STATE: 2 + 1.5 * (lanes[STATE] - facts.mean) / facts.spread}


def _wrap(lanes: Lanes, facts: Facts, rng: np.random.Generator) -> Lanes:  # noqa: ARG001
    return {**lanes, STATE: (lanes[STATE] + np.pi) % (2 * np.pi) - np.pi}


def _scale(lanes: Lanes, facts: Facts, rng: np.random.Generator, factor: float, offset: float) -> Lanes:  # noqa: ARG001
    return {**lanes, STATE: factor * lanes[STATE] + offset * facts.spread}


def _blank_lane(lanes: Lanes, facts: Facts, rng: np.random.Generator) -> Lanes:  # noqa: ARG001
    return {**lanes, ACTION: np.full_like(lanes[ACTION], np.nan)}


def _blank_channel(lanes: Lanes, facts: Facts, rng: np.random.Generator) -> Lanes:  # noqa: ARG001
    rows = lanes[STATE].copy()
    rows[:, rng.integers(rows.shape[1])] = np.nan
    return {**lanes, STATE: rows}


def _blank_number(lanes: Lanes, facts: Facts, rng: np.random.Generator) -> Lanes:  # noqa: ARG001
    rows = lanes[STATE].copy()
    rows[rng.integers(len(rows)), rng.integers(rows.shape[1])] = np.nan
    return {**lanes, STATE: rows}


def _drift(length: int, count: int, rng: np.random.Generator) -> Rows:
    """Return smooth random channels: waves of several periods."""
    times = np.linspace(0, 1, length)[:, None]
    waves = [
        rng.standard_normal(count) * np.sin(2 * np.pi * (rate * times + rng.uniform(0, 1, count))) / rate
        for rate in (1, 2, 3, 5)
    ]
    return np.sum(waves, axis=0)


def _add_lane(lanes: Lanes, facts: Facts, rng: np.random.Generator) -> Lanes:  # noqa: ARG001
    return {**lanes, "gripper": _drift(len(lanes[STATE]), 2, rng)}


def _add_channel(lanes: Lanes, facts: Facts, rng: np.random.Generator, place: float = 1.0) -> Lanes:  # noqa: ARG001
    before = round(place * lanes[STATE].shape[1])
    return {**lanes, STATE: np.insert(lanes[STATE], before, _drift(len(lanes[STATE]), 1, rng)[:, 0], axis=1)}


def _call(clean: int, channels: int, place: float = 1.0) -> tuple[str, ...]:
    """Return the names of channels, of which one may be added."""
    names = [f"joint {number}" for number in range(clean)]
    names[round(place * clean) : 0] = ["added"] * (channels - clean)
    return tuple(names)


def _rename_lane(lanes: Lanes, facts: Facts, rng: np.random.Generator) -> Lanes:  # noqa: ARG001
    return {f"observation.{name}" if name == STATE else name: rows for name, rows in lanes.items()}


def _reorder_lanes(lanes: Lanes, facts: Facts, rng: np.random.Generator) -> Lanes:  # noqa: ARG001
    return dict(reversed(lanes.items()))


def _change_rate(lanes: Lanes, facts: Facts, rng: np.random.Generator, factor: float) -> Lanes:  # noqa: ARG001
    return {name: at_rate(rows, factor) for name, rows in lanes.items()}


def at_rate(rows: Rows, factor: float) -> Rows:
    """Return the rows at `factor` times their rate."""
    places = np.linspace(0, len(rows) - 1, max(2, round(factor * len(rows))))
    return np.stack([np.interp(places, np.arange(len(rows)), column) for column in rows.T], axis=1)


def _pad(lanes: Lanes, facts: Facts, rng: np.random.Generator) -> Lanes:  # noqa: ARG001
    return {name: np.pad(rows, ((0, round(0.3 * len(rows))), (0, 0))) for name, rows in lanes.items()}


def _add_steady(lanes: Lanes, facts: Facts, rng: np.random.Generator, slope: float) -> Lanes:  # noqa: ARG001
    return {**lanes, "steps": 3 + slope * np.arange(len(lanes[STATE]))[:, None]}


def widen(lanes: Lanes, facts: Facts, rng: np.random.Generator, total: int) -> Lanes:  # noqa: ARG001
    """Add smooth random channels to the state until all lanes together have `total`; fewer are the first of more."""
    present = sum(rows.shape[1] for rows in lanes.values())
    more = [_drift(len(lanes[STATE]), 1, one) for one in rng.spawn(total)[present:]]
    return {**lanes, STATE: np.concatenate([lanes[STATE], *more], axis=1)}


def _widen_state(lanes: Lanes, facts: Facts, rng: np.random.Generator) -> Lanes:
    return widen(lanes, facts, rng, 257 + lanes[ACTION].shape[1])


def _spike(lanes: Lanes, facts: Facts, rng: np.random.Generator) -> Lanes:
    rows = lanes[STATE].copy()
    rows[rng.integers(len(rows))] += 1e4 * facts.spread
    return {**lanes, STATE: rows}


def _leave_out(lanes: Lanes, facts: Facts, rng: np.random.Generator) -> None:  # noqa: ARG001
    return None


_TO_FEWEST: Final = partial(widen, total=_FEWEST)

NUISANCES: Final = (
    Nuisance("quaternion signs per episode", _flip_signs, 1.0, make_quaternions),
    Nuisance("angles wrapped at pi", _wrap, 1.0, make_angles),
    Nuisance("second robot, x 3 + 2 sd", partial(_scale, factor=3.0, offset=2.0)),
    Nuisance("second robot, named", partial(_scale, factor=3.0, offset=2.0), other=Source(robot="second")),
    Nuisance("second robot, in a folder", partial(_scale, factor=3.0, offset=2.0), other=Source(folder="second")),
    Nuisance("mm and m mixed", partial(_scale, factor=1000.0, offset=0.0)),
    Nuisance("one lane NaN", _blank_lane),
    Nuisance("one channel NaN", _blank_channel),
    Nuisance("one NaN per episode", _blank_number, 1.0),
    Nuisance("one lane more", _add_lane),
    Nuisance("one channel more", _add_channel),
    Nuisance("one channel more in the middle", partial(_add_channel, place=0.5)),
    Nuisance("one channel more, all named", _add_channel, call=_call),
    Nuisance("one named channel more in the middle", partial(_add_channel, place=0.5), call=partial(_call, place=0.5)),
    Nuisance("a lane renamed", _rename_lane),
    Nuisance("lanes reordered", _reorder_lanes),
    Nuisance("half the rate", partial(_change_rate, factor=0.5)),
    Nuisance("twice the rate", partial(_change_rate, factor=2.0)),
    Nuisance("30 % of zeros at the end", _pad),
    Nuisance("a lane that counts steps", partial(_add_steady, slope=1.0), 1.0, in_queries=True),
    Nuisance("a constant lane", partial(_add_steady, slope=0.0), 1.0, in_queries=True),
    Nuisance("a spike in 1 % of the episodes", _spike, 0.01),
    Nuisance("query and half of all outside", _leave_out),
    Nuisance(f"{_FEWEST} channels, for the set's own", _TO_FEWEST, 1.0, in_queries=True),
    *(
        Nuisance(f"{total} channels, for {_FEWEST}", partial(widen, total=total), 1.0, _TO_FEWEST, in_queries=True)
        for total in (64, 65, 128, 256, 257)
    ),
    Nuisance(f"257 channels in one lane, for {_FEWEST}", _widen_state, 1.0, _TO_FEWEST, in_queries=True),
)
"""All rows about episodes; the clean archive of more than 63 channels has 63."""
