"""The fields of episodes in filters: names, types, and notation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from catalog.values import storable
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Mapping

FIELDS: Final[Mapping[str, type]] = MappingProxyType(
    {
        "id": int,
        "uid": str,
        "episode_id": str,
        "env_id": str,
        "root": str,
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
"""Plain field -> type of its values. `text` is the full text of task and notes, `flag` a check that found something,
`root` the folder that an episode is stored relative to, `vectors` how many it has in a space, `asset` the role of a
file, where an episode consists of several."""

FAMILIES: Final[Mapping[str, type | None]] = MappingProxyType(
    {"meta": None, "score": float, "lane": float, "lineage": str}
)
"""First part of a field of a family -> type of its values; None = text, number or flag, as the value compared with."""

SPREAD: Final = ("min", "max", "mean", "std")
"""What is known of a lane's numbers, all of them or those of one channel."""

STATISTICS: Final[Mapping[str, type]] = MappingProxyType(
    {
        **dict.fromkeys(SPREAD, float),
        **dict.fromkeys(("count", "bytes", "stored"), int),
        **dict.fromkeys(("dtype", "shape", "codec"), str),
        "rate": float,
    }
)
"""What is known of a lane -> type of its values: count in timesteps, rate per second, bytes decoded and as stored,
shape of one timestep as in "64x64x3", "scalar" for that of one number."""

TEXT_OPERATORS: Final = ("contains", "startswith")
"""Operators that only text knows."""

ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {"env": "env_id", "episode": "episode_id", "reward": "total_reward"}
)
"""Short names that the text and URL forms write, and every form understands."""

_MANY: Final = frozenset(
    {
        *("tag", "flag", "note", "note_by", "note_at", "collection", "lineage"),
        *("space", "space_family", "space_state", "vectors"),
        *("asset", "asset_path", "asset_digest", "asset_size", "asset_mtime_ns"),
    }
)
_SHORT: Final = {name: short for short, name in ALIASES.items()}
_BARE: Final = r"[\w/+-]+"
_PLAIN: Final = rf"{_BARE}(?:\.{_BARE})*"
_DOTTED: Final = frozenset(
    {"score", "lane"}
)  # whose names may have dots: score.quality.spike, lane.signal/arm.pose.max
_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
NAME: Final = re.compile(rf"[A-Za-z_]\w*(?:\.(?:{_QUOTED}|{_BARE}))*(?:\[\d{{1,9}}\])?", re.DOTALL)
"""How a field's name is written: parts after dots, quoted where they hold other signs than word / + -."""
_PART: Final = re.compile(rf"\.({_QUOTED}|{_BARE})|\[(\d+)\]", re.DOTALL)


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
    def many(self) -> bool:
        """Whether an episode may have several values, one of which must match."""
        return self.root in _MANY

    @property
    def free(self) -> bool:
        """Whether files and people give the names, so that a mistyped one is missing everywhere instead of unknown."""
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
        """The one full way to write it."""
        channel = "" if self.channel is None else f"[{self.channel}]"
        plain = _PLAIN if self.root in _DOTTED else _BARE
        return (
            ".".join((self.root, *(part if re.fullmatch(plain, part) else quoted(part) for part in self.parts)))
            + channel
        )

    @property
    def short(self) -> str:
        """The preferred notation: a plain field's alias if it has one."""
        return _SHORT.get(self.root, self.name)


@lru_cache(maxsize=1024)
def field_of(name: str) -> Field:
    """Parse a field's name; FilterError if there is no such field."""
    whole = NAME.fullmatch(name) if isinstance(name, str) else None
    if whole is None or not storable(name):
        raise FilterError(f"expected the name of a field ({_listed()}), found {name!r}")
    root, parts, channel = re.split(r"[.\[]", name, maxsplit=1)[0], [], None
    for part, number in _PART.findall(name[len(root) :]):
        channel = int(number) if number else channel
        parts += [_read(part)] if part else []
    if root in _DOTTED:
        ends = len(parts) - (root == "lane")  # where the name does
        parts = [".".join(parts[:ends]), *parts[ends:]] if ends > 0 else parts
    field = Field(ALIASES.get(root, root), tuple(parts), channel)
    _check(field, name)
    return field


def _check(field: Field, name: str) -> None:
    if field.root in FIELDS:
        fine = not field.parts and field.channel is None
        wanted = f"{field.root} without further parts"
    elif field.root == "lane":
        fine = len(field.parts) == 2 and field.parts[1] in STATISTICS
        fine = fine and (field.channel is None or field.parts[1] in SPREAD)
        wanted = f"lane.NAME.STATISTIC or lane.NAME.STATISTIC[CHANNEL] with a statistic among {', '.join(STATISTICS)}"
    elif field.root in FAMILIES:
        fine = (len(field.parts) == 1 or (field.root == "meta" and field.parts != ())) and field.channel is None
        wanted = "meta.KEY, further keys after dots" if field.root == "meta" else f"{field.root}.NAME"
    else:
        close = get_close_matches(name, [*FIELDS, *ALIASES], n=1)
        others = f"a key of the metadata is meta.{name}; the fields are {_listed()}"
        advice = f"did you mean {close[0]}?" if close else others
        raise FilterError(f"expected a field, found {name!r} ({advice})")
    if not fine:
        raise FilterError(f"expected {wanted}, found {name!r}")


def _listed() -> str:
    return ", ".join((*(_SHORT.get(name, name) for name in FIELDS), *(f"{family}.…" for family in FAMILIES)))


def _read(part: str) -> str:
    return unquoted(part) if part.startswith('"') else part


def quoted(text: str) -> str:
    r"""Return the text in double quotes, with \ before " and \ inside."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def unquoted(text: str) -> str:
    """Return what stands between the quotes."""
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
