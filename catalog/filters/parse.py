r"""Filters as text: `env:reach-v3 reward:0.8.. length:>=100 tag:good -tag:bad "pick up"`.

`parse_where(where_text(w)) == w`.

    filter  = all ("OR" all)*                                    everything, when empty
    all     = one+                                               "AND" between them changes nothing
    one     = "-" one | "NOT" one | "(" filter ")" | field ":" test | words
    test    = value | value "," value ...                        equal, one of
            | low ".." high | low ".." | ".." high               both included
            | ">" value | ">=" value | "<" value | "<=" value | "!=" value
            | value "*" | "*" value "*" | "*"                    starts with, contains, exists
            | "()"                                               one of no values: nothing
    words   = "several words" | word | beginning*                full text
    value   = as it is, or in double quotes, with \ before " and \
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from catalog.filters.fields import NAME, Field, field_of, unquoted
from catalog.filters.where import EVERYTHING, MAX_DEPTH, Compare, Where, all_of, any_of, negation
from wshard.arguments import plain_text
from wshard.errors import FilterError, FilterSyntaxError
from wshard.messages import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from catalog.values import Scalar

Made = TypeVar("Made")

_OPERATORS: Final = {"..": "le", ">=": "ge", "<=": "le", "!=": "ne", ">": "gt", "<": "lt"}
QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
VALUE: Final = re.compile(r'(?:(?!\.\.)[^\s"(),*<>=!\\])+')
WORD: Final = re.compile(r"\w[\w-]*\*?")
NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_INTEGER: Final = re.compile(r"[+-]?\d{1,400}")
_EXPECTED: Final[Mapping[type | None, str]] = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    str: "text",
    None: "a value",
}
KEYWORDS: Final = frozenset({"OR", "AND", "NOT"})
FLAGS: Final = {"true": True, "false": False, "yes": True, "no": False}


def parse_where(text: str) -> Where:
    """Parse a filter; FilterSyntaxError, a FilterError, has the position of the first mistake."""
    parser = _Parser(plain_text(text, "a filter", FilterError))
    found = parser.any_of(0)
    if parser.position < len(text):
        parser.fail("expected the end of the filter", parser.position)
    return found


def parse_comparison(field: str, text: str) -> Where:
    """Parse the text after `field:`; error positions count from its beginning."""
    parser = _Parser(plain_text(text, "a filter", FilterError))
    try:
        found = parser.test(field_of(field))
    except FilterSyntaxError:
        raise
    except FilterError as error:
        raise FilterSyntaxError(str(error)) from error
    if parser.position < len(text):
        parser.fail("expected one value (in double quotes if need be)", parser.position)
    return found


def as_where(where: Where | str | None) -> Where:
    """Return the filter for a filter, its text, or None (everything); else FilterError."""
    if where is None:
        return EVERYTHING
    if not isinstance(where, str | Where):
        raise FilterError(f"expected a filter or its text, found {shown(where)}")
    return parse_where(where) if isinstance(where, str) else where


class _Parser:
    """A position in a text; each method reads one rule of the grammar from there."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def fail(self, reason: str, position: int) -> NoReturn:
        rest = self.text[position : position + 30]
        found = repr(rest) if rest else "its end"
        raise FilterSyntaxError(f"{reason}, found {found} at character {position + 1} of the filter", position)

    def any_of(self, depth: int) -> Where:
        if depth > MAX_DEPTH:
            self.fail(f"expected at most {MAX_DEPTH} levels", self.position)
        begun = self.position
        parts = [self.all_of(depth)]
        while self.keyword("OR"):
            parts.append(self.all_of(depth, needed=True))
        return self.checked(begun, lambda: any_of(*parts))

    def all_of(self, depth: int, *, needed: bool = False) -> Where:
        begun = self.position
        parts: list[Where] = []
        while True:
            self.space()
            if self.keyword("AND"):
                if not parts:
                    self.fail("expected a comparison before AND", begun)
                parts.append(self.one(depth))
            elif self.ended() or self.peek("OR"):
                break
            else:
                parts.append(self.one(depth))
        if needed and not parts:
            self.fail("expected a comparison", self.position)
        if not parts and self.peek("OR"):
            self.fail("expected a comparison before OR", self.position)
        return self.checked(begun, lambda: all_of(*parts))

    def one(self, depth: int) -> Where:
        self.space()
        begun = self.position
        if depth > MAX_DEPTH:
            self.fail(f"expected at most {MAX_DEPTH} levels", begun)
        if self.keyword("NOT") or self.take("-"):
            return self.checked(begun, lambda: negation(self.one(depth + 1)))
        if self.take("("):
            found = self.any_of(depth + 1)
            self.space()
            if not self.take(")"):
                self.fail(f"expected a closing parenthesis for the one at character {begun + 1}", self.position)
            return found
        name = NAME.match(self.text, begun)
        if name and self.text.startswith(":", name.end()):
            field = self.checked(begun, lambda: field_of(name[0]))
            self.position = name.end() + 1
            return self.checked(begun, lambda: self.bounded(self.test(field)))
        return self.checked(begun, lambda: self.bounded(self.words()))

    def words(self) -> Where:
        if self.text.startswith('"', self.position):
            return Compare("text", "contains", str(self.value(None)))
        word = WORD.match(self.text, self.position)
        if word is None or word[0] in KEYWORDS:
            self.fail("expected field:value, a word or a phrase in double quotes", self.position)
        self.position = word.end()
        return Compare("text", "contains", word[0])

    def test(self, field: Field) -> Where:
        """Read a test and return the comparison."""
        if sign := next((sign for sign in _OPERATORS if self.take(sign)), None):
            return Compare(field.name, _OPERATORS[sign], self.value(field))
        if self.take("()"):
            return Compare(field.name, "in", ())
        if self.take("*"):
            return self.within(field)
        found = self.value(field)
        if self.take(".."):
            return self.upwards(field, found)
        if self.take("*"):
            return Compare(field.name, "startswith", found)
        return self.equal(field, found)

    def equal(self, field: Field, first: Scalar) -> Where:
        values = [first]
        while self.take(","):
            values.append(self.value(field))
        if field.root == "text" and len(values) == 1:
            return Compare(field.name, "contains", first)
        return Compare(field.name, "in", values)

    def upwards(self, field: Field, low: Scalar) -> Where:
        if self.at_end():
            return Compare(field.name, "ge", low)
        return Compare(field.name, "between", (low, self.value(field)))

    def within(self, field: Field) -> Where:
        if self.at_end():
            return Compare(field.name, "exists")
        found = self.value(field)
        if not self.take("*"):
            self.fail("expected a second * after the text that must be contained", self.position)
        return Compare(field.name, "contains", found)

    def value(self, field: Field | None) -> Scalar:
        """Read one value of the field's type."""
        begun = self.position
        if self.text.startswith('"', begun):
            string = QUOTED.match(self.text, begun)
            if string is None:
                self.fail("expected a closing double quote", len(self.text))
            self.position = string.end()
            return unquoted(string[0])
        plain = VALUE.match(self.text, begun)
        if plain is None:
            self.fail("expected a value (in double quotes if need be)", begun)
        self.position = plain.end()
        return self.typed(plain[0], field.type if field else str, begun)

    def typed(self, text: str, kind: type | None, begun: int) -> Scalar:
        found = _as_type(text, kind)
        if found is None:
            self.fail(f"expected {_EXPECTED[kind]}", begun)
        return found

    def bounded(self, found: Where) -> Where:
        """Return what was read, unless something hangs on to it."""
        if not self.at_end():
            colon = self.text[self.position] in "<>="
            self.fail(f"expected a {'colon, as in reward:>3' if colon else 'space'}", self.position)
        return found

    def checked(self, begun: int, make: Callable[[], Made]) -> Made:
        """Make something; a mistake in it is one at this position."""
        try:
            return make()
        except FilterSyntaxError:
            raise
        except FilterError as error:
            raise FilterSyntaxError(f"{error}, at character {begun + 1} of the filter", begun) from error

    def space(self) -> None:
        while self.position < len(self.text) and self.text[self.position].isspace():
            self.position += 1

    def ended(self) -> bool:
        return self.position >= len(self.text) or self.text[self.position] == ")"

    def at_end(self) -> bool:
        return self.ended() or self.text[self.position].isspace()

    def take(self, sign: str) -> bool:
        there = self.text.startswith(sign, self.position)
        self.position += len(sign) * there
        return there

    def peek(self, keyword: str) -> bool:
        after = self.position + len(keyword)
        return self.text.startswith(keyword, self.position) and (
            after >= len(self.text) or self.text[after].isspace() or self.text[after] in "()"
        )

    def keyword(self, keyword: str) -> bool:
        self.space()
        there = self.peek(keyword)
        self.position += len(keyword) * there
        return there


def _as_type(text: str, kind: type | None) -> Scalar | None:
    """Return bare text as a value of the type (None = inferred), None if it is not one."""
    if kind is str or (kind is None and text.lower() not in FLAGS and NUMBER.fullmatch(text) is None):
        return text
    if kind in (bool, None) and text.lower() in FLAGS:
        return FLAGS[text.lower()]
    if kind in (int, None) and _INTEGER.fullmatch(text):
        return int(text)
    endless = kind is float and text.lower().lstrip("+-") == "inf"
    return float(text) if kind in (float, None) and (endless or NUMBER.fullmatch(text)) else None
