"""Nobody reaches the archive who should not: hosts, origins, tokens, forged changes, paths, sizes, slow clients."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
from contextlib import ExitStack
from threading import Thread

import httpx
import pytest
from web_app import make_archive, need_pages, running_app

from bridge.web.application import ENDPOINTS, PAGES
from bridge.web.endpoints import Endpoint
from bridge.web.guard import MAX_BODY, UPLOADS


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    need_pages()
    with running_app(make_archive(tmp_path_factory.mktemp("guard"), 3)) as running:
        yield running


@pytest.fixture(scope="module")
def client(app):
    with app.client() as signed_in:
        yield signed_in


@pytest.fixture(scope="module")
def uid(client):
    return client.get("/api/episodes").json()["items"][0]["uid"]


def path_of(endpoint):
    return endpoint.path.replace(":path", "").translate(str.maketrans("", "", "{}"))


def test_every_route_refuses_strangers(app):
    with httpx.Client(base_url=app.url) as stranger:
        for endpoint in ENDPOINTS:
            answer = stranger.request(endpoint.method, path_of(endpoint))
            assert answer.status_code in (401, 403), endpoint.path
            assert set(answer.json()) == {"error", "message"}
        assert stranger.get("/api/openapi.json").status_code == 401
        for page in PAGES:
            answer = stranger.get(page.replace("{uid}", "x"))
            assert answer.status_code == 303
            assert answer.headers["location"].startswith("/login?next=")


def test_other_hosts_are_not_answered(app, client):
    for host in ("evil.example", f"evil.example:{app.port}", "127.0.0.1", f"127.0.0.1:{app.port + 1}", ""):
        for path in ("/", "/login", "/static/main.js", "/api/state"):
            assert client.get(path, headers={"host": host}).status_code in (400, 421)
    assert client.get("/api/state", headers={"host": f"LOCALHOST:{app.port}"}).status_code == 200


def test_requests_of_other_sites_are_refused(app, client, uid):
    foreign = ({"origin": "http://evil.example"}, {"origin": "null"}, {"origin": f"http://evil.example:{app.port}"})
    for headers in (*foreign, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site", "origin": "http://a"}):
        answer = client.post("/api/tags", json={"episodes": [uid], "name": "x"}, headers=headers)
        assert answer.status_code == 403, headers
    assert client.get("/api/state", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    visit = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.get("/", headers=visit).status_code == 200
    assert client.get("/api/episodes", params={"where": "tag:x"}).json()["total"] == 0


def test_changes_need_the_pages_own_token(app, client, uid):
    changing = [endpoint for endpoint in ENDPOINTS if endpoint.method != "GET"]
    assert changing
    for endpoint in changing:
        for csrf in ("", "x", client.headers["x-csrf-token"][:-1]):
            answer = client.request(endpoint.method, path_of(endpoint), headers={"x-csrf-token": csrf})
            assert answer.status_code == 403
    with app.client() as other:
        stolen = {"x-csrf-token": other.headers["x-csrf-token"]}
        assert client.post("/api/tags", json={"episodes": [uid], "name": "x"}, headers=stolen).status_code == 403
    assert client.post("/logout", headers={"x-csrf-token": ""}).status_code == 403


def test_a_link_signs_in_once_and_the_cookie_is_for_no_script(app):
    token = app.sign_ins.new_link_token()
    with httpx.Client(base_url=app.url) as browser:
        answer = browser.get("/episodes/abc", params={"t": "2", "token": token})
        assert answer.status_code == 303
        assert answer.headers["location"] == "/episodes/abc?t=2"
        cookie = answer.headers["set-cookie"].lower()
        assert all(part in cookie for part in ("httponly", "samesite=strict", "path=/"))
        assert token not in cookie
        assert browser.get("/api/state").status_code == 200
        assert browser.get("/", params={"token": token}).status_code == 303, "its own browser may open it again"
    with httpx.Client(base_url=app.url) as thief:
        assert thief.get("/", params={"token": token}).headers["location"].startswith("/login")
        assert thief.get("/api/state").status_code == 401
        elsewhere = thief.get(f"{app.url}//evil.example/?token={app.sign_ins.new_link_token()}")
        assert elsewhere.headers["location"] == "/evil.example/"


def test_headers_forbid_what_pages_do_not_need(client, uid):
    for path in ("/", "/login", "/static/main.js", "/api/state", f"/episodes/{uid}", "/nothing", "/api/nothing"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    assert client.get("/api/state").headers["cache-control"] == "no-store"


def test_browsers_keep_the_scripts_and_nothing_else(client):
    main = client.get("/static/main.js")
    assert main.headers["cache-control"] == "no-cache"
    again = client.get("/static/main.js", headers={"if-none-match": main.headers["etag"]})
    assert (again.status_code, again.headers["cache-control"]) == (304, "no-cache")
    chunk = re.search(r"chunks/[\w-]+\.js", main.text)[0]
    assert "immutable" in client.get(f"/static/{chunk}").headers["cache-control"]
    assert client.get("/").headers["cache-control"] == "no-store"


def test_files_are_reached_by_episode_only(client, uid):
    outside = ("../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd", "/etc/passwd", "....//etc")
    for path in outside:
        for begin in ("/static/", "/api/episodes/", f"/api/episodes/{uid}/pictures/0/", "/episodes/"):
            answer = client.get(begin + path)
            assert "root:" not in answer.text
            assert answer.status_code in (400, 404) or (begin == "/episodes/" and "data-page" in answer.text)
    for name in ("/etc/passwd", "../lab/catalog.db", "file:///etc/passwd", f"{uid}@0:5#x"):
        assert client.get("/api/series", params={"of": name}).status_code in (400, 404)


def test_numbers_out_of_range_and_unknown_parameters_are_refused(client, uid):
    series = {"of": uid}
    refused = [
        ("/api/episodes", {"limit": 0}),
        ("/api/episodes", {"limit": 10**6}),
        ("/api/episodes", {"limit": "9e99"}),
        ("/api/episodes", {"skip": -1}),
        ("/api/episodes", {"limit": ["1", "2"]}),
        ("/api/episodes", {"after": "nonsense"}),
        ("/api/episodes", {"sort": "nothing"}),
        ("/api/episodes", {"where": "(" * 5000}),
        ("/api/episodes", {"wher": ""}),
        ("/api/episodes", {"count": "maybe"}),
        ("/api/series", {}),
        ("/api/series", series | {"points": 10**9}),
        ("/api/series", {"of": [uid] * 999, "points": 20000}),
        ("/api/series", {"of": [uid] * 1001}),
        ("/api/series", {"of": f"{uid}@5"}),
        ("/api/series", {"of": f"{uid}@{'9' * 99}:"}),
        ("/api/facets", {"histogram": "length", "bins": 10**6}),
        (f"/api/episodes/{uid}/pictures/-1/cam", {}),
        (f"/api/episodes/{uid}/pictures/{10**9}/signal/cam", {}),
        (f"/api/episodes/{uid}/pictures/{'9' * 400}/signal/cam", {}),
        (f"/api/episodes/{uid}/pictures/0/signal/state", {}),
        (f"/api/episodes/{uid}/pictures/0/signal/cam", {"width": 10**6}),
    ]
    for path, parameters in refused:
        answer = client.get(path, params=parameters)
        assert answer.status_code in (400, 413, 416), (path, parameters, answer.text)
        assert len(answer.content) < 5000
    assert client.get("/api/series", params={"of": f"{uid}@70:{10**12}", "points": 20}).status_code == 200


def test_bodies_are_limited_and_must_be_objects(client):
    assert client.post("/api/tags", content=b"[" * 2_000_000).status_code == 413

    def endless():
        for _ in range(40):
            yield b" " * 65536

    assert client.post("/api/tags", content=endless()).status_code == 413
    for body in (b"[]", b"{", b"1", b'{"name": 1}', b'{"name": "x", "nothing": 1}', b"[" * 50_000, b"\xff"):
        assert client.post("/api/tags", content=body).status_code == 400
    assert client.post("/login", content=b"[" * 50_000).status_code == 401
    with httpx.Client(base_url=str(client.base_url)) as stranger:
        assert stranger.post("/login", content=endless()).status_code == 413, "no account is known yet"


def test_no_route_holds_a_body_above_the_limit(app, client):
    """Bodies without a declared length, which never end, and declared lengths: each route, as its server calls it."""
    session = f"wshard_{app.port}={client.cookies[f'wshard_{app.port}']}"
    headers = {"host": f"127.0.0.1:{app.port}", "cookie": session, "x-csrf-token": client.headers["x-csrf-token"]}
    takes_bodies = {("POST", "/login"), *((one.method, one.path) for one in ENDPOINTS if one.body or one.takes_file)}
    limits = {UPLOADS: 64 << 20}
    changing = [
        (method, route.path) for route in app.routes() for method in route.methods if method not in ("GET", "HEAD")
    ]
    assert takes_bodies < {*changing}

    def ask(method, path, more):
        taken, sent = [], []

        async def receive():
            taken.append(0)
            return {"type": "http.request", "body": b" " * 65536, "more_body": True}

        async def send(message):
            sent.append(message)

        pairs = [(name.encode(), value.encode()) for name, value in (headers | more).items()]
        scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": pairs}
        call = Thread(
            target=asyncio.run, args=(app.application(scope, receive, send),)
        )  # a browser's loop may run here
        call.start()
        call.join()
        return sent[0]["status"], len(taken) * 65536

    for method, path in changing:
        plain, limit = re.sub(r"{\w+(:\w+)?}", "1", path), limits.get(path, MAX_BODY)
        if (method, path) in takes_bodies:
            status, received = ask(method, plain, {})
            assert (status, received <= limit + 65536) == (413, True), path
        assert ask(method, plain, {"content-length": str(limit + 1)}) == (413, 0), path
    assert ask("DELETE", "/api/jobs/1", {})[1] == 0, "a route without a body reads none"


def test_odd_cookies_of_other_apps_do_not_matter(app, client):
    session = client.cookies[f"wshard_{app.port}"]
    with httpx.Client(base_url=app.url) as browser:
        for odd in ("a=b c; d", '{"x": 1}', "=", "a[0]=1", 'q="unclosed', "name with blanks=1", "\x01=2"):
            for cookie in (f"{odd}; wshard_{app.port}={session}", f"wshard_{app.port}={session}; {odd}"):
                assert browser.get("/api/state", headers={"cookie": cookie}).status_code == 200, cookie


def test_slow_clients_do_not_hold_up_others(app, client):
    """Fifty connections that never finish their request, and others that never read the answer."""
    with ExitStack() as stack:
        for number in range(50):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", app.port)))
            slow.sendall(
                f"GET /api/{'x' * number} HTTP/1.1\r\nHost: 127.0.0".encode() if number % 2 else b"POST /api/tags"
            )
        begun = time.perf_counter()
        for _ in range(5):
            assert client.get("/api/episodes").status_code == 200
        assert time.perf_counter() - begun < 5


def test_methods_and_pages_that_are_not_there(client):
    assert client.get("/api/nothing").json()["error"] == "RequestError"
    assert client.put("/api/state").status_code in (404, 405)
    answer = client.get("/nothing")
    assert answer.status_code == 404
    assert '<a href="/">' in answer.text  # a way back


def test_a_reader_changes_nothing(tmp_path):
    need_pages()
    with running_app(make_archive(tmp_path, 2), role="reader") as app, app.client() as reader:
        found = reader.get("/api/episodes").json()["items"][0]["uid"]
        for endpoint in (one for one in ENDPOINTS if one.changes):
            body = {one.name: 1 if one.kind is int else "x" for one in endpoint.parameters if one.required}
            sent = {"json": body} if endpoint.body else {}
            path = path_of(endpoint).replace("uid", found).replace("/id", "/1").replace("/name", "/x")
            assert reader.request(endpoint.method, path, **sent).status_code == 403, endpoint.path
        assert reader.get("/api/state").json()["role"] == "reader"


def test_what_a_reader_opens_starts_no_jobs_and_writes_nothing(tmp_path):
    need_pages()
    place = make_archive(tmp_path, 2)

    def files():
        return {path for path in place.rglob("*") if not path.name.endswith(("-wal", "-shm"))}

    with running_app(place, role="reader") as app, app.client() as reader:
        before = files()
        found = reader.get("/api/episodes").json()["items"][0]["uid"]
        for endpoint in (one for one in ENDPOINTS if not one.changes and one.method == "GET"):
            path = path_of(endpoint).replace("uid", found).replace("/id", "/1")
            reader.get(path, params={"of": found} if any(one.name == "of" for one in endpoint.parameters) else {})
        for path in ("/api/queues/duplicates", "/api/queues/outliers?fresh=true", "/api/map?method=tsne"):
            answer = reader.get(path)
            assert (answer.status_code, "read-only" in answer.text) == (403, True), answer.text
        assert reader.get("/api/map").json()["total"] == 2
        assert reader.get("/api/jobs").json()["items"] == []
        assert files() == before
        app.archive.keep_queue(("duplicates", "", "", "", "", "", ""), {"items": [], "total": 0, "instant": ""})
        assert reader.get("/api/queues/duplicates").json()["total"] == 0, "what an editor had computed is shown"


def test_the_catalog_stops_reading_for_a_browser_that_left(app):
    begun, ended = threading.Event(), threading.Event()

    def count_forever(call):
        try:
            with call.archive.catalog._session.read() as connection:
                begun.set()
                connection.exec_driver_sql(
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
                )
        finally:
            ended.set()

    endless = Endpoint("GET", "/api/forever", "never ends", count_forever)
    app.application.router.routes.insert(0, endless.route(app.archive))
    with app.client() as browser, pytest.raises(httpx.ReadTimeout):
        browser.get("/api/forever", timeout=0.5)
    assert begun.is_set()
    assert ended.wait(5)
