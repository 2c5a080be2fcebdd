"""Dirty archives: every episode is ingested and found, and the report says once where numbers are odd."""

from __future__ import annotations

import json

import numpy as np
import pytest
from bridge_episodes import command
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge import TrajectoryIngestor, TrajectoryRetriever, open_archive
from wshard import Channel, Episode, save_wshard
from wshard.core.quality.checks import judge
from wshard.core.quality.measure import measure
from wshard.core.quality.thresholds import DEFAULT_THRESHOLDS

COUNT, STEPS = 6, 80
NAMES = ("x", "y", "z")


def clean(number):
    """Return smooth positions and forces of an episode."""
    time = np.arange(STEPS) / 20
    phases = np.random.default_rng(number).uniform(0, 6, (2, 3))
    return {name: np.sin(time[:, None] * [1, 1.7, 2.3] + phases[at]) + 1.2 for at, name in enumerate(("pose", "force"))}


def make_nan(lanes, _):
    lanes["force"][5:8, 1] = np.nan


def make_infinite(lanes, _):
    lanes["force"][9, 2] = np.inf


def make_stand_in(lanes, _):
    lanes["force"][30:34, 0] = -999.0


def make_large_stand_in(lanes, _):
    lanes["force"][30:40, 0] = 1e9


def make_spike(lanes, _):
    lanes["pose"][40, 2] += 300


def make_reset(lanes, _):
    lanes["pose"][0] = -4.0


def make_dead(lanes, _):
    lanes["force"][:, 1] = 0.25


def drop_rows(_, times):
    times[50:] += 5 * 50_000_000


KINDS = {
    make_nan: ("nan", "signal/force[y]"),
    make_infinite: ("infinite", "signal/force[z]"),
    make_stand_in: ("placeholder", "signal/force[x]"),
    make_large_stand_in: ("placeholder", "signal/force[x]"),
    make_spike: ("spike", "signal/pose[z]"),
    make_reset: ("reset", "signal/pose[x]"),
    make_dead: ("constant", "signal/force[y]"),
    drop_rows: ("clock", None),
}


def write(folder, spoil=None, *, everywhere=False):
    folder.mkdir(parents=True)
    for number in range(COUNT):
        lanes, times = clean(number), np.arange(STEPS, dtype=np.int64) * 50_000_000
        if spoil and (everywhere or number < 2):
            spoil(lanes, times)
        observed = {name: Channel.of(name, rows.astype(np.float32), names=NAMES) for name, rows in lanes.items()}
        ep = Episode(f"e{number}", observations=observed, actions={"a": Channel.of("a", lanes["pose"][:, :2] * 2)})
        ep.timestamps_ns = times
        save_wshard(ep, folder / f"{number}.wshard")


@pytest.mark.parametrize("spoil", KINDS)
def test_every_episode_is_ingested_and_found_and_lane_and_kind_are_named_once(tmp_path, spoil):
    write(tmp_path / "data", spoil, everywhere=spoil is make_dead)
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        report = ingestor.ingest(tmp_path / "data")
        again = ingestor.ingest(tmp_path / "data")
    assert (report.new, report.embedded, report.failed, report.unembedded) == (COUNT, COUNT, [], [])
    kind, channel = KINDS[spoil]
    (found,) = [one for one in report.anomalies if one.kind == kind]
    assert found.path == str(tmp_path / "data")
    assert found.channels == (() if channel is None else (channel,))
    assert found.episodes == (COUNT if spoil is make_dead else 2)
    assert again.anomalies == []
    with open_archive(tmp_path / "archive") as archive:
        flags = dict(archive.catalog.query.facets(["flag"])["flag"])
        assert {one.kind: one.episodes for one in report.anomalies if one.flag} == {
            name: count for name, count in flags.items() if name is not None
        }, "what is said is found by a filter of this name"
        assert {one.check for checkup in archive.check() for one in checkup.findings} == flags.keys() - {None}
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        hits = retriever.search_similar_episodes("e0", top_k=COUNT)
    assert {hit.episode_id for hit in hits} == {f"e{number}" for number in range(COUNT)}


def test_a_clean_archive_has_nothing_odd(tmp_path):
    write(tmp_path / "data")
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        assert ingestor.ingest(tmp_path / "data").anomalies == []


def test_the_command_prints_a_line_for_each_location(tmp_path):
    write(tmp_path / "data" / "a", make_nan)
    write(tmp_path / "data" / "b", make_spike)
    done = command("ingest", "data", folder=tmp_path)
    lines = [line for line in done.stderr.splitlines() if line.startswith("flagged (wshard ls --where flag:NAME)")]
    assert [line.rpartition("data/")[2] for line in lines] == [
        "a: nan in 2 episodes (signal/force[y])",
        "b: spike in 2 episodes (signal/pose[z])",
    ]
    (tmp_path / "data" / "a" / "0.wshard").touch()
    (found,) = json.loads(command("ingest", "data/a", "--archive", "b", "--json", folder=tmp_path).stdout)["anomalies"]
    assert (found["kind"], found["episodes"], found["channels"]) == ("nan", 2, ["signal/force[y]"])


@given(st.integers(0, 10**6), st.sampled_from(["noise", "walk", "waves", "switches", "counts"]))
@settings(max_examples=60)
def test_numbers_without_faults_are_not_odd(seed, kind):
    rng = np.random.default_rng(seed)
    length = int(rng.integers(1, 200))
    rows = {
        "noise": lambda: rng.standard_normal((4, length)),
        "walk": lambda: rng.standard_normal((4, length)).cumsum(axis=1),
        "waves": lambda: np.sin(np.arange(length) * rng.uniform(0.01, 1, (4, 1)) + rng.uniform(0, 6, (4, 1))),
        "switches": lambda: (rng.random((4, length)) < 0.1).astype(float),
        "counts": lambda: np.tile(np.arange(length, dtype=float), (4, 1)) + 990,
    }[kind]()
    form, vector = measure({"signal/s": rows.T}, length, np.arange(length))
    (verdict,) = judge(form.read(vector[None]), None, DEFAULT_THRESHOLDS)
    assert verdict.findings == ()
