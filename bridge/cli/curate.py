"""The verbs that look after a data set by its vectors: duplicates, leaks, outliers, select, weights."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.findings import as_group, as_pair, by_group, print_lines, print_twins
from bridge.cli.output import (
    CollectionOption,
    LimitOption,
    NeighboursOption,
    SpaceOption,
    Wanted,
    WriteOption,
    by_id,
    keep,
    opened,
    rank,
    set_named,
    show,
    space_told,
)
from catalog.cli.common import ArchiveOption, WhereOption
from wshard.cli.common import EXIT_FAILED, JsonOption, print_items, reported
from wshard.messages import plural

if TYPE_CHECKING:
    from bridge.archive import Archive
    from bridge.curation.signals import Valued
    from bridge.support.progress import Progress
    from catalog.filters.where import Where

RARE = 3  # robust standard deviations, see bridge/curation/outliers.py
WITHIN = 0.006  # as bridge/curation/duplicates.py has it, whose import would take time


class Method(StrEnum):
    """How `wshard select` chooses."""

    K_CENTER = "k-center"
    FACILITY_LOCATION = "facility-location"


WithinOption = Annotated[
    float, typer.Option("--within", min=0, help="Difference up to which recordings count as one, in deviations.")
]
PiecesOption = Annotated[
    bool, typer.Option("--pieces", help="Find shared pieces of episodes too (needs windows of several sizes).")
]


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
    from bridge.curation.shared_pieces import find_pieces
    from bridge.support.progress import watched

    wanted = Wanted(write, collection)
    with opened(archive) as held:
        with watched() as progress:
            twins = find_duplicates(held, where or "", within=within, progress=progress)
            if pieces:
                twins = each_once([*twins, *find_pieces(held, where or "", within=within, progress=progress)])
        groups = group_of(held.catalog.query.ids(where or ""), twins)
        told = keep(held, wanted, groups, picks=[id_ for id_, group in groups.items() if id_ == group])
    found = by_group(twins, groups)
    if as_json:
        print_items((as_group(group, pairs) for group, pairs in found.items()), episodes=len(groups))
        return
    print_twins([twin for pairs in found.values() for twin in pairs][:limit])
    spare = len(groups) - len(set(groups.values()))
    print_lines([f"{plural(len(found), 'group')}; {spare} of {len(groups)} episodes are a copy of another", *told])


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
    from bridge.curation.shared_pieces import find_shared
    from bridge.support.progress import watched

    with opened(archive) as held:
        mine, others = (_some(held, text) for text in (left, right))
        with watched() as progress:
            twins = find_leaks(held, mine, others, within=within, progress=progress)
            if pieces:
                twins = each_once([*twins, *find_shared(held, mine, others, within=within, progress=progress)])
        leaked = {twin.right.id for twin in twins}
        tested = held.catalog.query.ids(others)
        told = keep(held, Wanted(collection=collection), {}, picks=[id_ for id_ in tested if id_ not in leaked])
    if as_json:
        print_items(map(as_pair, twins), leaked=len(leaked), episodes=len(tested))
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

    def find(held: Archive, progress: Progress) -> list[Valued]:
        return find_outliers(
            held, where or "", neighbours=neighbours, space=space_told(held, where, space), progress=progress
        )

    wanted = Wanted(write, limit=limit, as_json=as_json)
    rank(archive, wanted, "outlier", find, beyond=(RARE, ", which is rare"))


@reported()
def select(
    count: Annotated[int, typer.Option("--count", "-k", min=1, help="How many episodes.")],
    method: Annotated[
        Method, typer.Option("--method", help="k-center (rare ones too) or facility-location (typical ones).")
    ] = Method.K_CENTER,
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

    wanted = Wanted(write, collection, limit, as_json)
    with opened(archive) as held:
        found = select_subset(held, count, where or "", method=method, space=space_told(held, where, space))
        ranks = {one.episode.id: rank for rank, one in enumerate(found, 1)}
        told = keep(held, wanted, ranks, picks=ranks)
    show(found, "farthest" if method is Method.K_CENTER else "mean cosine", wanted, told)


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

    if not clip > 1:
        raise typer.BadParameter(f"--clip: expected a number above 1, found {clip}")
    wanted = Wanted(write, collection, limit, as_json)
    with opened(archive) as held:
        found = weigh(held, set_named(held, target), where or "", clip=clip, space=space_told(held, where, space))
        values = by_id(found)
        told = keep(held, wanted, values, picks=values, weights=values)
    show(found, "weight", wanted, told)


def _some(held: Archive, text: str) -> Where:
    """Return the filter that is meant; QueryError where nothing passes: a slip of the pen must not prove innocence."""
    from wshard.errors import QueryError

    chosen = set_named(held, text)
    if not held.catalog.query.count(chosen):
        raise QueryError(f"expected a filter that episodes pass, or a collection with episodes, found {text!r}")
    return chosen


VERBS = (duplicates, leaks, outliers, select, weights)
