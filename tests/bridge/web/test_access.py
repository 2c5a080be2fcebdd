"""Every page and dialog can be read and reached: no rule of axe-core broken, no mouse needed, from 900 pixels up."""

from __future__ import annotations

import time

import numpy as np
import pytest
from web_app import PICTURES, find_violations, running_app, signed_in, write_episodes

from bridge.web.accounts import Account, hash_token
from wshard import Channel, Episode, TrajectoryIngestor, open_archive, save_wshard

PAGES = {
    "/?q=env:lift": ".spark >> nth=3",
    "/?q=length:x": ".problem mark",
    "/episodes/{0}?span=20:60&similar=1": ".hit canvas",
    "/episodes/nothing": ".problem",
    "/search?query={0}&contributions=1": ".hit .lanes",
    "/search?like={0}&like={1}&unlike={2}&probe=1": ".probe .example",
    "/compare?of={0}&of={1}": ".compare-column output",
    "/map": "canvas.points[data-points]",
    "/review?queue=unreviewed": ".queue .rows .row",
    "/episodes/{1}?queue=unreviewed&similar=signal/cam@5": ".hit .frame img",
    "/review?queue=duplicates": ".queue .rows .row",
    "/review?queue=leaks&left=length:>1&right=length:>60": ".queue .rows .row, .queue .empty:not([hidden])",
    "/collections": "table.plain",
    "/maintenance": "table.plain",
}
ALIKE = {
    "/?q=env:nothing": ".empty h2",
    "/search": ".offered .spark",
    "/compare": ".empty",
    "/review": "p.count",
    "/review?queue=outliers": ".queue .rows .row",
    "/review?queue=mislabeled&label=task": "p.count",
}
"""Pages made of parts that PAGES or EMPTY show, too."""

EMPTY = {"/": ".empty", "/review": "p.count", "/maintenance": "main section p", "/search": ".offered li"}
KEYS, BUTTONS = "keys", "buttons"
DIALOGS = [
    ("/?q=env:lift", KEYS, ("?", "t", "r", "n", "c")),
    ("/?q=env:lift", BUTTONS, ("Columns", "Save this filter", "Export", "Review")),
    ("/collections", BUTTONS, ("Export", "Split", "Drop", "Save a filter")),
    ("/search?like={0}&like={1}&unlike={2}&probe=1", BUTTONS, ("Save as a classifier",)),
]
IS_WIDER = """() => new Promise((then) => requestAnimationFrame(() => requestAnimationFrame(() =>
    then(document.documentElement.scrollWidth > innerWidth))))"""  # once what follows the window's size has done so
FOCUSED = """() => { const e = document.activeElement;
    if (e === document.body) return [true, ''];
    const name = e.getAttribute('aria-label') || e.labels?.[0]?.innerText || e.innerText;
    return [getComputedStyle(e).outlineStyle !== 'none', name]; }"""


@pytest.fixture(scope="module")
def narrow(browser, app):
    """Give a window of 900 pixels, and the uids of three episodes."""
    query = app.archive.catalog.query
    if not app.archive.catalog.collections.all():
        app.archive.catalog.collections.save_query("everything", "length:>1")
    uids = [query.select(f"episode:arm-{number:02d}").rows[0].uid for number in (1, 3, 4)]
    with signed_in(browser, app, 800) as context:
        context.pages[0].set_viewport_size({"width": 900, "height": 800})
        yield context.pages[0], uids


def find_faults(page, path, sign):
    page.goto(path)
    page.locator(sign).first.wait_for()
    faults = find_violations(page)
    usual = page.viewport_size
    for width in (usual["width"], 360):
        page.set_viewport_size({"width": width, "height": usual["height"]})
        if page.evaluate(IS_WIDER):
            faults.append(f"wider than a window of {width} pixels")
    page.set_viewport_size(usual)
    return faults


@pytest.mark.parametrize("path", [*PAGES, *(pytest.param(path, marks=pytest.mark.long) for path in ALIKE)])
def test_no_page_breaks_a_rule(narrow, app, path):
    page, uids = narrow
    assert find_faults(page, app.url + path.format(*uids), (PAGES | ALIKE)[path]) == []


def test_an_empty_archive_says_what_to_do_and_breaks_no_rule(browser, tmp_path):
    open_archive(tmp_path / "new", create=True).close()
    with running_app(tmp_path / "new") as empty, signed_in(browser, empty) as context:
        page = context.pages[0]
        page.get_by_text("wshard ingest YOUR/EPISODES --archive").wait_for()
        found = {path: find_faults(page, empty.url + path, sign) for path, sign in EMPTY.items()}
        assert not {path: faults for path, faults in found.items() if faults}


def test_an_episode_without_vectors_says_in_one_sentence_what_to_do(browser, tmp_path):
    write_episodes(tmp_path / "data", 2)
    frames = Channel.of("cam", np.zeros((9, 16, 16, 3), np.uint8))
    save_wshard(Episode(id="pictures", env_id="", observations={"cam": frames}), tmp_path / "data" / "p.wshard")
    with TrajectoryIngestor(tmp_path / "lab") as ingestor:
        assert ingestor.ingest([tmp_path / "data"]).new == 3
    with running_app(tmp_path / "lab") as other, signed_in(browser, other) as context:
        page, (row,) = context.pages[0], other.archive.catalog.query.select("episode:pictures").rows
        page.goto(f"{other.url}/search?query={row.uid}")
        said = page.locator(".hit-list .count .problem")
        said.get_by_text("pictures has no vectors, so it cannot be compared: ingest its file").wait_for()
        assert "\n" not in said.inner_text()
        assert find_violations(page) == []


@pytest.mark.parametrize(("path", "how", "openers"), DIALOGS)
def test_no_dialog_breaks_a_rule(narrow, app, path, how, openers):
    page, uids = narrow
    page.goto(app.url + path.format(*uids))
    page.locator(".grid .row .spark, table.plain, .probe .example").first.wait_for()
    for opener in openers:
        if how == KEYS:
            page.keyboard.press(opener)
        else:
            page.get_by_role("button", name=opener, exact=True).first.click()
        page.locator("dialog[open]").wait_for()
        assert find_violations(page, "dialog[open]") == [], opener
        page.keyboard.press("Escape")
        page.locator("dialog[open]").wait_for(state="detached")


def test_people_sign_in_by_their_token_and_readers_are_offered_no_changes(browser, app):
    accounts = {hash_token("secret"): Account("eve", "reader")}
    with running_app(app.archive.place, accounts=accounts) as other, browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{other.url}/?q=env:wipe")
        page.get_by_label("token").fill("wrong")
        page.keyboard.press("Enter")
        page.locator(".problem", has_text="no account").wait_for()
        assert find_violations(page) == []
        page.get_by_label("token").fill("secret")
        page.keyboard.press("Enter")
        page.get_by_text("eve · read-only").wait_for()
        page.locator(".grid .rows .row a").first.wait_for()
        for key in ("Space", "j", "Space"):
            page.keyboard.press(key)
        page.get_by_role("button", name="Compare").wait_for()
        offered = page.locator(".tools button, .bar-actions button").filter(visible=True)
        assert offered.all_inner_texts() == ["Columns", "Find similar", "Compare", "Clear"]
        for key in ("5", "t", "r", "n", "c", "u"):
            page.keyboard.press(key)
            page.get_by_text("this one is read-only").wait_for()
            page.locator(".message").evaluate("message => message.remove()")
            assert page.locator("dialog[open]").count() == 0, key
        page.keyboard.press("?")
        assert "open the episode" in page.locator(".keys").inner_text()
        assert "tag" not in page.locator(".keys").inner_text()


ADDRESSES = (
    *("/%09/evil.example", "/%0a/evil.example", "//evil.example", "/%5Cevil.example", "/.//evil.example"),
    *("https:evil.example", "http://evil.example", "javascript:alert(1)", "http://[", "%09//evil.example"),
)


def test_signing_in_leads_to_pages_of_this_server_only(page, app):
    """Where the browser then goes counts, not what is there: all but the page that leads there is answered here."""
    page.route(
        lambda url: "/login?" not in url,
        lambda route: route.fulfill(body="there") if route.request.is_navigation_request() else route.continue_(),
    )
    for address in ADDRESSES:
        page.goto(f"{app.url}/login?next={address}")
        page.get_by_text("there", exact=True).wait_for()
        assert page.evaluate("location.host") == app.url.removeprefix("http://"), address


def tab_to(page, name, *, backwards=False):
    """Go to what has that name by the Tab key alone, also if it is drawn later; all that is focused is outlined."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        page.keyboard.press("Shift+Tab" if backwards else "Tab")
        is_outlined, focused = page.evaluate(FOCUSED)
        assert is_outlined, focused
        if name in (focused or ""):
            return
    raise AssertionError(f"{name} is out of reach")


def test_keys_alone_filter_collect_undo_and_search(page, app):
    catalog = app.archive.catalog
    page.goto(app.url)
    page.locator(".grid .rows .row").first.wait_for()
    page.keyboard.press("/")
    page.keyboard.type("env:li")
    page.locator("#filter-words [role=option]:only-child", has_text="lift").wait_for()  # what all letters begin
    for key in ("ArrowDown", "Enter", "Escape", "Escape"):
        page.keyboard.press(key)
    page.locator(".status .count", has_text="4 episodes").wait_for()
    for key in ("j", "Space", "j", "Space", "c"):
        page.keyboard.press(key)
    page.keyboard.type("by keys")
    page.keyboard.press("Enter")
    page.get_by_text("collection by keys: 2 episodes").wait_for()
    for key in ("Escape", "n"):
        page.keyboard.press(key)
    page.keyboard.type("written without a mouse")
    page.keyboard.press("Enter")
    page.get_by_text("noted: 1 episode").wait_for()
    page.keyboard.press("Enter")
    page.locator(".lane .u-over").first.wait_for()
    page.keyboard.press("u")
    page.get_by_text("undone: noted").wait_for()  # on another page than it was written on
    assert catalog.query.count('note:"written without"') == 0
    for key in ("Shift+ArrowRight", "[", "Shift+ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight", "]", "f"):
        page.keyboard.press(key)
    page.get_by_text("span 10:41").wait_for()
    page.locator(".hit").nth(2).wait_for()
    page.screenshot(path=PICTURES / "by-keys.png")
    tab_to(page, "More like this")
    page.keyboard.press("Enter")
    page.get_by_text("with 1 example and 0 counter-examples").wait_for()
    page.locator(".similar:not([aria-busy])").wait_for()
    tab_to(page, "Open as a search", backwards=True)
    page.keyboard.press("Enter")
    page.locator(".example.like").wait_for()
    tab_to(page, "More like this")
    page.evaluate("() => { document.activeElement.id = 'pressed' }")
    page.keyboard.press("Enter")
    page.locator(".example.like").nth(1).wait_for()
    page.locator("#pressed").wait_for(state="detached")  # hits are drawn anew
    assert page.evaluate("() => document.activeElement.ariaLabel") == "More like this"
    tab_to(page, "Learn from these", backwards=True)
    page.keyboard.press("Space")
    page.locator(".probe .primary").wait_for()


FOCUS_ONCE_CLOSED = """() => new Promise(resolve => {
  const dialog = document.querySelector("dialog");
  const look = () => dialog.open || resolve(document.activeElement.className || document.activeElement.tagName);
  new MutationObserver(look).observe(dialog, { attributes: true });
})"""


@pytest.mark.parametrize("way", ["Enter", "Escape", "Cancel", "Close"])
@pytest.mark.parametrize("focused", ["BODY", "grid"])
def test_the_focus_is_back_as_soon_as_a_dialog_is_closed(page, app, way, focused):
    page.goto(f"{app.url}/?q=env:lift")
    page.locator(".grid .rows .row").first.wait_for()
    page.evaluate("document.activeElement.blur()")
    if focused == "grid":
        page.locator(".grid").focus()
    page.keyboard.press("n")
    page.keyboard.type("a key may follow at once")
    page.evaluate(f"() => {{ window.focusOnceClosed = ({FOCUS_ONCE_CLOSED})() }}")
    if way in ("Cancel", "Close"):
        page.get_by_role("dialog").get_by_role("button", name=way).click()
    else:
        page.keyboard.press(way)
    assert page.evaluate("() => window.focusOnceClosed") == focused


def test_the_focus_stays_on_a_control_that_is_drawn_anew(page, app):
    episode = app.archive.catalog.query.select(limit=1).rows[0]
    for path, name in (("/", "Length"), (f"/episodes/{episode.uid}", "Channel 1")):
        page.goto(f"{app.url}{path}")
        control = page.get_by_role("button", name=name).first
        control.focus()
        control.evaluate("control => { control.id = 'pressed' }")
        page.keyboard.press("Enter")
        page.locator("#pressed").wait_for(state="detached")
        assert page.evaluate("() => document.activeElement.textContent").startswith(name)


def test_keys_alone_select_on_the_map_export_compare_and_check(page, app):
    app.archive.catalog.collections.save_query("all of them", "length:>1")
    page.goto(f"{app.url}/map")
    page.locator("canvas.points[data-points='13']").wait_for()
    page.keyboard.press("a")
    page.get_by_text("13 selected:").wait_for()
    tab_to(page, "push")
    page.keyboard.press("Enter")
    page.get_by_text("4 selected:").wait_for()
    page.goto(f"{app.url}/collections")
    page.locator("table.plain").wait_for()
    tab_to(page, "Choose all of them")
    page.keyboard.press("Space")
    tab_to(page, "Export")
    page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    page.goto(f"{app.url}/?q=env:lift")
    page.get_by_text("All matching:").wait_for()  # the buttons are drawn anew once all are counted
    for key in ("Space", "j", "Space"):
        page.keyboard.press(key)
    tab_to(page, "Compare", backwards=True)
    page.keyboard.press("Enter")
    page.locator(".compare-column output", has_text="timestep 0").first.wait_for()
    page.keyboard.press("ArrowRight")
    page.locator(".compare-column output", has_text="timestep 1").first.wait_for()
    page.goto(f"{app.url}/maintenance")
    tab_to(page, "Health of the vectors")
    page.keyboard.press("Enter")
    page.locator(".job.done", has_text="health").wait_for()


def test_whoever_wants_less_motion_gets_none(page, app):
    page.goto(app.url)
    page.locator("button").first.wait_for()
    shown = "() => getComputedStyle(document.querySelector('button')).transitionDuration"
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate(shown) != "0s"
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(shown) == "0s"
