"""What all tests share: where the files of other writers lie, and how Hypothesis works."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import tarfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING

import pytest
import typer.main
from databases import Server, serving
from hypothesis import HealthCheck, settings
from object_stores import serving_s3
from run_limit import end_after

from wshard.core.files.object_client import client_of
from wshard.core.files.objects import forget

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parent.parent

# Hundreds of child processes import this project, and every run rewrites the assertions of all tests: with what was
# compiled saved, also where the environment says otherwise, a child starts in two thirds of the time.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Whoever runs a command within the process makes the command line of all verbs each time, which takes ten times as long
# as most verbs do. It keeps no state; typer.testing, which is imported later, finds this one.
typer.main.get_command = cache(typer.main.get_command)

# A shell that starts the gate in the background has its children ignore Ctrl-C, and they theirs: tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Archives and data sets are written durably, which takes most of the time on a disk: where there is room, tests write
# to memory. PostgreSQL and tests about disks use folders of their own.
MEMORY = Path("/dev/shm")  # noqa: S108  (pytest makes folders of its own in it, which others cannot enter)
if MEMORY.is_dir() and disk_usage(MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# A deadline would measure the machine, not the code. The gate draws the same examples every time, so that a change is
# judged by what it changed: ten suffice. `make properties` draws others, and more.
_PROFILE = {"deadline": None, "database": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("gate", derandomize=True, max_examples=10, **_PROFILE)
settings.register_profile("properties", max_examples=100, **_PROFILE)
settings.load_profile(os.environ.get("WSHARD_PROPERTIES", "gate"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "run_limit", "seconds after which the run ends and shows what all processes do; 0 for never", default="0"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Watch the whole run, where the tests of its processes are given out.

    These end without taking half a million objects apart, after all else that is done at the end: it takes seconds.
    """
    if hasattr(config, "workerinput"):
        atexit.register(os._exit, 0)
    elif seconds := float(config.getini("run_limit")):
        end_after(seconds)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the collector from looking, ever again, at the half million objects that stay until the end.

    Of what tests make it looks every 50,000 objects: with Python's 700, that took a twelfth of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, *gc.get_threshold()[1:])
        gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let libraries in C++ find at the end that nothing of theirs is left, where the process comes to its end."""
    if not hasattr(config, "workerinput"):
        gc.unfreeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests fork after others have imported lance, which warns of every later fork of the process."""
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("ignore:lance is not fork-safe:UserWarning"))


def pytest_runtest_teardown() -> None:
    """Fail where a library made this thread a real-time one, as SVT-AV1 does for root: other processes get no core."""
    if hasattr(os, "sched_getscheduler") and (policy := os.sched_getscheduler(0)) in {os.SCHED_FIFO, os.SCHED_RR}:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        pytest.fail(f"this thread was left with the real-time policy {policy} of the scheduler")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Give one browser to all tests of a process: to start it takes a second, and a process can run one."""
    from web_app import running_browser  # noqa: PLC0415  (few tests need it)

    with running_browser() as running:
        yield running


@pytest.fixture(scope="session")
def wshard_fixtures() -> Path:
    """Folder with golden, other-writers and safety: files that other programs wrote."""
    folder = Path(os.environ.get("WSHARD_FIXTURES", ROOT.parent / "shared" / "fixtures"))
    folder = folder / "wshard" if (folder / "wshard").is_dir() else folder
    if not (folder / "golden").is_dir():
        pytest.skip(f"no files of other writers in {folder}: set WSHARD_FIXTURES to their folder")
    return folder


@pytest.fixture(scope="session")
def wire() -> Path:
    """File of exchanges recorded with a real DeepData server."""
    folder = Path(os.environ.get("WSHARD_FIXTURES", ROOT.parent / "shared" / "fixtures"))
    found = [place / "deepdata" / "wire.jsonl" for place in (folder, folder.parent)]
    for file in found:
        if file.is_file():
            return file
    pytest.skip(f"no recorded exchanges at {found[0]}: set WSHARD_FIXTURES to the folder of deepdata/")


@pytest.fixture(scope="session")
def golden() -> Path:
    """Folder of this project's own golden files."""
    return ROOT / "golden"


@pytest.fixture(scope="session")
def dataset_fixtures() -> Path:
    """Folder with world_model, lerobot and other: data sets that other programs wrote."""
    folder = Path(os.environ.get("WSHARD_FIXTURES", ROOT.parent / "shared" / "fixtures"))
    found = next((place for place in (folder, folder.parent) if (place / "datasets").is_dir()), None)
    if found is None:
        pytest.skip(f"no data sets of other programs in {folder}: set WSHARD_FIXTURES to their folder")
    return found / "datasets"


@pytest.fixture(scope="session")
def webdataset_fixtures(dataset_fixtures: Path) -> Path:
    """Folder with converted episodes and the windowed shards that the original program made of them."""
    return dataset_fixtures.parent / "webdataset"


@pytest.fixture(scope="session")
def raiden_folder(webdataset_fixtures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder `processed` of converted episodes; nothing may be changed in it."""
    folder = tmp_path_factory.mktemp("raiden")
    with tarfile.open(webdataset_fixtures / "input.tar.gz") as tar:
        tar.extractall(folder, filter="data")
    return folder / "processed"


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """Run SeaweedFS as long as tests need it: the URL of an S3 endpoint with a bucket."""
    with serving_s3() as url:
        yield url


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Make that server the one that s3:// means, with an empty cache."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("WSHARD_CACHE", str(tmp_path / "cache of objects"))
    client_of.cache_clear()
    forget()
    return s3_server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Run a PostgreSQL server as long as tests need one."""
    with serving() as running:
        yield running


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def product(request: pytest.FixtureRequest) -> str:
    """Name a database product that catalogs can be in; tests that ask for it run once with each."""
    name: str = request.param
    return name


@pytest.fixture
def place(
    product: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path | str]:
    """Return what names a new archive, once for each product; on a server the copies of vectors are below tmp_path."""
    if product == "sqlite":
        yield tmp_path / "archive"
    else:
        monkeypatch.setenv("WSHARD_CACHE", str(tmp_path / "cache"))
        server: Server = request.getfixturevalue("server")
        with server.catalog() as url:
            yield url


@contextmanager
def _new_catalog(product: str, request: pytest.FixtureRequest) -> Iterator[Path | str]:
    if product == "sqlite":
        factory: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
        yield factory.mktemp("archive") / "catalog.db"
    else:
        server: Server = request.getfixturevalue("server")
        with server.catalog() as url:
            yield url


@pytest.fixture
def location(product: str, request: pytest.FixtureRequest) -> Iterator[Path | str]:
    """Return where a new catalog may be opened with create=True, once for each product."""
    with _new_catalog(product, request) as place:
        yield place


@pytest.fixture(scope="module")
def shared_location(product: str, request: pytest.FixtureRequest) -> Iterator[Path | str]:
    """Return a location that all tests of a module share."""
    with _new_catalog(product, request) as place:
        yield place
