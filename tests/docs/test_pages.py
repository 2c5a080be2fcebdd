"""The docs are true: the README's tour runs, and every verb and error is described."""

from __future__ import annotations

import inspect
import re
import shlex
import tomllib
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import yaml
from bridge_episodes import command
from command_line import app
from paths import ROOT

from catalog.testing.contract import make_record
from embedders import WindowPlan
from wshard import Catalog, Channel, Episode, Thresholds, TrajectoryIngestor, errors, open_archive, save_wshard
from wshard.core.quality.checks import CHECKS

if TYPE_CHECKING:
    from pathlib import Path

PACKAGES = ("wshard", "embedders", "catalog", "bridge")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(name: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / name).read_text())


def run_commands(text: str, folder: Path) -> None:
    for line in text.splitlines():
        prompt, program, *arguments = shlex.split(line)
        assert (prompt, program) == ("$", "wshard"), f"expected a line that starts with '$ wshard', found {line!r}"
        done = command(*arguments, folder=folder)
        assert done.exit_code == 0, f"{line}: {done.output}"
        assert done.stdout.strip()


def test_the_readme_tour_runs_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    ran = []
    for kind, text in blocks("README.md"):
        if kind == "python":
            exec(compile(text, "README.md", "exec"), names)  # noqa: S102  (it is our own README)
        elif kind == "console":
            run_commands(text, tmp_path)
        ran.append(kind)
    assert ran.count("python") >= 3
    assert ran.count("console") >= 1
    printed = capsys.readouterr().out.splitlines()
    hits = [line for line in printed if re.match(r"-?\d\.\d{3} episode-", line)]
    assert len(hits) == 3
    assert hits[0].startswith("1.000 episode-11")
    assert "line-v0" in printed[-2] or "circle-v0" in printed[-2]


def test_the_examples_about_the_catalog_run_in_order(place, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with open_archive(place, create=True) as lab:
        lab.catalog.episodes.register(
            [make_record(number, env_id=("line-v0", "reach-v3")[number % 2]) for number in range(20)]
        )
    names: dict[str, object] = {}
    examples = [text for kind, text in blocks("docs/catalog.md") if kind == "python"]
    for text in examples:
        here = text.replace('"my-archive"', repr(str(place)))
        exec(compile(here, "catalog.md", "exec"), names)  # noqa: S102  (it is our own page)
    assert len(examples) >= 4
    assert "['split', 'query']" in capsys.readouterr().out


def test_an_episode_is_recorded_and_clips_of_a_collection_are_read_as_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    *_, record, kinds, train = [text for kind, text in blocks("docs/episodes.md") if kind == "python"]
    names: dict[str, Any] = {"np": np, "Channel": Channel, "Episode": Episode, "save_wshard": save_wshard}
    exec(compile(kinds, "episodes.md", "exec"), names)  # noqa: S102  (it is our own page)
    robot = [(np.full(3, step), np.full(2, -step), 0.5, step == 39) for step in range(40)]
    exec(compile(record, "episodes.md", "exec"), {"robot": robot})  # noqa: S102  (it is our own page)
    with TrajectoryIngestor("my-archive") as ingestor:
        ingestor.ingest(["a.wshard"])
    with Catalog.open("my-archive/catalog.db") as catalog:
        catalog.collections.save_snapshot("parts/train", 'success:true meta.robot.name:arm-3 "red cube"')
    names = {}
    exec(compile(train, "episodes.md", "exec"), names)  # noqa: S102  (it is our own page)
    clips = names["clips"]
    assert len(clips) == 4
    assert clips[1]["state"].tolist() == [[step] * 3 for step in range(8, 24)]
    assert clips[3]["action/ctrl"].shape == (16, 2)
    assert [at for _, at in names["Clips"]("my-archive", "parts/train", 16, 10).clips] == [0, 10, 20, 24]
    assert [at for _, at in names["Clips"]("my-archive", "parts/train", 40).clips] == [0]
    assert not len(names["Clips"]("my-archive", "parts/train", 41))


def test_the_picture_of_an_alignment_is_drawn(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    for number in range(3):
        walk = np.random.default_rng(number).normal(size=(200, 3)).cumsum(axis=0)
        observations = {"state": Channel.of("state", walk)}
        save_wshard(Episode(f"walk-{number}", "walk", 200, observations=observations), f"{number}.wshard")
    with TrajectoryIngestor("my-archive") as ingestor:
        ingestor.ingest(["0.wshard", "1.wshard", "2.wshard"], windows=WindowPlan.read("multi"))
    (tmp_path / "0.wshard").rename("demo.wshard")
    (example,) = [text for kind, text in blocks("docs/search.md") if kind == "python"]
    exec(compile(example, "search.md", "exec"), {})  # noqa: S102  (it is our own page)
    assert (tmp_path / "overlay.png").stat().st_size > 10_000


def test_the_examples_about_checks_and_curation_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for number in range(12):
        walk = np.random.default_rng(number).normal(size=(60 + number, 3)).cumsum(axis=0)
        observations = {"state": Channel.of("state", walk)}
        save_wshard(Episode(f"walk-{number}", "reach-v3", 60 + number, observations=observations), f"{number}.wshard")
    with TrajectoryIngestor("my-archive") as ingestor:
        assert not ingestor.ingest(["."]).failed
    for page in ("archive", "curation", "quality"):
        *_, example = [text for kind, text in blocks(f"docs/{page}.md") if kind == "python"]
        names: dict[str, Any] = {}
        exec(compile(example, f"{page}.md", "exec"), names)  # noqa: S102  (it is our own page)
        if page == "curation":
            assert names["copies"] == []
            assert {*names["outliers"]} <= {f"walk-{number}" for number in range(12)}
    assert "()" in capsys.readouterr().out, "nothing was wrong, so nothing was repaired"


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


def test_the_compose_file_has_what_the_server_needs_and_its_profiles_are_in_the_docs():
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    page = (ROOT / "docs" / "deepdata.md").read_text()
    for name, service in services.items():
        assert service["profiles"] == [name]
        assert f"| `{name}` |" in page
    server = services["deepdata"]
    assert int(server["environment"]["API_RPS"]) >= 1000, "100 a minute, the default, is one search every 0.6 s"
    assert services["wshard"]["environment"]["DEEPDATA_RPM"] == server["environment"]["API_RPS"]
    assert server["environment"]["JWT_SECRET"].startswith("${DEEPDATA_JWT_SECRET:?")
    assert server["stop_signal"] == "SIGTERM"
    assert (server["stop_grace_period"], server["mem_limit"]) == ("5m", "8g")
    assert server["environment"]["VECTORDB_BASE_DIR"] == server["volumes"][0].partition(":")[2]
    assert server["healthcheck"]["test"][1].startswith("curl -fsS "), "the server's image has no wget"
    assert "healthz" in server["healthcheck"]["test"][1]
    assert server["image"].startswith("${DEEPDATA_IMAGE:-")
    assert "`DEEPDATA_IMAGE`" in page
    assert "go.mod" in page
    password = services["postgres"]["environment"]["POSTGRES_PASSWORD"]
    assert password.startswith("${WSHARD_POSTGRES_PASSWORD:?"), "empty: the service does not start"
    assert all(port.startswith("127.0.0.1:") for port in server["ports"])


def test_the_image_is_made_of_files_that_are_there_and_holds_every_package():
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = [name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]]
    assert all((ROOT / name).exists() for name in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) <= set(copied)
    assert {project["project"]["readme"], "LICENSE", "pyproject.toml"} <= set(copied)
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {f"!{name}" for name in copied} <= set(ignored)
    assert any(line.startswith("RUN pip install ") and '"/src[postgres]"' in line for line in lines)
    assert "postgres" in project["project"]["optional-dependencies"]


def verbs() -> list[str]:
    named = [command.callback.__name__ for command in app.registered_commands if command.callback is not None]
    return [name.replace("_", "-") for name in named] + [str(group.name) for group in app.registered_groups]


def test_every_verb_is_in_the_docs():
    page = (ROOT / "docs" / "cli.md").read_text()
    assert verbs()
    for verb in verbs():
        assert f"`wshard {verb}" in page, verb


def test_the_docs_name_only_verbs_that_exist():
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for verb in re.findall(r"`wshard ([a-z-]+)", page.read_text()):
            assert verb in verbs(), f"{page.name}: wshard {verb}"


def test_every_quality_check_and_limit_is_in_the_docs():
    page = (ROOT / "docs" / "quality.md").read_text()
    missing = [name for name in (*CHECKS, *(one.name for one in fields(Thresholds))) if f"`{name}`" not in page]
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


@pytest.mark.parametrize("page", [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"], ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_readme_lists_every_room():
    """The rows of its table are the sub-packages of the four packages."""
    rows = re.findall(r"^\| `(\w+(?:/\w+)+)` \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    rooms = [path.parent for package in PACKAGES for path in (ROOT / package).glob("*/__init__.py")]
    for storey in ("core", "training"):
        rooms += [path.parent for path in (ROOT / "wshard" / storey).glob("*/__init__.py")]
    assert sorted(rows) == sorted(room.relative_to(ROOT).as_posix() for room in rooms)
