"""What a log shows of long work."""

from __future__ import annotations

import io

import numpy as np
import pytest

from bridge.support import progress
from wshard import TrajectoryIngestor


class Clock:
    """Time as tests set it."""

    def __init__(self, monkeypatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)


@pytest.mark.parametrize(("done", "message"), [(1, "0.1/s"), (20, "2/s"), (2000, "200/s")])
def test_slow_work_does_not_stand_still_in_the_log(monkeypatch, done, message):
    clock, log = Clock(monkeypatch), io.StringIO()
    lines = progress.Lines(log)
    lines.stage("training", done)
    clock.now += 10
    lines.advance(done)
    assert log.getvalue() == f"training: {done}/{done} ({message})\n"


def test_quick_work_leaves_nothing_in_the_log_and_long_work_few_lines(monkeypatch):
    clock, log = Clock(monkeypatch), io.StringIO()
    lines = progress.Lines(log)
    for _ in range(9):
        lines.stage("pairs", 1)
        clock.now += 1
        lines.advance(1)
    assert log.getvalue() == ""
    lines.stage("embedding", 3600)
    for _ in range(3600):
        clock.now += 1
        lines.advance(1)
    seen = [int(line.split()[1].split("/")[0]) for line in log.getvalue().splitlines()]
    assert seen[:7] == [1, 11, 31, 71, 151, 311, 611]
    assert (seen[-1], len(seen)) == (3600, 17)


def test_a_terminal_shows_one_bar_at_a_time():
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with progress.show_progress(Terminal()) as bar:
        assert [task.description for task in bar._bars.tasks if task.visible] == ["finding"]
    assert not any(task.visible for task in bar._bars.tasks)  # an error stands alone
    with progress.show_progress(Terminal()) as bar:
        for stage in ("reading", f"queries: {'windows of 30, 45, ' * 9}"):
            bar.stage(stage, 2)
            bar.advance(2)
        assert [task.description for task in bar._bars.tasks if task.visible] == ["queries: windows of 30, 45, w…"]


def test_looking_into_files_and_listing_them_are_stages_too(tmp_path):
    seen: list[tuple[str, int]] = []

    class Watch(progress.Silent):
        def stage(self, what: str, total: int) -> None:
            seen.append((what, total))

    for number in range(3):
        np.savez(tmp_path / f"{number}.npz", obs=np.ones((20, 2)) * number, act=np.zeros((20, 1)))
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        ingestor.ingest(tmp_path, progress=Watch())
    assert seen[:3] == [("looking into files", 3), ("listing", 3), ("reading", 3)]
