"""Files that were found are in columns, each once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from object_stores import upload

from bridge.episodes import open as opening
from bridge.episodes.found import DiscoveredEpisodes, FoundEpisode, FoundFiles
from bridge.episodes.open import OpenLocations
from wshard.core.episode.protocol import EpisodeAddress, Fingerprint
from wshard.core.files import key_pages

PATHS = st.sampled_from(["s3://lab/a.wshard", "s3://lab/a/b.wshard", "/ü.wshard", "/b\udcff.wshard", "c.wshard"])
KNOWN = st.one_of(st.none(), st.builds(Fingerprint, st.integers(0, 9), st.integers(0, 9)))
ADDED = st.lists(st.tuples(PATHS, st.sampled_from(["", "wshard", "wshard map"]), KNOWN))


@given(ADDED, st.sets(PATHS))
def test_files_are_found_once_as_they_were_added_last(added, chunks):
    files, expected = FoundFiles(), dict[str, FoundEpisode]()
    for path, how, known in added:
        files.add(path, how, known)
        expected[path] = FoundEpisode(EpisodeAddress(path, read_as=how), known)
    files.leave_out(chunks)
    left = [found for path, found in expected.items() if path not in chunks]
    assert DiscoveredEpisodes(files) == left
    assert [*files.paths()] == [found.address.uri for found in left]
    for failed in ({}, {"c.wshard": 1}):
        counts = {how: 0 for how, _ in DiscoveredEpisodes(files).count_places(failed)}
        for found in left:
            if found.address.uri not in failed:
                counts[found.address.read_as] += 1
        assert DiscoveredEpisodes(files).count_places(failed) == {(how, 1): count for how, count in counts.items()}


@pytest.mark.parametrize("most", [1, 1000])
def test_an_episode_exists_in_a_folder_of_many_as_in_one_of_few(most, s3, tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "_MOST_LISTED", most)
    monkeypatch.setattr(key_pages, "_PAGE", most)
    for number in range(4):
        (tmp_path / f"{number}.wshard").write_bytes(b"data")
    uri = upload(s3, tmp_path, "some")
    for name, exists in [("0.wshard", True), ("3.wshard", True), ("4.wshard", False)]:
        with OpenLocations() as locations:
            assert locations.exists(EpisodeAddress(f"{uri}/{name}")) is exists
            assert locations.exists(
                EpisodeAddress(f"{uri}/none/{name}")
            )  # nothing is listed there, which proves nothing
