"""Where outputs speak of a channel they call it by its name, if its lane has one."""

from __future__ import annotations

import json

import pytest
from bridge_episodes import command, opened_archive
from quality_arms import arm

from bridge.episodes.figure import draw_svg
from bridge.episodes.series import read_series
from bridge.results import sketch_hit
from wshard import Channel, Episode, open_wshard, save_wshard

COUNT = 12
NAMES = ["shoulder pan", "shoulder lift", "elbow", "wrist 1", "wrist 2", "wrist 3", "gripper"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Return a folder with an archive of twelve episodes of an arm whose joints are named; number 3 has a spike."""
    folder = tmp_path_factory.mktemp("home")
    for number in range(COUNT):
        lanes, clock = arm(number)
        joints = lanes["signal/joints"]
        joints[64, 3] += 1.5 * (number == 3)
        lane = Channel.of("joints", joints, names=NAMES[: joints.shape[1]], unit="rad")
        action = Channel.of("ctrl", lanes["action/ctrl"])
        ep = Episode(f"arm-{number:02d}", "arm", observations={"joints": lane}, actions={"ctrl": action})
        ep.timestamps_ns = clock
        save_wshard(ep, folder / f"{number:02d}.wshard")
    assert command("ingest", ".", folder=folder).exit_code == 0
    return folder


def test_findings_of_checks_name_the_channel(home):
    with opened_archive(home / ".wshard") as archive:
        (id_,) = archive.catalog.query.ids("flag:spike")
        findings = archive.catalog.checks.findings([id_])[id_]
    assert [one.reason.partition(":")[0] for one in findings] == ["signal/joints[wrist 1]"]


def test_lists_of_lanes_show_names_and_unit(home):
    listed = "shoulder pan, shoulder lift, elbow, wrist 1"
    for verb in ("inspect", "show"):
        output = command(verb, "03.wshard", folder=home).stdout
        assert listed in output, verb
        assert "[rad]" in output, verb
    blocks = json.loads(command("inspect", "03.wshard", "--json", folder=home).stdout)["blocks"]
    (lane,) = [block for block in blocks if block["block"] == "signal/joints"]
    assert (lane["names"][:2], lane["unit"]) == (NAMES[:2], "rad")
    assert all("names" not in block for block in blocks if block is not lane)


def test_headings_of_csv_are_names(home):
    output = command("cat", "03.wshard", "joints", "--span", "0:1", folder=home).stdout
    assert output.startswith("t,shoulder pan,shoulder lift,elbow,wrist 1")
    assert command("cat", "03.wshard", "action/ctrl", folder=home).stdout.startswith("t,0,1")


def test_series_and_drawings_have_names(home):
    with open_wshard(home / "03.wshard") as file:
        series = read_series(file, "joints", (0, 10), points=10, channels=[2, 0])
        assert (series.names, series.unit) == (["elbow", "shoulder pan"], "rad")
        assert read_series(file, "action/ctrl", (0, 10), points=10).names == []
    with opened_archive(home / ".wshard") as archive:
        (row,) = archive.catalog.query.select("flag:spike").rows
        drawn = draw_svg(sketch_hit(archive.episode(row.uid)))
    assert ">elbow</text>" in drawn
    assert " [rad]</text>" in drawn
