"""One episode, and the search from it, in a real browser: clock, plots, findings, spans, similar moments, examples."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from web_app import PICTURES, find_violations

from wshard import open_wshard
from wshard.core.media.images import encode_image

DARK = """(plot, steps) => { const canvas = plot.querySelector('canvas'), over = plot.querySelector('.u-over');
    const at = step => Math.round(over.offsetLeft + over.offsetWidth * step / 103);
    const column = x => canvas.getContext('2d').getImageData(x - 1, over.offsetTop, 3, over.offsetHeight).data;
    const isDark = (v, i, all) => i % 4 === 3 && v > 200 && all[i - 3] < 120;
    return steps.map(step => column(at(step)).filter(isDark).length); }"""


def uid_of(app, name):
    (row,) = app.archive.catalog.query.select(f"episode:{name}").rows
    return row.uid


def open_episode(page, app, name, query=""):
    page.goto(f"{app.url}/episodes/{uid_of(app, name)}{query}")
    page.locator(".lane .u-over").first.wait_for()


def over(page, lane, share):
    """Return a point of the screen at that share of a plot's width."""
    plot = page.get_by_role("region", name=lane).locator(".u-over")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    return box["x"] + share * box["width"], box["y"] + box["height"] / 2


def drag(page, lane, begin, end):
    page.mouse.move(*over(page, lane, begin))
    page.mouse.down()
    page.mouse.move(*over(page, lane, (begin + end) / 2), steps=3)
    page.mouse.move(*over(page, lane, end), steps=3)
    page.mouse.up()


def wait_for_step(page, step):
    """Wait until the clock is there: an address leads to its time once plots and cameras are loaded."""
    page.locator(".transport .time", has_text=re.compile(rf" {step} / ")).wait_for()


def step_of(page):
    return int(re.search(r"(\d+) / \d+", page.locator(".transport .time").inner_text())[1])


def test_cameras_and_plots_follow_one_clock(page, app):
    open_episode(page, app, "arm-00")
    camera = page.locator(".camera canvas")
    page.locator(".camera canvas[data-step='0']").wait_for()
    page.mouse.move(*over(page, "signal/state", 0.5))
    page.locator(".camera canvas[data-step='39'], .camera canvas[data-step='40']").wait_for()
    page.mouse.move(5, 5)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    assert step_of(page) in (50, 51)
    page.keyboard.press("Space")
    page.get_by_role("button", name="Pause").wait_for()
    page.wait_for_function("() => document.querySelector('.transport [type=range]').valueAsNumber > 53")
    page.keyboard.press("Space")
    page.get_by_role("button", name="Play").wait_for()
    assert step_of(page) > 51
    assert re.search(r"[?&]t=[\d.]+", page.url)
    page.screenshot(path=PICTURES / "episode.png")
    assert camera.evaluate("canvas => [canvas.width, canvas.height]") == [64, 48]


def test_cameras_are_enlarged_axes_are_in_seconds_and_every_value_can_be_read(page, app):
    open_episode(page, app, "arm-00", "?t=2")
    canvas = page.locator(".camera canvas[data-step='40']")
    canvas.wait_for()
    tall = canvas.bounding_box()["height"]
    page.get_by_role("button", name="Enlarge camera cam").press("Enter")
    assert canvas.bounding_box()["height"] > 1.5 * tall
    canvas.click()
    assert canvas.bounding_box()["height"] == tall
    with open_wshard(app.archive.catalog.query.select("episode:arm-00").rows[0].path) as file:
        expected = file["state"][40]
    lane = page.get_by_role("region", name="signal/state")
    values = lane.locator(".chip .value").all_inner_texts()
    assert np.allclose([float(text) for text in values], expected, rtol=1e-3)
    lane.get_by_text("20 Hz").wait_for()
    before = lane.locator("canvas").screenshot()
    page.get_by_label("Axis of time").select_option("seconds")
    assert lane.locator("canvas").screenshot() != before
    open_episode(page, app, "arm-01")
    assert page.get_by_label("Axis of time").input_value() == "seconds"
    page.evaluate("localStorage.removeItem('wshard-axis')")


def test_a_camera_without_pictures_says_so_and_is_left_alone(page, app):
    requested = []
    missing = {"status": 404, "json": {"message": "expected the video, found no file"}}
    page.route("**/pictures/**", lambda route: requested.append(route.request.url) or route.fulfill(**missing))
    open_episode(page, app, "arm-00")
    page.locator(".camera .problem", has_text="found no file").wait_for()
    page.locator(".camera canvas").wait_for(state="hidden")
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    wait_for_step(page, 20)
    assert len(requested) <= 9  # three, and those that were under way


def test_an_address_leads_to_a_time_and_a_span(page, app):
    open_episode(page, app, "arm-01", "?t=1.5&span=20:60")
    page.get_by_text("span 20:60").wait_for()
    assert step_of(page) == 30
    band = """([start, stop]) => [...document.querySelectorAll(".lane .u-over")].every((over) => {
      const select = over.querySelector(".u-select"), wide = over.clientWidth / 82;
      const off = [select.offsetLeft - start * wide, select.offsetWidth - (stop - 1 - start) * wide];
      return off.every((pixels) => Math.abs(pixels) < 3);
    })"""
    for width, scheme in ((1280, "light"), (1000, "light"), (1280, "light"), (1000, "dark"), (1280, "light")):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(100)
        page.wait_for_function(band, arg=[20, 60])
    page.keyboard.press("Escape")
    page.get_by_text("drag over a plot").wait_for()
    assert "span" not in page.url


def test_video_lanes_are_played_by_the_browser_at_the_clocks_time(page, app):
    open_episode(page, app, "arm-03", "?t=2")
    shown = """time => { const video = document.querySelector('.camera video');
        return video?.readyState >= 2 && !video.seeking && Math.abs(video.currentTime - time) < 0.03; }"""
    page.wait_for_function(shown, arg=2.025)
    assert page.locator(".camera video").evaluate("video => video.videoWidth") == 64
    page.keyboard.press("ArrowRight")
    page.wait_for_function(shown, arg=2.075)


def test_jpeg_lanes_go_out_as_they_are(page, app):
    open_episode(page, app, "arm-06")
    page.locator(".camera canvas[data-step='0']").wait_for()


def test_findings_are_drawn_where_they_are_and_lead_there(page, app):
    catalog = app.archive.catalog
    from catalog import CheckFinding  # noqa: PLC0415

    catalog.checks.flag(
        catalog.query.ids("episode:arm-07"), CheckFinding("spike", "signal/state[0]: timestep 40 lies apart")
    )
    open_episode(page, app, "arm-07")
    page.get_by_role("button", name=re.compile("timestep 40")).first.click()
    assert step_of(page) == 40
    page.get_by_role("button", name="Channel 1").first.click()
    assert page.get_by_role("button", name="Channel 1").first.get_attribute("aria-pressed") == "false"


def test_events_are_listed_drawn_and_lead_there(page, app):
    open_episode(page, app, "arm-08")
    events = page.get_by_role("region", name="Events")
    shown = [" ".join(text.split()) for text in events.get_by_role("listitem").all_inner_texts()]
    assert shown == ["0 phase: reach", "33 phase: grasp", "63 phase: lift", "103 done"]
    assert not {"aux/text/phase", "done"} & {*page.locator(".lane h2").all_inner_texts()}, "they are no quantities"
    events.get_by_role("button", name="grasp").click()
    assert step_of(page) == 33
    beside, on, after = page.get_by_role("region", name="signal/state").locator(".plot").evaluate(DARK, [27, 33, 37])
    assert on > 25 > max(beside, after), "a line stands where the phase changes"


def test_predictions_are_drawn_over_their_truth(page, app):
    open_episode(page, app, "arm-04")
    regions = page.locator(".lane h2").all_inner_texts()
    assert "signal/state" in regions
    assert not any(name.startswith(("omen", "uncert")) for name in regions)
    with open_wshard(app.archive.catalog.query.select("episode:arm-04").rows[0].path) as file:
        truth, predicted = file["state"][:], file["omen/state/model"][:]
    error = float(np.sqrt(np.mean((truth - predicted) ** 2)))
    drawn = page.locator(".drawn").first.inner_text()
    assert abs(float(re.search(r"off by ([\d.]+)", drawn)[1]) - error) < 0.01 * error
    assert "residual/state/sign2nddiff: below" in drawn
    page.screenshot(path=PICTURES / "predictions.png")


def test_a_dragged_span_finds_similar_moments_with_their_alignment(page, app):
    open_episode(page, app, "arm-01")
    drag(page, "signal/state", 0.25, 0.7)
    page.locator(".transport .span", has_text=re.compile(r"span 2\d:5\d")).wait_for()
    page.keyboard.press("f")
    page.locator(".hit .score").nth(2).wait_for()
    scores = [float(text) for text in page.locator(".hit .score").all_inner_texts()]
    assert scores == sorted(scores, reverse=True)
    assert "arm-01" not in page.locator(".hit header a").all_inner_texts()
    assert all("of" in text for text in page.locator(".hit header + p").all_inner_texts())
    page.get_by_label("Filter of the hits").fill("env:wipe")
    page.locator(".hit", has_text="push").first.wait_for(state="detached")
    assert page.locator(".hit").count() >= 1
    page.get_by_label("Filter of the hits").fill("")
    page.locator(".hit", has_text="push").first.wait_for()
    page.get_by_role("slider", name="Minimum score").fill("1")
    page.locator(".similar .count", has_text="0 hits").wait_for()
    page.get_by_role("slider", name="Minimum score").fill("0")
    page.screenshot(path=PICTURES / "similar.png")
    page.locator(".hit").first.get_by_role("button", name="Not like this").click()
    page.locator(".similar .count", has_text=re.compile("hit")).wait_for()
    page.get_by_role("button", name="Open as a search").click()
    page.locator(".example.unlike").wait_for()
    assert "unlike=" in page.url


def test_words_and_examples_search_together(page, app):
    page.goto(f"{app.url}/search")
    page.get_by_role("button", name="Type words").click()
    page.keyboard.type("wipe")
    page.keyboard.press("Enter")
    page.locator(".hit").nth(5).wait_for()
    page.locator(".hit p", has_text="lift · wipe off").first.wait_for()
    page.locator(".hit").first.get_by_role("button", name="More like this").click()
    page.locator(".example.like").wait_for()
    assert "like=" in page.url
    page.go_back()
    page.locator(".example").wait_for(state="detached")
    page.get_by_label("Filter", exact=True).fill("env:nothing-like-it")
    page.locator(".hit-list .count", has_text="0 hits").wait_for()
    page.get_by_label("Filter", exact=True).fill("length:x")
    page.locator(".problem mark").wait_for()
    page.get_by_label("Filter", exact=True).fill("")


def test_a_search_begins_with_an_episode_a_file_or_a_drawing(page, app):
    page.goto(app.url)
    page.locator(".grid .row", has_text="arm-03").get_by_role("link", name="Find similar").click()
    page.locator(".hit .score").first.wait_for()
    page.locator(".notes", has_text="Compared by signal/state").wait_for()
    page.get_by_role("link", name="Search", exact=True).click()
    page.get_by_label("Name of an episode").fill("arm-1")
    page.locator(".offered a").nth(2).wait_for(state="detached")
    page.locator(".offered a", has_text="arm-11").click()
    page.locator(".example", has_text="like arm-11").wait_for()
    page.goto(f"{app.url}/search")
    upload = page.get_by_label("File of a query")
    upload.set_input_files({"name": "wrong.csv", "mimeType": "text/csv", "buffer": b"1,2\n3,4\n"})
    page.get_by_role("alert").get_by_text("fits none of the searchable Spaces").wait_for()
    path = Path(app.archive.catalog.query.select("episode:arm-04").rows[0].path)
    upload.set_input_files({"name": "other.wshard", "mimeType": "", "buffer": path.read_bytes()})
    page.locator(".hit header a").first.wait_for()
    assert page.locator(".hit header a").first.inner_text() == "arm-04", "nobody ingested the file, but its copy"
    page.locator(".example", has_text="like other.wshard (92 timesteps)").wait_for()
    assert page.get_by_role("button", name="Learn from these").count() == 0, "its vectors are not in the archive"


def test_a_dropped_picture_finds_frames_and_opens_one(page, app):
    with app.archive.archive.episode("arm-09").open() as file:
        png = encode_image(file["cam"][31], "png")
    page.goto(f"{app.url}/search")
    dropped = page.evaluate_handle(
        """(bytes) => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([new Uint8Array(bytes)], "seen.png", { type: "image/png" }));
            return transfer;
        }""",
        [*png],
    )
    page.get_by_label("Upload or draw").dispatch_event("drop", {"dataTransfer": dropped})
    first = page.locator(".hit").first
    first.locator(".frame img").wait_for()
    step = int(re.search(r"frame (\d+) of cam", first.inner_text())[1])
    assert step % 44 == 31  # the pictures of these cameras come again after 44 timesteps
    assert "cam" in first.locator(".frame img").get_attribute("src")
    assert first.locator(".score").inner_text() == "1.000"
    first.locator("header a").click()
    page.wait_for_url(re.compile(rf"/episodes/.*span={step}(:|%3A){step + 1}"))
    page.get_by_text(re.compile(rf"· {step} / \d+")).first.wait_for()


def test_frames_like_that_of_a_camera_are_found_in_the_player(page, app):
    open_episode(page, app, "arm-09", "?t=1.55")
    wait_for_step(page, 31)
    page.get_by_role("button", name="Find frames like this").click()
    page.locator(".similar h2", has_text="Frames like 31 of cam").wait_for()
    first = page.locator(".hit").first
    first.locator(".frame img").wait_for()
    assert int(re.search(r"frame (\d+) of cam", first.inner_text())[1]) % 44 == 31, "the pictures come again"
    assert "arm-09" not in page.locator(".hit header a").all_inner_texts()
    first.get_by_role("button", name="Not like this").click()
    page.locator(".similar header", has_text="1 counter-example").wait_for()
    page.locator(".hit").first.wait_for()
    drag(page, "signal/state", 0.25, 0.4)
    button = page.get_by_role("button", name=re.compile(r"Find frames like \d+:\d+"))
    span = button.inner_text().rpartition(" ")[2]
    button.press("Enter")
    page.locator(".similar h2", has_text=f"Frames like {span} of cam").wait_for()
    page.reload()  # the address says it
    page.locator(".similar h2", has_text=f"Frames like {span} of cam").wait_for()
    page.locator(".hit .score").first.wait_for()
    page.get_by_role("button", name="Open as a search").click()
    page.locator(".example", has_text=f"like arm-09 cam {span}").wait_for()
    page.locator(".hit .frame img").first.wait_for()


def test_a_movement_is_drawn_by_mouse_or_by_keys(page, app):
    page.goto(f"{app.url}/search")
    page.get_by_text("Draw one").click()
    page.locator(".pad output", has_text="in the gray episodes").wait_for()
    assert page.get_by_role("button", name="Find movements").is_disabled()
    page.get_by_label("Channel", exact=True).select_option("2")
    canvas = page.locator(".pad canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 8, box["y"] + box["height"] - 10)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 8, box["y"] + 10, steps=5)
    page.mouse.up()
    assert find_violations(page, ".pad") == []
    page.get_by_role("button", name="Clear this channel").click()
    assert page.get_by_role("button", name="Find movements").is_disabled()
    canvas.focus()
    for key in ("ArrowLeft",) * 40 + ("ArrowDown",) * 9 + ("ArrowRight",) * 40 + ("ArrowUp",) * 9:
        page.keyboard.press(key)
    page.keyboard.press("Shift+Tab")
    page.keyboard.type("70")
    page.get_by_role("button", name="Find movements").focus()
    page.keyboard.press("Enter")
    page.locator(".hit .score").first.wait_for()
    page.locator(".example", has_text="drawing.csv (70 timesteps)").wait_for()


def test_notes_tags_and_keys_on_the_page(page, app):
    open_episode(page, app, "arm-00", "?q=env%3Alift&at=0")
    page.get_by_label("A note").fill("<b>slips</b> at the end")
    page.get_by_role("button", name="Add").click()
    page.locator(".note", has_text="<b>slips</b> at the end").wait_for()
    page.keyboard.press("Escape")
    page.locator("h1").click()
    page.keyboard.press("5")
    page.locator(".star[aria-pressed='true']").nth(4).wait_for()
    page.keyboard.press("t")
    page.get_by_role("dialog").get_by_role("textbox").fill("seen")
    page.keyboard.press("Enter")
    page.locator(".tag", has_text="seen").wait_for()
    place = page.get_by_role("navigation", name="Place in the list")
    place.get_by_text("1 of 4").wait_for()
    page.keyboard.press("j")
    page.wait_for_url(re.compile(uid_of(app, "arm-03")))
    assert "at=1" in page.url
    place.get_by_role("link", name="Next").click()
    place.get_by_text("3 of 4").wait_for()
    place.get_by_role("link", name="Previous").click()
    page.wait_for_url(re.compile(uid_of(app, "arm-03")))
    place.get_by_role("link", name="env:lift").click()
    page.locator(".status .count", has_text="4 episodes").wait_for()
    open_episode(page, app, "arm-03")
    place.get_by_text("5 of 13").wait_for()  # opened by its address: its place in the list of all
    assert app.archive.catalog.query.count("tag:seen score.rating:5 note:*") == 1


def test_an_episode_that_is_not_there_says_so(page, app):
    page.goto(f"{app.url}/episodes/nothing")
    page.get_by_text("This episode cannot be shown").wait_for()


def test_the_words_of_the_command_line_are_options_of_the_search(page, app):
    page.goto(f"{app.url}/search?query={uid_of(app, 'arm-01')}")
    page.locator(".hit").nth(5).wait_for()
    page.get_by_text("More options").click()
    page.get_by_label("contributions").check()
    page.locator(".hit .lanes", has_text="contributions:").first.wait_for()
    page.get_by_label("number of hits").fill("3")
    page.keyboard.press("Tab")
    page.locator(".hit-list .count", has_text="3 hits").wait_for()
    best = page.locator(".hit header a").first.inner_text()
    page.get_by_label("least similar").check()
    page.locator(".hit header a", has_text=best).wait_for(state="detached")
    assert all(part in page.url for part in ("contributions=1", "top=3", "least=1"))


def test_the_speed_is_chosen_and_timesteps_are_taken_one_by_one(page, app):
    open_episode(page, app, "arm-00", "?t=1")
    wait_for_step(page, 20)
    page.get_by_role("button", name="Forward one timestep").click()
    assert step_of(page) == 21
    for key in ("ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
    assert step_of(page) == 19
    page.get_by_label("Speed").select_option(value="8")
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("() => document.querySelector('.transport [type=range]').valueAsNumber === 79")  # the end


def test_the_panel_shows_origin_history_and_the_file(page, app):
    (row,) = app.archive.catalog.query.select("episode:arm-08").rows
    app.archive.catalog.annotations.review([row.id], "unsure", who="bob")
    open_episode(page, app, "arm-08")
    about = page.get_by_role("complementary", name="About this episode")
    about.get_by_text("For programs").click()
    for text in ("wipe off", "trimmed_from arm-longer", "unsure", row.uid):
        about.get_by_text(text).first.wait_for()
    about.get_by_text("History").click()
    about.get_by_text("review: unsure bob").wait_for()
    with page.expect_download() as download:
        about.get_by_role("link", name="Download the file").click()
    assert download.value.path().read_bytes() == Path(row.path).read_bytes()
    app.archive.catalog.annotations.tag([row.id], "seen by others")
    about.get_by_text("seen by others").wait_for()  # without a reload


def test_one_box_takes_examples_counter_examples_words_and_a_filter(page, app):
    one, two, other = (uid_of(app, name) for name in ("arm-01", "arm-03", "arm-04"))
    page.goto(f"{app.url}/search?query={one}&like={two}@5:60&unlike={other}&text=pick&q=env:push")
    page.locator(".hit .lanes").first.wait_for()
    for name in ("arm-03", "arm-04"):  # names may come after the hits
        page.locator(".example", has_text=name).wait_for()
    shown = [" ".join(text.split()) for text in page.locator(".example").all_inner_texts()]
    assert shown == ["like arm-01 ✕", "like arm-03 5:60 ✕", "not like arm-04 ✕"]
    names = page.locator(".hit header a").all_inner_texts()
    assert {*names} <= {"arm-07", "arm-10"}, "others of env:push than the examples, which are left out"
    assert not page.get_by_role("slider", name="Diversity").get_attribute("disabled")
    page.get_by_role("slider", name="Diversity").fill("0.5")
    page.wait_for_url(re.compile("diversity=0.5"))
    page.goto(f"{app.url}/search?query={one}@5:40")
    page.locator(".hit .next").first.wait_for()
    once = page.locator(".hit header a").evaluate_all("links => links.map(link => new URL(link.href).pathname)")
    assert len(once) == len({*once}) > 5
    page.get_by_label("one per episode").uncheck()
    page.wait_for_function(f"() => document.querySelectorAll('.hit').length > {len(once)}")
    following = page.locator(".hit .next").first.get_attribute("href")
    stop = re.search(r":(\d+) of", page.locator(".hit", has=page.locator(".next")).first.inner_text())[1]
    assert f"span={stop}%3A" in following
    page.locator(".hit .next").first.click()
    page.locator(".lane .u-over").first.wait_for()


def test_hits_of_words_say_how_many_of_them_they_have(page, app):
    page.goto(f"{app.url}/search?text=wipe up quickly")
    page.locator(".hit p", has_text="1 of 3 words").first.wait_for()
    assert page.locator(".hit .score").first.inner_text() == "1.000", "a share of the best, which has one word, too"
