"""What a log shows of long work."""

from __future__ import annotations

import io

import pytest

from bridge.support import progress


@pytest.mark.parametrize(("done", "told"), [(1, "0.25/s"), (20, "5/s"), (2000, "500/s")])
def test_slow_work_does_not_stand_still_in_the_log(monkeypatch, done, told):
    clock = iter([100.0, 104.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    log = io.StringIO()
    lines = progress.Lines(log)
    lines.stage("training", done)
    lines.advance(done)
    assert log.getvalue() == f"training: {done}/{done} ({told})\n"
