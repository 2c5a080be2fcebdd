"""The pages of the app have their pictures, and the first one of the README is the app."""

from __future__ import annotations

import re

from paths import ROOT
from PIL import Image

FOLDER = ROOT / "docs" / "pictures"
NAMES = ("episodes", "episode", "similar", "frames", "map")


def test_the_pages_have_their_pictures():
    page = (ROOT / "docs" / "app.md").read_text()
    for name in NAMES:
        assert f"(pictures/{name}.png)" in page
        with Image.open(FOLDER / f"{name}.png") as picture:
            assert picture.width == 1280
        assert (FOLDER / f"{name}.png").stat().st_size < 200_000
    first = re.search(r"!\[[^]]*\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert first[1] == "docs/pictures/similar.png", "the first picture of the README is the app"
