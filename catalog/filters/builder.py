"""Filters in Python: `(F.env_id == "reach-v3") & (F.total_reward >= 0.8) & ~(F.tag == "bad")`.

Families take further names: `F.meta.task`, `F.meta["a.b"]["c"]`, `F.score["quality"]`,
`F.lane["signal/state"].mean[3]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog.filters.fields import FAMILIES, field_of, quoted
from catalog.filters.where import Compare, Where, negation
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Collection

    from catalog.values import Scalar


class Name:
    """A field, or the beginning of one; comparing it makes a filter.

    Examples:
        >>> len(lab.where((F.length > 100) & F.meta.task.startswith("draw") & ~(F.flag == "spike")))
        3
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def __getattr__(self, part: str) -> Name:
        if part.startswith("__"):  # a special method that Python looks up, not a field
            raise AttributeError(part)
        if not self._text:
            return Name(part)
        if self._text.split(".", 1)[0] not in FAMILIES:
            raise FilterError(f"expected a comparison of {self._text}, found the attribute {part!r}")
        return self[part]

    def __getitem__(self, part: str | int) -> Name:
        more = f"[{part}]" if isinstance(part, int) else f".{quoted(part)}"
        return Name(self._text + more if self._text else str(part))

    def __contains__(self, value: object) -> bool:
        raise FilterError(f"expected a filter, found a use of 'in', which gives none: see {self!r}.contains and one_of")

    def __eq__(self, value: object) -> Where:  # type: ignore[override]  # a filter, not a truth
        return self._compare("eq", value)

    def __ne__(self, value: object) -> Where:  # type: ignore[override]  # as __eq__
        # Of many values "another one" is rarely meant: no value must be equal.
        return negation(self == value) if field_of(self._text).many else self._compare("ne", value)

    def __lt__(self, value: Scalar) -> Where:
        return self._compare("lt", value)

    def __le__(self, value: Scalar) -> Where:
        return self._compare("le", value)

    def __gt__(self, value: Scalar) -> Where:
        return self._compare("gt", value)

    def __ge__(self, value: Scalar) -> Where:
        return self._compare("ge", value)

    __hash__ = None  # type: ignore[assignment]  # equality makes filters

    def one_of(self, values: Collection[Scalar]) -> Where:
        """Any of the values."""
        return self._compare("in", values)

    def between(self, low: Scalar, high: Scalar) -> Where:
        """From low to high, both included."""
        return self._compare("between", (low, high))

    def contains(self, text: str) -> Where:
        """Match values that contain the text; for F.text: its words, adjacent."""
        return self._compare("contains", text)

    def startswith(self, text: str) -> Where:
        """Match values that start with the text."""
        return self._compare("startswith", text)

    def exists(self) -> Where:
        """There is a value."""
        return self._compare("exists", None)

    def __repr__(self) -> str:
        return f"F.{self._text}"

    def _compare(self, op: str, value: Any) -> Where:
        return Compare(self._text, op, value)


F = Name("")
