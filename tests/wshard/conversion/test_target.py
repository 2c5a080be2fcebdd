"""Where converted episodes go."""

from __future__ import annotations

import pytest

from wshard.conversion.jobs import list_jobs
from wshard.conversion.run import Conversion
from wshard.conversion.target import ConversionTarget
from wshard.episode.file import save_wshard
from wshard.testing import make_episode


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
