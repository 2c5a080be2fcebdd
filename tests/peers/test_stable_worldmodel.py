"""The data-layer tests of a checkout of stable_worldmodel, run on wshard.data. Run by `make peers`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT, SUPPORT

CHECKOUT = os.environ.get("STABLE_WORLDMODEL", "")
# Of 348; the others need private names, the texts of messages, or packages that are not installed.
EXPECTED = 263
pytestmark = pytest.mark.skipif(
    not CHECKOUT, reason="stable_worldmodel's own tests did not run: STABLE_WORLDMODEL=/path/to/its/checkout make peers"
)


@pytest.mark.timeout(1200)
def test_its_own_tests_pass_on_wshard_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tests = Path(CHECKOUT).resolve() / "tests" / "data"
    assert tests.is_dir(), f"STABLE_WORLDMODEL: expected a checkout that has tests/data, found {CHECKOUT}"
    plugins = ["-p", "stable_worldmodel_alias", "-p", "no:randomly", "-p", "no:cacheprovider"]
    options = ["-q", "-c", os.devnull, "--confcutdir", str(tests), "--continue-on-collection-errors", "--timeout", "60"]
    # Nothing is written to the checkout or to the user's cache.
    path = os.pathsep.join([str(ROOT), str(SUPPORT)])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", *plugins, *options, f"--basetemp={tmp_path / 'peer'}", str(tests)]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    last = (result.stdout.splitlines() or [""])[-1]
    counts = {name: int(number) for number, name in re.findall(r"(\d+) (passed|failed|skipped|error)", last)}
    assert counts, result.stdout[-4000:] + result.stderr[-4000:]
    with capsys.disabled():
        print("\nstable_worldmodel's own data tests on wshard.data:", *(f"{counts[name]} {name}" for name in counts))
    assert counts.get("passed", 0) >= EXPECTED, result.stdout[-8000:]
