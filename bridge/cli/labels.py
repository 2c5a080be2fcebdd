"""The verbs about labels that the user has given: whose label is doubtful, and how good the search is on them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridge.cli.findings import print_lines
from bridge.cli.output import (
    LabelOption,
    LimitOption,
    NeighboursOption,
    SpaceOption,
    Wanted,
    WriteOption,
    opened,
    rank,
    space_told,
)
from catalog.cli.common import ArchiveOption, WhereOption, print_table
from wshard.cli.common import JsonOption, print_items, reported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.archive import Archive
    from bridge.curation.signals import Valued
    from bridge.evaluation.compare import Evaluated
    from bridge.evaluation.metrics import Figures
    from bridge.support.progress import Progress

DOUBTFUL = 0.5  # more neighbours have one other label than its own


@reported()
def mislabeled(
    label: LabelOption,
    where: WhereOption = None,
    neighbours: NeighboursOption = 10,
    space: SpaceOption = None,
    write: WriteOption = None,
    limit: LimitOption = 20,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rank episodes by how much their neighbours doubt their label: 0 all have it, 1 all have another one."""
    from bridge.curation.signals import find_mislabeled

    def find(held: Archive, progress: Progress) -> list[Valued]:
        chosen = space_told(held, where, space)
        return find_mislabeled(held, label, where or "", neighbours=neighbours, space=chosen, progress=progress)

    wanted = Wanted(write, limit=limit, as_json=as_json)
    rank(archive, wanted, "doubt", find, beyond=(DOUBTFUL, ": more neighbours have one other label than its own"))


@reported()
def evaluate(
    label: LabelOption,
    where: WhereOption = None,
    k: Annotated[int, typer.Option("--top", "-k", min=1, help="Hits that count for the recall.")] = 10,
    limit: LimitOption = 20,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say how good the search is on your labels: episodes ask for the others of their label.

    First as the search ranks by default, where that takes several Spaces; then in every Space; below, the first Space
    label by label, the worst first. mAP is 1 where all others of a label come before everything else.
    """
    from bridge.evaluation.compare import evaluate_label, evaluate_search
    from bridge.search.retriever import TrajectoryRetriever
    from bridge.support.progress import watched
    from catalog.location import archive_named

    with opened(archive) as held, watched() as progress:
        found = evaluate_label(held, label, where or "", k=k, progress=progress)
        with TrajectoryRetriever(archive_named(archive)) as retriever:
            default = evaluate_search(retriever, held, label, where or "", k=k, progress=progress)
    every = found if default is None else [default, *found]
    if as_json:
        print_items(map(_as_json, every))
        return
    _print_scores(every, f">recall@{k}")
    if found[0].labels > 1:
        _print_labels(found[0], f">recall@{k}", limit)


def _print_scores(found: Sequence[Evaluated], recall: str) -> None:
    rows = [(*_cells(one.scores), str(one.labels), _about(one)) for one in found]
    print_table((">mAP", ">P@1", ">P@10", recall, ">queries", ">labels", "ranked by"), rows)


def _print_labels(one: Evaluated, recall: str, limit: int) -> None:
    of_labels = one.scores.of_labels
    rows = [(of.label, *_cells(of.figures), of.instead) for of in of_labels[:limit]]
    typer.echo()
    print_table(("label", ">mAP", ">P@1", ">P@10", recall, ">queries", "taken for"), rows)
    shown = f"{len(rows)} of {len(of_labels)} labels, ranked by {_about(one)}"
    print_lines([f"{shown}; at random mAP would be {_chance(one):.3f}"])


def _cells(figures: Figures) -> tuple[str, ...]:
    values = (figures.mean_average_precision, figures.precision_at_1, figures.precision_at_10, figures.recall_at_k)
    return (*(f"{value:.3f}" for value in values), str(figures.queries))


def _about(one: Evaluated) -> str:
    from bridge.spaces.identity import describe

    return "search, as it ranks by default" if one.space is None else describe(one.space)


def _chance(one: Evaluated) -> float:
    """Return the mean share of right ones among all others, which is about the mAP of rankings at random."""
    counts = [(of.figures.queries, of.size - 1) for of in one.scores.of_labels]
    return sum(asking * others for asking, others in counts) / (one.scores.queries * (one.episodes - 1))


def _as_json(one: Evaluated) -> dict[str, Any]:
    scores = asdict(one.scores)
    labels = [{**of.pop("figures"), **of} for of in scores.pop("of_labels")]
    about = {"space": None if one.space is None else one.space.fingerprint, "about": _about(one)}
    return {**about, "episodes": one.episodes, "labels": one.labels, **scores, "of_labels": labels}
