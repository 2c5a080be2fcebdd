"""What is found below a folder."""

from __future__ import annotations

import subprocess
import sys

from wshard.core.episode.protocol import OWN_FORMAT
from wshard.core.files.schemes import place_of
from wshard.formats.base import load_matchers
from wshard.formats.look import LocationLook


def test_no_format_takes_a_folder_of_our_own_episodes(tmp_path):
    """So a search need not load them."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.wshard").write_bytes(b"")
    assert [one.name for one in load_matchers() if one.matches(LocationLook(place_of(tmp_path)))] == []


def test_a_folder_of_our_own_episodes_loads_no_other_format(tmp_path):
    (tmp_path / "a.wshard").write_bytes(b"")
    program = (
        "import sys; from wshard.formats.below import entries_below; print([*entries_below(sys.argv[1], {})]);"
        "print([name for name in sys.modules if 'lerobot' in name])"
    )
    said = subprocess.run([sys.executable, "-c", program, tmp_path], check=True, capture_output=True, text=True)
    assert said.stdout.splitlines() == [repr([(str(tmp_path.resolve() / "a.wshard"), OWN_FORMAT)]), "[]"]
