"""Quality checks over an archive: what ingest and `wshard check` find, keep, replace and tell."""

# ruff: noqa: ANN002, ANN003 -- fields of episodes and words of commands

from __future__ import annotations

import json
import os
import weakref
from pathlib import Path

import numpy as np
import pytest
from bridge_episodes import command, counts, files, ingest, opened_archive, save
from databases import SQLITE_ALONE, SQLITE_FIRST
from quality_arms import PERIOD_NS, arm
from topic_logs import robot_messages, write_ros2

import bridge.quality.check
import bridge.quality.judge
import bridge.support.batches
import catalog.database.sqlite
from bridge import check_episodes
from bridge.quality.judge import Checker
from catalog.curation.checks_api import CheckResults
from wshard import (
    Channel,
    Episode,
    Thresholds,
    TrajectoryIngestor,
    TrajectoryRetriever,
    open_archive,
    open_wshard,
    save_wshard,
)
from wshard.core.quality.baseline import MAX_EPISODES
from wshard.core.quality.measure_vector import VERSION
from wshard.errors import NotEmbeddedWarning

COUNT = 12


def episode(number, *, change=None, times=None, env_id="arm", **observed):
    lanes, clock = arm(number)
    joints = lanes["signal/joints"]
    if change:
        change(joints)
    seen = {"joints": Channel.of("joints", joints)} | {name: Channel.of(name, rows) for name, rows in observed.items()}
    return Episode(
        id=f"arm-{number:02d}",
        env_id=env_id,
        length=len(joints),
        observations=seen,
        actions={"ctrl": Channel.of("ctrl", lanes["action/ctrl"])},
        timestamps_ns=clock if times is None else times(clock),
    )


def spike(joints):
    joints[64, 3] += 1.5


def jump_back(clock):
    return clock - (np.arange(len(clock)) >= 30) * 5 * PERIOD_NS


@pytest.fixture
def folder(tmp_path):
    """Return a folder with twelve episodes of an arm: a spike in number 3, a clock that jumps back in number 7."""
    changes = {3: {"change": spike}, 7: {"times": jump_back}}
    save(tmp_path / "data", *(episode(n, **changes.get(n, {})) for n in range(COUNT)))
    return tmp_path / "data"


@pytest.fixture
def archive(place):
    return place


def flags(archive):
    """Return what was found, by episode id."""
    with opened_archive(archive) as opened:
        rows = opened.catalog.episodes.rows(opened.catalog.query.ids())
        found = opened.catalog.checks.findings(list(rows))
        message = {rows[id_].episode_id: {one.check: one.reason for one in some} for id_, some in found.items()}
        return dict(sorted(message.items()))


def damage(path, lane="signal/joints"):
    """Change one byte of a lane, and nothing that a stat would tell."""
    times = path.stat().st_mtime_ns
    with open_wshard(path) as file:
        place = file.shard.entry(lane).data_offset
    data = bytearray(path.read_bytes())
    data[place + 5] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(times, times))


@SQLITE_FIRST
def test_ingest_finds_faults_and_says_where(archive, folder):
    report = ingest(archive, folder)
    assert counts(report) == {"new": COUNT, "embedded": COUNT, "flagged": 2}
    assert report.ok
    found = flags(archive)
    assert {name: list(reasons) for name, reasons in found.items()} == {"arm-03": ["spike"], "arm-07": ["clock"]}
    assert found["arm-03"]["spike"].startswith("signal/joints[3]: timestep 64 lies")
    assert found["arm-07"]["clock"] == "clock: 1 timestep back in time, first at timestep 30"


def test_findings_are_fields_of_filters(archive, folder):
    ingest(archive, folder)
    with opened_archive(archive) as opened:
        catalog = opened.catalog

        def ids(text):
            return {row.episode_id for row in catalog.episodes.rows(catalog.query.ids(text)).values()}

        assert ids("flag:*") == {"arm-03", "arm-07"}
        assert ids("flag:spike") == ids("score.quality.spike:>=1") == {"arm-03"}
        assert len(ids("-flag:*")) == COUNT - 2
        assert len(ids("score.quality.clock:<1")) == COUNT - 1
        worst = catalog.query.select(order="-score.quality.spike", limit=1).rows[0]
        assert worst.episode_id == "arm-03"
        assert catalog.query.facets(["flag"])["flag"] == [("clock", 1), ("spike", 1)]


@SQLITE_FIRST
def test_a_rescan_looks_only_at_what_changed(archive, folder):
    ingest(archive, folder)
    with opened_archive(archive) as opened:
        row = next(row for row in opened.catalog.query.select(limit=99).rows if row.episode_id == "arm-00")
        opened.catalog.annotations.set_scores(
            "quality.spike", {row.id: 0.123}
        )  # would be replaced if it were judged again
    assert counts(ingest(archive, folder)) == {"unchanged": COUNT}
    with opened_archive(archive) as opened:
        assert opened.catalog.query.facts([row.id])[row.id].scores["quality.spike"] == 0.123
    save(folder, episode(3))
    for path in files(folder)[3:4]:
        os.utime(path, ns=(1, 1))
    assert counts(ingest(archive, folder))["changed"] == 1
    assert list(flags(archive)) == ["arm-07"]


def test_moved_episodes_keep_their_findings_and_forgotten_ones_lose_them(archive, folder):
    ingest(archive, folder)
    before = flags(archive)
    files(folder)[3].rename(folder / "elsewhere.wshard")
    assert counts(ingest(archive, folder))["moved"] == 1
    assert flags(archive) == before
    (folder / "elsewhere.wshard").unlink()
    ingest(archive, folder, prune=True)
    assert list(flags(archive)) == ["arm-07"]


@SQLITE_ALONE
def test_findings_of_earlier_runs_are_not_counted_again(archive, folder):
    ingest(archive, folder)
    save_wshard(episode(99), folder / "one-more.wshard")
    assert counts(ingest(archive, folder), "embedded") == {"new": 1, "unchanged": COUNT}
    assert list(flags(archive)) == ["arm-03", "arm-07"]


def test_the_order_of_ingest_changes_nothing(tmp_path, folder):
    one_by_one = tmp_path / "other"
    with TrajectoryIngestor(one_by_one) as ingestor:
        for path in reversed(files(folder)):
            ingestor.ingest_episode(path, windows="whole")
    assert {name: list(found) for name, found in flags(one_by_one).items()} == {
        "arm-03": ["spike"],
        "arm-07": ["clock"],
    }


@SQLITE_FIRST
def test_what_an_ingest_left_unchecked_the_next_one_checks(archive, folder):
    with TrajectoryIngestor(archive, limits=None) as ingestor:
        assert counts(ingestor.ingest(folder, windows="whole")) == {"new": COUNT, "embedded": COUNT}
    assert flags(archive) == {}
    assert counts(ingest(archive, folder)) == {"unchanged": COUNT, "flagged": 2}
    assert list(flags(archive)) == ["arm-03", "arm-07"]
    assert counts(ingest(archive, folder)) == {"unchanged": COUNT}


@SQLITE_FIRST
def test_only_some_measures_of_a_family_are_stored(archive, tmp_path):
    count = MAX_EPISODES + 6
    paths = [tmp_path / "data" / f"{n:03d}.wshard" for n in range(count)]
    paths[0].parent.mkdir()
    for n, path in enumerate(paths):
        save_wshard(episode(n, change=spike if n == count - 1 else None), path)
    ingest(archive, tmp_path / "data")
    assert list(flags(archive)) == [f"arm-{count - 1:02d}"]
    with opened_archive(archive) as opened:
        query = "SELECT count(*), count(measures), count(DISTINCT family) FROM checked"
        assert list(opened.catalog.query.sql(query).rows) == [(count, MAX_EPISODES, 1)]


@SQLITE_FIRST
@pytest.mark.parametrize("most", [3, 1])
def test_few_may_wait_and_the_verdicts_are_the_same(archive, folder, tmp_path, monkeypatch, most):
    ingest(archive, folder)
    found = flags(archive)
    monkeypatch.setattr(bridge.quality.judge, "_MAX_WAITING", most)
    monkeypatch.setattr(bridge.support.batches, "BATCH", 2)
    ingest(tmp_path / "again", folder)
    assert flags(tmp_path / "again") == found


@SQLITE_FIRST
def test_what_waited_when_a_run_was_killed_is_checked_by_the_next(archive, folder, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(Checker, "finish", lambda _: None)
        ingest(archive, folder)
        assert flags(archive) == {}
    assert counts(ingest(archive, folder)) == {"unchanged": COUNT, "flagged": 2}
    assert list(flags(archive)) == ["arm-03", "arm-07"]


@SQLITE_FIRST
def test_check_finds_damage_in_episodes_that_were_never_read(archive, folder):
    ingest(archive, folder)
    path = files(folder)[5]
    damage(path)
    assert counts(ingest(archive, folder)) == {"unchanged": COUNT}  # the file looks as it did
    with opened_archive(archive) as opened:
        done = {one.path: one for one in check_episodes(opened)}
        assert len(done) == COUNT
        assert done[str(path)].scores == {"integrity": 1.0}
        assert done[str(path)].episode_id == "arm-05"  # as the catalog knows, though the file does not say
        assert "signal/joints" in done[str(path)].findings[0].reason
        assert [one.worst for one in done.values() if not one.findings] != []
    assert list(flags(archive)) == ["arm-03", "arm-05", "arm-07"]
    damage(path)  # back again
    ingest(archive, folder)
    assert list(flags(archive)) == ["arm-03", "arm-07"]


def test_what_of_a_damaged_episode_can_be_read_is_checked_and_is_usual(archive, tmp_path):
    frames = np.random.default_rng(0).integers(0, 255, (200, 24, 32, 3)).astype(np.uint8)
    changes = {3: {"change": spike}}
    episodes = [episode(n, cam=frames[: len(arm(n)[1])], **changes.get(n, {})) for n in range(8)]
    save(tmp_path / "seen", *episodes)
    for number in range(1, 8):
        damage(next((tmp_path / "seen").rglob(f"arm-{number:02d}.wshard")), "signal/cam")
    save(tmp_path / "other", episode(0, env_id="other"))
    ingest(archive, tmp_path / "other")
    with opened_archive(archive) as opened:
        uncatalogued = {one.episode_id: one for one in check_episodes(opened, [tmp_path / "seen"])}
    assert {*uncatalogued["arm-03"].scores} > {"integrity", "spike"}
    assert [found.check for found in uncatalogued["arm-03"].findings] == ["integrity", "spike"]
    assert all(one.compared for one in uncatalogued.values())
    ingest(archive, tmp_path / "seen")
    for _ in range(2):
        with opened_archive(archive) as opened:
            found = check_episodes(opened, where="env:arm")
            assert {one.episode_id for one in found if one.scores["spike"] >= 1} == {"arm-03"}
            assert all(one.compared for one in found)
        assert set(flags(archive)["arm-03"]) == {"integrity", "spike"}
        assert set(flags(archive)["arm-05"]) == {"integrity"}


@SQLITE_FIRST
def test_damage_that_is_met_when_vectors_are_made_is_flagged(archive, folder, monkeypatch):
    ingest(archive, folder)
    path = files(folder)[5]
    damage(path)
    message = []
    flag = CheckResults.flag
    monkeypatch.setattr(CheckResults, "flag", lambda *args: message.append(args[1]) or flag(*args))
    report = ingest(archive, folder, embedder="dct", windows="both")
    assert [failure.path for failure in report.failed] == [str(path)]
    assert list(flags(archive)["arm-05"]) == ["integrity"]
    assert len(message) == 2  # once as often as it was read, though two Spaces lack it each time


@SQLITE_ALONE
def test_a_known_file_that_cannot_be_read_any_more_is_flagged_until_it_is_repaired(archive, folder):
    ingest(archive, folder)
    path = files(folder)[5]
    whole, times = path.read_bytes(), path.stat().st_mtime_ns
    path.write_bytes(whole[: len(whole) // 2])
    report = ingest(archive, folder)
    assert [failure.path for failure in report.failed] == [str(path)]
    assert list(flags(archive)["arm-05"]) == ["integrity"]
    path.write_bytes(whole)
    os.utime(path, ns=(times, times))
    ingest(archive, folder)
    assert "arm-05" not in flags(archive)


@SQLITE_ALONE
@pytest.mark.parametrize("command", ["ingest", "check"])
def test_a_broken_file_stays_flagged_where_its_family_is_judged_again(archive, folder, tmp_path, monkeypatch, command):
    monkeypatch.setattr(bridge.quality.judge, "MAX_EPISODES", COUNT + 4)  # reached while the run goes on
    with TrajectoryIngestor(archive) as ingestor:
        ingestor.ingest(folder, windows="whole")
    save(folder, *(episode(number) for number in range(COUNT, COUNT + 8)))
    (broken,) = folder.rglob("arm-05.wshard")
    if command == "ingest":
        os.truncate(broken, broken.stat().st_size // 2)
    else:
        with TrajectoryIngestor(archive, limits=None) as ingestor:
            ingestor.ingest(folder, windows="whole")
        damage(broken)
    with opened_archive(archive) as opened:
        if command == "check":
            check_episodes(opened)
        else:
            ingest(archive, folder)
        (found,) = opened.catalog.query.select("flag:integrity").rows
        assert Path(found.path) == broken
        assert opened.catalog.checks.unchecked(VERSION, [found.id]) == [found.id]


@SQLITE_FIRST
def test_what_another_finds_broken_while_a_verdict_waits_stays_flagged(archive, folder, monkeypatch):
    """While an ingest holds back its verdict on whole files, bytes rot, which no stat tells, and a check sees it."""
    (broken,) = folder.rglob("arm-05.wshard")
    finish, whole = Checker.finish, broken.read_bytes()

    def overtaken(checker):
        damage(broken)
        with opened_archive(archive) as opened, monkeypatch.context() as inner:
            inner.setattr(Checker, "finish", finish)
            check_episodes(opened, [broken])
        finish(checker)

    with monkeypatch.context() as patched:
        patched.setattr(Checker, "finish", overtaken)
        ingest(archive, folder)
    assert list(flags(archive)["arm-05"]) == ["integrity"]
    broken.write_bytes(whole)
    with opened_archive(archive) as opened:
        check_episodes(opened, [broken])
    assert "arm-05" not in flags(archive)


@SQLITE_FIRST
def test_a_check_keeps_no_measures_of_what_was_judged(archive, folder, monkeypatch):
    ingest(archive, folder)
    monkeypatch.setattr(bridge.support.batches, "BATCH", 4)
    monkeypatch.setattr(bridge.quality.judge, "MAX_EPISODES", 4)
    alive, examined = weakref.WeakSet(), bridge.quality.check.examine

    def counted(path, **how):
        found = examined(path, **how)
        assert len(alive) <= 4 + 4 + 1
        alive.add(found.measured)
        return found

    monkeypatch.setattr(bridge.quality.check, "examine", counted)
    with opened_archive(archive) as opened:
        assert len(check_episodes(opened)) == COUNT
    assert not alive


@SQLITE_FIRST
def test_check_takes_files_that_are_not_catalogued_and_other_limits(archive, folder, tmp_path):
    ingest(archive, folder)
    save(tmp_path / "new", episode(20, change=spike), episode(21))
    (tmp_path / "new" / "broken.wshard").write_bytes(b"nothing")
    with opened_archive(archive) as opened:
        found = {Path(one.path).stem: one for one in check_episodes(opened, [tmp_path / "new"])}
        assert {name: [f.check for f in one.findings] for name, one in found.items()} == {
            "arm-20": ["spike"],
            "arm-21": [],
            "broken": ["integrity"],
        }
        assert all(one.uid is None for one in found.values())
        assert len(opened.catalog.query.ids()) == COUNT
        (spiked,) = check_episodes(opened, where="flag:spike", limits=Thresholds(spike=float("inf")))
        assert spiked.findings == ()
    assert list(flags(archive)) == ["arm-07"]


@SQLITE_ALONE
def test_what_is_found_is_shown_also_where_the_archive_cannot_be_written(archive, folder, monkeypatch):
    ingest(archive, folder)
    damage(files(folder)[5])
    before = flags(archive)
    monkeypatch.setattr(
        catalog.database.sqlite, "access", lambda _: "mode=ro&immutable=1"
    )  # what read-only media come to
    done = command("check", "--json", "-a", archive, folder=folder)
    assert done.exit_code == 1
    shown = json.loads(done.stdout)
    assert (shown["checked"], shown["flagged"]) == (COUNT, 3)
    assert {Path(one["file_path"]).stem for one in shown["items"]} == {"arm-03", "arm-05", "arm-07"}
    line = done.stderr.splitlines()[-1]
    assert line.startswith("not saved in the archive: ")
    assert "it is read-only here" in line
    for name in (files(folder)[1], "arm-01"):
        done = command("check", name, "-a", archive, folder=folder)
        assert (done.exit_code, done.stdout) == (0, "0 of 1 episodes flagged\n")
    assert "did you mean 'arm-01'? `wshard ls`" in command("check", "armm-01", "-a", archive, folder=folder).stderr
    assert "it is read-only here" in done.stderr
    monkeypatch.undo()
    assert flags(archive) == before


@SQLITE_ALONE
def test_workers_find_the_same(archive, folder):
    ingest(archive, folder)
    with opened_archive(archive) as opened:
        assert check_episodes(opened, workers_count=2) == check_episodes(opened)


@SQLITE_ALONE
def test_an_episode_with_nan_is_catalogued_and_flagged_but_not_embedded(archive, folder):
    def change(joints):
        joints[17:40] = np.nan

    save(folder, episode(30, change=change))
    report = ingest(archive, folder)
    assert counts(report, "unembedded") == {"new": COUNT + 1, "embedded": COUNT, "flagged": 3}
    assert report.ok
    (failure,) = report.unembedded
    assert Path(failure.path).stem == "arm-30"
    assert failure.error.startswith(
        "lane 'signal/joints': expected finite float32-sized numbers in at least 90% of the"
    )
    assert "found nan at timestep 17, channel 0" in failure.error
    assert flags(archive)["arm-30"]["nan"].startswith("signal/joints[0]: NaN in 23 timesteps")
    with TrajectoryRetriever(archive) as retriever:
        assert len(retriever.search_similar_episodes(episode(1), 100)) == COUNT


@SQLITE_ALONE
@pytest.mark.parametrize("shape", [(16, 16, 3), (1100,)], ids=["images only", "too wide"])
def test_an_episode_without_a_lane_to_embed_is_catalogued_and_reported(archive, folder, shape):
    odd = episode(31)
    odd.observations = {"sight": Channel.of("sight", np.zeros((odd.length, *shape), np.uint8))}
    (path,) = save(folder, odd)
    report = ingest(archive, folder)
    assert counts(report, "unembedded") == {"new": COUNT + 1, "embedded": COUNT, "flagged": 2}
    assert report.ok
    assert [failure.path for failure in report.unembedded] == [str(path)]
    assert "no observation lane to embed: expected a number or a vector" in report.unembedded[0].error
    with (
        TrajectoryIngestor(archive) as ingestor,
        pytest.warns(NotEmbeddedWarning, match="catalogued, not embedded: no observation lane to embed"),
    ):
        uid = ingestor.ingest_episode(path, windows="whole")
    with opened_archive(archive) as opened:
        assert opened.catalog.episodes.get(uid).episode_id == "arm-31"
        assert (
            opened.catalog.query.facts([opened.catalog.episodes.get(uid).id])[
                opened.catalog.episodes.get(uid).id
            ].embedded
            == ()
        )


def run(*arguments):
    done = command(*arguments, folder=".")
    return done.exit_code, done.stdout, done.stderr


@SQLITE_ALONE
def test_the_command_reports_and_exits(archive, folder, tmp_path):
    code, out, err = run("ingest", folder, "-a", archive, "--no-check")
    assert (code, "flagged" in out) == (0, False), err
    code, out, _ = run("check", "-a", archive)
    assert code == 1
    assert "arm-07   clock" in " ".join(out.split("\n")[1:3]).replace("    ", "   ")
    assert out.strip().endswith(f"2 of {COUNT} episodes flagged")
    code, out, _ = run("check", "-a", archive, "--all", "-n", 3)
    lines = out.splitlines()
    assert (code, len(lines)) == (1, 6)
    assert lines[-2] == f"3 of {COUNT} rows, worst first (--limit or --json for more)"
    code, out, _ = run("check", "-a", archive, "-w", "env:arm", "--json")
    message = json.loads(out)
    assert (code, message["checked"], message["flagged"]) == (1, COUNT, 2)
    assert {one["episode_id"]: [f["check"] for f in one["findings"]] for one in message["items"]} == {
        "arm-07": ["clock"],
        "arm-03": ["spike"],
    }
    (tmp_path / "none.toml").write_text("spike = inf\nbackward = inf\n")
    code, out, _ = run("check", "-a", archive, "--limits", tmp_path / "none.toml")
    assert (code, out.strip()) == (0, f"0 of {COUNT} episodes flagged")
    code, _, err = run("check", folder, "-a", archive, "-w", "flag:*")
    assert (code, "expected either files or --where" in err) == (2, True)


def test_cameras_are_checked_on_request_and_results_stay(tmp_path):
    frames = np.random.default_rng(0).integers(60, 200, (COUNT, 120, 16, 16, 3)).astype(np.uint8)
    frames[5, 20:40] = 0
    save(tmp_path / "in", *(episode(number, cam=frames[number]) for number in range(COUNT)))
    ingest(tmp_path / "lab", tmp_path / "in")
    before = command("check", "--archive", "lab", folder=tmp_path)
    assert (before.exit_code, "cameras were not checked" in before.stderr) == (0, True)
    seen = command("check", "--cameras", "--archive", "lab", "--json", folder=tmp_path)
    (found,) = json.loads(seen.stdout)["items"]
    assert (seen.exit_code, found["episode_id"]) == (1, "arm-05")
    assert found["findings"][0]["reason"].startswith("signal/cam: 17% dark frames, first at timestep 20")
    for line in (("check",), ("ingest", "in")):
        command(*line, "--archive", "lab", folder=tmp_path)
        with opened_archive(tmp_path / "lab") as archive:
            count = archive.catalog.query.count
            assert count("flag:camera-dark") == count("flag:camera-*") == 1
            assert count("score.quality.camera-dark:1..") == 1
            assert count("score.quality.spike:0..") == COUNT
    frames[5, 20:40] = 99
    save(tmp_path / "in", episode(5, cam=frames[5]))
    ingest(tmp_path / "lab", tmp_path / "in")
    with opened_archive(tmp_path / "lab") as archive:
        assert archive.catalog.query.count("flag:camera-*") == 0


def test_cameras_with_planes_first_are_checked_and_limits_apply(tmp_path):
    frames = np.random.default_rng(0).integers(60, 200, (2, 120, 3, 16, 20)).astype(np.uint8)
    frames[1, 20:30] = 0
    save(tmp_path / "in", *(episode(number, cam=frames[number]) for number in range(2)))
    ingest(tmp_path / "lab", tmp_path / "in")
    with opened_archive(tmp_path / "lab") as archive:
        found = archive.check(cameras=True)
        assert [[finding.check for finding in one.findings] for one in found] == [[], ["camera-dark"]]
        (_, tolerated) = archive.check(cameras=True, limits=Thresholds(camera_dark=0.5))
        assert (tolerated.findings, tolerated.scores["camera-dark"]) == ((), pytest.approx(10 / 120 / 0.5))


def test_a_camera_slower_than_the_clock_drops_no_frames_until_it_stops(tmp_path):
    rows = robot_messages()
    write_ros2(tmp_path / "a.mcap", rows)
    half = rows[0][0] + 500_000_000
    write_ros2(tmp_path / "b.mcap", [row for row in rows if row[0] < half or "camera" not in row[1]])
    for name, found in (("a", set()), ("b", {"camera-frozen"})):
        command("ingest", f"{name}.mcap", "--map", "/joint_states=clock", "--archive", name, folder=tmp_path)
        with opened_archive(tmp_path / name) as archive:
            (one,) = archive.check(cameras=True)
            assert {finding.check for finding in one.findings} & {"camera-frozen", "camera-dropped"} == found


def test_padding_of_an_episode_is_no_damage_of_its_cameras(tmp_path):
    frames = np.random.default_rng(0).integers(60, 200, (120, 16, 16, 3)).astype(np.uint8)
    padded = episode(0, cam=frames)
    for lane in (padded.observations["joints"], padded.actions["ctrl"]):
        lane.data[80:] = np.nan
    save(tmp_path / "in", padded)
    ingest(tmp_path / "lab", tmp_path / "in")
    with opened_archive(tmp_path / "lab") as archive:
        (one,) = archive.check(cameras=True)
        assert ([*one.findings], one.scores["camera-dropped"]) == ([], 0)


def test_cameras_that_were_embedded_are_checked_without_decoding(tmp_path):
    frames = np.random.default_rng(0).integers(60, 200, (3, 150, 16, 20, 3)).astype(np.uint8)
    frames[1, 20:60] = 0

    def seen(number, cam):
        lanes = {"x": np.arange(150, dtype=np.float32)[:, None], "cam": cam, "top": cam[:, ::-1].copy()}
        return Episode(f"ep-{number}", observations=lanes)

    save(tmp_path / "in", *(seen(number, frames[number]) for number in range(3)))
    ingest(tmp_path / "lab", tmp_path / "in")
    with opened_archive(tmp_path / "lab") as archive:
        plain = archive.check(cameras=True)
        assert (plain.seen, plain.decoded, "camera-dark" in plain[1].scores) == (3, 3, True)
        again = archive.check(cameras=True)
        assert (again.decoded, [*again]) == (0, [*plain])
    with open_archive(tmp_path / "other", create=True) as archive:
        for camera in ("cam", "top"):
            archive.ingest(tmp_path / "in", embedder="frames", lanes=camera, windows="whole")
        found = archive.check(cameras=True)
        assert (found.seen, found.decoded) == (3, 0)
        assert [one.scores for one in found] == [one.scores for one in plain]
        for path in (tmp_path / "other" / "features").glob("*/*.bin"):
            path.write_bytes(path.read_bytes()[:-1])
        assert archive.check(cameras=True).decoded == 3
        save(tmp_path / "in", seen(0, frames[1]))  # which the archive does not know yet
        assert archive.check(cameras=True).decoded == 1


def test_files_of_a_layout_are_sound_and_unchanged_by_their_paths_too(tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(3):
        np.savez(tmp_path / "in" / f"{number}.npz", xyz_mm=np.random.default_rng(number).normal(size=(30, 3)))
    os.utime(tmp_path / "in" / "0.npz", (1, 1))
    (tmp_path / "arrays.toml").write_text(command("layout", "guess", "in/0.npz", folder=tmp_path).stdout)
    assert command("ingest", "in", "--layout", "arrays.toml", "--archive", "lab", folder=tmp_path).exit_code == 0
    for line in (("check", "in/0.npz"), ("check", "0"), ("fsck",), ("check", "in")):
        done = command(*line, "--archive", "lab", folder=tmp_path)
        assert done.exit_code == 0, (line, done.output)
