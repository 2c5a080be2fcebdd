"""One archive that the browser looks at, for all tests of a process: to make and serve it takes seconds."""

from __future__ import annotations

import shutil

import pytest
from web_app import running_app, signed_in, watched_page, write_episodes

from wshard import TrajectoryIngestor


@pytest.fixture(scope="session")
def app(tmp_path_factory):
    """Serve twelve episodes and a copy of one; tests leave other marks on them, and expect only their own."""
    folder = tmp_path_factory.mktemp("pages")
    write_episodes(folder / "episodes")
    shutil.copy(folder / "episodes" / "02.wshard", folder / "episodes" / "copy-of-02.wshard")
    with TrajectoryIngestor(folder / "lab") as ingestor:
        assert not ingestor.ingest([folder / "episodes"]).failed
    with running_app(folder / "lab") as running:
        yield running


@pytest.fixture(scope="session")
def context(browser, app):
    with signed_in(browser, app, 900) as context:
        yield context


@pytest.fixture
def page(context):
    """Give a page on which no script may fail; the server may refuse what a test asks."""
    refused = ("400", "404", "409", "Failed to load", "script-src")
    with watched_page(context, lambda line: not any(text in line.text for text in refused)) as page:
        yield page
