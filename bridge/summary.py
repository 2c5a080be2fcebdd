"""An archive in short, as HTML for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from embedders.space import Space
from wshard.core.messages import plural

if TYPE_CHECKING:
    from catalog.catalog import Catalog

_MAX_SHOWN: Final = 10  # environments


def summarise_archive(name: str, catalog: Catalog) -> str:
    """Return how much an archive holds, of which environments and formats, and by which lanes it is searched."""
    count = catalog.query.count()
    values = catalog.query.facets(["env_id", "format"], limit=1000)
    lengths = [group.values["length"] for group in catalog.query.statistics(["length"])]
    timesteps = round(sum((one.mean or 0.0) * one.count for one in lengths))
    spaces = [Space.from_json(row.definition) for row in catalog.vectors.spaces("active")]
    lanes = dict.fromkeys(lane.name for space in spaces if not space.of_text for lane in space.lanes)
    facts = {
        "format": ", ".join(f"{value} ({number})" for value, number in values["format"]),
        "searched by": ", ".join(lanes) or "nothing yet: lab.ingest(...) embeds episodes",
    }
    environments = values["env_id"]
    rows = [(str(value), f"{number:,}") for value, number in environments[:_MAX_SHOWN]]
    if len(environments) > _MAX_SHOWN:
        rows.append((f"and {len(environments) - _MAX_SHOWN} more", ""))
    listed = "".join(f"<tr><td>{escape(one)}</td><td>{number}</td></tr>" for one, number in rows)
    about = "".join(f"<br>{key}: {escape(text)}" for key, text in facts.items() if text)
    head = f"<b>{escape(name)}</b>: {plural(count, 'episode')}, {plural(timesteps, 'timestep')}{about}"
    return f"<p>{head}</p><table><tr><th>environment</th><th>episodes</th></tr>{listed}</table>"
