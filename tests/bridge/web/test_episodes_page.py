"""The list of episodes in a real browser: filter, facets, sorting, keys, changes and their undoing, themes."""

from __future__ import annotations

import re

import pytest
from web_app import PICTURES, find_violations, make_archive, running_app, signed_in, watched_page


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    with running_app(make_archive(tmp_path_factory.mktemp("pages"))) as running:
        yield running


@pytest.fixture(scope="module")
def context(browser, app):
    with signed_in(browser, app) as context:
        yield context


@pytest.fixture
def page(context, app):
    """Give the list, after which nothing may have gone wrong in the browser."""
    with watched_page(context, lambda line: "400" not in line.text) as page:
        page.goto(app.url)
        page.locator(".grid .rows .row").first.wait_for()
        yield page


def names(page):
    return page.locator(".grid .rows .row a").all_inner_texts()


def wait_for_count(page, text):
    page.locator(".status .count", has_text=re.compile(f"^{text}$")).wait_for()


def test_the_list_shows_rows_thumbnails_and_facets(page):
    wait_for_count(page, "12 episodes")
    assert names(page) == [f"arm-{number:02d}" for number in range(12)]
    page.locator(".spark").nth(11).wait_for()
    assert page.locator(".thumbnail img").count() == 4
    assert page.locator(".thumbnail img").first.evaluate("image => image.decode().then(() => image.naturalWidth)") == 64
    values = page.locator('.facet[data-field="env"] .value').all_inner_texts()
    assert [re.split(r"\s+", value.strip()) for value in values] == [["lift", "4"], ["push", "4"], ["wipe", "4"]]
    PICTURES.mkdir(exist_ok=True)
    page.screenshot(path=PICTURES / "episodes.png")


def test_a_filter_is_typed_with_completion_and_lives_in_the_address(page):
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
    wait_for_count(page, "12 episodes")
    assert page.locator("#filter").input_value() == ""


def test_a_mistake_is_marked_at_its_character(page):
    page.locator("#filter").fill("env:lift length:x3")
    page.locator(".problem mark").wait_for()
    assert page.locator(".problem mark").inner_text() == "x"
    assert "expected" in page.locator(".problem").inner_text()
    assert page.locator("#filter").get_attribute("aria-invalid") == "true"
    page.locator("#filter").fill('"pick up" length:>90')
    wait_for_count(page, "4 episodes")
    assert page.locator(".problem").inner_text() == ""


def test_facets_and_brushes_write_the_filter(page):
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


def test_columns_are_sorted_and_chosen(page):
    page.get_by_role("button", name="Reward").click()
    page.get_by_role("button", name="Reward").click()
    page.locator(".grid .rows .row:first-child", has_text="arm-11").wait_for()
    assert page.get_by_role("columnheader", name="Reward").get_attribute("aria-sort") == "descending"
    page.get_by_role("button", name="Columns").click()
    page.get_by_label("meta.task").check()
    page.get_by_role("button", name="Show", exact=True).click()
    page.get_by_text("wipe off").first.wait_for()
    assert "column=meta.task" in page.url


def test_keys_select_rate_review_and_undo(page, app):
    catalog = app.archive.catalog
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("4")
    page.locator(".row", has_text="★★★★").wait_for()
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
    assert catalog.query.count("score.rating:*") == 0


def test_a_batch_says_how_many_it_changes(page, app):
    page.locator("#filter").fill("env:wipe")
    wait_for_count(page, "4 episodes")
    page.get_by_role("button", name="Tag").click()
    page.get_by_text("4 episodes pass the filter env:wipe").wait_for()
    page.get_by_role("button", name="Change 4 episodes").click()
    page.get_by_label("Tag (with").fill("later")
    page.keyboard.press("Enter")
    page.get_by_text("tagged later: 4 episodes").wait_for()
    assert app.archive.catalog.query.count("tag:later env:wipe") == 4
    page.locator(".message", has_text="tagged later").get_by_role("button", name="Undo").click()
    page.get_by_text("undone: tagged later").wait_for()
    assert app.archive.catalog.query.count("tag:later") == 0


def test_a_search_is_saved_as_a_live_collection(page, app):
    page.locator("#filter").fill("length:>100")
    wait_for_count(page, "5 episodes")
    page.get_by_role("button", name="Save search").click()
    page.get_by_label("Name of the live").fill("long ones")
    page.keyboard.press("Enter")
    page.get_by_text("saved the search long ones").wait_for()
    assert app.archive.catalog.query.count('collection:"long ones"') == 5


def test_what_others_change_appears_without_reload(page, app):
    ids = app.archive.catalog.query.ids("episode:arm-00")
    app.archive.catalog.annotations.tag(ids, "from-elsewhere")
    page.get_by_text("from-elsewhere").first.wait_for()


def test_nothing_is_hard_to_reach_or_to_read(browser, app):
    """No rule of axe-core is broken, in both themes, on a window of 900 pixels."""
    with browser.new_context(viewport={"width": 900, "height": 700}) as context:
        page = context.new_page()
        page.goto(f"{app.url}/?token={app.sign_ins.new_link_token()}&q=env:lift")
        wait_for_count(page, "4 episodes")
        page.locator(".spark").nth(3).wait_for()
        found = find_violations(page)
        page.screenshot(path=PICTURES / "episodes-dark.png")
        assert found == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_role("button", name="Export").click()
        page.get_by_role("dialog", name="Export 4 episodes").wait_for()
        assert find_violations(page) == []


def test_an_empty_archive_says_what_to_do(browser, tmp_path):
    from bridge.archive import open_archive  # noqa: PLC0415

    open_archive(tmp_path / "new", create=True).close()
    with running_app(tmp_path / "new") as empty, browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{empty.url}/?token={empty.sign_ins.new_link_token()}")
        page.get_by_text("wshard ingest YOUR/EPISODES --archive").wait_for()
