"""Progress of long work: a bar with rate and ETA on a terminal, a few plain lines in a log, or nothing."""

from __future__ import annotations

import io
import sys
import time
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FIRST_LINE_S, _LINE_EVERY_S = 10.0, 300.0
_BATCH_ITEMS = 256  # items per report, as reporting takes as long as some items
_WIDEST = 30  # of a name beside a bar, so that bar and numbers are seen at 80 columns
Item = TypeVar("Item")


class Progress(Protocol):
    """Receives the progress of work: the start of a stage, and finished items."""

    def stage(self, what: str, total: int) -> None:
        """Begin a stage of `total` items; `what` is a label such as "embedding"."""

    def advance(self, count: int) -> None:
        """Report `count` more finished items of the stage."""


class Silent:
    """Progress that is not shown."""

    def stage(self, what: str, total: int) -> None:
        """Ignore it."""

    def advance(self, count: int) -> None:
        """Ignore it."""


class Labelled:
    """Progress with a label on its stages, if the same stage is repeated."""

    def __init__(self, progress: Progress, label: str) -> None:
        self._progress, self._label = progress, label

    def stage(self, what: str, total: int) -> None:
        """Begin a stage, by its name and the label."""
        self._progress.stage(f"{what}: {self._label}", total)

    def advance(self, count: int) -> None:
        """Pass it on."""
        self._progress.advance(count)


def counted(items: Sequence[Item], what: str, progress: Progress) -> Iterator[Item]:
    """Yield the items of a stage and report progress every few hundred; without items there is no stage."""
    if items:
        progress.stage(what, len(items))
    for start in range(0, len(items), _BATCH_ITEMS):
        batch = items[start : start + _BATCH_ITEMS]
        yield from batch
        progress.advance(len(batch))


class Lines:
    """A line after 10 seconds of work, then at twice the time and so on, and one at the end of a stage that had some.

    Quick work has none, so that errors and results stand alone in a log. From 5 minutes on there is a line every five.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._what, self._total, self._done, self._shown = "", 0, 0, False
        self._first = self._begun = time.monotonic()
        self._due = self._first + _FIRST_LINE_S

    def stage(self, what: str, total: int) -> None:
        """Begin a stage."""
        self._what, self._total, self._done, self._shown = what, total, 0, False
        self._begun = time.monotonic()

    def advance(self, count: int) -> None:
        """Count, and report now and then."""
        self._done += count
        now = time.monotonic()
        if now < self._due and not (self._shown and self._done >= self._total):
            return
        self._shown, self._due = True, now + min(now - self._first, _LINE_EVERY_S)
        rate = _rate(self._done / max(now - self._begun, 1e-9))
        self._stream.write(f"{self._what}: {self._done}/{self._total} ({rate})\n")
        self._stream.flush()


def _rate(speed: float) -> str:
    """Return a speed in items per second for people: slow work would otherwise stand at 0."""
    return f"{speed:.0f}/s" if speed >= 10 else f"{speed:.2g}/s"


@contextmanager
def show_progress(stream: IO[str] | None = None) -> Iterator[Progress]:
    """Yield what suits the stream (stderr by default): a bar on a terminal, lines elsewhere."""
    target = stream or sys.stderr or io.StringIO()  # a closed stderr is None, and has no reader
    if not target.isatty():
        yield Lines(target)
        return
    with _bar(target) as bar:
        yield bar


@contextmanager
def _bar(stream: IO[str]) -> Iterator[Progress]:
    from rich.console import Console  # noqa: PLC0415  (costs start-up time, needed on terminals only)
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415
    from rich.progress import Progress as Bars  # noqa: PLC0415

    columns = (TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn())
    rate = TextColumn("{task.fields[rate]}")
    with Bars(*columns, rate, TimeRemainingColumn(), console=Console(file=stream)) as bars:
        bar = _Bar(bars)
        try:
            yield bar
        finally:
            bar.hide_start()


class _Bar:
    def __init__(self, bars: object) -> None:
        from rich.progress import Progress as Bars  # noqa: PLC0415

        if not isinstance(bars, Bars):
            raise TypeError(f"expected rich's Progress, found {type(bars).__name__}")
        self._bars = bars
        self._task = self._start = bars.add_task("finding", total=None, rate="")

    def hide_start(self) -> None:
        """Show no stage where none began, so that an error stands alone."""
        self._bars.update(self._start, visible=False)

    def stage(self, what: str, total: int) -> None:
        self._bars.update(self._task, visible=False)
        self._task = self._bars.add_task(
            what if len(what) <= _WIDEST else f"{what[: _WIDEST - 1]}…", total=total, rate=""
        )

    def advance(self, count: int) -> None:
        self._bars.advance(self._task, count)
        speed = self._bars.tasks[self._task].speed
        self._bars.update(self._task, rate=_rate(speed) if speed else "")
