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
from wshard.core.arguments import plain_text
from wshard.core.messages import shown
from wshard.errors import FilterError, FilterSyntaxError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from catalog.values import Scalar

Parsed = TypeVar("Parsed")

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
_KINDS: Final = ((str,), (int, float), (bool,))
KEYWORDS: Final = frozenset({"OR", "AND", "NOT"})
FLAGS: Final = {"true": True, "false": False, "yes": True, "no": False}


def parse_where(text: str) -> Where:
    """Parse a filter; FilterSyntaxError, a FilterError, has the position of the first mistake."""
    parser = _Parser(plain_text(text, "a filter", FilterError))
    parsed = parser.any_of(0)
    if parser.position < len(text):
        parser.fail("expected the end of the filter", parser.position)
    return parsed


def parse_comparison(field: str, text: str) -> Where:
    """Parse the text after `field:`; error positions count from its beginning."""
    parser = _Parser(plain_text(text, "a filter", FilterError))
    try:
        parsed = parser.test(field_of(field))
    except FilterSyntaxError:
        raise
    except FilterError as error:
        raise FilterSyntaxError(str(error), 0, field=error.field) from error
    if parser.position < len(text):
        parser.fail("expected one value (in double quotes if need be)", parser.position)
    return parsed


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
        following = self.text[position : position + 30]
        found = repr(following) if following else "its end"
        raise FilterSyntaxError(f"{reason}, found {found} at character {position + 1} of the filter", position)

    def any_of(self, depth: int) -> Where:
        if depth > MAX_DEPTH:
            self.fail(f"expected at most {MAX_DEPTH} levels", self.position)
        start = self.position
        parts = [self.all_of(depth)]
        while self.keyword("OR"):
            parts.append(self.all_of(depth, required=True))
        return self.checked(start, lambda: any_of(*parts))

    def all_of(self, depth: int, *, required: bool = False) -> Where:
        start = self.position
        parts: list[Where] = []
        while True:
            self.space()
            if self.keyword("AND"):
                if not parts:
                    self.fail("expected a comparison before AND", start)
                parts.append(self.one(depth))
            elif self.ended() or self.peek("OR"):
                break
            else:
                parts.append(self.one(depth))
        if required and not parts:
            self.fail("expected a comparison", self.position)
        if not parts and self.peek("OR"):
            self.fail("expected a comparison before OR", self.position)
        return self.checked(start, lambda: all_of(*parts))

    def one(self, depth: int) -> Where:
        self.space()
        start = self.position
        if depth > MAX_DEPTH:
            self.fail(f"expected at most {MAX_DEPTH} levels", start)
        if self.keyword("NOT") or self.take("-"):
            return self.checked(start, lambda: negation(self.one(depth + 1)))
        if self.take("("):
            inner = self.any_of(depth + 1)
            self.space()
            if not self.take(")"):
                self.fail(f"expected a closing parenthesis for the one at character {start + 1}", self.position)
            return inner
        name = NAME.match(self.text, start)
        if name and self.text.startswith(":", name.end()):
            field = self.checked(start, lambda: field_of(name[0]))
            self.position = name.end() + 1
            return self.checked(start, lambda: self.bounded(self.test(field)))
        return self.checked(start, lambda: self.bounded(self.words()))

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
        if operator := next((operator for operator in _OPERATORS if self.take(operator)), None):
            return Compare(field.name, _OPERATORS[operator], self.value(field))
        if self.take("()"):
            return Compare(field.name, "in", ())
        if self.take("*"):
            return self.contained(field)
        value = self.value(field)
        if self.take(".."):
            return self.lower_bound(field, value)
        if self.take("*"):
            return Compare(field.name, "startswith", value)
        return self.equal(field, value)

    def equal(self, field: Field, first: Scalar) -> Where:
        values = [first]
        while self.take(","):
            values.append(self.value(field))
        if field.root == "text" and len(values) == 1:
            return Compare(field.name, "contains", first)
        if field.type is not None:
            return Compare(field.name, "in", values)
        # Metadata may be of several types: 1, "1" and true are different values.
        kinds = {kind: [value for value in values if type(value) in kind] for kind in _KINDS}
        return any_of(*(Compare(field.name, "in", some) for some in kinds.values() if some))

    def lower_bound(self, field: Field, low: Scalar) -> Where:
        if self.at_end():
            return Compare(field.name, "ge", low)
        return Compare(field.name, "between", (low, self.value(field)))

    def contained(self, field: Field) -> Where:
        if self.at_end():
            return Compare(field.name, "exists")
        value = self.value(field)
        if not self.take("*"):
            self.fail("expected a second * after the text that must be contained", self.position)
        return Compare(field.name, "contains", value)

    def value(self, field: Field | None) -> Scalar:
        """Read one value of the field's type."""
        start = self.position
        if self.text.startswith('"', start):
            match_quoted = QUOTED.match(self.text, start)
            if match_quoted is None:
                self.fail("expected a closing double quote", len(self.text))
            self.position = match_quoted.end()
            return unquoted(match_quoted[0])
        match = VALUE.match(self.text, start)
        if match is None:
            self.fail("expected a value (in double quotes if need be)", start)
        self.position = match.end()
        type_ = field.type if field else str
        value = _as_type(match[0], type_)
        if value is None:
            self.fail(f"expected {_EXPECTED[type_]}{field.advice if field else ''}", start)
        return value

    def bounded(self, parsed: Where) -> Where:
        """Return the parsed part; fails if it is not followed by a space or the end."""
        if not self.at_end():
            is_comparison = self.text[self.position] in "<>="
            self.fail(f"expected a {'colon, as in reward:>3' if is_comparison else 'space'}", self.position)
        return parsed

    def checked(self, start: int, make: Callable[[], Parsed]) -> Parsed:
        """Return make(); a FilterError becomes a FilterSyntaxError at this position."""
        try:
            return make()
        except FilterSyntaxError:
            raise
        except FilterError as error:
            raise FilterSyntaxError(
                f"{error}, at character {start + 1} of the filter", start, field=error.field
            ) from error

    def space(self) -> None:
        while self.position < len(self.text) and self.text[self.position].isspace():
            self.position += 1

    def ended(self) -> bool:
        return self.position >= len(self.text) or self.text[self.position] == ")"

    def at_end(self) -> bool:
        return self.ended() or self.text[self.position].isspace()

    def take(self, sign: str) -> bool:
        is_next = self.text.startswith(sign, self.position)
        self.position += len(sign) * is_next
        return is_next

    def peek(self, keyword: str) -> bool:
        end = self.position + len(keyword)
        return self.text.startswith(keyword, self.position) and (
            end >= len(self.text) or self.text[end].isspace() or self.text[end] in "()"
        )

    def keyword(self, keyword: str) -> bool:
        self.space()
        is_next = self.peek(keyword)
        self.position += len(keyword) * is_next
        return is_next


def _as_type(text: str, type_: type | None) -> Scalar | None:
    """Return bare text as a value of the type (None = inferred), None if it is not one."""
    if type_ is str or (type_ is None and text.lower() not in FLAGS and NUMBER.fullmatch(text) is None):
        return text
    if type_ in (bool, None) and text.lower() in FLAGS:
        return FLAGS[text.lower()]
    if type_ in (int, None) and _INTEGER.fullmatch(text):
        return int(text)
    is_infinity = type_ is float and text.lower().lstrip("+-") == "inf"
    return float(text) if type_ in (float, None) and (is_infinity or NUMBER.fullmatch(text)) else None
