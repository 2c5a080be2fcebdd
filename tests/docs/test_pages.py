"""The docs are true: pages run as they are, and every verb and error is described."""

from __future__ import annotations

import inspect
import os
import re
from dataclasses import fields

import pytest
import yaml
from command_line import app
from pasted_pages import is_same, run_page, write_outputs
from paths import ROOT

from wshard import Thresholds, errors
from wshard.core.quality.cameras import CHECKS as CAMERA_CHECKS
from wshard.core.quality.checks import CHECKS
from wshard.core.quality.thresholds import CAMERA
from wshard.training.data import registry

PACKAGES = ("wshard", "embedders", "catalog", "bridge")
MANUAL = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OTHERS = {"lerobot.md", "imitation.md"}  # tests of their own prepare a recording, a simulator
RUN = re.compile(r"^```(python|sh)\n(?!make )", re.MULTILINE)
PASTED = [page for page in MANUAL if page.name not in OTHERS and RUN.search(page.read_text())]


@pytest.mark.parametrize("page", PASTED, ids=lambda page: page.name)
def test_a_page_runs_pasted_into_an_empty_folder(page, tmp_path, monkeypatch, request):
    """From top to bottom, with nothing prepared but a bucket, and prints what it shows."""
    if "s3://lab" in page.read_text():
        request.getfixturevalue("s3")
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr(registry, "FORMATS", dict(registry.FORMATS))
    _, outputs = run_page(page, tmp_path)
    if os.environ.get("WSHARD_PAGES") == "write":
        write_outputs(page, outputs)
    for shown, real in outputs:
        assert is_same(shown, real), f"expected what the page shows:\n{shown}\nfound:\n{real}"


def test_an_output_is_the_same_but_for_decimals():
    assert is_same("a  0.5\nb\n", "a 0.25 \nb\n")
    assert is_same("1 hit, ...\nlast\n", "1 hit, 3 ms\nlast\n")
    assert not is_same("a 5\n", "a 6\n")


def test_every_make_target_in_the_docs_exists():
    made = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        named = set(re.findall(r"\bmake (\w+)", page.read_text()))
        assert named
        assert named <= made | {"a"}, page


def test_the_gate_is_what_ci_runs():
    assert (ROOT / ".ci" / "run").read_text().strip().splitlines()[-1] == "make test"
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"]
    assert jobs["gate"]["steps"][-1]["run"] == "bash .ci/run"


def test_the_compose_file_has_what_the_server_needs():
    server = yaml.safe_load((ROOT / "docker-compose.deepdata.yml").read_text())["services"]["deepdata"]
    page = (ROOT / "docs" / "deepdata.md").read_text()
    assert int(server["environment"]["API_RPS"]) >= 1000, "100 a minute, the default, is one search every 0.6 s"
    assert server["stop_signal"] == "SIGTERM"
    assert (server["stop_grace_period"], server["mem_limit"]) == ("5m", "8g")
    assert server["environment"]["VECTORDB_BASE_DIR"] == server["volumes"][0].partition(":")[2]
    assert server["healthcheck"]["test"][1].startswith("curl -fsS "), "the server's image has no wget"
    assert "healthz" in server["healthcheck"]["test"][1]
    assert server["image"].startswith("${DEEPDATA_IMAGE:-")
    assert "`DEEPDATA_IMAGE`" in page
    assert "go.mod" in page


def verbs() -> list[str]:
    named = [command.callback.__name__ for command in app.registered_commands if command.callback is not None]
    return [name.replace("_", "-") for name in named] + [str(group.name) for group in app.registered_groups]


def test_every_verb_is_in_the_docs():
    page = (ROOT / "docs" / "cli.md").read_text()
    assert verbs()
    for verb in verbs():
        assert f"`wshard {verb}" in page, verb


def test_the_docs_name_only_verbs_that_exist():
    for page in MANUAL:
        for verb in re.findall(r"`wshard ([a-z-]+)", page.read_text()):
            assert verb in verbs(), f"{page.name}: wshard {verb}"


def test_every_quality_check_and_limit_is_in_the_docs():
    page = (ROOT / "docs" / "quality.md").read_text()
    cameras = [CAMERA + name for name in CAMERA_CHECKS]
    missing = [
        name for name in (*CHECKS, *cameras, *(one.name for one in fields(Thresholds))) if f"`{name}`" not in page
    ]
    assert missing == []


def test_every_error_is_in_the_docs():
    page = (ROOT / "docs" / "errors.md").read_text()
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, (errors.WShardError, UserWarning)):
            assert f"`{name}`" in page, name


def drawn(error: type, depth: int = 0) -> str:
    """Return the tree of an error's subclasses, each with the builtins that it also is, in the order of definition."""
    builtin = [base.__name__ for base in error.__bases__ if base.__module__ == "builtins" and base is not Exception]
    line = "    " * depth + error.__name__ + (f" ({', '.join(builtin)})" if builtin else "")
    return "\n".join([line, *(drawn(below, depth + 1) for below in error.__subclasses__())])


def test_the_tree_of_errors_is_drawn_from_the_classes():
    assert f"```text\n{drawn(errors.WShardError)}\n```" in (ROOT / "docs" / "errors.md").read_text()


@pytest.mark.parametrize("page", MANUAL, ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_room_is_listed():
    """The rows of the table are the sub-packages of the four packages."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(rf"^\| `((?:{'|'.join(PACKAGES)})(?:/\w+)+)` \|", page, re.MULTILINE)
    rooms = [path.parent for package in PACKAGES for path in (ROOT / package).glob("*/__init__.py")]
    for storey in ("core", "training"):
        rooms += [path.parent for path in (ROOT / "wshard" / storey).glob("*/__init__.py")]
    assert sorted(rows) == sorted(room.relative_to(ROOT).as_posix() for room in rooms)
