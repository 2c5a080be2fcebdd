"""Take the pictures of docs/app.md: python tests/support/app_pictures.py demo-archive (`make pictures`)."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from paths import ROOT
from PIL import Image
from web_app import running_app, running_browser

from wshard.core.container.atomic_write import publish

if TYPE_CHECKING:
    from playwright.sync_api import Page

FOLDER = ROOT / "docs" / "pictures"


def keep(page: Page, name: str) -> None:
    """Write what the page shows, in few colours: half the bytes, and no difference to the eye."""
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    with publish(FOLDER / f"{name}.png") as file:
        picture.save(file, "PNG", optimize=True)


def take_pictures(archive: Path) -> None:
    """Take all pictures of an archive, which is the demo's."""
    FOLDER.mkdir(exist_ok=True)
    with running_app(archive) as app, running_browser() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 700})
        page.goto(f"{app.url}/?token={app.sign_ins.new_link_token()}")
        page.locator(".spark").nth(10).wait_for()
        page.wait_for_timeout(800)
        keep(page, "episodes")
        page.goto(f"{app.url}/?q=episode:MountainCar-v0-002")
        page.locator(".grid .rows a").first.click()
        page.locator(".camera canvas[data-step='0']").wait_for()
        page.goto(f"{page.url}&t=2.4")
        page.locator(".camera canvas[data-step]").wait_for()
        page.wait_for_timeout(800)
        keep(page, "episode")
        page.get_by_role("button", name="Find frames like this").click()
        page.locator(".hit .frame img").nth(5).wait_for()
        page.reload()  # the first search reads all frames
        page.locator(".hit .frame img").nth(5).wait_for()
        page.wait_for_timeout(1500)
        page.locator(".similar").evaluate("similar => similar.scrollIntoView()")
        keep(page, "frames")
        page.goto(f"{app.url}/?q=episode:drawer-open-v3-003")
        page.locator(".grid .rows a").first.click()
        page.locator(".lane .u-over").first.wait_for()
        page.goto(re.sub(r"\?.*", "?span=30:70&similar=1", page.url))
        page.set_viewport_size({"width": 1280, "height": 860})
        page.locator(".hit .score").nth(3).wait_for()
        page.reload()  # the first search loads what all need
        page.locator(".hit .score").nth(3).wait_for()
        page.wait_for_timeout(4000)
        page.locator(".scrolled").evaluate("main => { main.scrollTop = 0; }")
        keep(page, "similar")
        page.goto(f"{app.url}/map")
        page.locator("canvas.points[data-points='200']").wait_for()
        page.wait_for_timeout(500)
        keep(page, "map")


if __name__ == "__main__":
    take_pictures(Path(sys.argv[1]))
