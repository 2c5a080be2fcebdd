"""Read the description of a layout: TOML, checked key by key."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any, Final, TypeVar

from wshard.core.channel_kinds import checked_kinds
from wshard.core.messages import shown
from wshard.errors import EpisodeError, LayoutError
from wshard.formats.layouts.layout import (
    CONTAINERS,
    NAMED,
    ROLES,
    RULES,
    TIME,
    UNITS,
    VERSION,
    ArrayRule,
    EpisodeLayout,
    EpisodeRule,
    MatchRule,
    RingRule,
    split_role,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wshard.core.files.place import Place

_MAX_SIZE: Final = 1 << 20
_TOP: Final = frozenset(
    {"layout", "name", "about", "container", "files", "root", "match", "episodes", "arrays", "rest", "stack", "cameras",
     "rate", "actions", "constants", "details", "id", "ring",
     "batches", "refused", "advice"}
)  # fmt: skip
_EPISODES: Final = frozenset({"by", "array", "arrays", "group", "steps", "axis", "final", "horizon", "continues"})
_RING: Final = frozenset({"last", "filled", "parts"})
_MATCH: Final = frozenset({"arrays", "without", "suffixes"})
_DETAILS: Final = frozenset({"file", "row"})
_ARRAY: Final = frozenset({"is", "unit", "names", "kinds", "missing", "first", "extra", "axis", "files", "equals"})
_ALIGNMENTS: Final = {"next": False, "previous": True}

_Value = TypeVar("_Value")


def read_layout(place: Place) -> EpisodeLayout:
    """Return the layout in a file; raises LayoutError, FileNotFoundError."""
    text = place.read(0, _MAX_SIZE + 1)
    if len(text) > _MAX_SIZE:
        raise LayoutError(f"{place}: expected a description of at most {_MAX_SIZE} bytes, found more")
    try:
        return parse_layout(text.decode(), str(place), file=place)
    except UnicodeDecodeError as error:
        raise LayoutError(f"{place}: expected a description in UTF-8: {error}") from None
    except (RecursionError, OverflowError) as error:
        raise LayoutError(f"{place}: expected a description of few levels and usual numbers: {error}") from None


def parse_layout(text: str, where: str, *, file: Place | None = None) -> EpisodeLayout:
    """Return the layout that a text describes; `where` is its name in messages. Raises LayoutError."""
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LayoutError(f"{where}: expected a description in TOML: {error}") from None
    if place := next(_open_choices(given), ""):
        raise LayoutError(f'{where}: {place}: a choice is open: replace "?" as the comments there say')
    top = _Table(given, where, _TOP)
    if top.get("layout", int, 0) != VERSION:
        raise LayoutError(f"{where}: expected layout = {VERSION}, the version of the description")
    details = top.table("details", _DETAILS)
    return EpisodeLayout(
        name=top.get("name", str, "") or (file.stem if file else "layout"),
        container=top.one_of("container", CONTAINERS),
        about=top.get("about", str, ""),
        files=top.get("files", str, ""),
        root=top.get("root", str, "").strip("/"),
        match=_match(top.table("match", _MATCH)),
        episodes=_episodes(top.table("episodes", _EPISODES)),
        arrays=tuple(_rule(path, value, where) for path, value in top.get("arrays", dict, {}).items()),
        rest=_role(top.get("rest", str, "observation"), f"{where}: rest")[0],
        stack={_lane(lane, where): _texts(value, f"{where}: [stack] {lane}") for lane, value in top.items("stack")},
        cameras={
            _lane(lane, where): _text(value, f"{where}: [cameras] {lane}") for lane, value in top.items("cameras")
        },
        details=details.get("file", str, ""),
        details_row={name: _text(value, f"{details.where}: row: {name}") for name, value in details.items("row")},
        id=top.get("id", str, ""),
        rate=_rate(given.get("rate"), where),
        previous=_ALIGNMENTS[top.one_of("actions", tuple(_ALIGNMENTS), "next")],
        constants=_constants(top.items("constants"), where),
        ring=_ring(top.table("ring", _RING)),
        batches=top.get("batches", bool, False),
        refused=top.get("refused", str, ""),
        advice=top.get("advice", str, ""),
        file=file,
    )


def _open_choices(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys whose value is "?", which a guessed description has where nothing tells what it is."""
    for key, value in values.items():
        if value == "?":
            yield key
        elif isinstance(value, dict):
            yield from (f"{key}: {inner}" for inner in _open_choices(value))


class _Table:
    """A table of the description; raises LayoutError for keys that it cannot have."""

    def __init__(self, values: Mapping[str, Any], where: str, known: frozenset[str]) -> None:
        self._values, self.where = values, where
        if unknown := sorted({*values} - known):
            raise LayoutError(f"{where}: unknown key {unknown[0]!r}; expected one of {', '.join(sorted(known))}")

    def get(self, key: str, type_: type[_Value], default: _Value) -> _Value:
        """Return a value of this type."""
        value = self._values.get(key, default)
        if not isinstance(value, type_) or (type_ is int and isinstance(value, bool)):
            raise LayoutError(f"{self.where}: {key}: expected {_TYPES[type_]}, found {shown(value)}")
        return value

    def one_of(self, key: str, values: tuple[str, ...], default: str = "") -> str:
        """Return a text that is one of these."""
        value = self.get(key, str, default)
        if value not in values:
            raise LayoutError(f"{self.where}: {key}: expected one of {', '.join(values)}, found {shown(value)}")
        return value

    def table(self, key: str, known: frozenset[str]) -> _Table:
        """Return a table in it, which may be empty."""
        return _Table(self.get(key, dict, {}), f"{self.where}: [{key}]", known)

    def items(self, key: str) -> list[tuple[str, Any]]:
        """Return the pairs of a table whose keys the user chooses."""
        return [*self.get(key, dict, {}).items()]

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a text or a list of texts."""
        return _texts(self._values.get(key, ()), f"{self.where}: {key}")


_TYPES: Final[Mapping[type, str]] = {str: "a text", int: "a whole number", bool: "true or false", dict: "a table"}


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise LayoutError(f"{where}: expected a text, found {shown(value)}")
    return value


def _texts(value: Any, where: str) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, (list, tuple)):
        raise LayoutError(f"{where}: expected a text or a list of them, found {shown(value)}")
    return tuple(_text(one, where) for one in listed)


def _match(table: _Table) -> MatchRule:
    suffixes = tuple(suffix.lower() for suffix in table.texts("suffixes"))
    return MatchRule(table.texts("arrays"), table.texts("without"), suffixes)


def _episodes(table: _Table) -> EpisodeRule:
    rule = EpisodeRule(
        by=table.one_of("by", RULES, "file"),
        arrays=table.texts("array") or table.texts("arrays"),
        group=table.get("group", str, "").strip("/"),
        steps=table.get("steps", str, ""),
        axis=table.get("axis", int, 0),
        final=table.get("final", bool, False),
        horizon=table.get("horizon", int, 0),
        continues=table.texts("continues"),
    )
    needed = {"group": bool(rule.group), "file": True, "row": True, "number": True, "bounds": len(rule.arrays) == 2}
    if not needed.get(rule.by, bool(rule.arrays)):
        key = (
            "group"
            if rule.by == "group"
            else "arrays, two of them: starts and stops"
            if rule.by == "bounds"
            else "array"
        )
        raise LayoutError(f"{table.where}: by = {rule.by!r}: expected the key {key}")
    if rule.axis not in (0, 1):
        raise LayoutError(f"{table.where}: axis: expected 0 or 1, found {rule.axis}")
    if len(rule.continues) not in (0, 2):
        raise LayoutError(f"{table.where}: continues: expected two arrays, found {shown(rule.continues)}")
    if rule.horizon < 0:
        raise LayoutError(f"{table.where}: horizon: expected a number of rows, found {rule.horizon}")
    return rule


def _ring(table: _Table) -> RingRule | None:
    last, filled, parts = (table.texts(key) for key in ("last", "filled", "parts"))
    if bool(last) != bool(filled) or (parts and not last):
        raise LayoutError(f"{table.where}: expected the keys last and filled, found one of them")
    return RingRule(last, filled, parts) if last else None


def _role(text: Any, where: str) -> tuple[str, str]:
    role, name = split_role(_text(text, where))
    if role not in ROLES:
        raise LayoutError(f"{where}: expected one of {', '.join(ROLES)}, found {shown(text)}")
    if name and role not in NAMED:
        raise LayoutError(f"{where}: {role} has no name, found {shown(text)}")
    return role, name


def _lane(text: str, where: str) -> str:
    role, name = _role(text, where)
    if role not in ("observation", "action") or not name:
        raise LayoutError(f"{where}: expected observation/NAME or action/NAME, found {shown(text)}")
    return text


def _rule(path: str, value: Any, where: str) -> ArrayRule:
    at = f"{where}: [arrays] {path}"
    if not isinstance(value, dict):
        return ArrayRule(path, *_role(value, at))
    table = _Table(value, at, _ARRAY)
    role, name = _role(value.get("is"), f"{at}: is")
    unit, missing, equals = table.get("unit", str, ""), value.get("missing", []), value.get("equals")
    if equals is not None and type(equals) not in (int, float):
        raise LayoutError(f"{at}: equals: expected a number, found {shown(equals)}")
    if role == TIME and unit and unit not in UNITS:
        raise LayoutError(f"{at}: unit: expected one of {', '.join(UNITS)}, found {shown(unit)}")
    if not isinstance(missing, list) or not all(type(one) in (int, float) for one in missing):
        raise LayoutError(f"{at}: missing: expected a list of numbers, found {shown(missing)}")
    if (axis := table.get("axis", int, 0)) not in (0, 1):
        raise LayoutError(f"{at}: axis: expected 0 or 1, found {axis}")
    return ArrayRule(
        path,
        role,
        name,
        unit=unit,
        names=table.texts("names"),
        kinds=_kinds(table.texts("kinds"), at),
        missing=tuple(map(float, missing)),
        first=table.get("first", int, 0),
        extra=table.get("extra", int, 0),
        axis=axis,
        files=table.get("files", bool, False),
        equals=equals,
    )


def _kinds(texts: tuple[str, ...], where: str) -> tuple[str, ...]:
    try:
        return checked_kinds(texts, where)
    except EpisodeError as error:
        raise LayoutError(str(error)) from None


def _rate(value: Any, where: str) -> float | str | None:
    if value is None or isinstance(value, str):
        return value
    if type(value) not in (int, float) or not 0 < value < float("inf"):
        raise LayoutError(f"{where}: rate: expected timesteps per second or the name of an array, found {shown(value)}")
    return float(value)


def _constants(pairs: list[tuple[str, Any]], where: str) -> dict[str, Any]:
    for name, value in pairs:
        if type(value) not in (str, int, float, bool):
            raise LayoutError(f"{where}: [constants] {name}: expected a text, number or flag, found {shown(value)}")
    return dict(pairs)
