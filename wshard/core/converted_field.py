"""Fields of dataclasses that take more forms of a value than they give."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, overload

Taken = TypeVar("Taken")
Value = TypeVar("Value")


class ConvertedField(Generic[Taken, Value]):
    """A field of a dataclass: all forms that are assigned become one, for type checkers, too.

    Args:
        convert: Makes the one form of a value and of the object that it becomes part of, whose earlier fields are set.
        default: What is assigned if no value is passed; a field without it is required.
    """

    def __init__(self, convert: Callable[[Taken, Any], Value], *default: Taken) -> None:
        self._convert, self._default, self._name = convert, default, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Taken: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...
    def __get__(self, instance: object | None, owner: type) -> Taken | Value:
        try:
            return self._default[0] if instance is None else instance.__dict__[self._name]
        except (IndexError, KeyError):  # dataclasses take it for a field without a default
            raise AttributeError(self._name) from None

    def __set__(self, instance: object, value: Taken) -> None:
        instance.__dict__[self._name] = self._convert(value, instance)


SizesField = ConvertedField[Iterable[int], list[int]]
SpanField = ConvertedField[Iterable[int] | None, list[int] | None]
TextsField = ConvertedField[Iterable[str], tuple[str, ...]]
