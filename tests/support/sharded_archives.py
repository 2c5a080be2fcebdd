"""An archive that shards share, and searches of it."""

from __future__ import annotations

import time
from contextlib import suppress

import numpy as np
from bridge_episodes import episode, save

from bridge.index.base import Request
from catalog import EVERYTHING
from embedders.space import Space
from wshard import TrajectoryIngestor
from wshard.errors import IndexUnreachableError


def make_lab(folder):
    """Make an archive of 30 episodes, and return its folder."""
    save(folder / "episodes", *(episode(n % 5, n, 8, spread=3.0) for n in range(30)))
    with TrajectoryIngestor(folder / "lab") as ingestor:
        ingestor.ingest(folder / "episodes")
    return folder / "lab"


def space_of(catalog):
    """Return the first Space of a catalog, and a query."""
    space = Space.from_json(catalog.vectors.live_spaces()[0].definition)
    return space, np.ones(space.dim, np.float32)


def search_for(seconds, index, space, query):
    """Search again and again, also where no shard answers, as in the moment before a lost cluster is noticed."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            index.search(space, query, Request(12, EVERYTHING))
        except IndexUnreachableError as error:
            if "shards answered" not in str(error):
                raise


def index_all(index, space, query):
    """Return all matches, once every shard answers."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with suppress(IndexUnreachableError):  # they have just been started
            answer = index.search(space, query, Request(1000, EVERYTHING))
            if answer.exact:
                return answer.matches
        time.sleep(0.2)
    raise AssertionError(index.search(space, query, Request(1000, EVERYTHING)).coverage)
