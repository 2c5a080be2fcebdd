"""The verb that shows all that an archive knows of episodes."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catalog.cli.common import ArchiveOption, find_episode, open_catalog, print_table
from wshard.cli.common import JsonOption, print_items, reported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog.catalog import Catalog
    from catalog.records import Asset, EpisodeRow, Facts, LaneFacts


@reported()
def show(
    episodes: Annotated[list[str], typer.Argument(help="Episode ids, uids or files.", metavar="EPISODES")],
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what the archive knows of episodes."""
    with open_catalog(archive) as opened:
        rows = [find_episode(opened, name) for name in episodes]
        ids = [row.id for row in rows]
        facts, files = opened.query.facts(ids), opened.episodes.assets(ids)
        about = _about(opened, rows, files)
    if as_json:
        print_items([_as_json(one, facts[id_], files[id_]) for one, id_ in zip(about, ids, strict=True)])
        return
    for number, (one, id_) in enumerate(zip(about, ids, strict=True)):
        if number:
            typer.echo()
        _print(one, facts[id_], files[id_])


def _about(opened: Catalog, rows: Sequence[EpisodeRow], files: Mapping[int, Sequence[Asset]]) -> list[dict[str, Any]]:
    """Return what the archive knows of each episode, and whether its files are there."""
    layouts = {layout.id: layout.lanes for layout in opened.query.layouts()}
    return [
        {
            **row._asdict(),
            "address": str(row.address),
            "file_is_there": all(Path(file.path).exists() for file in files[row.id]),
            "lanes": {lane.name: f"{lane.dtype}{list(lane.shape)}" for lane in layouts[row.layout_id]},
        }
        for row in rows
    ]


def _said(facts: Facts) -> dict[str, Any]:
    """Return what people and checks said of an episode."""
    return {name: part for name, part in asdict(facts).items() if part and name not in ("lanes", "embedded", "assets")}


def _as_json(about: dict[str, Any], facts: Facts, files: Sequence[Asset]) -> dict[str, Any]:
    stored = {name: _stored(lane) for name, lane in facts.lanes.items()}
    return about | {"stored_lanes": stored, "files": [asdict(file) for file in files]} | _said(facts)


def _print(about: dict[str, Any], facts: Facts, files: Sequence[Asset]) -> None:
    pairs = [(key, value) for key, value in about.items() if key not in ("metadata", "lanes", "layout_id", "id")]
    pairs += [(f"metadata.{key}", value) for key, value in about["metadata"].items()]
    pairs += [(f"lane {key}", f"{value}{_stored_text(facts.lanes[key])}") for key, value in about["lanes"].items()]
    if len(files) > 1:
        pairs += [(file.role, f"{Path(file.path).name}, {file.size:,} bytes") for file in files]
    pairs += _said(facts).items()
    texts = [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for _, value in pairs]
    print_table(("", ""), [(key, text) for (key, _), text in zip(pairs, texts, strict=True)], whole=True)


def _stored(lane: LaneFacts) -> dict[str, Any]:
    return {"rate": lane.rate, **(asdict(lane.storage) if lane.storage else {})}


def _stored_text(lane: LaneFacts) -> str:
    """Return what stands behind a lane's type; an archive of older software may know nothing of it."""
    rate = f", {lane.rate:g} Hz" if lane.rate else ""
    there = lane.storage
    return rate + (f", {there.codec}, {there.bytes:,} bytes, {there.stored:,} stored" if there else "")
