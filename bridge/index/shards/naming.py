"""What shards are called, which episodes are whose, and the URL of an index in shards."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from wshard.core.messages import public_url
from wshard.errors import UnknownIndexError

_PLACE: Final = re.compile(r"((?:dask|ray)://[^/?#@\s]+:\d+)/([\w.-]+)")
_TIMEOUT: Final = 10.0  # seconds for an answer to a search
_OPTIONS: Final = {
    "shards": (re.compile("[1-9][0-9]{0,3}"), "a whole number from 1 to 9999"),
    "replicas": (re.compile("[1-9]"), "a whole number from 1 to 9"),
    "timeout": (re.compile("(?=.*[1-9])[0-9]{1,6}([.][0-9]+)?"), "a number of seconds above 0"),
}


@dataclass(frozen=True)
class Share:
    """The episodes whose id divided by `of` leaves `number`."""

    number: int
    of: int

    def __str__(self) -> str:
        """Return its name in messages, counted from one."""
        return f"shard {self.number + 1} of {self.of}"


@dataclass(frozen=True)
class ShardsUrl:
    """The address of a cluster, the name of the shards there, how many to expect (None: any), and seconds to wait."""

    address: str
    name: str
    shards: int | None
    replicas: int | None
    timeout: float

    @property
    def engine(self) -> str:
        """The scheme of the address."""
        return self.address.partition(":")[0]


def parse_url(url: str) -> ShardsUrl:
    """Return the parts of dask:// or ray://HOST:PORT/NAME?shards=N&replicas=N&timeout=SECONDS; UnknownIndexError."""
    place, _, query = url.partition("?")
    found, options = _PLACE.fullmatch(place), dict(parse_qsl(query, keep_blank_values=True))
    if found is None:
        raise UnknownIndexError(
            "expected dask://HOST:PORT/ARCHIVE or ray://HOST:PORT/ARCHIVE, perhaps with "
            f"?shards=N&replicas=N&timeout=SECONDS, found {public_url(url)!r}"
        )
    if unknown := sorted(options.keys() - _OPTIONS):
        raise UnknownIndexError(f"expected options among {', '.join(_OPTIONS)} in {place}, found {', '.join(unknown)}")
    for name, value in options.items():
        values, meaning = _OPTIONS[name]
        if not values.fullmatch(value):
            raise UnknownIndexError(f"{place}: expected {name} as {meaning}, found {value!r}")
    shards, replicas = (int(options[name]) if name in options else None for name in ("shards", "replicas"))
    return ShardsUrl(found[1], found[2], shards, replicas, float(options.get("timeout", _TIMEOUT)))
