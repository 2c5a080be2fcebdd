"""Every way to write training data, killed at given stages: run as a program, it prints a JSON line per kill.

    python killed_writers.py KILLS [WAY ...]

A stage is the moment before the system gets a call to open, rename, link or remove a file of the folder, and before and
after calls of a library that does so itself; the last one comes after the call has returned. KILLS: the number of
stages for each way, where 1 is one of the middle; of "pack over" all are tried.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from full_disk import WAYS, apart, names, requested
from ways_to_write import TRAINING_WAYS

DEFAULT = (*TRAINING_WAYS, "convert to npz", "convert to wshard")
"""Recordings, archives and repairs have tests of their own that kill them."""


LEFT = re.compile(r"(^|/)\.[^/]*\.(npz|wshard)\.[^/]*\.tmp$|\.lance/")
"""Files that may stay: those that fsck removes, and those inside of tables, which have names of their own."""

LANCE = ("_write_fragments", "_write_dataset", "commit", "delete", "restore")
"""Functions of a library that writes without the interpreter: stages are before and after each call."""


def count_stages(write, folder, stage=0):
    """Write, killed before stage `stage`, or after all of them; returns the number of stages where it is 0."""
    found = 0

    def count():
        nonlocal found
        found += 1
        if found == stage:
            os.kill(os.getpid(), signal.SIGKILL)

    def notice(event, arguments):
        named = any(isinstance(one, (str, os.PathLike)) and os.fspath(one).startswith(str(folder)) for one in arguments)
        if named or event == "ctypes.dlsym":
            count()

    def profile(frame, event, function):
        if event in ("c_call", "c_return") and function.__name__ in LANCE and "/lance/" in frame.f_code.co_filename:
            count()

    sys.addaudithook(notice)
    sys.setprofile(profile)
    write(folder)
    sys.setprofile(None)
    if stage:
        os.kill(os.getpid(), signal.SIGKILL)
    return found


def killed(way, folder, stage):
    """Write in a process that is killed."""
    if not (child := os.fork()):
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115  (what a library says to the end)
        try:
            count_stages(way.write, folder, stage)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, "not killed"


def judge(way, folder, states):
    """Return which state is there, "old", "new" or one that is meant, and what is wrong with it."""
    if way.between(folder):
        return "between", None
    found = requested(way, way.read, folder)
    for name, state in states.items():
        if found == state:
            return name, None
    return "other", f"found {found!r:.300}"


def choose_stages(count, kills):
    """Return so many of the stages 1 to count + 1."""
    return [max(1, count * 2 // 3)] if kills == 1 else sorted({*np.linspace(1, count + 1, kills, dtype=int).tolist()})


def matrix(place, kills, chosen):
    """Kill every way at so many stages."""
    for name in chosen:
        way, template, folder = WAYS[name], place / "template", place / "x"
        folder.mkdir()
        requested(way, way.prepare, folder)
        shutil.copytree(folder, template)
        old, known = requested(way, way.read, folder), names(folder)
        stages = apart(partial(count_stages, way.write, folder))
        states, known = {"new": requested(way, way.read, folder), "old": old}, known | names(folder)
        shutil.rmtree(folder)
        for stage in choose_stages(stages, 99 if name == "pack over" else kills):
            shutil.copytree(template, folder)
            killed(way, folder, stage)
            state, wrong = judge(way, folder, states)
            if state != "new" and not wrong:
                requested(way, way.write, folder)
                again = requested(way, way.read, folder)
                left = [name for name in names(folder) - known if not LEFT.search(name)]
                wrong = None if (again, left) == (states["new"], []) else f"again: {again!r:.300}, left {left}"
            print(json.dumps({"way": name, "stage": stage, "of": stages, "state": state, "wrong": wrong}), flush=True)
            shutil.rmtree(folder)
        shutil.rmtree(template)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        matrix(Path(made), int(sys.argv[1]), sys.argv[2:] or DEFAULT)
