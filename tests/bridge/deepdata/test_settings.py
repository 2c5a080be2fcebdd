"""URLs, environment and arguments; and the throttle, with a clock of its own."""

# ruff: noqa: S105 -- invented tokens

from __future__ import annotations

import pytest

from bridge.index.deepdata.rate_limit import Throttle
from bridge.index.deepdata.settings import read_settings
from wshard.errors import UnknownIndexError


def test_a_plain_url_has_the_servers_own_defaults():
    found = read_settings("http://deepdata:8080", environment={})
    assert (found.base, found.prefix, found.token, found.tenant) == ("http://deepdata:8080", "wshard", None, None)
    assert (found.rpm, found.ef_search) == (100, 200)
    assert found.place == "http://deepdata:8080/wshard"


def test_everything_in_the_url():
    found = read_settings("https://s%40cret@[::1]:99/lab?tenant=t1&rpm=0&ef=400&batch=50", environment={})
    assert (found.base, found.prefix, found.token) == ("https://[::1]:99", "lab", "s@cret")
    assert (found.tenant, found.rpm, found.ef_search, found.batch) == ("t1", 0, 400, 50)
    assert "s@cret" not in repr(found)
    assert "cret" not in found.place


def test_an_argument_counts_before_the_url_and_the_url_before_the_environment():
    environment = {"DEEPDATA_TOKEN": "from environment", "DEEPDATA_TENANT": "e", "DEEPDATA_RPM": "7"}
    assert read_settings("http://h", environment=environment).token == "from environment"
    assert read_settings("http://h", environment=environment).rpm == 7
    assert read_settings("http://h?tenant=u&rpm=8", environment=environment).tenant == "u"
    assert read_settings("http://h?tenant=u&rpm=8", environment=environment).rpm == 8
    assert read_settings("http://url@h", environment=environment).token == "url"
    assert read_settings("http://:url@h", "argument", environment).token == "argument"


@pytest.mark.parametrize(
    "url",
    [
        "http://", "ftp://h", "http://h:port", "http://h/a/b", "http://h/" + "x" * 17, "http://h?ef=0", "http://h?ef=1e3",
        "http://[::1", "http://h:99999", "http://h?ef=10001", "http://h?nonsense=1", "http://h?token=secret",
        "http://h?secret", "http://h/secret@h", "http://h:secret", "http:secret@h", "ftp://u:secret@h",
        "http://h?tenant=a%2Fb", "http://h?rpm=-1", "http://h?batch=0",
    ],
)  # fmt: skip
def test_a_url_that_is_none_of_these_is_refused_without_telling_the_token(url):
    with pytest.raises(UnknownIndexError, match="expected") as caught:
        read_settings(url.replace("//", "//secret@", 1), environment={})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("token", ["sec\nret", "secret\N{EURO SIGN}", "secret\x7f"])
def test_a_token_that_no_request_can_hold_is_refused_and_not_reported(token):
    for given, environment in ((token, {}), (None, {"DEEPDATA_TOKEN": token})):
        with pytest.raises(UnknownIndexError, match="expected a token of ASCII characters") as caught:
            read_settings("http://h", given, environment)
        assert "ret" not in str(caught.value)


class Clock:
    """Seconds that pass only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_no_minute_sees_more_requests_than_allowed():
    clock = Clock()
    throttle = Throttle(100, clock=clock, sleep=clock.sleep)
    sent = []
    for _ in range(1000):
        throttle.wait()
        sent.append(clock.now)
        clock.now += 0.01
    for first, later in zip(sent, sent[100:], strict=False):
        assert later - first > 60.3  # the server's window as it was measured
    assert sent[-1] < 10 * 61


def test_without_a_limit_no_one_waits():
    clock = Clock()
    throttle = Throttle(0, clock=clock, sleep=clock.sleep)
    for _ in range(1000):
        throttle.wait()
    assert clock.now == 0


def test_after_a_refusal_the_next_request_comes_in_the_servers_next_minute():
    clock = Clock()
    throttle = Throttle(1000, clock=clock, sleep=clock.sleep)
    throttle.wait()
    clock.now += 50  # another client has used up the minute that began with our request
    throttle.wait()
    throttle.refused()
    assert 60.3 < clock.now < 62
    throttle.refused()  # the window began when nobody here was looking
    assert 120 < clock.now < 125
