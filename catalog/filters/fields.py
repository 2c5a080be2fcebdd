"""The fields of episodes in filters: names, types, and notation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from catalog.values import storable
from wshard.core.messages import shown
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

FIELDS: Final[Mapping[str, type]] = MappingProxyType(
    {
        "id": int,
        "uid": str,
        "episode_id": str,
        "env_id": str,
        "root": str,
        "folder": str,
        "path": str,
        "key": str,
        "format": str,
        "lane_map": str,
        "length": int,
        "total_reward": float,
        "success": bool,
        "digest": str,
        "size": int,
        "mtime_ns": int,
        "ingested_at": str,
        "review": str,
        "reviewer": str,
        "reviewed_at": str,
        "tag": str,
        "flag": str,
        "note": str,
        "note_by": str,
        "note_at": str,
        "collection": str,
        "space": str,
        "space_family": str,
        "space_state": str,
        "vectors": int,
        "asset": str,
        "asset_path": str,
        "asset_digest": str,
        "asset_size": int,
        "asset_mtime_ns": int,
        "text": str,
    }
)
"""Plain field -> type of its values. `text`: the full text of metadata and notes; `flag`: the name of a check with a
finding; `root`: the folder that an episode's path is relative to; `folder`: the one that its file is in; `vectors`:
their number in a space; `asset`: the role of a file of an episode that consists of several."""

TIMES: Final = frozenset({"ingested_at", "reviewed_at", "note_at"})
"""Fields whose values are times: see times.py."""

FAMILIES: Final[Mapping[str, type | None]] = MappingProxyType(
    {"meta": None, "score": float, "lane": float, "lineage": str}
)
"""Family, the first part of a field -> type of its values; None: text, number or flag, like the compared value."""

SPREAD: Final = ("min", "max", "mean", "std")
"""Statistics of a lane's numbers, of all of them or of one channel."""

STATISTICS: Final[Mapping[str, type]] = MappingProxyType(
    {
        **dict.fromkeys(SPREAD, float),
        **dict.fromkeys(("count", "bytes", "stored"), int),
        **dict.fromkeys(("dtype", "shape", "codec"), str),
        "rate": float,
    }
)
"""Property of a lane -> type of its values. count: in timesteps; rate: timesteps per second; bytes, stored: decoded and
stored size; shape: of one timestep, such as "64x64x3", or "scalar"."""

TEXT_OPERATORS: Final = ("contains", "startswith")
"""Operators of text only."""

ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {"env": "env_id", "episode": "episode_id", "reward": "total_reward", "task": "meta.task"}
)
"""Short names that every form understands; the text and URL forms write those of plain fields."""

_TITLES: Final[Mapping[str, str]] = MappingProxyType({"environment": "env_id", "location": "path", "file": "path"})
"""What the app calls a field -> its name; other titles are the names with a capital."""

MAX_PARTS: Final = 50
"""Parts of a field's name: databases nest an expression for each key of the metadata."""

_MANY: Final = frozenset(
    {
        *("tag", "flag", "note", "note_by", "note_at", "collection", "lineage"),
        *("space", "space_family", "space_state", "vectors"),
        *("asset", "asset_path", "asset_digest", "asset_size", "asset_mtime_ns"),
    }
)
_USUAL: Final = (
    "episode",
    "env",
    "length",
    "reward",
    "success",
    "path",
    "format",
    "tag",
    "review",
    "note",
    "score.NAME",
)
_SHORT: Final = {name: short for short, name in ALIASES.items()}
_PLAIN_PART: Final = r"[\w/+-]+"
_PLAIN_NAME: Final = rf"{_PLAIN_PART}(?:\.{_PLAIN_PART})*"
_DOTTED_FAMILIES: Final = frozenset(
    {"score", "lane"}
)  # whose names may have dots: score.quality.spike, lane.signal/arm.pose.max
_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
NAME: Final = re.compile(rf"[A-Za-z_]\w*(?:\.(?:{_QUOTED}|{_PLAIN_PART}))*(?:\[\d{{1,9}}\])?", re.DOTALL)
"""The notation of a field's name: parts separated by dots, quoted if they have other characters than word / + -."""
_PART: Final = re.compile(rf"\.({_QUOTED}|{_PLAIN_PART})|\[(\d+)\]", re.DOTALL)


@dataclass(frozen=True)
class Field:
    """One field: the plain name or that of the family, the parts after it, and for lanes the channel (None = all)."""

    root: str
    parts: tuple[str, ...] = ()
    channel: int | None = None

    @property
    def type(self) -> type | None:
        """The type of its values; None where metadata may hold any."""
        if self.root == "lane":
            return STATISTICS[self.parts[1]]
        return FIELDS[self.root] if self.root in FIELDS else FAMILIES[self.root]

    @property
    def timed(self) -> bool:
        """Whether its values are times."""
        return self.root in TIMES

    @property
    def many(self) -> bool:
        """Whether an episode may have several values, one of which must match."""
        return self.root in _MANY

    @property
    def free(self) -> bool:
        """Whether names are defined by the data, so that a mistyped one matches nothing instead of raising an error."""
        return self.root in ("meta", "score", "lane", "lineage")

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that make sense for the field."""
        if self.root == "text":
            return ("contains",)
        if self.root == "collection":
            return ("eq", "in", "exists")
        if self.type is bool:
            return ("eq", "ne", "in", "exists")
        # Of many values "another one" is rarely meant.
        ordered = ("eq", *(() if self.many else ("ne",)), "lt", "le", "gt", "ge", "in", "between", "exists")
        return ordered if self.type in (int, float) else (*ordered, *TEXT_OPERATORS)

    @property
    def name(self) -> str:
        """The canonical notation."""
        channel = "" if self.channel is None else f"[{self.channel}]"
        unquoted_pattern = _PLAIN_NAME if self.root in _DOTTED_FAMILIES else _PLAIN_PART
        return (
            ".".join(
                (self.root, *(part if re.fullmatch(unquoted_pattern, part) else quoted(part) for part in self.parts))
            )
            + channel
        )

    @property
    def advice(self) -> str:
        """What to write instead of a value of another type, after a space; "" for most fields."""
        return " (an episode's name is episode:NAME)" if self.root == "id" else ""

    @property
    def short(self) -> str:
        """The preferred notation: a plain field's alias if it has one."""
        return _SHORT.get(self.root, self.name)


@lru_cache(maxsize=1024)
def field_of(name: str) -> Field:
    """Parse a field's name; FilterError if there is no such field."""
    name = _named(name) if isinstance(name, str) else name
    match = NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None or not storable(name):
        raise FilterError(f"expected the name of a field ({_listed()}), found {name!r}")
    root, parts, channel = re.split(r"[.\[]", name, maxsplit=1)[0], [], None
    for part, number in _PART.findall(name[len(root) :]):
        channel = int(number) if number else channel
        parts += [_read(part)] if part else []
    if root in _DOTTED_FAMILIES:
        name_parts = len(parts) - (root == "lane")  # number of parts that make up the name
        parts = [".".join(parts[:name_parts]), *parts[name_parts:]] if name_parts > 0 else parts
    field = Field(ALIASES.get(root, root), tuple(parts), channel)
    _check(field, name)
    return field


def _named(name: str) -> str:
    """Return the name for an alias or a title: a plain field's in any case."""
    lowered = name.lower()
    title = _TITLES.get(lowered) or (lowered if lowered in FIELDS or lowered in ALIASES else name)
    return ALIASES.get(title, title)


def _check(field: Field, name: str) -> None:
    if len(field.parts) > MAX_PARTS:
        raise FilterError(f"expected at most {MAX_PARTS} keys, found {len(field.parts)} in {shown(name)}")
    if field.root in FIELDS:
        is_valid = not field.parts and field.channel is None
        expected = f"{field.root} without further parts"
    elif field.root == "lane":
        is_valid = len(field.parts) == 2 and field.parts[1] in STATISTICS
        is_valid = is_valid and (field.channel is None or field.parts[1] in SPREAD)
        expected = f"lane.NAME.STATISTIC or lane.NAME.STATISTIC[CHANNEL] with a statistic among {', '.join(STATISTICS)}"
    elif field.root in FAMILIES:
        is_valid = (len(field.parts) == 1 or (field.root == "meta" and field.parts != ())) and field.channel is None
        expected = "meta.KEY, further keys after dots" if field.root == "meta" else f"{field.root}.NAME"
    else:
        raise FilterError(f"expected a field, found {name!r} ({advise_on_field(name)})", field=name)
    if not is_valid:
        raise FilterError(f"expected {expected}, found {name!r}")


def advise_on_field(name: str, keys: Collection[str] = ()) -> str:
    """Return what a name of no field may stand for; keys: the fields of metadata that an archive has."""
    by_name = {key.rpartition(".")[2]: key for key in keys} | {key.removeprefix("meta."): key for key in keys}
    close = get_close_matches(name, [*by_name, *FIELDS, *ALIASES], n=1)
    if close:
        return f"did you mean {by_name.get(close[0], close[0])}?"
    return f"a key of the metadata is meta.{name}; fields are {', '.join(_USUAL)}, …"


def _listed() -> str:
    return ", ".join((*(_SHORT.get(name, name) for name in FIELDS), *(f"{family}.…" for family in FAMILIES)))


def _read(part: str) -> str:
    return unquoted(part) if part.startswith('"') else part


def quoted(text: str) -> str:
    r"""Return the text in double quotes, with \ before " and \ inside."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def unquoted(text: str) -> str:
    """Return the text between the quotes, with escapes resolved."""
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
