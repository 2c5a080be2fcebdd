"""What is not installed is reported with both ways to install it, in every package."""

from __future__ import annotations

import pydoc
import re
import tomllib

import pytest
from paths import ROOT

from wshard.core.messages import how_to_install, public_url, without_passwords
from wshard.formats.base import OWN_DATA

PACKAGES = ("wshard", "embedders", "catalog", "bridge")


def test_extras_are_reported_for_the_package_and_for_its_folder():
    assert how_to_install("torch") == "pip install 'wshard[torch]', or pip install '.[torch]' in its folder"
    assert how_to_install() == "pip install 'wshard', or pip install '.' in its folder"


def test_of_a_url_that_is_invalid_nothing_secret_is_shown():
    """Where a password ends is not known then."""
    for user in ("", "u:", ":"):
        for secret in ("secret", "sec@secret", "x?secret", "x#secret", "x/secret", "[secret", "secret]:9"):
            for rest in ("h", "h:80/a", "[::1]:80", "h?a=b@c", ""):
                assert "secret" not in public_url(f"http://{user}{secret}@{rest}")
                assert "secret" not in without_passwords(f"no such file: mysql:/u:{secret}@{rest}, or so")
    for url in ("http://h?token=secret", "http://h/#secret", "http://h:secret/x"):
        assert "secret" not in public_url(url)
    for url in ("http://h:80/a", "postgresql://[::1]:5432/db", "embedded:", "folder/name"):
        assert public_url(url) == url
    assert without_passwords("/data/a:b@c and s3://bucket/a@b") == "/data/a:b@c and s3://bucket/a@b"


def test_every_package_reports_extras_in_the_same_words():
    """And names only extras that there are."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named: set[str] = set()
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        text = path.read_text()
        named |= set(re.findall(r"(?:how_to_install\(|import_library\([^,()]+, )['\"](\w+)", text))
        assert path.name == "messages.py" or not re.search(r"pip install '?wshard", text), path
    assert {"torch", "postgres", "parquet", "pandas", "watch", "hub"} <= named <= set(known)


@pytest.mark.long
def test_errors_name_no_page_that_is_not_installed():
    """OWN_DATA names a text that is in the package; `python -m pydoc` prints it."""
    (module,) = re.findall(r"`python -m pydoc ([\w.]+)`", OWN_DATA)
    message = pydoc.plain(pydoc.render_doc(module))
    assert all(word in message for word in ("save_wshard", "LeRobot", "robomimic", "D4RL", "timebase="))
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        assert not re.search(r"^[^#]*(Error|echo)\(.*docs/\w+\.md", path.read_text(), re.MULTILINE), path
