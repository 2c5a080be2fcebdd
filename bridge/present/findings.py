"""Findings about an archive and its data as JSON-able dicts: checks, damage, duplicates and leaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridge.present.episodes import present_address, present_episode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bridge.curation.duplicates import Twin
    from bridge.episodes.read import Failure
    from bridge.maintenance.findings import Finding
    from bridge.quality.check import Checkup


def present_checkup(one: Checkup) -> dict[str, Any]:
    """Return what the quality checks found in one file."""
    return {
        **present_address(one.address),
        "episode_id": one.episode_id,
        "uid": one.uid,
        "scores": dict(one.scores),
        "findings": [{"check": found.check, "reason": found.reason} for found in one.findings],
    }


def present_finding(finding: Finding) -> dict[str, Any]:
    """Return one finding of `wshard fsck`, with advice; episode: its id in the catalog, 0 for none or several."""
    return {
        "code": finding.code,
        "where": finding.where,
        "message": finding.message,
        "episode": finding.episode,
        "seen": None if finding.seen is None else str(finding.seen),
        "advice": finding.advice,
    }


def present_failures(failures: Iterable[Failure]) -> list[dict[str, str]]:
    """Return the files that could not be read or embedded, each with its error."""
    return [{**present_address(one.address), "error": one.error} for one in failures]


def group_twins(twins: Iterable[Twin], groups: Mapping[int, int]) -> dict[int, list[Twin]]:
    """Return the pairs of each group of episodes, the group with the smallest id first."""
    found: dict[int, list[Twin]] = {}
    for twin in sorted(twins, key=lambda twin: groups[twin.left.id]):
        found.setdefault(groups[twin.left.id], []).append(twin)
    return found


def present_group(group: int, twins: Sequence[Twin]) -> dict[str, Any]:
    """Return a group of duplicates: its number, its episodes, and the pairs that connect them."""
    rows = {row.id: row for twin in twins for row in (twin.left, twin.right)}
    members = [present_episode(rows[id_]) for id_ in sorted(rows)]
    return {"group": group, "episodes": members, "pairs": [present_pair(twin) for twin in twins]}


def present_pair(twin: Twin) -> dict[str, Any]:
    """Return a pair of episodes that are the same, with the timesteps [start, stop) of either that agree."""
    left, right = spans_of(twin)
    return {
        "kind": twin.kind,
        "apart": twin.apart,
        "left": present_episode(twin.left),
        "right": present_episode(twin.right),
        "left_span": list(left),
        "right_span": list(right),
    }


def spans_of(twin: Twin) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the timesteps [start, stop) of the left and of the right episode that are the same."""
    start, stop = max(0, twin.shift), min(twin.left.length, twin.right.length + twin.shift)
    start, stop = twin.span or (start, stop)
    return (start, stop), (start - twin.shift, stop - twin.shift)
