"""How fast the app answers: python benchmarks/web.py [--rows 1000000] [--demo demo-archive] [--users 20].

Registers synthetic episodes as benchmarks/catalog_speed.py does, serves them, and measures in a real browser (Debian's
chromium) and by plain requests. With --demo it also measures from a dragged span to painted hits on that archive.
Every figure is a median, p95 where it says so, with the machine's load.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
from catalog_speed import fill as fill_catalog
from machine import facts
from playwright.sync_api import sync_playwright

from bridge import TrajectoryIngestor
from catalog import Catalog
from wshard import Channel, Episode, TimebaseSpec, save_wshard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Page

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
FILTERS = ("env:env-07", "env:env-07 reward:20..80", 'length:>=150 "red cube"', "success:true", "")
ORDERS = ("-reward", "review", "meta.robot", "lane.action/ctrl.max")
FACETS = ("env", "success", "review", "tag", "flag", "meta.robot", "folder")


def fill(folder: Path, rows: int) -> None:
    """Make an archive of that many episodes, unless it is there."""
    with Catalog.open(folder / "catalog.db", create=True) as catalog:
        if catalog.query.count() < rows:
            fill_catalog(catalog, rows)


@contextmanager
def served(place: Path) -> Iterator[str]:
    """Serve an archive by the command, and give the link that it prints."""
    call = "import sys; sys.argv = ['wshard', 'serve', sys.argv[1], '--port', '0', '--no-open'];"
    call += "from bridge.cli.entry import main; main()"
    with subprocess.Popen([sys.executable, "-c", call, str(place)], stdout=subprocess.PIPE, text=True) as server:
        yield next(iter(server.stdout or ())).strip()
        server.terminate()


def measure(act: Callable[[], Any], times: int = 5) -> float:
    """Return the median of milliseconds that something takes."""
    spent = []
    for _ in range(times):
        begun = time.perf_counter()
        act()
        spent.append((time.perf_counter() - begun) * 1e3)
    return statistics.median(spent)


def report(what: str, milliseconds: float, goal: float | None = None) -> None:
    """Print one line of the table."""
    print(f"| {what} | {milliseconds:,.0f} | {'' if goal is None else f'{goal:,.0f}'} |", flush=True)


def wait_for_rows(page: Page, text: str = "") -> None:
    """Wait until the first row and the count are painted."""
    page.locator(".grid .rows .row a").first.wait_for()
    if text:
        page.locator(".status .count", has_text=re.compile(text)).wait_for()


def measure_list(page: Page, base: str) -> None:
    """Measure the list in the browser: first paint, filters, a jump to the middle, sorting."""

    def visit() -> None:
        page.goto(base)
        wait_for_rows(page)

    visit()
    report("first rows painted, page opened anew", measure(visit, 3), 1000)
    page.locator(".status .count", has_text="episodes").wait_for()
    spent: dict[str, list[float]] = {text: [] for text in FILTERS}
    for _ in range(3):
        for text in FILTERS:
            spent[text].append(page.evaluate(FILTER_BY, text))
    for text in FILTERS:
        report(f"filter `{text or 'none'}`, Enter to painted rows", statistics.median(spent[text]), 300)
    page.goto(base)
    wait_for_rows(page, "episodes")

    def jump() -> None:
        page.locator(".viewport").evaluate("view => { view.scrollTop = view.scrollHeight * Math.random(); }")
        page.locator(".grid .rows .row.waiting").first.wait_for(state="detached")
        page.locator(".grid .rows .row a").first.wait_for()

    report("jump anywhere by the scroll bar", measure(jump, 5))


def measure_requests(client: httpx.Client, users: int) -> None:
    """Measure plain requests, one after another and by several users at once."""
    columns = ["uid", "episode_id", "env", "length", "reward", "success", "review", "tags", "score.rating"]
    page = {"columns": columns, "limit": 100, "count": "false"}
    report("a page of 100 rows", measure(lambda: client.get("/api/episodes", params=page).raise_for_status()))
    middle = {**page, "skip": 500_000}
    report("a page from the middle", measure(lambda: client.get("/api/episodes", params=middle).raise_for_status()))
    places = iter(random.Random(0).sample(range(100_000, 900_000), 100))
    for order in ORDERS:

        def jump(order: str = order) -> None:
            far = {**page, "sort": order, "skip": next(places)}
            client.get("/api/episodes", params=far).raise_for_status()

        report(f"the first far page by `{order}`", measure(jump, 1))
        report(f"later far pages by `{order}`", measure(jump, 9))
    numbers = iter(range(1000))
    for field in FACETS:

        def count(field: str = field) -> None:
            where = f"length:>={next(numbers)}"  # another one each time: answers are remembered
            client.get(
                "/api/facets", params={"field": field, "where": where, "limit": 13, "sample": "true"}
            ).raise_for_status()

        report(f"facet {field}", measure(count, 3), 500)
    report(
        "histogram of reward",
        measure(
            lambda: client.get(
                "/api/facets", params={"histogram": "reward", "sample": "true", "where": f"length:>={next(numbers)}"}
            ),
            3,
        ),
        500,
    )

    def one(number: int) -> float:
        begun = time.perf_counter()
        client.get("/api/episodes", params={**page, "where": f"env:env-{number % 50:02d}"}).raise_for_status()
        return (time.perf_counter() - begun) * 1e3

    with ThreadPoolExecutor(users) as pool:
        spent = sorted(pool.map(one, range(10 * users)))
    report(f"{users} users at once, a filtered page: p95", spent[int(0.95 * len(spent))], 1000)


def measure_demo(page: Page, link: str) -> None:
    """Measure from a released drag and f to painted hits on the demo archive."""
    page.goto(link)
    page.locator(".grid .rows .row", has_text="MountainCar").first.wait_for()
    measure_spans(page, link.partition("/?")[0] + "/?q=env:drawer-open-v3", "demo archive", 500)


def measure_spans(page: Page, link: str, what: str, goal: float) -> None:
    """Measure from a released drag and f, on the first episode of a list, to painted hits."""
    page.goto(link)
    page.locator(".grid .rows .row a").first.click()
    plot = page.locator(".lane .u-over").first
    plot.wait_for()
    box = plot.bounding_box() or {}

    def find(share: float) -> float:
        page.mouse.move(box["x"] + share * box["width"], box["y"] + 40)
        page.mouse.down()
        page.mouse.move(box["x"] + (share + 0.4) * box["width"], box["y"] + 40, steps=4)
        page.mouse.up()
        begun = time.perf_counter()
        page.keyboard.press("f")
        page.locator(".similar[aria-busy]").wait_for()
        page.locator(".similar[aria-busy]").wait_for(state="detached", timeout=120_000)
        return (time.perf_counter() - begun) * 1e3

    report(f"the first dragged span to painted hits, {what}", find(0.1))
    spent = statistics.median(find(0.15 + 0.05 * n) for n in range(5))
    report(f"a dragged span to painted hits, {what}", spent, goal)


FILTER_BY = """async (text) => {
  const [input, main] = [document.querySelector('#filter'), document.querySelector('main')];
  const frame = () => new Promise((then) => requestAnimationFrame(then));
  const begun = performance.now();
  input.value = text;
  input.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));
  if (!main.hasAttribute('aria-busy')) throw new Error('nothing is asked');
  while (main.hasAttribute('aria-busy')) await frame();
  await frame();
  return performance.now() - begun; }"""
READY = "() => [...document.querySelectorAll('.camera video')].filter(one => one.readyState > 3).length > 1"
COUNT_FRAMES = """() => { window.shown = [];
  for (const [at, video] of document.querySelectorAll('.camera video').entries()) {
    window.shown[at] = 0;
    const count = () => { window.shown[at] += 1; video.requestVideoFrameCallback(count); };
    video.requestVideoFrameCallback(count); } }"""


def make_video_archive(folder: Path, steps: int = 300) -> None:
    """Make an archive of one episode with two cameras of 480 x 640 as H.264, at 30 timesteps per second."""
    rng, rows = np.random.default_rng(0), np.arange(480)[:, None]
    frames = np.empty((2, steps, 480, 640, 3), np.uint8)
    for step in range(steps):
        shade = (rows + np.arange(640) + 3 * step) % 256
        frames[:, step] = shade[..., None]
        frames[:, step, 200:260, 2 * step : 2 * step + 40] = rng.integers(0, 255, 3)
    state = np.stack([np.sin(np.arange(steps) / 20), np.cos(np.arange(steps) / 20)], axis=1).astype(np.float32)
    lanes = {"state": Channel.of("state", state), **{f"cam{n}": Channel.of(f"cam{n}", frames[n]) for n in range(2)}}
    episode = Episode(id="cameras", timebase=TimebaseSpec(tick_hz=30.0), observations=lanes)
    save_wshard(episode, folder / "cameras.wshard", encode="mp4")
    with TrajectoryIngestor(folder / "archive") as ingestor:
        ingestor.ingest([folder])


def measure_scrub(page: Page, link: str) -> None:
    """Measure the frames per second that two videos show while the pointer moves over a plot, and while they play."""
    page.goto(link)
    page.locator(".grid .rows .row a").first.click()
    page.locator(".lane .u-over").first.wait_for()
    page.wait_for_function(READY)
    box = page.locator(".lane .u-over").first.bounding_box() or {}
    for what in ("scrubbed", "played"):
        page.mouse.click(box["x"] + 2, box["y"] + 40)
        page.evaluate(COUNT_FRAMES)
        begun = time.perf_counter()
        if what == "played":
            page.mouse.move(5, 5)
            page.keyboard.press("Space")
        while (spent := time.perf_counter() - begun) < 4:
            if what == "scrubbed":
                page.mouse.move(box["x"] + box["width"] * (0.1 + spent / 5), box["y"] + 40)
                page.wait_for_timeout(8)
            else:
                page.wait_for_timeout(50)
        shown = min(page.evaluate("window.shown")) / spent
        print(
            f"| two H.264 lanes of 480 x 640 {what}: frames per second of the slower one | {shown:.0f} | 30 |",
            flush=True,
        )
        page.reload()
        page.wait_for_function(READY)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--folder", type=Path, help="keep the archive of synthetic episodes there")
    parser.add_argument("--demo", type=Path, help="the demo archive, for the search from a dragged span")
    options = parser.parse_args()
    chromium = shutil.which("chromium")
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        folder = options.folder or Path(temporary) / "archive"
        folder.mkdir(parents=True, exist_ok=True)
        fill(folder, options.rows)
        print(f"{options.rows:,} episodes; {facts()}; load {os.getloadavg()[0]:.1f}\n", flush=True)
        print("| what | ms | goal |\n|---|---|---|")
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        with served(folder) as link:
            base = link.partition("/?")[0] + "/"
            page = browser.new_page()
            page.goto(link)
            measure_list(page, base)
            cookies = {one["name"]: one["value"] for one in page.context.cookies()}
            page.close()
            with httpx.Client(base_url=base, cookies=cookies, timeout=120) as client:
                measure_requests(client, options.users)
        if options.demo:
            with served(options.demo) as link:
                measure_demo(browser.new_page(), link)
        videos = Path(temporary) / "videos"
        videos.mkdir()
        make_video_archive(videos)
        with served(videos / "archive") as link:
            measure_scrub(browser.new_page(), link)
        browser.close()
        print(f"\nload at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
