"""A file of one episode is replaced by that episode alone, unless another one is meant to replace it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wshard import convert, load, load_wshard, open_sink, save, save_wshard
from wshard.errors import EpisodeError
from wshard.testing import make_episode


def _write(path, episode, mode="append"):
    with open_sink(path, "wshard", mode=mode) as sink:
        sink.write(episode)


def test_another_episode_replaces_a_file_only_if_it_is_meant_to(tmp_path):
    path, one = tmp_path / "one.wshard", replace(make_episode(1), id="one")
    other = replace(make_episode(2), id="other")
    _write(path, one)
    before = path.read_bytes()
    with pytest.raises(EpisodeError, match="'other': expected a new file or one of this episode, found 'one' there"):
        _write(path, other)
    assert path.read_bytes() == before
    _write(path, replace(one, metadata={"taken": "again"}))
    assert load_wshard(path).metadata["taken"] == "again"
    _write(path, other, mode="overwrite")
    assert load_wshard(path).id == "other"


def test_a_file_that_cannot_be_read_any_more_is_replaced(tmp_path):
    path, one = tmp_path / "one.wshard", replace(make_episode(1), id="one")
    save_wshard(replace(make_episode(2), id="other"), path)
    path.write_bytes(path.read_bytes()[:100])
    _write(path, one)
    assert load_wshard(path).id == "one"


@pytest.mark.parametrize("suffix", ["wshard", "npz"])
def test_saving_and_converting_one_episode_replaces_a_file(tmp_path, suffix):
    path, source = tmp_path / f"one.{suffix}", tmp_path / "source.wshard"
    one, other = replace(make_episode(1), id="one"), replace(make_episode(2), id="other")
    save(one, path)
    save(other, path)
    assert load(path).length == other.length
    save_wshard(replace(make_episode(2), id="third"), source)
    assert convert(source, path).id == "third"
    assert {one.name for one in tmp_path.iterdir()} == {path.name, source.name}
