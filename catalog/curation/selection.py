"""Picks of episodes, which virtual datasets consist of, and operations on sets of them. Plain values.

Two picks are the same if they take the same span of the same data of the same episode; the weight is not part of the
identity. Overlapping spans are different picks.
"""

from __future__ import annotations

import itertools
import json
import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import xxhash

from catalog.values import INTEGER_LIMIT
from wshard.core.arguments import finite_number, whole_number
from wshard.core.messages import shown
from wshard.errors import CollectionError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

Key = tuple[str, str, int, int]
_KEY: Final[Callable[[Pick], Key]] = operator.attrgetter("uid", "digest", "start", "stop")
_JSON: Final = json.JSONEncoder(separators=(",", ":"))


@dataclass(frozen=True)
class Pick:
    """Timesteps start to stop (exclusive) of an episode with that data digest; weight is finite and not negative.

    Examples:
        >>> row = lab.episode("circle-02")
        >>> Pick(row.uid, row.digest, 10, 20, weight=2.0).stop
        20
    """

    uid: str
    digest: str
    start: int
    stop: int
    weight: float = 1.0

    def __post_init__(self) -> None:
        if (type(self.start), type(self.stop), type(self.weight)) != (
            int,
            int,
            float,
        ):  # fast path, as a snapshot may have millions
            self._convert_numbers()
        if not 0 <= self.start <= self.stop <= INTEGER_LIMIT:
            raise CollectionError(f"expected a span 0 <= start <= stop, found {self.start}:{self.stop} of {self.uid}")
        if not math.isfinite(self.weight) or self.weight < 0:
            raise CollectionError(f"expected a finite weight of 0 or more, found {self.weight!r} for {self.uid}")
        object.__setattr__(self, "weight", self.weight + 0.0)  # no -0.0

    def _convert_numbers(self) -> None:
        """Convert numbers of other libraries to Python's."""
        for name in ("start", "stop"):
            number = whole_number(getattr(self, name), f"{name} of a pick of {self.uid}", CollectionError)
            object.__setattr__(self, name, number)
        weight = finite_number(self.weight, f"weight of a pick of {self.uid}", CollectionError)
        object.__setattr__(self, "weight", weight)

    @property
    def key(self) -> Key:
        """Identity of the pick, without its weight."""
        return _KEY(self)


@dataclass(frozen=True)
class Difference:
    """Difference between two sets of picks; reweighted has the new picks."""

    added: tuple[Pick, ...]
    removed: tuple[Pick, ...]
    reweighted: tuple[Pick, ...]


def as_picks(picks: Iterable[Pick]) -> list[Pick]:
    """Return several picks; CollectionError for anything else."""
    listed = list(picks) if isinstance(picks, Iterable) else [picks]
    for pick in listed:
        if not isinstance(picks, Iterable) or not isinstance(pick, Pick):
            raise CollectionError(f"expected a filter, its text, or several picks, found {shown(pick)}")
    return listed


def ordered(picks: Iterable[Pick]) -> tuple[Pick, ...]:
    """Return the picks in canonical order; CollectionError for a duplicate."""
    listed = sorted(picks, key=_KEY)
    for previous, following in itertools.pairwise(map(_KEY, listed)):
        if previous == following:
            uid, _, start, stop = following
            raise CollectionError(f"expected each pick once, found {start}:{stop} of {uid} twice")
    return tuple(listed)


def hash_of(picks: Iterable[Pick]) -> str:
    """Return the hash of picks in canonical order; equal in every archive."""
    digest = xxhash.xxh3_128()
    for pick in picks:
        digest.update(_JSON.encode([*pick.key, pick.weight]).encode() + b"\n")
    return digest.hexdigest()


def union(left: Sequence[Pick], right: Sequence[Pick]) -> tuple[Pick, ...]:
    """Return the picks of either; one in both has its weight from the left."""
    return ordered({**{pick.key: pick for pick in right}, **{pick.key: pick for pick in left}}.values())


def intersection(left: Sequence[Pick], right: Sequence[Pick]) -> tuple[Pick, ...]:
    """Return the picks of the left that the right has too."""
    right_keys = {pick.key for pick in right}
    return ordered(pick for pick in left if pick.key in right_keys)


def without(left: Sequence[Pick], right: Sequence[Pick]) -> tuple[Pick, ...]:
    """Return the picks of the left that the right does not have."""
    right_keys = {pick.key for pick in right}
    return ordered(pick for pick in left if pick.key not in right_keys)


def difference(before: Sequence[Pick], after: Sequence[Pick]) -> Difference:
    """Return what was added, removed and reweighted."""
    weights_before = {pick.key: pick.weight for pick in before}
    common = intersection(after, before)
    changed = tuple(pick for pick in common if weights_before[pick.key] != pick.weight)
    return Difference(without(after, before), without(before, after), changed)


def split(
    picks: Sequence[Pick], groups: Mapping[str, Iterable[Hashable]], *, fractions: Mapping[str, float], seed: int = 0
) -> dict[str, tuple[Pick, ...]]:
    """Split the picks into named parts with about these fractions, deterministically for the same seed.

    groups: for each uid the groups of its episode. Episodes that share a group, or the same data, also transitively,
    are in the same part. Large bundles are placed first; no part stays empty if there are enough bundles.
    """
    fractions = checked_fractions(fractions)
    parts: dict[str, list[Pick]] = {name: [] for name in fractions}
    bundles = _bundles(picks, groups, seed=seed)
    for remaining, bundle in zip(range(len(bundles), 0, -1), bundles, strict=True):
        # Choose the part that lacks most picks; the last bundles go to parts that are still empty.
        nonzero_parts = [name for name, fraction in fractions.items() if fraction > 0]
        empty = [name for name in nonzero_parts if not parts[name]]
        missing = {name: fractions[name] * len(picks) - len(parts[name]) for name in nonzero_parts}
        part_name = max(empty if remaining <= len(empty) else nonzero_parts, key=lambda name: missing[name])
        parts[part_name] += bundle
    return {name: ordered(part) for name, part in parts.items()}


def checked_fractions(fractions: Mapping[str, float]) -> dict[str, float]:
    """Return the fractions as floats; CollectionError unless they are 0 or more and add up to 1."""
    if not isinstance(fractions, Mapping):
        raise CollectionError(f"expected fractions by the names of parts, found {shown(fractions)}")
    checked = {
        name: finite_number(fraction, f"fractions, {name!r}", CollectionError) for name, fraction in fractions.items()
    }
    if not checked or min(checked.values()) < 0 or not math.isclose(sum(checked.values()), 1.0, abs_tol=1e-9):
        raise CollectionError(f"expected fractions of 0 or more that add up to 1, found {checked}")
    return checked


def _bundles(picks: Sequence[Pick], groups: Mapping[str, Iterable[Hashable]], *, seed: int) -> list[list[Pick]]:
    """Return the picks that must stay together, the largest bundles first, equal ones shuffled by the seed."""
    parents: dict[Hashable, Hashable] = {}

    def find_root(item: Hashable) -> Hashable:
        parents.setdefault(item, item)
        while parents[item] != item:
            parents[item] = parents[parents[item]]
            item = parents[item]
        return item

    for pick in picks:
        for group in (("digest", pick.digest), *(("group", group_value) for group_value in groups.get(pick.uid, ()))):
            parents[find_root(group)] = find_root(("uid", pick.uid))
    bundles: dict[Hashable, list[Pick]] = {}
    for pick in picks:
        bundles.setdefault(find_root(("uid", pick.uid)), []).append(pick)

    def shuffled(bundle: list[Pick]) -> tuple[int, str]:
        name = min(pick.digest + pick.uid for pick in bundle)
        return (-len(bundle), xxhash.xxh3_128_hexdigest(f"{seed}:{name}".encode()))

    return sorted(bundles.values(), key=shuffled)
