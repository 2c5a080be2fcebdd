"""How smoothly the map moves: python benchmarks/web_map.py [--points 200000] [--gpu].

A real browser (Debian's chromium) shows the map page of a small archive, whose answer is replaced by that many points;
it is zoomed and dragged for some seconds. Without --gpu WebGL is drawn by the processor (swiftshader).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from machine import facts
from playwright.sync_api import sync_playwright
from web import FLAGS, served

from bridge import TrajectoryIngestor
from wshard import Channel, Episode, TimebaseSpec, save_wshard

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

SECONDS = 4
SOFTWARE = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
WATCH = """() => { window.frames_ = []; let last = performance.now();
  const frame = (now) => { window.frames_.push(now - last); last = now; requestAnimationFrame(frame); };
  requestAnimationFrame(frame); }"""


def make_points(count: int) -> dict[str, Any]:
    """Return an answer of the route of the map: 40 groups of points, with a label each."""
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 40, count)
    places = np.round(rng.normal(size=(40, 2))[groups] + 0.1 * rng.normal(size=(count, 2)), 5)
    names = [f"episode-{number:06d}" for number in range(count)]
    lists = {"uids": names, "episode_ids": names, "x": places[:, 0].tolist(), "y": places[:, 1].tolist()}
    labels = {"colours": groups.tolist(), "labels": [f"env-{number:02d}" for number in range(40)], "counts": None}
    return lists | labels | {"total": count, "share": 0.5, "stale": False, "space": "", "about": ""}


def make_archive(folder: Path) -> Path:
    """Make an archive of one episode."""
    state = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    lanes = {"state": Channel.of("state", state)}
    save_wshard(Episode(id="one", timebase=TimebaseSpec(tick_hz=30.0), observations=lanes), folder / "one.wshard")
    with TrajectoryIngestor(folder / "archive") as ingestor:
        ingestor.ingest([folder])
    return folder / "archive"


def count_frames(page: Page, what: str, act: Callable[[int], None]) -> None:
    """Repeat an action for some seconds, and print the frames per second of its second half and the longest pause."""
    page.evaluate(WATCH)
    begun, number = time.perf_counter(), 0
    while time.perf_counter() - begun < SECONDS:
        act(number)
        number += 1
        page.wait_for_timeout(10)
    spent = page.evaluate("window.frames_")
    later = spent[len(spent) // 2 :]
    print(f"| {what} | {1000 / statistics.fmean(later):.0f} | {max(later):.0f} |", flush=True)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=200_000)
    parser.add_argument("--gpu", action="store_true", help="let the browser use the machine's graphics processor")
    options = parser.parse_args()
    answer = json.dumps(make_points(options.points))
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        flags = [flag for flag in FLAGS if flag != "--disable-gpu"] + ([] if options.gpu else SOFTWARE)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        with served(make_archive(Path(temporary))) as link:
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.set_default_timeout(120_000)
            page.route("**/api/map?*", lambda route: route.fulfill(body=answer, content_type="application/json"))
            page.goto(link)
            print(f"{options.points:,} points; {facts()}; load {os.getloadavg()[0]:.1f}\n")
            print("| what | frames per second | longest pause, ms |\n|---|---|---|")
            page.goto(link.partition("/?")[0] + "/map")
            page.locator(f"canvas.points[data-points='{options.points}']").wait_for()
            box = page.locator("canvas.points").bounding_box() or {}
            x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
            page.mouse.move(x, y)
            count_frames(page, "zoomed", lambda number: page.mouse.wheel(0, -40 if number % 40 < 20 else 40))
            page.mouse.down()
            count_frames(page, "dragged", lambda number: page.mouse.move(x + number % 100, y + number % 60))
            page.mouse.up()
        browser.close()
        print(f"\nload at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
