"""Repairs findings of a check, as far as that is possible without losing anything.

Outside of the archive's own folder, only temporary files of killed writers are touched.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bridge.episodes.found import FoundEpisode
from bridge.episodes.open import exists
from bridge.ingest.fill import fill
from bridge.ingest.register import reread
from bridge.maintenance import indexes
from bridge.maintenance.check_vectors import choice_of, sizes_of
from bridge.spaces.lanes import LaneChoice
from bridge.spaces.statistics import Choice
from embedders.registry import embedder_of
from embedders.space import Space
from wshard.core.container.atomic_write import remove_abandoned
from wshard.core.container.draft import remove_dead_draft
from wshard.core.messages import plural
from wshard.errors import VectorIndexError, WShardError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bridge.ingest.report import Run
    from bridge.maintenance.findings import Finding
    from catalog.vectors.records import SpaceRow

_READ: Final = ("changed", "touched", "moved")
_EMBED: Final = ("changed", "moved", "stale", "torn", "unembedded")
_DROP: Final = ("orphaned", "stale", "retired", "torn")


def repair_findings(run: Run, findings: Sequence[Finding]) -> Iterator[str]:
    """Repair what can be repaired, and yield what was done; the next check reports remaining findings."""
    codes = {finding.code for finding in findings}
    before = _windowed(run)
    if codes & set(_DROP):
        catalog = run.archive.catalog
        dropped = catalog.maintenance.drop_strays(sizes_of(catalog), full="torn" in codes)
        yield f"dropped {plural(dropped, 'stray embedding')}"
    if codes & set(_READ):
        yield from _read(run, [finding for finding in findings if finding.code in _READ])
    if codes & set(_EMBED):
        yield from _embed(run, before)
    if "index" in codes:
        yield _index(run)
    else:
        run.index_sync.finish()
    yield from _tidy([finding for finding in findings if finding.code == "leftover"])
    if removed := sum(_remove_abandoned(finding.where) for finding in findings if finding.code == "abandoned"):
        yield f"removed {plural(removed, 'temporary file')} of killed writers"


def _read(run: Run, findings: Sequence[Finding]) -> Iterator[str]:
    """Read files again, each with the lanes from which its episode was embedded."""
    catalog = run.archive.catalog
    living = catalog.vectors.live_spaces()
    spaces = {row.fingerprint: Space.from_json(row.definition) for row in living}
    choices = {name: choice_of(catalog, space) for name, space in spaces.items() if not space.of_text}
    facts = catalog.query.facts([finding.episode for finding in findings])
    rows = catalog.episodes.rows([finding.episode for finding in findings])
    groups: list[tuple[LaneChoice, list[FoundEpisode]]] = []
    for finding in findings:
        of_episode = [
            choices[name] for name in (vectors.space for vectors in facts[finding.episode].embedded) if name in choices
        ]
        wanted = (of_episode or [*choices.values()] or [LaneChoice()])[0]
        group = next((episodes for choice, episodes in groups if choice == wanted), None)
        if group is None:
            groups.append((wanted, group := []))
        # Episodes may have been moved to paths of other moved episodes.
        addresses = (finding.seen, rows[finding.episode].address)
        group += [FoundEpisode(address) for address in addresses if address is not None and exists(address)]
    for wanted, episodes in groups:
        reread(run, episodes, wanted)
    counts = Counter({name: getattr(run.report, name) for name in ("changed", "moved", "unchanged", "new")})
    names = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"
    yield f"read {plural(len(findings), 'file')} again: {names}"


def _windowed(run: Run) -> dict[str, Sequence[int]]:
    """Return the episodes with vectors in Spaces of windows, by family, as these are not for every episode."""
    catalog = run.archive.catalog
    spaces = [(row, Space.from_json(row.definition)) for row in catalog.vectors.live_spaces()]
    return {row.family: catalog.vectors.embedded(row.id) for row, space in spaces if not space.windows.whole}


def _embed(run: Run, windowed: Mapping[str, Sequence[int]]) -> Iterator[str]:
    living = run.archive.catalog.vectors.spaces("active") + run.archive.catalog.vectors.spaces("building")
    if not living:
        yield "could not re-embed: there is no Space to define how; run the same wshard ingest as before"
    for row in living:
        try:
            _refill(run, row, windowed)
        except WShardError as error:
            yield f"could not re-embed: {error}"
    yield f"embedded {plural(run.report.embedded, 'episode')} again"


def _refill(run: Run, row: SpaceRow, windowed: Mapping[str, Sequence[int]]) -> None:
    catalog, space = run.archive.catalog, Space.from_json(row.definition)
    choice = Choice(embedder_of(space), choice_of(catalog, space), space.windows)
    fill(run, [choice], windowed.get(row.family, []))


def _index(run: Run) -> str:
    try:
        return f"mended {indexes.repair(run.archive)} copies for searching"
    except VectorIndexError as error:
        return f"could not repair the index: {error}"


def _remove_abandoned(place: str) -> bool:
    return remove_dead_draft(Path(place)) or remove_abandoned(place)


def _tidy(findings: Sequence[Finding]) -> Iterator[str]:
    """Remove leftovers from folders in which only this software writes."""
    for path in (Path(finding.where) for finding in findings):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    if findings:
        yield f"removed {plural(len(findings), 'leftover')}"
