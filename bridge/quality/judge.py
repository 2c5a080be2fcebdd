"""Quality checks over an archive: measures in, scores and reasons in the catalog."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
import xxhash

from bridge.episodes.measure import Measured
from catalog.records import CheckFinding, CheckResult
from wshard.core.quality.baseline import MAX_EPISODES, fit_baseline
from wshard.core.quality.checks import Verdict, judge
from wshard.core.quality.measure_vector import VERSION
from wshard.errors import CatalogWriteError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from catalog.catalog import Catalog
    from wshard.core.episode.protocol import EpisodeAddress
    from wshard.core.quality.baseline import Baseline
    from wshard.core.quality.measure_vector import MeasureLayout
    from wshard.core.quality.thresholds import Thresholds

INTEGRITY: Final = "integrity"
"""The check that fails for files that cannot be read, or whose bytes have changed."""

_MAX_BASELINES: Final = 256  # families whose baselines stay in memory
_MAX_WAITING: Final = 4096  # episodes of all families, which wait in memory
_BATCH_RESULTS: Final = 256


@dataclass(frozen=True, eq=False)
class Subject:
    """A measured episode to be judged; id None for one that is not catalogued, address None for one judged again."""

    id: int | None
    digest: str
    env_id: str
    measured: Measured
    address: EpisodeAddress | None = None

    @property
    def family(self) -> str:
        """The family of episodes with which it is compared."""
        return _family(self.env_id, self.measured.form)

    def like(self, number: int, digest: str, vector: NDArray[np.float32]) -> Subject:
        """Return another episode of the same family."""
        return Subject(number, digest, self.env_id, Measured(self.measured.form, vector))


@lru_cache(maxsize=_MAX_BASELINES)
def _family(env_id: str, form: MeasureLayout) -> str:
    named = [form.labels] if form.labels else []  # robots with other joints are compared with their own kind
    return xxhash.xxh3_128_hexdigest(json.dumps([VERSION, env_id, form.lanes, *named]).encode())


@dataclass(eq=False)
class _Growing:
    """A family with too few known episodes: the ids of those with stored measures, and the waiting ones."""

    stored: frozenset[int]
    waiting: list[Subject] = field(default_factory=list)

    def full(self) -> bool:
        """Return True if there are enough episodes for a final baseline."""
        return len(self.stored) + sum(subject.id not in self.stored for subject in self.waiting) >= MAX_EPISODES


class ResultStore:
    """Writes results of checks to a catalog, until it refuses them.

    unsaved: why it does not store results, None if it does; strictly: CatalogWriteError is raised instead.
    """

    def __init__(self, *, strictly: bool) -> None:
        self._strictly = strictly
        self.unsaved: CatalogWriteError | None = None

    def write(self, write: Callable[[], object]) -> None:
        """Call a function that writes, unless an earlier one was refused."""
        if self.unsaved is None:
            try:
                write()
            except CatalogWriteError as error:
                if self._strictly:
                    raise
                self.unsaved = error


class Checker:
    """Judges episodes of one catalog and writes the results: most of them soon, all of them by finish().

    Create it before the files are read, so that problems found by others while episodes wait are not overwritten.
    report: called with each episode passed to take(), and its verdict. flagged: ids of the catalogued episodes with
    findings, without those of earlier runs that had some before. strictly: CatalogWriteError is raised where the
    catalog does not store results.
    """

    def __init__(
        self, catalog: Catalog, limits: Thresholds, report: Callable[[Subject, Verdict], None], *, strictly: bool
    ) -> None:
        self._catalog = catalog
        self._limits = limits
        self._report = report
        self._doubted = frozenset(catalog.query.ids(f"flag:{INTEGRITY}"))
        self._baselines: OrderedDict[str, Baseline] = OrderedDict()
        self._growing: dict[str, _Growing] = {}
        self._waiting = 0
        self._rows: list[CheckResult] = []
        self.flagged: set[int] = set()
        self._results = ResultStore(strictly=strictly)

    @property
    def unsaved(self) -> CatalogWriteError | None:
        """Why the catalog does not store results, None if it does."""
        return self._results.unsaved

    def take(self, subjects: Sequence[Subject]) -> None:
        """Judge the episodes, or hold them until enough of their family are known."""
        groups: dict[str, list[Subject]] = {}
        for subject in subjects:
            groups.setdefault(subject.family, []).append(subject)
        for family, members in groups.items():
            if family in self._baselines:
                self._baselines.move_to_end(family)
                self._judge(members, self._baselines[family])
                continue
            if family not in self._growing:
                self._growing[family] = _Growing(frozenset(self._load_measures(family)))
            self._growing[family].waiting += members
            self._waiting += len(members)
            if self._growing[family].full():
                self._complete(family)
        if self._waiting > _MAX_WAITING:
            self.finish()

    def finish(self) -> None:
        """Judge waiting episodes, and again those that formed the baseline of their family when fewer were known."""
        for family in list(self._growing):
            self._complete(family)
        self._write()

    def flag(self, id_: int, finding: CheckFinding) -> None:
        """Flag an episode whose data cannot be measured."""
        self.flagged.add(id_)
        self._results.write(lambda: self._catalog.checks.flag([id_], finding))

    def _complete(self, family: str) -> None:
        growing = self._growing.pop(family)
        waiting, first = growing.waiting, growing.waiting[0]
        self._waiting -= len(waiting)
        stored = self._load_measures(family)
        new_vectors = {subject.id: subject.measured.vector for subject in waiting if subject.id is not None}
        vectors = {number: new_vectors.get(number, vector) for number, (_, vector) in stored.items()}
        fresh = [subject.measured.vector for subject in waiting if subject.id not in stored]
        baseline = fit_baseline(first.measured.form, np.stack([*vectors.values(), *fresh][:MAX_EPISODES]))
        self._judge(waiting, baseline)
        earlier_ids = stored.keys() - new_vectors.keys() if len(stored) < MAX_EPISODES else ()
        if earlier_ids:
            no_news = self._catalog.checks.findings([*earlier_ids]).keys() - self.flagged
            self._judge([first.like(number, *stored[number]) for number in earlier_ids], baseline, report=False)
            self.flagged -= no_news
            self._write()  # now, so that a later finding of a damaged file is not overwritten
        if baseline is not None and growing.full():
            self._baselines[family] = baseline
            if len(self._baselines) > _MAX_BASELINES:
                self._baselines.popitem(last=False)

    def _load_measures(self, family: str) -> dict[int, tuple[str, NDArray[np.float32]]]:
        """Return digest and measures of the stored episodes of a family, by id."""
        if any(row.family == family for row in self._rows):
            self._write()
        stored = self._catalog.checks.stored_measures(family, MAX_EPISODES)
        return {number: (digest, np.frombuffer(data, "<f4")) for number, (digest, data) in stored.items()}

    def _judge(self, subjects: Sequence[Subject], baseline: Baseline | None, *, report: bool = True) -> None:
        if not subjects:
            return
        form = subjects[0].measured.form
        verdicts = judge(form.read(np.stack([one.measured.vector for one in subjects])), baseline, self._limits)
        for subject, verdict in zip(subjects, verdicts, strict=True):
            if report:
                self._report(subject, verdict)
            if subject.id is not None:
                (self.flagged.add if verdict.findings else self.flagged.discard)(subject.id)
                data = subject.measured.vector.astype("<f4").tobytes()
                self._rows.append(result_of(subject, verdict, VERSION, subject.family, data))
        if len(self._rows) >= _BATCH_RESULTS:
            self._write()

    def _write(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            self._results.write(
                lambda: self._catalog.checks.set_checked(rows, most=MAX_EPISODES, doubted=self._doubted)
            )


def findings_of(verdict: Verdict) -> tuple[CheckFinding, ...]:
    """Return the findings as the catalog stores them."""
    return tuple(CheckFinding(finding.check, finding.reason) for finding in verdict.findings)


def result_of(subject: Subject, verdict: Verdict, version: str, family: str, measures: bytes | None) -> CheckResult:
    """Return the result of a catalogued subject."""
    return CheckResult(subject.id or 0, subject.digest, version, family, verdict.scores, findings_of(verdict), measures)
