"""The pictures of the docs, taken of the demo archive (`make pictures`); the gate checks that they are there."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import pytest
from paths import ROOT
from PIL import Image
from web_app import running_app, running_browser

from wshard.container.atomic_write import publish

FOLDER = ROOT / "docs" / "pictures"
NAMES = ("episodes", "episode", "similar", "map")


def keep(page, name):
    """Write what the page shows, in few colours: half the bytes, and no difference to the eye."""
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    with publish(FOLDER / f"{name}.png") as file:
        picture.save(file, "PNG", optimize=True)


@pytest.mark.skipif("WSHARD_DEMO" not in os.environ, reason="make pictures takes them of the demo archive")
def test_pictures_are_taken():
    FOLDER.mkdir(exist_ok=True)
    with running_app(Path(os.environ["WSHARD_DEMO"])) as app, running_browser() as browser:
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
        page.get_by_role("heading", name="Recorded").evaluate("head => head.parentElement.remove()")
        page.wait_for_timeout(800)
        keep(page, "episode")
        page.goto(f"{app.url}/?q=episode:drawer-open-v3-003")
        page.locator(".grid .rows a").first.click()
        page.locator(".lane .u-over").first.wait_for()
        page.goto(re.sub(r"\?.*", "?span=30:70&similar=1", page.url))
        page.locator(".hit .score").nth(3).wait_for(timeout=60000)
        page.wait_for_timeout(1500)
        page.set_viewport_size({"width": 1280, "height": 860})
        page.get_by_role("heading", name="Recorded").evaluate("head => head.parentElement.remove()")
        page.keyboard.press("f")
        page.wait_for_timeout(1500)
        page.locator(".scrolled").evaluate("main => { main.scrollTop = 0; }")
        keep(page, "similar")
        page.goto(f"{app.url}/map")
        page.locator("canvas.points[data-points='200']").wait_for()
        page.wait_for_timeout(500)
        keep(page, "map")


def test_the_pages_have_their_pictures():
    page = (ROOT / "docs" / "app.md").read_text()
    for name in NAMES:
        assert f"(pictures/{name}.png)" in page
        with Image.open(FOLDER / f"{name}.png") as picture:
            assert picture.width == 1280
        assert (FOLDER / f"{name}.png").stat().st_size < 200_000
    first = re.search(r"!\[[^]]*\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert first[1] == "docs/pictures/similar.png", "the first picture of the README is the app"
