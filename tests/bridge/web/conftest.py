"""The browser that the tests of a module share."""

from __future__ import annotations

import pytest
from web_app import running_browser


@pytest.fixture(scope="module")
def browser():
    with running_browser() as running:
        yield running
