"""Find features of cameras that nothing uses any more: those of removed episodes, and of encoders of removed Spaces."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from bridge.pictures.camera_files import FOLDER
from bridge.pictures.chosen_encoder import read_fingerprint
from bridge.support.batches import batches
from catalog.filters.where import Compare
from embedders.space import Space

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog.catalog import Catalog
    from catalog.vectors.records import SpaceRow

_WEIGHTS: Final = re.compile("[0-9a-f]{64}")  # the sha256 of a network, in fingerprints and parameters


def find_unowned(archive_folder: Path, catalog: Catalog) -> Iterator[Path]:
    """Yield the files whose episodes are not in the catalog any more."""
    for paths in batches([*(archive_folder / FOLDER).glob("*/*.bin")]):
        uids = [path.name.rpartition("-")[0] for path in paths]
        rows = catalog.episodes.rows(catalog.query.ids(Compare("uid", "in", tuple({*uids}))))
        owned = {row.uid for row in rows.values()}
        yield from (path for path, uid in zip(paths, uids, strict=True) if uid not in owned)


def find_unused(archive_folder: Path, catalog: Catalog) -> Iterator[Path]:
    """Yield the folders of networks that neither a Space nor the encoder of questions by picture has."""
    definitions = " ".join(json.dumps(dict(one.parameters)) for one in map(_read_space, catalog.vectors.live_spaces()))
    used = {*_WEIGHTS.findall(definitions), *_WEIGHTS.findall(read_fingerprint(archive_folder) or "")}
    for folder in sorted((archive_folder / FOLDER).glob("*/")):
        weights = _WEIGHTS.findall(_find_maker(folder))
        if weights and used.isdisjoint(weights):
            yield folder


def _read_space(row: SpaceRow) -> Space:
    return Space.from_json(row.definition)


def _find_maker(folder: Path) -> str:
    """Return the fingerprint of what made the files in a folder, "" if none says so."""
    for path in folder.glob("*.bin"):
        with suppress(OSError, ValueError, TypeError, KeyError, IndexError, RecursionError), path.open("rb") as file:
            return str(json.loads(file.readline())["state"][0])
    return ""
