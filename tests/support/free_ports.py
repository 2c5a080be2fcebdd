"""Ports for servers that need a number for one."""

from __future__ import annotations

import random
import socket
from contextlib import suppress


def find_ports(count):
    """Return free ports, below those that the system and Ray give to others meanwhile."""
    found = []
    while len(found) < count:
        port = random.randint(10_000, 20_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
    return found
