"""Take pictures of all pages and dialogs, for somebody to look at: python tests/support/app_screens.py demo-archive.

Three archives: the demo's, a LeRobot set without rewards, and 20,000 episodes; a wide window in light, a narrow one in
dark. `make screens` writes them into .pictures/screens. A second argument takes only those with that in their name.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from paths import ROOT
from playwright.sync_api import Error
from web_app import PICTURES, RunningApp, running_app, running_browser

from catalog import Catalog
from wshard import Channel, Episode, TimebaseSpec, TrajectoryIngestor, convert_location, save_wshard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Page

MANY = 20_000
WINDOWS = (("light", 1280, 800), ("dark", 1000, 700))
QUEUE = ".queue .rows .row, .queue .empty:not([hidden]), p.count .problem"
PAGES = {
    "list": ("/", ".grid .rows a"),
    "list-none": ("/?q=env:nothing", ".empty h2"),
    "list-mistake": ("/?q=length:x", ".problem mark"),
    "episode": ("/episodes/{0}", ".lane .u-over, .problem:not(:empty)"),
    "moments": ("/episodes/{0}?span=20:50&similar=1", ".hit .score, .problem:not(:empty)"),
    "search": ("/search", ".starts"),
    "search-like": ("/search?like={0}", ".hit .score, .problem:not(:empty)"),
    "compare": ("/compare?of={0}&of={1}", ".compare-column output, .problem:not(:empty)"),
    "map": ("/map", "canvas.points[data-points], .problem:not(:empty)"),
    "review-flagged": ("/review", "p.count"),
    "review-duplicates": (
        "/review?queue=duplicates",
        QUEUE,
    ),
    "review-outliers": ("/review?queue=outliers", QUEUE),
    "collections": ("/collections", "table.plain, .empty"),
    "maintenance": ("/maintenance", "table.plain"),
}
DIALOGS = {
    "list-keys": ("/", "?"),
    "list-tag": ("/", "t"),
    "list-review": ("/", "r"),
    "list-note": ("/", "n"),
    "list-collect": ("/", "c"),
    "list-columns": ("/", "Columns"),
    "list-save-search": ("/?q=length:>1", "Save this filter"),
    "list-tag-all": ("/?q=length:>1", "Tag"),
    "list-export-all": ("/?q=length:>1", "Export"),
    "collections-live": ("/collections", "Save a filter"),
    "collections-split": ("/collections", "Split"),
    "collections-drop": ("/collections", "Drop"),
    "search-options": ("/search", "More options"),
}


def make_lerobot(folder: Path) -> Path:
    """Return an archive of a LeRobot set of two tasks, which has a camera and neither rewards nor environments."""
    (folder / "own").mkdir(parents=True)
    for number in range(10):
        steps = 60 + 7 * number
        phase = np.linspace(0, 3 + number % 3, steps)
        path = np.stack([np.cos(phase * (1 + joint / 6)) for joint in range(6)], axis=1).astype(np.float32)
        frames = np.full((steps, 120, 160, 3), 70, np.uint8)
        for step in range(steps):
            frames[step, 40:80, step : step + 40] = (220, 160, 20)
        episode = Episode(
            id=f"episode_{number:06d}",
            env_id="",
            timebase=TimebaseSpec(tick_hz=30.0),
            observations={"state": Channel.of("state", path), "images.top": Channel.of("images.top", frames)},
            actions={"ctrl": Channel.of("ctrl", np.gradient(path, axis=0).astype(np.float32))},
            metadata={"task": "put the block into the bin" if number % 2 else "push the T"},
        )
        save_wshard(episode, folder / "own" / f"{number}.wshard")
    assert not convert_location(folder / "own", folder / "so100_blocks", target_format="lerobot").failed
    with TrajectoryIngestor(folder / "lab") as ingestor:
        assert not ingestor.ingest([folder / "so100_blocks"]).failed
    return folder / "lab"


def make_many(folder: Path) -> Path:
    """Return an archive of many episodes of a catalog without files."""
    folder.mkdir(parents=True)
    with Catalog.open(folder / "catalog.db", create=True) as catalog:
        sys.path.append(str(ROOT / "benchmarks"))
        fill_catalog: Callable[[Catalog, int], object] = import_module("catalog_speed").fill
        fill_catalog(catalog, MANY)
    return folder


@contextmanager
def visited(browser: Browser, app: RunningApp, window: tuple[str, int, int]) -> Iterator[Page]:
    """Yield a page that is signed in, of that theme and size."""
    theme, width, height = window
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)  # type: ignore[arg-type]
    context.set_default_timeout(8_000)
    page = context.new_page()
    page.goto(f"{app.url}/?token={app.sign_ins.new_link_token()}")
    yield page
    context.close()


def open_dialog(page: Page, opener: str) -> None:
    """Open a dialog by a key of one letter, or by what has that name."""
    if len(opener) == 1:
        page.keyboard.press(opener)
    else:
        openers = page.locator("button, details:not(.facet) > summary")
        openers.get_by_text(opener, exact=True).filter(visible=True).first.click()


def take_screens(app: RunningApp, browser: Browser, name: str, only: str) -> None:
    """Take the pictures of one archive."""
    catalog = app.archive.catalog
    if not catalog.collections.all():
        catalog.collections.save_query("all of them", "length:>1")
    uids = [row.uid for row in catalog.query.select(limit=2).rows]
    for window in WINDOWS:
        with visited(browser, app, window) as page:
            for view, (path, sign) in (PAGES | DIALOGS).items():
                file = PICTURES / "screens" / f"{name}-{view}-{window[0]}.png"
                if only not in file.name:
                    continue
                file.parent.mkdir(parents=True, exist_ok=True)
                try:
                    page.goto(app.url + path.format(*uids))
                    page.locator(sign if view in PAGES else ".grid .rows a, table.plain, .search").first.wait_for()
                    page.wait_for_timeout(1000)
                    if view == "moments":
                        page.locator(".similar").evaluate("similar => similar.scrollIntoView()")
                    if view in DIALOGS:
                        open_dialog(page, sign)
                        page.wait_for_timeout(300)
                except Error as error:
                    sys.stderr.write(f"{file.name}: {error}\n")
                page.screenshot(path=file)


def main(demo: Path, only: str = "") -> None:
    """Take all pictures."""
    with tempfile.TemporaryDirectory() as scratch, running_browser() as browser:
        archives: dict[str, Callable[[], Path]] = {
            "demo": lambda: demo,
            "lerobot": lambda: make_lerobot(Path(scratch, "lerobot")),
            "many": lambda: make_many(Path(scratch, "many")),
        }
        wanted = only.partition("-")[0]
        for name, make in archives.items():
            if wanted in archives and name != wanted:
                continue
            with running_app(make()) as app:
                take_screens(app, browser, name, only)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
