"""Episodes of layouts, open until the test ends."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from wshard import open_episode
from wshard.formats.open import list_episodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from wshard import EpisodeFile


@pytest.fixture
def opened() -> Iterator[Callable[[Path, str], list[EpisodeFile]]]:
    """Open the episodes of a file, until the test ends."""
    with ExitStack() as stack:
        yield lambda path, how: [stack.enter_context(open_episode(address)) for address, _ in list_episodes(path, how)]


@pytest.fixture
def read(opened: Any) -> Callable[[Path, str], EpisodeFile]:
    """Open the first episode of a file."""
    return lambda path, how: opened(path, how)[0]
