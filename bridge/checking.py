"""Quality checks over an archive: measures in, scores and reasons in the catalog.

Knows: that an episode is compared with others of its family (same environment, lanes and version of the checks), and
that the first of a family, judged when few were known, are judged again. Does not know: what is measured, files.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import xxhash

from bridge.measuring import Measured
from catalog.records import Checked, Found
from wshard.quality.checks import Verdict, judge
from wshard.quality.form import VERSION, Form
from wshard.quality.usual import MOST, Usual, usual

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from catalog.catalog import Catalog
    from wshard.quality.limits import Limits

_REMEMBERED: Final = 256  # families whose usual measures stay in memory


@dataclass(frozen=True, eq=False)
class Subject:
    """A measured episode to be judged; id None for one that is not catalogued."""

    id: int | None
    digest: str
    env_id: str
    measured: Measured

    @property
    def family(self) -> str:
        """Name the episodes that it is compared with."""
        return xxhash.xxh3_128_hexdigest(json.dumps([VERSION, self.env_id, self.measured.form.lanes]).encode())


class Checker:
    """Judges episodes of one catalog, in batches, and writes what it finds; finish() when all are judged.

    flagged: ids of the catalogued episodes in which something was found.
    """

    def __init__(self, catalog: Catalog, limits: Limits) -> None:
        self._catalog = catalog
        self._limits = limits
        self._known: OrderedDict[str, Usual] = OrderedDict()
        self._growing: dict[str, tuple[str, Form]] = {}
        self.flagged: set[int] = set()

    def take(self, subjects: Sequence[Subject]) -> list[Verdict]:
        """Judge the episodes, write what is catalogued of them, and return the verdicts in their order."""
        groups: dict[str, list[int]] = {}
        for number, subject in enumerate(subjects):
            groups.setdefault(subject.family, []).append(number)
        verdicts: dict[int, Verdict] = {}
        for family, numbers in groups.items():
            members = [subjects[number] for number in numbers]
            vectors = np.stack([member.measured.vector for member in members])
            form = members[0].measured.form
            known = self._usual(family, members, vectors)
            verdicts |= zip(numbers, judge(form.read(vectors), known, self._limits), strict=True)
        for number, subject in enumerate(subjects):
            if subject.id is not None:
                (self.flagged.add if verdicts[number].findings else self.flagged.discard)(subject.id)
        rows = [_row(subject, verdicts[number]) for number, subject in enumerate(subjects) if subject.id is not None]
        if rows:
            self._catalog.set_checked(rows, most=MOST)
        return [verdicts[number] for number in range(len(subjects))]

    def finish(self) -> dict[int, Verdict]:
        """Judge once more the episodes that say what is usual, in families of which more are known by now; by id."""
        corrected: dict[int, Verdict] = {}
        growing, self._growing = self._growing, {}
        for family, (env_id, form) in growing.items():
            kept = self._catalog.kept_measures(family, MOST)
            rows = self._catalog.rows(kept)
            kept = {number: data for number, data in kept.items() if number in rows}
            subjects = [
                Subject(number, rows[number].digest, env_id, Measured(form, np.frombuffer(data, "<f4")))
                for number, data in kept.items()
            ]
            if subjects:
                corrected |= zip(kept, self.take(subjects), strict=True)
        self._growing = {}
        return corrected

    def _usual(self, family: str, members: Sequence[Subject], vectors: NDArray[np.float32]) -> Usual | None:
        if family in self._known:
            self._known.move_to_end(family)
            return self._known[family]
        kept = self._catalog.kept_measures(family, MOST)
        stored = [np.frombuffer(data, "<f4") for data in kept.values()]
        fresh = [vector for member, vector in zip(members, vectors, strict=True) if member.id not in kept]
        form = members[0].measured.form
        found = usual(form, np.stack([*stored, *fresh[: MOST - len(stored)]]))
        if len(stored) < MOST:
            self._growing[family] = (members[0].env_id, form)
        elif found is not None:
            self._known[family] = found
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return found


def findings_of(verdict: Verdict) -> tuple[Found, ...]:
    """Return the findings as the catalog keeps them."""
    return tuple(Found(finding.check, finding.reason) for finding in verdict.findings)


def _row(subject: Subject, verdict: Verdict) -> Checked:
    data = subject.measured.vector.astype("<f4").tobytes()
    return Checked(subject.id or 0, subject.digest, VERSION, subject.family, verdict.scores, findings_of(verdict), data)
