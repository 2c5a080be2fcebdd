"""Catalogued episodes as JSON-able dicts: summary, ranking by a value, or full details."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from bridge.episodes.open import exists
from wshard.core.episode.lanes import TIMESTAMPS
from wshard.core.episode.protocol import EpisodeAddress

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from bridge.curation.signals import Valued
    from catalog.catalog import Catalog
    from catalog.records import Asset, EpisodeRow, Facts, LaneDefinition, LaneFacts


def present_address(address: EpisodeAddress) -> dict[str, str]:
    """Return where an episode is: its file or location, its key there ("" if it is the only one), and both as text."""
    return {"file_path": address.uri, "key": address.key, "address": str(address)}


def present_episode(row: EpisodeRow) -> dict[str, Any]:
    """Return what names an episode: uid, episode_id, env_id, length, and its address."""
    return {
        "uid": row.uid,
        "episode_id": row.episode_id,
        "env_id": row.env_id,
        "length": row.length,
        **present_address(row.address),
    }


def find_rate(stored_lanes: Mapping[str, Mapping[str, Any]]) -> tuple[float | None, str]:
    """Return the timesteps per second of an episode, by its stored lanes, None where nobody knows; and in words."""
    rate = max((lane["rate"] for lane in stored_lanes.values() if lane.get("rate")), default=None)
    if rate is not None:
        return rate, f"{rate:.4g} Hz"
    return None, "irregular clock" if TIMESTAMPS in stored_lanes else "no rate stated"


def present_ranking(values: Sequence[Valued]) -> list[dict[str, Any]]:
    """Return episodes with their values, ranked from 1; with labels where another one is suggested."""
    return [
        {
            "rank": rank,
            "value": valued.value,
            **present_episode(valued.episode),
            **({"label": valued.label, "suggested": valued.suggested} if valued.suggested else {}),
        }
        for rank, valued in enumerate(values, 1)
    ]


def present_details(catalog: Catalog, rows: Sequence[EpisodeRow]) -> list[dict[str, Any]]:
    """Return everything the archive knows about each episode: row, files, lanes, annotations and check results.

    Of its collections, those that have a name: not the snapshots, which are known by their digests.
    """
    ids = [row.id for row in rows]
    facts, files = catalog.query.facts(ids), catalog.episodes.assets(ids)
    layouts = {layout.id: layout.lanes for layout in catalog.query.layouts()}
    named = {collection.name for collection in catalog.collections.all()}
    shown = {id_: _keep_collections(facts[id_], named) for id_ in ids}
    return [_present_detail(row, layouts[row.layout_id], shown[row.id], files[row.id]) for row in rows]


def _keep_collections(facts: Facts, named: Collection[str]) -> Facts:
    """Return the facts with those collections alone that have these names."""
    return replace(facts, collections=tuple(name for name in facts.collections if name in named))


def _present_detail(
    row: EpisodeRow, lanes: Sequence[LaneDefinition], facts: Facts, files: Sequence[Asset]
) -> dict[str, Any]:
    recorded = {
        name: part for name, part in asdict(facts).items() if part and name not in ("lanes", "embedded", "assets")
    }
    return {
        **{("file_path" if name == "path" else name): value for name, value in row._asdict().items()},
        "address": str(row.address),
        "file_is_there": exists(row.address) and all(exists(EpisodeAddress(file.path)) for file in files),
        "lanes": {lane.name: f"{lane.dtype}{list(lane.shape)}" for lane in lanes},
        "stored_lanes": {name: _present_storage(lane) for name, lane in facts.lanes.items()},
        "files": [_present_file(file) for file in files],
        **recorded,
    }


def _present_storage(lane: LaneFacts) -> dict[str, Any]:
    return {"rate": lane.rate, **(lane.storage._asdict() if lane.storage else {})}


def _present_file(file: Asset) -> dict[str, Any]:
    return {("file_path" if name == "path" else name): value for name, value in asdict(file).items()}
