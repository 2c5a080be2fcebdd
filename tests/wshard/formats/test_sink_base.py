"""Everything that callers ask of a Sink is declared; a class of another package has the defaults."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from wshard import open_episode, open_sink
from wshard.core.plugins import load_plugin
from wshard.errors import EpisodeError, UnknownFormatError
from wshard.formats.base import sink_class
from wshard.formats.sink_base import Sink, SinkBase
from wshard.formats.source_base import SourceBase
from wshard.formats.table import FORMATS
from wshard.testing import make_episode


class NotesSink:
    """Writes the ids of episodes to a file, and states nothing else."""

    def __init__(self, location, *, compression: str = "none", mode: str = "append") -> None:
        self.path, self.options = Path(location), (compression, mode)

    def write(self, ep) -> str:
        with self.path.open("a") as file:
            file.write(f"{ep.id} {ep.metadata.get('robot')}\n")
        return ep.id


def make_notes(location, **options: str) -> NotesSink:
    return NotesSink(location, **options)


def test_a_class_of_another_package_has_the_defaults_and_its_own_members(tmp_path):
    name = f"{__name__}:NotesSink"
    cls = sink_class(name)
    found = cls.one_per_file, cls.copies_all, cls.numbers_episodes, cls.cannot_hold
    assert found == (False, False, False, ())
    (tmp_path / "sub").mkdir()
    for path in ("a", "sub/b"):
        (tmp_path / path).touch()
    assert sorted(cls.owned(tmp_path)) == ["a", "sub/b"]
    ep = make_episode()
    with open_sink(tmp_path / "notes", name, mode="overwrite") as sink:
        assert isinstance(sink, (Sink, NotesSink))
        assert (sink.has(ep.id), sink.losses(None), sink.options) == (False, [], ("none", "overwrite"))
        assert [sink.write(ep), sink.write_stated(ep, {"robot": "arm"})] == [ep.id, ep.id]
    assert (tmp_path / "notes").read_text().splitlines()[1] == f"{ep.id} arm"


def test_what_is_no_class_is_refused(tmp_path):
    with pytest.raises(UnknownFormatError, match="expected a class, found"):
        open_sink(tmp_path / "notes", f"{__name__}:make_notes")


@pytest.mark.parametrize("name", FORMATS)
def test_formats_of_this_package_derive_from_the_bases(name):
    entry = FORMATS[name]
    for target, base in ((entry.source, SourceBase), (entry.sink, SinkBase)):
        assert not target or issubclass(load_plugin(target, name, unknown=UnknownFormatError), base)


@pytest.mark.parametrize("name", ["wshard", "dreamerv3"])
def test_of_writers_that_add_one_id_at_one_moment_one_wins_and_the_others_name_it(tmp_path, name):
    lengths, ids = (5, 6, 7, 8), [f"ep-{number}" for number in range(6)]
    together = threading.Barrier(len(lengths))

    def write(length):
        won, refused = [], []
        with open_sink(tmp_path, name) as sink:
            for id_ in ids:
                ep = replace(make_episode(0, T=length), id=id_)
                together.wait()
                try:
                    sink.write(ep)
                    won.append(id_)
                except EpisodeError as error:
                    refused.append(str(error))
        return won, refused

    with ThreadPoolExecutor(len(lengths)) as pool:
        found = list(pool.map(write, lengths))
    assert sorted(id_ for won, _ in found for id_ in won) == ids
    for (won, refused), length in zip(found, lengths, strict=True):
        assert [next(id_ for id_ in ids if repr(id_) in text) for text in refused] == [i for i in ids if i not in won]
        for id_ in won:
            (path,) = tmp_path.glob(f"{id_}.*")
            with open_episode(path) as episode:
                assert episode.length == length
    assert len(list(tmp_path.iterdir())) == len(ids)
