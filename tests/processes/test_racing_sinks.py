"""Two processes that write to one place at the same moment, in every format that keeps many episodes there."""

from __future__ import annotations

import subprocess
import sys

import pytest
from sink_places import COLLECTIONS, make_episode

from wshard.formats.open import open_location

WRITER = """
import sys
folder, number, places = sys.argv[1], int(sys.argv[2]), sys.argv[3].split()
sys.path[:0] = sys.argv[4:]
from sink_places import make_episode
from wshard import WShardError, open_sink

def meet():
    print("ready", flush=True)
    sys.stdin.readline()

for place in places:
    name, _, file = place.partition(":")
    result = "won"
    try:
        with open_sink(f"{folder}/{name}/{file}", name) as sink:
            meet()
            sink.write(make_episode(number))
            meet()
    except (WShardError, FileExistsError):
        result = "refused"
    print(result, flush=True)
"""


def finish(writers):
    """Let two processes go on together until each has said how its writing ended; return what they said."""
    said = {}
    while len(said) < len(writers):
        lines = {number: one.stdout.readline().strip() for number, one in writers.items() if number not in said}
        said |= {number: line for number, line in lines.items() if line != "ready"}
        for number, line in lines.items():
            if line == "ready":
                writers[number].stdin.write("\n")
                writers[number].stdin.flush()
    return said


@pytest.mark.long
def test_of_two_processes_one_wins_in_every_format(tmp_path):
    places = " ".join(f"{name}:{file}" for name, file in COLLECTIONS.items())
    for name in COLLECTIONS:
        (tmp_path / name).mkdir()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    writers = {
        number: subprocess.Popen([sys.executable, "-c", WRITER, tmp_path, str(number), places, *sys.path], **pipes)
        for number in (1, 2)
    }
    for name, file in COLLECTIONS.items():
        said = finish(writers)
        assert sorted(said.values()) == ["refused", "won"], name
        winner = next(number for number, word in said.items() if word == "won")
        with open_location(tmp_path / name / file) as source:
            (key,) = source.keys()
            assert source.load(key).length == make_episode(winner).length, name
    for one in writers.values():
        one.communicate(timeout=60)
        assert one.returncode == 0
