"""Where a page begins: after the last row of the page before.

Knows: how that is told as text, and that it is a parameter of statements, which are made once. Does not know: pages, or
in what orders they are.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Integer, bindparam

from catalog.column_types import BIG
from catalog.filters import Compare
from catalog.values import INTEGER_LIMIT, Scalar
from wshard.errors import FilterError

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement
    from sqlalchemy.types import TypeEngine

LAST_ID: Final[ColumnElement[int]] = bindparam("last_id", type_=BIG)
WANTED: Final[ColumnElement[int]] = bindparam("wanted", type_=Integer)
"""The id of the cursor, and how many rows a statement is to give, both said when it is asked."""


@dataclass(frozen=True)
class Cursor:
    """The last row of a page: its order, its value there (None among the missing values) and its id."""

    order: str
    value: Scalar | None
    id: int

    def encode(self) -> str:
        """Return opaque text for URLs."""
        text = json.dumps([self.order, self.value, self.id], ensure_ascii=False, separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @staticmethod
    def decode(text: str, *, order: str) -> Cursor:
        """Read it back; FilterError when it is none, or one of another order."""
        try:
            padded = text.encode("ascii") + b"=" * (-len(text) % 4)
            found, value, last = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        except (ValueError, TypeError, RecursionError, binascii.Error) as error:
            raise FilterError(f"expected the cursor of an earlier page, found {text!r}") from error
        whole = isinstance(last, int) and not isinstance(last, bool) and 0 <= last <= INTEGER_LIMIT
        if found != order or not whole:
            raise FilterError(f"expected the cursor of a page ordered by {order}, found one of {found!r}")
        if value is not None:
            value = Compare(order.removeprefix("-"), "eq", value).value
        return Cursor(order, value, last)


def last_value(kind: TypeEngine[Any]) -> ColumnElement[Any]:
    """Return the value of the cursor as it is said when a statement is asked."""
    return bindparam("last_value", type_=kind)


def place_of(cursor: Cursor | None) -> str:
    """Return where a page begins, as far as its statement depends on that."""
    return "start" if cursor is None else "missing" if cursor.value is None else "value"


def parameters(cursor: Cursor | None, *, wanted: int) -> dict[str, Any]:
    """Return what is said when a statement is asked for the rows after the cursor."""
    last = {} if cursor is None else {"last_id": cursor.id, "last_value": cursor.value}
    return {"wanted": wanted, **last}
