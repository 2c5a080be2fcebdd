"""Routes of few-shot search: a probe that learns from a few marked episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bridge.curation.probe import save_probe, train_probe
from bridge.present.probe import present_probe
from bridge.web.api.listing import WHERE
from bridge.web.endpoints import ApiCall, Endpoint, Parameter
from catalog.curation.listing import list_named

if TYPE_CHECKING:
    from bridge.curation.probe import Probe


def ask_probe(call: ApiCall) -> dict[str, Any]:
    """Return the values of a probe for the episodes: what `wshard probe --json` prints."""
    return present_probe(_train(call), call.archive.catalog.query, top=call["top"])


def keep_probe(call: ApiCall) -> dict[str, Any]:
    """Save the values of a probe as a score, and the positive episodes as a live collection of the same name."""
    probe = _train(call)
    named = save_probe(call.archive.archive, probe, call["name"], who=call.account.name)
    return {**present_probe(probe, call.archive.catalog.query, top=call["top"]), "collection": list_named(named)}


def _train(call: ApiCall) -> Probe:
    get = call.archive.catalog.episodes.get
    right, wrong = ([get(uid).id for uid in call[name]] for name in ("right", "wrong"))
    with call.archive.searching:
        return train_probe(call.archive.archive, right, wrong, call["where"], space=call["space"])


_PARAMETERS: Final = (
    Parameter("right", "uid of a positive example; may be repeated", many=True, required=True),
    Parameter("wrong", "uid of a negative example; may be repeated", many=True),
    WHERE,
    Parameter("space", "fingerprint prefix of the Space, if there are several"),
    Parameter("top", "number of hits", int, default=20, least=1, most=1000),
)

ENDPOINTS: Final = (
    Endpoint(
        "GET", "/api/probe", "Rank episodes by a few marked ones, as `wshard probe --json`", ask_probe, _PARAMETERS
    ),
    Endpoint(
        "POST",
        "/api/probe",
        "Save what a probe says as a score, and what is right as a live collection",
        keep_probe,
        (*_PARAMETERS, Parameter("name", "name of the score and of the collection", required=True)),
        changes=True,
        body=True,
    ),
)
