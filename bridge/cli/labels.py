"""The verbs about labels: mislabeled, evaluate, and probe, which learns one from examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.curation_output import OutputOptions, print_ranked, report_spaces
from bridge.cli.options import LabelOption, NeighboursOption, SpaceOption, WriteOption, open_named
from bridge.cli.output import print_lines, print_notes
from catalog.cli.common import ArchiveOption, LimitOption, WhereOption, print_table, report_unknown, shorten
from wshard.cli.common import JsonOption, print_items, print_json, printable, reported

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
    """Rank episodes by likelihood of a wrong label (0 = neighbours agree, 1 = all disagree)."""
    from bridge.curation.signals import find_mislabeled
    from bridge.present.findings import describe_unlabelled

    def find(opened: Archive, progress: Progress) -> list[Valued]:
        compared = report_spaces(opened, where, space)
        found = find_mislabeled(opened, label, where or "", neighbours=neighbours, space=space, progress=progress)
        print_notes(describe_unlabelled(compared, len(found), label))
        return found

    options = OutputOptions(write, limit=limit, as_json=as_json)
    print_ranked(
        archive, options, "doubt", find, beyond=(DOUBTFUL, ": another label is more frequent among their neighbours")
    )


@reported()
def evaluate(
    label: LabelOption,
    where: WhereOption = None,
    k: Annotated[int, typer.Option("--top", "-k", min=1, help="Number of hits for recall@k.")] = 10,
    limit: LimitOption = 20,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Evaluate the search on labels: each episode is used as a query for others with the same label.

    The first table compares the default ranking (if it combines several Spaces) with each Space alone. The second
    one lists the results of the Space with the most episodes per label, worst first. mAP is 1 if all episodes with
    the label rank before all others.
    """
    from bridge.support.progress import show_progress

    with open_named(archive) as opened, show_progress() as progress:
        report_unknown(opened.catalog, where)
        evaluated = opened.evaluate(label, where or "", k=k, progress=progress)
    if as_json:
        from bridge.present.reports import present_evaluation

        print_items(map(present_evaluation, evaluated))
        return
    _print_scores(evaluated, f">recall@{k}")
    largest = next(one for one in evaluated if one.space is not None)
    if largest.labels > 1:
        _print_labels(largest, f">recall@{k}", limit)


@reported()
def probe(
    right: Annotated[
        list[str],
        typer.Option("--right", help="Positive example (id, uid or file); may be repeated.", metavar="EPISODE"),
    ],
    wrong: Annotated[
        list[str] | None, typer.Option("--wrong", help="Negative example; may be repeated.", metavar="EPISODE")
    ] = None,
    where: WhereOption = None,
    space: SpaceOption = None,
    write: Annotated[
        str | None,
        typer.Option("--write", help="Name of the score, and of the collection of positive examples, to save."),
    ] = None,
    top: Annotated[int, typer.Option("--top", "-k", min=1, help="Number of episodes to print.")] = 20,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rank episodes with a linear classifier trained on a few positive and negative examples."""
    from bridge.curation.probe import save_probe, train_probe
    from bridge.present.probe import present_probe
    from catalog.cli.annotate import account
    from catalog.names import find_episode

    with open_named(archive) as opened:
        report_unknown(opened.catalog, where)
        marked = [[find_episode(opened.catalog, name).id for name in names] for names in (right, wrong or [])]
        probe = train_probe(opened, marked[0], marked[1], where or "", space=space)
        if write is not None:
            save_probe(opened, probe, write, who=account())
        result = present_probe(probe, opened.catalog.query, top=top)
    if as_json:
        print_json(result)
        return
    rows = [
        (str(one["rank"]), f"{one['value']:.3f}", one["name"], one["env_id"], shorten(one["address"]))
        for one in result["items"]
    ]
    print_table((">rank", ">value", "episode", "env", "/file"), rows)
    measured = ""
    if probe.precision is not None:
        measured = f"; precision {probe.precision:.2f}, recall {probe.recall or 0:.2f} (cross-validated)"
    typer.echo(f"{probe.positive} of {result['total']} episodes are positive{measured}")
    if write is not None:
        typer.echo(f"saved as score.{printable(write)} and as the collection {printable(write)}")


def _print_scores(evaluated: Sequence[Evaluated], recall: str) -> None:
    from bridge.present.reports import name_ranking

    rows = [(*_cells(evaluation.scores), str(evaluation.labels), name_ranking(evaluation)) for evaluation in evaluated]
    print_table((">mAP", ">P@1", ">P@10", recall, ">queries", ">labels", "ranked by"), rows)


def _print_labels(one: Evaluated, recall: str, limit: int) -> None:
    from bridge.present.reports import name_ranking

    of_labels = one.scores.of_labels
    rows = [(of.label, *_cells(of.figures), of.instead) for of in of_labels[:limit]]
    typer.echo()
    print_table(("label", ">mAP", ">P@1", ">P@10", recall, ">queries", "confused with"), rows)
    shown = f"{len(rows)} of {len(of_labels)} labels, ranked by {name_ranking(one)}"
    print_lines([f"{shown}; chance level of mAP: {_chance(one):.3f}"])


def _cells(figures: Figures) -> tuple[str, ...]:
    values = (figures.mean_average_precision, figures.precision_at_1, figures.precision_at_10, figures.recall_at_k)
    return (*(f"{value:.3f}" for value in values), str(figures.queries))


def _chance(one: Evaluated) -> float:
    """Return the mean share of relevant episodes, which is about the mAP of a random ranking."""
    counts = [(of.figures.queries, of.size - 1) for of in one.scores.of_labels]
    return sum(queries * others for queries, others in counts) / (one.scores.queries * (one.episodes - 1))
