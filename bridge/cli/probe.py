"""The verb `probe`: find episodes by a few that are right and some that are wrong."""

from __future__ import annotations

from typing import Annotated

import typer

from bridge.cli.options import SpaceOption
from catalog.cli.common import ArchiveOption, WhereOption, find_episode, print_table, shorten
from wshard.cli.common import JsonOption, print_json, printable, reported
from wshard.messages import plural


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
    from bridge.cli.curation_output import open_named
    from bridge.curation.probe import save_probe, train_probe
    from bridge.present.probe import present_probe
    from catalog.cli.annotate import account

    with open_named(archive) as opened:
        marked = [[find_episode(opened.catalog, name).id for name in names] for names in (right, wrong or [])]
        found = train_probe(opened, marked[0], marked[1], where or "", space=space)
        if write is not None:
            save_probe(opened, found, write, who=account())
    if as_json:
        print_json(present_probe(found, top=top))
        return
    result = present_probe(found, top=top)
    rows = [
        (str(one["rank"]), f"{one['value']:.3f}", one["episode_id"], one["env_id"], shorten(one["address"]))
        for one in result["items"]
    ]
    print_table((">rank", ">value", "episode", "env", "/file"), rows)
    measured = "" if found.precision is None else f"; precision {found.precision:.2f}, recall {found.recall or 0:.2f}"
    typer.echo(f"{found.positive} of {plural(result['total'], 'episode')} are positive{measured} (cross-validated)")
    if write is not None:
        typer.echo(f"saved as score.{printable(write)} and as the collection {printable(write)}")
