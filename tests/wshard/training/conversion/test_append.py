"""Mode "append" of conversions, for every format that stores ids: episodes are recognized by data, not by id."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sink_places import COLLECTIONS, make_episode

from wshard import Channel, detect_format, open_source, save_wshard
from wshard.training.conversion.jobs import list_jobs
from wshard.training.conversion.run import Conversion
from wshard.training.conversion.target import ConversionTarget

WITHOUT_IDS = ("hdf5", "folder", "lance", "video", "lance_video")
PLACES = {name: place for name, place in COLLECTIONS.items() if name not in WITHOUT_IDS}
PLACES |= {"wshard": "set", "dreamerv3": "set"}


def convert(sources, place, name, readers=1, encode=None):
    """Convert; return the outcomes, and the ids of renamed episodes."""
    target = ConversionTarget(str(place), name, encode=encode)
    jobs = list_jobs(sources)
    target.prepare(len(jobs))
    with Conversion(target, jobs, readers=readers) as conversion:
        done = list(conversion.run())
    return [outcome for _, outcome in done], [job.written_as for job, _ in done if job.written_as]


def write_episodes(folder, seeds):
    """Write episodes of the ids episode-0, episode-1 and so on."""
    folder.mkdir(parents=True)
    for number, seed in enumerate(seeds):
        save_wshard(replace(make_episode(seed), id=f"episode-{number}"), folder / f"{number}.wshard")
    return folder


def read_states(place, name):
    with open_source(place, detect_format(place) or name) as source:
        return [np.asarray(source.load(key).observations["state"].data) for key in source.keys()]  # noqa: SIM118


@pytest.mark.parametrize("name", PLACES)
def test_another_set_with_the_same_ids_is_added(tmp_path, name):
    (tmp_path / "out").mkdir()
    place = tmp_path / "out" / PLACES[name]
    first, second = write_episodes(tmp_path / "a", (0, 1)), write_episodes(tmp_path / "b", (2, 3))
    assert convert([first], place, name) == ([4, 5], [])
    assert convert([first], place, name) == ([None, None], [])
    outcomes, renamed = convert([second], place, name)
    assert (outcomes, len({*renamed})) == ([6, 7], 2)
    assert all("episode-" in id_ for id_ in renamed)
    assert convert([second], place, name) == ([None, None], [])
    assert convert([first], place, name) == ([None, None], [])
    expected = [make_episode(seed).observations["state"].data for seed in range(4)]
    found = sorted(read_states(place, name), key=len)
    assert all(np.allclose(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("readers", [1, 3])
def test_locations_of_one_name_and_the_same_episode_twice(tmp_path, readers):
    folders = [write_episodes(tmp_path / side / "a", seeds) for side, seeds in (("x", (0, 1)), ("y", (1, 0)))]
    place = tmp_path / "out.shardpack"
    assert convert([*folders, folders[0]], place, "shardpack", readers=readers) == (
        [4, 5, 5, 4, None, None],
        ["a-episode-0-2", "a-episode-1-2"],
    )


def test_frames_and_values_that_differ_are_another_episode(tmp_path):
    folder, place = write_episodes(tmp_path / "a", (0,)), tmp_path / "out"
    assert convert([folder], place, "lerobot", encode="png") == ([4], [])
    ep = make_episode(0)
    dark = replace(
        ep,
        id="episode-0",
        observations=ep.observations | {"cam": Channel.of("cam", np.zeros((4, 16, 16, 3), np.uint8))},
    )
    save_wshard(dark, folder / "0.wshard")
    assert convert([folder], place, "lerobot", encode="png") == ([4], ["a-episode-0"])
    changed = ep.observations["state"].data.copy()
    changed[2, 1] = np.nan
    glitched = replace(ep, id="episode-0", observations=ep.observations | {"state": Channel.of("state", changed)})
    save_wshard(glitched, folder / "0.wshard")
    assert convert([folder], place, "lerobot", encode="png") == ([4], ["a-episode-0-2"])
    assert convert([folder], place, "lerobot", encode="png") == ([None], [])
