"""Checks of cameras over an archive: measures in, scores and reasons in the catalog."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bridge.quality.judge import findings_of
from catalog.records import CheckResult
from wshard.core.quality.cameras import judge_cameras
from wshard.errors import CatalogWriteError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bridge.quality.examine import SeenCameras
    from bridge.quality.judge import Subject
    from catalog.catalog import Catalog
    from wshard.core.quality.checks import Verdict

_MOST_TOGETHER: Final = 256  # episodes of an environment that wait in memory, and are compared with each other


@dataclass(eq=False)
class CameraChecker:
    """Judges the cameras of episodes in groups of one environment, and stores the results of catalogued ones.

    report: called with what was given to take(), and the verdict. unsaved: why the catalog does not store results.
    """

    catalog: Catalog
    report: Callable[[int, Verdict], None]
    unsaved: CatalogWriteError | None = None
    _groups: dict[tuple[str, object], list[tuple[int, int | None, str, SeenCameras]]] = field(default_factory=dict)

    def take(self, place: int, subject: Subject, seen: SeenCameras) -> None:
        """Judge an episode with others of its environment; place: what the report calls it."""
        if seen.measures:
            group = self._groups.setdefault((subject.env_id, seen.form), [])
            group.append((place, subject.id, subject.digest, seen))
            if len(group) >= _MOST_TOGETHER:
                self._judge(self._groups.pop((subject.env_id, seen.form)))

    def finish(self) -> None:
        """Judge those that wait."""
        while self._groups:
            self._judge(self._groups.popitem()[1])

    def _judge(self, group: Sequence[tuple[int, int | None, str, SeenCameras]]) -> None:
        rows = []
        for (place, id_, digest, _), verdict in zip(
            group, judge_cameras([seen.measures for *_, seen in group]), strict=True
        ):
            self.report(place, verdict)
            if id_ is not None:
                rows.append(CheckResult(id_, digest, "", "", verdict.scores, findings_of(verdict)))
        if rows and self.unsaved is None:
            try:
                self.catalog.checks.set_cameras_checked(rows)
            except CatalogWriteError as error:
                self.unsaved = error
