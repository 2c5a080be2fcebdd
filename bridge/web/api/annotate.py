"""Routes that change annotations: tags, notes, reviews, scores."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from bridge.web.endpoints import ApiCall, Endpoint, Parameter
from catalog.filters.parse import as_where
from catalog.filters.where import Compare
from wshard.errors import RequestError
from wshard.messages import plural

if TYPE_CHECKING:
    from collections.abc import Callable

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
    ids, catalog = chosen_ids(call), call.archive.catalog
    tag, untag = catalog.annotations.tag, catalog.annotations.untag
    chosen = Compare("uid", "in", call["episodes"]) if call["episodes"] else as_where(call["where"])
    had = set(catalog.query.ids(chosen & Compare("tag", "eq", call["name"])))
    changed = [number for number in ids if (number in had) == call["remove"]]
    act, back = (untag, tag) if call["remove"] else (tag, untag)
    count = act(ids, call["name"])
    return {"episodes": len(ids), "changed": count, **_undo(call, lambda: back(changed, call["name"]))}


def _undo(call: ApiCall, act: Callable[[], object]) -> dict[str, int]:
    return {"undo": call.archive.undos.remember(call.account.name, act)}


def undo_change(call: ApiCall) -> dict[str, Any]:
    """Undo a change of annotations for all of its episodes."""
    call.archive.undos.run(call["undo"], call.account.name)
    return {"undone": call["undo"]}


def write_notes(call: ApiCall) -> dict[str, Any]:
    """Write a note about episodes."""
    annotations = call.archive.catalog.annotations
    notes = annotations.add_note(chosen_ids(call), call["text"], who=call.account.name)
    numbers = [one.id for one in notes]

    def take_away() -> None:
        for number in numbers:
            annotations.remove_note(number)

    undo = _undo(call, take_away)
    return {"items": [asdict(one) for one in notes[:_SHOWN]], "total": len(notes), **undo}


def remove_note(call: ApiCall) -> dict[str, Any]:
    """Remove a note."""
    call.archive.catalog.annotations.remove_note(call["id"])
    return {"removed": call["id"]}


def review_episodes(call: ApiCall) -> dict[str, Any]:
    """Set the review state of episodes, or undo the last review of each."""
    ids, annotations = chosen_ids(call), call.archive.catalog.annotations
    if (call["state"] is None) != call["undo"]:
        raise RequestError("expected a state, or undo")
    if call["undo"]:
        reviews, undo = annotations.undo_review(ids, who=call.account.name), {}
    else:
        reviews = annotations.review(ids, call["state"], who=call.account.name)
        undo = _undo(call, lambda: annotations.undo_review(ids, who=call.account.name))
    return {"items": [asdict(one) for one in reviews[:_SHOWN]], "total": len(reviews), "episodes": len(ids), **undo}


def set_scores(call: ApiCall) -> dict[str, Any]:
    """Set a score of episodes, or remove it if no value is given."""
    ids, name, catalog = chosen_ids(call), call["name"], call.archive.catalog
    facts = catalog.query.facts(ids, parts=["scores"])
    before = {number: found.scores[name] for number, found in facts.items() if name in found.scores}
    drop, rate = catalog.annotations.drop_scores, catalog.annotations.set_scores

    def restore() -> None:
        drop(name, [number for number in ids if number not in before])
        rate(name, before)

    changed = drop(name, ids) if call["value"] is None else rate(name, dict.fromkeys(ids, call["value"]))
    return {"episodes": len(ids), "changed": changed, **_undo(call, restore)}


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
        "Take back a change of tags, notes, reviews or scores",
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
