"""The list of episodes in a real browser: filter, facets, sorting, keys, changes and their undoing, themes."""

from __future__ import annotations

import re

import pytest
from web_app import PICTURES


@pytest.fixture
def listed(page, app):
    """Give the list of all episodes."""
    page.goto(app.url)
    page.locator(".grid .rows .row").first.wait_for()
    return page


def names(page):
    return page.locator(".grid .rows .row a").all_inner_texts()


def wait_for_count(page, text):
    page.locator(".status .count", has_text=re.compile(f"^{text}$")).wait_for()


def test_the_list_shows_rows_thumbnails_and_facets(listed):
    page = listed
    wait_for_count(page, "13 episodes")
    expected = [f"arm-{number:02d}" for number in range(12)]
    shown = names(page)
    assert [name.rpartition("/")[2] for name in shown] == sorted([*expected, "arm-02"])
    assert len({*shown}) == 13
    assert [name for name in shown if "/" in name] == shown[2:4]
    page.locator(".spark").nth(12).wait_for()
    assert page.locator(".thumbnail img").count() == 4
    assert page.locator(".thumbnail img").first.evaluate("image => image.decode().then(() => image.naturalWidth)") == 64
    values = page.locator('.facet[data-field="env"] .value').all_inner_texts()
    assert [re.split(r"\s+", value.strip()) for value in values] == [["wipe", "5"], ["lift", "4"], ["push", "4"]]
    PICTURES.mkdir(exist_ok=True)
    page.screenshot(path=PICTURES / "episodes.png")


def test_pictures_that_are_missing_leave_their_lanes_alone(page, app):
    requested = []
    page.route("**/pictures/**", lambda route: requested.append(route.request.url) or route.fulfill(status=404))
    page.goto(app.url)
    page.locator(".thumbnail .spark").nth(3).wait_for()
    page.wait_for_function("() => !document.querySelector('.thumbnail img')")
    count = len(requested)
    for key in "jjkk":  # each draws the list anew
        page.keyboard.press(key)
    page.locator("#row-0.current").wait_for()
    assert (len(requested), len(set(requested))) == (count, 4)
    assert page.locator(".spark").count() == 13


def test_a_filter_is_typed_with_completion_and_lives_in_the_address(listed):
    page = listed
    page.keyboard.press("/")
    page.keyboard.type("en")
    page.get_by_role("option").first.wait_for()
    assert page.get_by_role("option").first.inner_text().startswith("env:")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.keyboard.type("li")
    page.get_by_role("option", name="lift").click()
    wait_for_count(page, "4 episodes")
    assert "q=env%3Alift" in page.url
    assert names(page) == ["arm-00", "arm-03", "arm-06", "arm-09"]
    page.reload()
    wait_for_count(page, "4 episodes")
    page.go_back()
    wait_for_count(page, "13 episodes")
    assert page.locator("#filter").input_value() == ""


def test_a_mistake_is_marked_at_its_character(listed):
    page = listed
    page.locator("#filter").fill("env:lift length:x3")
    page.locator(".problem mark").wait_for()
    assert page.locator(".problem mark").inner_text() == "x"
    assert "expected" in page.locator(".problem").inner_text()
    assert page.locator("#filter").get_attribute("aria-invalid") == "true"
    page.locator("#filter").fill('"pick up" length:>90')
    wait_for_count(page, "4 episodes")
    assert page.locator(".problem").inner_text() == ""


def test_facets_and_brushes_write_the_filter(listed):
    page = listed
    page.locator('.facet[data-field="env"]').get_by_text("lift").click()
    wait_for_count(page, "4 episodes")
    page.locator('.facet[data-field="env"]').get_by_text("push").click()
    wait_for_count(page, "8 episodes")
    assert page.locator("#filter").input_value() == "env:lift,push"
    page.locator('.facet[data-field="success"]').get_by_text("yes").click()
    wait_for_count(page, "6 episodes")
    page.locator(".facets:not([aria-busy])").wait_for()
    canvas = page.locator('.facet[data-field="length"] canvas')
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20, steps=4)
    page.mouse.up()
    page.wait_for_url(re.compile("length"))
    assert re.search(r" length:8\d(\.\d+)?\.\.9\d(\.\d+)?$", page.locator("#filter").input_value())
    page.go_back()
    wait_for_count(page, "6 episodes")


def test_columns_are_sorted_and_chosen(listed):
    page = listed
    page.get_by_role("button", name="Reward").click()
    page.get_by_role("button", name="Reward").click()
    page.locator(".grid .rows .row:first-child", has_text="arm-11").wait_for()
    assert page.get_by_role("columnheader", name="Reward").get_attribute("aria-sort") == "descending"
    page.get_by_role("button", name="Columns").click()
    page.get_by_label("meta.task").check()
    page.get_by_role("button", name="Show", exact=True).click()
    page.get_by_text("wipe off").first.wait_for()
    assert "column=meta.task" in page.url
    page.get_by_role("button", name="Task").click()
    page.get_by_role("button", name="Task").click()
    page.locator(".grid .rows .row:first-child", has_text="wipe off").wait_for()
    assert "sort=-meta.task" in page.url


def test_only_visible_rows_are_drawn_and_the_end_is_reached(listed, app):
    page = listed
    page.set_viewport_size({"width": 1280, "height": 420})
    page.locator(".grid .rows .row", has_text="arm-11").wait_for(state="detached")
    page.keyboard.press("End")
    page.locator(".grid .rows .row", has_text="arm-11").wait_for()
    page.locator(".grid .rows .row", has_text="arm-00").wait_for(state="detached")
    page.locator(".viewport").evaluate("view => { view.scrollTop = 0; }")
    page.locator(".grid .rows .row", has_text="arm-00").wait_for()


def test_an_invalid_filter_offers_no_action_on_all(page, app):
    page.goto(f"{app.url}/?q=env:lift")
    page.get_by_text("All matching:").wait_for()
    box = page.get_by_label("Filter", exact=True)
    box.fill("env:lift length:x")
    box.press("Enter")
    page.locator(".problem", has_text="length").wait_for()
    page.get_by_text("All matching:").wait_for(state="detached")
    box.fill("env:lift")
    box.press("Enter")
    page.get_by_text("All matching:").wait_for()


def test_what_is_refused_to_a_button_is_shown(page, app):
    page.goto(f"{app.url}/?q=env:lift")
    page.get_by_text("All matching:").wait_for()
    page.route("**/api/count*", lambda route: route.fulfill(status=409, json={"message": "the catalog is busy"}))
    page.get_by_role("toolbar").get_by_role("button", name="Review").click()
    page.locator(".message", has_text="the catalog is busy").wait_for()


def test_keys_select_rate_review_and_undo(listed, app):
    page = listed
    catalog = app.archive.catalog
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("4")
    page.locator(".row", has_text="arm-01").filter(has_text="★★★★").wait_for()
    assert [row.episode_id for row in catalog.query.select("score.rating:4").rows] == ["arm-01"]
    page.keyboard.press("Space")
    page.keyboard.press("j")
    page.keyboard.press("Space")
    page.get_by_text("2 episodes selected:").wait_for()
    page.keyboard.press("r")
    page.keyboard.press("x")
    page.get_by_text("rejected: 2 episodes").wait_for()
    assert catalog.query.count("review:rejected") == 2
    assert {one.who for one in catalog.annotations.audit(catalog.query.ids("review:rejected"))} == {"ann"}
    page.keyboard.press("u")
    page.get_by_text("undone: rejected").wait_for()
    assert catalog.query.count("review:rejected") == 0
    page.keyboard.press("u")
    page.get_by_text("undone: rated").wait_for()
    assert catalog.query.count("score.rating:4") == 0


def test_a_batch_says_how_many_it_changes(listed, app):
    page = listed
    page.locator("#filter").fill("env:wipe")
    wait_for_count(page, "5 episodes")
    page.get_by_role("button", name="Tag").click()
    page.get_by_text("5 episodes pass the filter env:wipe").wait_for()
    page.get_by_role("button", name="Change 5 episodes").click()
    page.get_by_label("Tag (with").fill("later")
    page.keyboard.press("Enter")
    page.get_by_text("tagged later: 5 episodes").wait_for()
    assert app.archive.catalog.query.count("tag:later env:wipe") == 5
    page.locator(".message", has_text="tagged later").get_by_role("button", name="Undo").click()
    page.get_by_text("undone: tagged later").wait_for()
    assert app.archive.catalog.query.count("tag:later") == 0


def test_a_search_is_saved_as_a_live_collection(listed, app):
    page = listed
    page.locator("#filter").fill("length:>100")
    wait_for_count(page, "5 episodes")
    page.get_by_role("button", name="Save search").click()
    page.get_by_label("Name of the live").fill("long ones")
    page.keyboard.press("Enter")
    page.get_by_text("saved the search long ones").wait_for()
    assert app.archive.catalog.query.count('collection:"long ones"') == 5
    page.goto(f"{app.url}/collections")
    page.get_by_role("link", name="long ones").click()
    wait_for_count(page, "5 episodes")


def test_what_others_change_appears_without_reload(listed, app):
    page = listed
    ids = app.archive.catalog.query.ids("episode:arm-00")
    app.archive.catalog.annotations.tag(ids, "from-elsewhere")
    page.get_by_text("from-elsewhere").first.wait_for()
