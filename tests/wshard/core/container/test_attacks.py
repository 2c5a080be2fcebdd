"""Hostile files: each gets the error that its twin names, in little memory, and no other way in fools a reader."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from paths import GOLDEN, SUPPORT

from wshard import ShardReader, errors, load_wshard, open_manifest

ATTACKS = sorted(path.stem for path in (GOLDEN / "attacks").glob("*.json"))


def read(path: Path, kind: str) -> None:
    """Open a file in one way and read all that it holds."""
    if kind == "episode":
        for channel in load_wshard(path).lanes().values():
            assert len(channel.data)
    elif kind == "manifest":
        manifest = open_manifest(path)
        for reference in manifest.files:
            manifest.open(reference)
    else:
        reader = ShardReader(path)
        for number in range(len(reader)):
            reader.read_entry(number)
        if kind == "metadata":
            reader.read_metadata()


@pytest.mark.parametrize("name", ATTACKS)
def test_each_attack_gets_the_error_of_its_twin(name):
    """C-1 to C-11, C-30, C-31, E-1 to E-13, E-40 to E-44, M-1 to M-4."""
    twin = json.loads((GOLDEN / "attacks" / f"{name}.json").read_text())
    with pytest.raises(errors.FormatError) as caught:
        read(GOLDEN / "attacks" / f"{name}.bin", twin["open_as"])
    assert type(caught.value).__name__ == twin["error"], str(caught.value)
    assert f"{name}.bin" in str(caught.value)


def test_there_are_attacks_for_every_error_of_a_file():
    twins = [json.loads((GOLDEN / "attacks" / f"{name}.json").read_text()) for name in ATTACKS]
    others = {"RepairError", "AmbiguousFormatError", "UnknownFormatError", "LayoutError", "ArrayKindError"}  # no Shard
    kinds = {kind.__name__ for kind in errors.FormatError.__subclasses__()} - others
    assert {twin["error"] for twin in twins} == kinds
    assert {twin["open_as"] for twin in twins} == {"container", "metadata", "episode", "manifest"}
    assert len(twins) >= 50


def test_the_file_that_manifests_mean_is_a_good_one():
    """The attacks through references prove something only if what they refer to could be opened."""
    assert ShardReader(GOLDEN / "attacks" / "target.bin").read_entry("a") == b"payload"


def test_the_generator_reproduces_every_attack(tmp_path):
    subprocess.run([sys.executable, GOLDEN / "generate_attacks.py", tmp_path], check=True, timeout=60)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_bytes() for path in (GOLDEN / "attacks").iterdir()}


CHILD = """
import resource, sys
from pathlib import Path
sys.path[:0] = sys.argv[1].split(":")
from test_attacks import ATTACKS, GOLDEN, read
from wshard.errors import FormatError
from wshard.core.repair.repair import repair_file as repair

resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
for name in ATTACKS:
    path = GOLDEN / "attacks" / f"{name}.bin"
    for way in ("container", "metadata", "episode", "manifest", "repair"):
        try:
            repair(path, Path(sys.argv[2]) / f"{name}.out") if way == "repair" else read(path, way)
        except FormatError:
            pass
print("all refused or read")
"""


def test_no_way_in_brings_a_foreign_error_or_takes_a_gigabyte(tmp_path):
    """In a child with 1 GiB of memory: every file, opened in every way, and repaired."""
    command = [sys.executable, "-W", "ignore", "-c", CHILD, f"{SUPPORT}:{Path(__file__).parent}", str(tmp_path)]
    child = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (child.stdout, child.stderr) == ("all refused or read\n", "")
