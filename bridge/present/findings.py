"""Findings about an archive and its data as JSON-able dicts: checks, damage, duplicates and leaks."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Any, Final

from bridge.present.episodes import present_address, present_episode
from bridge.spaces.identity import describe
from wshard.core.episode.protocol import EpisodeAddress
from wshard.core.messages import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bridge.curation.twins import Twin, Twins
    from bridge.episodes.read import Failure
    from bridge.maintenance.findings import Finding
    from bridge.quality.check import Checkup

_NUMBER: Final = re.compile(r"\d+")
_LISTED: Final = 3  # episodes with the same problem that are listed one by one
_ROOT: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/]*|/?")  # what locations need in common to have a folder in common


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


def group_findings(findings: Sequence[Finding]) -> list[tuple[str, str, str]]:
    """Return rows (code, where, message) for a reader: one for all episodes of a folder with the same problem."""
    groups: dict[object, list[Finding]] = {}
    for number, one in enumerate(findings):
        same = _without_numbers(one) if one.seen is None else _find_move(one, one.seen)
        groups.setdefault((one.code, same, _find_root(one)) if one.episode else number, []).append(one)
    return [row for group in groups.values() for row in _describe_group(group)]


def _describe_group(group: Sequence[Finding]) -> list[tuple[str, str, str]]:
    if len(group) <= _LISTED:
        return [(one.code, one.where, one.message) for one in group]
    one, count = group[0], plural(len(group), "episode")
    if one.seen is not None:
        old, new = _find_move(one, one.seen)
        return [(one.code, old, f"the same data is now at {new}: {count}")]
    root = _find_root(one)
    places = [EpisodeAddress.parse(found.where).uri.removeprefix(root) for found in group]
    message = one.message if all(found.message == one.message for found in group) else f"{one.message} and the like"
    return [(one.code, root + posixpath.commonpath(places), f"{message}: {count}")]


def _without_numbers(finding: Finding) -> str:
    """Return a message by which files that are gone are the same problem if their names differ in numbers."""
    return _NUMBER.sub("0", finding.message) if finding.code == "incomplete" else finding.message


def _find_root(finding: Finding) -> str:
    return _ROOT.match(EpisodeAddress.parse(finding.where).uri)[0]  # type: ignore[index]  # matches any text


def _find_move(finding: Finding, seen: EpisodeAddress) -> tuple[str, str]:
    """Return the location, or else the innermost folders, from which and to which an episode was moved."""
    old, new = EpisodeAddress.parse(finding.where).uri, seen.uri
    while not seen.key and posixpath.basename(old) == posixpath.basename(new) != "":
        old, new = posixpath.dirname(old), posixpath.dirname(new)
    return old, new


def present_failures(failures: Iterable[Failure]) -> list[dict[str, str]]:
    """Return the files that could not be read or embedded, each with its error."""
    return [{**present_address(one.address), "error": one.error} for one in failures]


def group_twins(twins: Iterable[Twin], groups: Mapping[int, int]) -> dict[int, list[Twin]]:
    """Return the pairs of each group of episodes, the group with the smallest id first."""
    pairs_by_group: dict[int, list[Twin]] = {}
    for twin in sorted(twins, key=lambda twin: groups[twin.left.id]):
        pairs_by_group.setdefault(groups[twin.left.id], []).append(twin)
    return pairs_by_group


def present_group(group: int, twins: Sequence[Twin]) -> dict[str, Any]:
    """Return a group of duplicates: its number, its episodes, and the pairs that connect them."""
    rows = {row.id: row for twin in twins for row in (twin.left, twin.right)}
    members = [present_episode(rows[id_]) for id_ in sorted(rows)]
    return {"group": group, "episodes": members, "pairs": [present_pair(twin) for twin in twins]}


def present_compared(found: Twins, *, pieces: bool) -> dict[str, Any]:
    """Return by which Spaces copies were looked for, whether pieces were, the closest pair beyond, and what was not."""
    missed = None if found.closest is None else present_pair(found.closest)
    spaces = [describe(space) for space in found.spaces]
    return {"spaces": spaces, "pieces": pieces, "closest": missed, "alone": found.alone, "unread": found.unread}


def describe_gaps(found: Twins, episodes: str) -> list[str]:
    """Return sentences about what could not be compared; episodes: of what it is a part ("40 episodes")."""
    gaps = []
    if found.alone:
        without = "without vectors to compare with another's: only copies with equal data are found of these"
        gaps.append(f"{found.alone} of {episodes} {without}")
    if found.unread:
        why = "files are missing, damaged or changed since the ingest (`wshard fsck`)"
        gaps.append(f"{plural(found.unread, 'similar pair')} not compared: {why}")
    return gaps


def describe_left_out(total: int, compared: int) -> list[str]:
    """Return a sentence about the episodes, of `total`, that a ranking leaves out for lack of vectors, if any."""
    left_out = f"{total - compared} of {plural(total, 'episode')} left out: they have no vectors to compare"
    return [left_out] if compared < total else []


def describe_small(few: int, least: int) -> list[str]:
    """Return a sentence about the episodes in groups too small to tell what is rare, if there are any."""
    return [f"{plural(few, 'episode')} in groups of fewer than {least}: too few to tell what is rare"] if few else []


def describe_unlabelled(compared: int, labelled: int, label: str) -> list[str]:
    """Return a sentence about the compared episodes that a ranking by a label leaves out, if there are any."""
    left_out = f"{plural(compared - labelled, 'episode')} left out: they have no label {label!r}"
    return [left_out] if labelled < compared else []


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
    start, stop = max(0, twin.shift), min(twin.left.length, round(twin.right.length * twin.rate) + twin.shift)
    start, stop = twin.span or (start, stop)
    first, last = (round((place - twin.shift) / twin.rate) for place in (start, stop))
    return (start, stop), (first, min(last, twin.right.length))
