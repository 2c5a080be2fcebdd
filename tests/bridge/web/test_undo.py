"""Undoing a change reverts what is still as the change left it, and never what others did later."""

from __future__ import annotations

from contextlib import ExitStack

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from web_app import make_archive, need_pages, running_app

from bridge.web.accounts import Account, hash_token
from bridge.web.undo import Change, Undos
from catalog.testing.records import make_record
from wshard import Catalog
from wshard.errors import CatalogBusyError, RequestError


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Give two people, signed in by their tokens as programs are, and the uids of four episodes."""
    need_pages()
    accounts = {hash_token(name): Account(name) for name in ("ann", "bob")}
    archive = make_archive(tmp_path_factory.mktemp("undo"), 4)
    with ExitStack() as stack:
        app = stack.enter_context(running_app(archive, accounts=accounts))
        clients = [
            stack.enter_context(httpx.Client(base_url=app.url, headers={"authorization": f"Bearer {name}"}))
            for name in ("ann", "bob")
        ]
        uids = [row["uid"] for row in clients[0].get("/api/episodes").json()["items"]]
        yield (*clients, uids)


def post(client, path, **body: object):
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def count(client, where):
    return client.get("/api/count", params={"where": where}).json()["total"]


def test_a_rating_of_somebody_else_stays(people):
    ann, bob, uids = people
    number = post(ann, "/api/scores", episodes=uids[:2], name="rating", value=1)["undo"]
    post(bob, "/api/scores", episodes=uids[:1], name="rating", value=5)
    undone = post(ann, "/api/undos", undo=number)
    assert undone["episodes"] == 1
    name = ann.get(f"/api/episodes/{uids[0]}").json()["name"]
    assert undone["changed_since"] == [{"uid": uids[0], "name": name}]
    assert undone["changed_since_total"] == 1
    assert (count(ann, "score.rating:5"), count(ann, "score.rating:*")) == (1, 1)
    assert ann.post("/api/undos", json={"undo": number}).status_code == 409


def test_an_equal_rating_of_somebody_else_stays(people):
    ann, bob, uids = people
    number = post(ann, "/api/scores", episodes=uids, name="agreed", value=3)["undo"]
    post(bob, "/api/scores", episodes=uids[:1], name="agreed", value=3)
    assert post(ann, "/api/undos", undo=number)["changed_since_total"] == 1
    assert count(ann, "score.agreed:3") == 1


def test_a_removed_rating_comes_back_only_where_nobody_rated_again(people):
    ann, bob, uids = people
    post(bob, "/api/scores", episodes=uids[:2], name="grip", value=2)
    number = post(ann, "/api/scores", episodes=uids[:2], name="grip")["undo"]
    post(bob, "/api/scores", episodes=uids[:1], name="grip", value=4)
    assert post(ann, "/api/undos", undo=number)["changed_since_total"] == 1
    assert (count(ann, "score.grip:4"), count(ann, "score.grip:2")) == (1, 1)


def test_a_review_of_somebody_else_stays(people):
    ann, bob, uids = people
    number = post(ann, "/api/reviews", episodes=uids[:2], state="accepted")["undo"]
    post(bob, "/api/reviews", episodes=uids[:1], state="rejected")
    undone = post(ann, "/api/undos", undo=number)
    assert (undone["episodes"], [one["uid"] for one in undone["changed_since"]]) == (1, uids[:1])
    assert count(ann, f"uid:{uids[0]} review:rejected reviewer:bob") == 1
    assert count(ann, f"uid:{uids[1]} review:*") == 0


def test_a_tag_that_somebody_else_took_off_and_set_again_stays(people):
    ann, bob, uids = people
    number = post(ann, "/api/tags", episodes=uids[:3], name="keep")["undo"]
    post(bob, "/api/tags", episodes=uids[:1], name="keep", remove=True)
    post(bob, "/api/tags", episodes=uids[:1], name="keep")
    post(bob, "/api/tags", episodes=uids[1:2], name="keep", remove=True)
    undone = post(ann, "/api/undos", undo=number)
    assert (undone["episodes"], undone["changed_since_total"]) == (1, 2)
    assert count(ann, "tag:keep") == count(ann, f"uid:{uids[0]} tag:keep") == 1


def test_notes_that_are_gone_do_not_keep_the_others(people):
    ann, bob, uids = people
    written = post(ann, "/api/notes", episodes=uids[:2], text="slips")
    assert bob.delete(f"/api/notes/{written['items'][0]['id']}").status_code == 200
    undone = post(ann, "/api/undos", undo=written["undo"])
    assert (undone["episodes"], undone["changed_since_total"]) == (1, 1)
    assert count(ann, "text:slips") == 0


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(("ann", "bob")),
        st.one_of(
            st.tuples(st.sampled_from(("rate 1", "rate 2", "unrate")), st.sets(st.integers(1, 3), min_size=1)),
            st.tuples(st.just("undo"), st.integers(0, 6)),
        ),
    ),
    max_size=8,
)


@settings(max_examples=40)
@given(steps=_STEPS)
@example(steps=[("ann", ("rate 1", {1, 2})), ("bob", ("rate 2", {1})), ("ann", ("undo", 0)), ("bob", ("undo", 1))])
def test_undoing_in_any_order_leaves_the_last_change_that_stands(steps, shared):
    """Check each episode against the list of the changes that were made of it and were not undone."""
    catalog, undos = shared, Undos()
    catalog.annotations.drop_scores("rating", [1, 2, 3])
    standing: dict[int, list[tuple[int, float | None]]] = {number: [] for number in (1, 2, 3)}
    values = {"rate 1": 1.0, "rate 2": 2.0, "unrate": None}
    numbers: list[int] = []
    for who, (step, what) in steps:
        if step != "undo":
            value = values[step]
            numbers.append(undos.make(who, lambda ids=what, value=value: rating(catalog, ids, value))["undo"])
            for one in what:
                standing[one].append((numbers[-1], value))
        elif numbers and what < len(numbers):
            number = numbers[what]
            try:
                undone = undos.run(number, who)
            except RequestError:
                continue
            for one in (1, 2, 3):
                changed = [*undone.reverted, *undone.changed_since]
                if one in undone.reverted:
                    assert standing[one][-1][0] == number, "nobody has changed it later"
                elif one in changed:
                    assert standing[one][-1][0] != number
                standing[one] = [
                    change for change in standing[one] if change[0] != number or one in undone.changed_since
                ]
        found = {number: facts.scores.get("rating") for number, facts in catalog.query.facts([1, 2, 3]).items()}
        assert found == {number: changes[-1][1] if changes else None for number, changes in standing.items()}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with Catalog.open(tmp_path_factory.mktemp("undo") / "catalog.db", create=True) as catalog:
        catalog.episodes.register([make_record(number) for number in range(3)])
        yield catalog


def rating(catalog, ids, value):
    """Change a rating as the route does."""
    swap, new = catalog.annotations.swap_scores, dict.fromkeys(ids, value)
    before = swap("rating", new)

    def revert(some):
        return swap("rating", {one: before[one] for one in some}, new)

    return Change({}, before, revert, ("rating",), ids)


def test_an_undo_that_failed_can_be_tried_again():
    busy = [True]

    def revert(ids):
        if busy:
            raise CatalogBusyError("busy")
        return ids

    undos = Undos()
    number = undos.make("ann", lambda: Change({}, [1], revert))["undo"]
    with pytest.raises(CatalogBusyError):
        undos.run(number, "ann")
    busy.clear()
    with pytest.raises(RequestError):
        undos.run(number, "bob")
    assert undos.run(number, "ann").reverted == [1]
