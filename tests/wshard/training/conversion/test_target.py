"""Where converted episodes go."""

from __future__ import annotations

import pytest

from wshard import FormatError, load, save, save_wshard
from wshard.formats.open import open_location
from wshard.testing import make_episode
from wshard.training.conversion.jobs import list_jobs
from wshard.training.conversion.run import Conversion
from wshard.training.conversion.target import ConversionTarget


@pytest.mark.parametrize("name", ["wshard", "robomimic"])
def test_a_missing_folder_of_the_target_is_named(tmp_path, name):
    save_wshard(make_episode(), tmp_path / "ep.wshard")
    target = tmp_path / "none" / "out"
    jobs = list_jobs([str(tmp_path / "ep.wshard")])
    with (
        pytest.raises(FileNotFoundError, match=rf"there is no folder {target.parent}") as raised,
        Conversion(ConversionTarget(str(target), name), jobs) as conversion,
    ):
        list(conversion.run())
    assert raised.value.filename == str(target)
    with pytest.raises(FileNotFoundError, match=rf"there is no folder {target.parent}"):
        save_wshard(make_episode(), target.with_suffix(".wshard"))


def test_episodes_are_not_written_twice_into_a_set_without_ids_unless_that_is_stated(tmp_path):
    save_wshard(make_episode(), tmp_path / "ep.wshard")
    jobs = list_jobs([str(tmp_path / "ep.wshard")])

    def convert(mode=None):
        target = ConversionTarget.of(tmp_path / "set", "folder", mode=mode)
        target.prepare(1)
        with Conversion(target, jobs) as conversion:
            list(conversion.run())
        with open_location(target.location) as source:
            return len(list(source.keys()))

    (tmp_path / "set").mkdir()
    assert convert() == 1
    with pytest.raises(FormatError, match="has episodes, and folder stores no ids"):
        convert()
    assert [convert("append"), convert("overwrite")] == [2, 1]


def test_a_name_of_a_lance_table_states_its_format(tmp_path):
    save_wshard(make_episode(), tmp_path / "ep.wshard")
    jobs = list_jobs([str(tmp_path / "ep.wshard")])
    for name in ("empty.lance", "other.lance"):
        (tmp_path / name).mkdir()
    (tmp_path / "other.lance" / "notes.txt").write_text("own")
    for name in ("new.lance", "empty.lance"):
        target = ConversionTarget.of(tmp_path / name, None)
        assert target.format == "lance"
        target.prepare(1)
        with Conversion(target, jobs) as conversion:
            list(conversion.run())
        with open_location(target.location) as source:
            assert len(source.keys()) == 1
    save(make_episode(), tmp_path / "saved.lance")
    assert load(tmp_path / "saved.lance").length == make_episode().length
    target = ConversionTarget.of(tmp_path / "other.lance", None)
    with (
        pytest.raises(
            FormatError, match=r"expected an empty or new folder, or a data set of this format, found 'notes"
        ),
        Conversion(target, jobs) as conversion,
    ):
        list(conversion.run())
    assert (tmp_path / "other.lance" / "notes.txt").read_text() == "own"
