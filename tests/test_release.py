"""What builds, publishes and runs releases: workflows, image, compose files and the metadata of the package."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tomllib

import pytest
import yaml
from paths import ROOT

from bridge.cli.main import command

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
COMPOSE = ["docker-compose.yml", "docker-compose.deepdata.yml"]
PINNED = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
# Beyond reading the repository; by file and job.
GRANTED = {
    ("docs", "publish"): {"pages": "write", "id-token": "write"},
    ("release", "publish"): {"id-token": "write", "attestations": "write"},
}


def read_dockerfile() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    return [tuple(line.split(" ", 1)) for line in re.sub(r"\\\n\s*", "", text).splitlines() if line]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_are_pinned_and_may_do_little(path):
    text = path.read_text()
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    assert all(PINNED.fullmatch(used) for used in re.findall(r"uses: (.*)", text))
    assert "pull_request_target" not in text
    assert "secrets." not in text
    for name, job in workflow["jobs"].items():
        assert job.get("permissions") == GRANTED.get((path.stem, name)), name
        assert job["timeout-minutes"] <= 60
        for step in job["steps"]:
            assert "${{ github." not in step.get("run", "")  # what others write is no program
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"] == {"persist-credentials": False}


def test_every_python_that_is_promised_is_tested():
    promised = [line.split()[-1] for line in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+", line)]
    jobs = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())["jobs"]
    assert jobs["gate"]["strategy"]["matrix"]["python"] == promised
    assert PROJECT["requires-python"] == f">={promised[0]}"
    assert "version" in PROJECT["dynamic"]


def test_issues_ask_for_the_report_of_doctor():
    for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("[bi]*.yml"):
        fields = yaml.safe_load(path.read_text())["body"]
        assert any("wshard doctor --json" in str(field.get("attributes")) for field in fields), path
    assert {"version", "message", "title", "authors"} - {*yaml.safe_load((ROOT / "CITATION.cff").read_text())} == {
        "version"
    }


@pytest.mark.parametrize("name", COMPOSE)
def test_compose_files_demand_every_secret_and_serve_this_machine_only(name):
    text = (ROOT / name).read_text()
    assert not re.findall(r"\b\w*(?:PASSWORD|SECRET|TOKEN)\w*: (?!\$\{\w+:\?)", text)
    compose = yaml.safe_load(text)
    for service in compose["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
        assert {*service.get("secrets", ())} <= {*compose.get("secrets", ())}
        used = {volume.split(":")[0] for volume in service.get("volumes", ()) if volume[0] not in "$./"}
        assert used <= {*compose["volumes"]}
        assert {*service.get("depends_on", ())} <= {*compose["services"]}


def test_the_app_of_the_compose_file_is_a_command_with_accounts_and_without_rights():
    app = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["app"]
    context = command("serve").commands["serve"].make_context("serve", app["command"][1:])
    assert context.params["auth"] is not None
    assert (app["cap_drop"], app["read_only"]) == (["ALL"], True)
    assert not app["user"].startswith(("root", "0"))


def test_the_image_has_pages_extras_a_user_and_a_health_check():
    steps = read_dockerfile()
    words = dict(steps)  # the last of each
    assert words["USER"] == "1000:1000"
    assert words["ENTRYPOINT"] == '["wshard"]'
    assert "CMD [" in words["HEALTHCHECK"]
    assert words["EXPOSE"] in words["HEALTHCHECK"]
    (extras,) = re.findall(r"\.whl\)\[([\w,]+)\]", " ".join(text for _, text in steps))
    assert {*extras.split(",")} <= {*PROJECT["optional-dependencies"]}
    sent = (ROOT / ".dockerignore").read_text().splitlines()
    for _, text in (step for step in steps if step[0] == "COPY"):
        source = shlex.split(text)[0]
        assert source in (".", "--from=build") or f"!{source}" in sent
    for line in sent:
        assert line[0] != "!" or (ROOT / line[1:]).exists()
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"][
        "packages"
    ]
    assert {f"!{name}" for name in (*wheel, "hatch_build.py", "pyproject.toml", "README.md", "LICENSE")} <= {*sent}


@pytest.mark.long
def test_docker_builds_the_image_and_knows_the_compose_files():
    if not shutil.which("docker") or subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
        pytest.skip("there is no Docker here, or its server does not run")
    subprocess.run(["docker", "build", "-q", "-t", "wshard:test", str(ROOT)], check=True, timeout=1800)
    run = ["docker", "run", "--rm", "--network", "none", "wshard:test"]
    assert (
        "pages            built" in subprocess.run([*run, "doctor"], capture_output=True, text=True, check=True).stdout
    )
    secrets = dict.fromkeys(("WSHARD_POSTGRES_PASSWORD", "WSHARD_ACCOUNTS", "DEEPDATA_JWT_SECRET"), "x")
    for name in COMPOSE:
        config = ["docker", "compose", "-f", str(ROOT / name), "config", "-q"]
        assert subprocess.run(config, env={"PATH": "/usr/bin:/bin:/usr/local/bin"}, check=False).returncode
        subprocess.run(config, env={"PATH": "/usr/bin:/bin:/usr/local/bin", **secrets}, check=True)
