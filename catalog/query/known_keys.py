"""Suggests keys of the metadata for fields that filters name without the prefix or mistyped."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from catalog.filters.fields import advise_on_field
from catalog.query.differences import find_keys
from catalog.query.sampling import sample_episodes
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog.query.api import Queries


@contextmanager
def suggest_keys(query: Queries) -> Iterator[None]:
    """Name the key of the archive's metadata that is meant, in errors about fields that there are not."""
    try:
        yield
    except FilterError as error:
        if error.field:
            advice = advise_on_field(error.field, find_keys(sample_episodes(query)))
            error.args = (str(error).replace(advise_on_field(error.field), advice),)
        raise
