"""Contract tests of an index over its life: changes, kills, other processes and losses, compared with brute force.

WSHARD_LIVES: how many random lives each index has.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from bridge.testing.brute_force import DIM, unit_vectors
from bridge.testing.shelf import Promises, check, top
from catalog.filters.where import EVERYTHING, build_where

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bridge.index.base import VectorIndex, Vectors
    from bridge.testing.brute_force import Shelf
    from embedders.space import Space

_EPISODES = 24
_STEPS = 25


class LifePromises(Promises):
    """Tests of random lives of an index."""

    lives = int(os.environ.get("WSHARD_LIVES", "1"))
    """Random lives that are compared with the brute force."""

    def damage(self, folder: Path) -> list[Callable[[], None]]:  # noqa: ARG002  (for backends that override it)
        """Return what may happen to this backend's copy between two processes: losses, older states, foreign entries.

        folder: of the index's files. Each is called while no call of an index runs.
        """
        return []

    def test_random_lives_give_what_brute_force_gives(self, tmp_path: Path) -> None:
        for seed in range(self.lives):
            self._live(tmp_path / f"life-{seed}", seed)

    def _live(self, folder: Path, seed: int) -> None:
        folder.mkdir()
        with self.shelf(folder) as shelf:
            life = _Life(shelf, self.space(), lambda: self.open_index(shelf.catalog, folder / "index"), seed)
            life.run(self.damage(folder / "index"))


class _Life:
    """One life: every step changes something, and every third one compares answers.

    Vectors come from few groups of nearly equal ones, since indexes that merge or cluster them have most to lose there.
    """

    def __init__(self, shelf: Shelf, space: Space, reopen: Callable[[], VectorIndex], seed: int) -> None:
        self._shelf, self._space, self._reopen = shelf, space, reopen
        self._rng = np.random.default_rng(seed)
        self._ids = shelf.register(_EPISODES)
        self._processes = [shelf.index]

    def run(self, damages: list[Callable[[], None]]) -> None:
        """Live, and compare."""
        self._put()
        steps = [self._put, self._put, self._remove, self._kill, self._switch]
        for number in range(_STEPS):
            choice = int(self._rng.integers(len(steps) + len(damages)))
            if choice < len(steps):
                steps[choice]()
            else:
                damages[choice - len(steps)]()
                self._kill()
            if number % 3 == 0:
                self._compare()

    def _put(self) -> None:
        """Embed some episodes, new ones and such that have vectors already."""
        chosen = self._rng.choice(self._ids, int(self._rng.integers(1, 6)), replace=False).tolist()
        self._shelf.put(self._space, {id_: self._vectors() for id_ in chosen})

    def _remove(self) -> None:
        stored = [*self._shelf.stored.get(self._space.fingerprint, {})]
        if stored:
            count = int(self._rng.integers(1, 1 + min(4, len(stored))))
            self._shelf.bury(self._rng.choice(stored, count, replace=False).tolist(), self._space)

    def _kill(self) -> None:
        """Go on in a new process; the other ones are gone without having been closed."""
        self._processes = [self._reopen()]
        self._shelf.index = self._processes[0]
        self._shelf.index.upsert(self._space, [])

    def _switch(self) -> None:
        """Go on in another process that lives at the same time, and knows nothing of what this one did."""
        if len(self._processes) == 1:
            self._processes.append(self._reopen())
        here = self._processes.index(self._shelf.index)
        self._shelf.index = self._processes[1 - here]

    def _vectors(self) -> Vectors:
        group = unit_vectors(1, int(self._rng.integers(4)))
        noise = float(self._rng.choice([0.0, 1e-6, 1e-4, 1e-2]))
        raw = group + noise * self._rng.normal(size=(int(self._rng.integers(1, 4)), DIM))
        vectors: Vectors = (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)
        return vectors

    def _compare(self) -> None:
        query = unit_vectors(1, int(self._rng.integers(6)))[0]
        for where in (EVERYTHING, build_where(env_id="env-2")):
            for count in (1, 5, 100):
                check(self._shelf, self._space, query, top(count, where))
        check(self._shelf, self._space, query, top(7, distinct=False))
