"""Text that would be a script stays text, wherever a page shows what people, files or programs wrote."""

from __future__ import annotations

import numpy as np
import pytest
from web_app import running_app, signed_in

from catalog import Pick
from wshard import Channel, Episode, FormatError, TimebaseSpec, TrajectoryIngestor, save_wshard

HOSTILE = "\"'><img src=x class=evil onerror=window.evil=1><script class=evil>window.evil=1</script>"
BRIEF = "<b class=evil>"
INJECTED = "() => [...document.querySelectorAll('.evil')].length + Number('evil' in window)"


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile") / f"{BRIEF}files"
    folder.mkdir()
    for number in range(4):
        phase = np.linspace(0, 6 + number / 9, 60)
        path = np.stack([np.sin(phase), np.cos(phase)], axis=1).astype(np.float32)
        path[30] += 50 * (number == 3)
        episode = Episode(
            id=f"{HOSTILE}{number}",
            env_id=f"{HOSTILE}{number % 2}",
            timebase=TimebaseSpec(tick_hz=20.0),
            observations={BRIEF: Channel.of(BRIEF, path)},
            actions={f"act{BRIEF}": Channel.of(f"act{BRIEF}", path)},
            metadata={HOSTILE: f"{HOSTILE}{number // 2}", "task": f"{HOSTILE}{number % 2}", "deep": {BRIEF: [HOSTILE]}},
        )
        save_wshard(episode, folder / f"{BRIEF}{number}.wshard")
    with TrajectoryIngestor(folder.parent / "lab") as ingestor:
        assert not ingestor.ingest([folder]).failed
    with running_app(folder.parent / "lab") as running:
        annotate(running)
        yield running


def annotate(app):
    catalog = app.archive.catalog
    ids = catalog.query.ids()
    catalog.annotations.tag(ids, HOSTILE)
    catalog.annotations.add_note(ids, HOSTILE, who=HOSTILE)
    catalog.annotations.review(ids, HOSTILE, who=HOSTILE)
    catalog.annotations.set_scores(HOSTILE, dict.fromkeys(ids, 1.0))
    catalog.collections.save_query(f"{BRIEF}live", "length:>1", who=HOSTILE)
    picks = [Pick(row.uid, row.digest, 0, row.length) for row in catalog.query.select().rows]
    catalog.collections.save_snapshot(f"{BRIEF}saved", picks, who=HOSTILE)

    def fail(job):
        job.stage(HOSTILE, 1)
        raise FormatError(HOSTILE)

    app.archive.jobs.start(HOSTILE, fail, who=HOSTILE)


def test_hostile_text_stays_text_on_every_page(browser, app):
    first, second = [row.uid for row in app.archive.catalog.query.select(limit=2).rows]
    fields = ("env", "review", "tags", "flag", "collection", "path", "meta.task")
    columns = "&".join(f"column={name}" for name in fields)
    visits = {
        f"/?{columns}": ".grid .rows .row .tag",
        "/?sort=-length": ".facets:not([aria-busy]) .facet .value:has-text('onerror')",
        f"/?q={HOSTILE}": ".filter .problem:not(:empty)",
        f'/?q=env:"{BRIEF}x"': ".empty h2",
        f"/episodes/{first}?span=5:30&similar=1": ".lane .u-over",
        f"/episodes/{BRIEF}": ".problem",
        f"/search?text={HOSTILE}&where={HOSTILE}": ".problem:not(:empty), .hit:not([hidden])",
        f"/search?like={first}": ".hit:not([hidden])",
        f"/compare?of={first}&of={second}": ".compare-column",
        "/map?colour=meta.task": ".legend li",
        "/review?queue=outliers": ".queue .rows .row",
        "/review?queue=mislabeled&label=task": "p.count",
        f"/review?queue=leaks&left={HOSTILE}&right=x": "p.count",
        "/collections": "table td a",
        "/maintenance": ".job .problem",
    }
    with signed_in(browser, app) as context:
        page = context.pages[0]
        for path, shown in visits.items():
            page.goto(app.url + path)
            page.locator(shown).first.wait_for()
            assert page.evaluate(INJECTED) == 0, path
            if path == "/collections":
                page.get_by_role("button", name="Export").first.click()
                page.get_by_role("dialog", name="Export <b class=evil>").wait_for()
            if path.startswith("/episodes") and page.locator(".audit").count():
                page.locator(".audit summary").click()
                page.locator(".audit li", has_text="<img src=x").first.wait_for()
                page.locator(".hit:not([hidden]), .similar .problem").first.wait_for()
            assert page.evaluate(INJECTED) == 0, path
        page.evaluate("text => document.body.insertAdjacentHTML('beforeend', text)", HOSTILE)
        assert page.evaluate(INJECTED) > 0, "this would have been seen"
