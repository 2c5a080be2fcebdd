"""Review queues, collections, comparison, map, few-shot search and the maintenance in a real browser."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from web_app import PICTURES, find_violations

from bridge.curation import layouts
from catalog import CheckFinding

PAINTED = """canvas => { const copy = new OffscreenCanvas(canvas.width, canvas.height), c = copy.getContext('2d');
    c.drawImage(canvas, 0, 0);
    const at = c.getImageData(0, 0, copy.width, copy.height).data.findIndex((v, i) => i % 4 === 3 && v > 200) >> 2;
    return [(at % copy.width) / copy.width, (Math.floor(at / copy.width) + 3) / copy.height]; }"""


def uids_of(app, where, count=3):
    return [row.uid for row in app.archive.catalog.query.select(where, limit=count).rows]


LINE = ".queue .rows .row"


def is_current(page, number):
    page.locator(f"#row-{number}.current").wait_for()


@pytest.fixture(autouse=True)
def begun_anew(page, app):
    """Take back what other tests reviewed, and forget where they were: queues go on with what is not reviewed."""
    page.goto(f"{app.url}/static/main.css")  # any page of this address; the browser is that of all tests
    page.evaluate("localStorage.clear()")
    catalog = app.archive.catalog
    while ids := catalog.query.ids("review:*"):
        catalog.annotations.undo_review(ids)


def test_copies_are_reviewed_by_keyboard_and_the_place_is_remembered(page, app):
    page.goto(f"{app.url}/review?queue=duplicates")
    page.locator(LINE, has_text="the same data").wait_for()
    heads = page.get_by_role("columnheader").all_inner_texts()
    assert heads[1:6] == ["Episode", "Environment", "Task", "Difference", "Compare with"]
    page.keyboard.press("d")
    page.locator(f"{LINE} .tag", has_text="duplicate").wait_for()
    page.keyboard.press("u")
    page.get_by_text("undone").wait_for()
    assert app.archive.catalog.query.count("tag:duplicate") == 0
    page.get_by_role("link", name="outliers").click()
    page.get_by_text("10 of 13 episodes: the first 10, ").wait_for()
    page.locator(LINE).nth(9).wait_for()
    for key in ("j", "j", "j", "k", "a"):
        page.keyboard.press(key)
    is_current(page, 3)
    page.locator("#row-2 .state-accepted").wait_for()
    assert app.archive.catalog.query.count("review:accepted") == 1
    page.get_by_text("1 of 10 reviewed").wait_for()
    page.reload()
    is_current(page, 3)
    page.get_by_role("button", name="Compute again").wait_for()
    page.screenshot(path=PICTURES / "review.png")
    page.keyboard.press("k")
    page.keyboard.press("u")
    page.locator(".state-accepted").wait_for(state="detached")


def test_a_queue_is_worked_through_by_mouse_and_its_columns_stay_where_they_are(page, app):
    page.goto(f"{app.url}/review?queue=outliers")
    page.locator(LINE).nth(9).wait_for()
    page.get_by_text("0 of 10 reviewed").wait_for()
    places = "heads => heads.map((head) => Math.round(head.getBoundingClientRect().left))"
    before = page.get_by_role("columnheader").evaluate_all(places)
    page.locator("#row-4 .right, #row-4 div").nth(3).click()
    for label, place in (("Accept", 5), ("Unsure", 6), ("Skip", 7), ("Reject", 8), ("Undo", 7)):
        page.get_by_role("toolbar").get_by_role("button", name=label).click()
        is_current(page, place)
    page.get_by_text("2 of 10 reviewed").wait_for()
    assert page.get_by_role("columnheader").evaluate_all(places) == before
    page.route("**/api/reviews", lambda route: route.fulfill(status=409, json={"message": "the catalog is busy"}))
    page.get_by_role("button", name="Accept").click()
    page.get_by_role("toolbar").get_by_text("the catalog is busy").wait_for()
    is_current(page, 7)
    for left in (1, 0):
        with page.expect_response("**/api/undos"):
            page.get_by_role("toolbar").get_by_role("button", name="Undo").click()
        page.get_by_text(f"{left} of 10 reviewed").wait_for()
    assert app.archive.catalog.query.count("review:unsure,rejected") == 0


@pytest.mark.parametrize("queue", ["outliers", "duplicates"])
def test_a_narrow_window_has_room_for_what_one_decides_by(page, app, queue):
    usual = page.viewport_size
    page.set_viewport_size({"width": 800, "height": 800})
    page.goto(f"{app.url}/review?queue={queue}")
    page.locator(LINE).first.wait_for()
    assert page.get_by_role("columnheader").all_inner_texts()[-2:] == ["Review", "Tags, rating"]
    assert page.locator(".grid").evaluate("grid => grid.scrollWidth <= grid.clientWidth")
    page.set_viewport_size(usual)


def test_what_checks_found_is_a_queue(page, app):
    catalog = app.archive.catalog
    catalog.checks.flag(catalog.query.ids("episode:arm-09"), CheckFinding("spike", "a jump"))
    page.goto(f"{app.url}/review?q=episode:arm-09")
    page.locator(LINE, has_text="arm-09").get_by_text("spike").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Findings of checks").wait_for()


def test_a_queue_goes_on_from_page_to_page_by_keys_alone(page, app):
    page.goto(f"{app.url}/review?queue=outliers")
    page.get_by_text("0 of 10 reviewed").wait_for()
    names = page.locator(f"{LINE} a").all_inner_texts()
    for key in ("k",) * 9 + ("j", "Enter"):  # from wherever another test was
        page.keyboard.press(key)
    place = page.get_by_role("navigation", name="Place in the queue")
    place.get_by_text("2 of 10 · 0 of 10 reviewed").wait_for()
    place.get_by_text("Distance: ").wait_for()
    for key, at, done in (("a", 3, 1), ("j", 4, 1), ("k", 3, 1), ("m", 4, 2), ("k", 3, 2), ("k", 2, 2), ("x", 4, 2)):
        page.keyboard.press(key)
        place.get_by_text(f"{at} of 10 · {done} of 10 reviewed").wait_for()
        page.get_by_role("heading", name=names[at - 1], exact=True, level=1).wait_for()
    assert app.archive.catalog.query.count("review:rejected") == 1
    assert app.archive.catalog.query.count("review:unsure") == 1


@pytest.mark.long
def test_a_queue_goes_on_from_page_to_page_by_mouse_alone_until_its_end(page, app):
    page.goto(f"{app.url}/review")
    page.get_by_role("link", name="Unreviewed").click()
    page.get_by_label("filter").fill("env:lift")
    page.get_by_role("button", name="Load").click()
    page.locator("p.count", has_text="4 episodes").wait_for()
    page.route(re.compile(r"/api/(episodes\?|queues/)"), lambda route: (time.sleep(0.2), route.continue_()))
    page.locator(f"{LINE} a", has_text="arm-06").click()  # "Skip" comes before the queue is known
    place = page.get_by_role("navigation", name="Place in the queue")
    toolbar = page.get_by_role("toolbar", name="Decide about this episode")
    for label, name in (("Skip", "arm-09"), ("Previous", "arm-06"), ("Unsure", "arm-09")):
        place.get_by_role("link", name=label).or_(toolbar.get_by_role("button", name=label)).click()
        page.get_by_role("heading", name=name, exact=True, level=1).wait_for()
        place.get_by_text("of 4 reviewed").wait_for()
    toolbar.get_by_role("button", name="Reject").click()
    page.get_by_text("2 of 4 reviewed").wait_for()  # the end: back in the queue, where one was
    is_current(page, 3)
    page.get_by_role("toolbar").get_by_role("button", name="Undo").click()
    page.get_by_text("1 of 4 reviewed").wait_for()
    page.get_by_role("toolbar").get_by_role("button", name="Tag").click()
    page.get_by_label("Tag", exact=True).fill("late")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert app.archive.catalog.query.count("tag:late") == 0
    catalog = app.archive.catalog
    catalog.annotations.review(catalog.query.ids("env:lift"), "accepted", who="bob")
    page.get_by_role("button", name="Compute again").click()
    page.get_by_text("Nothing is in this queue").wait_for()


def test_undo_goes_back_only_to_the_line_whose_decision_it_took_back(page, app):
    page.goto(f"{app.url}/review?queue=outliers")
    page.get_by_text("0 of 10 reviewed").wait_for()
    for key in ("k",) * 9 + ("a",):
        page.keyboard.press(key)
    is_current(page, 1)
    page.keyboard.press("j")
    page.keyboard.press("d")
    page.locator(f"{LINE} .tag", has_text="duplicate").wait_for()
    page.keyboard.press("u")
    page.locator(f"{LINE} .tag", has_text="duplicate").wait_for(state="detached")
    is_current(page, 2)
    page.keyboard.press("u")
    is_current(page, 0)


def test_an_export_says_before_what_cannot_be_and_after_what_failed_first(page, app):
    page.goto(f"{app.url}/?q=env:lift,push")
    page.get_by_text("All matching:").wait_for()
    page.get_by_role("button", name="Export").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Format").select_option("robomimic")
    dialog.get_by_text("episodes of other environments than the first one has").wait_for()
    dialog.get_by_label("Name").fill("mixed")
    dialog.get_by_role("button", name="Export").click()
    dialog.get_by_text("expected episodes of one environment, found 8 episodes of 2: 'lift', 'push'").wait_for()
    page.goto(f"{app.url}/?q=env:push")
    page.get_by_text("All matching:").wait_for()
    page.get_by_role("button", name="Export").click()
    dialog.get_by_label("Format").select_option("robomimic")
    dialog.get_by_label("Name").fill("mixed")
    file = app.archive.archive.folder.parent / "episodes" / "04.wshard"
    file.rename(file.with_suffix(".away"))
    try:
        dialog.get_by_role("button", name="Export").click()
        dialog.locator(".warning", has_text="3 of 4 written, 1 failed").wait_for()
    finally:
        file.with_suffix(".away").rename(file)
    (reason,) = dialog.get_by_role("list", name="Not written").get_by_role("listitem").all_inner_texts()
    assert "04.wshard" in reason
    dialog.get_by_text("add what is missing").wait_for()
    assert dialog.locator(".yes").count() == 0
    assert find_violations(page, "dialog[open]") == []


def test_a_leak_and_a_doubtful_label_are_found(page, app):
    page.goto(f"{app.url}/review?queue=leaks")
    page.get_by_text("Name two sets").wait_for()
    assert not any(job.kind == "queue leaks" for job in app.archive.jobs.all())
    page.goto(f"{app.url}/review?queue=leaks&left=env:wipe&right=episode:arm-02")
    page.locator(LINE).first.wait_for()
    page.goto(f"{app.url}/review?queue=mislabeled&label=task")
    page.locator("p.count", has_text="Episodes whose neighbours have other labels").wait_for()
    page.locator("p.count", has_text="of 13 episodes: those whose neighbours have another label more often").wait_for()
    page.goto(f"{app.url}/review?queue=mislabeled&label=trimmed_from")
    page.locator("p.count", has_text="episodes left out: they have no label 'trimmed_from'").wait_for()
    page.goto(f"{app.url}/review?queue=leaks&left=nothing:1&right=x")
    page.locator("p.count .problem").wait_for()


def test_collections_are_saved_compared_split_and_dropped(page, app):
    page.goto(f"{app.url}/?q=env:wipe")
    page.locator(".status .count", has_text="5 episodes").wait_for()
    for key in ("Space", "j", "Space", "c"):
        page.keyboard.press(key)
    page.get_by_label("Name of the collection").fill("two")
    page.keyboard.press("Enter")
    page.get_by_text("collection two: 2 episodes").wait_for()
    page.keyboard.press("j")
    page.keyboard.press("Space")
    page.keyboard.press("c")
    page.get_by_label("Name of the collection").fill("three")
    page.keyboard.press("Enter")
    page.get_by_text("collection three: 3 episodes").wait_for()
    page.keyboard.press("u")
    page.get_by_text("cannot be undone: collection three: 3 episodes").wait_for()
    page.goto(f"{app.url}/collections")
    page.get_by_label("Choose two").check()
    assert page.get_by_role("button", name="Compare two").is_disabled()
    page.get_by_label("Choose three").check()
    page.get_by_role("button", name="Compare two").click()
    page.get_by_text("added: 1").wait_for()
    page.locator("tr", has_text="three").get_by_role("button", name="Export").click()
    page.get_by_label("Format").select_option("hdf5")
    page.get_by_role("dialog").get_by_role("button", name="Export").click()
    page.get_by_text("3 episodes, ").wait_for()
    page.screenshot(path=PICTURES / "export.png")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == "three.h5"
    with h5py.File(download.value.path()) as file:
        assert len(file["ep_len"]) == 3
    page.keyboard.press("Escape")
    page.locator("tr", has_text="three").get_by_role("button", name="Split").click()
    page.get_by_label("Parts").fill("train=0.5,test=0.5")
    page.get_by_role("button", name="Split", exact=True).last.click()
    page.get_by_role("link", name="three/train").wait_for()
    page.locator("tr", has_text="two").get_by_role("button", name="Drop").click()
    page.get_by_role("dialog").get_by_role("button", name="Drop").click()
    page.get_by_role("link", name="two", exact=True).wait_for(state="detached")
    with page.expect_download() as download:
        page.locator("tr", has_text="three/train").get_by_role("link", name="csv").click()
    assert download.value.path().read_text().startswith("uid,digest,start,stop,weight,path")


def test_two_episodes_are_compared_on_a_warped_and_on_their_own_clock(page, app):
    left, right = uids_of(app, "episode:arm-01,arm-03", 2)
    page.goto(f"{app.url}/compare?of={left}&of={right}")
    page.locator(".compare-column output", has_text="timestep").nth(1).wait_for()
    slider = page.get_by_role("slider", name="Timestep")
    slider.fill("40")
    warped = page.locator(".compare-column output").nth(1).inner_text()
    page.get_by_label("warped to the first").uncheck()
    page.locator(".compare-column output", has_text=re.compile("^timestep 40$")).nth(1).wait_for()
    assert re.fullmatch(r"timestep 4\d", warped)
    assert "clock=own" in page.url
    page.screenshot(path=PICTURES / "compare.png")


def test_the_map_shows_colours_and_a_lasso_selects(page, app):
    page.goto(f"{app.url}/map?colour=env")
    page.locator("canvas.points[data-points='13']").wait_for()
    assert page.locator(".legend li").count() == 3
    pixels = """canvas => { const copy = document.createElement('canvas'); copy.width = canvas.width;
        copy.height = canvas.height; const c = copy.getContext('2d'); c.drawImage(canvas, 0, 0);
        return c.getImageData(0, 0, copy.width, copy.height).data.filter((v, i) => i % 4 === 3 && v > 0).length }"""
    assert page.locator("canvas.points").evaluate(pixels) > 13 * 20, "something is drawn"
    box = page.locator("canvas.points").bounding_box()
    corners = [(0.01, 0.01), (0.99, 0.01), (0.99, 0.99), (0.01, 0.99)]
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + corners[0][0] * box["width"], box["y"] + corners[0][1] * box["height"])
    page.mouse.down()
    for x, y in corners[1:]:
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    page.get_by_text("13 selected:").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="push").click()
    page.get_by_text("4 selected:").wait_for()
    page.screenshot(path=PICTURES / "map.png")
    page.mouse.wheel(0, -300)
    page.get_by_label("Coloured by").fill("meta.task")
    page.keyboard.press("Enter")
    page.locator(".legend li", has_text="wipe off").wait_for()
    x, y = page.locator("canvas.points").evaluate(PAINTED)
    page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
    page.locator(".plane .card canvas").wait_for()
    assert "arm-" in page.locator(".plane .card").inner_text()


def test_another_layout_is_computed_in_the_background_and_stored(page, app, monkeypatch):
    monkeypatch.setattr(layouts, "find_spec", lambda _: True)  # what the library does is tested in test_layouts.py
    monkeypatch.setattr(layouts, "_run", lambda _, vectors, __: np.random.default_rng(0).normal(size=(len(vectors), 2)))
    page.goto(f"{app.url}/map")
    page.get_by_text("principal components").wait_for()
    page.get_by_label("Layout").select_option("t-SNE")
    page.get_by_text("13 episodes · t-SNE").wait_for()
    assert "method=tsne" in page.url
    assert any(job.kind.startswith("map tsne") and job.state == "done" for job in app.archive.jobs.all())
    page.reload()
    page.get_by_text("13 episodes · t-SNE").wait_for()
    assert sum(job.kind.startswith("map") for job in app.archive.jobs.all()) == 1, "it is stored"


def test_a_probe_learns_from_marks_and_becomes_a_classifier(page, app):
    right, wrong = uids_of(app, "episode:arm-01,arm-03,arm-05"), uids_of(app, "episode:arm-00,arm-04,arm-06")
    marks = "&".join([*(f"like={uid}" for uid in right), *(f"unlike={uid}" for uid in wrong)])
    page.goto(f"{app.url}/search?{marks}")
    page.get_by_role("button", name="Learn from these").click()
    page.get_by_text("episodes count as right").wait_for()
    assert "learnt from 3 right and 3 wrong" in page.locator(".probe").inner_text()
    page.locator(".hit").nth(12).wait_for()  # all episodes, in place of the hits of the search before
    first = page.locator(".hit header a").all_inner_texts()[:5]
    assert all(int(name[-2:]) % 2 for name in first), "the movements of odd numbers are alike"
    page.locator(".probe .example").first.get_by_role("button", name="is wrong").click()
    page.get_by_text("learnt from 3 right and 4 wrong").wait_for()
    page.go_back()
    page.get_by_text("learnt from 3 right and 3 wrong").wait_for()
    page.get_by_role("button", name="Save as a classifier").click()
    page.get_by_label("Name of the score").fill("odd")
    page.keyboard.press("Enter")
    page.get_by_text("saved as score.odd").wait_for()
    query = app.archive.catalog.query
    assert query.count("score.odd:*") == 13
    assert query.count("collection:odd") == query.count("score.odd:>=0.5") >= 3
    page.screenshot(path=PICTURES / "probe.png")


def test_maintenance_checks_the_archive_and_shows_what_it_found(page, app):
    page.goto(f"{app.url}/maintenance")
    page.get_by_role("button", name="Check files").click()
    page.get_by_text("13 episodes checked: no problems found").first.wait_for()  # another test may have checked, too
    page.get_by_role("button", name="Ingest the known").click()
    page.get_by_text("unchanged 13").wait_for()
    page.get_by_text("arcdct").first.wait_for()
    (folder,) = map(Path, app.archive.catalog.episodes.roots())
    (folder / "copy-of-02.wshard").rename(folder / "moved.wshard")
    page.get_by_role("button", name="Check files").click()
    page.get_by_text("the same data is now at").first.wait_for()
    page.get_by_role("button", name="Repair what").click()
    page.locator(".job.done", has_text="repaired: ").wait_for()
    assert app.archive.catalog.query.count("path:*moved.wshard*") == 1
    page.screenshot(path=PICTURES / "maintenance.png")


def test_the_known_folders_are_watched_until_the_job_is_stopped(page, app):
    (folder,) = app.archive.catalog.episodes.roots()
    page.goto(f"{app.url}/maintenance")
    page.get_by_role("button", name="Watch the known").click()
    page.locator(".job.running", has_text="watch").wait_for()
    bad = Path(folder, "zz.wshard")
    bad.write_bytes(b"no episode")
    try:
        failed = page.get_by_role("list", name="Failed files").get_by_text("zz.wshard")
        failed.wait_for()
        assert failed.inner_text().count("zz.wshard") == 1, "the path is said once"
    finally:
        bad.unlink()
    page.get_by_role("button", name="Check files").click()
    page.locator(".job.done", has_text="fsck").first.wait_for()
    watch = page.locator(".job.running", has_text="watch")
    watch.get_by_role("button", name="Stop").click()
    page.locator(".job.stopped", has_text="watch").wait_for()


def test_a_queue_whose_job_is_stopped_is_not_computed_all_the_same(page, app):
    others_end = threading.Event()
    app.archive.jobs.start("another", lambda _: others_end.wait(60))
    try:
        page.goto(f"{app.url}/review?queue=duplicates&q=length:>2")
        page.get_by_text("waiting for other jobs").wait_for()
        (job,) = [one for one in app.archive.jobs.all() if one.state == "waiting"]
        job.stopped.set()
    finally:
        others_end.set()
    page.get_by_text("the job was stopped").wait_for()
    page.wait_for_timeout(1000)
    assert not [one for one in app.archive.jobs.all() if one.id > job.id]
    page.get_by_role("button", name="Load").click()  # as one may want it by now
    page.locator(".queue .rows .row").first.wait_for()
