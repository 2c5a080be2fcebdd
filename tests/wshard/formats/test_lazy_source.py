"""Sources that read lanes on demand, by a format that this file makes: a folder of JSON with a .npy file a lane."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from wshard import DType, TimebaseSpec
from wshard.core.episode.info import EpisodeInfo
from wshard.core.episode.lanes import DONE, REWARD
from wshard.core.episode.meta_reader import Declaration
from wshard.errors import ClosedError, EntryNotFoundError, StaleEpisodeError, StepError
from wshard.formats.contract import EpisodeReaderContract, SourceContract
from wshard.formats.lazy_source import LazySource
from wshard.testing import make_episode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard import Episode
    from wshard.types import Array


class _File:
    """An open .npy file that counts what is open."""

    open_now = 0

    def __init__(self, path: Path) -> None:
        self.array = np.load(path, mmap_mode="r")
        _File.open_now += 1

    def close(self) -> None:
        _File.open_now -= 1


class NpyFolderSource(LazySource["Path"]):
    """A folder with a folder an episode."""

    def _scan(self) -> Mapping[str, Path]:
        return {path.name: path for path in sorted(Path(self._place.local_path()).iterdir())}

    def _files(self, ref: Path) -> list[Path]:
        return sorted(ref.iterdir())

    def _describe(self, key: str, ref: Path) -> EpisodeInfo:
        about = json.loads((ref / "about.json").read_text())
        lanes = {row[0]: Declaration(row[0], DType(row[1]), tuple(row[2])) for row in about["lanes"]}
        clock = TimebaseSpec(tick_hz=about["hz"])
        return EpisodeInfo(about["id"], about["length"], lanes, about["env"], clock, about["metadata"])

    def _read(self, ref: Path, info: EpisodeInfo, block: str, steps: slice) -> Array:
        path = ref / f"{block.replace('/', '__')}.npy"
        return np.array(self.open_once(str(path), lambda: _File(path)).array[steps])


def write(ep: Episode, folder: Path) -> None:
    """Write an episode as that format has it."""
    lanes: dict[str, Any] = {block: channel.data for block, channel in ep.lanes().items()}
    lanes |= {REWARD: ep.rewards, DONE: ep.terminations}
    arrays = {block: np.asarray(data) for block, data in lanes.items() if data is not None}
    folder.mkdir()
    for block, data in arrays.items():
        np.save(folder / f"{block.replace('/', '__')}.npy", data)
    rows = [[block, DType.from_numpy(data.dtype).value, data.shape[1:]] for block, data in arrays.items()]
    about = {"id": ep.id, "env": ep.env_id, "length": ep.length, "hz": ep.timebase.tick_hz, "lanes": rows}
    (folder / "about.json").write_text(json.dumps(about | {"metadata": ep.metadata}))


def plain(ep: Episode) -> Episode:
    """Return what of an episode the format holds."""
    bare = replace(ep, omens={}, uncerts={}, residuals={}, ticks=None, truncations=None, timestamps_ns=None, blocks={})
    for channel in bare.lanes().values():
        channel.modality, channel.semantics, channel.content_type, channel.sampling_rate_hz = None, "", None, None
    return bare


class TestNpyFolderSource(SourceContract):
    def make(self, tmp_path: Path) -> tuple[NpyFolderSource, Mapping[str, Episode]]:
        episodes = {f"{number}": plain(make_episode(number)) for number in range(3)}
        for key, ep in episodes.items():
            write(ep, tmp_path / key)
        return NpyFolderSource(tmp_path), episodes


class TestNpyFolderReader(EpisodeReaderContract):
    def open_reader(self, ep: Episode, folder: Path):
        write(plain(ep), folder / "0")
        return NpyFolderSource(folder).open("0")

    def expect(self, ep: Episode) -> Episode:
        return plain(ep)


@pytest.fixture
def source(tmp_path):
    for number in range(3):
        write(plain(make_episode(number)), tmp_path / str(number))
    return NpyFolderSource(tmp_path)


def test_a_description_reads_no_data_and_a_span_reads_one_lane(source):
    before = _File.open_now
    info = source.info("1")
    assert (info.id, info.length) == (make_episode(1).id, make_episode(1).length)
    assert _File.open_now == before
    name = next(iter(info.lanes))
    expected = make_episode(1).lanes()[name].data[3:5]
    assert np.array_equal(source.lane("1", name, 3, 5), expected)
    assert _File.open_now == before + 1
    source.close()
    assert _File.open_now == before


def test_files_are_closed_with_the_last_episode(source):
    before = _File.open_now
    reader = source.open("0")
    source.close()
    reader.load()
    assert _File.open_now > before
    reader.close()
    reader.close()
    assert _File.open_now == before
    with pytest.raises(ClosedError):
        reader.load()


def test_fewer_timesteps_than_when_a_location_was_read_are_a_change_of_the_file(source, tmp_path):
    reader = source.open("0")
    write(plain(make_episode(0, T=3)), tmp_path / "new")
    for file in (tmp_path / "new").glob("*.npy"):
        file.replace(tmp_path / "0" / file.name)
    with pytest.raises(StaleEpisodeError, match=r"block 'action/.*: expected timesteps 1 to 5, found 2 of them"):
        reader.lane_view("action/ctrl")[1:5]
    assert reader.lane_view("action/ctrl")[0:3].shape[0] == 3


def test_of_many_files_the_longest_unused_are_closed(tmp_path):
    for number in range(20):
        write(plain(make_episode(number)), tmp_path / str(number))
    before = _File.open_now
    with NpyFolderSource(tmp_path) as source:
        for key in source.keys():  # noqa: SIM118  (a Source is no mapping)
            source.load(key)
        assert _File.open_now == before + 32
    assert _File.open_now == before


def test_wrong_lanes_and_spans_are_refused(source):
    name = next(iter(source.info("0").lanes))
    with pytest.raises(EntryNotFoundError, match="no lane 'signal/none'; it has"):
        source.lane("0", "signal/none")
    for start, stop in ((-1, 2), (3, 2), (0, 10_000)):
        with pytest.raises(StepError, match="expected 0 <= start"):
            source.lane("0", name, start, stop)


def _load_in_child(source: NpyFolderSource) -> int:
    return source.load("2").length


@pytest.mark.filterwarnings("ignore:lance is not fork-safe")  # other tests import it
def test_a_forked_process_opens_its_own_files(source):
    source.load("2")
    with get_context("fork").Pool(1) as pool:
        assert pool.apply(_load_in_child, (source,)) == make_episode(2).length
    assert pickle.loads(pickle.dumps(source)).load("0").length == make_episode(0).length  # noqa: S301  (our own)
