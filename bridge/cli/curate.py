"""Commands that curate a data set by its vectors: duplicates, leaks, outliers, select, weights."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.curation_output import (
    OutputOptions,
    parse_set,
    print_ranked,
    print_result,
    print_twins,
    report_compared,
    report_spaces,
    save_result,
    values_by_id,
)
from bridge.cli.options import CollectionOption, NeighboursOption, SpaceOption, WriteOption, open_named
from bridge.cli.output import print_lines
from catalog.cli.common import ArchiveOption, LimitOption, WhereOption, report_unknown
from wshard.cli.common import EXIT_FAILED, JsonOption, print_items, reported
from wshard.core.messages import plural

if TYPE_CHECKING:
    from bridge.archive import Archive
    from bridge.curation.signals import Valued
    from bridge.support.progress import Progress
    from catalog.filters.where import Where

RARE = 3  # robust standard deviations, see bridge/curation/outliers.py
WITHIN = 0.006  # as bridge/curation/duplicates.py has it, whose import would take time


class Method(StrEnum):
    """The methods of `wshard select`."""

    K_CENTER = "k-center"
    FACILITY_LOCATION = "facility-location"


WithinOption = Annotated[
    float, typer.Option("--within", min=0, help="Largest difference between copies, in standard deviations.")
]
PiecesOption = Annotated[
    bool, typer.Option("--pieces", help="Also find shared pieces of episodes (requires embedded windows).")
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
    """Find duplicate episodes: the same data, or copies that are noisy, trimmed or re-encoded.

    --write saves the group of every episode (`collection split --by score.NAME` then keeps groups together),
    --collection saves one episode of each group.
    """
    from bridge.curation.duplicates import find_duplicates, group_episodes
    from bridge.curation.shared_pieces import find_pieces
    from bridge.present.findings import group_twins, present_compared, present_group
    from bridge.support.progress import show_progress

    options = OutputOptions(write, collection)
    with open_named(archive) as opened:
        report_unknown(opened.catalog, where)
        with show_progress() as progress:
            found = find_duplicates(opened, where or "", within=within, progress=progress)
            if pieces:
                found = found.add(find_pieces(opened, where or "", within=within, progress=progress))
        groups = group_episodes(opened.catalog.query.ids(where or ""), found)
        lines = save_result(opened, options, groups, picks=[id_ for id_, group in groups.items() if id_ == group])
    pairs_by_group = group_twins(found, groups)
    if as_json:
        items = (present_group(group, pairs) for group, pairs in pairs_by_group.items())
        print_items(items, episodes=len(groups), **present_compared(found, pieces=pieces))
        return
    print_twins([twin for pairs in pairs_by_group.values() for twin in pairs][:limit])
    spare = len(groups) - len(set(groups.values()))
    print_lines([f"{plural(len(pairs_by_group), 'group')}; {spare} of {len(groups)} episodes are duplicates", *lines])
    report_compared(found, plural(len(groups), "episode"), pieces=pieces)


@reported()
def leaks(
    left: Annotated[str, typer.Argument(help="Filter or collection, e.g. the training set.")],
    right: Annotated[str, typer.Argument(help="Filter or collection, e.g. the test set.")],
    within: WithinOption = WITHIN,
    pieces: PiecesOption = False,
    collection: CollectionOption = None,
    limit: LimitOption = 20,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find episodes of the second set that are in the first or duplicate one of it.

    Exit 1 if there are any, if none of the set could be compared, or if files of a similar pair could not be read.
    Put filters that start with a minus sign after `--`. --collection saves the second set without these episodes.
    """
    from bridge.curation.duplicates import find_leaks
    from bridge.curation.shared_pieces import find_shared
    from bridge.present.findings import present_compared, present_pair
    from bridge.support.progress import show_progress

    with open_named(archive) as opened:
        left_set, right_set = (_parse_nonempty_set(opened, text) for text in (left, right))
        with show_progress() as progress:
            found = find_leaks(opened, left_set, right_set, within=within, progress=progress)
            if pieces:
                found = found.add(find_shared(opened, left_set, right_set, within=within, progress=progress))
        leaked = {twin.right.id for twin in found}
        tested = opened.catalog.query.ids(right_set)
        remaining = [id_ for id_ in tested if id_ not in leaked]
        lines = save_result(opened, OutputOptions(collection=collection), {}, picks=remaining)
    if as_json:
        about = {"leaked": len(leaked), "episodes": len(tested)}
        about |= present_compared(found, pieces=pieces)
        print_items(map(present_pair, found), **about)
    else:
        print_twins(found[:limit])
        tested_set = f"{len(tested)} episodes of the second set"
        print_lines([f"{len(leaked)} of {tested_set} are in the first, or duplicate one there", *lines])
        report_compared(found, tested_set, pieces=pieces)
    if found or found.unread or found.alone == len(tested):
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
    """Rank episodes by distance from all others of similar length; values above 3 are rare."""
    from bridge.curation.outliers import LEAST
    from bridge.curation.signals import find_outliers

    def find(opened: Archive, progress: Progress) -> list[Valued]:
        report_spaces(opened, where, space, least=LEAST)
        return find_outliers(opened, where or "", neighbours=neighbours, space=space, progress=progress)

    options = OutputOptions(write, limit=limit, as_json=as_json)
    print_ranked(archive, options, "outlier", find, beyond=(RARE, ", which is rare"))


@reported()
def select(
    count: Annotated[int, typer.Option("--count", "-k", min=1, help="Number of episodes.")],
    method: Annotated[
        Method, typer.Option("--method", help="k-center (covers rare episodes) or facility-location (typical ones).")
    ] = Method.K_CENTER,
    where: WhereOption = None,
    space: SpaceOption = None,
    write: WriteOption = None,
    collection: CollectionOption = None,
    limit: LimitOption = 20,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Select a representative subset; results are nested, so any prefix is valid.

    --write saves the rank of each selected episode.
    """
    from bridge.curation.signals import select_subset

    options = OutputOptions(write, collection, limit, as_json)
    with open_named(archive) as opened:
        report_spaces(opened, where, space)
        subset = select_subset(opened, count, where or "", method=method, space=space)
        ranks = {one.episode.id: rank for rank, one in enumerate(subset, 1)}
        lines = save_result(opened, options, ranks, picks=ranks)
        if len(subset) < count:
            typer.echo(f"only {plural(len(subset), 'episode')} to select from, {count} requested", err=True)
        print_result(opened, subset, "farthest" if method is Method.K_CENTER else "mean cosine", options, lines)


@reported()
def weights(
    target: Annotated[str, typer.Option("--target", "-t", help="Filter or collection to match.")],
    where: WhereOption = None,
    clip: Annotated[float, typer.Option("--clip", help="Largest weight, as a multiple of the mean.")] = 10.0,
    space: SpaceOption = None,
    write: WriteOption = None,
    collection: CollectionOption = None,
    limit: LimitOption = 20,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Weight episodes so that their distribution matches a target set; the mean weight is 1.

    --collection saves the episodes with their weights.
    """
    from bridge.curation.signals import weigh

    if not clip > 1:
        raise typer.BadParameter(f"--clip: expected a number above 1, found {clip}")
    options = OutputOptions(write, collection, limit, as_json)
    with open_named(archive) as opened:
        report_spaces(opened, where, space)
        weighted = weigh(opened, parse_set(opened, target), where or "", clip=clip, space=space)
        values = values_by_id(weighted)
        lines = save_result(opened, options, values, picks=values, weights=values)
        print_result(opened, weighted, "weight", options, lines)


def _parse_nonempty_set(opened: Archive, text: str) -> Where:
    """Return the filter; raises QueryError where no episode passes, as a typing error must not look like no leak."""
    from wshard.errors import QueryError

    chosen = parse_set(opened, text)
    if not opened.catalog.query.count(chosen):
        raise QueryError(f"expected a filter or collection that matches episodes, found none for {text!r}")
    return chosen
