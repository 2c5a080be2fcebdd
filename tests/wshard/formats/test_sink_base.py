"""Everything that callers ask of a Sink is declared; a class of another package has the defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from wshard import open_sink
from wshard.core.plugins import load_plugin
from wshard.errors import UnknownFormatError
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
