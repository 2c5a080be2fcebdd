"""Routes of the review queues: unreviewed episodes, duplicates, leaks, outliers, doubtful labels."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from bridge.curation.archive_vectors import group_by_space
from bridge.curation.duplicates import find_duplicates, find_leaks, group_episodes
from bridge.curation.outliers import LEAST
from bridge.curation.shared_pieces import find_pieces, find_shared
from bridge.curation.signals import find_mislabeled, find_outliers
from bridge.present.episodes import present_episode, present_ranking
from bridge.present.findings import (
    describe_gaps,
    describe_left_out,
    describe_small,
    describe_unlabelled,
    group_twins,
    present_group,
    present_pair,
)
from bridge.present.jobs import present_job
from bridge.web.api.listing import WHERE, list_fields
from bridge.web.endpoints import ApiCall, Endpoint, Parameter
from catalog.filters.parse import as_where
from catalog.filters.where import Compare
from wshard.core.messages import plural
from wshard.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.curation.signals import Valued
    from bridge.curation.twins import Twins
    from bridge.support.progress import Progress
    from bridge.web.served import ServedArchive
    from catalog.filters.where import Where

_MOST: Final = 1000  # items of an answer
_RARE: Final = 3.0  # values of outliers above this one are rare
_OUTVOTED: Final = 0.5  # doubts above this one: another label has more votes
_DIGITS: Final = 9  # of a doubt: what differs in later ones is rounding
_LEAST: Final = 10  # episodes of a ranking that are listed anyway
_Found = tuple[list[dict[str, Any]], dict[str, Any]]  # items, and what is said of all of them


def show_queue(call: ApiCall) -> dict[str, Any]:
    """Return a queue as last computed, or the job that computes it; stale: the archive has changed since.

    A queue does not change while people work through it; fresh: compute it again.
    """
    archive, name = call.archive, call["name"]
    find = _QUEUES.get(name)
    if find is None and name != "unreviewed":
        raise RequestError(f"expected a queue among unreviewed, {', '.join(_QUEUES)}, found {name!r}", 404)
    if name == "leaks" and not (call["left"] and call["right"]):
        raise RequestError("expected two sets, left and right: filters, or names of collections")
    key = (name, *(call[one] or "" for one in ("where", "label", "left", "right", "space")), "pieces" * call["pieces"])
    cached = archive.queues.get(key)
    if cached is not None and not call["fresh"]:
        return {**cached, "stale": cached["instant"] != _instant(archive)}

    if find is None:  # it is looked up, not computed: no other job need end first
        found = _find_unreviewed(call) | {"instant": _instant(archive), "found_at": time.time()}
        archive.keep_queue(key, found)
        return {**found, "stale": False}
    call.check_may_compute(f"the queue {name}", f"`wshard {name}`")

    def work(progress: Progress) -> dict[str, int]:
        instant = _instant(archive)
        items, about = find(call, progress)
        queue = {"items": items[:_MOST], "total": len(items), **about, "instant": instant, "found_at": time.time()}
        archive.keep_queue(key, queue)
        return {"total": len(items)}

    kind = " ".join(["queue", *(one for one in key if one and one != call["space"])])
    return {"job": present_job(archive.jobs.start(kind, work, key=("queue", *key), who=call.account.name))}


def _instant(archive: ServedArchive) -> str:
    return "/".join(map(str, archive.catalog.instant()))


def _find_unreviewed(call: ApiCall) -> dict[str, Any]:
    where, query = (
        as_where(f"-review:* ({call['where']})" if call["where"] else "-review:*"),
        call.archive.catalog.query,
    )
    page = query.select(where, order="episode_id", limit=_MOST)
    return {"items": [present_episode(row) for row in page.rows], "total": query.count(where)}


def _duplicates(call: ApiCall, progress: Progress) -> _Found:
    archive = call.archive.archive
    found = find_duplicates(archive, call["where"], space=call["space"], progress=progress)
    if call["pieces"]:
        found = found.add(find_pieces(archive, call["where"], space=call["space"], progress=progress))
    ids = archive.catalog.query.ids(call["where"])
    groups = group_twins(found, group_episodes(ids, found))
    return [present_group(group, pairs) for group, pairs in groups.items()], _gaps(found, plural(len(ids), "episode"))


def _leaks(call: ApiCall, progress: Progress) -> _Found:
    left, right = (_read_set(call.archive, call[side]) for side in ("left", "right"))
    found = find_leaks(call.archive.archive, left, right, progress=progress)
    if call["pieces"]:
        found = found.add(find_shared(call.archive.archive, left, right, progress=progress))
    tested = call.archive.catalog.query.count(right)
    return [present_pair(one) for one in found], _gaps(found, f"{tested} episodes of the second set")


def _gaps(found: Twins, episodes: str) -> dict[str, str]:
    """Return what could not be compared as the reason why there are no more, if anything."""
    gaps = "; ".join(describe_gaps(found, episodes))
    return {"cut": gaps} if gaps else {}


def _read_set(archive: ServedArchive, text: str) -> Where | str:
    """Return the filter for a collection of that name, or the text as a filter."""
    named = {one.name for one in archive.catalog.collections.all()}
    return Compare("collection", "eq", text) if text in named else text


def _outliers(call: ApiCall, progress: Progress) -> _Found:
    found = find_outliers(call.archive.archive, call["where"], space=call["space"], progress=progress)
    items, about = _cut(found, _RARE, f"with a distance above {_RARE:g}, which is rare")
    groups, _ = group_by_space(call.archive.archive, call["where"], call["space"])
    few = sum(len(ids) for _, ids in groups if len(ids) < LEAST)
    return items, about | _left_out(call, len(found), describe_small(few, LEAST))


def _mislabeled(call: ApiCall, progress: Progress) -> _Found:
    label = call["label"] or next(iter(list_fields(call)["labels"]), "env")
    found = find_mislabeled(call.archive.archive, label, call["where"], space=call["space"], progress=progress)
    doubtful = [one for one in found if round(one.value, _DIGITS) > _OUTVOTED]
    about = {"of": len(found), "cut": "those whose neighbours have another label more often"}
    compared = sum(len(ids) for _, ids in group_by_space(call.archive.archive, call["where"], call["space"])[0])
    return present_ranking(doubtful), about | _left_out(
        call, compared, describe_unlabelled(compared, len(found), label)
    )


def _left_out(call: ApiCall, compared: int, more: Sequence[str] = ()) -> dict[str, str]:
    """Return which episodes that pass the filter are not among those that were compared, and why, if any."""
    left_out = "; ".join([*describe_left_out(call.archive.catalog.query.count(call["where"]), compared), *more])
    return {"left_out": left_out} if left_out else {}


def _cut(ranked: list[Valued], limit: float, reason: str) -> _Found:
    """Return those above the limit, but at least a few of the first, and where the ranking was cut."""
    above = sum(one.value > limit for one in ranked)
    first = f"the first {_LEAST}" if len(ranked) > _LEAST else "all"
    cut = f"those {reason}" if above >= _LEAST else f"{first}, {above} of them {reason}"
    return present_ranking(ranked[: max(above, _LEAST)]), {"of": len(ranked), "cut": cut}


_QUEUES: Final = {
    "duplicates": _duplicates,
    "leaks": _leaks,
    "outliers": _outliers,
    "mislabeled": _mislabeled,
}

ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/api/queues/{name}",
        "A review queue (unreviewed, duplicates, leaks, outliers, mislabeled), or the job that is finding it",
        show_queue,
        (
            Parameter("name", "unreviewed, duplicates, leaks, outliers or mislabeled", required=True),
            WHERE,
            Parameter(
                "label", "for mislabeled: the field with the labels. Default: what tells episodes apart", default=""
            ),
            Parameter("left", "for leaks: a filter or a collection, such as the training set", default=""),
            Parameter("right", "for leaks: the other filter or collection", default=""),
            Parameter("space", "fingerprint prefix of the Space, if there are several"),
            Parameter("pieces", "for duplicates and leaks: also shared pieces of episodes", bool, default=False),
            Parameter("fresh", "compute the queue again", bool, default=False),
        ),
    ),
)
