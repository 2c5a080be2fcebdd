"""What Sinks must do when several write to one place at the same moment, as test classes."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from wshard.errors import EpisodeError, WShardError
from wshard.formats.base import open_sink
from wshard.testing import make_episode

if TYPE_CHECKING:
    from pathlib import Path

    from wshard.core.container.draft import WriteMode
    from wshard.core.types import Episode
    from wshard.formats.sink_base import Sink
    from wshard.formats.source_base import Source

_WRITERS: Final = (1, 2, 3)


class RacingFilesContract:
    """The test of SinkContract about writers that add the same ids to a folder: one wins, the others are told."""

    def open_sink(self, location: Path) -> Sink:
        """Return a Sink of a folder."""
        raise NotImplementedError

    def open_source(self, location: Path) -> Source:
        """Return a Source of what the Sink wrote."""
        raise NotImplementedError

    def test_of_writers_that_add_an_id_at_one_moment_one_wins_and_the_others_name_it(self, tmp_path: Path) -> None:
        ids = [f"ep-{number}" for number in range(4)]
        together, refusals = threading.Barrier(len(_WRITERS), timeout=10), list[tuple[str, str]]()

        def write(number: int) -> dict[str, str]:
            """Return the key of each id that was written."""
            keys = {}
            with self.open_sink(tmp_path) as sink:
                for id_ in ids:
                    ep = replace(make_episode(0, T=4 + number), id=id_)
                    together.wait()
                    try:
                        keys[id_] = sink.write(ep)
                    except EpisodeError as error:
                        refusals.append((id_, str(error)))
            return keys

        with ThreadPoolExecutor(len(_WRITERS)) as pool:
            won = list(pool.map(write, _WRITERS))
        assert sorted(id_ for keys in won for id_ in keys) == ids
        assert all(repr(id_) in text for id_, text in refusals)
        with self.open_source(tmp_path) as source:
            assert len(source.keys()) == len(ids)
            for number, keys in zip(_WRITERS, won, strict=True):
                assert [source.load(key).length for key in keys.values()] == [4 + number] * len(keys)
        assert len(list(tmp_path.iterdir())) == len(ids)


class RacingContract:
    """The tests of CollectionSinkContract about writers that began with the same set: one wins, the others are told."""

    name = ""
    place = "set"

    def make(self, number: int) -> Episode:
        """Return an episode that the format can hold, another one for each number."""
        raise NotImplementedError

    def _write(self, folder: Path, *numbers: int, mode: WriteMode = "append") -> list[str]:
        raise NotImplementedError

    def _assert_there(self, folder: Path, *numbers: int) -> None:
        raise NotImplementedError

    @pytest.mark.parametrize("before", [(), (0,)])
    def test_of_writers_at_one_moment_one_wins_and_the_others_are_refused(
        self, tmp_path: Path, before: tuple[int, ...]
    ) -> None:
        if before:
            self._write(tmp_path, *before)
        opened, written = (threading.Barrier(len(_WRITERS), timeout=10) for _ in range(2))

        def write(number: int) -> bool:
            try:
                with open_sink(tmp_path / self.place, self.name) as sink:
                    opened.wait()
                    sink.write(self.make(number))
                    with contextlib.suppress(threading.BrokenBarrierError):
                        written.wait()
            except (WShardError, FileExistsError, threading.BrokenBarrierError):  # broken: the other's error is raised
                return False
            except BaseException:
                opened.abort()
                raise
            finally:
                written.abort()  # a Sink may refuse before: the others need not wait for it
            return True

        with ThreadPoolExecutor(len(_WRITERS)) as pool:
            won = [number for number, has_won in zip(_WRITERS, pool.map(write, _WRITERS), strict=True) if has_won]
        assert len(won) == 1, won
        self._assert_there(tmp_path, *before, *won)
        assert [path.name for path in tmp_path.iterdir()] == [self.place]
