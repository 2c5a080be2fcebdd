"""Where an episode is: addresses, schemes, formats that are detected, and locations of many episodes."""

from __future__ import annotations

import json
import os
import pickle
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonl_source import SUFFIX, JsonlSource, announce, some_episodes, what_a_line_holds, write_lines
from typer.testing import CliRunner

from wshard import (
    ChunkedEpisodeWriter,
    Episode,
    EpisodeAddress,
    Format,
    FormatError,
    WShardError,
    detect_format,
    list_episodes,
    load,
    open_episode,
    save_dreamer,
    save_wshard,
)
from wshard.cli.files import app
from wshard.core.episode.protocol import EpisodeSpan, Fingerprint
from wshard.core.files.schemes import SCHEMES
from wshard.errors import EntryNotFoundError, StepError, UnknownSchemeError
from wshard.formats.contract import EpisodeReaderContract, SourceContract
from wshard.formats.open import open_location
from wshard.testing import assert_same_episode, make_episode

if TYPE_CHECKING:
    from pathlib import Path

# ---- addresses ------------------------------------------------------------------------------------------------------


@given(uri=st.text(st.characters(exclude_characters="#\0", codec="utf-8"), min_size=1), key=st.text())
def test_an_address_comes_back_from_its_text(uri, key):
    address = EpisodeAddress(uri, key)
    assert EpisodeAddress.parse(str(address)) == address
    assert hash(EpisodeAddress.parse(str(address))) == hash(address)


def test_a_path_that_exists_wins_over_a_key(tmp_path):
    (tmp_path / "run#2").mkdir()
    for name in ("run#2/a#b.wshard", "run#2/a", "plain.wshard"):
        (tmp_path / name).write_text("x")
    for text, uri, key in (
        ("run#2/a#b.wshard", "run#2/a#b.wshard", ""),
        ("run#2/a#b.wshard#k#1", "run#2/a#b.wshard", "k#1"),
        ("run#2/a#c", "run#2/a", "c"),
        ("run#2#c", "run#2", "c"),
        ("plain.wshard", "plain.wshard", ""),
        ("plain.wshard#x", "plain.wshard", "x"),
        ("gone#2#c", "gone", "2#c"),
        ("s3://bucket/data#c", "s3://bucket/data", "c"),
    ):
        root = "" if "://" in text else f"{tmp_path}/"
        assert EpisodeAddress.parse(f"{root}{text}") == EpisodeAddress(f"{root}{uri}", key)


def test_a_span_stands_after_the_address(tmp_path):
    path = tmp_path / "odd@1:2"
    path.write_text("x")
    for text, expected in (
        ("a.jsonl#k@3:9", EpisodeSpan(EpisodeAddress("a.jsonl", "k"), 3, 9)),
        ("a.wshard@3:", EpisodeSpan(EpisodeAddress("a.wshard"), 3)),
        ("a.wshard@:9", EpisodeSpan(EpisodeAddress("a.wshard"), 0, 9)),
        ("a.jsonl#me@home", EpisodeSpan(EpisodeAddress("a.jsonl", "me@home"))),
        ("a.jsonl#me@home@1:2", EpisodeSpan(EpisodeAddress("a.jsonl", "me@home"), 1, 2)),
        (str(path), EpisodeSpan(EpisodeAddress(str(path)))),
        (f"{path}@3:4", EpisodeSpan(EpisodeAddress(str(path)), 3, 4)),
    ):
        assert EpisodeSpan.parse(text) == expected
    with pytest.raises(StepError, match="0 or more, counted from the first"):
        EpisodeSpan.parse("a.wshard@-9:")


# ---- schemes --------------------------------------------------------------------------------------------------------


def test_schemes_lead_to_files_and_unknown_ones_are_refused(tmp_path):
    save_wshard(make_episode(), tmp_path / "a#b c.wshard")
    uri = (tmp_path / "a#b c.wshard").as_uri()
    for place in (uri, EpisodeAddress(uri), tmp_path / "a#b c.wshard", str(tmp_path / "a#b c.wshard")):
        with open_episode(place) as file:
            assert file.id == make_episode().id
    assert [address for address, _ in list_episodes(uri)] == [EpisodeAddress(uri)]
    known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
    for ask in (open_episode, open_location, list_episodes):
        with pytest.raises(UnknownSchemeError, match=rf"scheme {known}, found 'nfs9://bucket/a'"):
            ask("nfs9://bucket/a")
        with pytest.raises(ValueError, match="without user, password") as caught:
            ask("hf://user:secret@host/a")
        assert isinstance(caught.value, WShardError)
        assert "secret" not in str(caught.value)


# ---- formats of this package ----------------------------------------------------------------------------------------


def test_episodes_of_this_project_are_locations_of_one_episode(tmp_path):
    save_wshard(make_episode(), tmp_path / "a.wshard")
    writer = ChunkedEpisodeWriter(tmp_path, "long", 7)
    chunks = writer.write_episode_chunked(make_episode())
    manifest = writer.finalize_manifest()
    assert [*list_episodes(tmp_path / "a.wshard")] == [
        (EpisodeAddress(str(tmp_path / "a.wshard")), Fingerprint.of(tmp_path / "a.wshard"))
    ]
    ((address, fingerprint),) = list_episodes(str(manifest))
    assert fingerprint.size == sum(path.stat().st_size for path in (manifest, *chunks))
    chunks[1].unlink()
    assert list_episodes(str(manifest))[0][1].size < fingerprint.size  # opening it tells what is missing
    assert address == EpisodeAddress(str(manifest))
    with pytest.raises(EntryNotFoundError, match="no episode 'k'; it has one episode, without a key"):
        open_episode(EpisodeAddress(str(tmp_path / "a.wshard"), "k"))


def test_a_missing_file_is_said_to_be_missing_whatever_its_name(tmp_path):
    for name in ("none", "none.csv", "none.mcap", "none.wshard"):
        with pytest.raises(FileNotFoundError, match=r"(?i)no such file") as missing:
            load(tmp_path / name)
        assert "layout guess" not in str(missing.value)


def test_a_folder_of_episode_files_is_not_a_location_but_one_of_replay_files_is(tmp_path):
    save_wshard(make_episode(), tmp_path / "a.wshard")
    assert detect_format(tmp_path) is Format.UNKNOWN
    for ask in (open_location, list_episodes):
        with pytest.raises(
            FormatError,
            match=r"it has a.wshard \(wshard\): name one, such as .*a.wshard, or the",
        ):
            ask(tmp_path)
        with pytest.raises(FileNotFoundError):
            ask(tmp_path / "nowhere")
    assert [address.key for address, _ in list_episodes(tmp_path, "wshard")] == ["a.wshard"]
    replay = tmp_path / "replay"
    replay.mkdir()
    np.savez(replay / "weights.npz", w=np.zeros(3))
    assert detect_format(replay) is Format.UNKNOWN
    (replay / "weights.npz").unlink()
    save_dreamer(make_episode(), replay / "e.npz")
    assert detect_format(replay) is Format.DREAMER_V3
    ((address, fingerprint),) = list_episodes(str(replay))
    assert (address, fingerprint) == (EpisodeAddress(str(replay), "e"), Fingerprint.of(replay / "e.npz"))
    with (
        open_episode(address) as by_address,
        open_episode(str(address)) as by_text,
        open_episode(replay / "e.npz") as one,
    ):
        assert by_address.digest() == by_text.digest() == one.digest()
        assert by_address.where == f"{replay}#e"
        assert by_address.load().source_format == by_address.slice(0, 3).source_format == Format.DREAMER_V3


def test_the_command_line_takes_an_address(tmp_path):
    save_dreamer(make_episode(T=4), tmp_path / "e.npz")
    found = CliRunner().invoke(app, ["cat", f"{tmp_path}#e", "joint_pos", "--format", "json", "--span", "1:3"])
    assert found.exit_code == 0, found.output
    expected = make_episode(T=4).observations["joint_pos"].data[1:3]
    assert np.array_equal(np.float32(json.loads(found.stdout)["values"]), expected)


# ---- a format of another package ------------------------------------------------------------------------------------


@pytest.fixture
def announced(tmp_path, monkeypatch):
    announce(tmp_path / "site", monkeypatch)


class TestJsonlSource(SourceContract):
    def make(self, tmp_path: Path):
        episodes = [replace(make_episode(seed), id=f"e{seed}") for seed in range(3)]
        return JsonlSource(write_lines(tmp_path / "e.jsonl", episodes)), {
            ep.id: what_a_line_holds(ep) for ep in episodes
        }


class TestJsonlReader(EpisodeReaderContract):
    def open_reader(self, ep: Episode, folder: Path):
        return JsonlSource(write_lines(folder / "e.jsonl", [ep])).open(ep.id)

    def expect(self, ep: Episode) -> Episode:
        return what_a_line_holds(ep)


@pytest.mark.long
def test_a_thousand_episodes_of_another_packages_format_are_listed_and_opened(tmp_path, announced):
    path = write_lines(tmp_path / f"many{SUFFIX}", some_episodes(1000))
    assert detect_format(path) == "jsonl"
    listed = dict(list_episodes(str(path)))
    assert [address.key for address in listed] == [f"line-{number:04d}" for number in range(1000)]
    assert {address.uri for address in listed} == {str(path)}
    expected = what_a_line_holds(replace(make_episode(617, T=8), id="line-0617"))
    with open_episode(EpisodeAddress(str(path), "line-0617")) as file:
        assert_same_episode(file.load(), expected)
    with open_episode(f"{path}#line-0617") as file, open_location(path) as source:
        assert file.digest() == source.open("line-0617").digest() != source.open("line-0618").digest()
        assert pickle.loads(pickle.dumps(source)).keys() == source.keys()  # noqa: S301  (our own)
    with pytest.raises(EntryNotFoundError, match="no episode 'line-1000'; it has 1000"):
        open_episode(f"{path}#line-1000")
    write_lines(path, [replace(make_episode(), id="line-1000")])
    os.utime(path, ns=(0, next(iter(listed.values())).mtime_ns + 1))
    again = dict(list_episodes(str(path)))
    assert len(again) == 1001
    assert all(again[address].size == before.size and again[address] != before for address, before in listed.items())


def test_thousands_of_episodes_are_listed_at_once(tmp_path, announced):
    path = tmp_path / f"many{SUFFIX}"
    path.write_text("".join(f'{{"id": "{number}", "lanes": {{}}}}\n' for number in range(20_000)))
    begin = time.thread_time()
    assert len(list_episodes(path)) == 20_000
    assert time.thread_time() - begin < 2


def test_formats_of_this_package_cannot_be_taken_over(tmp_path, monkeypatch):
    (tmp_path / "greedy_format.py").write_text(
        "from jsonl_source import JsonlSource\n"
        "class Greedy(JsonlSource):\n"
        "    @staticmethod\n"
        "    def matches(location): return True\n"
    )
    announce(tmp_path / "site", monkeypatch, "greedy_format:Greedy")
    monkeypatch.syspath_prepend(str(tmp_path))
    save_wshard(make_episode(), tmp_path / "a.wshard")
    (tmp_path / "b.h5").write_bytes(b"\x89HDF and more")
    assert detect_format(tmp_path / "a.wshard") == "wshard"
    assert detect_format(tmp_path / "b.h5") == "jsonl"  # of which this package knows the name only


def test_a_format_that_cannot_be_imported_hides_no_other(tmp_path, monkeypatch):
    announce(tmp_path / "site", monkeypatch, "a_module_that_nobody_has:Source")
    assert detect_format(tmp_path / "a.txt") is Format.UNKNOWN
    with pytest.raises(ImportError, match=r"a_module_that_nobody_has.*install"):
        open_location(tmp_path, "jsonl")
