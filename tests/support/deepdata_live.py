"""A live server (DEEPDATA_URL) to test on: collections of our own, which are dropped afterwards."""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from bridge.index.deepdata.api_versions import V3, connect
from bridge.index.deepdata.http import Call, Wire
from bridge.index.deepdata.rate_limit import Throttle
from bridge.index.deepdata.settings import Settings, read_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

LIVE = "DEEPDATA_URL" in os.environ


@cache
def throttle() -> Throttle:
    """Return the one throttle of all clients: the server counts what they send together."""
    return Throttle(read_settings(os.environ["DEEPDATA_URL"]).rpm)


@contextmanager
def live() -> Iterator[Settings]:
    """Give settings with a prefix that nobody else uses, and drop what was made under it."""
    settings = replace(read_settings(os.environ["DEEPDATA_URL"]), prefix=f"live-{secrets.token_hex(4)}")
    try:
        yield settings
    finally:
        with Wire(settings, throttle=throttle()) as wire:
            dialect = connect(wire, settings)
            path = dialect._collections if isinstance(dialect, V3) else "/v2/collections"
            for about in wire.send(Call("GET", path))["collections"]:
                if about["Name"].startswith(settings.prefix):
                    dialect.drop(about["Name"])
