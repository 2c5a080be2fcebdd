"""Search results as JSON-able dicts."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bridge.present.episodes import present_address
from bridge.spaces.identity import describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bridge.hits import Hits
    from bridge.results import EpisodeRef
    from embedders.space import Space


def present_hits(hits: Hits, names: Sequence[str], *, moments: bool = False) -> dict[str, Any]:
    """Return hits, best first, with their short names and how they were found.

    moments: with their alignment even where there is none.
    """
    items = [
        present_hit(rank, ref, moment=moments) | {"name": name}
        for rank, (ref, name) in enumerate(zip(hits, names, strict=True), 1)
    ]
    answered = hits.answered
    result: dict[str, Any] = {
        "items": items,
        "total": len(items),
        "missing": hits.missing,
        "exact": hits.exact,
        "certainty": hits.certainty,
        **({"shards": answered.coverage} if answered.coverage else {}),
        "ranked_by": answered.ranked_by,
        "compared": answered.compared,
        "not_compared": [asdict(one) for one in answered.left_out],
        "milliseconds": round(hits.milliseconds, 3),
        "spaces": _present_spaces(answered.spaces),
        "others": _present_spaces(answered.others),
        "notes": list(answered.notes),
    }
    return result if hits.explained is None else result | {"explained": asdict(hits.explained)}


def present_hit(rank: int, ref: EpisodeRef, *, moment: bool = False) -> dict[str, Any]:
    """Return one hit; lanes, contributions and alignment only if present, or for a moment."""
    result: dict[str, Any] = {
        "rank": rank,
        "score": ref.score,
        "episode_id": ref.episode_id,
        "uid": ref.uid,
        "span": list(ref.span),
        **present_address(ref.address),
        "metadata": dict(ref.metadata),
    }
    if ref.compared_by:
        result["compared_by"] = [*ref.compared_by]
    if ref.seen is not None:
        result["seen"] = asdict(ref.seen)
    if ref.contributions:
        result |= {"contributions": dict(ref.contributions), "descriptors": dict(ref.descriptors)}
    if ref.alignment or moment:
        result |= {"lane_scores": dict(ref.lane_scores), "alignment": [list(pair) for pair in ref.alignment]}
    return result | {"remaining": ref.remaining} if moment else result


def _present_spaces(spaces: Iterable[Space]) -> list[dict[str, str]]:
    return [{"space": space.fingerprint, "about": describe(space)} for space in spaces]
