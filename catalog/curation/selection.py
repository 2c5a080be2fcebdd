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
from wshard.arguments import finite_number, whole_number
from wshard.errors import CollectionError
from wshard.messages import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

Key = tuple[str, str, int, int]
_KEY: Final[Callable[[Pick], Key]] = operator.attrgetter("uid", "digest", "start", "stop")
_JSON: Final = json.JSONEncoder(separators=(",", ":"))


@dataclass(frozen=True)
class Pick:
    """Timesteps start to stop (exclusive) of an episode with that data digest; weight is finite and not negative."""

    uid: str
    digest: str
    start: int
    stop: int
    weight: float = 1.0

    def __post_init__(self) -> None:
        if (type(self.start), type(self.stop), type(self.weight)) != (int, int, float):  # a snapshot may have millions
            self._take_numbers()
        if not 0 <= self.start <= self.stop <= INTEGER_LIMIT:
            raise CollectionError(f"expected a span 0 <= start <= stop, found {self.start}:{self.stop} of {self.uid}")
        if not math.isfinite(self.weight) or self.weight < 0:
            raise CollectionError(f"expected a finite weight of 0 or more, found {self.weight!r} for {self.uid}")
        object.__setattr__(self, "weight", self.weight + 0.0)  # no -0.0

    def _take_numbers(self) -> None:
        """Take numbers of other libraries as Python's."""
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
    for one in listed:
        if not isinstance(picks, Iterable) or not isinstance(one, Pick):
            raise CollectionError(f"expected a filter, its text, or several picks, found {shown(one)}")
    return listed


def ordered(picks: Iterable[Pick]) -> tuple[Pick, ...]:
    """Return the picks in their one order; CollectionError when one is there twice."""
    listed = sorted(picks, key=_KEY)
    for before, after in itertools.pairwise(map(_KEY, listed)):
        if before == after:
            uid, _, start, stop = after
            raise CollectionError(f"expected each pick once, found {start}:{stop} of {uid} twice")
    return tuple(listed)


def hash_of(picks: Iterable[Pick]) -> str:
    """Return the hash that names picks in their one order; equal in every archive."""
    digest = xxhash.xxh3_128()
    for pick in picks:
        digest.update(_JSON.encode([*pick.key, pick.weight]).encode() + b"\n")
    return digest.hexdigest()


def union(left: Sequence[Pick], right: Sequence[Pick]) -> tuple[Pick, ...]:
    """Return the picks of either; one in both has its weight from the left."""
    return ordered({**{pick.key: pick for pick in right}, **{pick.key: pick for pick in left}}.values())


def intersection(left: Sequence[Pick], right: Sequence[Pick]) -> tuple[Pick, ...]:
    """Return the picks of the left that the right has too."""
    there = {pick.key for pick in right}
    return ordered(pick for pick in left if pick.key in there)


def without(left: Sequence[Pick], right: Sequence[Pick]) -> tuple[Pick, ...]:
    """Return the picks of the left that the right does not have."""
    there = {pick.key for pick in right}
    return ordered(pick for pick in left if pick.key not in there)


def difference(before: Sequence[Pick], after: Sequence[Pick]) -> Difference:
    """Return what was added, removed and reweighted."""
    known = {pick.key: pick.weight for pick in before}
    common = intersection(after, before)
    changed = tuple(pick for pick in common if known[pick.key] != pick.weight)
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
    for left, bundle in zip(range(len(bundles), 0, -1), bundles, strict=True):
        # The part that lacks most, of those that want any; the last bundles go where there is nothing yet.
        wanted = [name for name, share in fractions.items() if share > 0]
        empty = [name for name in wanted if not parts[name]]
        lacking = {name: fractions[name] * len(picks) - len(parts[name]) for name in wanted}
        chosen = max(empty if left <= len(empty) else wanted, key=lambda name: lacking[name])
        parts[chosen] += bundle
    return {name: ordered(part) for name, part in parts.items()}


def checked_fractions(fractions: Mapping[str, float]) -> dict[str, float]:
    """Return the fractions as floats; CollectionError unless they are 0 or more and add up to 1."""
    if not isinstance(fractions, Mapping):
        raise CollectionError(f"expected fractions by the names of parts, found {shown(fractions)}")
    shares = {name: finite_number(share, f"fractions, {name!r}", CollectionError) for name, share in fractions.items()}
    if not shares or min(shares.values()) < 0 or not math.isclose(sum(shares.values()), 1.0, abs_tol=1e-9):
        raise CollectionError(f"expected fractions of 0 or more that add up to 1, found {shares}")
    return shares


def _bundles(picks: Sequence[Pick], groups: Mapping[str, Iterable[Hashable]], *, seed: int) -> list[list[Pick]]:
    """Return the picks that must stay together, the largest bundles first, equal ones shuffled by the seed."""
    leader: dict[Hashable, Hashable] = {}

    def lead(item: Hashable) -> Hashable:
        leader.setdefault(item, item)
        while leader[item] != item:
            leader[item] = leader[leader[item]]
            item = leader[item]
        return item

    for pick in picks:
        for group in (("digest", pick.digest), *(("group", found) for found in groups.get(pick.uid, ()))):
            leader[lead(group)] = lead(("uid", pick.uid))
    bundles: dict[Hashable, list[Pick]] = {}
    for pick in picks:
        bundles.setdefault(lead(("uid", pick.uid)), []).append(pick)

    def shuffled(bundle: list[Pick]) -> tuple[int, str]:
        name = min(pick.digest + pick.uid for pick in bundle)
        return (-len(bundle), xxhash.xxh3_128_hexdigest(f"{seed}:{name}".encode()))

    return sorted(bundles.values(), key=shuffled)
