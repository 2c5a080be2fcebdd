"""Where the episodes are in a file whose groups have the same arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wshard.core.messages import plural
from wshard.formats.layouts import layout as rules
from wshard.formats.layouts.groups import RowGroups
from wshard.formats.layouts.guessing import names
from wshard.formats.layouts.guessing.boundaries import ends_boundary
from wshard.formats.layouts.guessing.flat import count_rows
from wshard.formats.layouts.guessing.readings import EpisodeGuess, EpisodeReading
from wshard.formats.layouts.guessing.survey import OTHER, read_facts
from wshard.formats.layouts.layout import EpisodeRule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wshard.formats.layouts.columns import ArrayFile
    from wshard.formats.layouts.guessing.survey import ArrayFacts

_SAMPLES: Final = 8  # groups whose arrays are read
_SAME: Final = 32  # groups whose names are compared
_DEPTH: Final = 3
_MANY: Final = 5
_PARTS: Final = frozenset((
    "arm", "robot", "cam", "camera", "sensor", "agent", "hand", "finger", "level", "layer", "joint", "env",
    "worker", "actor", "view", "gripper", "leg", "wheel", "body", "link", "obs", "observation",
    "observations", "action", "actions", "state", "states",
))  # fmt: skip
"""Groups of these names are parts of one episode."""


@dataclass(frozen=True)
class GroupFamily:
    """Groups with the same arrays. pattern: their path, with wildcards. samples: the arrays of some groups."""

    pattern: str
    groups: tuple[str, ...]
    samples: tuple[Sequence[ArrayFacts], ...]

    @property
    def arrays(self) -> Sequence[ArrayFacts]:
        """The arrays of the first group."""
        return self.samples[0]


def find_family(container: ArrayFile) -> GroupFamily | None:
    """Return the groups that may be episodes, None if there are none."""
    root = ""
    for _ in range(_DEPTH):
        children = container.groups(f"{root}*")
        pattern = _pattern(container, children, root)
        if pattern:
            deeper = _pattern(container, container.groups(f"{pattern}/*"), f"{pattern}/")
            if deeper and not _has_own_arrays(container, children):
                pattern = deeper
            groups = tuple(container.groups(pattern))
            samples = tuple(read_facts(container, group) for group in groups[:: max(1, len(groups) // _SAMPLES)])
            return GroupFamily(pattern, groups, samples)
        if len(children) != 1:
            return None
        root = f"{children[0]}/"
    return None


def _has_own_arrays(container: ArrayFile, groups: Sequence[str]) -> bool:
    return any("/" not in path for path in container.paths(groups[0]))


def _pattern(container: ArrayFile, groups: Sequence[str], root: str) -> str:
    """Return the pattern of groups below a root that have the same arrays, "" if there are none."""
    leaves = [group.rpartition("/")[2] for group in groups]
    stems: dict[str, list[str]] = {}
    for leaf, group in zip(leaves, groups, strict=True):
        if leaf != (stem := names.stem_of(leaf)):
            stems.setdefault(stem, []).append(group)
    for stem, members in sorted(stems.items(), key=lambda item: -len(item[1])):
        is_episode = names.meaning_of(stem) == names.EPISODE
        words = {*names.tokens_of(stem)}
        if not words & _PARTS and (len(members) > 1 or is_episode) and (is_episode or _are_alike(container, members)):
            is_alone = all(leaf.startswith(stem) == (leaf in _leaves(members)) for leaf in leaves)
            return f"{root}{stem}{'*' if is_alone else '[0-9]*'}"
    has_parts = any({*names.tokens_of(leaf)} & _PARTS for leaf in leaves)
    return f"{root}*" if len(groups) >= _MANY and not has_parts and _are_alike(container, groups) else ""


def _leaves(groups: Sequence[str]) -> set[str]:
    return {group.rpartition("/")[2] for group in groups}


def _are_alike(container: ArrayFile, groups: Sequence[str]) -> bool:
    inner = [frozenset(container.paths(group)) for group in groups[:_SAME]]
    return bool(inner[0]) and all(listed == inner[0] for listed in inner)


def find_in_groups(family: GroupFamily) -> EpisodeGuess:
    """Return whether the groups are episodes."""
    arrays, count = family.arrays, len(family.groups)
    first, last = family.groups[0], family.groups[-1]
    lengths = {count_rows(facts) for facts in family.samples}
    stem = names.stem_of(first.rpartition("/")[2])
    is_named = any(names.meaning_of(names.stem_of(part)) == names.EPISODE for part in first.split("/"))
    why = f"{plural(count, 'episode')}: the groups {first} to {last} have the same arrays"
    why += ", named as episodes" if is_named else f" of {'different' if len(lengths) > 1 else 'the same'} lengths"
    readings = [EpisodeReading(EpisodeRule(rules.GROUP, group=family.pattern), count, why)]
    has_actions = any(one.meaning == names.ACTION for one in arrays)
    if not is_named and len(lengths) == 1 and not (has_actions and count >= _MANY):
        parts = f"one episode: the groups {first} to {last} are parts of it ({stem or 'numbers'}), of the same length"
        readings.append(EpisodeReading(EpisodeRule(), 1, parts))
    return EpisodeGuess(tuple(readings), count_rows(arrays), tuple(_doubts(family, stem)))


def _doubts(family: GroupFamily, stem: str) -> Iterator[str]:
    arrays, first = family.arrays, family.groups[0]
    rows = count_rows(arrays)
    ends = ends_boundary(arrays, rows)
    if ends and ends.count > 1 and not ends.doubts:
        yield f"{first}: {ends.why}, inside of a group"
    with_rows = [one for one in arrays if one.rows]
    is_flat = all(len(one.shape) == 1 for one in with_rows) and len({one.rows for one in with_rows}) > 1
    if is_flat or names.meaning_of(stem) == names.COUNTER:
        yield f"{first} and others have no rows in common: they may be timesteps, and such groups are not read"


def find_lists(container: Any, arrays: Sequence[ArrayFacts]) -> tuple[GroupFamily, RowGroups] | None:
    """Return the rows of a table, or the objects of a list, as groups, where they have lists of their own lengths."""
    if not any(one.kind == OTHER for one in arrays) or not hasattr(container, "cell"):
        return None
    rows = RowGroups(container)
    groups = tuple(rows.groups("*"))
    samples = tuple(read_facts(rows, group) for group in groups[:_SAMPLES])
    is_read = samples and not any(one.kind == OTHER for facts in samples for one in facts)
    return (GroupFamily("*", groups, samples), rows) if is_read and count_rows(samples[0]) > 1 else None
