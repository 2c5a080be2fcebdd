"""Checks of cameras over an archive: measures in, scores and reasons in the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bridge.quality.judge import ResultStore, result_of
from wshard.core.quality.cameras import judge_cameras

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bridge.quality.examine import SeenCameras
    from bridge.quality.judge import Subject
    from catalog.catalog import Catalog
    from wshard.core.quality.checks import Verdict
    from wshard.core.quality.thresholds import Thresholds
    from wshard.errors import CatalogWriteError

_MOST_TOGETHER: Final = 256  # episodes of an environment that wait in memory, and are compared with each other


class CameraChecker:
    """Judges the cameras of episodes in groups of one environment, and stores the results of catalogued ones.

    report: called with what was given to take(), and the verdict.
    """

    def __init__(self, catalog: Catalog, limits: Thresholds, report: Callable[[int, Verdict], None]) -> None:
        self._catalog, self._limits, self._report = catalog, limits, report
        self._results = ResultStore(strictly=False)
        self._groups: dict[tuple[str, object], list[tuple[int, Subject, SeenCameras]]] = {}

    @property
    def unsaved(self) -> CatalogWriteError | None:
        """Why the catalog does not store results, None if it does."""
        return self._results.unsaved

    def take(self, place: int, subject: Subject, seen: SeenCameras) -> None:
        """Judge an episode with others of its environment; place: what the report calls it."""
        if seen.measures:
            group = self._groups.setdefault((subject.env_id, seen.form), [])
            group.append((place, subject, seen))
            if len(group) >= _MOST_TOGETHER:
                self._judge(self._groups.pop((subject.env_id, seen.form)))

    def finish(self) -> None:
        """Judge those that wait."""
        while self._groups:
            self._judge(self._groups.popitem()[1])

    def _judge(self, group: Sequence[tuple[int, Subject, SeenCameras]]) -> None:
        rows = []
        verdicts = judge_cameras([seen.measures for *_, seen in group], self._limits)
        for (place, subject, _), verdict in zip(group, verdicts, strict=True):
            self._report(place, verdict)
            if subject.id is not None:
                rows.append(result_of(subject, verdict, "", "", None))
        if rows:
            self._results.write(lambda: self._catalog.checks.set_cameras_checked(rows))
