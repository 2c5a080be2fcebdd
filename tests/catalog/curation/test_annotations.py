"""Notes, reviews, scores and lineage: what people say stays, and what is derived goes with the data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from databases import SQLITE_FIRST
from hypothesis import example, given, settings
from hypothesis import strategies as st

from catalog import Asset, Catalog, Lineage, Spread
from catalog.testing.contract import LANES, make_record
from catalog.testing.records import pack
from wshard.errors import CatalogError, EntryNotFoundError, FilterError

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def catalog(location: Path | str) -> Iterator[Catalog]:
    with Catalog.open(location, create=True) as opened:
        opened.episodes.register([make_record(number, metadata={"task": f"pick cube {number}"}) for number in range(6)])
        yield opened


def test_a_note_is_found_by_its_words_until_it_is_removed(catalog: Catalog) -> None:
    first, second = catalog.annotations.add_note([1, 2, 99], "The camera is BLURRED", who="ann")
    assert (first.episode_id, second.episode_id, first.who) == (1, 2, "ann")
    assert catalog.query.ids('"camera is" blurr*') == [1, 2]
    assert catalog.query.ids("note:*BLUR*") == [1, 2]
    assert catalog.query.ids("blurred cube") == [1, 2]
    assert catalog.query.ids('"blurred pick"') == []
    assert [note.text for note in catalog.query.facts([1])[1].notes] == ["The camera is BLURRED"]
    catalog.annotations.remove_note(first.id)
    assert catalog.query.ids("blurred") == [2]
    assert catalog.query.ids("note:*") == [2]
    assert catalog.query.ids('"pick cube 0"') == [1]
    for gone in (first.id, 99, -1, 2**70):
        with pytest.raises(EntryNotFoundError, match="expected the id of a note"):
            catalog.annotations.remove_note(gone)


def test_pages_of_words_by_id_show_every_episode_once(catalog: Catalog) -> None:
    catalog.annotations.add_note([1, 3, 4, 6], "red cube")
    for order, expected in (("id", [1, 3, 4, 6]), ("-id", [6, 4, 3, 1])):
        for limit in (1, 3, 10):
            seen, after = [], None
            while True:
                page = catalog.query.select('"red cube" pick', order=order, limit=limit, after=after)
                seen += [row.id for row in page.rows]
                after = page.next
                if after is None:
                    break
            assert seen == expected


@pytest.mark.parametrize("who", ["nul\0", "\ud800", "name \udcff of a file", None, 5])
def test_who_did_it_is_text_that_every_database_holds(catalog: Catalog, who: Any) -> None:
    catalog.annotations.review([1], "accepted")
    for act in (
        lambda: catalog.annotations.add_note([1], "text", who=who),
        lambda: catalog.annotations.review([1], "rejected", who=who),
        lambda: catalog.annotations.undo_review([1], who=who),
        lambda: catalog.collections.save_query("name", "length:5", who=who),
        lambda: catalog.collections.save_snapshot("name", "length:5", who=who),
    ):
        with pytest.raises(FilterError, match="who: expected text in UTF-8 without NUL, found"):
            act()
    assert [entry.who for entry in catalog.annotations.audit([1])] == [""]
    assert catalog.collections.all() == []


@pytest.mark.parametrize("text", ["nul\0", "\ud800"])
@SQLITE_FIRST
def test_names_that_no_database_holds_are_not_there(catalog: Catalog, text: str) -> None:
    for ask in (
        catalog.collections.picks,
        catalog.collections.drop,
        catalog.collections.snapshot,
        catalog.episodes.get,
    ):
        with pytest.raises(EntryNotFoundError):
            ask(text)
    with pytest.raises(FilterError, match="expected"):
        catalog.annotations.tag([1], text)
    with pytest.raises(CatalogError):
        catalog.maintenance.back_up(Path(text))


@pytest.mark.parametrize("text", ["", "  ", "nul\0", "\ud800"])
@SQLITE_FIRST
def test_empty_or_unstorable_text_is_refused(catalog: Catalog, text: str) -> None:
    with pytest.raises(FilterError, match="expected a note"):
        catalog.annotations.add_note([1], text)
    with pytest.raises(FilterError, match="expected a review state"):
        catalog.annotations.review([1], text)
    with pytest.raises(FilterError, match="expected a score's name"):
        catalog.annotations.set_scores(text, {1: 1.0})


def test_reviews_are_undone_one_by_one_and_the_audit_keeps_all(catalog: Catalog) -> None:
    catalog.annotations.review([1, 2], "accepted", who="ann")
    catalog.annotations.review([1], "rejected", who="bob")
    assert (catalog.query.ids("review:accepted"), catalog.query.ids("review:rejected")) == ([2], [1])
    assert catalog.query.ids("reviewer:bob reviewed_at:20*") == [1]
    assert [entry.state for entry in catalog.annotations.undo_review([1, 2, 3], who="cid")] == ["accepted", None]
    assert catalog.query.ids("review:accepted") == [1]
    assert catalog.query.ids("-review:*") == [2, 3, 4, 5, 6]
    assert catalog.query.facts([2])[2].review is None
    assert [entry.state for entry in catalog.annotations.undo_review([1, 2])] == [None]
    assert catalog.annotations.undo_review([1, 2]) == []
    audit = catalog.annotations.audit([1])
    assert [(entry.state, entry.who, entry.undoes is None) for entry in audit] == [
        ("accepted", "ann", True),
        ("rejected", "bob", True),
        ("accepted", "cid", False),
        (None, "", False),
    ]
    assert [audit[2].undoes, audit[3].undoes] == [audit[1].id, audit[0].id]


def test_changes_are_reverted_only_where_nothing_else_has_changed(catalog: Catalog) -> None:
    said = catalog.annotations
    own = {one.episode_id: one.id for one in said.review([1, 2], "accepted", who="ann")}
    said.review([1], "rejected", who="bob")
    assert [one.episode_id for one in said.undo_review([1, 2], who="ann", reviews=own.values())] == [2]
    assert catalog.query.ids("review:rejected") == catalog.query.ids("review:*") == [1]

    assert said.swap_tag([1, 2, 99], "good", tagged=True) == [1, 2]
    said.untag([1], "good")
    assert said.swap_tag([1, 2], "good", tagged=False) == [2]
    assert said.swap_tag([1, 2], "good", tagged=False) == []

    said.set_scores("rating", {2: 3.0})
    before = said.swap_scores("rating", {1: 1.0, 2: 1.0, 99: 1.0})
    assert before == {1: None, 2: 3.0}
    said.set_scores("rating", {1: 5.0})
    assert said.swap_scores("rating", before, {1: 1.0, 2: 1.0}) == {2: 1.0}
    assert {number: facts.scores for number, facts in catalog.query.facts([1, 2]).items()} == {
        1: {"rating": 5.0},
        2: {"rating": 3.0},
    }
    assert said.swap_scores("rating", {1: None, 2: None}, {1: 5.0, 2: None}) == {1: 5.0}
    with pytest.raises(FilterError, match="finite"):
        said.swap_scores("rating", {1: float("nan")})

    notes = said.add_note([1, 2], "slips")
    said.remove_note(notes[0].id)
    assert said.remove_notes([one.id for one in notes]) == [2]
    assert catalog.query.ids("text:slips") == []


@given(steps=st.lists(st.sampled_from(("a", "b", "undo")), max_size=12))
def test_undoing_is_taking_the_last_review_off_a_stack(steps: list[str], tmp_path_factory) -> None:
    stack: list[str] = []
    with Catalog.open(tmp_path_factory.mktemp("undo") / "catalog.db", create=True) as catalog:
        catalog.episodes.register([make_record(0)])
        for step in steps:
            if step == "undo":
                catalog.annotations.undo_review([1])
                stack = stack[:-1]
            else:
                catalog.annotations.review([1], step)
                stack.append(step)
        review = catalog.query.facts([1])[1].review
    assert (review and review.state) == (stack[-1] if stack else None)


@pytest.mark.long
@settings(max_examples=12)
@given(
    steps=st.lists(st.tuples(st.integers(1, 3), st.sampled_from(("a", "b", "undo"))), max_size=10),
    after=st.lists(st.sampled_from(("a", "undo")), max_size=4),
)
@example(steps=[(1, "a"), (2, "b"), (1, "undo")], after=["undo", "undo"])
def test_undoing_goes_on_where_episodes_became_parts_of_one(steps, after, tmp_path_factory) -> None:
    stacks: dict[int, list[tuple[int, str]]] = {1: [], 2: [], 3: []}
    with Catalog.open(tmp_path_factory.mktemp("joined") / "catalog.db", create=True) as catalog:
        parts = [make_record(number) for number in range(3)]
        catalog.episodes.register(parts)
        for moment, (number, step) in enumerate(steps):
            if step == "undo":
                catalog.annotations.undo_review([number])
                stacks[number] = stacks[number][:-1]
            else:
                catalog.annotations.review([number], step)
                stacks[number].append((moment, step))
        files = tuple(Asset("chunk", one.path, one.digest, 1, 1) for one in parts)
        (whole,) = catalog.episodes.register([replace(make_record(9), assets=files)])
        stack = [step for _, step in sorted(review for stack in stacks.values() for review in stack)]
        for step in ("", *after):
            if step == "undo":
                assert bool(catalog.annotations.undo_review([whole.id])) == bool(stack)
                stack = stack[:-1]
            elif step:
                catalog.annotations.review([whole.id], step)
                stack.append(step)
            review = catalog.query.facts([whole.id])[whole.id].review
            assert (review and review.state) == (stack[-1] if stack else None)
            assert catalog.query.ids("review:*") == ([whole.id] if stack else [])


def test_scores_replace_one_another_and_order_pages(catalog: Catalog) -> None:
    assert catalog.annotations.set_scores("quality", {1: 0.5, 2: 0.25, 99: 1.0}) == 2
    assert catalog.annotations.set_scores("quality", {2: 0.75}) == 1
    assert catalog.query.ids("score.quality:>=0.5") == [1, 2]
    assert catalog.query.ids("-score.quality:*") == [3, 4, 5, 6]
    assert catalog.query.facts([2])[2].scores == {"quality": 0.75}
    assert catalog.annotations.drop_scores("quality", [1, 3]) == 1
    assert catalog.query.ids("score.quality:*") == [2]
    for wrong in (float("nan"), float("inf"), True, "1"):
        with pytest.raises(FilterError, match="expected a finite number"):
            catalog.annotations.set_scores("quality", {1: wrong})  # type: ignore[dict-item]


def test_metadata_says_where_an_episode_comes_from(catalog: Catalog) -> None:
    origins = {
        "converted_from": ["file:///a.h5", "file:///b.h5", 3, " "],
        "recorded_by": "robot 7",
        "trimmed_from": None,
    }
    (done,) = catalog.episodes.register([make_record(1000, metadata=origins)])
    catalog.annotations.add_lineage([done.id], "trimmed_from", "uid")
    assert catalog.query.ids('lineage.recorded_by:"robot 7" lineage.converted_from:*b.h5*') == [done.id]
    catalog.episodes.register([make_record(1000, digest="trimmed", metadata={**origins, "recorded_by": "robot 8"})])
    said = {(each.relation, each.source) for each in catalog.query.facts([done.id])[done.id].lineage}
    converted = {("converted_from", f"file:///{name}.h5") for name in "ab"}
    assert said == converted | {("trimmed_from", "uid"), ("recorded_by", "robot 7"), ("recorded_by", "robot 8")}


def test_lineage_is_stated_once(catalog: Catalog) -> None:
    assert catalog.annotations.add_lineage([1, 2], "trimmed_from", "uid") == 2
    assert catalog.annotations.add_lineage([2, 3], "trimmed_from", "uid") == 1
    assert catalog.query.ids("lineage.trimmed_from:uid") == [1, 2, 3]
    assert catalog.query.ids("lineage.converted_from:*") == []
    assert catalog.query.facts([1])[1].lineage == (Lineage("trimmed_from", "uid"),)


def said(catalog: Catalog) -> int:
    catalog.annotations.tag([2], "good")
    catalog.annotations.add_note([2], "wobbles")
    catalog.annotations.review([2], "accepted")
    catalog.annotations.add_lineage([2], "recorded_by", "rig 3")
    return catalog.annotations.set_scores("quality", {2: 1.0})


ALL_SAID = "tag:good wobbles review:accepted lineage.recorded_by:*"


def test_a_changed_episode_keeps_the_annotations_and_loses_its_scores(catalog: Catalog) -> None:
    said(catalog)
    catalog.episodes.register([make_record(1, digest="new", metadata={"task": "push"})])
    assert catalog.query.ids(ALL_SAID + " push") == [2]
    assert catalog.query.ids("score.quality:* OR (wobbles pick)") == []


def test_a_moved_or_unchanged_episode_keeps_everything(catalog: Catalog) -> None:
    said(catalog)
    catalog.episodes.register([make_record(1, metadata={"task": "pick cube 1"})])
    catalog.episodes.register([make_record(1, folder="/elsewhere", moved_from=2)])
    assert catalog.query.ids(ALL_SAID + " score.quality:* path:/elsewhere/*") == [2]


def test_a_removed_episode_takes_everything_along(catalog: Catalog) -> None:
    said(catalog)
    catalog.annotations.undo_review([2])
    assert catalog.episodes.remove([2]) == 1
    assert (
        catalog.query.count("wobbles OR tag:* OR review:* OR lineage.recorded_by:* OR score.quality:* OR note:*") == 0
    )
    assert catalog.annotations.audit([2]) == []
    assert catalog.query.facts([2]) == {}


def test_statistics_of_lanes_are_stored_by_channel_and_as_a_whole(catalog: Catalog) -> None:
    spreads = (Spread(-1.0, 1.0, 0.0, 0.5), Spread(2.0, 4.0, 3.0, 1.0))
    catalog.episodes.register([make_record(7, lanes=(replace(LANES[1], spread=pack(*spreads)), LANES[2]))])
    lanes = catalog.query.facts([7])[7].lanes
    whole = lanes["signal/state"].whole
    assert lanes["signal/state"].channels == spreads
    assert whole is not None
    assert (whole.min, whole.max, whole.mean) == (-1.0, 4.0, 1.5)
    # Two channels of equal length: the variance within, and that between their means.
    assert whole.std == pytest.approx(((0.25 + 1.0) / 2 + 1.5**2) ** 0.5)
    assert lanes["signal/camera"].whole is None
    for text in ("lane.signal/state.max:4.0", "lane.signal/state.mean[1]:>2.9", "lane.signal/state.count:100"):
        assert catalog.query.ids(text + " lane.signal/state.max:*") == [7]
    assert catalog.query.ids("lane.signal/state.max[2]:*") == []


def test_everything_stated_moves_the_clock(catalog: Catalog) -> None:
    seen = [catalog.clock()]
    note = catalog.annotations.add_note([1], "x")[0]
    for step in (
        lambda: None,
        lambda: catalog.annotations.remove_note(note.id),
        lambda: catalog.annotations.review([1], "a"),
        lambda: catalog.annotations.undo_review([1]),
        lambda: catalog.annotations.set_scores("s", {1: 1}),
        lambda: catalog.annotations.drop_scores("s", [1]),
        lambda: catalog.annotations.add_lineage([1], "r", "s"),
    ):
        step()
        seen.append(catalog.clock())
    assert seen == sorted(set(seen))
