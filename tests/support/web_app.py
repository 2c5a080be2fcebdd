"""A small archive, and the browser app over it on a free port of this machine."""

from __future__ import annotations

import ctypes
import shutil
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import numpy as np
import pytest
import uvicorn
from starlette.routing import Route

from bridge.web.accounts import Account, SignIns, allowed_hosts
from bridge.web.application import AppOptions, are_pages_built, make_app
from bridge.web.guard import Rules
from bridge.web.served import ServedArchive
from bridge.web.server import listen
from wshard import (
    Channel,
    Episode,
    Residual,
    TimebaseSpec,
    TrajectoryIngestor,
    compute_sign2nd_diff_multidim,
    pack_multidim_residual_bits,
    save_wshard,
)
from wshard.core.episode.step_texts import add_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page
    from starlette.applications import Starlette

AXE = Path(__file__).resolve().parents[2] / "bridge" / "web" / "node_modules" / "axe-core" / "axe.min.js"
CHROMIUM = shutil.which("chromium")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
_PR_CAPBSET_DROP, _CAP_SYS_NICE = 24, 23
PICTURES = Path(__file__).resolve().parents[2] / ".pictures"
"""Screenshots of the last run, ignored by git."""


def write_episodes(folder: Path, count: int = 12) -> None:
    """Write episodes of two movements in three environments, every third with a camera, one with a spike.

    The camera of number 3 is a video, that of number 6 JPEG, others raw. Number 4 has predictions, number 8 events.
    """
    folder.mkdir(parents=True)
    for number in range(count):
        rng, steps = np.random.default_rng(number), 80 + 3 * number
        phase = np.linspace(0, (2 + number % 2) * np.pi, steps)
        path = np.stack([np.cos(phase), np.sin(2 * phase), phase / 6], axis=1) + 0.02 * rng.normal(size=(steps, 3))
        if number == 7:
            path[40] += 30
        observations: dict[str, Any] = {"state": Channel.of("state", path.astype(np.float32))}
        if number % 3 == 0:
            frames = np.full((steps, 48, 64, 3), 30, np.uint8)
            for step in range(steps):
                frames[step, 10:30, step % 44 : step % 44 + 20] = (220, 160, 20)
            observations["cam"] = Channel.of("cam", frames)
        episode = Episode(
            id=f"arm-{number:02d}",
            env_id=("lift", "push", "wipe")[number % 3],
            timebase=TimebaseSpec(tick_hz=20.0),
            observations=observations,
            actions={"ctrl": Channel.of("ctrl", np.gradient(path, axis=0).astype(np.float32))},
            rewards=np.full(steps, number / 100, np.float32),
            metadata={
                "task": "pick up" if number % 2 else "wipe off",
                "success": number % 4 != 0,
                "arm side": ("left", "right")[number // 2 % 2],
            },
        )
        if number == 8:
            episode.metadata["trimmed_from"] = "arm-longer"
            episode.terminations = np.arange(steps) == steps - 1
            add_texts(episode, "phase", ["reach"] * 33 + ["grasp"] * 30 + ["lift"] * (steps - 63))
        if number == 4:
            episode.omens["state"] = {"model": Channel.of("state", np.roll(path, 2, axis=0).astype(np.float32))}
            doubt = np.full((steps, 3), 0.2, np.float32)
            episode.uncerts["state/model/std"] = Channel.of("state/model/std", doubt)
            signs = pack_multidim_residual_bits(compute_sign2nd_diff_multidim(path.astype(np.float32)))
            episode.residuals["state"] = Residual("state", "sign2nddiff", signs)
        save_wshard(episode, folder / f"{number:02d}.wshard", encode={3: "mp4", 6: "jpeg"}.get(number))


def make_archive(folder: Path, count: int = 12) -> Path:
    """Return a new archive of such episodes, ingested with windows."""
    write_episodes(folder / "episodes", count)
    with TrajectoryIngestor(folder / "lab") as ingestor:
        assert not ingestor.ingest([folder / "episodes"]).failed
    return folder / "lab"


class RunningApp(NamedTuple):
    """A server that runs: its address, how browsers sign in, and what it serves."""

    url: str
    port: int
    sign_ins: SignIns
    archive: ServedArchive
    application: Starlette

    def routes(self) -> list[Route]:
        """Return the routes that it answers."""
        return [route for route in self.application.routes if isinstance(route, Route)]

    @contextmanager
    def client(self) -> Iterator[httpx.Client]:
        """Give a client that is signed in, and sends what pages send with changes."""
        with httpx.Client(base_url=self.url, follow_redirects=True, timeout=30) as client:
            page = client.get("/", params={"token": self.sign_ins.new_link_token()})
            assert page.status_code == 200, page.text
            csrf = page.text.partition('name="csrf" content="')[2].partition('"')[0]
            client.headers.update({"x-csrf-token": csrf, "origin": self.url})
            yield client


@contextmanager
def running_app(
    place: Path, *, role: str = "editor", accounts: dict[str, Account] | None = None
) -> Iterator[RunningApp]:
    """Serve an archive from a thread until the block ends."""
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    sign_ins = SignIns(accounts, owner=Account("ann", "reader" if role == "reader" else "editor"))
    rules = Rules(allowed_hosts("127.0.0.1", port), sign_ins, f"wshard_{port}")
    with ServedArchive(place) as archive:
        app = make_app(archive, AppOptions(rules))
        # A connection that idles while a slow machine runs a command must not be closed as the next request is sent.
        config = uvicorn.Config(app, log_level="warning", ws="none", lifespan="off", timeout_keep_alive=600)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield RunningApp(f"http://127.0.0.1:{port}", port, sign_ins, archive, app)
        finally:
            server.should_exit = True
            thread.join()
            listening.close()


def need_pages() -> None:
    """Skip where the pages were not built."""
    if not are_pages_built():
        pytest.skip("the app's pages are not built: `make web`")


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Run Debian's chromium; skip where it is not installed."""
    need_pages()
    if CHROMIUM is None:
        pytest.skip("no chromium here: `apt-get install chromium`")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  (starts a driver)

    _keep_priority_equal()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


def _keep_priority_equal() -> None:
    """Let no process that this one starts go before others: as root, chromium's threads would starve all tests."""
    with suppress(AttributeError, OSError, TypeError):  # other systems than Linux have no such call
        ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, _CAP_SYS_NICE)  # refused to who is not root, who has no such right


@contextmanager
def signed_in(browser: Browser, app: RunningApp, height: int = 800) -> Iterator[BrowserContext]:
    """Yield a browser that is signed in, with windows 1280 pixels wide; it waits a minute for what it has to do."""
    context = browser.new_context(viewport={"width": 1280, "height": height})
    context.set_default_timeout(60_000)
    context.new_page().goto(f"{app.url}/?token={app.sign_ins.new_link_token()}")
    yield context
    context.close()


@contextmanager
def watched_page(context: BrowserContext, is_wrong: Callable[[ConsoleMessage], bool]) -> Iterator[Page]:
    """Yield a page, after which no script may have failed; is_wrong: whether an error that was logged counts, too."""
    page, wrong, requested, answered = context.new_page(), list[str](), list[str](), list[str]()
    page.on("request", lambda request: requested.append(request.url))
    page.on("requestfinished", lambda request: answered.append(request.url))
    page.on("requestfailed", lambda request: answered.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda line: wrong.append(line.text) if line.type == "error" and is_wrong(line) else None)
    yield page
    waiting = [url[:120] for url in (Counter(requested) - Counter(answered)).elements()]  # shown where the test failed
    print(
        f"{page.url}: {len(requested)} requests, the last {[url[:120] for url in requested[-8:]]}, unanswered {waiting}"
    )
    page.close()
    assert wrong == []


@cache
def _axe() -> str:
    return AXE.read_text()


def find_violations(page: Page, within: str = "html") -> list[Any]:
    """Return the rules of axe-core that a page breaks, with the elements: all in light, those about colours in dark.

    within: what is checked. Behind a dialog is a page that nobody can reach.
    """
    page.evaluate(f"() => {{ {_axe()} }}")
    found = list[Any]()
    brief = {"resultTypes": ["violations"], "preload": False}
    for theme, rules in (("light", brief), ("dark", brief | {"runOnly": ["color-contrast", "link-in-text-block"]})):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # type: ignore[arg-type]  # a name that it takes
        page.evaluate(
            "() => new Promise((then) => requestAnimationFrame(() => requestAnimationFrame(then)))"
        )  # drawn anew
        found += page.evaluate(
            "args => axe.run(...args).then(found => found.violations.map(v => [v.id, v.nodes.map(n => n.html)]))",
            [within, rules],
        )
    return found
