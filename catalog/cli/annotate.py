"""Verbs that annotate episodes: tag, note, review."""

from __future__ import annotations

import getpass
import os
from dataclasses import asdict
from typing import Annotated

import typer

from catalog.cli.common import ArchiveOption, WhereOption, episode_ids, open_catalog, print_table
from wshard.cli.common import JsonOption, print_items, printable, reported
from wshard.messages import plural

EpisodesArgument = Annotated[list[str] | None, typer.Argument(help="Episode ids, uids or files.", show_default=False)]
WhoOption = Annotated[str | None, typer.Option("--who", help="Your name (default: that of your account).")]


@reported()
def tag(
    name: Annotated[str, typer.Argument(help="The tag.")],
    episodes: EpisodesArgument = None,
    where: WhereOption = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the tag off.")] = False,
    archive: ArchiveOption = None,
) -> None:
    """Tag episodes, or take a tag off them."""
    with open_catalog(archive) as catalog:
        ids = episode_ids(catalog, episodes or [], where)
        count = catalog.annotations.untag(ids, name) if remove else catalog.annotations.tag(ids, name)
    typer.echo(f"{count} of {len(ids)} episodes {'had' if remove else 'got'} the tag {printable(name)}")


@reported()
def note(
    text: Annotated[str | None, typer.Argument(help="What to write.", show_default=False)] = None,
    episodes: EpisodesArgument = None,
    where: WhereOption = None,
    remove: Annotated[int | None, typer.Option("--remove", help="Take away the note of this id instead.")] = None,
    who: WhoOption = None,
    archive: ArchiveOption = None,
) -> None:
    """Write a note about episodes; its words are found by full text. `wshard show` lists notes with their ids."""
    with open_catalog(archive) as catalog:
        if remove is not None:
            if text is not None or episodes or where is not None:
                raise typer.BadParameter("expected --remove ID alone: an id names one note of one episode")
            catalog.annotations.remove_note(remove)
            typer.echo(f"note {remove} is gone")
            return
        if text is None:
            raise typer.BadParameter("expected the text of the note")
        done = catalog.annotations.add_note(episode_ids(catalog, episodes or [], where), text, who=account(who))
    typer.echo(f"{plural(len(done), 'episode')} got the note")


@reported()
def review(
    state: Annotated[str | None, typer.Argument(help="accepted, rejected, ...", show_default=False)] = None,
    episodes: EpisodesArgument = None,
    where: WhereOption = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take back the last review; name only episodes.")] = False,
    audit: Annotated[bool, typer.Option("--audit", help="Show all reviews; name only episodes.")] = False,
    who: WhoOption = None,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring episodes into a review state, take that back, or show the audit."""
    if undo and audit:
        raise typer.BadParameter("expected --undo or --audit, not both")
    named = [*([state] if (undo or audit) and state is not None else []), *(episodes or [])]
    with open_catalog(archive) as catalog:
        ids = episode_ids(catalog, named, where)
        if audit:
            entries = catalog.annotations.audit(ids)
        elif undo:
            entries = catalog.annotations.undo_review(ids, who=account(who))
        elif state is None:
            raise typer.BadParameter("expected a review state")
        else:
            entries = catalog.annotations.review(ids, state, who=account(who))
        names = {
            row.id: row.episode_id for row in catalog.episodes.rows({entry.episode_id for entry in entries}).values()
        }
    if as_json:
        print_items(map(asdict, entries), episodes=len(ids))
        return
    if audit:
        rows = [
            (names[e.episode_id], e.state or "(none)", e.who, e.at, "" if e.undoes is None else "undone")
            for e in entries
        ]
        print_table(("episode", "state", "who", "when", ""), rows)
    typer.echo(plural(len(entries), "review") if audit else f"{len(entries)} of {len(ids)} episodes changed")


def account(who: str | None = None) -> str:
    """Return who is speaking: the name given, or that of the account."""
    if who is not None:
        return who
    try:
        return os.fsencode(getpass.getuser()).decode(errors="replace")
    except (KeyError, OSError):  # an account without a name
        return ""
