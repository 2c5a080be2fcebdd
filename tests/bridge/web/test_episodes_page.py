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
    return page.locator(".grid .rows .row a:not(.button)").all_inner_texts()


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
    page.locator(".facets:not([aria-busy])").wait_for()
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


def test_a_camera_that_cannot_be_read_leaves_its_place_to_the_next(page, app):
    def add_cameras(route):
        answer = route.fetch()
        found = answer.json()
        for one in found["items"]:
            one["pictures"] = ["signal/lost", "signal/broken", *one["pictures"]] if one["pictures"] else []
        route.fulfill(response=answer, json=found)

    requested = []
    page.on("request", lambda request: requested.append(request.url) if "/pictures/" in request.url else None)
    page.route("**/api/series*", add_cameras)
    page.goto(app.url)
    page.wait_for_function(
        "() => [...document.querySelectorAll('.thumbnail img')].filter((one) => one.naturalWidth === 64).length === 4"
    )
    assert all("signal/cam" in one.get_attribute("src") for one in page.locator(".thumbnail img").all())
    count = len(requested)
    page.keyboard.press("j")  # draws the list anew
    page.locator("#row-1.current").wait_for()
    assert not [one for one in requested[count:] if "signal/cam" not in one]


def test_a_filter_is_typed_with_completion_and_lives_in_the_address(listed):
    page = listed
    page.keyboard.press("/")
    page.keyboard.type("en")
    page.locator("#filter-words [role=option]:first-child", has_text=re.compile("^env:")).wait_for()
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
    page.keyboard.type("seed_or_ro")  # the field has the focus: a name in no episode is offered as it is typed
    page.get_by_label("seed_or_ro", exact=True).wait_for()
    page.get_by_label("Find a field").fill("ctrl.ma")
    assert page.locator(".checks label").all_inner_texts() == ["lane.action/ctrl.max"]
    assert page.locator(".checks label").evaluate("label => label.getBoundingClientRect().height") >= 24
    page.get_by_label("lane.action/ctrl.max").check()
    page.get_by_label("Find a field").fill("task")
    page.get_by_label("meta.task", exact=True).check()  # tags and ratings may have taken its room
    page.get_by_role("button", name="Show these").click()
    page.get_by_role("columnheader", name="lane.action/ctrl.max").wait_for()
    assert "column=lane.action%2Fctrl.max" in page.url
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


def test_what_is_refused_is_said_in_its_dialog(page, app):
    page.goto(f"{app.url}/?q=env:lift")
    page.get_by_text("All matching:").wait_for()
    page.route("**/api/tags", lambda route: route.fulfill(status=409, json={"message": "the catalog is busy"}))
    page.get_by_role("toolbar").get_by_role("button", name="Tag").click()
    page.keyboard.type("later")
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_text("the catalog is busy").wait_for()
    page.unroute("**/api/tags")
    assert page.get_by_role("textbox", name="Tag").input_value() == "later", "nothing is typed twice"


def test_no_action_is_offered_on_nothing_and_no_mistake_shown_while_a_field_is_typed(listed):
    page = listed
    page.locator("#filter").focus()
    page.keyboard.type("env:lift length:")
    page.wait_for_timeout(2500)  # longer than any pause that counts as the end
    assert page.locator(".problem").inner_text() == ""
    page.keyboard.press("Tab")
    page.locator(".problem", has_text="expected").wait_for()
    page.locator("#filter").fill("env:nothing")
    page.locator(".empty h2").wait_for()
    offered = page.locator(".bar-actions button, .tools button").filter(visible=True)
    assert offered.all_inner_texts() == ["Columns"]


def test_columns_and_facets_are_those_that_tell_episodes_apart(listed, app):
    page = listed
    page.set_viewport_size({"width": 1600, "height": 800})  # room for all of them
    wait_for_count(page, "13 episodes")
    page.wait_for_function("() => document.querySelector('.grid').clientWidth > 1300")
    heads = page.get_by_role("columnheader").all_inner_texts()
    assert heads[heads.index("Environment") :][:5] == ["Environment", "Task", "Length", "Reward", "Success"]
    assert {"Format", "Location"}.isdisjoint(heads)
    page.locator(".facets:not([aria-busy])").wait_for()
    titles = page.locator(".facet:not(.nothing) summary").all_inner_texts()
    assert {"Format", "Folder", "File"}.isdisjoint(titles)
    assert titles[:3] == ["Environment", "Task", "Success"]


def test_two_facets_filter_though_the_first_one_is_not_counted_yet(listed):
    page = listed
    page.route(re.compile(r"/api/count\?"), lambda _: None)  # no answer comes
    page.locator(".facet", has_text="Arm side").get_by_label("right").check()
    page.locator('.facet[data-field="env"]').get_by_label("lift").check()
    page.wait_for_function("() => document.querySelector('#filter').value.includes('lift')")
    assert page.locator("#filter").input_value() == 'meta."arm side":right env:lift'
    page.unroute_all()


def test_an_archive_that_cannot_be_listed_is_not_called_empty(listed):
    page = listed
    page.route(re.compile(r"/api/episodes\?"), lambda route: route.fulfill(status=404, json={"message": "gone"}))
    page.reload()
    page.locator(".toast, [role=alert], .problem", has_text="gone").first.wait_for()
    assert page.locator(".empty h2").inner_text() == "The episodes cannot be listed"
    page.unroute_all()


def test_keys_of_the_metadata_are_facets(listed):
    page = listed
    facet = page.locator(".facet", has_text="Arm side")
    facet.get_by_label("right").check()
    wait_for_count(page, "7 episodes")
    assert page.locator("#filter").input_value() == 'meta."arm side":right'
    page.locator(".facets:not([aria-busy])").wait_for()
    places = page.locator(".facet:not(.nothing)").evaluate_all("all => all.map(one => one.dataset.field)")
    facet.get_by_label("left").check()
    wait_for_count(page, "13 episodes")
    facet.get_by_label("left").uncheck()
    page.locator('.facet[data-field="env"]').get_by_label("lift").check()
    wait_for_count(page, "2 episodes")
    page.get_by_label("More facets").select_option("File")
    page.locator('.facet[data-field="path"] .value', has_text="06.wshard").click()
    wait_for_count(page, "1 episode")
    page.locator(".facets:not([aria-busy])").wait_for()
    assert page.locator(".facet:not(.nothing)").evaluate_all("all => all.map(one => one.dataset.field)") == [
        *places,
        "path",
    ], "facets stay where they are, also those of one value"
    page.reload()
    page.locator('.facet[data-field="path"]').get_by_role("button", name="Leave out").click()
    page.locator('.facet[data-field="path"]').wait_for(state="detached")


def test_values_of_a_facet_are_found_and_hostile_ones_seen(listed, app):
    page, annotations = listed, app.archive.catalog.annotations
    (one,) = app.archive.catalog.query.ids("episode:arm-05")
    tags = [*(f"batch-{number:02d}" for number in range(12)), "evil\u202etxt.exe"]
    for tag in tags:
        annotations.tag([one], tag)
    try:
        page.reload()
        facet = page.locator('.facet[data-field="tag"]')
        facet.get_by_role("button", name="Show more").click()
        facet.get_by_text("evil⟨U+202E⟩txt.exe").wait_for()
        facet.get_by_label("Find in Tag").fill("txt")
        page.locator(".grid .tag", has_text="evil⟨U+202E⟩txt.exe").wait_for()
        facet.get_by_text("batch-11").click()
        wait_for_count(page, "1 episode")
    finally:
        for tag in tags:
            annotations.swap_tag([one], tag, tagged=False)


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
    page.get_by_text("2 selected:").wait_for()
    page.keyboard.press("r")
    page.keyboard.press("x")
    page.get_by_text("rejected: 2 episodes").wait_for()
    assert catalog.query.count("review:rejected") == 2
    audit = catalog.annotations.audit(catalog.query.ids("review:rejected"))
    assert {one.who for one in audit[-2:]} == {"ann"}  # other tests reviewed the same episodes before
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
    page.get_by_text("All that pass the filter env:wipe").wait_for()
    page.get_by_role("button", name="Tag 5 episodes").focus()
    page.keyboard.press("Space")  # it presses no button that changes something
    page.get_by_role("textbox", name="Tag").focus()
    page.keyboard.type("good one")
    page.keyboard.press("Enter")
    page.get_by_text("tagged good one: 5 episodes").wait_for()
    assert app.archive.catalog.query.count('tag:"good one" env:wipe') == 5
    assert app.archive.catalog.query.count("tag:one,ne,e,good") == 0
    page.locator(".message", has_text="tagged good one").get_by_role("button", name="Undo").click()
    page.get_by_text("undone: tagged good one").wait_for()
    assert app.archive.catalog.query.count('tag:"good one"') == 0


def test_a_search_is_saved_as_a_live_collection(listed, app):
    page = listed
    page.locator("#filter").fill("length:>100")
    wait_for_count(page, "5 episodes")
    page.get_by_role("button", name="Save this filter").click()
    page.get_by_label("Name of the live").fill("long ones")
    page.keyboard.press("Enter")
    page.get_by_text("saved the filter long ones").wait_for()
    assert app.archive.catalog.query.count('collection:"long ones"') == 5
    page.goto(f"{app.url}/collections")
    page.get_by_role("link", name="long ones").click()
    wait_for_count(page, "5 episodes")


def test_what_others_change_appears_without_reload(listed, app):
    page = listed
    ids = app.archive.catalog.query.ids("episode:arm-00")
    app.archive.catalog.annotations.tag(ids, "from-elsewhere")
    page.get_by_text("from-elsewhere").first.wait_for()


def test_a_narrow_list_leaves_out_what_tells_least_and_keeps_names_in_sight(page, app):
    page.set_viewport_size({"width": 800, "height": 700})
    page.goto(f"{app.url}/")
    page.locator(".grid .rows a").first.wait_for()
    heads = page.get_by_role("columnheader").all_inner_texts()
    assert "Length" in heads
    assert {"Task", "Success"}.isdisjoint(heads)
    page.goto(f"{app.url}/?column=env&column=format&column=path&column=length&column=reward&column=success")
    name = page.locator("#row-0 a[href*='/episodes/']")
    name.wait_for()
    grid = page.get_by_role("grid")
    grid.evaluate("grid => { grid.scrollLeft = grid.scrollWidth; }")
    page.wait_for_function("() => document.querySelector('.grid').style.getPropertyValue('--shift') > '0px'")
    page.wait_for_function(
        "() => document.querySelector(`#row-0 a[href*='/episodes/']`)?.getBoundingClientRect().x"
        " >= document.querySelector('.grid').getBoundingClientRect().x"
    )
    page.set_viewport_size({"width": 1280, "height": 900})
