"""Types of columns and expressions that differ between database products."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlalchemy import ARRAY, BigInteger, Double, Integer, LargeBinary, Numeric, Text
from sqlalchemy.types import NullType, TypeDecorator

from catalog.values import comparable_number, storable, unpack_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Dialect
    from sqlalchemy.types import TypeEngine

# SQLite uses a key as rowid, which makes range reads fastest, only if its type is named INTEGER.
BIG = BigInteger().with_variant(Integer(), "sqlite")
# Code point order everywhere: SQLite's default, the collation "C" of PostgreSQL.
TEXT = Text().with_variant(Text(collation="C"), "postgresql")

# Dimensions, whether there are nulls, type of an element, length and first index; each element after its length.
_ARRAY = struct.Struct(">iiIii")
_FLOAT8 = 701
_BYTES = 8
_LENGTH = struct.pack(">i", _BYTES)
_ELEMENT = len(_LENGTH) + _BYTES


class NumberArray(TypeDecorator[Any]):
    """Several float64, bound as packed little-endian bytes and read as numbers; an array in PostgreSQL."""

    impl = LargeBinary
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the product's type."""
        return dialect.type_descriptor(ARRAY(Double()) if dialect.name == "postgresql" else LargeBinary())

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> Any:
        """Convert packed numbers for the product."""
        return value if value is None or dialect.name != "postgresql" else list(unpack_numbers(value))

    def process_result_value(self, value: Any, dialect: Dialect) -> tuple[float, ...] | None:
        """Return the numbers of a value from the product."""
        if value is None or dialect.name == "postgresql":
            return value if value is None else tuple(value)
        return unpack_numbers(value)

    @staticmethod
    def arrays(packed: Sequence[bytes | None]) -> list[bytes | None]:
        """Return packed numbers as arrays in the binary form of PostgreSQL: big-endian, a length before each."""
        all_bytes = b"".join(filter(None, packed))
        elements = bytearray((_LENGTH + bytes(_BYTES)) * (len(all_bytes) // _BYTES))
        for byte in range(_BYTES):  # reverse the bytes of all numbers at once
            elements[len(_LENGTH) + byte :: _ELEMENT] = all_bytes[_BYTES - 1 - byte :: _BYTES]
        arrays: list[bytes | None] = []
        start = 0
        for value in packed:
            count = len(value or b"") // _BYTES
            stop = start + count * _ELEMENT
            arrays.append(None if value is None else _ARRAY.pack(1, 0, _FLOAT8, count, 1) + elements[start:stop])
            start = stop
        return arrays


class JsonNumber(TypeDecorator[Any]):
    """A JSON number in comparable form: exact, also between an integer and a float.

    PostgreSQL compares decimals: an integer unchanged, another float by its shortest digits, which have the same order.
    A whole float below 2**63 is the integer; encode_metadata stores it as such.
    """

    impl = Double
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the product's type."""
        # SQLite compares integers and floats exactly, if it is given both.
        return dialect.type_descriptor(Numeric() if dialect.name == "postgresql" else NullType())

    def process_bind_param(self, value: float | None, dialect: Dialect) -> Any:
        """Convert a number for the product."""
        if value is None or dialect.name != "postgresql":
            return value
        number = comparable_number(value)
        if isinstance(number, float) and number.is_integer() and storable(int(number)):
            number = int(number)
        return Decimal(repr(number))

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002  (its caller names it)
        """Return a number from the product: a decimal becomes the integer or float that it represents."""
        if not isinstance(value, Decimal):
            return value
        integer_part = int(value)
        return integer_part if integer_part == value and storable(integer_part) else float(value)
