"""The verbs that look after a data set by its vectors: duplicates, leaks, outliers, select, weights, and so on.

Knows: how findings are shown, and kept as scores and collections. Does not know: how they are found. Imports what it
needs inside the verbs, so that `--help` is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bridge.findings import as_group, as_pair, by_group, print_lines, print_twins, print_valued, print_valued_json
from catalog.cli import ArchiveOption, WhereOption, print_table
from wshard.cli import EXIT_FAILED, JsonOption, print_json, reported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bridge.archive import Archive
    from bridge.curation.signals import Valued
    from catalog.filters import Where

SpaceOption = Annotated[
    str | None, typer.Option("--space", help="Beginning of a Space's fingerprint, where there are several.")
]
WriteOption = Annotated[str | None, typer.Option("--write", help="Keep the values as the score of this name.")]
CollectionOption = Annotated[str | None, typer.Option("--collection", help="Keep the outcome as this collection.")]
WITHIN = 0.006  # as bridge/curation/duplicates.py has it, whose import would take time
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, help="Rows to show; --json has all.")]
WithinOption = Annotated[
    float, typer.Option("--within", min=0, help="Difference up to which recordings count as one, in deviations.")
]
PiecesOption = Annotated[
    bool, typer.Option("--pieces", help="Find shared pieces of episodes too (needs ingest --windows multi).")
]
NeighboursOption = Annotated[int, typer.Option("--neighbours", min=1, help="Nearest ones that are asked.")]
LabelOption = Annotated[str, typer.Option("--label", help="A key of the metadata, or a field: env, tag, meta.a.b.")]


@reported()
def duplicates(
    where: WhereOption = None,
    within: WithinOption = WITHIN,
    pieces: PiecesOption = False,
    write: WriteOption = None,
    collection: CollectionOption = None,
    limit: LimitOption = 20,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find episodes that are there twice: the same data, or a copy with noise, cut at the ends, or encoded anew.

    --write keeps the group of every episode (`collection split --by score.NAME` then keeps groups together),
    --collection one episode of each group.
    """
    from bridge.curation.duplicates import each_once, find_duplicates, group_of
    from bridge.curation.pieces import find_pieces
    from bridge.progress import watched

    with _opened(archive) as opened:
        with watched() as progress:
            twins = find_duplicates(opened, where or "", within=within, progress=progress)
            if pieces:
                twins = each_once([*twins, *find_pieces(opened, where or "", within=within, progress=progress)])
        groups = group_of(opened.catalog.ids(where or ""), twins)
        told = _kept(opened, write, groups)
        told += _collected(opened, collection, [id_ for id_, group in groups.items() if id_ == group])
    found = by_group(twins, groups)
    if as_json:
        print_json({"episodes": len(groups), "groups": [as_group(group, pairs) for group, pairs in found.items()]})
        return
    print_twins([twin for pairs in found.values() for twin in pairs][:limit])
    spare = len(groups) - len(set(groups.values()))
    print_lines([f"{len(found)} groups; {spare} of {len(groups)} episodes are a copy of another", *told])


@reported()
def leaks(
    left: Annotated[str, typer.Argument(help="A filter, or the name of a collection: what is trained on, say.")],
    right: Annotated[str, typer.Argument(help="Another one: what is tested with, say.")],
    within: WithinOption = WITHIN,
    pieces: PiecesOption = False,
    collection: CollectionOption = None,
    limit: LimitOption = 20,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find episodes of one set that are in another one too, or are a copy of one there; exit 1 if there are any.

    Filters that begin with a minus come after --. --collection keeps the second set without them.
    """
    from bridge.curation.duplicates import each_once, find_leaks
    from bridge.curation.pieces import find_shared
    from bridge.progress import watched

    with _opened(archive) as opened:
        mine, others = (_some(opened, text) for text in (left, right))
        with watched() as progress:
            twins = find_leaks(opened, mine, others, within=within, progress=progress)
            if pieces:
                twins = each_once([*twins, *find_shared(opened, mine, others, within=within, progress=progress)])
        leaked = {twin.right.id for twin in twins}
        tested = opened.catalog.ids(others)
        told = _collected(opened, collection, [id_ for id_ in tested if id_ not in leaked])
    if as_json:
        print_json({"leaked": len(leaked), "episodes": len(tested), "pairs": [as_pair(twin) for twin in twins]})
    else:
        print_twins(twins[:limit])
        print_lines(
            [f"{len(leaked)} of {len(tested)} episodes of the second set are in the first one, or a copy is", *told]
        )
    if twins:
        raise typer.Exit(EXIT_FAILED)


@reported()
def outliers(
    where: WhereOption = None,
    neighbours: NeighboursOption = 10,
    space: SpaceOption = None,
    write: WriteOption = None,
    limit: LimitOption = 20,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rank episodes by how far they are from all others of about their length; above 3 is rare."""
    from bridge.curation.signals import find_outliers
    from bridge.progress import watched

    with _opened(archive) as opened:
        with watched() as progress:
            found = find_outliers(opened, where or "", neighbours=neighbours, space=space, progress=progress)
        told = _kept(opened, write, _values(found))
    _show(found, "outlier", told, limit, as_json)


@reported()
def select(
    count: Annotated[int, typer.Option("--count", "-k", min=1, help="How many episodes.")],
    method: Annotated[
        str, typer.Option("--method", help="k-center (rare ones too) or facility-location (typical ones).")
    ] = "k-center",
    where: WhereOption = None,
    space: SpaceOption = None,
    write: WriteOption = None,
    collection: CollectionOption = None,
    limit: LimitOption = 20,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Choose episodes that stand for all, in order: the first n of a choice are a choice of n.

    --write keeps each one's place in the order.
    """
    from bridge.curation.signals import select_subset

    with _opened(archive) as opened:
        found = select_subset(opened, count, where or "", method=method, space=space)
        told = _kept(opened, write, {one.episode.id: float(rank) for rank, one in enumerate(found, 1)})
        told += _collected(opened, collection, [one.episode.id for one in found])
    _show(found, "farthest" if method == "k-center" else "mean cosine", told, limit, as_json)


@reported()
def weights(
    target: Annotated[str, typer.Option("--target", "-t", help="A filter, or a collection: what it should look like.")],
    where: WhereOption = None,
    clip: Annotated[float, typer.Option("--clip", help="Weights are cut at so many times their mean.")] = 10.0,
    space: SpaceOption = None,
    write: WriteOption = None,
    collection: CollectionOption = None,
    limit: LimitOption = 20,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Weigh episodes so that they look like a target set; the mean weight is 1.

    --collection keeps them with these weights.
    """
    from bridge.curation.signals import weigh

    with _opened(archive) as opened:
        found = weigh(opened, _set(opened, target), where or "", clip=clip, space=space)
        told = _kept(opened, write, _values(found))
        told += _collected(opened, collection, [one.episode.id for one in found], _values(found))
    _show(found, "weight", told, limit, as_json)


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
    from bridge.progress import watched

    with _opened(archive) as opened:
        with watched() as progress:
            found = find_mislabeled(opened, label, where or "", neighbours=neighbours, space=space, progress=progress)
        told = _kept(opened, write, _values(found))
    _show(found, "doubt", told, limit, as_json, about="neighbours say")


@reported()
def evaluate(
    label: LabelOption,
    where: WhereOption = None,
    k: Annotated[int, typer.Option("--top", "-k", min=1, help="Hits that count for the recall.")] = 10,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say how good the search is on your labels: every episode asks for the others of its label, in every Space."""
    from bridge.curation.comparison import evaluate_label
    from bridge.query import describe

    with _opened(archive) as opened:
        found = evaluate_label(opened, label, where or "", k=k)
    if as_json:
        print_json(
            [
                {
                    "space": one.space.fingerprint,
                    "about": describe(one.space),
                    "episodes": one.episodes,
                    "labels": one.labels,
                    **vars(one.scores),
                }
                for one in found
            ]
        )
        return
    rows = []
    for one in found:
        scores = one.scores
        values = (
            scores.mean_average_precision,
            scores.precision_at_1,
            scores.precision_at_10,
            scores.recall_at_k,
        )
        counts = (str(scores.queries), str(one.labels))
        rows.append((*(f"{value:.3f}" for value in values), *counts, describe(one.space)))
    print_table((">mAP", ">P@1", ">P@10", f">recall@{k}", ">queries", ">labels", "space"), rows)


def _opened(archive: str | None) -> Archive:
    from bridge.archive import open_archive
    from catalog.location import archive_named

    return open_archive(archive_named(archive))


def _set(opened: Archive, text: str) -> Where:
    """Return the filter that is meant by a collection's name, a snapshot's hash, or by its text."""
    from catalog.filters import Compare
    from catalog.form_text import parse_where
    from wshard.errors import EntryNotFoundError

    try:
        opened.catalog.ancestors(text)
    except EntryNotFoundError:
        return parse_where(text)
    return Compare("collection", "eq", text)


def _some(opened: Archive, text: str) -> Where:
    """Return the filter that is meant; QueryError where nothing passes: a slip of the pen must not prove innocence."""
    from wshard.errors import QueryError

    chosen = _set(opened, text)
    if not opened.catalog.count(chosen):
        raise QueryError(f"expected a filter that episodes pass, or a collection with episodes, found {text!r}")
    return chosen


def _values(found: Sequence[Valued]) -> dict[int, float]:
    return {one.episode.id: one.value for one in found}


def _kept(opened: Archive, name: str | None, values: Mapping[int, float]) -> list[str]:
    if name is None:
        return []
    count = opened.catalog.set_scores(name, {id_: float(value) for id_, value in values.items()})
    return [f"score.{name} of {count} episodes was written"]


def _collected(
    opened: Archive, name: str | None, ids: Sequence[int], weight: Mapping[int, float] | None = None
) -> list[str]:
    from catalog.cli_curate import account
    from catalog.picks import Pick

    if name is None:
        return []
    rows = opened.catalog.rows(ids).values()
    picks = [Pick(row.uid, row.digest, 0, row.length, (weight or {}).get(row.id, 1.0)) for row in rows]
    kept = opened.catalog.save_snapshot(name, picks, who=account())
    return [f"collection {kept.name}: {len(picks)} picks, {kept.snapshot.hash if kept.snapshot else ''}"]


def _show(
    found: Sequence[Valued], heading: str, told: list[str], limit: int, as_json: bool, *, about: str | None = None
) -> None:
    if as_json:
        print_valued_json(found)
        return
    print_valued(found[:limit], heading, about=about)
    print_lines([f"{min(limit, len(found))} of {len(found)} episodes", *told])


VERBS = (duplicates, leaks, outliers, select, weights, mislabeled)
