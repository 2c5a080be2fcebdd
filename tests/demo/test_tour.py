"""The demo from end to end on a small plan, and stopped in the middle; then what users do with its archive.

`make flows` has them do it, and more, with the whole demo archive, whose path is in WSHARD_DEMO.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from paths import ROOT
from web_app import PICTURES, running_app, signed_in, watched_page

from wshard import open_archive

if TYPE_CHECKING:
    from pathlib import Path

SMALL = ("--tasks", "2", "--episodes", "3", "--camera-episodes", "1", "--workers", "1")
COUNT = 10


def demo(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "demo", "--folder", str(folder), *SMALL]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(folder: Path) -> str:
    running = demo(folder)
    out, err = running.communicate(timeout=250)
    assert running.returncode == 0, err
    return out


def interrupted_at(step: str, folder: Path) -> str:
    """Stop the demo with Ctrl-C when this step begins; return what it printed until then."""
    running, printed = demo(folder), []
    for line in running.stdout:
        printed.append(line)
        if line.startswith(f"== {step}"):
            break
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "Traceback" not in err
    assert err.strip().splitlines()[-1].startswith("interrupted: ")
    return "".join(printed)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Give the folder of a demo that was stopped when all was ingested, and what it printed."""
    folder = tmp_path_factory.mktemp("demo") / "archive"
    return folder, interrupted_at("Moments", folder)


def test_the_demo_runs_to_its_end(tmp_path):
    folder = tmp_path / "archive"
    out = finished(folder)
    assert f"{COUNT} recorded" in out
    assert f"{COUNT} new, 0 unchanged, {COUNT} embedded, 0 left out" in out
    assert "bit for bit" in out
    assert "blocks (default)" in out
    assert re.search(r"^whole state +wshard search( +[01]\.\d{3}){4}$", out, re.MULTILINE)
    assert (folder / "demo.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    with open_archive(folder) as archive:
        assert archive.catalog.query.count() == COUNT


@pytest.mark.long
def test_after_ctrl_c_the_next_run_repeats_nothing(stopped):
    folder, out = stopped
    assert f"{COUNT} recorded" in out
    out = finished(folder)
    assert f"0 recorded (0 timesteps), {COUNT} were there already" in out
    assert f"0 new, {COUNT} unchanged, 0 embedded, 0 left out" in out


# ---- the archive in the app ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def app(browser, request, tmp_path_factory):
    """Serve the demo's archive: a copy of the one that the environment names, or the small one."""
    if given := os.environ.get("WSHARD_DEMO"):
        folder = tmp_path_factory.mktemp("demo") / "archive"
        shutil.copytree(given, folder)
    else:
        folder, _ = request.getfixturevalue("stopped")
    with running_app(folder) as running:
        yield running


@pytest.fixture(scope="module")
def context(browser, app):
    with signed_in(browser, app, 900) as context:
        yield context


@pytest.fixture
def page(context):
    with watched_page(context, lambda line: "Failed to load" not in line.text) as page:
        yield page


def rows_of(app, where, count=3):
    return app.archive.catalog.query.select(where, limit=count).rows


def arms(app, place=0):
    """Return three episodes of one of the arm tasks."""
    found = sorted(value for value, _ in app.archive.catalog.query.facets(["env_id"])["env_id"] if value.endswith("v3"))
    return rows_of(app, f"env:{found[place]}")


def keep(page, name):
    PICTURES.mkdir(exist_ok=True)
    page.screenshot(path=PICTURES / f"demo-{name}.png")


@pytest.mark.long
def test_a_demo_episode_plays(page, app):
    (row,) = rows_of(app, "env:CartPole-v1", 1)
    page.goto(f"{app.url}/episodes/{row.uid}")
    page.locator(".camera canvas[data-step='0']").wait_for()
    page.locator(".lane .u-over").first.wait_for()
    page.keyboard.press("Space")
    page.locator(".camera canvas[data-step]:not([data-step='0'])").wait_for()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Play").wait_for()
    keep(page, "episode")


@pytest.mark.long
def test_a_span_of_a_demo_episode_finds_the_same_task(page, app):
    one, *_ = arms(app)
    page.goto(f"{app.url}/episodes/{one.uid}")
    plot = page.locator(".lane .u-over").first
    plot.wait_for()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 40, steps=4)
    page.mouse.up()
    page.keyboard.press("f")
    page.locator(".hit .score").nth(1).wait_for()
    assert one.env_id in page.locator(".hit").first.inner_text()
    assert one.episode_id not in page.locator(".hit header a").all_inner_texts()
    keep(page, "similar")


if "WSHARD_DEMO" in os.environ:  # of a small archive, tests/bridge/web has the same

    def test_demo_episodes_are_listed_sorted_and_filtered(page, app):
        query = app.archive.catalog.query
        page.goto(app.url)
        page.locator(".status .count", has_text=f"{query.count()} episodes").wait_for()
        page.get_by_role("button", name="Reward").click()
        page.get_by_role("button", name="Reward").click()
        best = query.select(order="-reward", limit=1).rows[0]
        page.locator(".grid .rows .row:first-child", has_text=best.episode_id).wait_for()
        env = arms(app)[0].env_id
        page.locator("#filter").fill(f"env:{env}")
        page.locator(".status .count", has_text=re.compile(f"^{query.count(f'env:{env}')} episodes$")).wait_for()
        page.locator(".spark").nth(2).wait_for()
        keep(page, "episodes")

    def test_few_marks_on_the_demo_become_a_classifier(page, app):
        right, wrong = arms(app), arms(app, 1)
        marks = "&".join([*(f"like={row.uid}" for row in right), *(f"unlike={row.uid}" for row in wrong)])
        page.goto(f"{app.url}/search?{marks}")
        page.get_by_role("button", name="Learn from these").click()
        page.get_by_text("learnt from 3 right and 3 wrong").wait_for()
        page.get_by_role("button", name="Save as a classifier").click()
        page.get_by_label("Name of the score").fill("arm")
        page.keyboard.press("Enter")
        page.get_by_text("saved as score.arm").wait_for()
        query = app.archive.catalog.query
        assert query.count("score.arm:*") > 0
        best = query.select(f"env:{right[0].env_id},{wrong[0].env_id}", order="-score.arm", limit=3).rows
        assert {row.env_id for row in best} == {right[0].env_id}

    def test_demo_episodes_are_compared_and_mapped(page, app):
        one, other, *_ = arms(app)
        page.goto(f"{app.url}/compare?of={one.uid}&of={other.uid}")
        page.locator(".compare-column output", has_text="timestep").nth(1).wait_for()
        keep(page, "compare")
        page.goto(f"{app.url}/map")
        page.locator("canvas.points[data-points]").wait_for()
        page.keyboard.press("a")
        page.locator(".bar-actions", has_text="selected:").wait_for()
        keep(page, "map")

    def test_demo_episodes_are_curated_and_exported(page, app):
        query = app.archive.catalog.query
        env = arms(app)[0].env_id
        page.goto(f"{app.url}/?q=env:{env}")
        page.locator(".grid .rows .row .spark").first.wait_for()
        for key in ("Space", "j", "Space", "r", "a"):
            page.keyboard.press(key)
        page.get_by_text("accepted: 2 episodes").wait_for()
        page.keyboard.press("u")
        page.get_by_text("undone: accepted").wait_for()
        assert query.count("review:accepted") == 0
        page.keyboard.press("c")
        page.get_by_label("Name of the collection").fill("picked")
        page.keyboard.press("Enter")
        page.get_by_text("collection picked: 2 episodes").wait_for()
        page.goto(f"{app.url}/collections")
        page.locator("tr", has_text="picked").get_by_role("button", name="Export").click()
        page.get_by_label("Format").select_option("hdf5")
        page.get_by_role("dialog").get_by_role("button", name="Export").click()
        page.get_by_text("2 episodes, ").wait_for()
        for queue in ("duplicates", "outliers"):
            page.goto(f"{app.url}/review?queue={queue}")
            page.locator("p.count", has_text=re.compile(r"\d (group|episode)")).wait_for()
        keep(page, "review")
