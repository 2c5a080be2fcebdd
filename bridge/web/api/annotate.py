"""Routes that change annotations: tags, notes, reviews, scores."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from bridge.web.endpoints import ApiCall, Endpoint, Parameter
from bridge.web.undo import Change
from wshard.core.messages import plural
from wshard.errors import RequestError

if TYPE_CHECKING:
    from catalog.records import Review

_SHOWN: Final = 1000  # notes and reviews of one answer
EPISODES: Final = (
    Parameter("episodes", "uids", many=True),
    Parameter("where", "all episodes that match this filter, instead of uids"),
    Parameter("expect", "with `where`: expected number of episodes; refused if it has changed", int, least=0),
)


def chosen_ids(call: ApiCall) -> list[int]:
    """Return the ids of the chosen episodes; RequestError if there are none, or if the matches have changed."""
    catalog, uids, where = call.archive.catalog, call["episodes"], call["where"]
    if bool(uids) == (where is not None):
        raise RequestError("expected episodes, or a filter (where) with their number (expect)")
    if uids:
        return [catalog.episodes.get(uid).id for uid in uids]
    ids = catalog.query.ids(where)
    if call["expect"] is None:
        raise RequestError(f"expected the number of episodes that will be changed (expect): {len(ids)} pass the filter")
    if len(ids) != call["expect"]:
        found = f"{plural(len(ids), 'episode')} pass now"
        raise RequestError(f"{call['expect']} were to be changed, but {found}: look again", 409)
    return ids


def tag_episodes(call: ApiCall) -> dict[str, Any]:
    """Add a tag to episodes, or remove it."""
    ids, name, swap = chosen_ids(call), call["name"], call.archive.catalog.annotations.swap_tag

    def change() -> Change:
        changed = swap(ids, name, tagged=not call["remove"])
        answer = {"episodes": len(ids), "changed": len(changed)}
        return Change(answer, changed, lambda some: swap(some, name, tagged=call["remove"]), ("tag", name), ids)

    return call.archive.undos.make(call.account.name, change)


def undo_change(call: ApiCall) -> dict[str, Any]:
    """Undo a change of annotations, where they are still as it left them, and name the other episodes."""
    undone = call.archive.undos.run(call["undo"], call.account.name)
    total = len(undone.changed_since)
    catalog = call.archive.catalog
    rows = [*catalog.episodes.rows(undone.changed_since[:_SHOWN]).values()]
    names = catalog.query.short_names(rows)
    changed_since = [{"uid": row.uid, "name": name} for row, name in zip(rows, names, strict=True)]
    answer = {"undone": call["undo"], "episodes": len(undone.reverted)}
    return {**answer, "changed_since": changed_since, "changed_since_total": total}


def write_notes(call: ApiCall) -> dict[str, Any]:
    """Write a note about episodes."""
    ids, annotations = chosen_ids(call), call.archive.catalog.annotations

    def change() -> Change:
        notes = annotations.add_note(ids, call["text"], who=call.account.name)
        answer = {"items": [asdict(one) for one in notes[:_SHOWN]], "total": len(notes)}
        numbers = {one.episode_id: one.id for one in notes}
        return Change(answer, numbers, lambda some: annotations.remove_notes(numbers[one] for one in some))

    return call.archive.undos.make(call.account.name, change)


def remove_note(call: ApiCall) -> dict[str, Any]:
    """Remove a note."""
    call.archive.catalog.annotations.remove_note(call["id"])
    return {"removed": call["id"]}


def review_episodes(call: ApiCall) -> dict[str, Any]:
    """Set the review state of episodes, or undo the last review of each."""
    ids, annotations, who = chosen_ids(call), call.archive.catalog.annotations, call.account.name
    if (call["state"] is None) != call["undo"]:
        raise RequestError("expected a state, or undo")

    def answer(reviews: list[Review]) -> dict[str, Any]:
        return {"items": [asdict(one) for one in reviews[:_SHOWN]], "total": len(reviews), "episodes": len(ids)}

    def change() -> Change:
        reviews = annotations.review(ids, call["state"], who=who)
        numbers = {one.episode_id: one.id for one in reviews}

        def revert(some: set[int]) -> list[int]:
            undone = annotations.undo_review(some, who=who, reviews=numbers.values())
            return [one.episode_id for one in undone]

        return Change(answer(reviews), numbers, revert)

    if call["undo"]:
        return answer(annotations.undo_review(ids, who=who))
    return call.archive.undos.make(who, change)


def set_scores(call: ApiCall) -> dict[str, Any]:
    """Set a score of episodes, or remove it if no value is given."""
    ids, name, swap = chosen_ids(call), call["name"], call.archive.catalog.annotations.swap_scores
    values = dict.fromkeys(ids, call["value"])

    def change() -> Change:
        before = swap(name, values)
        answer = {"episodes": len(ids), "changed": len(before)}
        return Change(answer, before, lambda some: swap(name, _only(before, some), values), ("score", name), ids)

    return call.archive.undos.make(call.account.name, change)


def _only(values: dict[int, float | None], ids: set[int]) -> dict[int, float | None]:
    return {number: value for number, value in values.items() if number in ids}


def _change(path: str, summary: str, answer: Any, *parameters: Parameter) -> Endpoint:
    return Endpoint("POST", path, summary, answer, (*EPISODES, *parameters), changes=True, body=True)


ENDPOINTS: Final = (
    _change(
        "/api/tags",
        "Tag episodes, or take the tag off them",
        tag_episodes,
        Parameter("name", "the tag", required=True),
        Parameter("remove", "remove the tag", bool, default=False),
    ),
    _change(
        "/api/notes", "Write a note about episodes", write_notes, Parameter("text", "text of the note", required=True)
    ),
    Endpoint(
        "DELETE",
        "/api/notes/{id}",
        "Take a note away",
        remove_note,
        (Parameter("id", "id of the note", int, required=True, least=0, most=1 << 62),),
        changes=True,
    ),
    _change(
        "/api/reviews",
        "Set the review state of episodes, or take back the last one",
        review_episodes,
        Parameter("state", "review state: accepted, rejected, or any text"),
        Parameter("undo", "undo the last review of each", bool, default=False),
    ),
    Endpoint(
        "POST",
        "/api/undos",
        "Take back a change of tags, notes, reviews or scores, where nobody has changed the same since",
        undo_change,
        (Parameter("undo", "number `undo` in the response to the change", int, required=True, least=0, most=1 << 40),),
        changes=True,
        body=True,
    ),
    _change(
        "/api/scores",
        "Set a score of episodes, or take it away",
        set_scores,
        Parameter("name", "name of the score", required=True),
        Parameter("value", "value of the score; none removes it", float),
    ),
)
