"""Names of blocks as paths: "/" separates their parts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_SEPARATOR: Final = "/"
_OPEN_ENDS: Final = ("/", ".")  # a prefix with such an end is cut inside a path on purpose, as "layer."


def split_path(name: str) -> list[str]:
    """Return the parts of a name, none for ""."""
    return name.split(_SEPARATOR) if name else []


def join_path(*parts: str) -> str:
    """Return the name with these parts."""
    return _SEPARATOR.join(parts)


def path_parent(name: str) -> str:
    """Return everything before the last "/", or ""."""
    return name.rpartition(_SEPARATOR)[0]


def path_base(name: str) -> str:
    """Return everything after the last "/"."""
    return name.rpartition(_SEPARATOR)[2]


def below(names: Iterable[str], prefix: str) -> list[str]:
    """Return the names at or below a path: "a" gives "a" and "a/b", not "ab".

    A prefix that ends in "/" or "." is a plain string prefix, so "layer." gives "layer.0/bias"; "" gives all.
    """
    open_end = _open_ended(prefix)
    return [name for name in names if name.startswith(open_end) or (name == prefix and name)]


def children(names: Iterable[str], prefix: str) -> list[str]:
    """Return the parts that follow a path, each once, in order: "a" gives "b" for "a/b/c" and "c" for "a/c"."""
    open_end = _open_ended(prefix)
    suffixes = (name[len(open_end) :] for name in names if name.startswith(open_end))
    return [part for part in dict.fromkeys(suffix.partition(_SEPARATOR)[0] for suffix in suffixes) if part]


def _open_ended(prefix: str) -> str:
    return prefix if not prefix or prefix.endswith(_OPEN_ENDS) else prefix + _SEPARATOR


def matches(pattern: str, name: str) -> bool:
    """Return True if the name fits: "*" stands for anything but "." and "/", "**" for everything that follows."""
    prefix, double_star, _ = pattern.partition("**")
    if double_star:
        return name.startswith(prefix)
    return re.fullmatch("[^./]*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None
