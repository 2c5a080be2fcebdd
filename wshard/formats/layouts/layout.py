"""What a layout says: how a location is opened, where its episodes are, and what its arrays mean."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase, translate
from functools import cached_property
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wshard.core.files.place import Place

VERSION: Final = 1
"""Of the description: the value of `layout` in it."""

CONTAINERS: Final = ("hdf5", "npz", "npy", "table", "json", "memmap", "video")
"""What can hold arrays: an HDF5 file, an .npz file, a folder of .npy files, a table, a JSON document or several in
lines, a folder of .memmap files as TensorDict writes it; of an .mp4 file, the times of its frames."""

FOLDERS: Final = ("npy", "memmap")
"""Containers that are folders."""

SUFFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    "hdf5": (".h5", ".hdf5", ".hdf"),
    "npz": (".npz",),
    "npy": (".npy",),
    "table": (".csv", ".tsv", ".parquet", ".feather", ".arrow", ".jsonl", ".ndjson"),
    "json": (".json", ".jsonl", ".ndjson"),
    "memmap": (".memmap",),
    "video": (".mp4",),
}
"""The files of each container."""

ARRAY_SUFFIXES: Final = tuple(
    dict.fromkeys(suffix for kind, suffixes in SUFFIXES.items() if kind != "video" for suffix in suffixes)
)
"""The files of containers but videos, which belong to those of others."""

_FIELD: Final = re.compile(r"\{[^{}]+\}")
_FILES: Final = tuple(suffix for suffixes in SUFFIXES.values() for suffix in suffixes)

FILE, GROUP, NUMBER, ROW, COLUMN = "file", "group", "number", "row", "column"
ENDS, STARTS, RESTARTS, STOPS, LENGTHS, BOUNDS = "ends", "starts", "restarts", "stops", "lengths", "bounds"
RULES: Final = (FILE, GROUP, NUMBER, ROW, COLUMN, ENDS, STARTS, RESTARTS, STOPS, LENGTHS, BOUNDS)
"""Where episodes are. The last seven are for rows of all episodes, one after another; restarts: a time falls."""

OBSERVATION, ACTION, REWARD, END, TRUNCATED, SUCCESS = "observation", "action", "reward", "end", "truncated", "success"
TASK, ENVIRONMENT, ID, TIME, FINAL, METADATA, SKIP = "task", "environment", "id", "time", "final", "metadata", "skip"
ROLES: Final = (
    OBSERVATION, ACTION, REWARD, END, TRUNCATED, SUCCESS, TASK, ENVIRONMENT, ID, TIME, FINAL, METADATA, SKIP
)  # fmt: skip
"""What an array can be. Observations, actions, final observations and metadata may have a name: "observation/state"."""

NAMED: Final = frozenset((OBSERVATION, ACTION, FINAL, METADATA))
"""Roles with a name; of the others there is one each."""

CALLED: Final[Mapping[str, tuple[str, ...]]] = {
    OBSERVATION: ("observations", "observation", "obs"),
    ACTION: (
        "actions", "action", "acts", "act", "ctrl", "ctrls", "control", "controls", "cmd", "cmds", "command",
        "commands", "actuation",
    ),
    REWARD: ("rewards", "reward", "rews", "rew"),
    END: (
        "terminations", "terminated", "terminals", "terminal", "termination", "term", "terms", "dones", "done",
    ),
    TRUNCATED: ("truncations", "truncated", "timeouts", "timeout", "truncation", "truncate", "trunc"),
}  # fmt: skip
"""What programs call the arrays of these roles; of several that are there, the first one is meant."""

UNITS: Final[Mapping[str, float]] = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
"""Nanoseconds of the units of time."""
_UNIT_WORDS: Final = {"sec": "s", "secs": "s", "seconds": "s", "msec": "ms", "usec": "us", "nsec": "ns"}


@dataclass(frozen=True)
class MatchRule:
    """How a location of the layout is recognised: by arrays that it has and lacks, and by its suffix.

    arrays, without: paths with wildcards. A layout without `arrays` is never recognised, only named.
    """

    arrays: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()

    def fits(self, names: frozenset[str]) -> bool:
        """Return True for a location with these arrays."""
        return (
            bool(self.arrays)
            and all(_has(names, pattern) for pattern in self.arrays)
            and not any(_has(names, pattern) for pattern in self.without)
        )


def _has(names: frozenset[str], pattern: str) -> bool:
    return pattern in names or any(fnmatchcase(name, pattern) for name in names)


@dataclass(frozen=True)
class EpisodeRule:
    """Where the episodes are.

    by: one of RULES. arrays: those that say so; of several flags of ends or starts, a file needs one. group: the groups
    of `by = "group"`, with wildcards. `by = "number"`: arrays are called NAME_NUMBER, or NAME_NUMBER_PART for the
    arrays NAME_PART of an episode. steps: the array whose rows are the timesteps; "": that of actions, else the one
    that most arrays agree with. axis: that of episodes in `by = "row"`; there, a row of a table has lists. final: the
    last row of each episode has an observation only. continues: two arrays; an episode ends, too, where the second one
    differs from the next row of the first. horizon: else it ends after so many rows at the latest, 0 for none. Both
    count in files that lack one of several `arrays`.
    """

    by: str = FILE
    arrays: tuple[str, ...] = ()
    group: str = ""
    steps: str = ""
    axis: int = 0
    final: bool = False
    horizon: int = 0
    continues: tuple[str, ...] = ()


@dataclass(frozen=True)
class RingRule:
    """Which rows of a replay buffer are used, and where the oldest one is: with `by = "ends"` or "column".

    last: the newest row. filled: the number of rows that are used. parts: the first row of each part, in a buffer of
    several. Each names an array, or after "@" an attribute; the first one that the file has counts. Of several parts,
    the values of last and filled are lists.
    """

    last: tuple[str, ...]
    filled: tuple[str, ...]
    parts: tuple[str, ...] = ()


@dataclass(frozen=True)
class ArrayRule:
    """What the arrays of a path are.

    role: one of ROLES. name: that of the lane, which takes the place of the path; a "*" in it, and in names, stands for
    what the last "*" of the path does. unit: free text, of times one of UNITS. names: of the channels, or the path of
    the attribute or array that has them. kinds: of the channels, as in a Channel. missing: numbers that stand for no
    value, read as NaN. axis: that of the timesteps, 0 or 1. first: the row of the first timestep. extra: rows more than
    timesteps that each episode has. files: the texts are paths of image files, relative to the folder of the episode's
    file. equals: the number that sets a flag; by default any but 0. once: found to be a value of an episode or of all,
    whatever its size; no description says so.
    """

    pattern: str
    role: str
    name: str = ""
    unit: str = ""
    names: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    missing: tuple[float, ...] = ()
    first: int = 0
    extra: int = 0
    axis: int = 0
    files: bool = False
    equals: float | None = None
    once: bool = False


@dataclass(frozen=True)
class EpisodeLayout:
    """A description. file: where it was read from, None for one of this package.

    files: the files of a folder, with wildcards. root: the group or member that holds the arrays. arrays: the first
    that fits a path counts; rest: the role of arrays that none fits. stack: {role/name: columns that make one lane};
    wildcards there stand for columns of numbers that nothing else names, but where is_split for those that stand apart.
    cameras: {role/name: path of an .mp4 file, or with wildcards of an image a timestep}; a "*" in the name makes a
    camera of each text that the first "*" of the path stands for. details: the path of a JSON file whose members are
    metadata, as attributes are; details_row: {member: value} of the object to take from a list. id: of the episodes,
    from fields.

    Paths are relative to the folder of the episode's file. In them and in ids, {NAME} is a text or number of the
    episode's metadata, {episode} its key, {file} the name of its file without suffix, {folder} and {folder2} the names
    of the folders that hold the file.

    rate: timesteps per second, or the array or attribute that says so, "1/NAME" for one of seconds per timestep.
    previous: actions led to the observation of the same row. constants: metadata of all episodes. required: arrays that
    every episode must have. batches: each document of a JSON file has several rows of the arrays. refused: what such a
    location is and what to do with it, for one that has no timesteps or cannot be read. advice: what to do with a file
    in which observations, actions and the like are no numbers; with one, texts are none.
    """

    name: str
    container: str
    about: str = ""
    files: str = ""
    root: str = ""
    match: MatchRule = field(default_factory=MatchRule)
    episodes: EpisodeRule = field(default_factory=EpisodeRule)
    arrays: tuple[ArrayRule, ...] = ()
    rest: str = OBSERVATION
    stack: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cameras: Mapping[str, str] = field(default_factory=dict)
    details: str = ""
    details_row: Mapping[str, str] = field(default_factory=dict)
    id: str = ""
    rate: float | str | None = None
    previous: bool = False
    constants: Mapping[str, str | float | bool] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    ring: RingRule | None = None
    batches: bool = False
    is_split: bool = False
    refused: str = ""
    advice: str = ""
    file: Place | None = None

    @cached_property
    def has_files(self) -> bool:
        """Whether episodes have other files: videos, images, a JSON file."""
        return bool(self.cameras or self.details) or any(rule.files for rule in self.arrays)

    @cached_property
    def companions(self) -> tuple[str, ...]:
        """The paths of the other files of an episode, with "*" for what differs between episodes."""
        return tuple(_FIELD.sub("*", path) for path in (*self.cameras.values(), self.details) if path)

    @cached_property
    def has_lists(self) -> bool:
        """Whether each row of a table, or each document of a JSON file, is an episode with lists."""
        return self.episodes.by == ROW and self.container in ("table", "json") and not self.episodes.arrays

    @cached_property
    def has_groups(self) -> bool:
        """Whether the arrays of each episode are apart from those of others."""
        return self.episodes.by in (FILE, GROUP, NUMBER) or self.has_lists

    def rule_of(self, path: str) -> ArrayRule:
        """Return the rule of an array."""
        for rule in self.arrays:
            if rule.pattern == path or fnmatchcase(path, rule.pattern):
                return rule if "*" not in rule.name else _with_names(rule, path)
        return ArrayRule(path, self.rest)

    def names(self, path: str) -> bool:
        """Return True for an array that a rule fits."""
        return any(rule.pattern == path or fnmatchcase(path, rule.pattern) for rule in self.arrays)


def unit_of_words(words: Sequence[str]) -> str:
    """Return the unit that the last of these words to be one names, "" for none."""
    named = [_UNIT_WORDS.get(word, word) for word in words if word in UNITS or word in _UNIT_WORDS]
    return named[-1] if named else ""


def may_have_layout(path: str) -> bool:
    """Return True for a file whose name says that a layout may read it."""
    return path.lower().endswith(_FILES)


def _with_names(rule: ArrayRule, path: str) -> ArrayRule:
    """Return a rule with what the last "*" of its pattern stands for in a path in its names."""
    before, _, after = rule.pattern.rpartition("*")
    found = re.match(f"{translate(before)[:-2]}(.*){translate(after)}", path)  # less the mark of the end
    part = found[1] if found else path
    return replace(rule, name=rule.name.replace("*", part), names=tuple(name.replace("*", part) for name in rule.names))


def split_role(text: str) -> tuple[str, str]:
    """Return (role, name) of "action/gripper"; the name may be empty."""
    role, _, name = text.partition("/")
    return role, name
